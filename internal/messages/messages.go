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

// nodeNoun is what targets are called that are nodes themselves.
const nodeNoun = "node"

// maxNames are as many as a person reads.
const maxNames = 10

// Names lists targets by their names, the first of many.
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

// Subject names who a happening is about, up to the verb. Noun is what one target is called, such as machine; nodes of
// targets that are none themselves are named too.
func Subject(h core.Event, noun string) string {
	switch {
	case len(h.Targets) > 0:
		return fmt.Sprintf("%d %ss (%s) are", len(h.Targets), noun, Names(h.Targets))
	case h.Node == "" || noun == nodeNoun:
		return noun + " " + h.Target.Name + " is"
	}
	return noun + " " + h.Target.Name + " (node " + h.Node + ") is"
}

// Step names the step of a repair that a happening is about.
func Step(h core.Event) string {
	if h.Step < 1 || len(h.Targets) > 0 {
		return "a step"
	}
	return fmt.Sprintf("step %d", h.Step)
}

// ReasonClause gives the reason of a happening, which for several targets is that of the first.
func ReasonClause(h core.Event) string {
	if len(h.Targets) > 0 {
		return "; of the first, " + h.Text
	}
	return ": " + h.Text
}

// GoneTargets says which targets are gone and have their place among the limits all the same. It begins with a semicolon, and is
// empty when there are none.
func GoneTargets(r *core.PolicyReport) string {
	if r.Tally.Waits == "" {
		return ""
	}
	return "; " + sanitize.Line(sanitize.MaxNote, r.Tally.Waits)
}

// Related returns what an event about a happening relates to: its repair and, where there is one, the step of it. It is nil
// for a happening without a repair. Clients write events that differ in nothing but their note and time as one event, so
// this keeps those of two repairs, and of two steps, apart.
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

// UnhealthyTargets says who is not healthy and what becomes of them; it is empty when all are well.
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

// GivenUp says what a health check has given up, and by which command a person has it resumed; it is empty where that is nothing. The
// resource is that of the health check, as kubectl takes it.
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

// Clock says why nothing is repaired while Fettle's clock is wrong, or may be.
func Clock(r *core.PolicyReport) string {
	return "Nothing is repaired, since " + core.Refusal{Gate: r.Clock}.Text()
}

// Note makes a text fit to be the note of an event.
func Note(text string) string { return sanitize.Line(sanitize.MaxNote, text) }

// Brief makes a text fit to be the message of a condition that must be as short as can be.
func Brief(text string) string { return sanitize.Line(sanitize.MaxBrief, text) }

// Message makes a text fit to be the message of a condition.
func Message(text string) string { return sanitize.Line(sanitize.MaxMessage, text) }
