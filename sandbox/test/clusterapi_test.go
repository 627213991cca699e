package test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	providerv1 "github.com/fettle-io/fettle/sandbox/api/provider/v1alpha1"
	"github.com/fettle-io/fettle/sandbox/workload"
)

// The health check of Cluster API's guide, for another cluster.
const guideHealthCheck = `apiVersion: cluster.x-k8s.io/v1beta1
kind: MachineHealthCheck
metadata:
  name: node-unhealthy-5m
  namespace: default
spec:
  clusterName: east
  maxUnhealthy: 40%
  nodeStartupTimeout: 10m
  selector:
    matchLabels:
      nodepool: nodepool-0
  unhealthyConditions:
  - type: Ready
    status: Unknown
    timeout: 300s
  - type: Ready
    status: "False"
    timeout: 300s
`

// managed is a management cluster and its one workload cluster.
type managed struct {
	dir, workloadDir     string
	process              *process
	management, workload client.Client
}

// TestClusterAPI is one story, since its two sandboxes take long to start.
func TestClusterAPI(t *testing.T) {
	t.Parallel()
	m := startManaged(t)
	m.register(t)
	t.Run("workers and control plane have nodes in the workload cluster", m.testNodes)
	t.Run("a health check of v1beta1 is kept as v1beta2", m.testHealthCheckVersions)
	t.Run("registering again changes nothing", m.testRegisterAgain)
	t.Run("a broken machine is noticed, and replaced when it is marked", m.testRemediation)
	t.Run("a machine that can't be launched fails", m.testInvalidMachine)
	t.Run("no controller judges machines unless a flag says so", m.testNoHealthChecks)
	m.restart(t, "--cluster-api-health-checks")
	t.Run("after a restart with health checks they are judged", m.testHealthChecks)
	t.Run("a deleted cluster takes its machines and nodes with it", m.testDeletion)
}

func startManaged(t *testing.T) *managed {
	t.Helper()
	m := &managed{dir: t.TempDir(), workloadDir: t.TempDir()}
	m.process = start(t, "--dir", m.dir, "--cluster-api")
	east := start(t, "--dir", m.workloadDir, "--kubelets",
		"--node-monitor-grace-period", gracePeriod.String(), "--node-monitor-period", "500ms")
	m.management = connectManagement(t, m.process.kubeconfig)
	m.workload = connect(t, east.kubeconfig)
	return m
}

func (m *managed) restart(t *testing.T, more ...string) {
	t.Helper()
	m.process.terminate()
	m.process = start(t, append([]string{"--dir", m.dir, "--cluster-api"}, more...)...)
	m.management = connectManagement(t, m.process.kubeconfig)
}

func connectManagement(t *testing.T, kubeconfig string) client.Client {
	t.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	config.WarningHandlerWithContext = rest.NoWarnings{} // v1beta1 is deprecated
	c, err := workload.NewClient(config)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func (m *managed) register(t *testing.T) {
	t.Helper()
	stdout, stderr, code := run(t, "workload-cluster", "--dir", m.dir, "--name", "east", "--workload-dir", m.workloadDir,
		"--workers", "3", "--control-plane-machines", "1")
	if code != 0 || stdout != "cluster default/east is connected" {
		t.Fatalf("registering the workload cluster: exit code %d, stdout %q, stderr %q", code, stdout, stderr)
	}
}

// awaitWorkers returns the machines of the machine deployment, when there are three with ready nodes.
func (m *managed) awaitWorkers(t *testing.T) []clusterv1.Machine {
	t.Helper()
	machines := &clusterv1.MachineList{}
	eventually(t, "three workers have ready nodes", func() string {
		if err := m.management.List(context.Background(), machines, client.MatchingLabels{workload.NodepoolLabel: workload.Nodepool}); err != nil {
			return err.Error()
		}
		if len(machines.Items) != 3 {
			return fmt.Sprintf("there are %d machines", len(machines.Items))
		}
		for _, machine := range machines.Items {
			if problem := m.hasReadyNode(machine); problem != "" {
				return problem
			}
		}
		return ""
	})
	return machines.Items
}

func (m *managed) hasReadyNode(machine clusterv1.Machine) string {
	if !machine.Status.NodeRef.IsDefined() {
		return "machine " + machine.Name + " has no node"
	}
	node := &corev1.Node{}
	if err := m.workload.Get(context.Background(), client.ObjectKey{Name: machine.Status.NodeRef.Name}, node); err != nil {
		return err.Error()
	}
	if node.Spec.ProviderID == "" || node.Spec.ProviderID != machine.Spec.ProviderID {
		return fmt.Sprintf("node %s has the provider ID %q, its machine %q", node.Name, node.Spec.ProviderID, machine.Spec.ProviderID)
	}
	return readyIs(m.workload, node.Name, corev1.ConditionTrue)
}

func (m *managed) testNodes(t *testing.T) {
	m.awaitWorkers(t)
	machine := &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "east-control-plane-0"}}
	eventually(t, "the control plane has a node", func() string {
		get(t, m.management, machine)
		return m.hasReadyNode(*machine)
	})
	if owner := metav1.GetControllerOf(machine); owner == nil || owner.Kind != "KubeadmControlPlane" {
		t.Errorf("a machine of the control plane belongs to it, not to %v", owner)
	}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: machine.Name}}
	get(t, m.workload, node)
	if _, ok := node.Labels["node-role.kubernetes.io/control-plane"]; !ok {
		t.Errorf("its node has the role of the control plane, not %v", node.Labels)
	}
}

