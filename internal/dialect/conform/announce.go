package conform

import (
	"fmt"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/fettle-io/fettle/internal/core"
	"github.com/fettle-io/fettle/internal/sanitize"
)

// announces: every event can be emitted, for one target and for many, with a note that the API
// server accepts.
func (f *Fixture) announces(t *testing.T) {
	w, s := f.startSynced(t, f.Check)
	policy := observed(t, s).Policies[0].ID
	s.EmitEvents(nil)
	s.EmitEvents([]core.Event{{}})
	w.takeEvents()
	begun := 0
	for h := range f.events(policy) {
		s.EmitEvents([]core.Event{h})
		for _, n := range w.takeEvents() {
			if h.Kind == core.EventStarted {
				begun++
			}
			n.check(t, &h)
		}
	}
	if begun == 0 {
		t.Error("no event says that a repair has begun")
	}
}

// longestNote is the limit of the API server for the note of an event, in bytes.
const longestNote = 1024

func (n event) check(t *testing.T, h *core.Event) {
	t.Helper()
	switch {
	case n.text == "" || n.reason == "" || n.action == "":
		t.Errorf("%s by gate %s becomes %q, with the reason %q and action %q", h.Kind, h.Gate, n.text, n.reason, n.action)
	case len(n.text) > longestNote || !utf8.ValidString(n.text):
		t.Errorf("%s by gate %s becomes %d bytes, valid: %t", h.Kind, h.Gate, len(n.text), utf8.ValidString(n.text))
	case strings.ContainsFunc(n.text, func(letter rune) bool { return !unicode.IsPrint(letter) }):
		t.Errorf("%s by gate %s has letters that are not printable: %q", h.Kind, h.Gate, n.text)
	case len(h.Text) < longestNote/4 && !strings.Contains(n.text, sanitize.Line(longestNote, h.Text)):
		t.Errorf("%s by gate %s lacks its reason: %q", h.Kind, h.Gate, n.text)
	}
}

// events yields every kind of event, for no target, one and many, with short texts and long ones.
func (f *Fixture) events(policy core.ID) func(yield func(core.Event) bool) {
	words := []struct{ name, text string }{
		{"worker", "for a reason"}, {strings.Repeat("long-", 40), strings.Repeat("für Gründe ", 300)},
		{"worker", "for a reason\x1b[2J\r\nof \u202eothers\x00"},
	}
	return func(yield func(core.Event) bool) {
		for k := core.EventSuspected; k.String() != "unnamed"; k++ {
			for _, gate := range gatesOf(k) {
				for i, w := range words {
					h := core.Event{Kind: k, Policy: policy, Gate: gate, Text: w.text, Remedy: f.Remedies[i%len(f.Remedies)]}
					one, several := h, h
					several.Targets = f.many(w.name)
					one.Target, one.Node = several.Targets[0], w.name
					if !yield(h) || !yield(one) || !yield(several) {
						return
					}
				}
			}
		}
	}
}

// many returns more targets than one note can name.
func (f *Fixture) many(name string) []core.ID {
	var ids []core.ID
	for i := range 500 {
		ids = append(ids, core.ID{Kind: f.Kind, Name: fmt.Sprint(name, i), UID: fmt.Sprint(i)})
	}
	return ids
}

// gatesOf returns the gates that an event of a kind may be about.
func gatesOf(k core.EventKind) []core.Gate {
	if k != core.EventHeldBack {
		return []core.Gate{0}
	}
	var gates []core.Gate
	for g := core.PolicyInvalid; g.String() != "Unnamed"; g++ {
		gates = append(gates, g)
	}
	return gates
}
