package pass_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/fettle-io/fettle/internal/core"
	"github.com/fettle-io/fettle/internal/pass"
)

// checker checks each call that is granted against what has reached the pass before it.
type checker struct {
	*world

	t *rapid.T
	// read and polled have when the node and the quorum of a target were read, and stands when a policy was. Each read
	// was in this pass, with an answer that justifies a repair.
	read, polled, stands map[string]time.Time
	// written are the policies whose status was written in this pass.
	written map[string]bool
	// answered is set once the write of statuses was answered in this pass, in whatever way.
	answered bool
	// created counts the repairs that were recorded in this pass, and listed how many there were when the running ones were
	// listed.
	created, listed int
	// clocks are what the clock has shown last before each remedy, by its task.
	clocks map[int]pass.ClockReading
	// called are the targets whose remedy was called in this pass. Started are those for which it was accepted since the process began.
	called, started map[string]bool
	// tried are the targets whose nodes were read in this pass.
	tried map[string]bool
	// ever are the targets whose remedy was ever granted, and theirs the repairs that another leader has recorded.
	ever, theirs map[string]bool
}

func (w *checker) begins() *pass.Pass {
	w.read, w.polled, w.stands = map[string]time.Time{}, map[string]time.Time{}, map[string]time.Time{}
	w.written, w.created, w.listed, w.called, w.clocks = map[string]bool{}, 0, -1, map[string]bool{}, map[int]pass.ClockReading{}
	w.tried, w.answered = map[string]bool{}, false
	return w.world.begins()
}

// restarts is a crash. The caches of the new process are in step.
func (w *checker) restarts() {
	w.state, w.started = &pass.State{}, map[string]bool{}
	w.catchUp()
}

// heard takes in an answer that has reached the pass.
func (w *checker) heard(c pass.Call, r *pass.Result) {
	w.answered = w.answered || c.Kind == pass.WriteStatuses
	if r.Err != nil {
		return
	}
	switch c.Kind { //nolint:exhaustive // the others justify nothing
	case pass.ReadNode:
		if c.Stage == pass.ReadingLive && (r.Node.State == core.NodeGone || r.Node.Conditions[0].Status != "True") {
			w.read[c.Target.ID.Name] = w.now
		}
	case pass.ReadQuorum:
		if r.Survives == core.Yes {
			w.polled[c.Target.ID.Name] = w.now
		}
	case pass.ReadPolicy:
		delete(w.stands, c.Policy.Name)
		if r.Fingerprint == "as it was" {
			w.stands[c.Policy.Name] = w.now
		}
		if c.Stage == pass.StartingRemedies {
			w.clocks[c.Task] = r.Clock
		}
	case pass.ReadClock:
		w.clocks[c.Task] = r.Clock
	case pass.WriteStatuses:
		for i := range c.Reports {
			id := c.Reports[i].Policy.ID
			w.written[id.Name] = r.Unwritten[id] == nil
		}
	case pass.ListRunning:
		w.listed = w.created
	case pass.StartRemedy:
		w.started[c.RemedyCall.Target.ID.Name] = true
	}
}

// granted checks a call that is granted.
func (w *checker) granted(c pass.Call) {
	switch c.Kind { //nolint:exhaustive // the others destroy nothing
	case pass.CreateRepair:
		w.created++
		w.wantRequestKept(c.NewRepair.Target.ID.Name)
	case pass.StartRemedy:
		w.wantStart(c.RemedyCall, w.clocks[c.Task])
	case pass.ReleaseLease:
		for i := range w.stored {
			if r := &w.stored[i]; r.Node == c.Node && r.Running() {
				w.t.Fatalf("the lease of %s is released, and its repair runs", c.Node)
			}
		}
	case pass.ReadNode:
		if name := c.Target.ID.Name; c.Stage == pass.ReadingLive {
			if w.tried[name] {
				w.t.Fatalf("the node of %s is read twice in one pass", name)
			}
			w.tried[name] = true
		}
	case pass.UpdateRepair, pass.WithdrawRequest:
		if c.Kind == pass.UpdateRepair && !c.Repair.Running() { // it leaves its place to another
			delete(w.ever, c.Repair.Target.Name)
		}
		if !w.answered {
			w.t.Fatalf("%s before any status was written", callName(c))
		}
	}
}

