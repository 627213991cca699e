package sim_test

import (
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/fettle-io/fettle/internal/core"
	"github.com/fettle-io/fettle/internal/sim"
)

// onePolicy repairs machines 0 to n-1, one at a time unless a test says otherwise.
func onePolicy(n int, changes ...func(*core.Policy)) core.Policy {
	p := core.Policy{
		ID:           core.ID{Kind: "HealthCheck", Namespace: "sim", Name: "p", UID: "p"},
		Criteria:     core.Criteria{Conditions: []core.ConditionCriterion{{Type: "Ready", Status: "False", For: sim.Ticks(2)}}},
		ShortCircuit: core.ShortCircuit{MaxUnhealthy: core.Percent(100)},
		MaxInFlight:  core.Count(1),
		Backoff:      core.DefaultBackoff(),
		Steps:        []core.Step{{Remedy: "Delete"}},
	}
	for i := range n {
		p.Members = append(p.Members, i)
	}
	for _, change := range changes {
		change(&p)
	}
	return p
}

func named(name string, members ...int) func(*core.Policy) {
	return func(p *core.Policy) { p.ID.Name, p.ID.UID, p.Members = name, name, members }
}

func maxUnhealthy(a core.Amount) func(*core.Policy) {
	return func(p *core.Policy) { p.ShortCircuit.MaxUnhealthy = a }
}

// world is a small world to be explored to a depth.
type world struct {
	setup sim.Setup
	depth int
}

// reach returns the depth to explore. A short run stops earlier, so a world may then show less.
func (w world) reach() int {
	const spared = 3
	if testing.Short() {
		return w.depth - spared
	}
	return w.depth
}

// smallWorlds returns worlds that are explored through and through: three machines each, and each with
// some of what can go wrong.
func smallWorlds() map[string]world {
	policies := []core.Policy{onePolicy(3)}
	tight := []core.Policy{onePolicy(3, maxUnhealthy(core.Count(2)))}
	overlapping := []core.Policy{onePolicy(3, named("wide", 0, 1, 2)), onePolicy(3, named("strict", 1, 2), maxUnhealthy(core.Count(1)))}
	return map[string]world{
		"flaps and lagging caches":   {sim.Setup{Policies: policies, Machines: 3, NotReady: 2, Ticks: 3, Flaps: 2}, 9},
		"three dead, and crashes":    {sim.Setup{Policies: policies, Machines: 3, NotReady: 3, Ticks: 2, Crashes: 1}, 13},
		"a short circuit":            {sim.Setup{Policies: tight, Machines: 3, NotReady: 3, Ticks: 3, Flaps: 2}, 10},
		"overlapping policies":       {sim.Setup{Policies: overlapping, Machines: 3, NotReady: 2, Ticks: 3, Flaps: 1}, 11},
		"vanishing nodes":            {sim.Setup{Policies: policies, Machines: 3, Ticks: 1, Vanishings: 2}, 11},
		"failing machines":           {sim.Setup{Policies: policies, Machines: 3, Ticks: 2, Failures: 3}, 11},
		"a ledger that loses things": {sim.Setup{Policies: policies, Machines: 3, NotReady: 2, Ticks: 2, RecordDeletions: 1, Crashes: 1}, 13},
		"refused deletions":          {sim.Setup{Policies: policies, Machines: 3, NotReady: 2, Ticks: 3, Refusals: 1, Flaps: 1}, 10},
		"a control plane":            {sim.Setup{Policies: policies, Machines: 3, NotReady: 3, Ticks: 3, ControlPlane: 3, QuorumSurvives: core.Yes, Crashes: 1}, 13},
		"two leaders":                {sim.Setup{Policies: policies, Machines: 3, NotReady: 2, Ticks: 2, Flaps: 1, Leaders: 2}, 9},
		"an unknown quorum":          {sim.Setup{Policies: policies, Machines: 3, NotReady: 3, Ticks: 3, ControlPlane: 2, Flaps: 1}, 11},
	}
}

// TestSmallWorlds explores every interleaving in every small world, to its depth, and finds no
// broken promise.
func TestSmallWorlds(t *testing.T) {
	for name, w := range smallWorlds() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			result := sim.Explore(sim.New(w.setup), sim.Bounds{Depth: w.reach(), SettleEvery: 50})
			if result.Complaint != "" {
				t.Fatalf("after %d states:\n%s", result.States, result.Story())
			}
			t.Logf("%d states, %d steps, %d settled, up to %d deletions, to a depth of %d",
				result.States, result.Steps, result.Settled, result.Deletions, w.reach())
			if known := w.setup.ControlPlane == 0 || w.setup.QuorumSurvives == core.Yes; known && result.Deletions == 0 && !testing.Short() {
				t.Error("nothing was deleted: this world shows nothing")
			}
		})
	}
}

