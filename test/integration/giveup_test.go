package integration

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fettle-io/fettle/api/fettle/annotation"
	"github.com/fettle-io/fettle/api/fettle/v1alpha1"
	"github.com/fettle-io/fettle/api/openshift/v1beta1"
	"github.com/fettle-io/fettle/test/cluster"
)

// TestPoolsAreGivenUp: machines that never join are replaced as often as the health check allows, after pauses that
// grow. Then Fettle gives up their machine set, and others go on. A user has it resumed by the annotation, and then by
// another template.
func TestPoolsAreGivenUp(t *testing.T) {
	t.Parallel()
	c := cluster.Start(t, cluster.Options{Args: []string{"--machine-api"}})
	c.InstallFettle(t)
	metrics := cluster.FreeAddress(t)
	token := c.MetricsReader(t)
	fettle := c.StartFettle(t, "--metrics-bind-address="+metrics)
	c.Namespace(t, "lost")
	f := &machineFixture{Cluster: c, t: t, namespace: "lost"}
	const base, limit, tries = 2 * time.Second, 4 * time.Second, 3
	f.healthCheck("example", map[string]string{
		annotation.BackoffBase: base.String(), annotation.BackoffLimit: limit.String(),
		annotation.GiveUpAfter: fmt.Sprint(tries), annotation.MaxInFlight: "unlimited",
	}, readyCheck("nodeStartupTimeout: "+lostAfter.String()))
	c.Apply(t, lostMachineSet)

	f.wantGivenUp("never")
	repairs := f.wantPoolRepairs("never", tries)
	for i, pause := range []time.Duration{base, limit} {
		// A machine is created when the one before it is gone, and creation times are whole seconds.
		if gap := repairs[i+1].Spec.StartedAt.Sub(repairs[i].Spec.StartedAt.Time); gap < lostAfter+pause-time.Second {
			t.Errorf("repair %d began %s after the one before, want the startup timeout and a pause of %s", i+2, gap, pause)
		}
	}
	f.wantWarning("RemediationHeldPoolGivenUp")
	s := &scraper{machineFixture: f, url: "https://" + metrics + "/metrics", token: token}
	s.wantSeries("the pool that is given up", map[string]float64{`fettle_refusals{gate="PoolGivenUp",namespace="lost",policy="example"}`: 1})
	f.wantAnswer("status", "PoolGivenUp")
	f.wantAnswer("explain machine/"+f.machineOfSet("never"), "PoolGivenUp (example): 3 replacements in a row have failed, so this pool is given up", "fettle.io/resumed-at")

	// The Fettle that repairs the other pool has seen the first.
	c.Apply(t, strings.ReplaceAll(brokenMachineSet, "namespace: loop", "namespace: lost"))
	f.wantPoolRepairs("spot", 2)
	f.wantPoolRepairs("never", tries)

	f.annotate(f.check("example"), annotation.ResumedAt, time.Now().UTC().Format(time.RFC3339))
	f.wantPoolRepairs("never", 2*tries)
	f.wantGivenUp("never")
	f.wantPoolRepairs("never", 2*tries)

	// Without Fettle the machine stays, so that there is time to run commands.
	fettle.Stop(t)
	set := object("machine.openshift.io/v1beta1", "MachineSet", "lost", "never")
	given := f.wantAnswer("explain machine/"+f.machineOfSet("never"), "PoolGivenUp")
	f.mergeSpec(set, `{"spec":{"template":{"spec":{"providerSpec":{"value":{"joins":true}}}}}}`)
	if resumed := f.wantAnswer("explain machine/" + f.machineOfSet("never")); strings.Contains(resumed, "PoolGivenUp") {
		t.Errorf("after a change of the template explain still says PoolGivenUp:\n%s\nBefore it said:\n%s", resumed, given)
	}
	c.StartFettle(t)
	after := f.wantPoolRepairs("never", 2*tries+1)[2*tries]
	if after.Spec.Retry != 0 {
		t.Errorf("the repair after another template is retry %d, want a new series", after.Spec.Retry)
	}
	f.Eventually(t, "the machine of the new template joins", func(ctx context.Context) error {
		var mhc v1beta1.MachineHealthCheck
		err := f.Get(ctx, types.NamespacedName{Namespace: f.namespace, Name: "example"}, &mhc)
		if err == nil && (mhc.Status.CurrentHealthy == nil || *mhc.Status.CurrentHealthy != 1) {
			err = fmt.Errorf("status is %+v", mhc.Status)
		}
		return err
	})
}

