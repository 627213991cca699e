package core_test

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/fettle-io/fettle/internal/core"
)

// retryOf returns the number of the retry with which a target is repaired, or is held back; -1
// without either. A given-up pool holds back its targets too.
func retryOf(d core.Decision, target int) int {
	for _, s := range d.Starts {
		if s.Target == target {
			return s.Retry
		}
	}
	for _, r := range d.Refusals {
		if r.Target == target && (r.Gate == core.BackingOff || r.Gate == core.PoolGivenUp) {
			return r.Have
		}
	}
	return -1
}

// TestHealthyTargetOutlivesRemoval: a healthy replacement ends a series of failures, even when an
// autoscaler removes it afterwards.
func TestHealthyTargetOutlivesRemoval(t *testing.T) {
	const first, again = 0, 8
	young := machine("young", created(ago(time.Minute)), failed(ago(time.Minute)))
	works := func(changes ...func(*core.Target)) *core.Target {
		m := machine("works", append([]func(*core.Target){created(ago(90 * time.Second))}, changes...)...)
		return &m
	}
	gone := (*core.Target)(nil)
	for name, c := range map[string]struct {
		passes []*core.Target // "works" in the passes before the last, and in that
		want   int
	}{
		"never well":                                 {[]*core.Target{works(awaited(ago(90 * time.Second))), gone}, again},
		"well, and there":                            {[]*core.Target{works()}, first},
		"well, and being deleted":                    {[]*core.Target{works(deleting)}, first},
		"well, and gone":                             {[]*core.Target{works(), gone}, first},
		"well, and gone for long":                    {[]*core.Target{works(), gone, gone, gone}, first},
		"well, and deleted, and its node goes first": {[]*core.Target{works(), works(deleting), works(nodeIs(core.NodeUnseen), deleting)}, first},
		"well, and deleted, and its node went first": {[]*core.Target{works(), works(deleting), works(nodeIs(core.NodeUnseen), deleting), gone}, first},
		"well until it was deleted":                  {[]*core.Target{works(), works(dead, deleting), gone}, first},
		"well, and failed, and gone":                 {[]*core.Target{works(), works(dead), gone}, again},
		"well, and failed":                           {[]*core.Target{works(), works(dead)}, again},
		"being deleted, and not well":                {[]*core.Target{works(dead, deleting)}, again},
		"well, out of sight, and back with a fault":  {[]*core.Target{works(), gone, works(dead)}, again},
		"well, and deleted at once":                  {[]*core.Target{works(), works(deleting), gone}, first},
	} {
		t.Run(name, func(t *testing.T) {
			var m core.Expectations
			var d core.Decision
			for _, other := range c.passes {
				targets := []core.Target{young}
				if other != nil {
					targets = append(targets, *other)
				}
				f := clusterOf(targets, past("a", ago(2*time.Minute), retry(again-1)))
				m.Overlay(&f, noon)
				d = core.Decide([]core.Policy{policy("p", all(len(targets)), maxInFlight(core.Unlimited()))}, f, noon)
				m.KeepHealthy(&f, &d)
			}
			if got := retryOf(d, 0); got != c.want {
				t.Errorf("retry %d, want %d; refusals %v", got, c.want, d.Refusals)
			}
		})
	}
}

// TestHealthyTargetIsForgotten: a healthy target is remembered while its owner has repairs.
func TestHealthyTargetIsForgotten(t *testing.T) {
	young := machine("young", created(ago(time.Minute)), failed(ago(time.Minute)))
	works := machine("works", created(ago(90*time.Second)))
	var m core.Expectations
	pass := func(repairs []core.Repair, targets ...core.Target) core.Decision {
		f := clusterOf(targets, repairs...)
		for _, r := range repairs {
			m.ExpectRepair(r, noon)
		}
		m.Overlay(&f, noon)
		d := core.Decide([]core.Policy{policy("p", all(len(targets)), maxInFlight(core.Unlimited()))}, f, noon)
		m.KeepHealthy(&f, &d)
		return d
	}
	before := []core.Repair{past("a", ago(2*time.Minute), retry(7))}
	pass(before, young, works)
	pass(before, young)
	m.ExpectRepairDeletion(before[0], noon)
	pass(nil)
	if got := retryOf(pass(before, young), 0); got != 8 {
		t.Errorf("retry %d, want 8: all repairs of the owner were gone meanwhile", got)
	}
}

