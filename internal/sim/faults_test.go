package sim_test

import (
	"testing"

	"github.com/fettle-io/fettle/internal/core"
	"github.com/fettle-io/fettle/internal/sim"
)

// untold is the promise that breaks where a step ends before a cache shows its request, which another leader has made or the answer to
// which was lost: the remediator can't be told that its time is over.
var untold = []string{"ladder: nobody has told"} //nolint:gochecknoglobals // a constant

// flightWorlds are small worlds in which each call of a pass is a step among others, in any order that the pass offers.
func flightWorlds() map[string]world {
	two := []core.Policy{onePolicy(2)}
	unlimited := []core.Policy{onePolicy(2, inFlight(core.Unlimited()))}
	ladders := []core.Policy{nodePolicy(1, twoSteps)}
	nodes := []core.Policy{nodePolicy(2)}
	bodies := []core.Policy{nodePolicy(1, inFlight(core.Unlimited())), onePolicy(1, inFlight(core.Unlimited()), younger)}
	marks := []core.Policy{markPolicy(1)}
	return map[string]world{
		"deletions":               {sim.Setup{Policies: two, Machines: 2, NotReady: 2, Now: 2, Flaps: 2, Flights: 3, OnlyFlights: true}, 13},
		"deletions and crashes":   {sim.Setup{Policies: unlimited, Machines: 2, NotReady: 2, Now: 2, Crashes: 1, Flaps: 1, Flights: 3, OnlyFlights: true}, 12},
		"deletions, two leaders":  {sim.Setup{Policies: two, Machines: 2, NotReady: 2, Now: 2, Flights: 3, OnlyFlights: true, Leaders: 2}, 16},
		"pauses":                  {sim.Setup{Policies: two, Machines: 2, NotReady: 2, Now: 2, Pauses: 2, Flights: 3, OnlyFlights: true}, 14},
		"lost answers":            {sim.Setup{Policies: two, Machines: 2, NotReady: 2, Now: 2, Losses: 1, Misses: 1, Flights: 3, OnlyFlights: true}, 11},
		"a ladder":                {sim.Setup{Policies: ladders, Nodes: 1, NotReady: 1, Now: 2, Ticks: 3, Defeats: 1, Flaps: 1, Flights: 4, OnlyFlights: true}, 15},
		"a ladder, and crashes":   {sim.Setup{Policies: ladders, Nodes: 1, NotReady: 1, Now: 2, Ticks: 2, Crashes: 1, Losses: 1, Flights: 4, OnlyFlights: true, Unwatched: untold}, 13},
		"requests of two leaders": {sim.Setup{Policies: nodes, Nodes: 2, NotReady: 2, Now: 2, Flights: 3, OnlyFlights: true, Leaders: 2}, 16},
		"machines and nodes":      {sim.Setup{Policies: bodies, Machines: 1, Nodes: 1, NotReady: 1, Now: 2, Failures: 1, Flights: 3, OnlyFlights: true, Leaders: 2}, 15},
		"marks":                   {sim.Setup{Policies: marks, Machines: 1, NotReady: 1, Now: 2, Flaps: 2, Replacements: 1, Losses: 1, Flights: 4, OnlyFlights: true}, 14},
		"marks of two leaders":    {sim.Setup{Policies: marks, Machines: 1, NotReady: 1, Now: 2, Flaps: 1, Flights: 3, OnlyFlights: true, Leaders: 2}, 15},
	}
}

// TestSmallWorldsCallByCall explores every interleaving of the calls of passes with what else happens.
func TestSmallWorldsCallByCall(t *testing.T) { explore(t, flightWorlds()) }

// explore explores worlds to their depth, and finds no broken promise.
func explore(t *testing.T, worlds map[string]world) {
	t.Helper()
	for name, w := range worlds {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			result := sim.Explore(sim.New(w.setup), sim.Bounds{Depth: w.reach(), SettleEvery: 50})
			if result.Complaint != "" {
				t.Fatalf("after %d states:\n%s", result.States, result.Story())
			}
			t.Logf("%d states, %d steps, %d settled, up to %d requests and %d deletions, to a depth of %d",
				result.States, result.Steps, result.Settled, result.Requests, result.Deletions, w.reach())
			if result.Requests+result.Deletions == 0 && !testing.Short() {
				t.Error("nothing was begun: this world shows nothing")
			}
		})
	}
}
