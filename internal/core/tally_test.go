package core_test

import (
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/fettle-io/fettle/internal/core"
)

// TestShortCircuit has the worked numbers of the user guides, and of today's controllers.
func TestShortCircuit(t *testing.T) {
	type want struct {
		permitted bool
		most      int
		allowed   int
	}
	cases := map[string]struct {
		total, unhealthy int
		limit            func(*core.Policy)
		reason           string
		want             want
	}{
		"25 machines at 40 %, 10 unhealthy":   {25, 10, maxUnhealthy(core.Percent(40)), "up to 10 is allowed", want{true, 10, 0}},
		"25 machines at 40 %, 11 unhealthy":   {25, 11, maxUnhealthy(core.Percent(40)), "more than 10 is not", want{false, 10, 0}},
		"6 machines at 40 %, 2 unhealthy":     {6, 2, maxUnhealthy(core.Percent(40)), "2.4 rounds down to 2", want{true, 2, 0}},
		"6 machines at 40 %, 3 unhealthy":     {6, 3, maxUnhealthy(core.Percent(40)), "2.4 rounds down to 2", want{false, 2, 0}},
		"max 2, 2 unhealthy":                  {10, 2, maxUnhealthy(core.Count(2)), "stops when more than max", want{true, 2, 0}},
		"max 2, 3 unhealthy":                  {10, 3, maxUnhealthy(core.Count(2)), "stops when more than max", want{false, 2, 0}},
		"max 2, 1 unhealthy":                  {10, 1, maxUnhealthy(core.Count(2)), "one more may fail", want{true, 2, 1}},
		"50 % of 10, 5 unhealthy":             {10, 5, maxUnhealthy(core.Percent(50)), "exactly half", want{true, 5, 0}},
		"50 % of 10, 6 unhealthy":             {10, 6, maxUnhealthy(core.Percent(50)), "more than half", want{false, 5, 0}},
		"range [3-5], 2 unhealthy":            {10, 2, unhealthyRange(3, 5), "too few", want{false, 5, 0}},
		"range [3-5], 3 unhealthy":            {10, 3, unhealthyRange(3, 5), "inclusive", want{true, 5, 2}},
		"range [3-5], 5 unhealthy":            {10, 5, unhealthyRange(3, 5), "inclusive", want{true, 5, 0}},
		"range [3-5], 6 unhealthy":            {10, 6, unhealthyRange(3, 5), "too many", want{false, 5, 0}},
		"range [0-0], 0 unhealthy":            {3, 0, unhealthyRange(0, 0), "inclusive", want{true, 0, 0}},
		"2 machines at 40 %":                  {2, 1, maxUnhealthy(core.Percent(40)), "0.8 rounds down to 0", want{false, 0, 0}},
		"5 machines at 40 %":                  {5, 2, maxUnhealthy(core.Percent(40)), "exactly 2", want{true, 2, 0}},
		"7 machines at 60 %":                  {7, 4, maxUnhealthy(core.Percent(60)), "4.2 rounds down to 4", want{true, 4, 0}},
		"7 machines at 40 %":                  {7, 3, maxUnhealthy(core.Percent(40)), "2.8 rounds down to 2", want{false, 2, 0}},
		"10 machines at 40 %, 6 unhealthy":    {10, 6, maxUnhealthy(core.Percent(40)), "blocked", want{false, 4, 0}},
		"100 %, all unhealthy":                {10, 10, maxUnhealthy(core.Percent(100)), "never blocks", want{true, 10, 0}},
		"unlimited, all unhealthy":            {10, 10, maxUnhealthy(core.Unlimited()), "never blocks", want{true, 10, 0}},
		"0, none unhealthy":                   {3, 0, maxUnhealthy(core.Count(0)), "nothing exceeds it", want{true, 0, 0}},
		"0, one unhealthy":                    {3, 1, maxUnhealthy(core.Count(0)), "a way to disable repairs", want{false, 0, 0}},
		"0 %, one unhealthy":                  {3, 1, maxUnhealthy(core.Percent(0)), "a way to disable repairs", want{false, 0, 0}},
		"negative":                            {3, 1, maxUnhealthy(core.Count(-4)), "is 0", want{false, 0, 0}},
		"negative share":                      {3, 1, maxUnhealthy(core.Percent(-40)), "is 0", want{false, 0, 0}},
		"no members":                          {0, 0, maxUnhealthy(core.Percent(40)), "allowed", want{true, 0, 0}},
		"more than there are":                 {3, 3, maxUnhealthy(core.Count(50)), "as is", want{true, 50, 47}},
		"the largest number":                  {3, 3, maxUnhealthy(core.Count(math.MaxInt)), "as is", want{true, math.MaxInt, math.MaxInt - 3}},
		"shut, none unhealthy":                {3, 0, shut(core.Count(2)), "whatever the number", want{false, 2, 0}},
		"shut, one unhealthy":                 {3, 1, shut(core.Count(2)), "whatever the number", want{false, 2, 0}},
		"more than all":                       {4, 1, maxUnhealthy(core.Percent(150)), "as is", want{true, 6, 5}},
		"no limit given":                      {3, 1, maxUnhealthy(core.Amount{}), "the zero value permits nothing while any is unhealthy", want{false, 0, 0}},
		"at least 75 % of 10, 2 unhealthy":    {10, 2, minHealthy(core.Percent(75)), "7.5 rounds up to 8", want{true, 2, 0}},
		"at least 75 % of 10, 3 unhealthy":    {10, 3, minHealthy(core.Percent(75)), "7.5 rounds up to 8", want{false, 2, 0}},
		"at least 51 % of 10, 4 unhealthy":    {10, 4, minHealthy(core.Percent(51)), "5.1 rounds up to 6", want{true, 4, 0}},
		"at least 50 % of 10, 5 unhealthy":    {10, 5, minHealthy(core.Percent(50)), "exactly half", want{true, 5, 0}},
		"at least 0 %, all unhealthy":         {10, 10, minHealthy(core.Percent(0)), "never blocks", want{true, 10, 0}},
		"at least 100 %, one unhealthy":       {10, 1, minHealthy(core.Percent(100)), "a way to disable repairs", want{false, 0, 0}},
		"at least 1 % of 3, 2 unhealthy":      {3, 2, minHealthy(core.Percent(1)), "0.03 rounds up to 1", want{true, 2, 0}},
		"at least 2 of 3, 1 unhealthy":        {3, 1, minHealthy(core.Count(2)), "as is", want{true, 1, 0}},
		"at least 2 of 3, 2 unhealthy":        {3, 2, minHealthy(core.Count(2)), "as is", want{false, 1, 0}},
		"at least more than there are":        {3, 1, minHealthy(core.Count(5)), "is all of them", want{false, 0, 0}},
		"at least more, all healthy":          {3, 0, minHealthy(core.Count(5)), "all of them are healthy", want{true, 0, 0}},
		"at least a number below zero":        {3, 3, minHealthy(core.Count(-5)), "is 0", want{true, 3, 0}},
		"at least one, and none there":        {0, 0, minHealthy(core.Count(1)), "nothing lacks", want{true, 0, 0}},
		"max 1 with one unhealthy goes ahead": {3, 1, maxUnhealthy(core.Count(1)), "though no more may fail", want{true, 1, 0}},
	}
	for sentence, c := range cases {
		t.Run(sentence, func(t *testing.T) {
			p := policy("p", all(c.total), c.limit)
			d := core.Decide([]core.Policy{p}, clusterOf(machines(c.total, c.unhealthy, dead)), noon)
			tally := d.Tallies[0]
			got := want{tally.Permitted, tally.MaxUnhealthy, tally.RepairsAllowed()}
			if diff := cmp.Diff(c.want, got, cmp.AllowUnexported(want{})); diff != "" {
				t.Errorf("%s (-want +got):\n%s", c.reason, diff)
			}
			if tally.Unhealthy() != c.unhealthy || tally.Total != c.total {
				t.Errorf("%d of %d are unhealthy, want %d of %d", tally.Unhealthy(), tally.Total, c.unhealthy, c.total)
			}
			if starts := len(d.Starts); (starts > 0) != (c.want.permitted && c.unhealthy > 0) {
				t.Errorf("%s: %d repairs start", c.reason, starts)
			}
		})
	}
}

