package sim_test

import (
	"slices"
	"testing"
	"time"

	"github.com/fettle-io/fettle/internal/core"
	"github.com/fettle-io/fettle/internal/sim"
)

// markPolicy has machines 0 to n-1 marked for their owner, as many at a time as there are unless a test says otherwise.
func markPolicy(n int, changes ...func(*core.Policy)) core.Policy {
	p := onePolicy(n, withSteps(sim.MarkStep()), inFlight(core.Unlimited()))
	p.ID.Kind, p.IgnoresRequests = "MarkCheck", true
	for _, change := range changes {
		change(&p)
	}
	return p
}

func backoff(base time.Duration) func(*core.Policy) {
	return func(p *core.Policy) { p.Backoff.Base = base }
}

// markWorlds are small worlds of machines that are marked for their owners, each with some of what can go wrong.
func markWorlds() map[string]world {
	two := []core.Policy{markPolicy(2)}
	three := []core.Policy{markPolicy(3)}
	one := []core.Policy{markPolicy(1)}
	single := []core.Policy{markPolicy(2, inFlight(core.Count(1)))}
	tight := []core.Policy{markPolicy(2, maxUnhealthy(core.Count(1)))}
	return map[string]world{
		"an owner that replaces":         {sim.Setup{Policies: two, Machines: 2, NotReady: 2, Ticks: 3, Flaps: 1, OwnerReplacements: 2}, 10},
		"an owner that never answers":    {sim.Setup{Policies: two, Machines: 2, NotReady: 2, Ticks: 4, Flaps: 2}, 10},
		"an owner that refuses":          {sim.Setup{Policies: one, Machines: 1, NotReady: 1, Ticks: 4, Flaps: 2, OwnerRefusals: 2, OwnerReplacements: 1}, 11},
		"a control plane and its owner":  {sim.Setup{Policies: three, Machines: 3, NotReady: 3, Ticks: 2, ControlPlane: 3, OwnerReplacements: 3, OneByOne: true, Crashes: 1}, 10},
		"marks and crashes":              {sim.Setup{Policies: two, Machines: 2, NotReady: 2, Ticks: 3, Flaps: 1, Crashes: 1}, 10},
		"marks, one at a time":           {sim.Setup{Policies: single, Machines: 2, NotReady: 2, Ticks: 3, Flaps: 1, Crashes: 1, OwnerReplacements: 1}, 10},
		"marks, and a ledger that loses": {sim.Setup{Policies: single, Machines: 2, NotReady: 1, Ticks: 3, Failures: 1, Flaps: 1, RecordDeletions: 1, OwnerReplacements: 1}, 9},
		"marks, a lost ledger, crashes":  {sim.Setup{Policies: two, Machines: 2, NotReady: 1, Ticks: 3, Flaps: 1, RecordDeletions: 1, Crashes: 1}, 11},
		"marks, and a pause":             {sim.Setup{Policies: one, Machines: 1, NotReady: 1, Ticks: 4, Flaps: 2, Pauses: 2, Crashes: 1}, 10},
		"marks, and a short circuit":     {sim.Setup{Policies: tight, Machines: 2, NotReady: 1, Ticks: 4, Flaps: 3}, 10},
		"marks of others":                {sim.Setup{Policies: one, Machines: 1, NotReady: 1, Ticks: 3, Flaps: 2, MarkRemovals: 1, UserMarks: 2, OwnerReplacements: 1}, 8},
		"marks, and who is not selected": {sim.Setup{Policies: one, Machines: 1, NotReady: 1, Ticks: 3, Flaps: 1, Deselections: 2, UserMarks: 1, Crashes: 1}, 8},
		"marks, and namesakes":           {sim.Setup{Policies: two, Machines: 2, NotReady: 1, Ticks: 2, Vanishings: 2, Failures: 1, OwnerReplacements: 2}, 7},
		"marks, and relapses":            {sim.Setup{Policies: []core.Policy{markPolicy(1, backoff(sim.Ticks(3)))}, Machines: 1, Ticks: 3, Vanishings: 3, Flaps: 1, Crashes: 1}, 10},
		"refused marks":                  {sim.Setup{Policies: two, Machines: 2, NotReady: 2, Ticks: 3, Refusals: 1, Flaps: 1}, 10},
		"marks of two leaders":           {sim.Setup{Policies: one, Machines: 1, NotReady: 1, Ticks: 3, Flaps: 1, OwnerReplacements: 1, Leaders: 2}, 9},
		"two leaders, one mark":          {sim.Setup{Policies: single, Machines: 2, NotReady: 2, Ticks: 2, Flaps: 1, Leaders: 2}, 9},
	}
}