// wantRequestKept checks the policies of a target: their statuses are written, and each was read since the pass began.
func (w *checker) wantRequestKept(target string) {
	i := slices.IndexFunc(w.targets, func(t core.Target) bool { return t.ID.Name == target })
	for _, p := range w.policies {
		if !slices.Contains(p.Members, i) {
			continue
		}
		if at, stands := w.stands[p.ID.Name]; !stands || w.now.Sub(at) > time.Minute {
			w.t.Fatalf("%s is repaired, and %s was not read, or does not stand", target, p.ID.Name)
		}
		if !w.written[p.ID.Name] {
			w.t.Fatalf("%s is repaired, and the status of %s is not written", target, p.ID.Name)
		}
	}
}

// wantStart checks all that must come before a remedy.
func (w *checker) wantStart(o *core.RemedyCall, clock pass.ClockReading) {
	t, name := &o.Target, o.Target.ID.Name
	w.wantRequestKept(name)
	switch at, read := w.read[name]; {
	case w.called[name]:
		w.t.Fatalf("the remedy of %s is called twice in one pass", name)
	case w.started[name] && o.Step.Nature == core.Delete:
		w.t.Fatalf("the remedy of %s is called again", name)
	case !slices.ContainsFunc(w.stored, func(r core.Repair) bool { return r.Name == o.Repair && r.Target == t.ID && r.Running() }):
		w.t.Fatalf("the remedy of %s is called, and no repair is recorded", name)
	case !read || clock.Now.Sub(at) >= 10*time.Second:
		w.t.Fatalf("the remedy of %s is called on a word about its node of %s", name, at)
	}
	if at, polled := w.polled[name]; t.ControlPlane && (!polled || clock.Now.Sub(at) >= 10*time.Second) {
		w.t.Fatalf("%s of the control plane is repaired, and its quorum was read at %s", name, at)
	}
	if clock.Agrees != core.Yes {
		w.t.Fatalf("the remedy of %s is called by a clock that is wrong", name)
	}
	lead := w.policies[slices.IndexFunc(w.policies, func(p core.Policy) bool { return p.ID == o.Policy })]
	if lead.Holder != "" && w.leases[t.Node.Name].holder != lead.Holder {
		w.t.Fatalf("the remedy of %s is called, and the lease of its node is held by %q", name, w.leases[t.Node.Name].holder)
	}
	if !lead.MaxInFlight.Unlimited && w.listed < w.created {
		w.t.Fatalf("the remedy of %s is called, and what runs was read when %d of %d repairs were recorded", name, w.listed, w.created)
	}
	w.called[name], w.ever[name] = true, true
	if !lead.MaxInFlight.Unlimited && len(w.ever) > lead.MaxInFlight.Number {
		w.t.Fatalf("%d are repaired, and at most %d may be", len(w.ever), lead.MaxInFlight.Number)
	}
}

func drawWorld(t *rapid.T) *checker {
	w := &checker{world: newWorld(), t: t, started: map[string]bool{}, ever: map[string]bool{}, theirs: map[string]bool{}}
	limit := rapid.IntRange(0, 2).Draw(t, "in flight, 0 for unlimited")
	holder := rapid.SampledFrom([]string{"", "fettle"}).Draw(t, "holder")
	remedy := rapid.SampledFrom([]string{"delete", "ask", "hand-over"}).Draw(t, "remedy")
	for i := range rapid.IntRange(1, 2).Draw(t, "policies") {
		p := policy(fmt.Sprintf("p-%d", i), remedy)
		if p.Holder = holder; limit > 0 {
			p.MaxInFlight = core.Count(limit)
		}
		w.policies = append(w.policies, p)
	}
	for i := range rapid.IntRange(1, 4).Draw(t, "machines") {
		m := machine(fmt.Sprintf("m-%d", i))
		m.ControlPlane = rapid.Bool().Draw(t, "control plane")
		if rapid.IntRange(0, 3).Draw(t, "well if 3") < 3 {
			m.Node = node(m.ID.Name, "False", noon.Add(-time.Hour))
		}
		if rapid.IntRange(0, 5).Draw(t, "recovered if 5") == 5 {
			w.live[m.ID.Name] = node(m.ID.Name, "True", noon)
		}
		w.quorum[m.ID.Name] = rapid.SampledFrom([]core.Tri{core.Yes, core.No, core.Unknown}).Draw(t, "quorum survives")
		for j := range w.policies {
			if j == 0 || rapid.Bool().Draw(t, "selected") {
				w.policies[j].Members = append(w.policies[j].Members, i)
			}
		}
		w.targets = append(w.targets, m)
	}
	w.grant = w.granted
	return w
}

