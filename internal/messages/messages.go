package messages

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/fettle-io/fettle/api/fettle/v1alpha1"
	"github.com/fettle-io/fettle/internal/core"
	"github.com/fettle-io/fettle/internal/sanitize"
)

const repairKind = "Repair"

// nodeNoun is the noun for targets that are nodes.
const nodeNoun = "node"

// maxNames bounds the names in a text.
const maxNames = 10

// Names returns the names of targets, up to a bound.
func Names(targets []core.ID) string {
	var names []string
	for _, t := range targets[:min(len(targets), maxNames)] {
		names = append(names, t.Name)
	}
	text := strings.Join(names, ", ")
	if more := len(targets) - len(names); more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// Subject returns the subject and the verb of a text about an event. Noun is the noun for a target, such as
// machine. The text also names the nodes of targets that are not nodes themselves.
func Subject(h core.Event, noun string) string {
	switch {
	case len(h.Targets) > 0:
		return fmt.Sprintf("%d %ss (%s) are", len(h.Targets), noun, Names(h.Targets))
	case h.Node == "" || noun == nodeNoun:
		return noun + " " + h.Target.Name + " is"
	}
	return noun + " " + h.Target.Name + " (node " + h.Node + ") is"
}

// Step names the step of a repair that an event is about.
func Step(h core.Event) string {
	if h.Step < 1 || len(h.Targets) > 0 {
		return "a step"
	}
	return fmt.Sprintf("step %d", h.Step)
}

// ReasonClause returns the reason of an event. For several targets, it is the reason of the first.
func ReasonClause(h core.Event) string {
	if len(h.Targets) > 0 {
		return "; of the first, " + h.Text
	}
	return ": " + h.Text
}

// GoneTargets returns a text about the targets that are gone and still count for the limits. It begins with a
// semicolon, and is empty if there are none.
func GoneTargets(r *core.PolicyReport) string {
	if r.Tally.Waits == "" {
		return ""
	}
	return "; " + sanitize.Line(sanitize.MaxNote, r.Tally.Waits)
}

// Related returns the object that a Kubernetes event relates to: the repair and, if there is one, its step. It is
// nil for an event without a repair. Clients merge events that differ only in note and time. The related object
// keeps the events of two repairs, and of two steps, apart.
func Related(h core.Event) runtime.Object {
	if h.Repair == (core.RepairKey{}) {
		return nil
	}
	r := &corev1.ObjectReference{
		APIVersion: v1alpha1.GroupVersion.String(), Kind: repairKind, Namespace: h.Repair.Namespace, Name: h.Repair.Name,
	}
	if h.Step > 0 {
		r.FieldPath = fmt.Sprintf("spec.ladder[%d]", h.Step-1)
	}
	return r
}

// UnhealthyTargets returns a text about the targets that are not healthy, and what happens to them. It is empty if
// all are healthy.
func UnhealthyTargets(r *core.PolicyReport, noun string) string {
	if len(r.Concerns) == 0 {
		return strings.TrimPrefix(GoneTargets(r), "; ")
	}
	var parts []string
	for _, c := range r.Concerns {
		parts = append(parts, sanitize.Line(sanitize.MaxPart, c.Target.Name+" "+c.Text))
	}
	if more := r.Tally.Unhealthy() - r.Tally.AwaitingReplacement - len(r.Concerns); more > 0 {
		parts = append(parts, fmt.Sprintf("and %d more", more))
	}
	unhealthy := r.Tally.Unhealthy() - r.Tally.AwaitingReplacement // the rest is told with GoneTargets
	return fmt.Sprintf("%d of %d %ss are not healthy: %s", unhealthy, r.Tally.Total, noun, strings.Join(parts, "; ")) + GoneTargets(r)
}

// GivenUpReason is the reason of a condition that allows repairs, while some pools are given up.
const GivenUpReason = "PoolGivenUp"

// GivenUp returns a text about the pools that a health check has given up, with the command that resumes them. It
// is empty if there are none. Resource is the health check's resource, as kubectl takes it.
func GivenUp(r *core.PolicyReport, resource, annotation string) string {
	if len(r.GivenUp) == 0 {
		return ""
	}
	id, namespace := r.Policy.ID, ""
	if id.Namespace != "" {
		namespace = "-n " + id.Namespace + " "
	}
	return fmt.Sprintf("Given up, since repairs in a row have not helped: %s; find out why and mend that, then resume by kubectl annotate --overwrite %s%s %s %s=$(date -u +%%FT%%TZ) ; ",
		Names(r.GivenUp), namespace, resource, id.Name, annotation)
}

// Clock returns why nothing is repaired while Fettle's clock is wrong, or may be.
func Clock(r *core.PolicyReport) string {
	return "Nothing is repaired, since " + core.Refusal{Gate: r.Clock}.Text()
}

// Note returns a text that fits the note of an event.
func Note(text string) string { return sanitize.Line(sanitize.MaxNote, text) }

// Brief returns a text that fits the message of a condition that must be as short as possible.
func Brief(text string) string { return sanitize.Line(sanitize.MaxBrief, text) }

// Message returns a text that fits the message of a condition.
func Message(text string) string { return sanitize.Line(sanitize.MaxMessage, text) }
