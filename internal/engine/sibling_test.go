package engine_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fettle-io/fettle/internal/core"
)

// TestSiblingThatIsNoTarget: a request names the machine of a node, though the machine is no
// target. While the machine is unknown, no request is made.
func TestSiblingThatIsNoTarget(t *testing.T) {
	c := newStepFixture(t, target("Node", "n", dead))
	known := false
	machine := core.ID{Kind: "Machine", Namespace: "machines", Name: "m", UID: "m-uid"}
	c.Siblings = func(t core.Target) (core.ID, bool) {
		if t.ID.Name != "n" || !known {
			return core.ID{}, false
		}
		return machine, true
	}
	did, _, err := c.tryPass()
	if err == nil || !strings.Contains(err.Error(), "machines of this cluster are being read") || len(c.requester.remedyCalls) > 0 {
		t.Fatalf("the owner of the request is unknown, yet the request is made: %+v, %v", c.requester.remedyCalls, err)
	}
	if slices.ContainsFunc(did, func(line string) bool { return strings.HasPrefix(line, "hold ") }) {
		t.Errorf("nothing can be asked for, and the engine does %q", did)
	}
	known = true
	c.syncCaches()
	c.pass()
	if len(c.requester.remedyCalls) != 1 || c.requester.remedyCalls[0].Sibling != machine {
		t.Errorf("the orders are %+v, want one with sibling %v", c.requester.remedyCalls, machine)
	}
}

// TestEventsAfterARepair: an event about a target without a running repair names its last
// repair. So the event of a second failure differs from the first.
func TestEventsAfterARepair(t *testing.T) {
	c := newStepFixture(t, target("Node", "n", dead, func(t *core.Target) { t.Node.Excluded = true }))
	last := running(target("Node", "n"), func(r *core.Repair) { r.Ended, r.Outcome = ago(2*time.Hour), core.Succeeded })
	c.ledger.has(last)
	c.pass()
	held := 0
	for _, h := range c.nodes.events {
		if h.Kind == core.EventHeldBack {
			held++
			if want := (core.RepairKey{Namespace: last.Namespace, Name: last.Name}); h.Repair != want || h.Step != 0 {
				t.Errorf("it names repair %v and step %d, want %v and none", h.Repair, h.Step, want)
			}
		}
	}
	if held != 1 {
		t.Errorf("it is told %d times that a gate holds the target: %+v", held, c.nodes.events)
	}
}

// TestEventsOfARepair: an event of a repair names it and its step.
func TestEventsOfARepair(t *testing.T) {
	c := newStepFixture(t, target("Node", "n", dead))
	c.pass()
	c.syncCaches()
	repairs := c.ledger.of("n")
	if len(repairs) != 1 {
		t.Fatalf("the repairs are %+v", repairs)
	}
	want := core.RepairKey{Namespace: repairs[0].Namespace, Name: repairs[0].Name}
	begun := 0
	for _, h := range c.nodes.events {
		if h.Kind == core.EventStarted {
			begun++
			if h.Repair != want || h.Step != 1 {
				t.Errorf("it names repair %v and step %d, want %v and 1", h.Repair, h.Step, want)
			}
		}
	}
	if begun != 1 {
		t.Errorf("%d repairs were told to begin, want 1", begun)
	}
}
