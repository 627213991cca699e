package nhc

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fettle-io/fettle/api/fettle/annotation"
	"github.com/fettle-io/fettle/api/medik8s/v1alpha1"
	"github.com/fettle-io/fettle/internal/core"
	"github.com/fettle-io/fettle/internal/healthcheck"
	"github.com/fettle-io/fettle/internal/messages"
	"github.com/fettle-io/fettle/internal/node"
)

// noun is the word for a target in messages.
const noun = "node"

// resource is the name of health checks for kubectl.
const resource = "nodehealthchecks.remediation.medik8s.io"

// event is one event to emit about a health check. It has the reason of medik8s' operator where that has one
// (docs/reference/medik8s.md#events).
type event = healthcheck.Event

const (
	skippedReason = "RemediationSkipped"
	// notePrefix begins every note, as in medik8s' operator.
	notePrefix = "[remediation] "
)

// eventFor renders an event of the core. It returns false for what the status reports, since the transitions of the
// status have events of their own.
func eventFor(h core.Event) (event, bool) {
	if h.Kind == core.EventMisconfigured {
		return event{}, false
	}
	e := healthcheck.EventTexts{Noun: noun, Unreadable: "NodeUnreadable", Held: heldReason, Remedy: remedyTexts}.Event(h)
	subject, because := messages.Subject(h, noun), messages.ReasonClause(h)
	switch h.Kind {
	case core.EventShortCircuited:
		e.Reason, e.Note = skippedReason, "no remediation begins: "+h.Text
	case core.EventHeldBack:
		e.Warning = isWarning(h.Gate)
		e.Note = subject + " unhealthy and not remediated" + because
	case core.EventStarted:
		e.Note = subject + " to be remediated" + stepText(h) + because
	case core.EventDryRun:
		e.Note = "were it not for the annotation " + annotation.DryRun + ", remediation would begin now: " + subject + " unhealthy" + because
	case core.EventSuspected, core.EventUnreadable, core.EventMisconfigured, core.EventRefused, core.EventEscalated, core.EventWithdrawn, core.EventStuck:
	}
	on := h.Target
	if len(h.Targets) > 0 {
		on = h.Targets[0]
	}
	return eventOn(on, e), true
}

// eventAbout returns an event about a health check.
func eventAbout(check core.ID, e event) event {
	e.Regarding, e.Note = check, notePrefix+e.Note
	return e
}

// eventOn returns an event about a health check that concerns a node, or none if the ID is zero. The event relates to
// the repair, or else to the node: the recorder would merge events that differ in nothing else.
func eventOn(on core.ID, e event) event {
	if e.Related == nil && on.Name != "" {
		e.Related = &corev1.ObjectReference{APIVersion: "v1", Kind: nodeKind, Name: on.Name, UID: types.UID(on.UID)}
	}
	return eventAbout(e.Regarding, e)
}

func heldReason(g core.Gate) string {
	if g == core.StepsExhausted {
		return "NoTemplateLeft"
	}
	return skippedReason
}

// remedyTexts returns the same texts for all remedies, since each is a request to a remediator.
func remedyTexts(string) healthcheck.RemedyTexts {
	return healthcheck.RemedyTexts{Begun: "RemediationCreated", Refused: "RemediationFailed", Done: "remediated"}
}

// stepText names the step of a repair that starts, and returns nothing for the first step.
func stepText(h core.Event) string {
	if h.Step < 2 {
		return ""
	}
	return fmt.Sprintf(" by step %d", h.Step)
}

// isWarning reports whether a user should look at the reason for which a gate is closed. The other gates open by
// themselves, or a user has closed them on purpose.
func isWarning(g core.Gate) bool {
	switch g {
	case core.PolicyPaused, core.ClusterUpgrading, core.TargetUpgrading, core.InFlightLimit, core.BackingOff,
		core.AttemptPause, core.Unconfirmed:
		return false
	case core.PolicyInvalid, core.TooManyUnhealthy, core.StormCooldown, core.NoRemedy, core.NoOwner, core.QuorumUnknown, core.PoolGivenUp,
		core.ControlPlaneBusy, core.QuorumLost, core.Excluded, core.LeaseHeld, core.AnotherRemediator, core.TemplateUnusable, core.RequestsUnseen,
		core.StepsExhausted, core.ClockSkewed, core.ClockUnknown:
	}
	return true
}