// planted is a fault in a small world, and the promise that it breaks there, if the checker ignores some others.
type planted struct {
	setup sim.Setup
	fault sim.Faults
	want  string
	but   []string
}

// TestPlantedFaultsAreFound: the search finds each fault, and tells how it comes about.
func TestPlantedFaultsAreFound(t *testing.T) {
	one := []core.Policy{onePolicy(3)}
	cases := map[string]planted{
		"no memory of what was done": {
			sim.Setup{Policies: one, NotReady: 2, Ticks: 3, Flaps: 1}, sim.Faults{NoExpectations: true, NoFence: true}, "I3", []string{"I8", "convergence"},
		},
		"no memory, seen otherwise":     {sim.Setup{Policies: one, NotReady: 2, Ticks: 3}, sim.Faults{NoExpectations: true}, "I8", nil},
		"no gate for what is in flight": {sim.Setup{Policies: one, NotReady: 2, Ticks: 3}, sim.Faults{Decide: withoutInFlightLimit}, "I3", nil},
		"no short circuit": {
			sim.Setup{Policies: []core.Policy{onePolicy(3, maxUnhealthy(core.Count(1)))}, NotReady: 2, Ticks: 3}, sim.Faults{Decide: withoutShortCircuit}, "I3", nil,
		},
		"deletion by name":      {sim.Setup{Policies: one, Failures: 1, Leaders: 2}, sim.Faults{BlindDelete: true}, "I11", nil},
		"no live read":          {sim.Setup{Policies: one, NotReady: 1, Ticks: 2, Flaps: 1}, sim.Faults{NoLiveRead: true}, "I5", nil},
		"no live read of nodes": {sim.Setup{Policies: one, Vanishings: 2}, sim.Faults{NoLiveRead: true}, "I5", nil},
		"names of one's own":    {sim.Setup{Policies: one, NotReady: 1, Ticks: 2, Leaders: 2}, sim.Faults{OwnNames: true}, "I2", nil},
		"two leaders, no fence": {sim.Setup{Policies: one, NotReady: 2, Ticks: 2, Flaps: 1, Leaders: 2}, sim.Faults{NoFence: true}, "I3", nil},
		"caches out of step":    {sim.Setup{Policies: one, NotReady: 1, Ticks: 2, Crashes: 1}, sim.Faults{Hasty: true}, "I1", nil},
		"too early":             {sim.Setup{Policies: one, NotReady: 1, Ticks: 2}, sim.Faults{Decide: withShorterCriteria}, "I5", nil},
		"no second look": {
			sim.Setup{Policies: one, NotReady: 2, Ticks: 3, Flaps: 1, Crashes: 1}, sim.Faults{NoSecondLook: true}, "convergence", []string{"I8"},
		},
		"recovery held back": {
			sim.Setup{Policies: one, NotReady: 1, Ticks: 2, Flaps: 1, Refusals: 1}, sim.Faults{Decide: withoutEnds}, "I12", []string{"I8", "convergence"},
		},
		"quorum taken for granted": {
			sim.Setup{Policies: one, NotReady: 2, Ticks: 2, ControlPlane: 2}, sim.Faults{Decide: withQuorumAssumed}, "I4", nil,
		},
		"reasons left out": {sim.Setup{Policies: one, NotReady: 2, Ticks: 2}, sim.Faults{Decide: withoutRefusals}, "I9", nil},
	}
	for name, c := range cases {
		c.setup.Machines = 3
		t.Run(name, c.isFound)
	}
}

// isFound explores the world with the fault, and without it for as long.
func (p planted) isFound(t *testing.T) {
	t.Parallel()
	p.setup.Faults, p.setup.Unchecked = p.fault, p.but
	result := sim.Explore(sim.New(p.setup), sim.Bounds{Depth: 12, SettleEvery: 1})
	if !strings.HasPrefix(result.Complaint, p.want) {
		t.Fatalf("found %q after %d states, want a complaint about %s", result.Complaint, result.States, p.want)
	}
	if len(result.Trace) == 0 || strings.Contains(result.Story(), "nothing\n") {
		t.Errorf("the story is not complete:\n%s", result.Story())
	}
	t.Logf("found after %d states:\n%s", result.States, result.Story())
	p.setup.Faults, p.setup.Unchecked = sim.Faults{}, nil
	if result := sim.Explore(sim.New(p.setup), sim.Bounds{Depth: len(result.Trace), SettleEvery: 10}); result.Complaint != "" {
		t.Errorf("without the fault there is a complaint too:\n%s", result.Story())
	}
}

