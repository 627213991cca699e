package core_test

import (
	"fmt"
	"slices"
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
	circuits := slices.Repeat([]core.Event{restricted}, 30)
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
		{"two too many", time.Minute, suspected("p", 320, 2), "", time.Minute + time.Second},
		{"one at the end of the window joins them", time.Minute + time.Second, suspected("p", 322, 1), "p: 3 suspected from t320, why 320", 0},
		{"events of a whole policy always pass", 2 * time.Minute, circuits, "p: restricted one by one, 30", 0},
		{"a batch of two is one", 3 * time.Minute, suspected("r", 0, 22), "r: suspected one by one, 20", 3*time.Minute + time.Second},
		{"when its window is over", 3*time.Minute + time.Second, nil, "r: 2 suspected from t20, why 20", 0},
		{"nearly as many as may be", 4 * time.Minute, suspected("p", 400, 19), "p: suspected one by one, 19", 0},
		{"and the last of them", 4*time.Minute + 600*time.Millisecond, suspected("p", 419, 1), "p: suspected one by one, 1", 0},
		{"a window after the first there is one more", 4*time.Minute + 1100*time.Millisecond, suspected("p", 420, 1), "p: suspected one by one, 1", 0},
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
	reported := map[string]int{}
	count := func(hs []core.Event) {
		for _, h := range hs {
			if len(h.Targets) == 0 {
				reported[h.Target.Name]++
			}
			for _, target := range h.Targets {
				reported[target.Name]++
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
			if reported[h.Target.Name] != 1 {
				t.Errorf("%s was told %d times", h.Target.Name, reported[h.Target.Name])
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

// TestAggregatorOrder: batches that are due together come by policy, kind, gate and remedy.
func TestAggregatorOrder(t *testing.T) {
	var keys []core.Event
	for _, policy := range []string{"p", "q"} {
		for _, kind := range []core.EventKind{core.EventHeldBack, core.EventStarted} {
			for _, gate := range []core.Gate{core.NoOwner, core.BackingOff} {
				for _, remedy := range []string{"Delete", "Mark"} {
					keys = append(keys, core.Event{Kind: kind, Policy: core.ID{Name: policy}, Gate: gate, Remedy: remedy})
				}
			}
		}
	}
	var d core.Aggregator
	for _, key := range slices.Backward(keys) {
		d.Add(slices.Repeat([]core.Event{key}, 22), noon)
	}
	var got []core.Event
	for _, e := range d.Add(nil, noon.Add(time.Second)) {
		e.Targets = nil
		got = append(got, e)
	}
	if diff := cmp.Diff(keys, got); diff != "" {
		t.Errorf("the batches (-want +got):\n%s", diff)
	}
}
