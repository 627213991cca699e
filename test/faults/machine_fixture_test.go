package faults

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fettle-io/fettle/api/fettle/annotation"
	"github.com/fettle-io/fettle/api/fettle/v1alpha1"
	"github.com/fettle-io/fettle/api/openshift/v1beta1"
	"github.com/fettle-io/fettle/test/cluster"
)

// short is the time-out of the health checks of these tests.
const short = 2 * time.Second

// quiet is how long a test watches for something that must not happen.
const quiet = 2 * time.Second

// unlimited is a number of machines in flight beyond every number of machines here.
const unlimited = 1 << 20

// machineFixture is a namespace of machines for one test, with a monitor.
type machineFixture struct {
	*stage
	*machineMonitor

	namespace string
	owner     metav1.OwnerReference
}

func newMachineFixture(t *testing.T, c *cluster.Cluster, namespace string) *machineFixture {
	t.Helper()
	c.Namespace(t, namespace)
	s := &machineFixture{stage: newStage(t, c), namespace: namespace}
	t.Cleanup(s.clear)
	set := object("machine.openshift.io/v1beta1", "MachineSet", namespace, "workers")
	set.Object["spec"] = map[string]any{"replicas": int64(0), "selector": map[string]any{"matchLabels": map[string]any{"made": "never"}}}
	s.must("creating the machine set", s.Create(cluster.Context(t), set))
	s.owner = *metav1.NewControllerRef(set, set.GroupVersionKind())
	s.machineMonitor = newMachineMonitor(s)
	return s
}

func object(apiVersion, kind, namespace, name string) *unstructured.Unstructured {
	u := &unstructured.Unstructured{}
	u.SetAPIVersion(apiVersion)
	u.SetKind(kind)
	u.SetNamespace(namespace)
	u.SetName(name)
	return u
}

func (s *machineFixture) machine(name string) *unstructured.Unstructured {
	return object("machine.openshift.io/v1beta1", "Machine", s.namespace, name)
}

func (s *machineFixture) check(name string) *unstructured.Unstructured {
	return object("machine.openshift.io/v1beta1", "MachineHealthCheck", s.namespace, name)
}

func (s *machineFixture) node(name string) *unstructured.Unstructured {
	return object("v1", "Node", "", s.namespace+"-"+name)
}

// names returns n names.
func names(prefix string, n int) []string {
	all := make([]string, n)
	for i := range all {
		all[i] = fmt.Sprintf("%s-%02d", prefix, i)
	}
	return all
}

// addMachines makes running machines with ready nodes. A finalizer keeps each from going before it is drained.
func (s *machineFixture) addMachines(names []string) {
	s.t.Helper()
	s.each(names, func(ctx context.Context, name string) error {
		if err := s.addNode(ctx, name); err != nil {
			return err
		}
		return s.addMachine(ctx, name, s.node(name).GetName())
	})
	// Creation times are whole seconds. A machine that is created in the second of a repair may be its replacement. A
	// new leader can't know that, and waits for it.
	made := time.Now().Truncate(time.Second)
	s.Eventually(s.t, "the machines are a second old", func(context.Context) error {
		if now := time.Now(); !now.Truncate(time.Second).After(made) {
			return fmt.Errorf("it is %s", now)
		}
		return nil
	})
}

// addNode makes a ready node.
func (s *machineFixture) addNode(ctx context.Context, name string) error {
	n := s.node(name)
	n.SetLabels(map[string]string{"fixture": s.namespace})
	if err := s.Create(ctx, n); err != nil {
		return err
	}
	return s.setReady(ctx, name, corev1.ConditionTrue, time.Now())
}

func (s *machineFixture) addMachine(ctx context.Context, name, node string) error {
	m := s.machine(name)
	m.SetLabels(map[string]string{"role": "worker", "machine.openshift.io/cluster-api-cluster": "test"})
	m.SetOwnerReferences([]metav1.OwnerReference{s.owner})
	m.SetFinalizers([]string{"machine.machine.openshift.io"})
	if err := s.Create(ctx, m); err != nil {
		return err
	}
	return s.Status().Patch(ctx, m, merge(map[string]any{"status": map[string]any{
		"phase": "Running", "lastUpdated": metav1.Now().UTC().Format(time.RFC3339),
		"nodeRef": map[string]any{"kind": "Node", "name": node},
	}}))
}

