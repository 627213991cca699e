package integration

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os/exec"
	"slices"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fettle-io/fettle/test/cluster"
)

// TestWorkloadClusters is one story with Cluster API's own controllers and two workload clusters, since three control
// planes take long to start.
func TestWorkloadClusters(t *testing.T) {
	t.Parallel()
	m := newManaged(t)
	m.InstallFettleForNodes(t)
	m.AllowClusterAPI(t)
	m.StartFettle(t)
	for _, name := range []string{"east", "west"} {
		m.healthCheck(name)
		m.wantHealthy(name, "3/3")
	}
	t.Run("a worker dies, and its machine set replaces it", m.workerIsReplaced)
	t.Run("an autoscaler scales a machine deployment", m.isScaled)
	t.Run("a rollout is waited for", m.rolloutIsWaitedFor)
	t.Run("a cluster that does not answer is left alone", m.clusterGoesSilent)
	t.Run("a kubeconfig that changes is picked up", m.kubeconfigIsRotated)
}

// managed is a management cluster with the workload clusters east and west, three workers in each.
type managed struct {
	*cluster.Cluster

	t         *testing.T
	typed     client.Client
	workloads map[string]*cluster.Cluster
}

func newManaged(t *testing.T) *managed {
	t.Helper()
	m := &managed{Cluster: cluster.Start(t, cluster.Options{Args: []string{noNodeController, "--cluster-api"}}), t: t, workloads: map[string]*cluster.Cluster{}}
	m.typed = typed(t, m.Cluster)
	for _, name := range []string{"east", "west"} {
		m.workloads[name] = cluster.Start(t, cluster.Options{Args: []string{
			"--kubelets", "--node-monitor-grace-period=4s", "--node-monitor-period=500ms",
		}})
		m.register(t, name, "--workers", "3", "--control-plane-machines", "1")
	}
	return m
}

// register writes to the management cluster where a workload cluster is.
func (m *managed) register(t *testing.T, name string, args ...string) {
	t.Helper()
	args = append([]string{"workload-cluster", "--dir", m.Dir, "--name", name, "--workload-dir", m.workloads[name].Dir}, args...)
	if out, err := exec.Command(cluster.Binary(t, "fettle-sandbox"), args...).CombinedOutput(); err != nil {
		t.Fatalf("registering workload cluster %s: %v\n%s", name, err, out)
	}
}

func (m *managed) healthCheck(name string) {
	m.t.Helper()
	m.Apply(m.t, `apiVersion: cluster.x-k8s.io/v1beta2
kind: MachineHealthCheck
metadata: {name: `+name+`, namespace: default}
spec:
  clusterName: `+name+`
  selector: {matchLabels: {nodepool: nodepool-0}}
  checks:
    unhealthyNodeConditions:
    - {type: Ready, status: "False", timeoutSeconds: 2}
    - {type: Ready, status: Unknown, timeoutSeconds: 2}
  remediation: {triggerIf: {unhealthyLessThanOrEqualTo: 40%}} # all nodes look silent for a moment when a cluster comes back
`)
}

func (m *managed) check(ctx context.Context, name string) (*clusterv1.MachineHealthCheck, error) {
	c := &clusterv1.MachineHealthCheck{}
	return c, m.typed.Get(ctx, types.NamespacedName{Namespace: "default", Name: name}, c)
}

// wantHealthy waits for "HEALTHY/EXPECTED".
func (m *managed) wantHealthy(name, want string) {
	m.t.Helper()
	m.Eventually(m.t, "the health of "+name, func(ctx context.Context) error {
		c, err := m.check(ctx, name)
		if err != nil {
			return err
		}
		s := &c.Status
		if s.CurrentHealthy == nil || s.ExpectedMachines == nil || fmt.Sprintf("%d/%d", *s.CurrentHealthy, *s.ExpectedMachines) != want {
			return fmt.Errorf("it is %v of %v, want %s (%s)", s.CurrentHealthy, s.ExpectedMachines, want, wordsOf(s.Conditions))
		}
		return nil
	})
}

// workers returns the workers of a workload cluster by name.
func (m *managed) workers(ctx context.Context, cluster string) (map[string]*clusterv1.Machine, error) {
	var list clusterv1.MachineList
	if err := m.typed.List(ctx, &list, client.MatchingLabels{clusterv1.ClusterNameLabel: cluster, "nodepool": "nodepool-0"}); err != nil {
		return nil, err
	}
	found := map[string]*clusterv1.Machine{}
	for i := range list.Items {
		found[list.Items[i].Name] = &list.Items[i]
	}
	return found, nil
}

func (m *managed) anyWorker(t *testing.T, of string) *clusterv1.Machine {
	t.Helper()
	workers, err := m.workers(cluster.Context(t), of)
	if err != nil {
		t.Fatalf("listing machines: %v", err)
	}
	for _, w := range workers {
		return w
	}
	t.Fatalf("%s has no workers", of)
	return nil
}

// breakMachine breaks the machine's host, so that its node falls silent.
func (m *managed) breakMachine(t *testing.T, name string) {
	t.Helper()
	u := object("sandbox.fettle.io/v1alpha1", "SandboxMachine", "default", name)
	if err := m.Patch(cluster.Context(t), u, client.RawPatch(types.MergePatchType, []byte(`{"spec":{"fault":"Unresponsive"}}`))); err != nil {
		t.Fatalf("breaking %s: %v", name, err)
	}
}