// lostAfter is the startup timeout of machines that never join. Other machines are up long before.
const lostAfter = 8 * time.Second

const lostMachineSet = `
apiVersion: machine.openshift.io/v1beta1
kind: MachineSet
metadata: {name: never, namespace: lost}
spec:
  replicas: 1
  selector: {matchLabels: {set: never}}
  template:
    metadata:
      labels: {set: never, role: worker, machine.openshift.io/cluster-api-cluster: test}
    spec:
      providerSpec:
        value: {apiVersion: sandbox.fettle.io/v1alpha1, kind: SimulatedProviderSpec, joins: false}
`

// wantPoolRepairs waits until the machines of a set have been repaired so often, and returns these repairs in order. It
// fails the test if there are more.
func (f *machineFixture) wantPoolRepairs(set string, n int) []v1alpha1.Repair {
	f.t.Helper()
	var found []v1alpha1.Repair
	f.Eventually(f.t, fmt.Sprintf("%d repairs of machine set %s", n, set), func(ctx context.Context) error {
		var list v1alpha1.RepairList
		if err := f.List(ctx, &list, client.InNamespace(f.namespace)); err != nil {
			return err
		}
		found = slices.DeleteFunc(list.Items, func(r v1alpha1.Repair) bool { return r.Spec.Owner == nil || r.Spec.Owner.Name != set })
		if len(found) < n {
			return fmt.Errorf("there are %d", len(found))
		}
		return nil
	})
	slices.SortFunc(found, func(a, b v1alpha1.Repair) int { return a.Spec.StartedAt.Compare(b.Spec.StartedAt.Time) })
	if len(found) > n && set == "never" {
		f.t.Fatalf("there are %d repairs of machine set %s, want %d", len(found), set, n)
	}
	return found
}

// wantGivenUp waits until the health check says that Fettle has given up a machine set, and how to resume it.
func (f *machineFixture) wantGivenUp(set string) {
	f.t.Helper()
	f.Eventually(f.t, "machine set "+set+" is given up", func(ctx context.Context) error {
		var mhc v1beta1.MachineHealthCheck
		if err := f.Get(ctx, types.NamespacedName{Namespace: f.namespace, Name: "example"}, &mhc); err != nil {
			return err
		}
		at := slices.IndexFunc(mhc.Status.Conditions, func(c v1beta1.Condition) bool { return c.Type == v1beta1.RemediationAllowedCondition })
		if at < 0 {
			return errors.New("there is no condition")
		}
		c := mhc.Status.Conditions[at]
		pools, _, _ := strings.Cut(c.Message, ";")
		command := "kubectl annotate --overwrite -n lost machinehealthchecks.machine.openshift.io example fettle.io/resumed-at="
		if c.Status != string(corev1.ConditionTrue) || c.Reason != "PoolGivenUp" || !strings.Contains(pools, set) || !strings.Contains(c.Message, command) {
			return fmt.Errorf("the condition is %s, %s: %s", c.Status, c.Reason, c.Message)
		}
		return nil
	})
}

func (f *machineFixture) wantWarning(reason string) {
	f.t.Helper()
	f.Eventually(f.t, "warning "+reason, func(ctx context.Context) error {
		var list eventsv1.EventList
		if err := f.List(ctx, &list, client.InNamespace(f.namespace)); err != nil {
			return err
		}
		for i := range list.Items {
			if e := &list.Items[i]; e.Reason == reason && e.Type == corev1.EventTypeWarning {
				return nil
			}
		}
		return errors.New("there is none")
	})
}

// machineOfSet returns the name of the machine of a machine set.
func (f *machineFixture) machineOfSet(set string) string {
	f.t.Helper()
	list := &unstructured.UnstructuredList{}
	list.SetAPIVersion("machine.openshift.io/v1beta1")
	list.SetKind("MachineList")
	if err := f.List(cluster.Context(f.t), list, client.InNamespace(f.namespace), client.MatchingLabels{"set": set}); err != nil || len(list.Items) != 1 {
		f.t.Fatalf("machine set %s has %d machines (%v)", set, len(list.Items), err)
	}
	return list.Items[0].GetName()
}
