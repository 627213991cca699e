package sim_test

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fettle-io/fettle/internal/core"
	"github.com/fettle-io/fettle/internal/sim"
)

// nodePolicy has nodes 0 to n-1 repaired by asking one remediator, one node at a time unless a test says otherwise.
func nodePolicy(n int, changes ...func(*core.Policy)) core.Policy {
	p := onePolicy(n, withSteps(sim.RequestStep(0, 0)))
	p.ID.Kind, p.ID.Namespace, p.ID.Name, p.ID.UID = "NodeCheck", "", "nodes", "nodes"
	for _, change := range changes {
		change(&p)
	}
	return p
}

func withSteps(steps ...core.Step) func(*core.Policy) {
	return func(p *core.Policy) { p.Steps = steps }
}

// twoSteps asks a second remediator when the first has failed or had its tick.
func twoSteps(p *core.Policy) { p.Steps = []core.Step{sim.RequestStep(0, 1), sim.RequestStep(1, 1)} }

func threeSteps(p *core.Policy) {
	p.Steps = []core.Step{sim.RequestStep(0, 1), sim.RequestStep(1, 1), sim.RequestStep(0, 1)}
}

func inFlight(a core.Amount) func(*core.Policy) { return func(p *core.Policy) { p.MaxInFlight = a } }

// younger policies don't lead where others do.
func younger(p *core.Policy) { p.Created = time.Date(2026, time.August, 1, 0, 0, 0, 0, time.UTC) }

func healthyDelay(d time.Duration) func(*core.Policy) {
	return func(p *core.Policy) { p.HealthyDelay = d }
}

// nodeWorlds are small worlds of nodes that remediators repair, each with some of what can go wrong.
func nodeWorlds() map[string]world {
	classic := []core.Policy{nodePolicy(2)}
	escalating := []core.Policy{nodePolicy(1, twoSteps)}
	two := []core.Policy{nodePolicy(2, twoSteps)}
	shared := []core.Policy{nodePolicy(1, inFlight(core.Unlimited())), onePolicy(1, inFlight(core.Unlimited()), younger)}
	sharing := []core.Policy{nodePolicy(2, inFlight(core.Unlimited())), onePolicy(2, inFlight(core.Unlimited()), younger)}
	limited := []core.Policy{nodePolicy(2, inFlight(core.Unlimited())), onePolicy(2, younger)}
	return map[string]world{
		"nodes that flap, and remediators":          {sim.Setup{Policies: classic, Nodes: 2, NotReady: 2, Ticks: 3, Flaps: 2, RequestSuccesses: 1}, 9},
		"a ladder of two steps":                     {sim.Setup{Policies: escalating, Nodes: 1, NotReady: 1, Ticks: 5, Flaps: 1, RequestSuccesses: 1, RequestFailures: 2}, 12},
		"a step without a limit that fails":         {sim.Setup{Policies: []core.Policy{nodePolicy(1)}, Nodes: 1, NotReady: 1, Ticks: 3, Flaps: 1, RequestFailures: 2, RequestDeletions: 1}, 12},
		"ladders of two nodes":                      {sim.Setup{Policies: two, Nodes: 2, NotReady: 2, Ticks: 4, RequestFailures: 1, RequestSuccesses: 1}, 10},
		"ladders and crashes":                       {sim.Setup{Policies: escalating, Nodes: 1, NotReady: 1, Ticks: 4, Crashes: 1, RequestFailures: 1, Flaps: 1}, 11},
		"ladders, crashes, and the last call first": {sim.Setup{Policies: two, Nodes: 2, NotReady: 2, Ticks: 4, Crashes: 1, LastFirst: true}, 9},
		"requests that a user deletes":              {sim.Setup{Policies: escalating, Nodes: 1, NotReady: 1, Ticks: 4, Flaps: 1, RequestDeletions: 2}, 12},
		"requests that a user makes anew":           {sim.Setup{Policies: escalating, Nodes: 1, NotReady: 1, Ticks: 4, Flaps: 1, RequestReplacements: 1, RequestDeletions: 1}, 11},
		"nodes that register anew":                  {sim.Setup{Policies: classic, Nodes: 2, NotReady: 1, Ticks: 4, Vanishings: 2, Flaps: 1}, 9},
		"requests that keep their finalizers":       {sim.Setup{Policies: classic, Nodes: 2, NotReady: 1, Ticks: 4, Vanishings: 2, Flaps: 1, KeepsFinalizers: true}, 9},
		"remediators that replace nodes":            {sim.Setup{Policies: two, Nodes: 2, NotReady: 2, Ticks: 3, Vanishings: 2, RequestSuccesses: 1, RequestFailures: 1, Replacing: true}, 9},
		"a replaced node, and a step never let go":  {sim.Setup{Policies: escalating, Nodes: 1, NotReady: 1, Ticks: 4, Vanishings: 2, RequestFailures: 2, Replacing: true, KeepsFinalizers: true}, 10},
		"a ledger that loses repairs of nodes":      {sim.Setup{Policies: escalating, Nodes: 1, NotReady: 1, Ticks: 4, RecordDeletions: 1, Crashes: 1, Flaps: 1}, 11},
		"policies that are paused":                  {sim.Setup{Policies: escalating, Nodes: 1, NotReady: 1, Ticks: 4, Pauses: 2, Flaps: 2}, 11},
		"nodes that no policy selects":              {sim.Setup{Policies: classic, Nodes: 2, NotReady: 2, Ticks: 2, Deselections: 2, Flaps: 1}, 10},
		"machines of nodes that no policy selects":  {sim.Setup{Policies: limited, Machines: 2, Nodes: 2, NotReady: 1, Now: 2, Failures: 1, Deselections: 2}, 9},
		"recoveries that must last":                 {sim.Setup{Policies: []core.Policy{nodePolicy(1, twoSteps, healthyDelay(sim.Ticks(1)))}, Nodes: 1, NotReady: 1, Ticks: 5, Flaps: 3, Crashes: 1}, 11},
		"refused requests":                          {sim.Setup{Policies: escalating, Nodes: 1, NotReady: 1, Ticks: 4, Refusals: 2, Flaps: 1}, 12},
		"a control plane of nodes":                  {sim.Setup{Policies: []core.Policy{nodePolicy(3, inFlight(core.Unlimited()))}, Nodes: 3, NotReady: 2, Ticks: 3, ControlPlane: 3, QuorumSurvives: core.Yes, Crashes: 1, Flaps: 1}, 10},
		"two leaders of nodes":                      {sim.Setup{Policies: classic, Nodes: 2, NotReady: 2, Ticks: 2, Flaps: 1, Leaders: 2}, 9},
		"two leaders and a ladder":                  {sim.Setup{Policies: escalating, Nodes: 1, NotReady: 1, Ticks: 4, Flaps: 1, RequestFailures: 1, Leaders: 2}, 9},
		"machines and their nodes":                  {sim.Setup{Policies: sharing, Machines: 2, Nodes: 2, NotReady: 1, Ticks: 2, Failures: 1, Flaps: 1, Vanishings: 1}, 9},
		"machines and their nodes, of two leaders":  {sim.Setup{Policies: shared, Machines: 1, Nodes: 1, NotReady: 1, Ticks: 2, Failures: 1, Leaders: 2}, 10},
	}
}

