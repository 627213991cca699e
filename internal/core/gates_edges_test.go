package core_test

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/fettle-io/fettle/internal/core"
)

// TestClockGates: the reasons of the clock are told from all others.
func TestClockGates(t *testing.T) {
	for reason, want := range map[string]core.Gate{
		core.ClockSkewed.String(): core.ClockSkewed, core.ClockUnknown.String(): core.ClockUnknown, core.PolicyPaused.String(): 0, "": 0,
	} {
		if got := core.GateOfClock(reason); got != want || core.IsOfClock(reason) != (want != 0) {
			t.Errorf("%q names gate %s, and is of the clock: %t", reason, got, core.IsOfClock(reason))
		}
	}
}

// TestClockOfAnUnobservedCluster: the clock is not reported as the cause where nothing is observed.
func TestClockOfAnUnobservedCluster(t *testing.T) {
	policies := []core.Policy{policy("p", []int{0})}
	for observed, want := range map[core.Tri]core.Gate{core.Yes: core.ClockSkewed, core.Unknown: 0} {
		f := clusterOf([]core.Target{machine("m")})
		f.Observed, f.ClockAgrees = observed, core.No
		d := core.Decide(policies, f, noon)
		if got := d.Reports(policies, &f)[0].Clock; got != want {
			t.Errorf("observed %s: the gate of the clock is %s, want %s", observed, got, want)
		}
	}
}

// TestShortCircuitNamesGoneTargets: only while they count.
func TestShortCircuitNamesGoneTargets(t *testing.T) {
	p := policy("p", nil)
	for number, want := range map[int]string{0: "", 1: "node a is gone"} {
		if r, held := core.PolicyRefusal(&p, core.Tally{AwaitingReplacement: number, Waits: "node a is gone"}); !held || r.Detail != want {
			t.Errorf("with %d targets gone the refusal is %+v", number, r)
		}
	}
}

// TestDryRunHeedsLeases: a dry run reports the lease that would hold its repair back.
func TestDryRunHeedsLeases(t *testing.T) {
	leased := aNode("n", dead, func(t *core.Target) { t.Lease = core.Lease{Holder: "maintenance", Until: noon.Add(time.Hour)} })
	p := check("p", []int{0}, classic, dryRun, func(p *core.Policy) { p.Holder = "p" })
	d := core.Decide([]core.Policy{p}, clusterOf([]core.Target{leased}), noon)
	if len(d.DryRunStarts) > 0 || len(d.Refusals) != 1 || d.Refusals[0].Gate != core.LeaseHeld {
		t.Errorf("it would start %v, refusals %v", d.DryRunStarts, d.Refusals)
	}
}

// TestFirstFailureBesideARepairInTheFuture: a repair that a clock ahead has written pauses no first
// failure.
func TestFirstFailureBesideARepairInTheFuture(t *testing.T) {
	sick := machine("m", dead)
	d := core.Decide([]core.Policy{policy("p", []int{0})}, clusterOf([]core.Target{sick}, past("a", noon.Add(time.Hour))), noon)
	if !slices.Equal(begun(d), []int{0}) {
		t.Errorf("refused by %v", refusedBy(d, 0))
	}
}

