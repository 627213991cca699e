package metal

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fettle-io/fettle/api/fettle/v1alpha1"
	"github.com/fettle-io/fettle/internal/selffence"
	"github.com/fettle-io/fettle/test/cluster"
)

// TestPowerAndPromise: where a FencePolicy requires both, a node is released once its host is off and its promise has expired, and not before. The
// Leases are written by hand, with the rights of agents, so that no agent resets a host before its power is off.
func TestPowerAndPromise(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.allowSelfFencing(t)
	s.StartFettle(t)
	beside := cluster.Beside(t)
	defer beside.Wait()
	for name, story := range map[string]func(*selfFenced){
		"both-move": movesByBoth, "both-hold": isHeldByItsPromise, "both-bmc": isHeldByItsPower, "both-orphan": isFreedAfterForce, "both-none": promisesNothingTimed,
	} {
		beside.Run(name, func(t *testing.T) {
			story(&selfFenced{pool: s.newPool(t, name)})
		})
	}
}

// Promises that nothing renews: of 7.35 seconds, and of hours.
var (
	briefly = selffence.Times{Validity: time.Second, Watchdog: 2 * time.Second}
	forLong = selffence.Times{Validity: time.Hour, Watchdog: 10 * time.Second}
)

// requiresBoth creates a policy of the pool that requires both, and has the first node promise for a time.
func (s *selfFenced) requiresBoth(times selffence.Times) {
	s.Helper()
	s.Apply(s.T, fmt.Sprintf(`apiVersion: fettle.io/v1alpha1
kind: FencePolicy
metadata: {name: %[1]s}
spec: {nodeSelector: {matchLabels: {pool: %[1]s}}, onIsolation: Reset, witnesses: 3, requiredProof: PowerAndPromise}
`, s.name))
	s.promisesByHand(selffence.Promise{Timed: times != selffence.Times{}, Times: times})
}

// isOff waits until the host of the first node is off.
func (s *selfFenced) isOff() {
	s.Helper()
	s.Eventually(s.T, "power of "+s.first(), func(ctx context.Context) error {
		if at := s.node(ctx, s.first()).Annotations[sandboxes+"host-power"]; at != "off" {
			return fmt.Errorf("it is %q", at)
		}
		return nil
	})
}

// movesByBoth: a health check has the node fenced by both, its pod runs elsewhere and never twice, and the Repair keeps the proof.
func movesByBoth(s *selfFenced) {
	s.requiresBoth(briefly)
	s.healthCheck()
	boot := s.node(cluster.Context(s.T), s.first()).Status.NodeInfo.BootID
	s.takesNoMore(s.first())
	s.hangs(s.first())
	s.runsOn(s.second())
	s.isBack(s.first(), boot)
	s.Eventually(s.T, "Repair of "+s.first(), func(ctx context.Context) error {
		var repairs v1alpha1.RepairList
		if err := s.List(ctx, &repairs); err != nil {
			return err
		}
		for i := range repairs.Items {
			r := &repairs.Items[i]
			if r.Spec.Target.Name == s.first() && r.Status.Phase == v1alpha1.RepairSucceeded && len(r.Status.Evidence) == 1 && r.Status.Evidence[0].Method == "PowerOffAndPromiseExpired" {
				return nil
			}
		}
		return fmt.Errorf("no Repair of the node has that proof: %+v", repairs.Items)
	})
	s.leaseSays(selffence.Withdrawn)
	s.isRestored(s.first())
	s.ranTimes(2)
}