// TestSmallWorldsOfNodes explores every interleaving in each of these worlds too.
func TestSmallWorldsOfNodes(t *testing.T) {
	for name, w := range nodeWorlds() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			result := sim.Explore(sim.New(w.setup), sim.Bounds{Depth: w.reach(), SettleEvery: 50})
			if result.Complaint != "" {
				t.Fatalf("after %d states:\n%s", result.States, result.Story())
			}
			t.Logf("%d states, %d steps, %d settled, up to %d requests and %d deletions, to a depth of %d",
				result.States, result.Steps, result.Settled, result.Requests, result.Deletions, w.reach())
			if result.Requests == 0 && !testing.Short() {
				t.Error("no request to a remediator was made: this world shows nothing")
			}
		})
	}
}

// TestPlantedFaultsOfRequestsAreFound: the search finds what goes wrong with requests too.
func TestPlantedFaultsOfRequestsAreFound(t *testing.T) {
	one := sim.Setup{Policies: []core.Policy{nodePolicy(1)}, Nodes: 1, NotReady: 1, Ticks: 3, Flaps: 1}
	steps := sim.Setup{Policies: []core.Policy{nodePolicy(1, twoSteps)}, Nodes: 1, NotReady: 1, Ticks: 4, RequestFailures: 1}
	two := sim.Setup{Policies: []core.Policy{nodePolicy(2)}, Nodes: 2, NotReady: 2, Ticks: 2}
	unlimited := []core.Policy{nodePolicy(2, inFlight(core.Unlimited()))}
	shared := []core.Policy{nodePolicy(1, inFlight(core.Unlimited())), onePolicy(1, inFlight(core.Unlimited()), younger)}
	with := func(s sim.Setup, change func(*sim.Setup)) sim.Setup { change(&s); return s }
	cases := map[string]planted{
		"no memory of requests":                  {one, sim.Faults{NoRequestExpectations: true}, "I8", nil},
		"withdrawal by name":                     {with(one, func(s *sim.Setup) { s.RequestReplacements = 1 }), sim.Faults{BlindWithdrawal: true}, "I11", nil},
		"steps given up without a stop":          {steps, sim.Faults{NoStop: true}, "ladder", nil},
		"a step skipped":                         {with(steps, func(s *sim.Setup) { s.Policies = []core.Policy{nodePolicy(1, threeSteps)} }), sim.Faults{TwoSteps: true}, "ladder", nil},
		"steps given up too early":               {steps, sim.Faults{Decide: withoutStepTimes}, "ladder", nil},
		"a node and its machine apart":           {sim.Setup{Policies: shared, Machines: 1, Nodes: 1, NotReady: 1, Ticks: 2}, sim.Faults{Decide: withoutGroups}, "I2", []string{"I8", "convergence"}},
		"withdrawals held back by a pause":       {with(one, func(s *sim.Setup) { s.Pauses = 1 }), sim.Faults{Decide: withoutWithdrawalsInPause}, "I12", nil},
		"requests for unhealthy nodes withdrawn": {one, sim.Faults{Decide: withAllWithdrawn}, "I10", []string{"I8"}},
		"requests of the departed forgotten": {
			with(one, func(s *sim.Setup) { s.Vanishings = 1 }), sim.Faults{Decide: withoutWithdrawalsForGone}, "I12: at rest", []string{"I8", "convergence"},
		},
		"repairs that wait for finalizers": {
			with(one, func(s *sim.Setup) { s.Vanishings, s.KeepsFinalizers = 1, true }), sim.Faults{Decide: withoutEndsOfGone}, "convergence", []string{"I8"},
		},
		"no live read of a node":             {one, sim.Faults{NoLiveRead: true}, "I5", nil},
		"no live read of another":            {with(one, func(s *sim.Setup) { s.Vanishings = 2 }), sim.Faults{NoLiveRead: true}, "I11", []string{"I5"}},
		"requests out of step":               {with(one, func(s *sim.Setup) { s.Crashes = 1 }), sim.Faults{Hasty: true}, "I1", nil},
		"no limit of requests":               {two, sim.Faults{Decide: withoutInFlightLimit}, "I3", nil},
		"two leaders of nodes, and no fence": {with(two, func(s *sim.Setup) { s.Leaders, s.Flaps = 2, 1 }), sim.Faults{NoFence: true}, "I3", nil},
		"two of the control plane": {
			with(two, func(s *sim.Setup) { s.Policies, s.ControlPlane, s.QuorumSurvives = unlimited, 2, core.Yes }), sim.Faults{Decide: withoutControlPlane}, "I4", nil,
		},
		"refusals left out": {with(one, func(s *sim.Setup) { s.Pauses = 1 }), sim.Faults{Decide: withoutRefusals}, "I9", nil},
	}
	for name, c := range cases {
		t.Run(name, c.isFound)
	}
}

