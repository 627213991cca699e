package sim_test

import (
	"slices"
	"testing"

	"github.com/fettle-io/fettle/internal/core"
	"github.com/fettle-io/fettle/internal/sim"
)

// plays takes steps one after the other. It fails when one can't be taken, or breaks a promise.
func plays(t *testing.T, u *sim.Universe, story ...sim.Step) *sim.Universe {
	t.Helper()
	for i, s := range story {
		if !slices.Contains(u.Steps(), s) {
			t.Fatalf("step %d can't be taken: %s", i+1, s)
		}
		if u = u.After(s); u.Complaint() != "" {
			t.Fatalf("step %d, %s: %s", i+1, s, u.Complaint())
		}
	}
	return u
}

// repeated returns a step several times.
func repeated(s sim.Step, times int) []sim.Step { return slices.Repeat([]sim.Step{s}, times) }

// leasedNodes is a world of nodes under a policy that holds leases. One of them is not Ready.
func leasedNodes(nodes, leaders int, change func(*sim.Setup)) *sim.Universe {
	s := sim.Setup{Policies: []core.Policy{nodePolicy(nodes, holder, inFlight(core.Count(nodes)))}, Nodes: nodes, Leaders: leaders, NotReady: 1, Now: 2, Leases: true, RequestSuccesses: 1}
	change(&s)
	return sim.New(s)
}

// TestLeaseOutlastsASlowPass: the answer to a request is lost, and a cache shows the request during a pass that takes
// long. The pass has read the caches before, and does not know of the request. The lease of the node stays.
func TestLeaseOutlastsASlowPass(t *testing.T) {
	u := leasedNodes(2, 1, func(s *sim.Setup) { s.LostAnswers, s.Flaps, s.Ticks, s.SteppedPasses = 1, 1, 6, 1 })
	u = plays(t, u, sim.Step{Kind: sim.LosingPass, Which: 2}, sim.Step{Kind: sim.SucceedRequest}, sim.Step{Kind: sim.Flap, Which: 1},
		sim.Step{Kind: sim.SeeNode}, sim.Step{Kind: sim.SeeNode, Which: 1})
	u = plays(t, u, repeated(sim.Step{Kind: sim.Tick}, 2)...)
	u = plays(t, u, sim.Step{Kind: sim.BeginPass}, sim.Step{Kind: sim.SeeRequests})
	u = plays(t, u, repeated(sim.Step{Kind: sim.Tick}, 4)...)
	for next := (sim.Step{Kind: sim.MakeCall}); slices.Contains(u.Steps(), next); {
		u = plays(t, u, next)
	}
	if complaint := u.Settle(); complaint != "" {
		t.Error(complaint)
	}
}

// TestLeaseOfALateStep: one leader records a repair. Another one takes its step more than a minute later, and the node
// recovers. The first leader ends the repair, and no cache has shown it the request. The lease of the node stays.
func TestLeaseOfALateStep(t *testing.T) {
	u := leasedNodes(1, 2, func(s *sim.Setup) { s.FailedCalls, s.Ticks = 1, 7 })
	u = plays(t, u, sim.Step{Kind: sim.FailingPass, Which: 5}, sim.Step{Kind: sim.SeeLedger}, sim.Step{Kind: sim.SeeLedger, Engine: 1})
	u = plays(t, u, repeated(sim.Step{Kind: sim.Tick}, 7)...)
	u = plays(t, u, sim.Step{Kind: sim.Pass, Engine: 1}, sim.Step{Kind: sim.SucceedRequest}, sim.Step{Kind: sim.SeeNode}, sim.Step{Kind: sim.Pass})
	if complaint := u.Settle(); complaint != "" {
		t.Error(complaint)
	}
}

// TestLeaseOfARepairOfAnotherLeader: one leader repairs a node and ends the repair. The answer to its request was lost.
// Another leader sees neither the repair nor the request for some seconds. The lease of the node stays.
func TestLeaseOfARepairOfAnotherLeader(t *testing.T) {
	u := leasedNodes(1, 2, func(s *sim.Setup) { s.LostAnswers, s.Ticks = 1, 5 })
	u = plays(t, u, sim.Step{Kind: sim.LosingPass, Which: 2}, sim.Step{Kind: sim.SucceedRequest}, sim.Step{Kind: sim.SeeNode},
		sim.Step{Kind: sim.Pass}, sim.Step{Kind: sim.SeeNode, Engine: 1})
	u = plays(t, u, repeated(sim.Step{Kind: sim.Tick}, 5)...)
	u = plays(t, u, sim.Step{Kind: sim.Pass, Engine: 1})
	if complaint := u.Settle(); complaint != "" {
		t.Error(complaint)
	}
}

// TestLeaseThatAnotherLeaderRenewsDuringAPass: one leader records a repair, and its pass that ends the repair begins. Then
// another leader renews the lease and takes the step. The lease of the node stays, though the pass does not know of both.
func TestLeaseThatAnotherLeaderRenewsDuringAPass(t *testing.T) {
	u := leasedNodes(1, 2, func(s *sim.Setup) { s.FailedCalls, s.Ticks, s.Flaps, s.SteppedPasses = 1, 7, 1, 2 })
	u = plays(t, u, sim.Step{Kind: sim.FailingPass, Which: 5}, sim.Step{Kind: sim.SeeLedger}, sim.Step{Kind: sim.SeeLedger, Engine: 1})
	u = plays(t, u, repeated(sim.Step{Kind: sim.Tick}, 7)...)
	u = plays(t, u, sim.Step{Kind: sim.BeginPass, Engine: 1}, sim.Step{Kind: sim.MakeCall, Engine: 1}, sim.Step{Kind: sim.Flap}, sim.Step{Kind: sim.SeeNode},
		sim.Step{Kind: sim.BeginPass})
	for _, engine := range []int{1, 0} {
		for next := (sim.Step{Kind: sim.MakeCall, Engine: engine}); slices.Contains(u.Steps(), next); {
			u = plays(t, u, next)
		}
	}
	if complaint := u.Settle(); complaint != "" {
		t.Error(complaint)
	}
}