// TestSmallWorldsOfMarks explores every interleaving in each of these worlds too.
func TestSmallWorldsOfMarks(t *testing.T) {
	for name, w := range markWorlds() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			result := sim.Explore(sim.New(w.setup), sim.Bounds{Depth: w.reach(), SettleEvery: 50})
			if result.Complaint != "" {
				t.Fatalf("after %d states:\n%s", result.States, result.Story())
			}
			t.Logf("%d states, %d steps, %d settled, up to %d marks, to a depth of %d",
				result.States, result.Steps, result.Settled, result.Requests, w.reach())
			if result.Requests == 0 && !testing.Short() {
				t.Error("nothing was marked: this world shows nothing")
			}
		})
	}
}

// TestPlantedFaultsOfMarksAreFound: the search finds what goes wrong with marks too.
func TestPlantedFaultsOfMarksAreFound(t *testing.T) {
	one := sim.Setup{Policies: []core.Policy{markPolicy(1)}, Machines: 1, NotReady: 1, Ticks: 3, Flaps: 1}
	two := sim.Setup{Policies: []core.Policy{markPolicy(2, inFlight(core.Count(1)))}, Machines: 2, NotReady: 2, Ticks: 2}
	tight := []core.Policy{markPolicy(3, maxUnhealthy(core.Count(1)))}
	with := func(s sim.Setup, change func(*sim.Setup)) sim.Setup { change(&s); return s }
	cases := map[string]planted{
		"marks that stand through a pause": {with(one, func(s *sim.Setup) { s.Pauses = 1 }), sim.Faults{Decide: withoutWithdrawalsInPause}, "I12", nil},
		"marks that stand through a short circuit": {
			sim.Setup{Policies: tight, Machines: 3, NotReady: 1, Ticks: 2, Flaps: 3}, sim.Faults{Decide: withoutWithdrawalsOnShortCircuit}, "I12", nil,
		},
		"marks before their time":            {one, sim.Faults{Decide: withShorterCriteria}, "I5", nil},
		"no live read before a mark":         {one, sim.Faults{NoLiveRead: true}, "I5", nil},
		"marks out of step":                  {with(one, func(s *sim.Setup) { s.Crashes = 1 }), sim.Faults{Hasty: true}, "I1", nil},
		"a second repair of what is marked":  {one, sim.Faults{Decide: withoutRepairsOfMarked}, "I2", []string{"I8", "convergence"}},
		"no limit of marks":                  {two, sim.Faults{Decide: withoutInFlightLimit}, "I3", nil},
		"two leaders of marks, and no fence": {with(two, func(s *sim.Setup) { s.Leaders, s.Flaps = 2, 1 }), sim.Faults{NoFence: true}, "I3", nil},
		"members of the control plane kept back": {
			sim.Setup{Policies: []core.Policy{markPolicy(2)}, Machines: 2, NotReady: 2, Ticks: 2, ControlPlane: 2}, sim.Faults{Decide: withOwnersAsRemediators}, "I4", nil,
		},
		"no distance after a relapse": {
			sim.Setup{Policies: []core.Policy{markPolicy(1, backoff(sim.Ticks(3)))}, Machines: 1, Vanishings: 3}, sim.Faults{Decide: withoutBackoff}, "I6", nil,
		},
		"marks that are not seen when written":  {one, sim.Faults{NoWriteThrough: true}, "I8", nil},
		"refusals of marks left out":            {with(one, func(s *sim.Setup) { s.Pauses = 1 }), sim.Faults{Decide: withoutRefusals}, "I9", nil},
		"marks of unhealthy machines withdrawn": {one, sim.Faults{Decide: withAllWithdrawn}, "I10", []string{"I8"}},
		"marks of others taken away": {
			sim.Setup{Policies: []core.Policy{markPolicy(1)}, Machines: 1, UserMarks: 1, Deselections: 1}, sim.Faults{Decide: withForeignMarksWithdrawn}, "I10", []string{"I8"},
		},
		"marks by name": {
			sim.Setup{Policies: []core.Policy{markPolicy(1)}, Machines: 1, Failures: 1, UserMarks: 1, OwnerReplacements: 1}, sim.Faults{BlindMark: true}, "I11", nil,
		},
		"marks taken back by name": {with(one, func(s *sim.Setup) { s.MarkRemovals, s.UserMarks = 1, 1 }), sim.Faults{BlindWithdrawal: true}, "I11", nil},
		"no look for an answer":    {one, sim.Faults{NoTimer: true}, "convergence", nil},
	}
	for name, c := range cases {
		t.Run(name, c.isFound)
	}
}