// transitions returns the events for the differences between two statuses.
func transitions(id core.ID, old, fresh v1alpha1.NodeHealthCheckStatus) []event {
	events := append(enabledEvents(&old, &fresh), stormEvents(&old, &fresh)...)
	for i := range events {
		events[i].Action = healthcheck.CheckAction
		events[i] = eventAbout(id, events[i])
	}
	return events
}

// enabledEvents returns the events for a health check that becomes enabled, disabled or paused, or is disabled for
// another reason.
func enabledEvents(old, fresh *v1alpha1.NodeHealthCheckStatus) []event {
	var events []event
	was, now := meta.FindStatusCondition(old.Conditions, v1alpha1.DisabledCondition), meta.FindStatusCondition(fresh.Conditions, v1alpha1.DisabledCondition)
	enabled := !isTrue(fresh, v1alpha1.DisabledCondition)
	switch {
	case enabled && (was == nil || isTrue(old, v1alpha1.DisabledCondition)):
		events = append(events, event{Reason: "Enabled", Note: "nodes are checked, and remediated when they are unhealthy"})
	case !enabled && (was == nil || was.Status != now.Status || was.Reason != now.Reason || was.Message != now.Message): // a text of texts
		events = append(events, event{Warning: true, Reason: "Disabled", Note: now.Reason + ": " + now.Message})
	}
	if fresh.Phase == v1alpha1.PhasePaused && old.Phase != v1alpha1.PhasePaused {
		events = append(events, event{Reason: skippedReason, Note: "no remediation begins while spec.pauseRequests has entries; remove them to go on"})
	}
	return events
}

// stormEvents returns the events for the beginning of a storm, its cooldown and its end.
func stormEvents(old, fresh *v1alpha1.NodeHealthCheckStatus) []event {
	var events []event
	storm, before := isTrue(fresh, v1alpha1.StormActiveCondition), isTrue(old, v1alpha1.StormActiveCondition)
	switch {
	case storm && !before:
		events = append(events, event{
			Warning: true, Reason: "StormRecoveryStarted",
			Note: "too many nodes are unhealthy, so no remediation begins until enough are healthy and the cooldown is over",
		})
	case !storm && before:
		events = append(events, event{Reason: "StormRecoveryEnded", Note: "the storm is over, and remediation resumes"})
	}
	if isTrue(fresh, v1alpha1.StormCooldownCondition) && !isTrue(old, v1alpha1.StormCooldownCondition) {
		events = append(events, event{
			Warning: true, Reason: "StormRecoveryCooldownStarted",
			Note: "enough nodes are healthy again; remediation resumes when the cooldown is over",
		})
	}
	return events
}

func isTrue(s *v1alpha1.NodeHealthCheckStatus, condition string) bool {
	return meta.IsStatusConditionTrue(s.Conditions, condition)
}

// unclearExclusions are the unhealthy nodes with a faulty exclusion label for which an event was emitted, by health
// check. If they are lost, an event is repeated. They are not safe for concurrent use.
type unclearExclusions map[unclearExclusion]bool

type unclearExclusion struct{ check, node string }

// news returns the events for faulty labels that are new since the last pass.
func (d *unclearExclusions) news(reports []core.PolicyReport, find func(name string) (node.Facts, bool)) []event {
	var events []event
	now := unclearExclusions{}
	for i := range reports {
		r := &reports[i]
		for j := range r.Members {
			t := r.Members[j].Target
			if n, _ := find(t.Name); !n.Mislabelled || n.Node.UID != t.UID {
				continue
			}
			at := unclearExclusion{check: r.Policy.ID.UID, node: t.UID}
			now[at] = true
			if !(*d)[at] {
				events = append(events, eventOn(t, event{
					Regarding: r.Policy.ID, Warning: true, Reason: "InvalidNodeLabel", Action: healthcheck.CheckAction,
					Note: "node " + t.Name + " has the label " + v1alpha1.ExcludeLabel + " without a value, which does not exclude it; give the value \"true\", or remove the label",
				}))
			}
		}
	}
	*d = now
	return events
}
