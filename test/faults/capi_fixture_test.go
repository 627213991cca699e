package faults

import (
	"context"
	"fmt"
	"strconv"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fettle-io/fettle/api/fettle/v1alpha1"
	"github.com/fettle-io/fettle/test/cluster"
)

// ofClusterAPI are the flags of a sandbox with Cluster API's kinds. Tests play its controllers.
var ofClusterAPI = []string{"--controllers=*,-node-lifecycle-controller", "--cluster-api", "--cluster-api-kinds-only"}

// prod is the name of every fixture's Cluster.
const prod = "prod"

// clusterFixture is a workload cluster for one test, in a namespace of the management cluster. It has a health check of
// its workers, and a machineOwner, which records all changes and plays the owner of the machines. Its nodes may be on
// the management cluster, beside the nodes of other fixtures. Fettle then reaches it like any other, by the kubeconfig
// in its Secret.
type clusterFixture struct {
	*stage
	*machineOwner

	name     string
	workload *cluster.Cluster
}

// newClusterFixture makes a fixture whose nodes are on the management cluster.
func newClusterFixture(t *testing.T, c *cluster.Cluster, name string) *clusterFixture {
	t.Helper()
	return newClusterFixtureOn(t, c, c, c.Config.Host, name)
}

// newClusterFixtureOn makes a Cluster that is up, with the address of its API server.
func newClusterFixtureOn(t *testing.T, management, workload *cluster.Cluster, address, name string) *clusterFixture {
	t.Helper()
	management.Namespace(t, name)
	h := &clusterFixture{stage: newStage(t, management), name: name, workload: workload}
	t.Cleanup(h.clear)
	h.reachedBy("reader", address)
	c := &clusterv1.Cluster{ObjectMeta: h.meta(prod), Spec: clusterv1.ClusterSpec{
		InfrastructureRef: clusterv1.ContractVersionedObjectReference{APIGroup: "sandbox.fettle.io", Kind: "SandboxCluster", Name: prod},
		ControlPlaneRef:   clusterv1.ContractVersionedObjectReference{APIGroup: "controlplane.cluster.x-k8s.io", Kind: "KubeadmControlPlane", Name: prod},
	}}
	ctx := cluster.Context(t)
	h.must("creating the Cluster", h.Create(ctx, c))
	for _, milestone := range []string{clusterv1.ClusterInfrastructureReadyCondition, clusterv1.ClusterControlPlaneInitializedCondition} {
		c.Status.Conditions = append(c.Status.Conditions, metav1.Condition{
			Type: milestone, Status: metav1.ConditionTrue, Reason: "Test", LastTransitionTime: metav1.Now(),
		})
	}
	h.must("bringing the Cluster up", h.Status().Update(ctx, c))
	h.must("creating the machine set", h.Create(ctx, h.machineSet()))
	h.machineOwner = newMachineOwner(h)
	return h
}

func (h *clusterFixture) meta(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: h.name, Name: name, Labels: map[string]string{clusterv1.ClusterNameLabel: prod}}
}

// machineSet returns the owner of all machines. It must exist, since the garbage collector deletes objects without
// their owner.
func (h *clusterFixture) machineSet() *clusterv1.MachineSet {
	return &clusterv1.MachineSet{ObjectMeta: h.meta("workers"), Spec: clusterv1.MachineSetSpec{
		ClusterName: prod, Selector: metav1.LabelSelector{MatchLabels: map[string]string{"fixture": h.name}},
		Template: clusterv1.MachineTemplateSpec{ObjectMeta: clusterv1.ObjectMeta{Labels: map[string]string{"fixture": h.name}}, Spec: h.machineSpec("workers")},
	}}
}

func (h *clusterFixture) machineSpec(of string) clusterv1.MachineSpec {
	return clusterv1.MachineSpec{
		ClusterName:       prod,
		InfrastructureRef: clusterv1.ContractVersionedObjectReference{APIGroup: "sandbox.fettle.io", Kind: "SandboxMachine", Name: of},
		Bootstrap:         clusterv1.Bootstrap{DataSecretName: new("bootstrap")},
	}
}

// readers lets all service accounts of the fixture's namespace read nodes. A connection needs nothing else.
const readers = `
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: reads-nodes}
rules:
- {apiGroups: [""], resources: [nodes], verbs: [get, list, watch]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: "reads-nodes:%[1]s"}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: reads-nodes}
subjects:
- {apiGroup: rbac.authorization.k8s.io, kind: Group, name: "system:serviceaccounts:%[1]s"}
`

