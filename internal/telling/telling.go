package telling

import (
	"fmt"
	"strings"

	"github.com/fettle-io/fettle/internal/core"
	"github.com/fettle-io/fettle/internal/legible"
)

// nodeNoun is what targets are called that are nodes themselves.
const nodeNoun = "node"

// mostNames are as many as a person reads.
const mostNames = 10

// Names lists targets by their names, the first of many.
func Names(targets []core.ID) string {
	var names []string
	for _, t := range targets[:min(len(targets), mostNames)] {
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
func Subject(h core.Happening, noun string) string {
	switch {
	case len(h.Targets) > 0:
		return fmt.Sprintf("%d %ss (%s) are", len(h.Targets), noun, Names(h.Targets))
	case h.Node == "" || noun == nodeNoun:
		return noun + " " + h.Target.Name + " is"
	}
	return noun + " " + h.Target.Name + " (node " + h.Node + ") is"
}

// Because gives the reason of a happening, which for several targets is that of the first.
func Because(h core.Happening) string {
	if len(h.Targets) > 0 {
		return "; of the first, " + h.Text
	}
	return ": " + h.Text
}

// Concerns says who is not healthy and what becomes of them; it is empty when all are well.
func Concerns(r *core.PolicyReport, noun string) string {
	if len(r.Concerns) == 0 {
		return ""
	}
	var parts []string
	for _, c := range r.Concerns {
		parts = append(parts, c.Target.Name+" "+c.Text)
	}
	if more := r.Tally.Unhealthy() - len(r.Concerns); more > 0 {
		parts = append(parts, fmt.Sprintf("and %d more", more))
	}
	return fmt.Sprintf("%d of %d %ss are not healthy: %s", r.Tally.Unhealthy(), r.Tally.Total, noun, strings.Join(parts, "; "))
}

// longestNote is what the API server takes of an event's note, in bytes.
const longestNote = 1024

// Note cuts the note of an event to what the API server takes.
func Note(text string) string { return Within(longestNote, text) }

// Within cuts a text to so many bytes, at the end of a letter, and shows that it did.
func Within(most int, text string) string {
	if len(text) <= most {
		return text
	}
	return legible.Cut(text, most-len("…")) + "…"
}