func (m *managed) testHealthCheckVersions(t *testing.T) {
	create(t, m.management, parse(t, guideHealthCheck))
	check := &clusterv1.MachineHealthCheck{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "node-unhealthy-5m"}}
	get(t, m.management, check)
	if check.Labels[clusterv1.ClusterNameLabel] != "east" {
		t.Errorf("the webhook labels a health check with its cluster; its labels are %v", check.Labels)
	}
	if limit := check.Spec.Remediation.TriggerIf.UnhealthyLessThanOrEqualTo; limit == nil || limit.String() != "40%" {
		t.Errorf("maxUnhealthy is kept as unhealthyLessThanOrEqualTo; it is %v", limit)
	}
	if conditions := check.Spec.Checks.UnhealthyNodeConditions; len(conditions) != 2 || *conditions[0].TimeoutSeconds != 300 {
		t.Errorf("the conditions are kept with their timeouts in seconds; they are %v", conditions)
	}
	old := parse(t, guideHealthCheck)
	get(t, m.management, old)
	if timeout, _, _ := unstructured.NestedString(old.Object, "spec", "nodeStartupTimeout"); timeout != "10m0s" {
		t.Errorf("in v1beta1 it has a nodeStartupTimeout as before; it is %q", timeout)
	}

	bare := parse(t, strings.ReplaceAll(guideHealthCheck, "  nodeStartupTimeout: 10m\n", ""))
	bare.SetName("no-startup-timeout")
	create(t, m.management, bare)
	filled := &clusterv1.MachineHealthCheck{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: bare.GetName()}}
	get(t, m.management, filled)
	if timeout := filled.Spec.Checks.NodeStartupTimeoutSeconds; timeout == nil || *timeout != 600 {
		t.Errorf("the webhook fills in ten minutes for a node to start, not %v", timeout)
	}

	empty := parse(t, strings.ReplaceAll(guideHealthCheck, "    matchLabels:\n      nodepool: nodepool-0\n", "    matchLabels: {}\n"))
	empty.SetName("selects-all")
	if err := m.management.Create(context.Background(), empty); err == nil {
		t.Error("the webhook refuses a selector that is empty")
	}
}

func (m *managed) testRegisterAgain(t *testing.T) {
	before := m.awaitWorkers(t)
	m.register(t)
	after := m.awaitWorkers(t)
	if names(before) != names(after) {
		t.Errorf("the workers were %s and are %s", names(before), names(after))
	}
}

func (m *managed) testRemediation(t *testing.T) {
	victim := m.awaitWorkers(t)[0]
	infrastructure := &providerv1.SandboxMachine{ObjectMeta: metav1.ObjectMeta{Namespace: victim.Namespace, Name: victim.Name}}
	patch(t, m.management, infrastructure, `{"spec":{"fault":"Unresponsive"}}`)
	eventually(t, "its node becomes unknown", func() string { return readyIs(m.workload, victim.Name, corev1.ConditionUnknown) })
	eventually(t, "the machine shows it", func() string {
		get(t, m.management, &victim)
		if meta.IsStatusConditionPresentAndEqual(victim.Status.Conditions, clusterv1.MachineNodeReadyCondition, metav1.ConditionUnknown) {
			return ""
		}
		return "NodeReady is not Unknown"
	})
	if !victim.DeletionTimestamp.IsZero() {
		t.Fatal("the machine is in deletion, and no health check has marked it")
	}

	eventually(t, "it can be marked", func() string { return m.mark(victim) })
	eventually(t, "the marked machine goes", func() string { return gone(m.management, &victim) })
	for _, worker := range m.awaitWorkers(t) {
		if worker.Name == victim.Name {
			t.Errorf("%s is there again", victim.Name)
		}
	}
	if problem := gone(m.workload, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: victim.Name}}); problem != "" {
		t.Errorf("the node goes with its machine: %s", problem)
	}
	if problem := gone(m.management, infrastructure); problem != "" {
		t.Errorf("the infrastructure goes with its machine: %s", problem)
	}
}

