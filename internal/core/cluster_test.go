package core_test

import (
	"slices"
	"testing"
	"time"

	"github.com/fettle-io/fettle/internal/core"
)

// TestCompareIDs: IDs are ordered by kind, namespace, name and UID, in this order.
func TestCompareIDs(t *testing.T) {
	ordered := []core.ID{
		{Kind: "A", Namespace: "b", Name: "b", UID: "b"},
		{Kind: "B", Namespace: "a", Name: "b", UID: "b"},
		{Kind: "B", Namespace: "b", Name: "a", UID: "b"},
		{Kind: "B", Namespace: "b", Name: "b", UID: "a"},
		{Kind: "B", Namespace: "b", Name: "b", UID: "b"},
	}
	for i, a := range ordered {
		for j, b := range ordered {
			if got, want := a.Compare(b), sign(i-j); got != want {
				t.Errorf("%v against %v: %d, want %d", a, b, got, want)
			}
		}
	}
}

func sign(n int) int { return max(-1, min(1, n)) }

// TestLiveReadKeepsTheControlPlane: a target stays in the control plane if either the cache or a live
// read says that it belongs there.
func TestLiveReadKeepsTheControlPlane(t *testing.T) {
	for _, cached := range []bool{false, true} {
		for _, read := range []bool{false, true} {
			n := machine("m").Node
			n.ControlPlane = read
			m := machine("m", func(t *core.Target) { t.ControlPlane = cached })
			m.ApplyLiveRead(n, noon)
			if want := cached || read; m.ControlPlane != want {
				t.Errorf("cache %t, read %t: the target is in the control plane: %t", cached, read, m.ControlPlane)
			}
		}
	}
}

// TestLeaseWithoutAHolder: such a lease holds nothing back, whatever its time.
func TestLeaseWithoutAHolder(t *testing.T) {
	p := check("p", []int{0}, classic, func(p *core.Policy) { p.Holder = "p" })
	sick := aNode("n", dead, func(t *core.Target) { t.Lease = core.Lease{Until: noon.Add(time.Hour)} })
	if d := core.Decide([]core.Policy{p}, clusterOf([]core.Target{sick}), noon); !slices.Equal(begun(d), []int{0}) {
		t.Errorf("it is refused: %v", d.Refusals)
	}
}

// TestShownAt: caches that were read earlier show a write later. An instant that is never stays so.
func TestShownAt(t *testing.T) {
	f := core.Cluster{Age: 10 * time.Second}
	if got, want := f.ShownAt(noon), noon.Add(10*time.Second); !got.Equal(want) {
		t.Errorf("it is shown at %s, want %s", got, want)
	}
	if got := f.ShownAt(time.Time{}); !got.IsZero() {
		t.Errorf("what is never lacking is shown at %s", got)
	}
	if got, want := f.ShownUntil(noon), noon.Add(-70*time.Second); !got.Equal(want) {
		t.Errorf("writes until %s are shown, want %s", got, want)
	}
}