// reachedBy sets the address of the workload cluster, and makes a service account of its own. It returns the name of
// that account in the audit log.
func (h *clusterFixture) reachedBy(account, address string) string {
	h.t.Helper()
	h.workload.Namespace(h.t, h.name)
	h.workload.Apply(h.t, fmt.Sprintf(readers, h.name))
	token := h.workload.ServiceAccount(h.t, h.name, account)
	kubeconfig := fmt.Sprintf(`{apiVersion: v1, kind: Config, current-context: it, contexts: [{name: it, context: {cluster: it, user: it}}],
clusters: [{name: it, cluster: {server: %q, insecure-skip-tls-verify: true}}], users: [{name: it, user: {token: %q}}]}`, address, token)
	secret := &corev1.Secret{
		ObjectMeta: h.meta(prod + "-kubeconfig"), Type: clusterv1.ClusterSecretType, Data: map[string][]byte{"value": []byte(kubeconfig)},
	}
	ctx := cluster.Context(h.t)
	err := h.Create(ctx, secret)
	if apierrors.IsAlreadyExists(err) {
		err = h.Update(ctx, secret)
	}
	h.must("writing the kubeconfig", err)
	return "system:serviceaccount:" + h.name + ":" + account
}

func (h *clusterFixture) node(machine string) string { return h.name + "-" + machine }

// addMachines makes machines with ready nodes, and waits until they are a second old. A machine that is created in the
// second of a repair may be a replacement.
func (h *clusterFixture) addMachines(names []string) {
	h.t.Helper()
	h.makeMachines(names)
	made := time.Now().Truncate(time.Second)
	h.Eventually(h.t, "the machines are a second old, and seen", func(context.Context) error {
		if now := time.Now(); !now.Truncate(time.Second).After(made) {
			return fmt.Errorf("it is %s", now)
		}
		return h.knows(names)
	})
}

func (h *clusterFixture) makeMachines(names []string) {
	h.t.Helper()
	owner := &clusterv1.MachineSet{ObjectMeta: h.meta("workers")}
	h.must("reading the machine set", h.Get(cluster.Context(h.t), keyOf(owner), owner))
	h.each(names, func(ctx context.Context, name string) error {
		n := object("v1", "Node", "", h.node(name))
		n.SetLabels(map[string]string{"fixture": h.name})
		if err := h.workload.Create(ctx, n); err != nil {
			return err
		}
		if err := h.ready(ctx, name, corev1.ConditionTrue, time.Now()); err != nil {
			return err
		}
		m := &clusterv1.Machine{ObjectMeta: h.meta(name), Spec: h.machineSpec(name)}
		m.Labels["fixture"] = h.name
		m.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(owner, clusterv1.GroupVersion.WithKind("MachineSet"))}
		if err := h.Create(ctx, m); err != nil {
			return err
		}
		return h.Status().Patch(ctx, m, merge(map[string]any{"status": map[string]any{"nodeRef": map[string]any{"name": h.node(name)}}}))
	})
}

// ready writes the condition Ready of a machine's node.
func (h *clusterFixture) ready(ctx context.Context, machine string, status corev1.ConditionStatus, since time.Time) error {
	return (&stage{Cluster: h.workload, t: h.t}).report(ctx, h.node(machine), corev1.NodeReady, status, since)
}

// brokenSince makes nodes fail, without expecting marks for that.
func (h *clusterFixture) brokenSince(names []string, since time.Time) {
	h.t.Helper()
	h.each(names, func(ctx context.Context, name string) error { return h.ready(ctx, name, corev1.ConditionFalse, since) })
}

// longBroken makes nodes fail long enough ago to be unhealthy at once, and expects a mark for each.
func (h *clusterFixture) longBroken(names []string) {
	h.t.Helper()
	h.due(names)
	h.brokenSince(names, time.Now().Add(-time.Hour))
}

func (h *clusterFixture) recover(names []string) {
	h.t.Helper()
	h.each(names, func(ctx context.Context, name string) error {
		return h.ready(ctx, name, corev1.ConditionTrue, time.Now())
	})
}