// mark marks a machine for its owner, as a health check does.
func (m *managed) mark(machine clusterv1.Machine) string {
	if err := m.management.Get(context.Background(), client.ObjectKeyFromObject(&machine), &machine); err != nil {
		return err.Error()
	}
	before := machine.DeepCopy()
	for condition, reason := range map[string]string{
		clusterv1.MachineHealthCheckSucceededCondition: "UnhealthyNode",
		clusterv1.MachineOwnerRemediatedCondition:      "WaitingForRemediation",
	} {
		meta.SetStatusCondition(&machine.Status.Conditions, metav1.Condition{Type: condition, Status: metav1.ConditionFalse, Reason: reason})
	}
	patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	if err := m.management.Status().Patch(context.Background(), &machine, patch); err != nil {
		return err.Error()
	}
	return ""
}

func (m *managed) testInvalidMachine(t *testing.T) {
	name := metav1.ObjectMeta{Namespace: "default", Name: "invalid"}
	group := providerv1.GroupVersion.Group
	machine := &clusterv1.Machine{ObjectMeta: name, Spec: clusterv1.MachineSpec{
		ClusterName:       "east",
		InfrastructureRef: clusterv1.ContractVersionedObjectReference{APIGroup: group, Kind: "SandboxMachine", Name: "invalid"},
		Bootstrap: clusterv1.Bootstrap{
			ConfigRef: clusterv1.ContractVersionedObjectReference{APIGroup: group, Kind: "SandboxBootstrapConfig", Name: "invalid"},
		},
	}}
	create(t, m.management,
		&providerv1.SandboxMachine{ObjectMeta: name, Spec: providerv1.SandboxMachineSpec{Launch: "InvalidConfiguration"}},
		&providerv1.SandboxBootstrapConfig{ObjectMeta: name}, machine)
	eventually(t, "the machine fails", func() string {
		get(t, m.management, machine)
		if d := machine.Status.Deprecated; d == nil || d.V1Beta1 == nil || d.V1Beta1.FailureReason == nil {
			return "it has not"
		}
		return ""
	})
	remove(t, m.management, machine)
	eventually(t, "it goes, although it never had a node", func() string { return gone(m.management, machine) })
}

func (m *managed) testNoHealthChecks(t *testing.T) {
	check := &clusterv1.MachineHealthCheck{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "node-unhealthy-5m"}}
	never(t, "the status is left to others", time.Second, func() string {
		get(t, m.management, check)
		if check.Status.ObservedGeneration != 0 || len(check.Status.Conditions) > 0 {
			return fmt.Sprintf("the status was written: %+v", check.Status)
		}
		return ""
	})
}

func (m *managed) testHealthChecks(t *testing.T) {
	check := &clusterv1.MachineHealthCheck{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "node-unhealthy-5m"}}
	eventually(t, "the health check counts the workers", func() string {
		get(t, m.management, check)
		if n := check.Status.ExpectedMachines; n == nil || *n != 3 {
			return "it has not counted three"
		}
		return ""
	})
	again := parse(t, guideHealthCheck)
	again.SetName("after-the-restart")
	create(t, m.management, again) // through webhooks at another port
}

func (m *managed) testDeletion(t *testing.T) {
	cluster := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "east"}}
	remove(t, m.management, cluster)
	eventually(t, "the cluster goes", func() string { return gone(m.management, cluster) })
	for what, list := range map[string]client.ObjectList{
		"machines": &clusterv1.MachineList{}, "infrastructure": &providerv1.SandboxMachineList{}, "endpoint": &providerv1.SandboxClusterList{},
	} {
		if err := m.management.List(context.Background(), list); err != nil {
			t.Fatal(err)
		}
		if n := meta.LenList(list); n > 0 {
			t.Errorf("%d of the cluster's %s are left", n, what)
		}
	}
	nodes := &corev1.NodeList{}
	if err := m.workload.List(context.Background(), nodes); err != nil {
		t.Fatal(err)
	}
	if len(nodes.Items) > 0 {
		t.Errorf("%d nodes are left", len(nodes.Items))
	}
}

func parse(t *testing.T, manifest string) *unstructured.Unstructured {
	t.Helper()
	object := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(manifest), &object.Object); err != nil {
		t.Fatal(err)
	}
	return object
}

func names(machines []clusterv1.Machine) string {
	list := make([]string, 0, len(machines))
	for _, machine := range machines {
		list = append(list, machine.Name)
	}
	slices.Sort(list)
	return strings.Join(list, " ")
}
