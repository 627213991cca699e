package sim_test

import (
	"slices"
	"testing"

	"github.com/fettle-io/fettle/internal/core"
	"github.com/fettle-io/fettle/internal/sim"
)

// reportWorlds are small worlds in which dialects report and write, and machines of nodes are looked up.
func reportWorlds() map[string]world {
	machines, nodes := []core.Policy{onePolicy(2)}, []core.Policy{nodePolicy(2)}
	one, escalating := []core.Policy{nodePolicy(1)}, []core.Policy{nodePolicy(1, twoSteps)}
	delayed := []core.Policy{nodePolicy(1, healthyDelay(sim.Ticks(2)))}
	return map[string]world{
		"conditions":                      {sim.Setup{Policies: machines, Machines: 2, NotReady: 2, Ticks: 3, Flaps: 1, LostAnswers: 1, Reports: true}, 6},
		"conditions and crashes":          {sim.Setup{Policies: machines, Machines: 2, NotReady: 2, Now: 2, Crashes: 1, Flaps: 1, FailedCalls: 1, Reports: true}, 5},
		"conditions of marks":             {sim.Setup{Policies: []core.Policy{markPolicy(2)}, Machines: 2, NotReady: 2, Now: 2, Flaps: 1, OwnerReplacements: 1, LostAnswers: 1, Reports: true}, 6},
		"conditions of two leaders":       {sim.Setup{Policies: machines, Machines: 2, NotReady: 2, Now: 2, Flaps: 1, Leaders: 2, Reports: true}, 5},
		"confirmations":                   {sim.Setup{Policies: nodes, Nodes: 2, NotReady: 2, Now: 2, Flaps: 2, Confirmations: 1, LostAnswers: 1, Reports: true}, 7},
		"confirmations and delays":        {sim.Setup{Policies: delayed, Nodes: 1, NotReady: 1, Now: 2, Ticks: 2, Flaps: 1, Confirmations: 2, RequestSuccesses: 1, Crashes: 1, Reports: true}, 6},
		"confirmations of later nodes":    {sim.Setup{Policies: one, Nodes: 1, NotReady: 1, Now: 2, Vanishings: 2, Flaps: 1, Confirmations: 2, Reports: true}, 10},
		"machines of nodes, and failures": {sim.Setup{Policies: escalating, Nodes: 1, NotReady: 1, Now: 2, Ticks: 2, FailedCalls: 2, Crashes: 1, Reports: true}, 6},
		"conditions, call by call": {
			sim.Setup{Policies: []core.Policy{onePolicy(1)}, Machines: 1, NotReady: 1, Now: 2, Flaps: 1, LostAnswers: 1, SteppedPasses: 2, OnlySteppedPasses: true, Reports: true}, 9,
		},
		"confirmations, call by call": {
			sim.Setup{Policies: one, Nodes: 1, NotReady: 1, Now: 2, Flaps: 1, Confirmations: 1, LostAnswers: 1, SteppedPasses: 4, OnlySteppedPasses: true, Reports: true}, 12,
		},
	}
}

// TestSmallWorldsOfReports explores every interleaving in each of these worlds too.
func TestSmallWorldsOfReports(t *testing.T) { explore(t, reportWorlds()) }

// TestConfirmationOfARepairThatNoCacheShows: a confirmation may be withdrawn while a repair runs only if the cache has lacked
// the repair for a minute. A process that forgets it earlier is found.
func TestConfirmationOfARepairThatNoCacheShows(t *testing.T) {
	const minute = 6 // ticks
	for name, c := range map[string]struct {
		ticks int
		fault sim.Faults
		want  string
	}{
		"less than a minute":                {minute - 1, sim.Faults{}, ""},
		"a minute":                          {minute, sim.Faults{}, ""},
		"less than a minute, and forgotten": {minute - 1, sim.Faults{Forgetful: true}, "I10: the confirmation of node-0.0 was withdrawn while its repair runs"},
	} {
		t.Run(name, func(t *testing.T) {
			u := sim.New(sim.Setup{Policies: []core.Policy{nodePolicy(1)}, Nodes: 1, NotReady: 1, Now: 2, Reports: true, MissedStatuses: 1, Faults: c.fault})
			happens := func(kinds ...sim.Kind) {
				for _, kind := range kinds {
					u = u.After(sim.Step{Kind: kind})
				}
			}
			happens(sim.Pass, sim.Pass, sim.SeeRequests, sim.Flap, sim.Confirm, sim.SeeNode)
			happens(slices.Repeat([]sim.Kind{sim.Tick}, c.ticks)...)
			happens(sim.BeginPass, sim.AbandonPass, sim.Pass)
			if got := u.Complaint(); got != c.want {
				t.Errorf("the checker says %q, want %q", got, c.want)
			}
			if got := u.Settle(); got != c.want {
				t.Errorf("at rest the checker says %q, want %q", got, c.want)
			}
		})
	}
}

// TestPlantedFaultsOfReportsAreFound: the search finds what goes wrong with reports and conditions.
func TestPlantedFaultsOfReportsAreFound(t *testing.T) {
	machines := sim.Setup{Policies: []core.Policy{onePolicy(1)}, Machines: 1, NotReady: 1, Now: 2, Crashes: 1, Reports: true}
	nodes := sim.Setup{Policies: []core.Policy{nodePolicy(1)}, Nodes: 1, NotReady: 1, Now: 2, Flaps: 1, Confirmations: 1, Reports: true}
	for name, c := range map[string]planted{
		"conditions that are not written":        {machines, sim.Faults{NoConditions: true}, "I9: at rest", nil},
		"dialects that don't say what they lack": {machines, sim.Faults{SilentDialects: true}, "I9: nothing is known", nil},
		"confirmations that stay":                {nodes, sim.Faults{KeptConfirmations: true}, "convergence: at rest the confirmation", nil},
		"machines of nodes that are guessed":     {nodes, sim.Faults{GuessedSiblings: true}, "I1: a request about", nil},
	} {
		t.Run(name, c.isFound)
	}
}
