package integration

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/fettle-io/fettle/api/fettle/annotation"
	"github.com/fettle-io/fettle/test/cluster"
)

// TestFailedMachinesBackOff runs the loop of docs/reference/proposals.md#autoscaler-scenarios: a machine set whose
// machines all fail to launch, and a health check that deletes Failed machines at once. The deletions must slow down to
// one per limit. A controller that watches the machine set for longer than that then sees a machine that stays Failed.
func TestFailedMachinesBackOff(t *testing.T) {
	t.Parallel()
	c := cluster.Start(t, cluster.Options{Args: []string{"--machine-api"}})
	c.InstallFettle(t)
	c.StartFettle(t)
	c.Namespace(t, "loop")
	const base, limit = time.Second, 4 * time.Second
	f := &machineFixture{Cluster: c, t: t, namespace: "loop"}
	f.healthCheck("example", map[string]string{
		annotation.BackoffBase: base.String(), annotation.BackoffLimit: limit.String(),
		annotation.MaxInFlight: "unlimited",
	}, readyCheck())
	c.Apply(t, brokenMachineSet)

	const enough = 6
	var deleted []time.Time
	c.Eventually(t, "deletions go on", func(context.Context) error {
		deleted = deletions(f)
		if len(deleted) < enough {
			return fmt.Errorf("%d deletions", len(deleted))
		}
		return nil
	})
	wait := base
	for i := 1; i < len(deleted); i++ {
		gap := deleted[i].Sub(deleted[i-1])
		t.Logf("deletion %d came %s after the one before", i+1, gap)
		// Fettle records the repair between the decision and the request. The time for that varies.
		if gap < wait-base/2 {
			t.Errorf("deletion %d came %s after the one before, want at least %s", i+1, gap, wait)
		}
		wait = min(2*wait, limit)
	}
	f.wantEventAboutSomeMachine("RemediationHeldBackingOff")
}

func deletions(f *machineFixture) []time.Time {
	var at []time.Time
	for _, r := range f.Requests(f.t) {
		if r.Verb == "delete" && r.Resource == "machines" && r.Namespace == f.namespace && r.Code == 200 {
			at = append(at, r.At)
		}
	}
	return at
}

func (f *machineFixture) wantEventAboutSomeMachine(reason string) {
	f.t.Helper()
	f.Eventually(f.t, "event "+reason, func(context.Context) error {
		if have := f.EventReasons(f.t, f.namespace, ""); !slices.Contains(have, reason) {
			return fmt.Errorf("events are %v", have)
		}
		return nil
	})
}

const brokenMachineSet = `
apiVersion: machine.openshift.io/v1beta1
kind: MachineSet
metadata: {name: spot, namespace: loop}
spec:
  replicas: 1
  selector: {matchLabels: {set: spot}}
  template:
    metadata:
      labels: {set: spot, role: worker, machine.openshift.io/cluster-api-cluster: test}
    spec:
      providerSpec:
        value: {apiVersion: sandbox.fettle.io/v1alpha1, kind: SimulatedProviderSpec, launch: InvalidConfiguration}
`
