package integration

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/fettle-io/fettle/api/fettle/annotation"
	"github.com/fettle-io/fettle/api/fettle/v1alpha1"
	"github.com/fettle-io/fettle/test/cluster"
)

// TestAutoscalerOfMachineSets runs the scenarios of docs/reference/proposals.md#autoscaler-scenarios on the simulated
// Machine API, with a stand-in for the cluster autoscaler. Each has its own namespace and machine sets.
func TestAutoscalerOfMachineSets(t *testing.T) {
	t.Parallel()
	c := cluster.Start(t, cluster.Options{Args: []string{
		"--machine-api", "--kubelets", "--node-monitor-grace-period=4s", "--node-monitor-period=500ms",
	}})
	c.InstallFettle(t)
	c.StartFettle(t)
	beside := cluster.Beside(t)
	defer beside.Wait()
	for name, run := range map[string]func(*scaled){
		"scale-too-many": tooManyFail,
		"scale-few":      fewFail,
		"scale-down":     healthyMachineIsScaledDown,
		"scale-series":   seriesEndsWithAHealthyMachine,
		"scale-judged":   judgedMachineIsScaledDown,
		"scale-during":   scaledWhileARepairRuns,
	} {
		beside.Run(name, func(t *testing.T) {
			run(newScaled(t, c, name))
		})
	}
}

// scaled is a namespace with machine sets that the stand-in scales. Machines of workers join the cluster, and machines
// of spot never do.
type scaled struct {
	*machineFixture

	autoscaler *standInAutoscaler
}

func newScaled(t *testing.T, c *cluster.Cluster, name string) *scaled {
	t.Helper()
	c.Namespace(t, name)
	return &scaled{
		machineFixture: &machineFixture{Cluster: c, t: t, namespace: name},
		autoscaler: &standInAutoscaler{
			Client: c.Client, t: t, namespace: name, apiVersion: "machine.openshift.io/v1beta1", scales: "MachineSet",
			mark: "machine.openshift.io/delete-machine", ofSet: "set", provision: 5 * time.Second,
		},
	}
}

// machineSet makes a machine set. If its machines join, it waits until they are up.
func (s *scaled) machineSet(name string, replicas int, provider string) {
	s.t.Helper()
	s.Apply(s.t, strings.NewReplacer("NAMESPACE", s.namespace, "NAME", name, "REPLICAS", fmt.Sprint(replicas), "PROVIDER", provider).Replace(`
apiVersion: machine.openshift.io/v1beta1
kind: MachineSet
metadata: {name: NAME, namespace: NAMESPACE}
spec:
  replicas: REPLICAS
  selector: {matchLabels: {set: NAME}}
  template:
    metadata:
      labels: {set: NAME, role: worker, machine.openshift.io/cluster-api-cluster: test}
    spec:
      providerSpec:
        value: {apiVersion: sandbox.fettle.io/v1alpha1, kind: SimulatedProviderSpec, PROVIDER}
`))
	if provider == boots {
		s.autoscaler.newest(s.Cluster, name, replicas)
	}
}

// Behaviours of the cloud with the machines of a set.
const (
	boots = "bootTime: 1s"
	fails = "launch: InvalidConfiguration"
)

// checked creates the health check. Its pauses outlast the provision time, as docs/repairs.md computes.
func (s *scaled) checked(lines ...string) {
	s.t.Helper()
	s.healthCheck("example", map[string]string{
		annotation.BackoffBase: "1s", annotation.BackoffLimit: "8s", annotation.MaxInFlight: "unlimited",
	}, readyCheck(lines...))
}

// breaks makes the cloud terminate the instance of a machine for ever.
func (s *scaled) breaks(machine string) {
	s.t.Helper()
	p := &pool{s.machineFixture}
	p.change(object("sandbox.fettle.io/v1alpha1", "Instance", "", machine), `{"spec":{"fault":"Terminated"}}`)
}

// repairsOf waits until there are so many repairs of machines of a set, and returns them in order.
func (s *scaled) repairsOf(set string, n int) []v1alpha1.Repair {
	s.t.Helper()
	return s.wantPoolRepairs(set, n)
}

