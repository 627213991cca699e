package pass_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/fettle-io/fettle/internal/core"
	"github.com/fettle-io/fettle/internal/pass"
)

// decides has all passes of a world decide the same.
func (w *world) decides(d core.Decision) {
	w.config.Decide = func(policies []core.Policy, _ core.Cluster, _ time.Time) core.Decision {
		d.Tallies = make([]core.Tally, len(policies))
		return d
	}
}

// worldOf returns a world with a policy and machines that are well.
func worldOf(t *testing.T, machines ...string) *world {
	t.Helper()
	w := newWorld()
	if err := w.addPolicy("workers", "ask", []string{"holder=fettle"}); err != nil {
		t.Fatal(err)
	}
	for _, name := range machines {
		if err := w.addMachine(name, nil); err != nil {
			t.Fatal(err)
		}
	}
	return w
}

// repairOf stores a running repair of a machine, which the caches show.
func (w *world) repairOf(name string) *core.Repair {
	w.create(&core.NewRepair{Name: name + "-repair", Target: machine(name), Policy: w.policies[0], Steps: w.policies[0].Steps, Started: w.now.Add(-time.Hour)})
	w.cached = slices.Clone(w.stored)
	return &w.cached[len(w.cached)-1]
}

// request adds a request about a machine.
func (w *world) request(name, target string) {
	w.requests = append(w.requests, core.Request{ID: id("Request", name), Remedy: "ask", Target: id("Machine", target), Policy: w.policies[0].ID, Own: true})
}

// only returns the calls of one kind in a pass.
func only(rec *record, kind string) []string {
	return slices.DeleteFunc(slices.Clone(rec.calls), func(c string) bool { return len(c) < len(kind) || c[:len(kind)] != kind })
}

func equal(t *testing.T, what string, got, want any) {
	t.Helper()
	if g, w := fmt.Sprintf("%v", got), fmt.Sprintf("%v", want); g != w {
		t.Errorf("%s: got %s, want %s", what, g, w)
	}
}

// TestNamesOfCallsAndStages: each kind of call and each stage has a name of its own, and no other number has one.
func TestNamesOfCallsAndStages(t *testing.T) {
	names := map[string]int{}
	for k := pass.Kind(-2); k < 30; k++ {
		names[k.String()]++
	}
	for s := pass.Stage(-2); s < 30; s++ {
		names[s.String()]++
	}
	for name, n := range names {
		if name != "Unnamed" && name != "none" && n != 1 {
			t.Errorf("%q is the name of %d", name, n)
		}
	}
	equal(t, "names", len(names), 18+17+2)
	equal(t, "kinds without a name", names["Unnamed"], 32-18)
	equal(t, "stages without a name", names["none"], 32-17)
	if names[""] > 0 {
		t.Error("a name is empty")
	}
}

// TestNamesakesLease: the lease of a repair whose target is gone is released, unless another repair holds it for a namesake.
func TestNamesakesLease(t *testing.T) {
	for name, c := range map[string]struct {
		node  string
		other func(w *world, d *core.Decision)
		want  []string
	}{
		"no other repair": {node: "a-node", other: func(*world, *core.Decision) {}, want: []string{"ReleaseLease a-node"}},
		"another runs": {node: "a-node", want: []string{}, other: func(w *world, _ *core.Decision) {
			w.repairOf("b").Node = "a-node"
		}},
		"another has ended": {node: "a-node", want: []string{"ReleaseLease a-node"}, other: func(w *world, _ *core.Decision) {
			r := w.repairOf("b")
			r.Node, r.Ended = "a-node", w.now
		}},
		"another ends": {node: "a-node", want: []string{"ReleaseLease a-node"}, other: func(w *world, d *core.Decision) {
			w.repairOf("b").Node = "a-node"
			d.Finishes = append(d.Finishes, core.Finish{Repair: 1, Outcome: core.Succeeded, RecordOnly: true})
		}},
		"another starts": {node: "b-node", want: []string{}, other: func(_ *world, d *core.Decision) {
			d.Starts = append(d.Starts, core.Start{Target: 0, Name: "b-1"})
		}},
		"another of another node": {node: "a-node", want: []string{"ReleaseLease a-node"}, other: func(w *world, _ *core.Decision) { w.repairOf("b") }},
		"no node":                 {want: []string{}, other: func(*world, *core.Decision) {}},
	} {
		t.Run(name, func(t *testing.T) {
			w := worldOf(t, "b")
			w.repairOf("a").Node = c.node
			d := core.Decision{Finishes: []core.Finish{{Repair: 0, Outcome: core.Succeeded}}}
			c.other(w, &d)
			w.decides(d)
			equal(t, "releases", only(w.runs(-1, ending{}), "ReleaseLease"), c.want)
		})
	}
}

