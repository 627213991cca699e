package faults

import (
	"context"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/fettle-io/fettle/api/openshift/v1beta1"
	"github.com/fettle-io/fettle/test/cluster"
)

// threeInDeletion breaks ten of fourteen machines, and returns when three of them are in deletion. That is the limit,
// and they stay so.
func (s *machineFixture) threeInDeletion() {
	s.t.Helper()
	s.hold()
	ill := names("ill", 10)
	s.addMachines(append(names("well", 4), ill...))
	s.healthCheck("example", 3)
	s.StartFettle(s.t)
	s.wantStatus("example", 14, 14, "")
	s.longBroken(ill)
	s.wantDeleting(3)
}

// theRestStays: running deletions end, and no new one begins.
func (s *machineFixture) theRestStays() {
	s.t.Helper()
	s.drainAll(0)
	s.wantGone(3)
	s.Never(s.t, "no other deletion", quiet, s.onlyGone(3))
	s.wantEnded()
	s.verify(3)
	s.tellsTheTruth()
}

// wantEnded waits until no repair runs.
func (s *machineFixture) wantEnded() {
	s.t.Helper()
	s.Eventually(s.t, "all repairs have ended", func(ctx context.Context) error {
		repairs, err := s.listRepairs(ctx)
		for i := range repairs {
			if repairs[i].Status.FinishedAt == nil {
				err = fmt.Errorf("repair %s is %s", repairs[i].Name, repairs[i].Status.Phase)
			}
		}
		return err
	})
}

// healthCheckDeleted: without the health check no new repair begins, and running ones end.
func healthCheckDeleted(s *machineFixture) {
	s.threeInDeletion()
	s.deleteCheck("example")
	s.barrier()
	s.theRestStays()
}

// selectorChanged: Fettle leaves machines alone that the health check no longer selects.
func selectorChanged(s *machineFixture) {
	s.threeInDeletion()
	s.edit("example", map[string]any{"selector": map[string]any{"matchLabels": map[string]any{"role": "nobody"}}})
	s.wantStatus("example", 0, 0, "")
	s.theRestStays()
}

func (s *machineFixture) edit(check string, spec map[string]any) {
	s.t.Helper()
	s.must("editing the health check", s.Patch(cluster.Context(s.t), s.check(check), merge(map[string]any{"spec": spec})))
}

// TestHealthCheckEditedToNonsense: a cluster with its own definition accepts nonsense for a health check. All repairs
// that have not begun wait until the health check is mended.
func TestHealthCheckEditedToNonsense(t *testing.T) {
	t.Parallel()
	c := cluster.Start(t, cluster.Options{Args: []string{"--controllers=*,-node-lifecycle-controller"}})
	c.Apply(t, lenient(v1beta1.GroupVersion.WithKind("MachineHealthCheck"), "Namespaced", ""))
	c.InstallFettle(t)
	s := newMachineFixture(t, c, "nonsense")
	s.threeInDeletion()
	good := []any{map[string]any{"type": "Ready", "status": "False", "timeout": short.String()}}
	for _, nonsense := range []any{7, []any{map[string]any{"type": "Ready", "status": "False", "timeout": "soon"}}, "Ready"} {
		s.edit("example", map[string]any{"unhealthyConditions": nonsense})
		s.wantReason("example", v1beta1.InvalidSpecReason)
	}
	s.drainAll(100 * time.Millisecond)
	s.wantGone(3)
	s.Never(t, "no other deletion", quiet, s.onlyGone(3))
	s.edit("example", map[string]any{"unhealthyConditions": good})
	s.wantRepaired()
	s.wantStatus("example", 4, 4, "")
	s.verify(3)
	s.tellsTheTruth()
}

func (s *machineFixture) wantReason(check, reason string) {
	s.t.Helper()
	s.Eventually(s.t, check+" is "+reason, func(ctx context.Context) error {
		u := s.check(check) // the test's version of it need not fit the type
		if err := s.Get(ctx, keyOf(u), u); err != nil {
			return err
		}
		conditions, _, err := unstructured.NestedSlice(u.Object, "status", "conditions")
		if err != nil || len(conditions) != 1 || conditions[0].(map[string]any)["reason"] != reason {
			return fmt.Errorf("conditions are %v (%w)", conditions, err)
		}
		return nil
	})
}

// scaledDown: a user deletes machines while repairs run: broken ones, waiting ones, ones in deletion, and healthy ones.
func scaledDown(s *machineFixture) {
	s.threeInDeletion()
	var waiting []string
	for _, name := range names("ill", 10) {
		if !s.isDeleting(name) {
			waiting = append(waiting, name)
		}
	}
	s.deleteOurselves(append(waiting[:3:3], "well-00", "well-01"))
	s.wantDeleting(3 + 5)
	s.Never(s.t, "no other deletion", quiet, s.onlyGone(3+5))
	s.drainAll(100 * time.Millisecond)
	s.wantRepaired()
	s.wantStatus("example", 2, 2, "")
	s.verify(3)
	s.tellsTheTruth()
}

// machineGoneBeforeItsRepair: another client deletes the machine when its repair is recorded, and again when Fettle's
// deletion is on its way.
func machineGoneBeforeItsRepair(s *machineFixture) {
	proxy, kubeconfig := s.throughProxy()
	s.addMachines(names("m", 5))
	s.healthCheck("example", unlimited)
	s.StartFettleWith(s.t, kubeconfig)
	s.wantStatus("example", 5, 5, "")
	deletions := proxy.Inject(s.t, cluster.Fault{Method: "DELETE", Path: s.machinesHere() + "/.*", Stall: true})
	s.longBroken([]string{"m-00", "m-01", "m-02"})
	s.wantHits("a deletion", deletions, 3)
	s.deleteOurselves([]string{"m-00", "m-01"})
	s.wantGone(2)
	// A new machine takes the name of one of them.
	ctx := cluster.Context(s.t)
	s.must("mending the node", s.setReady(ctx, "m-01", corev1.ConditionTrue, time.Now()))
	s.must("making the namesake", s.addMachine(ctx, "m-01", s.node("m-01").GetName()))
	deletions.End()
	s.wantRepaired()
	s.wantStatus("example", 3, 3, "")
	s.Never(s.t, "nothing else is deleted", quiet, s.onlyGone(3))
	s.verify(unlimited)
	s.tellsTheTruth()
}
