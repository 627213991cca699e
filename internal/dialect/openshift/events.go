package openshift

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/fettle-io/fettle/api/fettle/annotation"
	"github.com/fettle-io/fettle/api/openshift/v1beta1"
	"github.com/fettle-io/fettle/internal/core"
	"github.com/fettle-io/fettle/internal/telling"
)

// noun is what one target is called.
const noun = "machine"

// resource is what a health check is called by kubectl.
const resource = "machinehealthchecks.machine.openshift.io"

// event is one event to emit, with the reasons and actions of today's controller where it has one
// (docs/reference/openshift.md#events).
type event struct {
	regarding core.ID
	// related is the repair that it is about, nil for none.
	related runtime.Object
	warning bool
	reason  string
	action  string
	note    string
}

const (
	remediateAction   = "Remediate"
	healthCheckAction = "HealthCheck"
)

// eventFor renders a happening.
func eventFor(h core.Happening) event {
	of := "MachineHealthCheck " + h.Policy.Namespace + "/" + h.Policy.Name
	e := event{regarding: h.Target, related: telling.Related(h), action: remediateAction}
	if len(h.Targets) > 0 {
		e.regarding = h.Policy
	}
	switch h.Kind {
	case core.Suspected:
		e.reason, e.action = "DetectedUnhealthy", healthCheckAction
		e.note = of + ": " + telling.Subject(h, noun) + " not healthy" + telling.Because(h)
	case core.Unreadable:
		e.warning, e.reason, e.action = true, "MachineUnreadable", healthCheckAction
		e.note = of + ": " + telling.Subject(h, noun) + " left alone" + telling.Because(h)
	case core.Restricted:
		e.regarding, e.warning, e.reason = h.Policy, true, "RemediationRestricted"
		e.note = "Repairs are stopped: " + h.Text
	case core.Misconfigured:
		e.regarding, e.warning, e.reason = h.Policy, true, v1beta1.InvalidSpecReason
		e.note = "Nothing is repaired, since this health check can't be followed: " + h.Text
	case core.Held:
		e.warning, e.reason = h.Gate == core.PoolGivenUp, heldReason(h.Gate)
		e.note = of + ": " + telling.Subject(h, noun) + " unhealthy and not repaired" + telling.Because(h)
	case core.Begun:
		w := wordsOf(h.Remedy)
		e.reason, e.note = w.begun, of+": "+telling.Subject(h, noun)+" "+w.does+telling.Because(h)
	case core.Refused:
		w := wordsOf(h.Remedy)
		e.warning, e.reason = true, w.refused
		e.note = of + ": " + telling.Subject(h, noun) + " not " + w.done + " yet, since that was refused; it is tried again after a pause" + telling.Because(h)
	case core.Rehearsed:
		e.reason = "DryRun"
		e.note = of + ": were it not for the annotation " + annotation.DryRun + ", a " + wordsOf(h.Remedy).noun + " would begin now: " + telling.Subject(h, noun) + " unhealthy" + telling.Because(h)
	case core.Escalated:
		e.warning, e.reason = true, "RemediationGivenUp"
		e.note = of + ": " + telling.Subject(h, noun) + " still unhealthy, and " + telling.Step(h) + " of its remediation is given up" + telling.Because(h)
	case core.Relieved:
		e.reason = "RemediationRemoved"
		e.note = of + ": " + telling.Subject(h, noun) + " not to be remediated any more, and the request for that is withdrawn" + telling.Because(h)
	case core.Lingering:
		e.warning, e.reason = true, "RemediationStuck"
		e.note = of + ": " + telling.Subject(h, noun) + " not to be remediated any more, and the object for that does not go away" + telling.Because(h)
	}
	return e
}

// remedyWords are how events tell of a remedy.
type remedyWords struct {
	// begun and refused are the reasons of its events.
	begun, refused string
	// does and done follow "machine m is" and "machine m is not".
	does, done, noun string
}

// wordsOf gives today's reasons where today's controller has an event; for remediation objects it has
// none (docs/reference/openshift.md#events).
func wordsOf(remedy string) remedyWords {
	switch remedy {
	case AnnotateMachine:
		return remedyWords{
			begun: "ExternalAnnotationAdded", refused: "ExternalAnnotationFailed", noun: "repair by an outside remediator",
			does: "left to an outside remediator, for whom it is marked by the annotation " + claimAnnotation, done: "marked for an outside remediator",
		}
	case RequestMachineRemediation:
		return remedyWords{
			begun: "ExternalRemediationRequested", refused: v1beta1.ExternalRemediationRequestCreationFailedReason, noun: "repair by an outside remediator",
			does: "left to an outside remediator, for whom a remediation object was created", done: "handed to an outside remediator",
		}
	}
	return remedyWords{
		begun: "MachineDeleted", refused: "MachineDeletionFailed", noun: "deletion",
		does: "being deleted, for the owner to replace", done: "deleted",
	}
}

func heldReason(g core.Gate) string {
	if g == core.NoOwner {
		return "SkippedNoController"
	}
	return "RemediationHeld" + g.String()
}

// noteWithin cuts the note to what the API server takes.
func (e event) noteWithin() string { return telling.Note(e.note) }

func (e event) kind() string {
	if e.warning {
		return corev1.EventTypeWarning
	}
	return corev1.EventTypeNormal
}
