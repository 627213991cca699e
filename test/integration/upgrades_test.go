package integration

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fettle-io/fettle/api/fettle/annotation"
	"github.com/fettle-io/fettle/test/cluster"
)

// TestMachineHealthChecksWaitForUpgrades where an annotation says so. Of two health checks, the other does not wait.
func TestMachineHealthChecksWaitForUpgrades(t *testing.T) {
	t.Parallel()
	c := cluster.Start(t, cluster.Options{Args: []string{noNodeController}})
	c.InstallFettle(t)
	c.Apply(t, clusterVersions)
	c.StartFettle(t)
	waiting, others := newMachineFixture(t, c, "waiting"), newMachineFixture(t, c, "others")
	version := upgrade{machineFixture: waiting, version: object("config.openshift.io/v1", "ClusterVersion", "", "version")}
	waiting.create(version.version)
	version.progresses(true)
	waiting.healthCheck("example", map[string]string{annotation.WaitForUpgrades: "true"}, readyCheck())
	others.healthCheck("example", nil, readyCheck())
	for _, f := range []*machineFixture{waiting, others} {
		for _, name := range []string{"a", "b"} {
			f.machine(name, machineOptions{})
		}
		f.setReady("a", corev1.ConditionFalse)
	}
	others.wantMachines("b")
	waiting.wantEventsSaying("RemediationHeldClusterUpgrading", map[string]string{"a": "the cluster is being upgraded; repairs go on when that is done"})
	held := waiting.wantStatus("example", 1, 2, 1, "")
	if !strings.Contains(held.Message, "a is unhealthy") || !strings.Contains(held.Message, "held back by ClusterUpgrading") {
		t.Errorf("the condition says %q", held.Message)
	}
	others.setReady("b", corev1.ConditionFalse)
	others.wantMachines() // by now Fettle has judged the waiting one again and again
	waiting.areStill("a", "b")
	version.progresses(false)
	waiting.wantMachines("b")
	version.nodeIsReconfigured("b")
	waiting.setReady("b", corev1.ConditionFalse)
	waiting.wantEvent("b", "RemediationHeldTargetUpgrading")
	waiting.areStill("b")
	waiting.annotate(waiting.check("example"), annotation.WaitForUpgrades, nil)
	waiting.wantMachines()
}

// upgrade is what OpenShift reports of upgrades.
type upgrade struct {
	*machineFixture

	version *unstructured.Unstructured
}

func (u upgrade) progresses(does bool) {
	u.t.Helper()
	status := map[bool]string{true: "True", false: "False"}[does]
	u.patchStatus(u.version, map[string]any{"conditions": []any{map[string]any{"type": "Progressing", "status": status}}})
}

// nodeIsReconfigured writes that a machine's node is about to get another configuration.
func (u upgrade) nodeIsReconfigured(machine string) {
	u.t.Helper()
	u.annotate(object("v1", "Node", "", u.nodeName(machine)), "machineconfiguration.openshift.io/desiredConfig", "next")
}

// areStill checks that exactly these machines exist now.
func (f *machineFixture) areStill(names ...string) {
	f.t.Helper()
	if err := f.areMachines(cluster.Context(f.t), names); err != nil {
		f.t.Error(err)
	}
}

// upgradeOfACluster: a health check that waits for upgrades marks no machine until its Cluster says that there is none.
// Another Cluster's word does not matter.
func upgradeOfACluster(h *clusterFixture) {
	h.waitsForUpgrades()
	h.wantHeld("a", "Cluster c has no condition RollingOut")
	h.clusterIs(clusterv1.ClusterRollingOutCondition, true)
	h.wantHeld("b", "condition RollingOut of Cluster c is True")
	other := newClusterFixture(h.t, h.management, h.workload, h.namespace+"-not")
	other.clusterIs(clusterv1.ClusterRollingOutCondition, false)
	other.waitsForUpgrades()
	other.fail("a")
	other.wantMarked("a", "UnhealthyNode")
	h.areUnmarked("a", "b")
	h.clusterIs(clusterv1.ClusterRollingOutCondition, false)
	h.wantMarked("a", "UnhealthyNode")
	h.wantMarked("b", "UnhealthyNode")

	h.changeCluster(func(c *clusterv1.Cluster) {
		c.Status.ControlPlane = &clusterv1.ClusterControlPlaneStatus{Versions: []clusterv1.StatusVersion{{Version: "v1.35.0"}, {Version: "v1.36.0"}}}
	})
	h.wantHeld("c", "the control plane of Cluster c has several versions (status.controlPlane.versions)")
	h.areUnmarked("c")
	h.changeCheck(`{"metadata":{"annotations":{"fettle.io/wait-for-upgrades":null}}}`)
	h.wantMarked("c", "UnhealthyNode")
}

