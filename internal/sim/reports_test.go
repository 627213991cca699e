package sim_test

import (
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
		"conditions":                      {sim.Setup{Policies: machines, Machines: 2, NotReady: 2, Ticks: 3, Flaps: 1, Losses: 1, Reports: true}, 6},
		"conditions and crashes":          {sim.Setup{Policies: machines, Machines: 2, NotReady: 2, Now: 2, Crashes: 1, Flaps: 1, Misses: 1, Reports: true}, 5},
		"conditions of marks":             {sim.Setup{Policies: []core.Policy{markPolicy(2)}, Machines: 2, NotReady: 2, Now: 2, Flaps: 1, Replacements: 1, Losses: 1, Reports: true}, 6},
		"conditions of two leaders":       {sim.Setup{Policies: machines, Machines: 2, NotReady: 2, Now: 2, Flaps: 1, Leaders: 2, Reports: true}, 5},
		"confirmations":                   {sim.Setup{Policies: nodes, Nodes: 2, NotReady: 2, Now: 2, Flaps: 2, Confirmations: 1, Losses: 1, Reports: true}, 7},
		"confirmations and delays":        {sim.Setup{Policies: delayed, Nodes: 1, NotReady: 1, Now: 2, Ticks: 2, Flaps: 1, Confirmations: 2, Mends: 1, Crashes: 1, Reports: true}, 6},
		"confirmations of later nodes":    {sim.Setup{Policies: one, Nodes: 1, NotReady: 1, Now: 2, Vanishings: 2, Flaps: 1, Confirmations: 2, Reports: true}, 10},
		"machines of nodes, and failures": {sim.Setup{Policies: escalating, Nodes: 1, NotReady: 1, Now: 2, Ticks: 2, Misses: 2, Crashes: 1, Reports: true}, 6},
		"conditions, call by call": {
			sim.Setup{Policies: []core.Policy{onePolicy(1)}, Machines: 1, NotReady: 1, Now: 2, Flaps: 1, Losses: 1, SteppedPasses: 2, OnlySteppedPasses: true, Reports: true}, 9,
		},
		"confirmations, call by call": {
			sim.Setup{Policies: one, Nodes: 1, NotReady: 1, Now: 2, Flaps: 1, Confirmations: 1, Losses: 1, SteppedPasses: 4, OnlySteppedPasses: true, Reports: true}, 12,
		},
	}
}

// TestSmallWorldsOfReports explores every interleaving in each of these worlds too.
func TestSmallWorldsOfReports(t *testing.T) { explore(t, reportWorlds()) }

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