// TestGivenUpAfterOne: a policy may give up after the first repair. Its refusal and its report say how
// many failed, and name the pool or the target.
func TestGivenUpAfterOne(t *testing.T) {
	once := func(p *core.Policy) { p.Backoff = core.Backoff{Base: time.Second, Limit: time.Second, GiveUpAfter: 1} }
	young := machine("young", created(ago(time.Minute)), failed(ago(time.Minute)))
	other := machine("other", created(ago(time.Minute)), failed(ago(time.Minute)))
	n := aNode("n", ready("False", ago(30*time.Minute)))
	for name, c := range map[string]struct {
		policy  core.Policy
		targets []core.Target
		repair  core.Repair
		have    int
		self    bool
		given   core.ID
	}{
		"a pool":             {policy("p", all(2), once), []core.Target{young, other}, past("old", ago(2*time.Minute)), 1, false, pool},
		"a pool, later":      {policy("p", all(2), once), []core.Target{young, other}, past("old", ago(2*time.Minute), retry(4)), 5, false, pool},
		"a target of itself": {check("p", []int{0}, needsNoOwner, once), []core.Target{n}, repair(n, policy("p", nil, needsNoOwner), started(ago(time.Hour)), ended(ago(50*time.Minute))), 1, true, n.ID},
		"a target, later":    {check("p", []int{0}, needsNoOwner, once), []core.Target{n}, repair(n, policy("p", nil, needsNoOwner), started(ago(time.Hour)), ended(ago(50*time.Minute)), retry(2)), 3, true, n.ID},
	} {
		f := clusterOf(c.targets, c.repair)
		d := core.Decide([]core.Policy{c.policy}, f, noon)
		if len(d.Refusals) != len(c.targets) || d.Refusals[0].Gate != core.PoolGivenUp || d.Refusals[0].Have != c.have || d.Refusals[0].Relapsed != c.self {
			t.Errorf("%s: refusals %+v", name, d.Refusals)
		}
		if diff := cmp.Diff([]core.ID{c.given}, d.Reports([]core.Policy{c.policy}, &f)[0].GivenUp); diff != "" {
			t.Errorf("%s: given up (-want +got):\n%s", name, diff)
		}
		dry := c.policy
		dry.DryRun = true
		if d = core.Decide([]core.Policy{dry}, f, noon); len(d.Reports([]core.Policy{dry}, &f)[0].GivenUp) > 0 {
			t.Errorf("%s: a dry run gives up", name)
		}
	}
	f := clusterOf([]core.Target{machine("m", dead, ownedBy(core.ID{}))})
	p := []core.Policy{policy("p", []int{0})}
	d := core.Decide(p, f, noon)
	if given := d.Reports(p, &f)[0].GivenUp; len(d.Refusals) != 1 || len(given) > 0 {
		t.Errorf("a target without an owner is refused as %v, and %v is given up", d.Refusals, given)
	}
}

// TestDryRunResumesItself: a dry run that is resumed reports a first repair.
func TestDryRunResumesItself(t *testing.T) {
	young := machine("young", created(ago(time.Minute)), failed(ago(time.Minute)))
	for at, want := range map[time.Duration]int{time.Minute: 0, time.Hour: 2} {
		p := policy("p", []int{0}, dryRun, resumedAt(ago(at)))
		p.Backoff.GiveUpAfter, p.Backoff.Base = 9, 0
		d := core.Decide([]core.Policy{p}, clusterOf([]core.Target{young}, past("old", ago(2*time.Minute), retry(1))), noon)
		if len(d.DryRunStarts) != 1 || d.DryRunStarts[0].Retry != want {
			t.Errorf("resumed %s ago it would start %+v, want retry %d; refusals %v", at, d.DryRunStarts, want, d.Refusals)
		}
	}
}

// TestRanForAnHour: a target that ran for an hour before it failed shows that its pool is sound.
func TestRanForAnHour(t *testing.T) {
	last := past("old", ago(10*time.Hour), retry(2))
	for name, c := range map[string]struct {
		target core.Target
		policy core.Policy
		given  bool
	}{
		"an hour":              {machine("m", created(ago(9*time.Hour)), ready("False", ago(8*time.Hour))), policy("p", []int{0}, threeTries), false},
		"less than an hour":    {machine("m", created(ago(9*time.Hour)), ready("False", ago(8*time.Hour+time.Second))), policy("p", []int{0}, threeTries), true},
		"marked after an hour": {machine("m", created(ago(9*time.Hour)), ready("False", ago(8*time.Hour)), marked), policy("p", []int{0}, threeTries), false},
		"marked too early": {machine("m", created(ago(9*time.Hour)), marked, func(t *core.Target) { t.Premature = "it is being prepared" }),
			policy("p", []int{0}, threeTries), true},
	} {
		d := core.Decide([]core.Policy{c.policy}, clusterOf([]core.Target{c.target}, last), noon)
		if got := slices.Contains(refusedBy(d, 0), core.PoolGivenUp); got != c.given {
			t.Errorf("%s: the pool is given up: %t; refusals %v", name, got, d.Refusals)
		}
	}
}
