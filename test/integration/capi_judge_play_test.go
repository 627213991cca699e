package integration

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fettle-io/fettle/test/cluster"
)

// The common parts of worlds.
const (
	excludeLabel = "remediation.medik8s.io/exclude-from-remediation"
	pressedType  = "Pressed" // a condition of nodes
	brokenType   = "Broken"  // a condition of machines
	keeper       = "test.fettle.io/keeper"

	// shortly is longer than the short time-outs of a health check, and the second that Cluster API adds.
	shortly = 4 * time.Second
)

// build makes the Cluster, the machines and the health check on both sides, in their state of the first stage.
func (w *judgedWorld) build(t *testing.T, managements [2]*cluster.Cluster, workload *cluster.Cluster) {
	t.Helper()
	for side, management := range managements {
		h := newClusterFixture(t, management, workload, w.name)
		w.sides[side] = h
		h.changeCluster(func(c *clusterv1.Cluster) {
			c.Spec.Paused = &w.stages[0].clusterPaused
			c.Status.Initialization.InfrastructureProvisioned = new(true)
		})
		if w.template == templateIsThere {
			h.template()
		}
		for _, m := range w.machines {
			h.machine(m.name, m.differs)
		}
	}
	initial := judgedStage{infrastructureReady: true, initialized: true, machines: make([]machineState, len(w.machines))}
	w.change(initial, w.stages[0])
	for _, h := range w.sides {
		h.create(w.healthCheck(h))
	}
	w.due = time.Now().Add(shortly)
	if w.startup == 30 {
		w.due = time.Now().Add(30*time.Second + shortly)
	}
}

func (m judgedMachine) differs(machine *clusterv1.Machine) {
	machine.Finalizers = []string{keeper}
	if m.member {
		machine.Labels[clusterv1.MachineControlPlaneLabel] = ""
	}
	if m.orphan {
		orphan(machine)
	}
}

func (w *judgedWorld) healthCheck(h *clusterFixture) *clusterv1.MachineHealthCheck {
	c := &clusterv1.MachineHealthCheck{
		ObjectMeta: metav1.ObjectMeta{Namespace: h.namespace, Name: "check"},
		Spec: clusterv1.MachineHealthCheckSpec{
			ClusterName: herdCluster,
			Selector:    metav1.LabelSelector{MatchLabels: map[string]string{"nodepool": "workers"}},
			Checks: clusterv1.MachineHealthCheckChecks{
				NodeStartupTimeoutSeconds: &w.startup,
				UnhealthyNodeConditions: []clusterv1.UnhealthyNodeCondition{
					{Type: corev1.NodeReady, Status: corev1.ConditionFalse, TimeoutSeconds: new(int32(1))},
					{Type: corev1.NodeReady, Status: corev1.ConditionUnknown, TimeoutSeconds: new(int32(0))},
					{Type: pressedType, Status: corev1.ConditionTrue, TimeoutSeconds: new(int32(600))},
				},
				UnhealthyMachineConditions: []clusterv1.UnhealthyMachineCondition{
					{Type: brokenType, Status: metav1.ConditionTrue, TimeoutSeconds: new(int32(1))},
				},
			},
		},
	}
	switch limit := string(w.limit); {
	case limit == "":
	case limit[0] == '[':
		c.Spec.Remediation.TriggerIf.UnhealthyInRange = limit
	default:
		c.Spec.Remediation.TriggerIf.UnhealthyLessThanOrEqualTo = new(intstr.Parse(limit))
	}
	if w.template != byTheOwner {
		c.Spec.Remediation.TemplateRef = clusterv1.MachineHealthCheckRemediationTemplateReference{
			APIVersion: remediators, Kind: rebooting + "Template", Name: "reboot",
		}
	}
	if w.stages[0].checkPaused {
		c.Annotations = map[string]string{clusterv1.PausedAnnotation: ""}
	}
	return c
}

// advance changes the world to its next stage.
func (w *judgedWorld) advance() {
	before := w.stages[w.stage]
	w.stage++
	now := w.stages[w.stage]
	w.pause(before.clusterPaused || now.clusterPaused, before.checkPaused || now.checkPaused)
	w.change(before, now)
	w.pause(now.clusterPaused, now.checkPaused)
	w.due = time.Now().Add(shortly)
	if w.startup == 30 && (now.initialized != before.initialized || now.infrastructureReady != before.infrastructureReady) {
		w.due = time.Now().Add(30*time.Second + shortly)
	}
	w.rest = judgedRest{}
}

func (w *judgedWorld) change(before, now judgedStage) {
	w.changeClusters(before, now)
	for i, m := range w.machines {
		from, to := before.machines[i], now.machines[i]
		of := m.name
		if m.twin {
			of = w.machines[i-1].name
		} else {
			w.changeNode(m.name, from, to)
		}
		for _, h := range w.sides {
			h.changeMachine(m.name, h.node(of), from, to)
		}
	}
}