// TestRemovedHealthyTargetIsNoFailure: a pool is not given up because of a target that is removed while it
// is healthy.
func TestRemovedHealthyTargetIsNoFailure(t *testing.T) {
	last := past("old", ago(time.Hour), retry(2))
	old := machine("sick", failed(ago(time.Minute))) // older than the last repair
	heir := machine("heir", created(ago(time.Hour-time.Second)), deleting)
	for name, c := range map[string]struct {
		heir core.Target
		want bool
	}{"well": {heir, false}, "not well": {machine("heir", created(ago(time.Hour-time.Second)), dead, deleting), true}} {
		d := core.Decide([]core.Policy{policy("p", all(2), threeTries, maxInFlight(core.Unlimited()))}, clusterOf([]core.Target{old, c.heir}, last), noon)
		given := false
		for _, r := range d.Refusals {
			given = given || r.Gate == core.PoolGivenUp
		}
		if given != c.want {
			t.Errorf("%s: given up %t, want %t; refusals %v", name, given, c.want, d.Refusals)
		}
	}
}

// TestYoungestHealthyTargets: of each owner with repairs the youngest healthy target is named, whatever
// their order. It counts after its removal too.
func TestYoungestHealthyTargets(t *testing.T) {
	others := core.ID{Kind: "MachineSet", Name: "others", UID: "others-uid"}
	young, old := machine("young", created(ago(time.Minute))), machine("old", created(ago(time.Hour)))
	last := past("gone", ago(2*time.Hour))
	for name, targets := range map[string][]core.Target{
		"the older first":   {old, young, machine("m", ownedBy(others))},
		"the younger first": {young, old, machine("m", ownedBy(others))},
	} {
		f := clusterOf(targets, last)
		d := core.Decide([]core.Policy{policy("p", all(3))}, f, noon)
		want := map[core.ID]core.HealthyTarget{pool: {Target: young.ID, Created: young.Created}}
		if diff := cmp.Diff(want, d.YoungestHealthy); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	for name, order := range map[string][]core.Target{"the older goes first": {old, young}, "the younger goes first": {young, old}} {
		var e core.Expectations
		for _, m := range order {
			f := clusterOf([]core.Target{m}, last)
			e.Overlay(&f, noon)
			d := core.Decide([]core.Policy{policy("p", []int{0})}, f, noon)
			e.KeepHealthy(&f, &d)
		}
		f := clusterOf(nil, last)
		e.Overlay(&f, noon)
		if !f.HealthyCreated[pool].Equal(young.Created) {
			t.Errorf("%s: the youngest was created at %s", name, f.HealthyCreated[pool])
		}
	}
}

// TestDryRunDoesNotResumeAPool: a target that a dry run finds unhealthy after hours is no sign that its
// pool can create such targets.
func TestDryRunDoesNotResumeAPool(t *testing.T) {
	heir := machine("heir", created(ago(time.Minute)), failed(ago(time.Minute)))
	ran := machine("ran", created(ago(9*time.Minute)), condition("DiskPressure", "True", ago(time.Minute)))
	ran.Node.Conditions[1].Since = ran.Created.Add(2 * time.Hour)
	strict := criteria(core.ConditionCriterion{Type: "DiskPressure", Status: "True"})
	now := noon.Add(3 * time.Hour)
	for name, c := range map[string]struct {
		change func(*core.Policy)
		given  bool
	}{"a dry run": {dryRun, true}, "an acting policy": {func(*core.Policy) {}, false}} {
		policies := []core.Policy{policy("p", []int{0}, threeTries), policy("q", []int{1}, strict, c.change)}
		d := core.Decide(policies, refreshed(clusterOf([]core.Target{heir, ran}, past("old", ago(10*time.Minute), retry(2))), now), now)
		if got := slices.Contains(refusedBy(d, 0), core.PoolGivenUp); got != c.given {
			t.Errorf("%s: the pool is given up: %t; refusals %v", name, got, d.Refusals)
		}
	}
}