// isReplaced waits until a machine is gone and three healthy ones exist.
func (m *managed) isReplaced(t *testing.T, of, name string) {
	t.Helper()
	m.After(t, 30*time.Second, name+" is replaced", func(ctx context.Context) error {
		workers, err := m.workers(ctx, of)
		if err != nil {
			return err
		}
		if workers[name] != nil {
			return fmt.Errorf("it is still there: %s", wordsOf(workers[name].Status.Conditions))
		}
		return nil
	})
	m.wantHealthy(of, "3/3")
}

func (m *managed) workerIsReplaced(t *testing.T) {
	victim := m.anyWorker(t, "east")
	m.breakMachine(t, victim.Spec.InfrastructureRef.Name)
	m.isReplaced(t, "east", victim.Name)
	m.wantHealthy("west", "3/3")
}

// clusterGoesSilent: the facts of its nodes are stale then, and Fettle does not act on them. Other clusters go on.
func (m *managed) clusterGoesSilent(t *testing.T) {
	victim := m.anyWorker(t, "west")
	m.workloads["west"].Halt(t)
	m.Eventually(t, "the cluster's silence is reported", func(ctx context.Context) error {
		c, err := m.check(ctx, "west")
		if err != nil {
			return err
		}
		return compareCondition(c.Status.Conditions, "RemediationAllowed", "Unknown/ConnectionDown", nil)
	})
	other := m.anyWorker(t, "east")
	m.breakMachine(t, other.Spec.InfrastructureRef.Name)
	m.isReplaced(t, "east", other.Name)
	workers, err := m.workers(cluster.Context(t), "west")
	if err != nil || len(workers) != 3 || workers[victim.Name] == nil {
		t.Fatalf("west has machines %v (%v)", slices.Sorted(maps.Keys(workers)), err)
	}
	for _, w := range workers {
		if c := meta.FindStatusCondition(w.Status.Conditions, byOwner); c != nil {
			t.Errorf("%s is marked while its cluster is silent: %s", w.Name, c.Reason)
		}
	}
	m.workloads["west"].Resume(t)
	m.wantHealthy("west", "3/3")
	m.breakMachine(t, victim.Spec.InfrastructureRef.Name)
	m.isReplaced(t, "west", victim.Name)
}

// kubeconfigIsRotated: the cluster comes back at another address, with a new kubeconfig.
func (m *managed) kubeconfigIsRotated(t *testing.T) {
	m.workloads["west"].Move(t, syscall.SIGTERM)
	m.register(t, "west")
	m.Eventually(t, "the cluster answers at its new address", func(ctx context.Context) error {
		c, err := m.check(ctx, "west")
		if err != nil {
			return err
		}
		if !meta.IsStatusConditionTrue(c.Status.Conditions, "RemediationAllowed") {
			return errors.New(wordsOf(c.Status.Conditions))
		}
		return nil
	})
	victim := m.anyWorker(t, "west")
	m.breakMachine(t, victim.Spec.InfrastructureRef.Name)
	m.isReplaced(t, "west", victim.Name)
}

// TestWatchFilter: Fettle follows only health checks with the label. The dialect wakes when its API appears.
func TestWatchFilter(t *testing.T) {
	t.Parallel()
	c := cluster.Start(t, cluster.Options{Args: []string{noNodeController}})
	c.InstallFettleForNodes(t)
	c.AllowClusterAPI(t)
	c.StartFettle(t, "--watch-filter=mine")
	c.ApplyDir(t, "sandbox/crd/clusterapi")
	c.Eventually(t, "Cluster API is served", func(context.Context) error {
		_, err := c.RESTMapper().RESTMapping(clusterv1.GroupVersion.WithKind("MachineSet").GroupKind(), clusterv1.GroupVersion.Version)
		return err
	})
	h := newClusterFixture(t, c, c, "filtered")
	h.running("a", "b")
	h.healthCheck()
	h.changeCheck(`{"metadata":{"labels":{"cluster.x-k8s.io/watch-filter":"others"}}}`)
	h.fail("a")
	h.management.Never(t, "a health check without the label is judged", 5*time.Second, func(ctx context.Context) error {
		check, err := h.check(ctx)
		if err == nil && check.Status.ExpectedMachines != nil {
			err = errors.New("it has a status")
		}
		return err
	})
	h.changeCheck(`{"metadata":{"labels":{"cluster.x-k8s.io/watch-filter":"mine"}}}`)
	h.wantMarked("a", "UnhealthyNode")
}

// TestNodesOfTheSameName: each cluster has its own.
func TestNodesOfTheSameName(t *testing.T) {
	t.Parallel()
	management := cluster.Start(t, clusterAPIOnly())
	first, second := cluster.Start(t, cluster.Options{Args: []string{noNodeController}}), cluster.Start(t, cluster.Options{Args: []string{noNodeController}})
	management.InstallFettleForNodes(t)
	management.AllowClusterAPI(t)
	management.StartFettle(t)
	one, two := newClusterFixture(t, management, first, "one"), newClusterFixture(t, management, second, "two")
	for _, h := range []*clusterFixture{one, two} {
		h.machine("a")
		if err := h.workload.Create(cluster.Context(t), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "two-a"}}); err != nil {
			t.Fatalf("creating a node: %v", err)
		}
	}
	two.nodeIs("a", corev1.ConditionTrue)
	(&clusterFixture{Client: one.Client, t: t, management: management, workload: first, namespace: "two"}).nodeIs("a", corev1.ConditionTrue)
	for _, h := range []*clusterFixture{one, two} {
		h.changeStatus("a", func(m *clusterv1.Machine) { m.Status.NodeRef.Name = "two-a" })
		h.healthCheck()
		h.wantCounts("1/1 healthy, 1 allowed")
	}
	two.fail("a")
	two.wantMarked("a", "UnhealthyNode")
	one.keepsUnmarked("a")
	one.wantCounts("1/1 healthy, 1 allowed")
}
