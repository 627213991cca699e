package sim_test

import (
	"testing"

	"github.com/fettle-io/fettle/internal/core"
	"github.com/fettle-io/fettle/internal/sim"
)

// notStopped is the promise that breaks where a step ends before a cache shows its request. Another leader has made the request, or its answer
// was lost, so the remediator can't be told that its time is over.
var notStopped = []string{"ladder: the remediator was not told"}

// steppedWorlds are small worlds in which each call of a pass is a step among others, in any order that the pass offers.
func steppedWorlds() map[string]world {
	two := []core.Policy{onePolicy(2)}
	unlimited := []core.Policy{onePolicy(2, inFlight(core.Unlimited()))}
	escalating := []core.Policy{nodePolicy(1, twoSteps)}
	nodes := []core.Policy{nodePolicy(2)}
	sharing := []core.Policy{nodePolicy(1, inFlight(core.Unlimited())), onePolicy(1, inFlight(core.Unlimited()), younger)}
	marks := []core.Policy{markPolicy(1)}
	return map[string]world{
		"deletions":               {sim.Setup{Policies: two, Machines: 2, NotReady: 2, Now: 2, Flaps: 2, SteppedPasses: 3, OnlySteppedPasses: true}, 13},
		"deletions and crashes":   {sim.Setup{Policies: unlimited, Machines: 2, NotReady: 2, Now: 2, Crashes: 1, Flaps: 1, SteppedPasses: 3, OnlySteppedPasses: true}, 12},
		"deletions, two leaders":  {sim.Setup{Policies: two, Machines: 2, NotReady: 2, Now: 2, SteppedPasses: 3, OnlySteppedPasses: true, Leaders: 2}, 16},
		"pauses":                  {sim.Setup{Policies: two, Machines: 2, NotReady: 2, Now: 2, Pauses: 2, SteppedPasses: 3, OnlySteppedPasses: true}, 14},
		"lost answers":            {sim.Setup{Policies: two, Machines: 2, NotReady: 2, Now: 2, LostAnswers: 1, FailedCalls: 1, SteppedPasses: 3, OnlySteppedPasses: true}, 11},
		"a ladder":                {sim.Setup{Policies: escalating, Nodes: 1, NotReady: 1, Now: 2, Ticks: 3, RequestFailures: 1, Flaps: 1, SteppedPasses: 4, OnlySteppedPasses: true}, 15},
		"a ladder, and crashes":   {sim.Setup{Policies: escalating, Nodes: 1, NotReady: 1, Now: 2, Ticks: 2, Crashes: 1, LostAnswers: 1, SteppedPasses: 4, OnlySteppedPasses: true, Unchecked: notStopped}, 13},
		"requests of two leaders": {sim.Setup{Policies: nodes, Nodes: 2, NotReady: 2, Now: 2, SteppedPasses: 3, OnlySteppedPasses: true, Leaders: 2}, 16},
		"machines and nodes":      {sim.Setup{Policies: sharing, Machines: 1, Nodes: 1, NotReady: 1, Now: 2, Failures: 1, SteppedPasses: 3, OnlySteppedPasses: true, Leaders: 2}, 15},
		"marks":                   {sim.Setup{Policies: marks, Machines: 1, NotReady: 1, Now: 2, Flaps: 2, OwnerReplacements: 1, LostAnswers: 1, SteppedPasses: 4, OnlySteppedPasses: true}, 14},
		"marks of two leaders":    {sim.Setup{Policies: marks, Machines: 1, NotReady: 1, Now: 2, Flaps: 1, SteppedPasses: 3, OnlySteppedPasses: true, Leaders: 2}, 15},
	}
}

// TestSmallWorldsCallByCall explores every interleaving of the calls of passes with what else happens.
func TestSmallWorldsCallByCall(t *testing.T) { explore(t, steppedWorlds()) }

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

func dryRun(p *core.Policy) { p.DryRun = true }