// withoutStepTimes is a Decide that gives no step its time.
func withoutStepTimes(policies []core.Policy, f core.Cluster, now time.Time) core.Decision {
	f.Repairs = slices.Clone(f.Repairs)
	for i := range f.Repairs {
		f.Repairs[i].Steps = slices.Clone(f.Repairs[i].Steps)
		for j := range f.Repairs[i].Steps {
			f.Repairs[i].Steps[j].Limit = 1
		}
	}
	return core.Decide(policies, f, now.Add(1))
}

// withoutGroups is a Decide that doesn't know which machine a node is of.
func withoutGroups(policies []core.Policy, f core.Cluster, now time.Time) core.Decision {
	f.Targets = slices.Clone(f.Targets)
	for i := range f.Targets {
		f.Targets[i].Node.Name = ""
	}
	return core.Decide(policies, f, now)
}

// withoutWithdrawalsInPause is a Decide that withdraws nothing during a pause.
func withoutWithdrawalsInPause(policies []core.Policy, f core.Cluster, now time.Time) core.Decision {
	d := core.Decide(policies, f, now)
	if policies[0].Paused {
		d.Withdrawals = nil
	}
	return d
}

// withAllWithdrawn is a Decide that withdraws all requests.
func withAllWithdrawn(policies []core.Policy, f core.Cluster, now time.Time) core.Decision {
	d := core.Decide(policies, f, now)
	d.Withdrawals = nil
	for i := range f.Requests {
		if f.Requests[i].ID.UID != "" {
			d.Withdrawals = append(d.Withdrawals, core.Withdrawal{Request: i, Target: -1, Policy: -1})
		}
	}
	return d
}