// rolloutIsWaitedFor as Cluster API's own controllers report it. At rest they report none.
func (m *managed) rolloutIsWaitedFor(t *testing.T) {
	for _, name := range []string{"east", "west"} {
		m.annotateCheck(t, name, `"true"`)
	}
	m.changeDeployment(t, "east", func(d *clusterv1.MachineDeployment) {
		d.Spec.Rollout.After = metav1.Now()
		// Nothing is replaced until the test has seen that.
		d.Spec.Rollout.Strategy = clusterv1.MachineDeploymentRolloutStrategy{Type: clusterv1.OnDeleteMachineDeploymentStrategyType}
	})
	m.clusterIs(t, "east", clusterv1.ClusterRollingOutCondition, "True/RollingOut")
	waiting, other := m.anyWorker(t, "east"), m.anyWorker(t, "west")
	m.breakMachine(t, waiting.Spec.InfrastructureRef.Name)
	m.Eventually(t, "the health check of east says what it waits for", func(ctx context.Context) error {
		c, err := m.check(ctx, "east")
		if err != nil {
			return err
		}
		return compareCondition(c.Status.Conditions, "RemediationAllowed", "True/RemediationAllowed",
			[]string{waiting.Name, "held back by ClusterUpgrading (condition RollingOut of Cluster east is True)"})
	})
	m.breakMachine(t, other.Spec.InfrastructureRef.Name)
	m.isReplaced(t, "west", other.Name)
	workers, err := m.workers(cluster.Context(t), "east")
	if err != nil || workers[waiting.Name] == nil || meta.FindStatusCondition(workers[waiting.Name].Status.Conditions, byOwner) != nil {
		t.Errorf("east has machines %v (%v), and %s is to be there, and not marked", slices.Sorted(maps.Keys(workers)), err, waiting.Name)
	}
	m.changeDeployment(t, "east", func(d *clusterv1.MachineDeployment) {
		d.Spec.Rollout.Strategy = clusterv1.MachineDeploymentRolloutStrategy{Type: clusterv1.RollingUpdateMachineDeploymentStrategyType}
	})
	m.clusterIs(t, "east", clusterv1.ClusterRollingOutCondition, "False/NotRollingOut")
	m.isReplaced(t, "east", waiting.Name)
	for _, name := range []string{"east", "west"} {
		m.annotateCheck(t, name, "null")
	}
}

func (m *managed) annotateCheck(t *testing.T, name, value string) {
	t.Helper()
	c := &clusterv1.MachineHealthCheck{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}
	patch := `{"metadata":{"annotations":{"fettle.io/wait-for-upgrades":` + value + `}}}`
	if err := m.typed.Patch(cluster.Context(t), c, client.RawPatch(types.MergePatchType, []byte(patch))); err != nil {
		t.Fatalf("annotating the health check %s: %v", name, err)
	}
}

// changeDeployment changes the one MachineDeployment of a cluster.
func (m *managed) changeDeployment(t *testing.T, of string, change func(*clusterv1.MachineDeployment)) {
	t.Helper()
	m.Eventually(t, "changing the machine deployment of "+of, func(ctx context.Context) error {
		var list clusterv1.MachineDeploymentList
		if err := m.typed.List(ctx, &list, client.MatchingLabels{clusterv1.ClusterNameLabel: of}); err != nil {
			return err
		}
		if len(list.Items) != 1 {
			return fmt.Errorf("there are %d", len(list.Items))
		}
		fresh := list.Items[0].DeepCopy()
		change(fresh)
		return m.typed.Patch(ctx, fresh, client.MergeFrom(&list.Items[0]))
	})
}

// clusterIs waits for a condition of a Cluster, as "STATUS/REASON".
func (m *managed) clusterIs(t *testing.T, name, condition, want string) {
	t.Helper()
	m.After(t, 30*time.Second, "cluster "+name+" says "+want, func(ctx context.Context) error {
		c := &clusterv1.Cluster{}
		if err := m.typed.Get(ctx, types.NamespacedName{Namespace: "default", Name: name}, c); err != nil {
			return err
		}
		return compareCondition(c.Status.Conditions, condition, want, nil)
	})
}

// waitsForUpgrades makes machines, and a health check that waits for upgrades of their cluster.
func (h *clusterFixture) waitsForUpgrades() {
	h.t.Helper()
	h.running("a", "b", "c", "d")
	h.management.Apply(h.t, "apiVersion: "+clusterAPI+"\nkind: MachineHealthCheck\nmetadata: {name: check, namespace: "+h.namespace+
		", annotations: {fettle.io/wait-for-upgrades: \"true\"}}\nspec:\n"+indent(readyWorkers))
	h.wantCounts("4/4 healthy, 4 allowed")
}

// readyWorkers is the specification of a health check with a short time-out.
const readyWorkers = `
clusterName: c
selector: {matchLabels: {nodepool: workers}}
checks: {unhealthyNodeConditions: [{type: Ready, status: "False", timeoutSeconds: 1}]}
`

// wantHeld breaks a machine, and waits until the health check says why Fettle does not repair it.
func (h *clusterFixture) wantHeld(machine, why string) {
	h.t.Helper()
	h.fail(machine)
	h.wantEvent(machine, "RemediationHeldClusterUpgrading")
	h.wantCheck("RemediationAllowed", "True/RemediationAllowed", machine+" is unhealthy (UnhealthyCondition) and held back by ClusterUpgrading ("+why+")")
}

// areUnmarked checks that machines are not marked now.
func (h *clusterFixture) areUnmarked(machines ...string) {
	h.t.Helper()
	for _, name := range machines {
		m, err := h.get(cluster.Context(h.t), name)
		if err == nil {
			err = compareCondition(m.Status.Conditions, byOwner, "", nil)
		}
		if err != nil {
			h.t.Errorf("machine %s: %v", name, err)
		}
	}
}
