package nhc

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/fettle-io/fettle/api/fettle/annotation"
	"github.com/fettle-io/fettle/api/medik8s/v1alpha1"
	"github.com/fettle-io/fettle/internal/core"
	"github.com/fettle-io/fettle/internal/node"
	"github.com/fettle-io/fettle/internal/telling"
)

// noun is what one target is called.
const noun = "node"

// resource is what a health check is called by kubectl.
const resource = "nodehealthchecks.remediation.medik8s.io"

// event is one event to emit about a health check, with the reasons of today's operator where it has one
// (docs/reference/medik8s.md#events).
type event struct {
	about core.ID
	// node is the one that it is about too, or the first of several; the zero ID when it is about none.
	node core.ID
	// repair is the repair that it is about, nil for none.
	repair  runtime.Object
	warning bool
	reason  string
	action  string
	note    string
}

const (
	remediateAction   = "Remediate"
	healthCheckAction = "HealthCheck"
	skippedReason     = "RemediationSkipped"
	// notePrefix begins every note, as those of today's operator.
	notePrefix = "[remediation] "
)

// eventFor renders a happening. It is false for what the status tells: its transitions have events.
func eventFor(h core.Happening) (event, bool) {
	e := event{about: h.Policy, node: h.Target, repair: telling.Related(h), action: remediateAction, reason: skippedReason}
	if len(h.Targets) > 0 {
		e.node = h.Targets[0]
	}
	switch h.Kind {
	case core.Misconfigured:
		return event{}, false
	case core.Suspected:
		e.reason, e.action = "DetectedUnhealthy", healthCheckAction
		e.note = telling.Subject(h, noun) + " not healthy" + telling.Because(h)
	case core.Unreadable:
		e.warning, e.reason, e.action = true, "NodeUnreadable", healthCheckAction
		e.note = telling.Subject(h, noun) + " left alone" + telling.Because(h)
	case core.Restricted:
		e.warning = true
		e.note = "no remediation begins: " + h.Text
	case core.Held:
		e.warning = isWarning(h.Gate)
		if h.Gate == core.LadderExhausted {
			e.reason = "NoTemplateLeft"
		}
		e.note = telling.Subject(h, noun) + " unhealthy and not remediated" + telling.Because(h)
	case core.Begun:
		e.reason = "RemediationCreated"
		e.note = telling.Subject(h, noun) + " to be remediated" + stepText(h) + telling.Because(h)
	case core.Refused:
		e.warning, e.reason = true, "RemediationFailed"
		e.note = telling.Subject(h, noun) + " not remediated yet, since that was refused; it is tried again after a pause" + telling.Because(h)
	case core.Rehearsed:
		e.reason = "DryRun"
		e.note = "were it not for the annotation " + annotation.DryRun + ", remediation would begin now: " + telling.Subject(h, noun) + " unhealthy" + telling.Because(h)
	case core.Escalated:
		e.warning, e.reason = true, "RemediationGivenUp"
		e.note = telling.Subject(h, noun) + " still unhealthy, and " + telling.Step(h) + " of its remediation is given up" + telling.Because(h)
	case core.Relieved:
		e.reason = "RemediationRemoved"
		e.note = telling.Subject(h, noun) + " not to be remediated any more, and the request for that is withdrawn" + telling.Because(h)
	case core.Lingering:
		e.warning, e.reason = true, "RemediationStuck"
		e.note = telling.Subject(h, noun) + " not to be remediated any more, and the object for that does not go away" + telling.Because(h)
	}
	return e, true
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
		told[i].about, told[i].action = id, healthCheckAction
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
		told = append(told, event{reason: "Enabled", note: "nodes are checked, and remediated when they are unhealthy"})
	case !enabled && (was == nil || was.Status != now.Status || was.Reason != now.Reason || was.Message != now.Message):
		told = append(told, event{warning: true, reason: "Disabled", note: now.Reason + ": " + now.Message})
	}
	if fresh.Phase == v1alpha1.PhasePaused && old.Phase != v1alpha1.PhasePaused {
		told = append(told, event{reason: skippedReason, note: "no remediation begins while spec.pauseRequests has entries; remove them to go on"})
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
			warning: true, reason: "StormRecoveryStarted",
			note: "too many nodes are unhealthy, so no remediation begins until enough are healthy and the cooldown is over",
		})
	case !storm && before:
		told = append(told, event{reason: "StormRecoveryEnded", note: "the storm is over, and remediation resumes"})
	}
	if holds(fresh, v1alpha1.StormCooldownCondition) && !holds(old, v1alpha1.StormCooldownCondition) {
		told = append(told, event{
			warning: true, reason: "StormRecoveryCooldownStarted",
			note: "enough nodes are healthy again; remediation resumes when the cooldown is over",
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
				told = append(told, event{
					about: r.Policy.ID, node: t, warning: true, reason: "InvalidNodeLabel", action: healthCheckAction,
					note: "node " + t.Name + " has the label " + v1alpha1.ExcludeLabel + " without a value, which does not exclude it; give the value \"true\", or remove the label",
				})
			}
		}
	}
	*d = now
	return told
}

// noteWithin gives the note with its prefix, cut to what the API server takes.
func (e event) noteWithin() string { return telling.Note(notePrefix + e.note) }

func (e event) kind() string {
	if e.warning {
		return corev1.EventTypeWarning
	}
	return corev1.EventTypeNormal
}
