package remediator

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	remediationv1 "github.com/fettle-io/fettle/sandbox/api/remediation/v1alpha1"
)

// The faults of a node that is not silent.
const (
	rebootAnnotation = "sandbox.fettle.io/reboot"
	rebootFails      = "fails"
)

// remediation is an object of any of the kinds.
type remediation interface {
	client.Object
	Parts() (*remediationv1.RemediationSpec, *remediationv1.RemediationStatus)
}

// nodeOf returns the name of a remediation's node.
func nodeOf(r remediation) string {
	if name := r.GetAnnotations()[remediationv1.NodeNameAnnotation]; name != "" {
		return name
	}
	return r.GetName()
}

// step is the next action of a remediator.
type step int

const (
	nothing step = iota + 1
	takeUp
	finish
	fail
	stop
	nodeMissing
	undo
)

// judge returns the next step of a remediation, and when to look again, or zero for never. The node is nil if there is
// none. It is pure.
func (t *remediatorKind) judge(r remediation, node *corev1.Node, now time.Time) (step, time.Time) {
	spec, status := r.Parts()
	_, timedOut := r.GetAnnotations()[remediationv1.TimedOutAnnotation]
	switch {
	case r.GetDeletionTimestamp() != nil:
		if controllerutil.ContainsFinalizer(r, remediationv1.Finalizer) {
			return undo, time.Time{}
		}
		return nothing, time.Time{}
	case spec.Outcome == remediationv1.OutcomeIgnore || ended(status):
		return nothing, time.Time{}
	case timedOut:
		return stop, time.Time{}
	case node == nil && (status.StartedAt == nil || !t.replaces):
		return nodeMissing, time.Time{}
	case status.StartedAt == nil:
		return takeUp, time.Time{}
	case spec.Outcome == remediationv1.OutcomeHang:
		return nothing, time.Time{}
	}
	if due := status.StartedAt.Add(spec.Takes.Duration); now.Before(due) {
		return nothing, due
	}
	if spec.Outcome == remediationv1.OutcomeFail || (!t.replaces && node.Annotations[rebootAnnotation] == rebootFails) {
		return fail, time.Time{}
	}
	return finish, time.Time{}
}

// ended reports whether the remediator has reported its result.
func ended(s *remediationv1.RemediationStatus) bool {
	c := meta.FindStatusCondition(s.Conditions, remediationv1.ConditionSucceeded)
	return c != nil && c.Status != metav1.ConditionUnknown
}

// report is a remediator's report about its work, by both conditions at once.
type report struct {
	processing, succeeded metav1.ConditionStatus
	reason, message       string
}

// report returns the conditions for each step that changes them.
func (t *remediatorKind) report(s step) report {
	switch s {
	case takeUp:
		return report{metav1.ConditionTrue, metav1.ConditionUnknown, "RemediationStarted", "the node is being " + t.participle}
	case finish:
		return report{metav1.ConditionFalse, metav1.ConditionTrue, "RemediationFinishedSuccessfully", "the node was " + t.participle}
	case fail:
		return report{metav1.ConditionFalse, metav1.ConditionFalse, "RemediationFailed", "the node could not be " + t.participle}
	case stop:
		return report{metav1.ConditionFalse, metav1.ConditionFalse, "RemediationStoppedByNHC", "the health checker said that the time is over"}
	case nodeMissing:
		return report{metav1.ConditionFalse, metav1.ConditionFalse, "RemediationSkippedNodeNotFound", "there is no such node"}
	case nothing, undo:
	}
	return report{}
}

// write writes the report into a status.
func (p report) write(s *remediationv1.RemediationStatus, generation int64, now time.Time) {
	for kind, status := range map[string]metav1.ConditionStatus{
		remediationv1.ConditionProcessing: p.processing, remediationv1.ConditionSucceeded: p.succeeded,
	} {
		meta.SetStatusCondition(&s.Conditions, metav1.Condition{
			Type: kind, Status: status, Reason: p.reason, Message: p.message, ObservedGeneration: generation, LastTransitionTime: metav1.NewTime(now),
		})
	}
}