func shut(a core.Amount) func(*core.Policy) {
	return func(p *core.Policy) { p.ShortCircuit = core.ShortCircuit{MaxUnhealthy: a, Shut: true} }
}

// TestFloorOfNeverExceedsTheShare holds also where the arithmetic overflows.
func TestFloorOfNeverExceedsTheShare(t *testing.T) {
	for _, percent := range []int{0, 1, 33, 99, 100} {
		for total := range 500 {
			if got := core.Percent(percent).FloorOf(total); got*100 > percent*total || (got+1)*100 <= percent*total {
				t.Fatalf("%d %% of %d = %d", percent, total, got)
			}
		}
	}
	if got := core.Percent(math.MaxInt).FloorOf(3); got < 0 {
		t.Errorf("a huge share is %d, below zero", got)
	}
}

func TestCounting(t *testing.T) {
	cases := map[string]struct {
		reason  string
		target  core.Target
		healthy bool
		flight  int
	}{
		"a healthy machine":                                {"2.4", machine("m"), true, 0},
		"an unhealthy machine":                             {"2.4", machine("m", dead, readAt(time.Time{})), false, 0},
		"a machine in a grace period":                      {"2.4: next check is not 0", machine("m", ready("False", noon)), false, 0},
		"a booting machine":                                {"2.4: no node", machine("m", awaited(noon)), false, 0},
		"a claimed machine":                                {"PR 902, and a remediator repairs it", machine("m", externallyRemediated), false, 1},
		"a healthy machine being deleted":                  {"2.4: has a deletion timestamp, but no repair runs", machine("m", deleting), false, 0},
		"an unhealthy machine being deleted":               {"a deletion is in flight until the machine is gone", machine("m", dead, deleting), false, 1},
		"a machine being deleted whose node is not seen":   {"not known to be healthy", machine("m", nodeIs(core.NodeUnseen), deleting), false, 1},
		"a machine whose node is not seen":                 {"unknown is not healthy", machine("m", nodeIs(core.NodeUnseen)), false, 0},
		"a machine with a condition that carries no clock": {"unknown is not healthy", machine("m", ready("False", time.Time{})), false, 0},
	}
	for sentence, c := range cases {
		t.Run(sentence, func(t *testing.T) {
			p := policy("p", []int{0})
			got := core.Decide([]core.Policy{p}, clusterOf([]core.Target{c.target}), noon).Tallies[0]
			if (got.Healthy == 1) != c.healthy || got.InFlight != c.flight {
				t.Errorf("%s: healthy %d, in flight %d", c.reason, got.Healthy, got.InFlight)
			}
		})
	}
}