// wantNoRepairOf fails the test if a machine was ever repaired, or an event says that it is unhealthy.
func (s *scaled) wantNoRepairOf(machine string) {
	s.t.Helper()
	repairs, err := s.repairs(cluster.Context(s.t))
	if err != nil {
		s.t.Fatalf("listing repairs: %v", err)
	}
	for i := range repairs {
		if repairs[i].Spec.Target.Name == machine {
			s.t.Errorf("machine %s was repaired: %+v", machine, repairs[i].Spec)
		}
	}
	if events := s.EventReasons(s.t, s.namespace, machine); slices.Contains(events, "DetectedUnhealthy") {
		s.t.Errorf("events about machine %s are %v", machine, events)
	}
}

// tooManyFail: the autoscaler scales up a set whose machines all fail, and more fail than maxUnhealthy allows. The
// health check does nothing. The autoscaler turns to another set after its provision time.
func tooManyFail(s *scaled) {
	s.machineSet("workers", 2, boots)
	s.machineSet("spot", 0, fails)
	s.checked("maxUnhealthy: 40%")
	s.wantStatus("example", 2, 2, 0, "")
	s.autoscaler.scale("spot", 3)
	s.wantStatus("example", 2, 5, 0, "TooManyUnhealthy")
	s.autoscaler.retreat(s.Cluster, "spot", "workers", 3)
	s.wantStatus("example", 5, 5, 2, "")
	if repairs, err := s.repairs(cluster.Context(s.t)); err != nil || len(repairs) > 0 {
		s.t.Errorf("there are repairs: %+v (%v)", repairs, err)
	}
}

// fewFail: fewer fail than maxUnhealthy, so the health check has each replaced. By its pauses a failed machine stays
// for longer than the provision time. So the autoscaler sees that the set is broken, and turns to another.
func fewFail(s *scaled) {
	s.machineSet("workers", 4, boots)
	s.machineSet("spot", 0, fails)
	s.checked("maxUnhealthy: 40%")
	s.wantStatus("example", 4, 4, 1, "")
	s.autoscaler.scale("spot", 1)
	s.repairsOf("spot", 2)
	s.autoscaler.retreat(s.Cluster, "spot", "workers", 1)
	s.wantStatus("example", 5, 5, 2, "")
}

// healthyMachineIsScaledDown: the machine is drained and its node goes first. Fettle does not take that for a failure.
func healthyMachineIsScaledDown(s *scaled) {
	s.machineSet("workers", 4, boots)
	s.checked("maxUnhealthy: 40%")
	s.wantStatus("example", 4, 4, 1, "")
	m := s.autoscaler.newest(s.Cluster, "workers", 4)
	s.autoscaler.remove("workers", m)
	s.autoscaler.isGone(s.Cluster, m)
	s.wantStatus("example", 3, 3, 1, "")

	// Fettle begins the repair of another machine after all that.
	sick := s.autoscaler.newest(s.Cluster, "workers", 3)
	s.breaks(sick)
	s.autoscaler.isGone(s.Cluster, sick)
	s.wantStatus("example", 3, 3, 1, "")
	s.repairsOf("workers", 1)
	s.wantNoRepairOf(m)
}

