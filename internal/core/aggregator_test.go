package core_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/fettle-io/fettle/internal/core"
)

// suspected returns n events of one kind about a policy's targets, numbered from first.
func suspected(policy string, first, n int) []core.Event {
	var hs []core.Event
	for i := first; i < first+n; i++ {
		hs = append(hs, core.Event{
			Kind: core.EventSuspected, Policy: core.ID{Name: policy}, Target: core.ID{Name: fmt.Sprint("t", i)}, Node: "n", Text: fmt.Sprint("why ", i),
		})
	}
	return hs
}

// summary returns the events in short.
func summary(hs []core.Event) string {
	var lines []string
	singles := map[string]int{}
	for _, h := range hs {
		if len(h.Targets) > 0 {
			lines = append(lines, fmt.Sprintf("%s: %d %s from %s, %s", h.Policy.Name, len(h.Targets), h.Kind, h.Targets[0].Name, h.Text))
			continue
		}
		key := h.Policy.Name + ": " + h.Kind.String()
		if singles[key] == 0 {
			lines = append(lines, key)
		}
		singles[key]++
	}
	for i, line := range lines {
		if n := singles[line]; n > 0 {
			lines[i] = fmt.Sprintf("%s one by one, %d", line, n)
		}
	}
	return strings.Join(lines, "; ")
}

// TestAggregator follows one Aggregator through many events.
func TestAggregator(t *testing.T) {
	restricted := core.Event{Kind: core.EventShortCircuited, Policy: core.ID{Name: "p"}, Text: "why"}
	refused := suspected("p", 0, 1)
	refused[0].Kind = core.EventRefused
	var d core.Aggregator
	steps := []struct {
		sentence string
		after    time.Duration
		happen   []core.Event
		want     string
		next     time.Duration
	}{
		{"nothing", 0, nil, "", 0},
		{"a few are told one by one", 0, suspected("p", 0, 3), "p: suspected one by one, 3", 0},
		{"a storm is, up to a number", time.Second, suspected("p", 3, 100), "p: suspected one by one, 18", 2 * time.Second},
		{"the rest is gathered", 1500 * time.Millisecond, suspected("p", 103, 10), "", 2 * time.Second},
		{"other kinds have their own number", 1500 * time.Millisecond, refused, "p: refused one by one, 1", 2 * time.Second},
		{"other policies too", 1500 * time.Millisecond, suspected("q", 0, 1), "q: suspected one by one, 1", 2 * time.Second},
		{"a short circuit is told at once", 1600 * time.Millisecond, []core.Event{restricted}, "p: restricted one by one, 1", 2 * time.Second},
		{"what was gathered is told together", 2 * time.Second, nil, "p: 92 suspected from t21, why 21", 0},
		{"one alone is told as itself", 2 * time.Second, suspected("p", 200, 2), "p: suspected one by one, 1", 3 * time.Second},
		{"when its time has come", 3 * time.Second, nil, "p: suspected one by one, 1", 0},
		{"when it is quiet again, all is as before", time.Minute, suspected("p", 300, 20), "p: suspected one by one, 20", 0},
	}
	for _, s := range steps {
		now := noon.Add(s.after)
		if diff := cmp.Diff(s.want, summary(d.Add(s.happen, now))); diff != "" {
			t.Errorf("%s (-want +got):\n%s", s.sentence, diff)
		}
		want := time.Time{}
		if s.next > 0 {
			want = noon.Add(s.next)
		}
		if next := d.NextAt(); !next.Equal(want) {
			t.Errorf("%s: the next is due at %s, want %s", s.sentence, next, want)
		}
	}
}

// TestAggregatorLosesNoEvent checks that each event is emitted exactly once, in whatever order events
// come.
func TestAggregatorLosesNoEvent(t *testing.T) {
	var d core.Aggregator
	told := map[string]int{}
	count := func(hs []core.Event) {
		for _, h := range hs {
			if len(h.Targets) == 0 {
				told[h.Target.Name]++
			}
			for _, target := range h.Targets {
				told[target.Name]++
			}
		}
	}
	now := noon
	for i := range 200 {
		now = now.Add(time.Duration(i%7) * 100 * time.Millisecond)
		count(d.Add(suspected("p", i*10, i%6), now))
	}
	count(d.Add(nil, d.NextAt()))
	for i := range 200 {
		for _, h := range suspected("p", i*10, i%6) {
			if told[h.Target.Name] != 1 {
				t.Errorf("%s was told %d times", h.Target.Name, told[h.Target.Name])
			}
		}
	}
}

// TestAggregatorKeepsRemediesApart checks that events about different remedies are not emitted as one.
func TestAggregatorKeepsRemediesApart(t *testing.T) {
	begun := suspected("p", 0, 60)
	for i := range begun {
		begun[i].Kind, begun[i].Remedy = core.EventStarted, []string{"Delete", "Mark"}[i%2]
	}
	var d core.Aggregator
	d.Add(begun, noon)
	bundles := map[string]int{}
	for _, h := range d.Add(nil, noon.Add(time.Second)) {
		bundles[h.Remedy] = len(h.Targets)
	}
	if diff := cmp.Diff(map[string]int{"Delete": 10, "Mark": 10}, bundles); diff != "" {
		t.Errorf("bundles by remedy (-want +got):\n%s", diff)
	}
}