func merge(content map[string]any) client.Patch {
	body, err := (&unstructured.Unstructured{Object: content}).MarshalJSON()
	if err != nil {
		panic(err) // made of maps and strings
	}
	return client.RawPatch(types.MergePatchType, body)
}

// setReady writes the Ready condition of a node, and leaves its other conditions alone.
func (s *machineFixture) setReady(ctx context.Context, name string, status corev1.ConditionStatus, since time.Time) error {
	return s.setCondition(ctx, name, corev1.NodeReady, status, since)
}

func (s *machineFixture) setCondition(ctx context.Context, name string, kind corev1.NodeConditionType, status corev1.ConditionStatus, since time.Time) error {
	return s.report(ctx, s.node(name).GetName(), kind, status, since)
}

// breakNodes makes nodes fail, and expects their machines to be deleted.
func (s *machineFixture) breakNodes(names []string, since time.Time) {
	s.t.Helper()
	s.mean(names)
	s.each(names, func(ctx context.Context, name string) error {
		return s.setReady(ctx, name, corev1.ConditionFalse, since)
	})
}

// longBroken makes nodes fail long enough ago to be unhealthy at once.
func (s *machineFixture) longBroken(names []string) {
	s.t.Helper()
	s.breakNodes(names, time.Now().Add(-time.Hour))
}

// recoverNodes makes nodes healthy again, and expects no deletion of their machines any more.
func (s *machineFixture) recoverNodes(names []string) {
	s.t.Helper()
	s.spare(names)
	s.each(names, func(ctx context.Context, name string) error {
		return s.setReady(ctx, name, corev1.ConditionTrue, time.Now())
	})
}

// heartbeats writes the statuses of all these nodes, one every few milliseconds, until the test ends.
func (s *machineFixture) heartbeats(names []string) {
	ctx, stop := context.WithCancel(cluster.Context(s.t))
	var beating sync.WaitGroup
	beating.Go(func() {
		next := 0
		_ = wait.PollUntilContextCancel(ctx, 20*time.Millisecond, true, func(ctx context.Context) (bool, error) {
			// The server may be down, or the node gone.
			_ = s.setCondition(ctx, names[next%len(names)], corev1.NodeMemoryPressure, corev1.ConditionFalse, time.Unix(0, 0))
			next++
			return false, nil
		})
	})
	s.t.Cleanup(func() { stop(); beating.Wait() })
}

// healthCheck creates a health check of all workers, with this many repairs at a time.
func (s *machineFixture) healthCheck(name string, inFlight int) {
	s.t.Helper()
	s.healthCheckAfter(name, inFlight, short)
}

// healthCheckAfter applies a health check under which a node that is not ready is unhealthy after a time.
func (s *machineFixture) healthCheckAfter(name string, inFlight int, timeout time.Duration) {
	s.t.Helper()
	most := "unlimited"
	if inFlight != unlimited {
		most = strconv.Itoa(inFlight)
	}
	s.Apply(s.t, fmt.Sprintf(`
apiVersion: machine.openshift.io/v1beta1
kind: MachineHealthCheck
metadata:
  name: %s
  namespace: %s
  annotations: {%s: %q}
spec:
  selector: {matchLabels: {role: worker}}
  unhealthyConditions:
  - {type: Ready, status: "False", timeout: %s}
  - {type: Ready, status: Unknown, timeout: %s}
`, name, s.namespace, annotation.MaxInFlight, most, timeout, timeout))
}

func (s *machineFixture) deleteCheck(name string) {
	s.t.Helper()
	s.must("deleting health check "+name, s.Delete(cluster.Context(s.t), s.check(name)))
}

// wantStatus waits until the status of a health check counts this many machines.
func (s *machineFixture) wantStatus(name string, healthy, expected int, reason string) {
	s.t.Helper()
	s.Eventually(s.t, "status of "+name, func(ctx context.Context) error {
		have, err := s.statusOf(ctx, name)
		if want := fmt.Sprintf("%d/%d healthy, reason %q", healthy, expected, reason); err == nil && have != want {
			err = fmt.Errorf("status is %s, want %s", have, want)
		}
		return err
	})
}

