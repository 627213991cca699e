package pass_test

import (
	"slices"
	"testing"
	"time"

	"github.com/fettle-io/fettle/internal/core"
	"github.com/fettle-io/fettle/internal/pass"
)

// TestRepairsOfAnUnansweredCreationAreKept: the number in the name of a repair is one more than that of the target's
// last one. While the answer to a creation is missing, the last known repair is not deleted. Without it the number
// would be used again, beside the repair that was created.
func TestRepairsOfAnUnansweredCreationAreKept(t *testing.T) {
	w := newWorld()
	w.config.Retention = core.Retention{For: time.Hour, Max: 1000}
	w.policies = []core.Policy{policy("p", "ask")}
	for _, name := range []string{"a", "b"} {
		m := machine(name)
		m.Owner = core.ID{} // back-off would keep the repair of a machine of an owner

		w.targets = append(w.targets, m)
		w.stored = append(w.stored, core.Repair{
			Namespace: m.ID.Namespace, Name: core.RepairName(m.ID, 1), Target: m.ID, Node: m.Node.Name, Policy: w.policies[0].ID, Owner: m.Owner,
			Steps: w.policies[0].Steps, Started: noon.Add(-48 * time.Hour), Ended: noon.Add(-47 * time.Hour), Outcome: core.Withdrawn, Sequence: 1, Revision: 1,
		})
		w.policies[0].Members = append(w.policies[0].Members, len(w.targets)-1)
	}
	w.targets[0].Node = node("a", "False", noon.Add(-time.Hour))
	w.catchUp()
	w.fates["CreateRepair a"] = ending{granted: true}

	var created, deleted []string
	for range 3 {
		p := w.begins()
		for calls := p.Calls(); len(calls) > 0; calls = append(calls[1:], p.Calls()...) {
			c := calls[0]
			switch c.Kind { //nolint:exhaustive // the others don't matter
			case pass.CreateRepair:
				created = append(created, c.NewRepair.Name)
			case pass.DeleteRepair:
				deleted = append(deleted, c.Repair.Target.Name)
			}
			p.Done(c, w.answers(c))
		}
		w.now = w.now.Add(10 * time.Second)
	}
	if want := core.RepairName(w.targets[0].ID, 2); slices.ContainsFunc(created, func(name string) bool { return name != want }) || len(created) == 0 {
		t.Errorf("the repairs %q were created, want %s alone", created, want)
	}
	if want := []string{"b"}; !slices.Equal(deleted, want) {
		t.Errorf("the repairs of %q were deleted, want %q", deleted, want)
	}
}