// TestOrphanedLease: the lease of a node without a repair is released. A machine in repair that has the name of the node does not keep it.
func TestOrphanedLease(t *testing.T) {
	for name, c := range map[string]struct {
		kind, target, node string
		want               []string
	}{
		"another machine runs":         {"Machine", "a", "a-node", []string{"ReleaseLease other"}},
		"a machine of the node":        {"Machine", "a", "other", []string{}},
		"a machine called as the node": {"Machine", "other", "a-node", []string{"ReleaseLease other"}},
		"the node":                     {"Node", "other", "", []string{}},
		"another node":                 {"Node", "a", "", []string{"ReleaseLease other"}},
	} {
		t.Run(name, func(t *testing.T) {
			w := worldOf(t, "b")
			w.create(&core.NewRepair{
				Name: "running", Target: core.Target{ID: id(c.kind, c.target), Node: core.Node{Name: c.node}}, Policy: w.policies[0], Steps: w.policies[0].Steps, Started: w.now.Add(-time.Hour),
			})
			w.decides(core.Decision{LeaseReleases: []core.NodeLease{{Node: "other", Holder: "fettle"}}})
			equal(t, "releases", only(w.runs(-1, ending{}), "ReleaseLease"), c.want)
		})
	}
}

// TestLeaseOfTheNodeByNow: the lease of the node that the target names by now is released.
func TestLeaseOfTheNodeByNow(t *testing.T) {
	w := worldOf(t, "a")
	w.repairOf("a").Node = "former-node"
	w.decides(core.Decision{Finishes: []core.Finish{{Repair: 0, Outcome: core.Succeeded}}})
	equal(t, "releases", only(w.runs(-1, ending{}), "ReleaseLease"), []string{"ReleaseLease a-node"})
	w = worldOf(t, "a")
	w.repairOf("a")
	w.targets[0].Node = core.Node{State: core.NodeAwaited}
	w.decides(core.Decision{Finishes: []core.Finish{{Repair: 0, Outcome: core.Succeeded}}})
	equal(t, "releases of a machine without a node", only(w.runs(-1, ending{}), "ReleaseLease"), []string{"ReleaseLease a-node"})
}

// TestMostDeletions: one pass deletes a hundred finished repairs at most, and another follows soon for the rest.
func TestMostDeletions(t *testing.T) {
	for stored, want := range map[int]string{100: "100 never", 101: "100 in 1s"} {
		w := worldOf(t, "a")
		w.finished(stored, "a")
		w.config.Retention = core.Retention{For: time.Hour, Max: 1000}
		rec := w.runs(-1, ending{})
		equal(t, fmt.Sprint(stored, " finished repairs"), fmt.Sprint(len(only(rec, "DeleteRepair")), " ", rec.next), want)
	}
}

// TestEndsComeLast: no repair ends before the other calls of the pass are answered.
func TestEndsComeLast(t *testing.T) {
	w := worldOf(t, "a", "b", "c")
	w.repairOf("a")
	w.repairOf("b")
	w.request("a-request", "a")
	w.targets[1].Node = node("b", "False", w.now.Add(-4*time.Minute-30*time.Second))
	w.now = w.now.Add(0)
	d := core.Decision{
		Finishes: []core.Finish{{Repair: 0, Outcome: core.Succeeded}}, Withdrawals: []core.Withdrawal{{Request: 0, Policy: -1, Target: -1}},
		Notes: []core.Note{{Repair: 1, Answer: "not yet"}}, LeaseHolds: []core.LeaseHold{{Target: 1, Holder: "fettle", For: time.Minute}},
		LeaseReleases: []core.NodeLease{{Node: "other", Holder: "fettle"}},
		Starts:        []core.Start{{Target: 2, Name: "c-1", Steps: w.policies[0].Steps}},
		Verdicts:      []core.Verdict{{Target: 1, Health: core.Suspect, Until: w.now.Add(time.Second)}},
		Confirm:       nil, NextAt: w.now.Add(time.Second),
	}
	held := map[string]bool{}
	for _, stage := range []pass.Stage{
		pass.Withdrawing, pass.UpdatingRepairs, pass.RenewingLeases, pass.ReleasingLeases, pass.WritingConditions, pass.ReadingAhead, pass.StartingRemedies,
	} {
		w.config.Decide = func(policies []core.Policy, _ core.Cluster, now time.Time) core.Decision {
			ahead := d
			ahead.Tallies = make([]core.Tally, len(policies))
			if now.After(noon) {
				ahead.Confirm = []int{1}
			}
			return ahead
		}
		twin := w.clone()
		p := twin.begins()
		var waiting []pass.Call
		for calls := p.Calls(); len(calls) > 0; calls = append(calls[1:], p.Calls()...) {
			c := calls[0]
			switch c.Stage { //nolint:exhaustive // the others are answered
			case pass.EndingRepairs:
				t.Errorf("%s before %s was answered", callName(c), callName(waiting[0]))
			case stage:
				waiting = append(waiting, c)
				continue
			}
			p.Done(c, twin.answers(c))
		}
		held[stage.String()] = len(waiting) > 0
		for calls := waiting; len(calls) > 0; calls = append(calls[1:], p.Calls()...) {
			if p.Over() {
				t.Error("the pass is over before its calls are answered")
			}
			p.Done(calls[0], twin.answers(calls[0]))
		}
		if !p.Over() {
			t.Error("the pass is not over")
		}
	}
	for stage, some := range held {
		if !some {
			t.Errorf("there was no call to %s", stage)
		}
	}
}

