package sim_test

import (
	"context"
	"flag"
	"math/rand/v2"
	"testing"

	"github.com/fettle-io/fettle/internal/core"
	"github.com/fettle-io/fettle/internal/sim"
)

var (
	soakFor  = flag.Duration("soak", 0, "how long TestSoak goes on; 0 for a fixed number of worlds")
	soakSeed = flag.Uint64("seed", 1, "the seed of the first world of TestSoak")
	soakOne  = flag.Bool("one", false, "TestSoak plays the world of the seed alone")
)

// soaked is how many worlds TestSoak plays when it is not told for how long.
const soaked = 1500

// TestSoak plays a random story in each random world. A failure prints the command that replays it.
func TestSoak(t *testing.T) {
	var sum sim.Tally
	seed := *soakSeed
	for more := soaking(t); more(); seed++ {
		dice := rand.New(rand.NewPCG(seed, 15))
		result := sim.Walk(sim.New(randomWorld(dice)), dice, 150)
		sum.Add(&result)
		if result.Complaint != "" {
			t.Errorf("replay it by: go test ./internal/sim -run TestSoak -seed=%d -one -v\n%s", seed, result.Story())
			break
		}
	}
	t.Logf("from seed %d: %s", *soakSeed, sum.String())
}

// soaking returns a function that reports whether TestSoak plays another world.
func soaking(t *testing.T) func() bool {
	t.Helper()
	if *soakFor > 0 && !*soakOne {
		until, cancel := context.WithTimeout(t.Context(), *soakFor)
		t.Cleanup(cancel)
		return func() bool { return until.Err() == nil }
	}
	left := soaked
	if testing.Short() {
		left /= 10
	}
	if *soakOne {
		left = 1
	}
	return func() bool { left--; return left >= 0 }
}

// randomWorld returns a world of one or two kinds of health checks in which anything may happen.
func randomWorld(dice *rand.Rand) sim.Setup {
	some := func(most int) int { return dice.IntN(most + 1) }
	n := 2 + some(3)
	s := sim.Setup{
		NotReady: some(n), Now: some(2), Ticks: 10 + some(20), Flaps: some(20), Vanishings: some(3), Crashes: some(4), Refusals: some(3),
		Losses: some(4), Misses: some(6), SteppedPasses: some(12), Pauses: some(2), Prunes: some(1) == 1, Interpose: nil, LastFirst: some(1) == 1,
		QuorumSurvives: core.Yes, Mends: some(8), Defeats: some(4), Unchecked: notStopped,
	}
	limits := []func(*core.Policy){inFlight(core.Count(1 + some(2))), maxUnhealthy(core.Percent(50 + 10*some(5)))}
	switch dice.IntN(5) {
	case 0: // machines that are deleted
		s.Machines, s.Policies = n, []core.Policy{onePolicy(n, limits...)}
		s.Failures, s.NeverGone, s.Starting = some(3), some(5) == 0, 0
	case 1: // nodes that remediators repair
		s.Nodes, s.Policies = n, []core.Policy{nodePolicy(n, append(limits, twoSteps)...)}
	case 2: // machines that their owners replace
		s.Machines, s.Policies = n, []core.Policy{markPolicy(n, limits[1:]...)}
		s.Replacements, s.Deferrals, s.OneByOne = some(6), some(3), some(1) == 1
	case 3: // a cluster that is its own workload cluster
		s.Machines, s.Nodes = n, n
		s.Policies = []core.Policy{nodePolicy(n, append(limits, twoSteps, named("nodes", dice.Perm(n)[:1+some(n-1)]...))...)}
		s.Workload = []core.Policy{markPolicy(n, limits[1:]...)}
		s.Replacements, s.Deferrals, s.Removals, s.Deselections, s.LaggingPolicies = some(6), some(3), some(2), some(2), some(1) == 1
	default: // machines and nodes of one cluster, by two APIs
		s.Machines, s.Nodes = n, n
		s.Policies = []core.Policy{nodePolicy(n, limits...), onePolicy(n, append(limits, younger)...)}
		s.Failures = some(2)
	}
	if s.Vanishings == 0 && some(2) == 0 {
		// Two leaders may reuse the number of a deleted Repair when the ledger lags by more than the retention. Here that is
		// seconds, and a day by default.
		s.Leaders, s.Prunes = 2, false
	}
	return s
}
