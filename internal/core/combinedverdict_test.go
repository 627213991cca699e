package core_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/fettle-io/fettle/internal/core"
)

// TestCombinedVerdictOfTwo: the older of two verdicts on a target comes first in a decision.
func TestCombinedVerdictOfTwo(t *testing.T) {
	healthy, suspect, sick, unknown := core.Healthy, core.Suspect, core.Unhealthy, core.Undetermined
	for name, c := range map[string]struct {
		older, newer             core.Health
		olderPaused, newerPaused bool
		newerCounts              bool
	}{
		"both are healthy":                           {older: healthy, newer: healthy},
		"both are healthy, the older is paused":      {older: healthy, newer: healthy, olderPaused: true, newerCounts: true},
		"both are healthy, both are paused":          {older: healthy, newer: healthy, olderPaused: true, newerPaused: true},
		"both are healthy, the newer is paused":      {older: healthy, newer: healthy, newerPaused: true},
		"both are suspect, the older is paused":      {older: suspect, newer: suspect, olderPaused: true, newerCounts: true},
		"both are unhealthy, the older is paused":    {older: sick, newer: sick, olderPaused: true},
		"the newer is unhealthy":                     {older: suspect, newer: sick, newerCounts: true},
		"the newer is unhealthy and paused":          {older: healthy, newer: sick, newerPaused: true, newerCounts: true},
		"the older is unhealthy":                     {older: sick, newer: suspect},
		"the older is unhealthy and paused":          {older: sick, newer: unknown, olderPaused: true},
		"the newer is suspect":                       {older: healthy, newer: suspect, newerCounts: true},
		"the newer is healthy":                       {older: suspect, newer: healthy},
		"the newer is healthy, the older is paused":  {older: suspect, newer: healthy, olderPaused: true},
		"the newer is unknown, the older suspect":    {older: suspect, newer: unknown},
		"unknown and suspect, and the older paused":  {older: suspect, newer: unknown, olderPaused: true},
		"the newer is unknown and the older healthy": {older: healthy, newer: unknown, newerCounts: true},
	} {
		policies := []core.Policy{{Paused: c.olderPaused}, {Paused: c.newerPaused}}
		d := core.Decision{Verdicts: []core.Verdict{{Health: c.older}, {Health: c.newer, Policy: 1}}}
		got := d.CombinedVerdicts(policies, &core.Cluster{Targets: []core.Target{machine("m")}})
		want := 0
		if c.newerCounts {
			want = 1
		}
		if len(got) != 1 || got[0].Policy != want || got[0].Verdict != d.Verdicts[want] {
			t.Errorf("%s: %+v, want the verdict of policy %d", name, got, want)
		}
	}
}

// TestCombinedVerdictOfActions: the verdict on a target says what the decision does to it. A target
// without a verdict has none.
func TestCombinedVerdictOfActions(t *testing.T) {
	targets := []core.Target{machine("a"), machine("b"), machine("c")}
	p := policy("p", []int{0, 1})
	r, q := repair(targets[0], p), markOn(targets[0], noon)
	lost, gone := repair(targets[2], p), markOn(targets[2], noon)
	for name, c := range map[string]struct {
		decision core.Decision
		repairs  []core.Repair
		requests []core.Request
		want     core.CombinedVerdict
	}{
		"nothing":                   {},
		"a start":                   {decision: core.Decision{Starts: []core.Start{{Target: 0}, {Target: 2}}}, want: core.CombinedVerdict{RemedyCalled: true}},
		"a step":                    {decision: core.Decision{StepStarts: []core.StepStart{{Target: 0}, {Target: 2}}}, want: core.CombinedVerdict{RemedyCalled: true}},
		"a withdrawal":              {decision: core.Decision{Withdrawals: []core.Withdrawal{{Target: 0}}}},
		"a withdrawal in health":    {decision: core.Decision{Withdrawals: []core.Withdrawal{{Target: 0, TargetHealthy: true}, {Target: 2, TargetHealthy: true}}}, want: core.CombinedVerdict{RequestsWithdrawn: true}},
		"a withdrawal of the gone":  {decision: core.Decision{Withdrawals: []core.Withdrawal{{Target: -1, TargetHealthy: true}}}},
		"a repair":                  {repairs: []core.Repair{r, lost}, want: core.CombinedVerdict{Repair: &r}},
		"one repair":                {repairs: []core.Repair{r}, want: core.CombinedVerdict{Repair: &r}},
		"a repair that has ended":   {repairs: []core.Repair{repair(targets[0], p, ended(noon))}},
		"a request":                 {requests: []core.Request{q, gone}, want: core.CombinedVerdict{HasRequest: true}},
		"one request":               {requests: []core.Request{q}, want: core.CombinedVerdict{HasRequest: true}},
		"a request that is leaving": {requests: []core.Request{markOn(targets[0], noon, leaving)}},
	} {
		d := c.decision
		d.Verdicts = []core.Verdict{{Target: 1}, {Target: 0}}
		got := d.CombinedVerdicts([]core.Policy{p}, &core.Cluster{Targets: targets, Repairs: c.repairs, Requests: c.requests})
		if diff := cmp.Diff([]core.CombinedVerdict{{Target: 1, Verdict: d.Verdicts[0]}, c.want}, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}