// isHeldByItsPromise: a host that is off releases nothing while the promise stands. No SelfFenceRemediation begins at such a node. A deletion takes
// all of it back.
func isHeldByItsPromise(s *selfFenced) {
	s.requiresBoth(forLong)
	boot := s.node(cluster.Context(s.T), s.first()).Status.NodeInfo.BootID
	s.hangs(s.first())
	s.remediates(s.first(), v1alpha1.PowerRemediationSpec{})
	s.isOff()
	s.waitsFor(s.first(), "PromiseStands")
	s.leaseSays(selffence.Condemned)
	s.isNotReleased(s.first())
	self := &v1alpha1.SelfFenceRemediation{}
	self.Namespace, self.Name = namespace, s.first()
	if err := s.Create(cluster.Context(s.T), self); err != nil {
		s.Fatal(err)
	}
	s.Eventually(s.T, "refusal", func(ctx context.Context) error {
		if err := s.Get(ctx, client.ObjectKeyFromObject(self), self); err != nil {
			return err
		}
		for _, c := range self.Status.Conditions {
			if c.Type == v1alpha1.SucceededCondition && c.Reason == v1alpha1.CannotStartPowerRequiredReason && strings.Contains(c.Message, "FencePolicy "+s.name) {
				return nil
			}
		}
		return fmt.Errorf("%+v", self.Status)
	})
	s.isNotReleased(s.first())
	s.ends(s.first())
	s.leaseSays(selffence.Withdrawn)
	s.isRestored(s.first())
	s.isBack(s.first(), boot)
	s.ranAlone()
}

// isHeldByItsPower: a promise that has expired releases nothing while the BMC doesn't answer.
func isHeldByItsPower(s *selfFenced) {
	s.requiresBoth(briefly)
	s.faults(s.first(), `{"hangs":true}`)
	s.hangs(s.first())
	s.remediates(s.first(), v1alpha1.PowerRemediationSpec{Retries: new(int32), PowerOffTimeout: seconds(30), PowerOnTimeout: seconds(15)})
	r := s.inPhase(s.first(), "Failed")
	if said := conditionsOf(r); !strings.Contains(said, "Succeeded=False PowerOffTimedOut") || r.Status.Proof != nil || r.Status.RequiredProof != v1alpha1.PowerAndPromise {
		s.Errorf("it is %+v: %s", r.Status, said)
	}
	s.leaseSays(selffence.Condemned)
	s.isNotReleased(s.first())
	s.faults(s.first(), "")
	s.ends(s.first())
	s.leaseSays(selffence.Withdrawn)
	s.ranAlone()
}

// isFreedAfterForce: the remediation is removed by force while the node is condemned. Fettle frees the Lease all the same.
func isFreedAfterForce(s *selfFenced) {
	s.requiresBoth(forLong)
	s.hangs(s.first())
	s.remediates(s.first(), v1alpha1.PowerRemediationSpec{})
	s.waitsFor(s.first(), "PromiseStands")
	s.Eventually(s.T, "removal of the remediation of "+s.first(), func(ctx context.Context) error {
		r, err := s.remediation(ctx, s.first())
		if err != nil {
			return err
		}
		r.Finalizers = nil
		r.Annotations = map[string]string{"example.org/removed": "by-force"}
		if err := s.Update(ctx, r); err != nil {
			return err
		}
		uid, revision := r.UID, r.ResourceVersion // without a finalizer it goes at once
		return s.Delete(ctx, r, client.Preconditions{UID: &uid, ResourceVersion: &revision})
	})
	s.leaseSays(selffence.Withdrawn)
}

// promisesNothingTimed: a node whose promise is not timed is left alone, and the remediation says why.
func promisesNothingTimed(s *selfFenced) {
	s.requiresBoth(selffence.Times{})
	s.hangs(s.first())
	s.remediates(s.first(), v1alpha1.PowerRemediationSpec{})
	s.Eventually(s.T, "refusal", func(ctx context.Context) error {
		r, err := s.remediation(ctx, s.first())
		if err != nil {
			return err
		}
		if said := conditionsOf(r); !strings.Contains(said, "Succeeded=False "+v1alpha1.CannotStartPromiseNotTimedReason) || r.Status.Phase != "" {
			return errors.New(r.Status.Phase + said)
		}
		return nil
	})
	s.isNotReleased(s.first())
	s.isRestored(s.first())
	s.ranTimes(1)
}