// TestFirstCalls: the first calls of each task are marked, also when its stage opens again.
func TestFirstCalls(t *testing.T) {
	for _, most := range []core.Amount{core.Unlimited(), core.Count(2)} {
		w := worldOf(t, "a", "b")
		w.config.Siblings, w.policies[0].MaxInFlight = true, most
		for i := range w.targets {
			w.targets[i].Node = node(w.targets[i].ID.Name, "False", noon.Add(-time.Hour))
		}
		p := w.begins()
		begun := map[string]bool{}
		for batch := p.Calls(); len(batch) > 0; batch = p.Calls() {
			for _, c := range batch {
				task := fmt.Sprint(c.Stage, c.Task)
				equal(t, "first of "+task+" with "+callName(c), c.First, !begun[task])
				begun[task] = true
			}
			for _, c := range batch {
				p.Done(c, w.answers(c))
			}
		}
	}
}

// TestRoundsOfReads: a pass reads live and decides anew three times at most. Another follows soon when that was not enough.
func TestRoundsOfReads(t *testing.T) {
	for targets, want := range map[int]string{2: "2 never", 3: "3 never", 4: "3 in 1s"} {
		var names []string
		for i := range targets {
			names = append(names, fmt.Sprint("m", i))
		}
		w := worldOf(t, names...)
		round := -1
		w.config.Decide = func(policies []core.Policy, _ core.Cluster, _ time.Time) core.Decision {
			round++
			d := core.Decision{Tallies: make([]core.Tally, len(policies))}
			for i := range min(round+1, targets) {
				d.Confirm = append(d.Confirm, i)
			}
			return d
		}
		rec := w.runs(-1, ending{})
		equal(t, fmt.Sprint(targets, " targets"), fmt.Sprint(len(only(rec, "ReadNode")), " ", rec.next), want)
	}
}

// TestDeciding: a pass is deciding until it has read what it needs.
func TestDeciding(t *testing.T) {
	w := worldOf(t, "a")
	w.targets[0].Node = node("a", "False", noon.Add(-time.Hour))
	p := w.begins()
	equal(t, "deciding before the read", p.Deciding(), true)
	p.Done(p.Calls()[0], pass.Result{Clock: w.clock(), Began: w.now, Node: w.targets[0].Node})
	equal(t, "deciding after the read", p.Deciding(), false)
}

// TestBlockedPassDecidesNothing: nothing is decided about a cluster that was not observed.
func TestBlockedPassDecidesNothing(t *testing.T) {
	w := worldOf(t, "a")
	w.observed = core.Unknown
	w.config.Decide = func([]core.Policy, core.Cluster, time.Time) core.Decision {
		t.Error("a decision is made")
		return core.Decision{}
	}
	w.runs(-1, ending{})
}

// TestKindsThatAreNotObserved: repairs and requests of a kind that no dialect observes are left out, also expected ones.
func TestKindsThatAreNotObserved(t *testing.T) {
	w := worldOf(t, "a")
	w.repairOf("a")
	w.request("r", "a")
	w.repairOf("b").Target.Kind = "Unobserved"
	w.request("s", "b")
	w.requests[1].Target.Kind = "Unobserved"
	p := w.begins()
	equal(t, "repairs", len(p.Cluster().Repairs), 1)
	equal(t, "requests", len(p.Cluster().Requests), 1)
}