// withoutWithdrawalsOnShortCircuit is a Decide that withdraws nothing while too many are unhealthy.
func withoutWithdrawalsOnShortCircuit(policies []core.Policy, f core.Cluster, now time.Time) core.Decision {
	d := core.Decide(policies, f, now)
	if len(d.Tallies) > 0 && !d.Tallies[0].Permitted {
		d.Withdrawals = nil
	}
	return d
}

// withoutRepairsOfMarked is a Decide that takes the repair of a marked machine for deleted.
func withoutRepairsOfMarked(policies []core.Policy, f core.Cluster, now time.Time) core.Decision {
	f.Repairs = slices.Clone(f.Repairs)
	for i := range f.Repairs {
		r := &f.Repairs[i]
		if r.Running() && slices.ContainsFunc(f.Requests, func(q core.Request) bool { return q.Target == r.Target }) {
			r.Ended, r.Outcome = now, core.Withdrawn
		}
	}
	return core.Decide(policies, f, now)
}

// withOwnersAsRemediators is a Decide to which an owner is like any other remediator: one of the control plane at a time.
func withOwnersAsRemediators(policies []core.Policy, f core.Cluster, now time.Time) core.Decision {
	starts := core.Decide(policies, f, now).Starts
	f.Targets = slices.Clone(f.Targets)
	for i, s := range starts {
		f.Targets[s.Target].Node.Excluded = i > 0 || len(f.Requests) > 0
	}
	d := core.Decide(policies, f, now)
	for i := range d.Refusals {
		if d.Refusals[i].Gate == core.Excluded {
			d.Refusals[i].Gate = core.ControlPlaneBusy
		}
	}
	return d
}

// withoutBackoff is a Decide without pauses between repairs.
func withoutBackoff(policies []core.Policy, f core.Cluster, now time.Time) core.Decision {
	return core.Decide(changed(policies, backoff(0)), f, now)
}

// withForeignMarksWithdrawn is a Decide that removes all marks of healthy machines, also of machines that no policy selects.
func withForeignMarksWithdrawn(policies []core.Policy, f core.Cluster, now time.Time) core.Decision {
	d := core.Decide(policies, f, now)
	d.Withdrawals = nil
	for i, q := range f.Requests {
		t := slices.IndexFunc(f.Targets, func(t core.Target) bool { return t.ID == q.Target })
		if t >= 0 && len(f.Targets[t].Node.Conditions) > 0 && f.Targets[t].Node.Conditions[0].Status == "True" && !q.Leaving {
			d.Withdrawals = append(d.Withdrawals, core.Withdrawal{Request: i, Target: t, Policy: -1})
		}
	}
	return d
}

// TestWalksOfMarks goes on where the small worlds of marks end.
func TestWalksOfMarks(t *testing.T) {
	policies := []core.Policy{
		markPolicy(4, inFlight(core.Count(2))),
		markPolicy(4, named("strict", 1, 2), maxUnhealthy(core.Count(1)), younger),
	}
	everything := sim.Setup{
		Policies: policies, Machines: 4, NotReady: 3, Ticks: 8, Flaps: 14, Vanishings: 2, Failures: 2, Crashes: 4, Refusals: 3,
		OwnerReplacements: 6, OwnerRefusals: 4, MarkRemovals: 3, UserMarks: 3, Pauses: 2, Deselections: 2,
	}
	erasing := everything
	erasing.RecordDeletions = 3
	leaders := everything
	// A leader that doesn't see yet that a machine is selected again overlooks its repair.
	leaders.Leaders, leaders.Deselections = 2, 0
	interrupted := everything
	ordered := everything
	ordered.Policies, ordered.ControlPlane, ordered.OneByOne = []core.Policy{markPolicy(4)}, 3, true
	walks{50, 33, "marks", func(r sim.Result) int { return r.Requests }, 50}.through(t, map[string]sim.Setup{
		"one leader": everything, "a ledger that loses things": erasing, "two leaders": leaders, interruptedWalks: interrupted, "a control plane": ordered,
	})
}
