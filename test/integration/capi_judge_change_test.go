package integration

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fettle-io/fettle/test/cluster"
)

// changeMachine changes a machine on one side.
func (h *clusterFixture) changeMachine(name, node string, from, to machineState) {
	h.t.Helper()
	var annotations []string
	if from.annotation != "" && from.annotation != to.annotation {
		annotations = append(annotations, "-"+from.annotation)
	}
	if to.annotation != "" && from.annotation != to.annotation {
		annotations = append(annotations, to.annotation)
	}
	if len(annotations) > 0 {
		h.annotate(name, annotations...)
	}
	h.changeStatus(name, func(m *clusterv1.Machine) {
		if to.node != noNode {
			m.Status.NodeRef.Name = node
		}
		if from.broken != to.broken {
			status := metav1.ConditionFalse
			if to.broken {
				status = metav1.ConditionTrue
			}
			meta.SetStatusCondition(&m.Status.Conditions, metav1.Condition{Type: brokenType, Status: status, Reason: "Test"})
		}
		if to.failed && !from.failed {
			if m.Status.Deprecated == nil {
				m.Status.Deprecated = &clusterv1.MachineDeprecatedStatus{}
			}
			if m.Status.Deprecated.V1Beta1 == nil {
				m.Status.Deprecated.V1Beta1 = &clusterv1.MachineV1Beta1DeprecatedStatus{}
			}
			m.Status.Deprecated.V1Beta1.FailureMessage = new("no such flavor")
		}
		to.answer.give(m)
	})
	if to.deleting && !from.deleting {
		if err := h.Delete(cluster.Context(h.t), &clusterv1.Machine{ObjectMeta: h.meta(name)}); err != nil {
			h.t.Fatalf("deleting machine %s: %v", name, err)
		}
	}
}

// give answers a mark in both generations of conditions, as the owners of machines do.
func (a ownersAnswer) give(m *clusterv1.Machine) {
	mark := meta.FindStatusCondition(m.Status.Conditions, byOwner)
	if mark == nil || a == noAnswer {
		return
	}
	answer, old := *mark, corev1.ConditionFalse
	answer.Status, answer.Reason = metav1.ConditionFalse, clusterv1.MachineSetMachineRemediationDeferredReason
	if a == remediationDone {
		answer.Status, answer.Reason, old = metav1.ConditionTrue, "Remediated", corev1.ConditionTrue
	}
	meta.SetStatusCondition(&m.Status.Conditions, answer)
	for i := range m.Status.Deprecated.V1Beta1.Conditions {
		if c := &m.Status.Deprecated.V1Beta1.Conditions[i]; c.Type == clusterv1.ConditionType(byOwner) && c.Status != old {
			*c = clusterv1.Condition{Type: c.Type, Status: old, LastTransitionTime: metav1.Now()}
		}
	}
}

// touch changes the generation of both health checks and nothing else. Behind a closed gate, Cluster API's health check
// forgets its timer. It does not look again when a Machine is deleted, or when a Cluster becomes ready.
func (w *judgedWorld) touch() {
	for _, h := range w.sides {
		h.t.Helper()
		h.management.Eventually(h.t, "touching a health check", func(ctx context.Context) error {
			c, err := h.check(ctx)
			if err != nil {
				return err
			}
			fresh := c.DeepCopy()
			fresh.Spec.Checks.UnhealthyNodeConditions = append(fresh.Spec.Checks.UnhealthyNodeConditions, clusterv1.UnhealthyNodeCondition{
				Type: "Touched", Status: corev1.ConditionTrue, TimeoutSeconds: new(int32(600)),
			})
			return h.Patch(ctx, fresh, client.MergeFromWithOptions(c, client.MergeFromWithOptimisticLock{}))
		})
	}
}
