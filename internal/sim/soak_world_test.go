package sim_test

import (
	"math/rand/v2"
	"reflect"
	"testing"
	"time"

	"github.com/fettle-io/fettle/internal/core"
	"github.com/fettle-io/fettle/internal/sim"
)

// draw draws a random world.
type draw struct {
	dice *rand.Rand
	// n is the number of machines, of nodes, or of both.
	n int
	sim.Setup
	// changes are for all policies.
	changes []func(*core.Policy)
}

// some returns a number up to most.
func (d *draw) some(most int) int { return d.dice.IntN(most + 1) }

// rarely returns a number up to most, which is 0 in most worlds.
func (d *draw) rarely(most int) int {
	if d.dice.IntN(4) > 0 {
		return 0
	}
	return 1 + d.some(most-1)
}

// maybe returns true in one of so many worlds.
func (d *draw) maybe(of int) bool { return d.dice.IntN(of) == 0 }

// randomWorld returns a world of one or two kinds of health checks in which anything may happen.
func randomWorld(dice *rand.Rand) sim.Setup {
	d := &draw{dice: dice, n: 2 + dice.IntN(4)}
	d.faults()
	d.rareFaults()
	d.leaders()
	[]func(*draw){(*draw).machines, (*draw).nodes, (*draw).marks, (*draw).twoClusters, (*draw).twoAPIs}[dice.IntN(5)](d)
	if d.hidesRequests() {
		d.Unchecked = notStopped
	}
	return d.Setup
}

// hidesRequests reports whether a step may end before a cache shows its request. Another leader may have made it, or the process does not
// know of it.
func (d *draw) hidesRequests() bool {
	return d.Leaders > 1 || d.LostAnswers+d.CutOffs+d.Panics+d.Crashes+d.StaleLists > 0
}

// faults draws the faults that most worlds have.
func (d *draw) faults() {
	d.NotReady, d.Now, d.Ticks, d.Flaps, d.Vanishings = d.some(d.n), d.some(2), 10+d.some(20), d.some(20), d.some(3)
	d.Crashes, d.Refusals, d.LostAnswers, d.FailedCalls, d.Pauses = d.some(4), d.some(3), d.some(4), d.some(6), d.some(2)
	d.SteppedPasses, d.OnlySteppedPasses = d.some(12), d.maybe(8)
	d.Skips, d.CutOffs, d.Panics, d.Abandonments, d.MissedStatuses = d.rarely(3), d.rarely(3), d.rarely(2), d.rarely(2), d.rarely(3)
	d.Prunes, d.LastFirst = d.maybe(2), d.maybe(2)
	d.Removals, d.Deselections, d.LaggingPolicies, d.Edits = d.rarely(2), d.rarely(3), d.maybe(3), d.rarely(2)
	d.Reports = d.maybe(2)
	d.changes = []func(*core.Policy){inFlight(core.Count(1 + d.some(2))), maxUnhealthy(core.Percent(50 + 10*d.some(5)))}
	d.spare()
}

// spare takes the faults out of some worlds by which a process no longer sees a request. So the soak also checks that remediators are told to
// stop.
func (d *draw) spare() {
	if d.maybe(4) {
		d.Crashes, d.LostAnswers, d.CutOffs, d.Panics = 0, 0, 0, 0
	}
}

// rareFaults draws the faults that a few worlds have, of any dialect.
func (d *draw) rareFaults() {
	d.StaleLists, d.RecordDeletions, d.AheadNodes = d.rarely(2), d.rarely(2), d.rarely(3)
	if d.maybe(3) {
		d.AheadNodes = -d.AheadNodes
	}
	if d.NodeJumps = d.rarely(3); d.NodeJumps > 0 {
		d.NodeSkew = []int{3, 60, -3, -60}[d.some(3)]
	}
	d.QuorumSurvives, d.ControlPlane, d.QuorumChanges = core.Yes, min(d.n, d.rarely(3)), d.rarely(3)
	if d.Jumps = d.rarely(3); d.Jumps > 0 {
		d.Skew = []time.Duration{sim.Ticks(60), -sim.Ticks(60), 4 * time.Second, -4 * time.Second}[d.some(3)]
	}
	// Two clocks that are wrong alike can't be told from two that are right.
	if d.ServerJumps = d.rarely(3); d.Skew.Abs() > core.MaxSkew {
		d.ServerJumps = 0
	}
	if d.ServerJumps > 0 {
		d.ServerSkew = []int{60, -60}[d.some(1)]
	}
	if d.Leases = d.maybe(4); d.Leases {
		d.ForeignLeases = d.some(2)
		d.changes = append(d.changes, holder)
	}
	if d.maybe(6) {
		dice := d.dice
		d.Interpose = func(u *sim.Universe) { u.Disturb(dice) }
	}
}