// holder has a policy hold leases, under a name of its own.
func holder(p *core.Policy) { p.Holder = "fettle-" + p.ID.Kind }

func startup(p *core.Policy) { p.Criteria.NodeStartup = sim.Ticks(2) }

// faultWorlds are small worlds with one kind of misfortune each.
func faultWorlds() map[string]world {
	two := []core.Policy{onePolicy(2)}
	escalating := []core.Policy{nodePolicy(1, twoSteps)}
	marks := []core.Policy{markPolicy(2)}
	leases := []core.Policy{onePolicy(2, holder)}
	nodeLeases := []core.Policy{nodePolicy(2, holder)}
	dryRuns := []core.Policy{onePolicy(2, dryRun, holder), nodePolicy(2, holder)}
	handedOver := []core.Policy{onePolicy(2, withSteps(sim.HandOverStep()))}
	return map[string]world{
		"lost answers to deletions":       {sim.Setup{Policies: two, Machines: 2, NotReady: 2, Now: 2, LostAnswers: 2, Flaps: 1, Ticks: 1}, 6},
		"lost answers to requests":        {sim.Setup{Policies: escalating, Nodes: 1, NotReady: 1, Now: 2, Ticks: 2, LostAnswers: 2, Flaps: 1, RequestFailures: 1, Unchecked: notStopped}, 7},
		"lost answers to marks":           {sim.Setup{Policies: marks, Machines: 2, NotReady: 2, Now: 2, LostAnswers: 2, Flaps: 1, OwnerReplacements: 1}, 6},
		"failed calls":                    {sim.Setup{Policies: two, Machines: 2, NotReady: 2, Now: 2, FailedCalls: 2, Flaps: 1}, 6},
		"failed calls about nodes":        {sim.Setup{Policies: escalating, Nodes: 1, NotReady: 1, Now: 2, Ticks: 2, FailedCalls: 2, Flaps: 1}, 7},
		"pauses that are not seen":        {sim.Setup{Policies: two, Machines: 2, NotReady: 2, Now: 2, Pauses: 2, Ticks: 1, LaggingPolicies: true, Crashes: 1}, 8},
		"health checks deleted":           {sim.Setup{Policies: two, Machines: 2, NotReady: 2, Now: 2, Removals: 2, Flaps: 1, LaggingPolicies: true, SteppedPasses: 3}, 7},
		"health checks of nodes deleted":  {sim.Setup{Policies: escalating, Nodes: 1, NotReady: 1, Now: 2, Ticks: 2, Removals: 2, LaggingPolicies: true, SteppedPasses: 2}, 8},
		"health checks of marks deleted":  {sim.Setup{Policies: marks, Machines: 2, NotReady: 2, Now: 2, Removals: 2, LaggingPolicies: true, Flaps: 1}, 6},
		"a quorum that changes":           {sim.Setup{Policies: two, Machines: 2, NotReady: 2, Now: 2, ControlPlane: 2, QuorumSurvives: core.Yes, QuorumChanges: 3, FailedCalls: 1}, 8},
		"pruning":                         {sim.Setup{Policies: two, Machines: 2, NotReady: 2, Now: 2, Ticks: 5, Flaps: 1, Prunes: true, Crashes: 1}, 6},
		"pruning by two leaders":          {sim.Setup{Policies: two, Machines: 2, NotReady: 2, Now: 2, Ticks: 4, Prunes: true, Leaders: 2}, 5},
		"stale lists":                     {sim.Setup{Policies: two, Machines: 2, NotReady: 2, Now: 2, Flaps: 1, Crashes: 2, StaleLists: 2}, 7},
		"stale lists of requests":         {sim.Setup{Policies: escalating, Nodes: 1, NotReady: 1, Now: 2, Ticks: 2, Crashes: 2, StaleLists: 2, Unchecked: notStopped}, 7},
		"deletions that never end":        {sim.Setup{Policies: two, Machines: 2, NotReady: 2, Now: 2, Ticks: 2, Flaps: 1, NeverGone: true, Crashes: 1}, 9},
		"machines that start":             {sim.Setup{Policies: []core.Policy{onePolicy(2, startup)}, Machines: 2, Starting: 2, Ticks: 3, Vanishings: 2, Crashes: 1}, 8},
		"handed over":                     {sim.Setup{Policies: handedOver, Machines: 2, NotReady: 2, Now: 2, Ticks: 2, OutsideRepairs: 2, Flaps: 1, Crashes: 1}, 7},
		"leases of machines":              {sim.Setup{Policies: leases, Machines: 2, NotReady: 2, Now: 2, Leases: true, ForeignLeases: 2, Crashes: 1}, 8},
		"lost answers, and leases":        {sim.Setup{Policies: nodeLeases, Nodes: 2, NotReady: 2, Now: 2, Leases: true, LostAnswers: 1, Flaps: 2, Ticks: 1}, 7},
		"lost answers, machine leases":    {sim.Setup{Policies: leases, Machines: 2, NotReady: 2, Now: 2, Leases: true, LostAnswers: 1, Flaps: 1, Ticks: 1}, 7},
		"leaders that see other nodes":    {sim.Setup{Policies: []core.Policy{nodePolicy(2)}, Nodes: 2, NotReady: 2, Now: 2, Leaders: 2, Apart: true}, 7},
		"leaders that see other machines": {sim.Setup{Policies: two, Machines: 2, NotReady: 2, Now: 2, Leaders: 2, Apart: true, Flaps: 1}, 6},
		"leases of nodes":                 {sim.Setup{Policies: nodeLeases, Nodes: 2, NotReady: 2, Now: 2, Leases: true, ForeignLeases: 2, Flaps: 1, Crashes: 1}, 7},
		"a dry run beside":                {sim.Setup{Policies: dryRuns, Machines: 2, Nodes: 2, NotReady: 2, Now: 2, Leases: true, Flaps: 1, Crashes: 1}, 7},
		"clocks that jump":                {sim.Setup{Policies: two, Machines: 2, NotReady: 2, Now: 2, Ticks: 2, Flaps: 1, Jumps: 3, Skew: sim.Ticks(60)}, 8},
		"clocks that jump back":           {sim.Setup{Policies: two, Machines: 2, NotReady: 2, Now: 2, Ticks: 2, Flaps: 1, Jumps: 3, Skew: -sim.Ticks(60), SteppedPasses: 2}, 7},
		"clocks that differ a little":     {sim.Setup{Policies: escalating, Nodes: 1, NotReady: 1, Ticks: 4, Flaps: 1, Jumps: 2, Skew: 4 * sim.Ticks(1) / 10, Leaders: 2, Unchecked: notStopped}, 6},
		"a server whose clock jumps":      {sim.Setup{Policies: two, Machines: 2, NotReady: 2, Now: 2, Ticks: 2, Flaps: 1, ServerJumps: 3, ServerSkew: 60}, 7},
		"a server and its requests":       {sim.Setup{Policies: escalating, Nodes: 1, NotReady: 1, Now: 2, Ticks: 3, Flaps: 1, ServerJumps: 2, ServerSkew: -60, SteppedPasses: 2}, 7},
		"a server and new machines":       {sim.Setup{Policies: []core.Policy{onePolicy(1, startup)}, Machines: 1, Starting: 1, Ticks: 4, Vanishings: 1, ServerJumps: 2, ServerSkew: 60}, 8},
		"clocks of nodes that are fast":   {sim.Setup{Policies: two, Machines: 2, NotReady: 2, AheadNodes: 3, Ticks: 5, Flaps: 1}, 8},
	}
}

// TestSmallWorldsOfFaults explores every interleaving in each of these worlds too.
func TestSmallWorldsOfFaults(t *testing.T) { explore(t, faultWorlds()) }