// withoutWithdrawalsForGone is a Decide that withdraws no request for a node that is gone.
func withoutWithdrawalsForGone(policies []core.Policy, f core.Cluster, now time.Time) core.Decision {
	d := core.Decide(policies, f, now)
	d.Withdrawals = slices.DeleteFunc(d.Withdrawals, func(w core.Withdrawal) bool { return w.Target < 0 })
	return d
}

// withoutEndsOfGone is a Decide that ends no repair of a node that is gone while a request for it is being deleted.
func withoutEndsOfGone(policies []core.Policy, f core.Cluster, now time.Time) core.Decision {
	d := core.Decide(policies, f, now)
	d.Finishes = slices.DeleteFunc(d.Finishes, func(e core.Finish) bool {
		of := f.Repairs[e.Repair].Target
		exists := slices.ContainsFunc(f.Targets, func(t core.Target) bool { return t.ID == of })
		return !exists && slices.ContainsFunc(f.Requests, func(q core.Request) bool { return q.Target == of })
	})
	return d
}

// withoutControlPlane is a Decide to which the control plane is like any other node.
func withoutControlPlane(policies []core.Policy, f core.Cluster, now time.Time) core.Decision {
	f.Targets = slices.Clone(f.Targets)
	for i := range f.Targets {
		f.Targets[i].ControlPlane = false
	}
	d := core.Decide(policies, f, now)
	d.QuorumReads = d.Confirm // a step needs a reading of the quorum
	return d
}

// TestWalksOfNodes goes on where the small worlds of nodes end.
func TestWalksOfNodes(t *testing.T) {
	policies := []core.Policy{
		nodePolicy(4, twoSteps, inFlight(core.Count(2))),
		onePolicy(2, younger),
	}
	everything := sim.Setup{
		Policies: policies, Machines: 2, Nodes: 4, NotReady: 3, Ticks: 6, Flaps: 12, Vanishings: 2, Failures: 2, Crashes: 4, Refusals: 3,
		RequestSuccesses: 8, RequestFailures: 4, RequestDeletions: 3, Pauses: 2, Deselections: 2,
	}
	lasting := everything
	lasting.Policies = []core.Policy{nodePolicy(4, twoSteps, inFlight(core.Count(2)), healthyDelay(sim.Ticks(2)))}
	lasting.Machines, lasting.Failures, lasting.LastFirst = 0, 0, true
	erasing := everything
	erasing.RecordDeletions = 3
	leaders := everything
	// A leader whose caches lag gives up a step and does not stop the remediator to which the other has made a request
	// meanwhile. It also takes a target that it has not seen yet for gone.
	leaders.Leaders, leaders.Unchecked, leaders.Vanishings = 2, []string{"ladder: the remediator was not told"}, 0
	leaders.Policies, leaders.Machines, leaders.Failures = policies[:1], 0, 0
	interrupted := everything
	walks{150, 21, "requests", func(r sim.Result) int { return r.Requests }, 80}.through(t, map[string]sim.Setup{
		"one leader": everything, "recoveries that must last": lasting, "a ledger that loses things": erasing, "two leaders": leaders, interruptedWalks: interrupted,
	})
}

// TestRecordsWrittenOverAreFound: of two leaders, one does not see how far the other has come. It
// gives up a step once more, unless the ledger refuses that.
func TestRecordsWrittenOverAreFound(t *testing.T) {
	escalation := sim.Setup{Policies: []core.Policy{nodePolicy(1, twoSteps)}, Nodes: 1, NotReady: 1, Ticks: 8, RequestFailures: 2, Leaders: 2}
	escalation.Unchecked = []string{"ladder: the remediator was not told"}
	complaint := func(fault sim.Faults) string {
		s := escalation
		s.Faults = fault
		for seed := range uint64(500) {
			if result := sim.Walk(sim.New(s), rand.New(rand.NewPCG(seed, 22)), 60); result.Complaint != "" {
				t.Logf("seed %d:\n%s", seed, result.Story())
				return result.Complaint
			}
		}
		return ""
	}
	if got := complaint(sim.Faults{BlindUpdate: true}); !strings.HasPrefix(got, "ladder") {
		t.Errorf("with the fault it finds %q, want a complaint about the ladder", got)
	}
	if got := complaint(sim.Faults{}); got != "" {
		t.Errorf("without the fault there is a complaint too: %s", got)
	}
}
