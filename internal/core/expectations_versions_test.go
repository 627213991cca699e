package core_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/fettle-io/fettle/internal/core"
)

// TestVersionsOfARepair: a repair was written or seen, and the cache shows another version next.
func TestVersionsOfARepair(t *testing.T) {
	n, p := aNode("n"), check("p", []int{0}, classic)
	version := func(revision uint64, changes ...func(*core.Repair)) core.Repair {
		return repair(n, p, append(changes, func(r *core.Repair) { r.Revision = revision })...)
	}
	answer := func(text string) func(*core.Repair) { return func(r *core.Repair) { r.Answer = text } }
	beside := func(r *core.Repair) { r.CreatedSameSecond = []string{"other"} }
	earlier, later := ago(time.Minute), ago(time.Second)
	healthy := requestFor(p, n, rebooting, func(q *core.Request) { q.TargetHealthy = true })
	for name, c := range map[string]struct {
		before func(e *core.Expectations)
		cached core.Repair
		want   core.Repair
	}{
		"targets of one second":       {func(e *core.Expectations) { e.ExpectRepair(version(1, beside), noon) }, version(2), version(2, beside)},
		"ended, and running again":    {func(e *core.Expectations) { e.ExpectRepair(version(1, ended(noon), attempts(2, noon)), noon) }, version(2), version(2)},
		"as many refused calls":       {func(e *core.Expectations) { e.ExpectRepair(version(1, attempts(2, earlier)), noon) }, version(2, attempts(2, later)), version(2, attempts(2, later))},
		"an answer that was written":  {func(e *core.Expectations) { e.ExpectRepair(version(0, answer("wait")), noon) }, version(0), version(0, answer("wait"))},
		"an answer that was shown":    {func(e *core.Expectations) { laid(e, noon, []core.Target{n}, version(0, answer("wait"))) }, version(0, answer("go")), version(0, answer("go"))},
		"a recovery in a new version": {func(e *core.Expectations) { e.ExpectRepair(version(1), noon); e.ExpectWithdrawal(healthy, noon) }, version(2, recovered(earlier)), version(2, recovered(earlier))},
		"a recovery in the version": {func(e *core.Expectations) {
			laid(e, noon, []core.Target{n}, version(1))
			e.ExpectWithdrawal(healthy, noon)
		}, version(1, recovered(earlier)), version(1, recovered(earlier))},
		"a recovery of before": {func(e *core.Expectations) {
			e.ExpectRepair(version(0, recovered(earlier)), noon)
			e.ExpectWithdrawal(healthy, noon)
		}, version(0), version(0, recovered(earlier))},
	} {
		var e core.Expectations
		c.before(&e)
		got := laid(&e, noon, []core.Target{n}, c.cached).Repairs[0]
		got.RecordedElsewhere = false
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// TestRepairThatWasShownIsLost: a repair that another client has written, and deleted, does not run.
func TestRepairThatWasShownIsLost(t *testing.T) {
	n, p := aNode("n"), check("p", []int{0}, classic)
	var e core.Expectations
	e.ExpectRepair(repair(n, p), noon)
	laid(&e, noon, []core.Target{n}, repair(n, p, func(r *core.Repair) { r.Revision = 2 }))
	if got := laid(&e, noon, []core.Target{n}).Repairs; len(got) != 1 || got[0].Outcome != core.Withdrawn {
		t.Errorf("the repairs are %+v", got)
	}
}

// TestRepairsOfTwoDeletedTargets: each of them goes on without its object.
func TestRepairsOfTwoDeletedTargets(t *testing.T) {
	x, y, p := machine("x"), machine("y"), policy("p", all(2))
	var e core.Expectations
	laid(&e, noon, []core.Target{x, y}, repair(x, p), repair(y, p))
	e.ExpectDeletion(x.ID)
	e.ExpectDeletion(y.ID)
	for _, r := range laid(&e, noon, []core.Target{x, y}).Repairs {
		if !r.Running() {
			t.Errorf("the repair of %s has ended as %s", r.Target, r.Outcome)
		}
	}
}

// TestDeletionHidesOneRepair: a repair without a revision is shown beside a deleted one.
func TestDeletionHidesOneRepair(t *testing.T) {
	n, p := aNode("n"), check("p", []int{0}, classic)
	done := repair(n, p, ended(ago(time.Hour)), func(r *core.Repair) { r.UID, r.Revision = "u", 5 })
	var e core.Expectations
	e.ExpectRepairDeletion(done, noon)
	if got := laid(&e, noon, []core.Target{n}, done, repair(n, p, number(2))).Repairs; len(got) != 1 || got[0].Name == done.Name {
		t.Errorf("the repairs are %v", got)
	}
}

// TestAbsenceMovesWithTheClock: a node is gone since the same moment after the clock was set.
func TestAbsenceMovesWithTheClock(t *testing.T) {
	present := time.Now() //nolint:forbidigo // only this carries a monotonic clock
	x := machine("x", nodeIs(core.NodeUnseen))
	var e core.Expectations
	e.KeepNodeGone(x.ID, x.Node.Name, present)
	if at := laid(&e, set(t, present, 60), []core.Target{x}).Targets[0].NodeGoneSince; !at.Round(0).Equal(present.Add(time.Minute).Round(0)) {
		t.Errorf("it is gone since %s, want %s", at, present.Add(time.Minute))
	}
}