func (s *machineFixture) statusOf(ctx context.Context, name string) (string, error) {
	var mhc v1beta1.MachineHealthCheck
	if err := s.Get(ctx, types.NamespacedName{Namespace: s.namespace, Name: name}, &mhc); err != nil {
		return "", err
	}
	status := mhc.Status
	if status.CurrentHealthy == nil || status.ExpectedMachines == nil || len(status.Conditions) != 1 {
		return "not filled in", nil
	}
	return fmt.Sprintf("%d/%d healthy, reason %q", *status.CurrentHealthy, *status.ExpectedMachines, status.Conditions[0].Reason), nil
}

// barrier returns when Fettle has seen all changes of health checks so far: it has written the status of a newer one.
func (s *machineFixture) barrier() {
	s.t.Helper()
	s.Apply(s.t, fmt.Sprintf(`
apiVersion: machine.openshift.io/v1beta1
kind: MachineHealthCheck
metadata: {name: barrier, namespace: %s}
spec:
  selector: {matchLabels: {role: nobody}}
`, s.namespace))
	s.wantStatus("barrier", 0, 0, "")
	s.deleteCheck("barrier")
}

// The paths of what Fettle reads and writes.
const (
	nodesPath    = "/api/v1/nodes"
	machinesPath = "/apis/machine.openshift.io/v1beta1/machines"
	checksPath   = "/apis/machine.openshift.io/v1beta1/machinehealthchecks"
	repairsPath  = "/apis/fettle.io/v1alpha1/repairs"
	leasesPath   = "/apis/coordination.k8s.io/v1/namespaces/fettle-system/leases/fettle"
)

func (s *machineFixture) repairsHere() string {
	return "/apis/fettle.io/v1alpha1/namespaces/" + s.namespace + "/repairs"
}

func (s *machineFixture) machinesHere() string {
	return "/apis/machine.openshift.io/v1beta1/namespaces/" + s.namespace + "/machines"
}

func (s *machineFixture) checksHere() string {
	return "/apis/machine.openshift.io/v1beta1/namespaces/" + s.namespace + "/machinehealthchecks"
}

// clear leaves nothing to do for the next Fettle on this cluster.
func (s *machineFixture) clear() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	here := client.InNamespace(s.namespace)
	var problems []error
	note := func(err error) {
		if client.IgnoreNotFound(err) != nil {
			problems = append(problems, err)
		}
	}
	note(s.DeleteAllOf(ctx, s.check(""), here))
	note(s.DeleteAllOf(ctx, s.machine(""), here))
	note(s.DeleteAllOf(ctx, &v1alpha1.Repair{}, here))
	note(s.DeleteAllOf(ctx, &corev1.Node{}, client.MatchingLabels{"fixture": s.namespace}))
	note(s.Delete(ctx, &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: "fettle-system", Name: "fettle"}}))
	list, err := s.listMachines(ctx)
	note(err)
	for _, name := range list {
		note(s.release(ctx, name))
	}
	for _, err := range problems {
		s.t.Errorf("clearing the fixture: %v", err)
	}
}

// release removes the finalizer of a machine in deletion.
func (s *machineFixture) release(ctx context.Context, name string) error {
	return client.IgnoreNotFound(s.Patch(ctx, s.machine(name), merge(map[string]any{"metadata": map[string]any{"finalizers": nil}})))
}

// listMachines returns the names of the machines that exist.
func (s *machineFixture) listMachines(ctx context.Context) ([]string, error) {
	list := &unstructured.UnstructuredList{}
	list.SetAPIVersion("machine.openshift.io/v1beta1")
	list.SetKind("MachineList")
	if err := s.List(ctx, list, client.InNamespace(s.namespace)); err != nil {
		return nil, err
	}
	found := make([]string, 0, len(list.Items))
	for i := range list.Items {
		found = append(found, list.Items[i].GetName())
	}
	slices.Sort(found)
	return found, nil
}
