package core_test

import (
	"testing"
	"time"

	"github.com/fettle-io/fettle/internal/core"
)

// TestRelateRepairs: an event without a repair gets the last repair of its target, in whatever order the
// ledger has them (I7).
func TestRelateRepairs(t *testing.T) {
	p := check("p", []int{0}, classic)
	sick := aNode("n", dead)
	past := func(name string, at time.Duration) core.Repair {
		r := repair(sick, p, started(ago(at)), ended(ago(at)))
		r.Namespace, r.Name = "home", name
		return r
	}
	first, last := past("n-1", 2*time.Hour), past("n-2", time.Hour)
	other := core.RepairKey{Namespace: "home", Name: "n-7"}
	for name, repairs := range map[string][]core.Repair{"rising": {first, last}, "falling": {last, first}} {
		events := []core.Event{
			{Kind: core.EventHeldBack, Target: sick.ID},
			{Kind: core.EventHeldBack, Targets: []core.ID{sick.ID, aNode("m").ID}},
			{Kind: core.EventStarted, Target: sick.ID, Repair: other},
			{Kind: core.EventHeldBack, Target: aNode("m").ID},
			{Kind: core.EventShortCircuited},
		}
		core.RelateRepairs(events, repairs)
		newest := core.RepairKey{Namespace: "home", Name: "n-2"}
		for i, want := range []core.RepairKey{newest, newest, other, {}, {}} {
			if got := events[i].Repair; got != want {
				t.Errorf("%s: event %d relates to %v, want %v", name, i, got, want)
			}
		}
	}
}

// TestEventKindNames: each kind has a name of its own.
func TestEventKindNames(t *testing.T) {
	want := map[core.EventKind]string{
		core.EventSuspected: "suspected", core.EventUnreadable: "unreadable", core.EventShortCircuited: "restricted",
		core.EventMisconfigured: "misconfigured", core.EventHeldBack: "held", core.EventStarted: "begun", core.EventRefused: "refused",
		core.EventDryRun: "dry run", core.EventEscalated: "escalated", core.EventWithdrawn: "relieved", core.EventStuck: "lingering",
		0: "unnamed",
	}
	for kind, name := range want {
		if got := kind.String(); got != name {
			t.Errorf("kind %d has the name %s, want %s", int(kind), got, name)
		}
	}
}

// TestRelateRepairsOfOne: an event about one of several targets, and none about a policy, gets a repair.
func TestRelateRepairsOfOne(t *testing.T) {
	n := aNode("n", dead)
	r := repair(n, check("p", nil, classic))
	nameless := r
	nameless.Target.UID = ""
	events := []core.Event{{Targets: []core.ID{n.ID}}, {}}
	core.RelateRepairs(events, []core.Repair{nameless, r})
	if want := (core.RepairKey{Namespace: r.Namespace, Name: r.Name}); events[0].Repair != want || events[1].Repair != (core.RepairKey{}) {
		t.Errorf("the repairs are %v and %v", events[0].Repair, events[1].Repair)
	}
}