// seriesEndsWithAHealthyMachine: after two repairs in a row the autoscaler adds a healthy machine, and removes it. The
// next failure begins a new series.
func seriesEndsWithAHealthyMachine(s *scaled) {
	s.machineSet("workers", 1, boots)
	s.checked()
	s.wantStatus("example", 1, 1, 1, "")
	for range 2 {
		m := s.autoscaler.newest(s.Cluster, "workers", 1)
		s.breaks(m)
		s.autoscaler.isGone(s.Cluster, m)
		s.autoscaler.newest(s.Cluster, "workers", 1)
	}
	s.wantStatus("example", 1, 1, 1, "")
	if second := s.repairsOf("workers", 2)[1]; second.Spec.Retry != 1 {
		s.t.Fatalf("the second repair is retry %d, want 1", second.Spec.Retry)
	}
	s.autoscaler.scale("workers", 1)
	m := s.autoscaler.newest(s.Cluster, "workers", 2)
	s.wantStatus("example", 2, 2, 2, "")
	s.autoscaler.remove("workers", m)
	s.autoscaler.isGone(s.Cluster, m)
	s.wantStatus("example", 1, 1, 1, "")
	s.breaks(s.autoscaler.newest(s.Cluster, "workers", 1))
	if third := s.repairsOf("workers", 3)[2]; third.Spec.Retry != 0 {
		s.t.Errorf("the repair after a healthy machine is retry %d, want a new series", third.Spec.Retry)
	}
}

// judgedMachineIsScaledDown: the autoscaler removes a machine whose repair a pause holds back. That is neither a repair
// nor a failure.
func judgedMachineIsScaledDown(s *scaled) {
	s.machineSet("workers", 1, boots)
	s.healthCheck("example", map[string]string{annotation.BackoffBase: "10m", annotation.BackoffLimit: "20m"}, readyCheck())
	s.wantStatus("example", 1, 1, 1, "")
	first := s.autoscaler.newest(s.Cluster, "workers", 1)
	s.breaks(first)
	s.autoscaler.isGone(s.Cluster, first)
	judged := s.autoscaler.newest(s.Cluster, "workers", 1)
	s.breaks(judged)
	s.wantEvent(judged, "RemediationHeldBackingOff")
	s.autoscaler.remove("workers", judged)
	s.autoscaler.isGone(s.Cluster, judged)
	s.autoscaler.scale("workers", 2)
	s.autoscaler.newest(s.Cluster, "workers", 2)
	s.wantStatus("example", 2, 2, 2, "")
	if n := len(s.repairsOf("workers", 1)); n != 1 {
		s.t.Errorf("there are %d repairs, want that of %s alone", n, first)
	}
	s.breaks(s.autoscaler.newest(s.Cluster, "workers", 2))
	if second := s.repairsOf("workers", 2)[1]; second.Spec.Retry != 0 {
		s.t.Errorf("the repair after a healthy machine is retry %d, want a new series", second.Spec.Retry)
	}
}

// scaledWhileARepairRuns: the autoscaler adds machines while one is replaced, and does not remove that one a second
// time. Booting machines count as unhealthy, so the limit holds until they are up.
func scaledWhileARepairRuns(s *scaled) {
	s.machineSet("workers", 3, boots)
	s.checked("maxUnhealthy: 40%")
	s.wantStatus("example", 3, 3, 1, "")
	sick := s.autoscaler.newest(s.Cluster, "workers", 3)
	p := &pool{s.machineFixture}
	p.change(s.autoscaler.object("Machine", sick), `{"spec":{"lifecycleHooks":{"preTerminate":[{"name":"wait","owner":"test"}]}}}`)
	s.breaks(sick)
	s.Eventually(s.t, "machine "+sick+" is being deleted", func(ctx context.Context) error {
		u := s.autoscaler.object("Machine", sick)
		err := s.Get(ctx, types.NamespacedName{Namespace: s.namespace, Name: sick}, u)
		if err == nil && u.GetDeletionTimestamp() == nil {
			err = fmt.Errorf("it is not")
		}
		return err
	})
	if s.autoscaler.remove("workers", sick) {
		s.t.Errorf("machine %s was scaled down though it is being deleted", sick)
	}
	s.autoscaler.scale("workers", 2)
	s.autoscaler.newest(s.Cluster, "workers", 5)
	s.wantStatus("example", 5, 6, 1, "")
	p.change(s.autoscaler.object("Machine", sick), `{"spec":{"lifecycleHooks":null}}`)
	s.autoscaler.isGone(s.Cluster, sick)
	s.wantStatus("example", 5, 5, 2, "")
	if n := len(s.repairsOf("workers", 1)); n != 1 {
		s.t.Errorf("there are %d repairs, want one", n)
	}
}
