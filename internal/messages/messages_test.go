package messages

import (
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	corev1 "k8s.io/api/core/v1"

	"github.com/fettle-io/fettle/internal/core"
	"github.com/fettle-io/fettle/internal/sanitize"
)

func targets(n int) []core.ID {
	ids := make([]core.ID, n)
	for i := range ids {
		ids[i].Name = fmt.Sprintf("t%d", i)
	}
	return ids
}

func TestNames(t *testing.T) {
	for n, want := range map[int]string{
		1: "t0", 3: "t0, t1, t2", 10: "t0, t1, t2, t3, t4, t5, t6, t7, t8, t9", 11: "t0, t1, t2, t3, t4, t5, t6, t7, t8, t9 and 1 more", 12: "t0, t1, t2, t3, t4, t5, t6, t7, t8, t9 and 2 more",
	} {
		if got := Names(targets(n)); got != want {
			t.Errorf("%d are told as %q, want %q", n, got, want)
		}
	}
}

func TestSubject(t *testing.T) {
	for want, c := range map[string]struct {
		happening core.Event
		noun      string
	}{
		"machine m is":             {core.Event{Target: core.ID{Name: "m"}}, "machine"},
		"machine m (node m) is":    {core.Event{Target: core.ID{Name: "m"}, Node: "m"}, "machine"},
		"node n is":                {core.Event{Target: core.ID{Name: "n"}, Node: "n"}, "node"},
		"1 machines (t0) are":      {core.Event{Targets: targets(1)}, "machine"},
		"2 machines (t0, t1) are":  {core.Event{Targets: targets(2), Node: "n"}, "machine"},
		"3 nodes (t0, t1, t2) are": {core.Event{Targets: targets(3)}, "node"},
	} {
		if got := Subject(c.happening, c.noun); got != want {
			t.Errorf("told as %q, want %q", got, want)
		}
	}
}

func TestBecause(t *testing.T) {
	if got := ReasonClause(core.Event{Text: "it is silent"}); got != ": it is silent" {
		t.Errorf("one is told as %q", got)
	}
	for n := 1; n <= 2; n++ {
		if got := ReasonClause(core.Event{Text: "it is silent", Targets: targets(n)}); got != "; of the first, it is silent" {
			t.Errorf("a batch of %d is told as %q", n, got)
		}
	}
}

// TestRelated: events of two repairs differ in what they relate to, and so do events of two steps. Clients would count them as one
// event otherwise.
func TestRelated(t *testing.T) {
	if got := Related(core.Event{Step: 1}); got != nil {
		t.Errorf("a happening without a repair relates to %v", got)
	}
	for want, h := range map[string]core.Event{
		"Repair home/n-1 ":               {Repair: core.RepairKey{Namespace: "home", Name: "n-1"}},
		"Repair home/n-2 spec.ladder[0]": {Repair: core.RepairKey{Namespace: "home", Name: "n-2"}, Step: 1},
		"Repair home/n-2 spec.ladder[1]": {Repair: core.RepairKey{Namespace: "home", Name: "n-2"}, Step: 2},
	} {
		r, is := Related(h).(*corev1.ObjectReference)
		if !is || r.Kind+" "+r.Namespace+"/"+r.Name+" "+r.FieldPath != want {
			t.Errorf("it relates to %+v, want %s", r, want)
		}
	}
}

func TestStep(t *testing.T) {
	for want, h := range map[string]core.Event{
		"step 1": {Target: core.ID{Name: "n"}, Step: 1}, "step 2": {Target: core.ID{Name: "n"}, Step: 2},
		"a step": {Targets: targets(1), Step: 2}, "a step of none": {},
	} {
		if got := Step(h); got != strings.TrimSuffix(want, " of none") {
			t.Errorf("told as %q, want %q", got, want)
		}
	}
}

