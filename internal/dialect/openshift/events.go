package openshift

import (
	"unicode/utf8"

	corev1 "k8s.io/api/core/v1"

	"github.com/fettle-io/fettle/api/openshift/v1beta1"
	"github.com/fettle-io/fettle/internal/core"
)

// event is one event to emit, with the reasons and actions of today's controller where it has one
// (reference openshift 1.4).
type event struct {
	regarding core.ID
	warning   bool
	reason    string
	action    string
	note      string
}

const (
	remediateAction   = "Remediate"
	healthCheckAction = "HealthCheck"
)

// eventFor renders a happening.
func eventFor(h core.Happening) event {
	of := "MachineHealthCheck " + h.Policy.Namespace + "/" + h.Policy.Name
	e := event{regarding: h.Target, action: remediateAction}
	switch h.Kind {
	case core.Suspected:
		e.reason, e.action = "DetectedUnhealthy", healthCheckAction
		e.note = of + ": machine " + h.Target.Name + nodeText(h) + " is not healthy: " + h.Text
	case core.Restricted:
		e.regarding, e.warning, e.reason = h.Policy, true, "RemediationRestricted"
		e.note = "Repairs are stopped: " + h.Text
	case core.Misconfigured:
		e.regarding, e.warning, e.reason = h.Policy, true, v1beta1.InvalidSpecReason
		e.note = "Nothing is repaired, since this health check can't be followed: " + h.Text
	case core.Held:
		e.reason = heldReason(h.Gate)
		e.note = of + ": machine " + h.Target.Name + nodeText(h) + " is unhealthy and is not repaired: " + h.Text
	case core.Begun:
		e.reason = "MachineDeleted"
		e.note = of + ": machine " + h.Target.Name + nodeText(h) + " is being deleted, and its owner replaces it: " + h.Text
	case core.Refused:
		e.warning, e.reason = true, "MachineDeletionFailed"
		e.note = of + ": deleting machine " + h.Target.Name + nodeText(h) + " was refused and is tried again after a pause: " + h.Text
	case core.Rehearsed:
		e.reason = "DryRun"
		e.note = of + ": machine " + h.Target.Name + nodeText(h) + " would be deleted, were it not for the annotation " + v1beta1.DryRunAnnotation + ": " + h.Text
	}
	return e
}

func heldReason(g core.Gate) string {
	if g == core.NoOwner {
		return "SkippedNoController"
	}
	return "RemediationHeld" + g.String()
}

func nodeText(h core.Happening) string {
	if h.Node == "" {
		return ""
	}
	return " (node " + h.Node + ")"
}

// longestNote is what the API server takes.
const longestNote = 1024

// noteWithin cuts the note to what the API server takes, at the end of a letter.
func (e event) noteWithin() string {
	if len(e.note) <= longestNote {
		return e.note
	}
	end := longestNote - len("…")
	for end > 0 && !utf8.RuneStart(e.note[end]) {
		end--
	}
	return e.note[:end] + "…"
}

func (e event) kind() string {
	if e.warning {
		return corev1.EventTypeWarning
	}
	return corev1.EventTypeNormal
}
