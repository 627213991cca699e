package core_test

import (
	"testing"
	"time"

	"github.com/fettle-io/fettle/internal/core"
)

// TestYieldTo: a workload cluster yields to health checks of the home cluster that act, or of which it is unknown whether they act. The
// health checks report the unknown only after a while.
func TestYieldTo(t *testing.T) {
	t.Parallel()
	const limit = core.YieldPendingFor
	for _, c := range []struct {
		acts       core.Tri
		unknownFor time.Duration
		want       core.Yield
		blocks     bool
	}{
		{core.No, 0, core.NoYield, false},
		{core.No, limit, core.NoYield, false},
		{core.Yes, 0, core.YieldToHome, true},
		{core.Yes, limit, core.YieldToHome, true},
		{core.Unknown, 0, core.YieldPending, false},
		{core.Unknown, limit - 1, core.YieldPending, false},
		{core.Unknown, limit, core.YieldUnknown, true},
	} {
		got := core.YieldTo(c.acts, c.unknownFor)
		if got != c.want || got.BlocksStarts() != c.blocks {
			t.Errorf("acts %v, unknown for %s: %v, blocks %t", c.acts, c.unknownFor, got, got.BlocksStarts())
		}
	}
}

// TestYieldsSince: a step that was decided is not taken once others act, or may act, unless its policy was paused for them already.
func TestYieldsSince(t *testing.T) {
	t.Parallel()
	for _, acts := range []core.Tri{core.Unknown, core.No, core.Yes} {
		of := func() core.Tri { return acts }
		if got := core.YieldsSince(false, of); got != (acts != core.No) {
			t.Errorf("%v: %t", acts, got)
		}
		if core.YieldsSince(true, of) {
			t.Errorf("%v: a paused policy yields once more", acts)
		}
	}
}

// TestHomeActs plays all answers of two kinds of health checks.
func TestHomeActs(t *testing.T) {
	t.Parallel()
	all := []core.Tri{core.Unknown, core.No, core.Yes}
	var answers [][2]core.Tri
	for _, a := range all {
		for _, b := range all {
			answers = append(answers, [2]core.Tri{a, b})
		}
	}
	has := func(of [2]core.Tri, want core.Tri) bool { return of[0] == want || of[1] == want }
	for _, acts := range answers {
		for _, nodes := range answers {
			want := core.No
			switch {
			case has(acts, core.Yes):
				want = core.Yes
			case has(acts, core.Unknown) && (has(nodes, core.Yes) || !has(nodes, core.No)):
				want = core.Unknown
			}
			got := core.HomeActs(2, func(i int) core.Tri { return acts[i] }, func(i int) core.Tri { return nodes[i] })
			if got != want {
				t.Errorf("acting %v, having the nodes %v: %v, want %v", acts, nodes, got, want)
			}
		}
	}
	if got := core.HomeActs(0, nil, nil); got != core.No {
		t.Errorf("without health checks: %v", got)
	}
}
