package healthcheck

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"

	"github.com/fettle-io/fettle/api/fettle/annotation"
	"github.com/fettle-io/fettle/internal/core"
	"github.com/fettle-io/fettle/internal/messages"
)

// The actions of events.
const (
	RemediateAction = "Remediate"
	CheckAction     = "HealthCheck"
)

// Event is one event to emit.
type Event struct {
	// Regarding is the health check or its target.
	Regarding core.ID
	// Related is the Repair that the event is about, or nil.
	Related              runtime.Object
	Warning              bool
	Reason, Action, Note string
}

// Type returns the type of the event.
func (e Event) Type() string {
	if e.Warning {
		return corev1.EventTypeWarning
	}
	return corev1.EventTypeNormal
}

// BoundedNote returns the note, cut to the length that the API server accepts.
func (e Event) BoundedNote() string { return messages.Note(e.Note) }

// Emit emits the event with its bounded note. The version is that of the regarded object.
func (e Event) Emit(to events.EventRecorder, apiVersion string) {
	to.Eventf(&corev1.ObjectReference{
		APIVersion: apiVersion, Kind: e.Regarding.Kind, Namespace: e.Regarding.Namespace, Name: e.Regarding.Name, UID: types.UID(e.Regarding.UID),
	}, e.Related, e.Type(), e.Reason, e.Action, "%s", e.BoundedNote())
}

// EventTexts has the texts in which the APIs' events differ.
type EventTexts struct {
	// Kind is the kind of the health check where events regard the target. It is empty where they
	// regard the health check.
	Kind string
	// Noun names one target in messages.
	Noun string
	// Unreadable is the reason of an event about a target that can't be read.
	Unreadable string
	// Held returns the reason of an event about a target that a gate holds. Where Held is nil, the
	// reason is RemediationHeld and the gate.
	Held func(core.Gate) string
	// Remedy returns the texts for a remedy.
	Remedy func(name string) RemedyTexts
}

// RemedyTexts has the reasons and texts of events about a remedy.
type RemedyTexts struct {
	// Begun and EventRefused are the reasons of its events.
	Begun, Refused string
	// Does and Done follow "machine m is" and "machine m is not".
	Does, Done, Noun string
}

// Event returns the Kubernetes event for an event of the core.
func (w EventTexts) Event(h core.Event) Event {
	e := Event{Regarding: h.Target, Related: messages.Related(h), Action: RemediateAction}
	if len(h.Targets) > 0 || w.Kind == "" {
		e.Regarding = h.Policy
	}
	of, subject, because := "", messages.Subject(h, w.Noun), messages.ReasonClause(h)
	if w.Kind != "" {
		of = w.Kind + " " + h.Policy.Namespace + "/" + h.Policy.Name + ": "
	}
	switch h.Kind {
	case core.EventSuspected:
		e.Reason, e.Action = "DetectedUnhealthy", CheckAction
		e.Note = of + subject + " not healthy" + because
	case core.EventUnreadable:
		e.Warning, e.Reason, e.Action = true, w.Unreadable, CheckAction
		e.Note = of + subject + " left alone" + because
	case core.EventShortCircuited:
		e.Regarding, e.Warning, e.Reason = h.Policy, true, "RemediationRestricted"
		e.Note = "Repairs are stopped: " + h.Text
	case core.EventMisconfigured:
		e.Regarding, e.Warning, e.Reason = h.Policy, true, InvalidSpecReason
		e.Note = cannotBeFollowed + h.Text
	case core.EventHeldBack:
		e.Warning, e.Reason = h.Gate == core.PoolGivenUp, w.heldReason(h.Gate)
		e.Note = of + subject + " unhealthy and not repaired" + because
	case core.EventStarted:
		words := w.Remedy(h.Remedy)
		e.Reason, e.Note = words.Begun, of+subject+" "+words.Does+because
	case core.EventRefused:
		words := w.Remedy(h.Remedy)
		e.Warning, e.Reason = true, words.Refused
		e.Note = of + subject + " not " + words.Done + " yet, since that was refused; it is tried again after a pause" + because
	case core.EventDryRun:
		e.Reason = "DryRun"
		e.Note = of + "were it not for the annotation " + annotation.DryRun + ", a " + w.Remedy(h.Remedy).Noun + " would begin now: " + subject + " unhealthy" + because
	case core.EventEscalated:
		e.Warning, e.Reason = true, "RemediationGivenUp"
		e.Note = of + subject + " still unhealthy, and " + messages.Step(h) + " of its remediation is given up" + because
	case core.EventWithdrawn:
		e.Reason = "RemediationRemoved"
		e.Note = of + subject + " not to be remediated any more, and the request for that is withdrawn" + because
	case core.EventStuck:
		e.Warning, e.Reason = true, "RemediationStuck"
		e.Note = of + subject + " not to be remediated any more, and the object for that does not go away" + because
	}
	return e
}

func (w EventTexts) heldReason(g core.Gate) string {
	if w.Held == nil {
		return "RemediationHeld" + g.String()
	}
	return w.Held(g)
}