// leaders draws how many lead.
func (d *draw) leaders() {
	if d.Vanishings == 0 && d.maybe(3) {
		// Two leaders may reuse the number of a deleted Repair when the ledger lags by more than the retention. Here that is
		// seconds, and a day by default.
		// Two may record the same repair anew whose entry a user has deleted.
		d.Leaders, d.Prunes, d.RecordDeletions, d.Apart = 2, false, 0, d.maybe(3)
	}
}

// machines draws machines that are deleted, or handed over.
func (d *draw) machines() {
	d.Machines, d.Failures, d.NeverGone = d.n, d.some(3), d.maybe(6)
	if d.maybe(4) {
		d.Starting = 1 + d.some(d.n-1)
		d.changes = append(d.changes, startup)
	}
	if d.maybe(4) {
		d.OutsideRepairs = d.some(4)
		d.changes = append(d.changes, withSteps(sim.HandOverStep()))
	}
	d.Policies = d.withDryRun(onePolicy(d.n, d.changes...))
}

// nodes draws nodes that remediators repair.
func (d *draw) nodes() {
	d.Nodes = d.n
	d.remediators()
	d.Policies = d.withDryRun(nodePolicy(d.n, append(d.changes, twoSteps)...))
}

// remediators draws what remediators and users do about requests.
func (d *draw) remediators() {
	d.RequestSuccesses, d.RequestFailures, d.RequestDeletions, d.RequestReplacements = d.some(8), d.some(4), d.rarely(2), d.rarely(2)
	d.Replacing, d.KeepsFinalizers = d.maybe(4), d.maybe(6)
	if d.Reports {
		d.Confirmations = d.rarely(3)
	}
}

// marks draws machines that their owners replace.
func (d *draw) marks() {
	d.Machines = d.n
	d.owners()
	d.Policies = d.withDryRun(markPolicy(d.n, d.changes[1]))
}

// owners draws what owners and users do about marks.
func (d *draw) owners() {
	d.OwnerReplacements, d.OwnerRefusals, d.OneByOne, d.MarkRemovals, d.UserMarks = d.some(6), d.some(3), d.maybe(2), d.rarely(2), d.rarely(2)
}

// twoClusters draws a cluster that is its own workload cluster.
func (d *draw) twoClusters() {
	d.Machines, d.Nodes = d.n, d.n
	d.remediators()
	d.owners()
	if d.HomeAway = d.maybe(4); d.HomeAway {
		d.Now = 13
	}
	selected := d.dice.Perm(d.n)[:1+d.some(d.n-1)]
	d.Policies = []core.Policy{nodePolicy(d.n, append(d.changes, twoSteps, named("nodes", selected...))...)}
	d.Workload = []core.Policy{markPolicy(d.n, d.changes[1])}
}

// twoAPIs draws machines and nodes of one cluster, by two APIs.
func (d *draw) twoAPIs() {
	d.Machines, d.Nodes, d.Failures = d.n, d.n, d.some(2)
	d.remediators()
	d.Policies = []core.Policy{nodePolicy(d.n, d.changes...), onePolicy(d.n, append(d.changes, younger)...)}
}

// withDryRun returns a policy, in some worlds with a dry run beside it.
func (d *draw) withDryRun(p core.Policy) []core.Policy {
	if !d.maybe(5) {
		return []core.Policy{p}
	}
	dry := p
	dry.ID.Name, dry.ID.UID, dry.DryRun = "dry-run", "dry-run", true
	if dry.Holder != "" {
		dry.Holder += "-dry-run"
	}
	return []core.Policy{dry, p}
}

// TestSoakHasEveryFault fails when a world knows a kind of fault that no random world has.
func TestSoakHasEveryFault(t *testing.T) {
	set := map[string]bool{"Faults": true} // these are planted in the engine
	for seed := range uint64(soaked) {
		world := reflect.ValueOf(randomWorld(rand.New(rand.NewPCG(seed, 15))))
		for i := range world.NumField() {
			name := world.Type().Field(i).Name
			set[name] = set[name] || !world.Field(i).IsZero()
		}
	}
	for field := range reflect.TypeFor[sim.Setup]().Fields() {
		if !set[field.Name] {
			t.Errorf("no random world sets %s", field.Name)
		}
	}
}
