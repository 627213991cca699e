package machinedeletion

import (
	"errors"
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/types"
)

func aKey(name string) types.NamespacedName {
	return types.NamespacedName{Namespace: "machines", Name: name}
}

// TestPoolsWakeWhoWaits: and nobody else.
func TestPoolsWakeWhoWaits(t *testing.T) {
	p := newPools()
	p.await("set", aKey("a"))
	p.await("set", aKey("b"))
	p.await("set", aKey("a"))
	p.await("other", aKey("a"))
	if got := p.changed("set"); !slices.Equal(got, []types.NamespacedName{aKey("a"), aKey("b")}) {
		t.Errorf("a change wakes %v, want each once", got)
	}
	if got := p.changed("unheard-of"); len(got) != 0 {
		t.Errorf("a change of a set that nobody waits for wakes %v", got)
	}
	p.forget(aKey("a"))
	if got := p.changed("set"); !slices.Equal(got, []types.NamespacedName{aKey("b")}) {
		t.Errorf("after one has left, a change wakes %v", got)
	}
	p.forget(aKey("b"))
	if len(p.waiting)+len(p.changes)+len(p.counted) != 0 {
		t.Errorf("of pools that nobody waits for is kept: %v %v %v", p.waiting, p.changes, p.counted)
	}
}

// TestPoolsCountOnceForEachChange: however many ask.
func TestPoolsCountOnceForEachChange(t *testing.T) {
	p := newPools()
	counts := 0
	list := func() (pool, error) {
		counts++
		return pool{joined: counts}, nil
	}
	ask := func(want, wantCounts int) {
		t.Helper()
		got, err := p.count("set", list)
		if err != nil || got.joined != want || counts != wantCounts {
			t.Errorf("got %d (%v) after %d counts, want %d after %d", got.joined, err, counts, want, wantCounts)
		}
	}
	ask(1, 1) // nobody waits, so nothing is kept
	ask(2, 2)
	p.await("set", aKey("a"))
	ask(3, 3)
	ask(3, 3)
	p.changed("set")
	ask(4, 4)
	ask(4, 4)

	during, err := p.count("other", func() (pool, error) { return pool{}, errors.New("no") })
	if err == nil || during.joined != 0 {
		t.Errorf("what can't be counted is counted as %v", during)
	}
	p.changed("set")
	_, _ = p.count("set", func() (pool, error) {
		p.changed("set") // while it counts
		return list()
	})
	ask(6, 6)
}
