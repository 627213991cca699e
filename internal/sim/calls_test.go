package sim_test

import (
	"testing"

	"github.com/fettle-io/fettle/internal/core"
	"github.com/fettle-io/fettle/internal/sim"
)

// callWorlds are small worlds in which the runner does not make a call, or does not get its answer. A stage has no time left, the pass
// is cancelled, or a call panics.
func callWorlds() map[string]world {
	two := sim.Setup{Policies: []core.Policy{onePolicy(2)}, Machines: 2, NotReady: 2, Now: 2, SteppedPasses: 3, OnlySteppedPasses: true}
	ladder := sim.Setup{Policies: []core.Policy{nodePolicy(1, twoSteps)}, Nodes: 1, NotReady: 1, Now: 2, Ticks: 2, SteppedPasses: 4, OnlySteppedPasses: true, Unchecked: notStopped}
	marks := sim.Setup{Policies: []core.Policy{markPolicy(1)}, Machines: 1, NotReady: 1, Now: 2, Flaps: 1, SteppedPasses: 3, OnlySteppedPasses: true}
	with := func(s sim.Setup, change func(*sim.Setup)) sim.Setup { change(&s); return s }
	skips := func(s *sim.Setup) { s.Skips = 2 }
	cutOffs := func(s *sim.Setup) { s.CutOffs = 1 }
	panics := func(s *sim.Setup) { s.Panics = 1 }
	return map[string]world{
		"deletions that are skipped":    {with(two, skips), 18},
		"deletions that are cut off":    {with(two, cutOffs), 18},
		"deletions that panic":          {with(two, panics), 18},
		"requests that are skipped":     {with(ladder, skips), 16},
		"requests that are cut off":     {with(ladder, cutOffs), 16},
		"requests that panic":           {with(ladder, panics), 16},
		"marks that are cut off":        {with(marks, cutOffs), 20},
		"marks that panic":              {with(marks, panics), 20},
		"statuses that are not written": {with(two, func(s *sim.Setup) { s.MissedStatuses, s.Panics = 1, 1 }), 18},
		"passes that are abandoned":     {with(two, func(s *sim.Setup) { s.Abandonments, s.Flaps = 2, 1 }), 16},
		"edits during a pass":           {with(two, func(s *sim.Setup) { s.Edits, s.LaggingPolicies = 2, true }), 17},
		"edits, and requests":           {with(ladder, func(s *sim.Setup) { s.Edits = 2 }), 15},
		"clocks of nodes that step": {
			sim.Setup{Policies: two.Policies, Machines: 2, AheadNodes: -3, NodeJumps: 2, NodeSkew: 60, Ticks: 4, Flaps: 3}, 8,
		},
		"clocks of nodes that are behind": {
			sim.Setup{Policies: ladder.Policies, Nodes: 1, AheadNodes: -60, NodeJumps: 1, Ticks: 4, Flaps: 3, RequestSuccesses: 1}, 9,
		},
		// A node fails once more at the very date that its fast clock had written before.
		"clocks of nodes that are set right": {
			sim.Setup{Policies: []core.Policy{onePolicy(1)}, Machines: 1, NotReady: 1, AheadNodes: 1, NodeJumps: 1, Ticks: 4, Flaps: 3}, 10,
		},
		"clocks that are set right, and requests": {
			sim.Setup{Policies: []core.Policy{nodePolicy(1)}, Nodes: 1, NotReady: 1, AheadNodes: 1, NodeJumps: 1, Ticks: 4, Flaps: 3}, 10,
		},
		"clocks that are set right, and marks": {
			sim.Setup{Policies: []core.Policy{markPolicy(1)}, Machines: 1, NotReady: 1, AheadNodes: 1, NodeJumps: 1, Ticks: 4, Flaps: 3}, 10,
		},
	}
}

// TestSmallWorldsOfCalls explores every interleaving in each of these worlds too.
func TestSmallWorldsOfCalls(t *testing.T) { explore(t, callWorlds()) }

// TestPlantedFaultsOfCallsAreFound: the search finds a runner, and a pass, that take one result of a call for another.
func TestPlantedFaultsOfCallsAreFound(t *testing.T) {
	worlds := callWorlds()
	setup := func(name string) sim.Setup { return worlds[name].setup }
	abandoned := setup("passes that are abandoned")
	abandoned.OnlySteppedPasses = false
	abandoned.Abandonments, abandoned.SteppedPasses = 1, 1
	cases := map[string]planted{
		"missing statuses are not told":                {setup("statuses that are not written"), sim.Faults{SilentStatuses: true}, "I9", nil},
		"cut off taken for granted":                    {setup("deletions that are cut off"), sim.Faults{GrantedCutOffs: true}, "convergence", nil},
		"the state of passes is lost":                  {abandoned, sim.Faults{Forgetful: true, NewRepairsUnnoticed: true}, "convergence", nil},
		"policies are not read":                        {setup("edits during a pass"), sim.Faults{NoPolicyRead: true}, "I1", nil},
		"too early, by clocks set right":               {setup("clocks of nodes that are set right"), sim.Faults{Decide: withShorterCriteria}, "I5", nil},
		"no live read, by clocks set right":            {setup("clocks of nodes that are set right"), sim.Faults{NoLiveRead: true}, "I5", nil},
		"too early, by clocks set right, for requests": {setup("clocks that are set right, and requests"), sim.Faults{Decide: withShorterCriteria}, "I5", nil},
		"no live read, by clocks set right, for marks": {setup("clocks that are set right, and marks"), sim.Faults{NoLiveRead: true}, "I5", nil},
	}
	for name, c := range cases {
		t.Run(name, c.isFound)
	}
}
