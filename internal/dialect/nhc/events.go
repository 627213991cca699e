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
	"github.com/fettle-io/fettle/internal/node"
	"github.com/fettle-io/fettle/internal/telling"
)

// noun is what one target is called.
const noun = "node"

// resource is what a health check is called by kubectl.
const resource = "nodehealthchecks.remediation.medik8s.io"

// event is one event to emit about a health check, with the reasons of today's operator where it has one
// (docs/reference/medik8s.md#events).
type event = healthcheck.Event

const (
	skippedReason = "RemediationSkipped"
	// notePrefix begins every note, as those of today's operator.
	notePrefix = "[remediation] "
)

// eventFor renders a happening. It is false for what the status tells: its transitions have events.
func eventFor(h core.Happening) (event, bool) {
	if h.Kind == core.Misconfigured {
		return event{}, false
	}
	e := healthcheck.Words{Noun: noun, Unreadable: "NodeUnreadable", Held: heldReason, Remedy: wordsOf}.Event(h)
	subject, because := telling.Subject(h, noun), telling.Because(h)
	switch h.Kind {
	case core.Restricted:
		e.Reason, e.Note = skippedReason, "no remediation begins: "+h.Text
	case core.Held:
		e.Warning = isWarning(h.Gate)
		e.Note = subject + " unhealthy and not remediated" + because
	case core.Begun:
		e.Note = subject + " to be remediated" + stepText(h) + because
	case core.Rehearsed:
		e.Note = "were it not for the annotation " + annotation.DryRun + ", remediation would begin now: " + subject + " unhealthy" + because
	case core.Suspected, core.Unreadable, core.Misconfigured, core.Refused, core.Escalated, core.Relieved, core.Lingering:
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

// eventOn returns an event on a node, or the first of several, the zero ID for none. It relates to its repair, or else to the node:
// of events that differ in nothing else the recorder would write the first one alone.
func eventOn(on core.ID, e event) event {
	if e.Related == nil && on.Name != "" {
		e.Related = &corev1.ObjectReference{APIVersion: "v1", Kind: nodeKind, Name: on.Name, UID: types.UID(on.UID)}
	}
	return eventAbout(e.Regarding, e)
}

func heldReason(g core.Gate) string {
	if g == core.LadderExhausted {
		return "NoTemplateLeft"
	}
	return skippedReason
}

// wordsOf returns the same words for all remedies, since each is asked of a remediator.
func wordsOf(string) healthcheck.RemedyWords {
	return healthcheck.RemedyWords{Begun: "RemediationCreated", Refused: "RemediationFailed", Done: "remediated"}
}

// stepText says which step of a repair begins, for all but the first.
func stepText(h core.Happening) string {
	if h.Step < 2 {
		return ""
	}
	return fmt.Sprintf(" by step %d", h.Step)
}

// isWarning tells whether somebody should look at why a gate holds. The other gates open by themselves, or
// somebody has shut them on purpose.
func isWarning(g core.Gate) bool {
	switch g {
	case core.PolicyPaused, core.ClusterUpgrading, core.TargetUpgrading, core.InFlightLimit, core.BackingOff,
		core.AttemptPause, core.Unconfirmed:
		return false
	case core.PolicyInvalid, core.TooManyUnhealthy, core.StormCooldown, core.NoRemedy, core.NoOwner, core.QuorumUnknown, core.PoolGivenUp,
		core.ControlPlaneBusy, core.QuorumLost, core.Excluded, core.LeaseHeld, core.TemplateUnusable, core.RequestsUnseen,
		core.LadderExhausted, core.ClockSkewed, core.ClockUnknown:
	}
	return true
}

// transitions gives the events of what begins or ends with a new status.
func transitions(id core.ID, old, fresh v1alpha1.NodeHealthCheckStatus) []event {
	told := append(enabling(&old, &fresh), storming(&old, &fresh)...)
	for i := range told {
		told[i].Action = healthcheck.CheckAction
		told[i] = eventAbout(id, told[i])
	}
	return told
}

// enabling tells when a health check is enabled, disabled or disabled for another reason, or paused.
func enabling(old, fresh *v1alpha1.NodeHealthCheckStatus) []event {
	var told []event
	was, now := meta.FindStatusCondition(old.Conditions, v1alpha1.DisabledCondition), meta.FindStatusCondition(fresh.Conditions, v1alpha1.DisabledCondition)
	enabled := !holds(fresh, v1alpha1.DisabledCondition)
	switch {
	case enabled && (was == nil || holds(old, v1alpha1.DisabledCondition)):
		told = append(told, event{Reason: "Enabled", Note: "nodes are checked, and remediated when they are unhealthy"})
	case !enabled && (was == nil || was.Status != now.Status || was.Reason != now.Reason || was.Message != now.Message):
		told = append(told, event{Warning: true, Reason: "Disabled", Note: now.Reason + ": " + now.Message})
	}
	if fresh.Phase == v1alpha1.PhasePaused && old.Phase != v1alpha1.PhasePaused {
		told = append(told, event{Reason: skippedReason, Note: "no remediation begins while spec.pauseRequests has entries; remove them to go on"})
	}
	return told
}

// storming tells when a storm begins, calms down and ends.
func storming(old, fresh *v1alpha1.NodeHealthCheckStatus) []event {
	var told []event
	storm, before := holds(fresh, v1alpha1.StormActiveCondition), holds(old, v1alpha1.StormActiveCondition)
	switch {
	case storm && !before:
		told = append(told, event{
			Warning: true, Reason: "StormRecoveryStarted",
			Note: "too many nodes are unhealthy, so no remediation begins until enough are healthy and the cooldown is over",
		})
	case !storm && before:
		told = append(told, event{Reason: "StormRecoveryEnded", Note: "the storm is over, and remediation resumes"})
	}
	if holds(fresh, v1alpha1.StormCooldownCondition) && !holds(old, v1alpha1.StormCooldownCondition) {
		told = append(told, event{
			Warning: true, Reason: "StormRecoveryCooldownStarted",
			Note: "enough nodes are healthy again; remediation resumes when the cooldown is over",
		})
	}
	return told
}

func holds(s *v1alpha1.NodeHealthCheckStatus, condition string) bool {
	return meta.IsStatusConditionTrue(s.Conditions, condition)
}

// doubts are the unhealthy nodes of which it was told that their exclusion is unclear, by health check. It
// is not safe for concurrent use. Losing it repeats an event.
type doubts map[doubt]bool

type doubt struct{ check, node string }

// news gives the events of doubts that have arisen since the last pass.
func (d *doubts) news(reports []core.PolicyReport, find func(name string) (node.Facts, bool)) []event {
	var told []event
	now := doubts{}
	for i := range reports {
		r := &reports[i]
		for j := range r.Cases {
			t := r.Cases[j].Target
			if n, known := find(t.Name); !known || !n.Mislabelled || n.Node.UID != t.UID {
				continue
			}
			at := doubt{check: r.Policy.ID.UID, node: t.UID}
			now[at] = true
			if !(*d)[at] {
				told = append(told, eventOn(t, event{
					Regarding: r.Policy.ID, Warning: true, Reason: "InvalidNodeLabel", Action: healthcheck.CheckAction,
					Note: "node " + t.Name + " has the label " + v1alpha1.ExcludeLabel + " without a value, which does not exclude it; give the value \"true\", or remove the label",
				}))
			}
		}
	}
	*d = now
	return told
}