// healthCheck creates a health check of all machines, with a time-out. It permits remediation while no more machines
// than the limit are unhealthy.
func (h *clusterFixture) healthCheck(limit int, timeout time.Duration) {
	h.t.Helper()
	h.Apply(h.t, fmt.Sprintf(`
apiVersion: cluster.x-k8s.io/v1beta2
kind: MachineHealthCheck
metadata: {name: check, namespace: %[1]s, annotations: {fettle.io/storm-cooldown: 0s}}
spec:
  clusterName: %[2]s
  selector: {matchLabels: {fixture: %[1]s}}
  checks:
    nodeStartupTimeoutSeconds: 600
    unhealthyNodeConditions:
    - {type: Ready, status: "False", timeoutSeconds: %[3]d}
    - {type: Ready, status: Unknown, timeoutSeconds: %[3]d}
  remediation: {triggerIf: {unhealthyLessThanOrEqualTo: %[4]d}}
`, h.name, prod, int(timeout.Seconds()), limit))
}

func (h *clusterFixture) check() *clusterv1.MachineHealthCheck {
	return &clusterv1.MachineHealthCheck{ObjectMeta: metav1.ObjectMeta{Namespace: h.name, Name: "check"}}
}

func (h *clusterFixture) deleteCheck() {
	h.t.Helper()
	h.must("deleting the health check", h.Delete(cluster.Context(h.t), h.check()))
}

func (h *clusterFixture) edit(spec map[string]any) {
	h.t.Helper()
	u := object("cluster.x-k8s.io/v1beta2", "MachineHealthCheck", h.name, "check")
	h.must("editing the health check", h.Patch(cluster.Context(h.t), u, merge(map[string]any{"spec": spec})))
}

// wantHealthy waits until the status counts this many machines, and the healthy ones say so.
func (h *clusterFixture) wantHealthy(healthy, expected int) {
	h.t.Helper()
	h.Eventually(h.t, "status of the health check of "+h.name, func(ctx context.Context) error {
		c := h.check()
		if err := h.Get(ctx, keyOf(c), c); err != nil {
			return err
		}
		number := func(n *int32) string {
			if n == nil {
				return "?"
			}
			return strconv.Itoa(int(*n))
		}
		have := number(c.Status.CurrentHealthy) + "/" + number(c.Status.ExpectedMachines)
		if want := fmt.Sprintf("%d/%d", healthy, expected); have != want {
			return fmt.Errorf("%s are healthy, want %s: %+v", have, want, c.Status.Conditions)
		}
		return nil
	})
	h.wantPassed(healthy)
}

// wantAllowed waits until the condition RemediationAllowed is "Status/Reason".
func (h *clusterFixture) wantAllowed(want string) {
	h.t.Helper()
	h.Eventually(h.t, "RemediationAllowed of "+h.name, func(ctx context.Context) error {
		var c struct {
			Status struct{ Conditions []metav1.Condition }
		}
		u := object("cluster.x-k8s.io/v1beta2", "MachineHealthCheck", h.name, "check") // the test's version of it need not fit the type
		if err := h.Get(ctx, keyOf(u), u); err != nil {
			return err
		}
		if err := convert(u, &c); err != nil {
			return err
		}
		allowed := meta.FindStatusCondition(c.Status.Conditions, clusterv1.MachineHealthCheckRemediationAllowedCondition)
		if allowed == nil || string(allowed.Status)+"/"+allowed.Reason != want {
			return fmt.Errorf("it is %+v, want %s", allowed, want)
		}
		return nil
	})
}

// marksHere returns the path pattern of writes to machines.
func (h *clusterFixture) marksHere() string {
	return "/apis/cluster.x-k8s.io/v1beta2/namespaces/" + h.name + "/machines/.*/status"
}

// clusterMachinesPath is the path of the machines of all workload clusters, which Fettle watches.
const clusterMachinesPath = "/apis/cluster.x-k8s.io/v1beta2/machines"

// clear leaves nothing to do for the next Fettle on this cluster.
func (h *clusterFixture) clear() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	note := func(err error) {
		if client.IgnoreNotFound(err) != nil {
			h.t.Errorf("clearing the fixture: %v", err)
		}
	}
	if h.machineOwner != nil {
		h.isOver()
	}
	here := client.InNamespace(h.name)
	for _, all := range []client.Object{&clusterv1.MachineHealthCheck{}, &clusterv1.Machine{}, &clusterv1.MachineSet{}, &clusterv1.Cluster{}, &v1alpha1.Repair{}} {
		note(h.DeleteAllOf(ctx, all, here))
	}
	note(h.Delete(ctx, &corev1.Secret{ObjectMeta: h.meta(prod + "-kubeconfig")}))
	note(h.workload.DeleteAllOf(ctx, &corev1.Node{}, client.MatchingLabels{"fixture": h.name}))
	note(h.Delete(ctx, &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: "fettle-system", Name: "fettle"}}))
}
