package machinedeletion

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fettle-io/fettle/api/fettle/v1alpha1"
	"github.com/fettle-io/fettle/internal/sanitize"
)

// event is an event to emit. All notes have the prefix of other remediators' notes.
type event struct {
	kind, reason, note string
}

const prefix = "[remediation] "

func normal(reason, note string) event {
	return event{kind: corev1.EventTypeNormal, reason: reason, note: prefix + note}
}

func warning(reason, note string) event {
	return event{kind: corev1.EventTypeWarning, reason: reason, note: prefix + note}
}

// condition has the fields of one condition.
type condition struct {
	kind            string
	status          metav1.ConditionStatus
	reason, message string
}

// statusWith returns the status with these conditions.
func statusWith(f *facts, words ...condition) v1alpha1.MachineDeletionRemediationStatus {
	s := *f.remediation.Status.DeepCopy()
	for _, w := range words {
		meta.SetStatusCondition(&s.Conditions, metav1.Condition{
			Type: w.kind, Status: w.status, Reason: w.reason, Message: sanitize.Line(sanitize.MaxMessage, w.message), LastTransitionTime: conditionTime(f.now),
		})
	}
	return s
}

// started records the machine, with conditions that say that it is being replaced.
func started(f *facts) next {
	m := f.machine
	what := "machine " + m.key.String()
	message := what + " is being deleted, for " + m.owner.Kind + " " + m.owner.Name + " to replace"
	s := statusWith(f,
		condition{v1alpha1.ProcessingCondition, metav1.ConditionTrue, v1alpha1.RemediationStartedReason, message},
		condition{v1alpha1.SucceededCondition, metav1.ConditionUnknown, v1alpha1.RemediationStartedReason, "it is not known yet whether " + what + " is replaced"},
		permanentDeletionCondition(m),
	)
	s.Machine = &v1alpha1.ObjectReference{Kind: machineKind, Namespace: m.key.Namespace, Name: m.key.Name, UID: string(m.uid)}
	s.Owner = &v1alpha1.RemediationOwner{
		APIVersion:      m.owner.APIVersion,
		ObjectReference: v1alpha1.ObjectReference{Kind: m.owner.Kind, Namespace: m.key.Namespace, Name: m.owner.Name, UID: string(m.owner.UID)},
	}
	s.Machines = int32(min(f.pool.joined, 1<<30)) + 1 //nolint:gosec // bounded on the same line
	return next{step: record, status: s, event: normal("RemediationStarted", message)}
}

// permanentDeletionCondition says by the machine's provider whether its node comes back under the same name.
func permanentDeletionCondition(m *machineFacts) condition {
	w := condition{kind: v1alpha1.PermanentNodeDeletionExpectedCondition}
	switch {
	case m.providerID == "":
		w.status, w.reason, w.message = metav1.ConditionUnknown, v1alpha1.ProviderUnknownReason, "the machine has no spec.providerID, so it is not known whether its replacement has the same name"
	case strings.HasPrefix(m.providerID, "baremetal"):
		w.status, w.reason, w.message = metav1.ConditionFalse, v1alpha1.HostIsReusedReason, "the machine is a host, which may come back as a node of the same name"
	default:
		w.status, w.reason, w.message = metav1.ConditionTrue, v1alpha1.NodeIsReplacedReason, "the machine is replaced by one of another name, and so is its node"
	}
	return w
}

// cannotStart ends a remediation that has done nothing, so that the health checker takes its next step.
func cannotStart(f *facts, reason, why string) next {
	message := "nothing was deleted, since " + why
	s := statusWith(f,
		condition{v1alpha1.ProcessingCondition, metav1.ConditionFalse, reason, message},
		condition{v1alpha1.SucceededCondition, metav1.ConditionFalse, reason, message},
		condition{v1alpha1.PermanentNodeDeletionExpectedCondition, metav1.ConditionFalse, v1alpha1.NothingDeletedReason, message},
	)
	return next{step: record, status: s, event: warning("RemediationCannotStart", message)}
}

// stopped ends a remediation whose time is over for the health checker. A requested deletion goes on.
func stopped(f *facts) next {
	message := "the health checker has requested a stop, and nothing was deleted"
	words := []condition{{v1alpha1.PermanentNodeDeletionExpectedCondition, metav1.ConditionFalse, v1alpha1.NothingDeletedReason, message}}
	if m := f.remediation.Status.Machine; m != nil {
		message = fmt.Sprintf("the health checker has requested a stop; the deletion of machine %s/%s, if it was granted, goes on by itself", m.Namespace, m.Name)
		words = nil
	}
	words = append(words,
		condition{v1alpha1.ProcessingCondition, metav1.ConditionFalse, v1alpha1.RemediationStoppedReason, message},
		condition{v1alpha1.SucceededCondition, metav1.ConditionFalse, v1alpha1.RemediationStoppedReason, message},
	)
	return next{step: record, status: statusWith(f, words...), event: normal("RemediationStopped", message)}
}

// finished ends a remediation whose machine is gone, and whose owner has its replicas.
func finished(f *facts, ownerless bool) next {
	m, o := f.remediation.Status.Machine, f.remediation.Status.Owner
	message := fmt.Sprintf("machine %s/%s is gone, and %s %s has %d that have joined the cluster", m.Namespace, m.Name, o.Kind, o.Name, f.pool.joined)
	if ownerless {
		message = fmt.Sprintf("machine %s/%s is gone, and so is %s %s, so nothing replaces it", m.Namespace, m.Name, o.Kind, o.Name)
	}
	s := statusWith(f,
		condition{v1alpha1.ProcessingCondition, metav1.ConditionFalse, v1alpha1.MachineDeletedReason, message},
		condition{v1alpha1.SucceededCondition, metav1.ConditionTrue, v1alpha1.MachineDeletedReason, message},
	)
	return next{step: record, status: s, event: normal("RemediationFinished", message)}
}