// changeClusters sets a condition with the same transition on both sides.
func (w *judgedWorld) changeClusters(before, now judgedStage) {
	at := metav1.Now().Rfc3339Copy()
	set := func(c *clusterv1.Cluster, kind string, value bool) {
		status := metav1.ConditionFalse
		if value {
			status = metav1.ConditionTrue
		}
		meta.SetStatusCondition(&c.Status.Conditions, metav1.Condition{Type: kind, Status: status, Reason: "Test", LastTransitionTime: at})
	}
	for _, h := range w.sides {
		h.changeCluster(func(c *clusterv1.Cluster) {
			if before.infrastructureReady != now.infrastructureReady {
				set(c, clusterv1.ClusterInfrastructureReadyCondition, now.infrastructureReady)
			}
			if before.initialized != now.initialized {
				set(c, clusterv1.ClusterControlPlaneInitializedCondition, now.initialized)
			}
		})
	}
}

// pause pauses both sides, and waits until both say so, or continues both.
func (w *judgedWorld) pause(ofCluster, ofCheck bool) {
	value := "null"
	if ofCheck {
		value = `""`
	}
	for _, h := range w.sides {
		h.changeCluster(func(c *clusterv1.Cluster) { c.Spec.Paused = &ofCluster })
		h.changeCheck(`{"metadata":{"annotations":{"` + clusterv1.PausedAnnotation + `":` + value + `}}}`)
		if ofCluster || ofCheck {
			h.wantCheck(saysPaused, "True/Paused")
		}
	}
}

// changeNode changes the node of a machine, which both sides see.
func (w *judgedWorld) changeNode(machine string, from, to machineState) {
	h := w.sides[judge]
	h.t.Helper()
	ctx := cluster.Context(h.t)
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: h.node(machine)}}
	there := func(s nodeState) bool { return s != noNode && s != nodeGone }
	var err error
	switch {
	case there(to.node) && !there(from.node):
		err = h.workload.Create(ctx, node)
	case there(from.node) && !there(to.node):
		err = h.workload.Delete(ctx, node)
	}
	if err != nil {
		h.t.Fatalf("changing node %s: %v", node.Name, err)
	}
	if !there(to.node) {
		return
	}
	if from.node != to.node {
		h.patchNode(machine, map[string]any{"status": map[string]any{"conditions": conditionsOfNode(to.node)}}, h.workload.Status().Patch)
	}
	if to.excluded {
		h.patchNode(machine, map[string]any{"metadata": map[string]any{"labels": map[string]string{excludeLabel: "true"}}}, h.patchWorkload)
	}
}

// patchWorkload is Patch with the options of a patch of a status.
func (h *clusterFixture) patchWorkload(ctx context.Context, o client.Object, patch client.Patch, _ ...client.SubResourcePatchOption) error {
	return h.workload.Patch(ctx, o, patch)
}

func (h *clusterFixture) patchNode(machine string, body map[string]any,
	patch func(context.Context, client.Object, client.Patch, ...client.SubResourcePatchOption) error,
) {
	h.t.Helper()
	raw, err := json.Marshal(body)
	if err != nil {
		h.t.Fatal(err)
	}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: h.node(machine)}}
	if err := patch(cluster.Context(h.t), node, client.RawPatch(types.StrategicMergePatchType, raw)); err != nil {
		h.t.Fatalf("patching node %s: %v", node.Name, err)
	}
}

// conditionsOfNode returns the conditions of a node. A node without pressure has reported that for an hour. If it had
// just turned, Fettle would withdraw a mark a minute later (TestNodeProblemDetectorOfAWorkloadCluster).
func conditionsOfNode(s nodeState) []corev1.NodeCondition {
	now := metav1.Now()
	long := metav1.NewTime(now.Add(-time.Hour))
	ready := corev1.NodeCondition{Type: corev1.NodeReady, Status: corev1.ConditionTrue, Reason: "Test", LastHeartbeatTime: now, LastTransitionTime: now}
	under := corev1.NodeCondition{Type: pressedType, Status: corev1.ConditionFalse, Reason: "Test", LastHeartbeatTime: now, LastTransitionTime: long}
	switch s {
	case nodeNotReady:
		ready.Status = corev1.ConditionFalse
	case nodeUnknown:
		ready.Status = corev1.ConditionUnknown
	case nodePressed:
		under.Status, under.LastTransitionTime = corev1.ConditionTrue, now
	case nodePressedLong:
		under.Status = corev1.ConditionTrue
	case noNode, nodeReady, nodeGone:
	}
	return []corev1.NodeCondition{ready, under}
}