// withoutInFlightLimit is a Decide that ignores how many are in flight.
func withoutInFlightLimit(policies []core.Policy, f core.Cluster, now time.Time) core.Decision {
	return core.Decide(changed(policies, func(p *core.Policy) { p.MaxInFlight = core.Unlimited() }), f, now)
}

// withoutShortCircuit is a Decide without a short circuit.
func withoutShortCircuit(policies []core.Policy, f core.Cluster, now time.Time) core.Decision {
	return core.Decide(changed(policies, maxUnhealthy(core.Unlimited())), f, now)
}

// withShorterCriteria is a Decide whose clock is fast.
func withShorterCriteria(policies []core.Policy, f core.Cluster, now time.Time) core.Decision {
	return core.Decide(changed(policies, func(p *core.Policy) { p.Criteria.Conditions[0].For = sim.Ticks(1) }), f, now)
}

// withoutEnds is a Decide that never ends a repair.
func withoutEnds(policies []core.Policy, f core.Cluster, now time.Time) core.Decision {
	d := core.Decide(policies, f, now)
	d.Finishes = nil
	return d
}

// withQuorumAssumed is a Decide that takes every quorum to survive.
func withQuorumAssumed(policies []core.Policy, f core.Cluster, now time.Time) core.Decision {
	for i := range f.Targets {
		f.Targets[i].QuorumSurvives = core.Yes
	}
	return core.Decide(policies, f, now)
}

// withoutRefusals is a Decide that gives no reasons.
func withoutRefusals(policies []core.Policy, f core.Cluster, now time.Time) core.Decision {
	d := core.Decide(policies, f, now)
	d.Refusals = nil
	return d
}

func changed(policies []core.Policy, change func(*core.Policy)) []core.Policy {
	other := make([]core.Policy, len(policies))
	for i, p := range policies {
		p.Criteria.Conditions = append([]core.ConditionCriterion(nil), p.Criteria.Conditions...)
		change(&p)
		other[i] = p
	}
	return other
}

// TestWalks goes where the small worlds end: five machines, everything that can go wrong, long
// stories, also with two leaders, and with things that happen between two writes of a pass.
func TestWalks(t *testing.T) {
	policies := []core.Policy{
		onePolicy(5, func(p *core.Policy) { p.MaxInFlight = core.Count(2) }),
		onePolicy(5, named("strict", 1, 2, 3), maxUnhealthy(core.Percent(67))),
	}
	everything := sim.Setup{
		Policies: policies, Machines: 5, NotReady: 2, Ticks: 30, Flaps: 25, Vanishings: 4, Failures: 6, Crashes: 5, Refusals: 4,
	}
	erasing := everything
	erasing.RecordDeletions = 4
	leaders := everything
	leaders.Leaders = 2
	interrupted := everything
	interrupted.Leaders = 2
	walks{150, 12, "deletions", func(r sim.Result) int { return r.Deletions }, 100}.through(t, map[string]sim.Setup{
		"one leader": everything, "a ledger that loses things": erasing, "two leaders": leaders, interruptedWalks: interrupted,
	})
}

// walks are so many random stories of 120 steps, each stream another. There must be at least so many actions, or they show
// little.
type walks struct {
	stories, stream uint64
	actions         string
	count           func(sim.Result) int
	least           int
}

// interruptedWalks is the name of worlds in which things happen between two writes of a pass.
const interruptedWalks = "interrupted"

func (w walks) through(t *testing.T, worlds map[string]sim.Setup) {
	t.Helper()
	stories, least := w.stories, w.least
	if testing.Short() {
		stories, least = w.stories/6, w.least/10
	}
	for name, setup := range worlds {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			steps, actions := 0, 0
			for seed := range stories {
				dice := rand.New(rand.NewPCG(seed, w.stream))
				s := setup
				if name == interruptedWalks {
					s.Interpose = func(u *sim.Universe) { u.Disturb(dice) }
				}
				result := sim.Walk(sim.New(s), dice, 120)
				steps, actions = steps+result.Steps, actions+w.count(result)
				if result.Complaint != "" {
					t.Fatalf("seed %d:\n%s", seed, result.Story())
				}
			}
			t.Logf("%d steps, %d %s", steps, actions, w.actions)
			if actions < least {
				t.Errorf("only %d %s: these stories show little", actions, w.actions)
			}
		})
	}
}