func TestRunningRepairIsInFlightWhateverTheHealth(t *testing.T) {
	m := machine("m", deleting)
	p := policy("p", []int{0})
	d := core.Decide([]core.Policy{p}, clusterOf([]core.Target{m}, repair(m, p)), noon)
	if got := d.Tallies[0].InFlight; got != 1 {
		t.Errorf("in flight %d, want 1: the node looks well while its machine is deleted for a repair", got)
	}
}

func TestMaxInFlight(t *testing.T) {
	cases := map[string]struct {
		limit core.Amount
		total int
		want  int
	}{
		"one":                       {core.Count(1), 10, 1},
		"three":                     {core.Count(3), 10, 3},
		"none":                      {core.Count(0), 10, 0},
		"negative":                  {core.Count(-1), 10, 0},
		"the zero value":            {core.Amount{}, 10, 0},
		"a share":                   {core.Percent(40), 10, 4},
		"a share rounds down":       {core.Percent(39), 10, 3},
		"a share is at least one":   {core.Percent(1), 10, 1},
		"a share of 0 is none":      {core.Percent(0), 10, 0},
		"a negative share is none":  {core.Percent(-5), 10, 0},
		"all":                       {core.Percent(100), 10, 10},
		"unlimited":                 {core.Unlimited(), 10, 10},
		"more than there are":       {core.Count(99), 10, 10},
		"one of one":                {core.Percent(50), 1, 1},
		"no members, nothing to do": {core.Percent(50), 0, 0},
	}
	for sentence, c := range cases {
		t.Run(sentence, func(t *testing.T) {
			p := policy("p", all(c.total), maxInFlight(c.limit))
			d := core.Decide([]core.Policy{p}, clusterOf(machines(c.total, c.total, dead)), noon)
			if len(d.Starts) != c.want || d.Tallies[0].InFlight != c.want {
				t.Errorf("%d repairs start and %d are in flight, want %d", len(d.Starts), d.Tallies[0].InFlight, c.want)
			}
		})
	}
}

// TestCeilOfNeverFallsShortOfTheShare holds also where the arithmetic overflows.
func TestCeilOfNeverFallsShortOfTheShare(t *testing.T) {
	for _, percent := range []int{0, 1, 33, 99, 100} {
		for total := range 500 {
			if got := core.Percent(percent).CeilOf(total); got*100 < percent*total || (got-1)*100 >= percent*total && got > 0 {
				t.Fatalf("%d %% of %d = %d", percent, total, got)
			}
		}
	}
	for _, a := range []core.Amount{core.Unlimited(), core.Percent(math.MaxInt), core.Count(math.MaxInt)} {
		if got := a.CeilOf(3); got != 3 {
			t.Errorf("%s of 3 is %d; at most all are asked for", a, got)
		}
	}
	for _, a := range []core.Amount{core.Percent(-40), core.Percent(math.MinInt), core.Count(math.MinInt)} {
		if got := a.CeilOf(3); got != 0 {
			t.Errorf("%s of 3 is %d, which is not 0", a, got)
		}
	}
}