// befalls lets time pass, and others act, while a call is under way.
func (w *checker) befalls(c pass.Call) {
	w.now = w.now.Add(rapid.SampledFrom([]time.Duration{0, 0, 0, 0, time.Second, 6 * time.Second}).Draw(w.t, "time passes"))
	target := w.targets[rapid.IntRange(0, len(w.targets)-1).Draw(w.t, "target")]
	switch rapid.IntRange(0, 60).Draw(w.t, "what happens") {
	case 56:
		if c.Kind != pass.ReadClock {
			w.agrees = rapid.SampledFrom([]core.Tri{core.Yes, core.No, core.Unknown}).Draw(w.t, "clocks agree")
		}
	case 57:
		if w.leases[target.Node.Name].holder == "" {
			w.leases[target.Node.Name] = lease{"another", w.now, w.now.Add(time.Hour)}
		}
	case 58:
		w.changed[w.policies[len(w.policies)-1].ID.Name] = true
	case 59: // another leader records a repair
		e := core.NewRepair{Name: core.RepairName(target.ID, 1), Target: target, Policy: w.policies[0], Steps: w.policies[0].Steps, Started: w.now}
		if r, created := w.create(&e); created {
			w.theirs[r.Name] = true
		}
	case 60: // another writer changes a repair
		for i := range w.stored {
			w.stored[i].Revision++
		}
	}
}

// recover has some nodes become well between passes.
func (w *checker) recover() {
	for _, t := range w.targets {
		if name := t.ID.Name; rapid.IntRange(0, 2).Draw(w.t, "it recovers if 2") == 2 {
			w.live[name] = node(name, "True", w.now)
		}
	}
}

// plays makes one pass with results in any order. It reports whether the pass came to its end.
func (w *checker) plays() bool {
	p := w.begins()
	var calls []pass.Call
	var earlier []pass.Call
	for made := 0; ; made++ {
		if calls = append(calls, p.Calls()...); len(calls) == 0 {
			break
		}
		if made > 1000 {
			w.t.Fatal("the pass does not end")
		}
		at := rapid.IntRange(0, len(calls)-1).Draw(w.t, "which call")
		c := calls[at]
		calls = slices.Delete(calls, at, at+1)
		if c.Stage == pass.EndingRepairs && slices.ContainsFunc(calls, func(c pass.Call) bool { return c.Stage != pass.EndingRepairs }) {
			w.t.Fatalf("%s while other calls are under way: %s", callName(c), callName(calls[0]))
		}
		r := pass.Result{Err: errDown}
		switch fate := rapid.IntRange(0, 19).Draw(w.t, "fate"); fate {
		case 16: // it fails
		case 17:
			r.Skipped = true
		case 18: // it is granted, and its answer is lost
			w.does(c)
			r.CutOff = rapid.Bool().Draw(w.t, "cut off")
		case 19:
			if c.Kind != pass.WriteStatuses {
				return false
			}
			w.does(c)
			r = pass.Result{Unwritten: map[core.ID]error{w.policies[0].ID: errDown}}
		default:
			r = w.does(c)
		}
		w.befalls(c)
		r.Clock, r.Began = w.clock(), w.now
		w.heard(c, &r)
		p.Done(c, r)
		if earlier = append(earlier, c); rapid.IntRange(0, 9).Draw(w.t, "a result comes twice if 9") == 9 {
			p.Done(earlier[rapid.IntRange(0, len(earlier)-1).Draw(w.t, "which")], r)
		}
	}
	if !p.Over() {
		w.t.Fatal("no call is left, and the pass is not over")
	}
	return true
}

// TestOrder: results come in any order, calls fail, are lost or are not made, and passes are cut short anywhere. Each
// pass ends, and a remedy starts only after all of these: its repair was recorded, its node, quorum and policies were
// read, the statuses were written, its lease is held, and the running repairs were listed.
func TestOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := drawWorld(t)
		for range rapid.IntRange(2, 6).Draw(t, "passes") {
			seen := w.now
			whole := w.plays()
			if rapid.Bool().Draw(t, "some recover") {
				w.recover()
			}
			switch {
			case !whole:
				w.restarts()
			case w.now.Sub(seen) > 20*time.Second, rapid.IntRange(0, 2).Draw(t, "caches lag if 2") < 2:
				w.catchUp()
			}
		}
	})
}