func TestUnhealthyTargets(t *testing.T) {
	r := &core.PolicyReport{Tally: core.Tally{Total: 9, Healthy: 6}}
	if got := UnhealthyTargets(r, "machine"); got != "" {
		t.Errorf("without targets the text is %q", got)
	}
	r.Concerns = []core.Concern{{Target: core.ID{Name: "a"}, Text: "is being repaired"}, {Target: core.ID{Name: "b"}, Text: "is being deleted"}}
	if got, want := UnhealthyTargets(r, "machine"), "3 of 9 machines are not healthy: a is being repaired; b is being deleted; and 1 more"; got != want {
		t.Errorf("told as %q, want %q", got, want)
	}
	r.Tally.Healthy = 7
	if got, want := UnhealthyTargets(r, "node"), "2 of 9 nodes are not healthy: a is being repaired; b is being deleted"; got != want {
		t.Errorf("without more of them told as %q, want %q", got, want)
	}
	r.Tally.Waits = "one awaits its replacement"
	if got, want := UnhealthyTargets(r, "node"), "2 of 9 nodes are not healthy: a is being repaired; b is being deleted; one awaits its replacement"; got != want {
		t.Errorf("with a target that is gone told as %q, want %q", got, want)
	}
	r.Concerns = nil
	if got, want := UnhealthyTargets(r, "node"), "one awaits its replacement"; got != want {
		t.Errorf("with a target that is gone, and no other, told as %q, want %q", got, want)
	}
}

func TestGivenUp(t *testing.T) {
	r := &core.PolicyReport{Policy: core.Policy{ID: core.ID{Name: "workers"}}}
	if got := GivenUp(r, "checks", "fettle.io/resumed-at"); got != "" {
		t.Errorf("without pools that are given up the text is %q", got)
	}
	r.GivenUp = targets(1)
	for namespace, command := range map[string]string{
		"":     "kubectl annotate --overwrite checks workers fettle.io/resumed-at=$(date -u +%FT%TZ) ; ",
		"home": "kubectl annotate --overwrite -n home checks workers fettle.io/resumed-at=$(date -u +%FT%TZ) ; ",
	} {
		r.Policy.ID.Namespace = namespace
		want := "Given up, since repairs in a row have not helped: t0; find out why and mend that, then resume by " + command
		if got := GivenUp(r, "checks", "fettle.io/resumed-at"); got != want {
			t.Errorf("told as %q, want %q", got, want)
		}
	}
}

// TestBounds: each text is cut at its bound, and not before.
func TestBounds(t *testing.T) {
	concern := func(text string) string {
		r := &core.PolicyReport{Tally: core.Tally{Total: 1}, Concerns: []core.Concern{{Target: core.ID{Name: "a"}, Text: text}}}
		return strings.TrimPrefix(UnhealthyTargets(r, "node"), "1 of 1 nodes are not healthy: a ")
	}
	gone := func(text string) string {
		return strings.TrimPrefix(GoneTargets(&core.PolicyReport{Tally: core.Tally{Waits: text}}), "; ")
	}
	for name, tc := range map[string]struct {
		bounded func(string) string
		most    int
	}{
		"a note":         {Note, sanitize.MaxNote},
		"a brief":        {Brief, sanitize.MaxBrief},
		"a message":      {Message, sanitize.MaxMessage},
		"a concern":      {concern, sanitize.MaxPart - len("a ")},
		"a gone machine": {gone, sanitize.MaxNote},
	} {
		fits := strings.Repeat("x", tc.most)
		if got := tc.bounded(fits); got != fits {
			t.Errorf("%s of %d bytes is cut to %d", name, tc.most, len(got))
		}
		if got := tc.bounded(fits + "x"); len(got) != tc.most || !strings.HasSuffix(got, "x…") {
			t.Errorf("%s of %d bytes becomes one of %d, want %d", name, tc.most+1, len(got), tc.most)
		}
	}
}

func TestNote(t *testing.T) {
	short := strings.Repeat("ö", sanitize.MaxNote/2)
	if got := Note(short); got != short {
		t.Errorf("a note that fits is cut to %d bytes", len(got))
	}
	for _, long := range []string{short + "x", strings.Repeat("€", sanitize.MaxNote)} {
		if got := Note(long); len(got) > sanitize.MaxNote || !utf8.ValidString(got) || !strings.HasSuffix(got, "…") {
			t.Errorf("a long note is cut to %d bytes: %q", len(got), got)
		}
	}
}
