package sim_test

import (
	"testing"
	"time"

	"github.com/fettle-io/fettle/internal/core"
	"github.com/fettle-io/fettle/internal/sim"
)

// clusterWorlds are small worlds of a management cluster that is its own workload cluster. Policies over its nodes ask
// remediators, and policies over the machines of the same nodes mark them for their owners.
func clusterWorlds() map[string]world {
	home, workload := []core.Policy{nodePolicy(2)}, []core.Policy{markPolicy(2, inFlight(core.Count(1)))}
	one, oneWorkload := []core.Policy{nodePolicy(1)}, []core.Policy{markPolicy(1)}
	some := []core.Policy{nodePolicy(2, named("some", 1))}
	dry := []core.Policy{nodePolicy(2, dryRun)}
	leasing := []core.Policy{nodePolicy(2, holder)}
	two := sim.Setup{Policies: home, Workload: workload, Machines: 2, Nodes: 2, NotReady: 2, Now: 2}
	with := func(s sim.Setup, change func(*sim.Setup)) sim.Setup { change(&s); return s }
	return map[string]world{
		"nodes that flap":       {with(two, func(s *sim.Setup) { s.Now, s.Ticks, s.Flaps, s.RequestSuccesses = 0, 2, 2, 1 }), 8},
		"one node in common":    {with(two, func(s *sim.Setup) { s.Policies, s.Flaps, s.Failures = some, 1, 1 }), 8},
		"leases":                {with(two, func(s *sim.Setup) { s.Policies, s.Leases, s.Flaps, s.RequestSuccesses = leasing, true, 1, 1 }), 8},
		"pauses":                {with(two, func(s *sim.Setup) { s.Pauses, s.Flaps, s.LaggingPolicies = 2, 1, true }), 8},
		"health checks deleted": {with(two, func(s *sim.Setup) { s.Removals, s.Flaps, s.OwnerReplacements = 2, 1, 1 }), 8},
		"a dry run":             {with(two, func(s *sim.Setup) { s.Policies, s.Flaps, s.OwnerReplacements = dry, 1, 1 }), 8},
		"nodes that register anew": {
			sim.Setup{Policies: one, Workload: oneWorkload, Machines: 1, Nodes: 1, NotReady: 1, Now: 2, Vanishings: 2, Flaps: 1}, 9,
		},
		"nodes that are not selected": {
			sim.Setup{Policies: one, Workload: oneWorkload, Machines: 1, Nodes: 1, NotReady: 1, Now: 2, Deselections: 2, Flaps: 1}, 9,
		},
		"crashes":     {sim.Setup{Policies: one, Workload: oneWorkload, Machines: 1, Nodes: 1, NotReady: 1, Now: 2, Crashes: 2, Pauses: 1}, 9},
		"two leaders": {sim.Setup{Policies: one, Workload: oneWorkload, Machines: 1, Nodes: 1, NotReady: 1, Now: 2, Pauses: 1, Leaders: 2}, 8},
		"unknown health checks": {
			sim.Setup{Policies: one, Workload: oneWorkload, Machines: 1, Nodes: 1, NotReady: 1, Now: 12, HomeAway: true, Ticks: 1, Flaps: 1, Crashes: 1}, 9,
		},
		"call by call": {with(two, func(s *sim.Setup) { s.Pauses, s.Flaps, s.SteppedPasses, s.OnlySteppedPasses = 2, 1, 4, true }), 12},
	}
}

// TestSmallWorldsOfTwoClusters explores every interleaving in each of these worlds too.
func TestSmallWorldsOfTwoClusters(t *testing.T) { explore(t, clusterWorlds()) }

// TestPlantedFaultsOfTwoClustersAreFound: the search finds what goes wrong where two clusters have the same nodes.
func TestPlantedFaultsOfTwoClustersAreFound(t *testing.T) {
	one := sim.Setup{Policies: []core.Policy{nodePolicy(1)}, Workload: []core.Policy{markPolicy(1)}, Machines: 1, Nodes: 1, NotReady: 1, Now: 2}
	two := sim.Setup{Policies: []core.Policy{nodePolicy(2)}, Workload: []core.Policy{markPolicy(2)}, Machines: 2, Nodes: 2, NotReady: 2, Now: 2}
	with := func(s sim.Setup, change func(*sim.Setup)) sim.Setup { change(&s); return s }
	const yields = "I3: two clusters"
	cases := map[string]planted{
		"a workload cluster that does not yield": {two, sim.Faults{NoYield: true}, yields, nil},
		"two repairs of one node":                {one, sim.Faults{NoYield: true}, "I2", []string{yields}},
		"a limit for each cluster":               {two, sim.Faults{NoYield: true}, "I3: m", []string{yields, "I2"}},
		"a lease that another cluster has": {
			with(one, func(s *sim.Setup) { s.Policies, s.Leases = []core.Policy{nodePolicy(1, holder)}, true }), sim.Faults{NoYield: true}, "I3: a step", []string{yields, "I2"},
		},
		"health checks unknown for long": {
			sim.Setup{Policies: one.Policies, Workload: one.Workload, Machines: 1, Nodes: 1, NotReady: 1, Now: 12, HomeAway: true}, sim.Faults{RashYield: true}, "I1", nil,
		},
		"unknown health checks taken for none": {with(one, func(s *sim.Setup) { s.Crashes = 1 }), sim.Faults{RashYield: true}, "I1", nil},
		"health checks resumed during a pass": {
			with(one, func(s *sim.Setup) { s.Pauses, s.SteppedPasses = 2, 1 }), sim.Faults{NoSecondYield: true}, yields, nil,
		},
		"marks that stand where others act": {
			with(one, func(s *sim.Setup) { s.Pauses, s.Flaps = 2, 1 }), sim.Faults{Decide: withoutWithdrawalsOnYield}, "I12: m", []string{"I8", "convergence"},
		},
	}
	for name, c := range cases {
		t.Run(name, c.isFound)
	}
}

// withoutWithdrawalsOnYield is a Decide by which a workload cluster that yields withdraws nothing.
func withoutWithdrawalsOnYield(policies []core.Policy, f core.Cluster, now time.Time) core.Decision {
	d := core.Decide(policies, f, now)
	if p := &policies[0]; p.Paused && p.ID.Kind == "MarkCheck" {
		d.Withdrawals = nil
	}
	return d
}
