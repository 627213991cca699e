package sim

import (
	"maps"
	"slices"
	"time"

	"github.com/fettle-io/fettle/internal/core"
	"github.com/fettle-io/fettle/internal/pass"
)

// plan is one pass of an engine: the machine itself, the calls that it waits for, and what the watcher has to know of it.
type plan struct {
	engine *engine
	pass   *pass.Pass
	config pass.Config
	// state is what the pass leaves to the next.
	state *pass.State
	// flight is set for a pass that is made call by call, each of them a step.
	flight *flight
	// calls are the offered calls that were not made yet.
	calls []pass.Call
	course
	// policies, fleet and decision are those of the machine by now.
	policies []core.Policy
	fleet    core.Fleet
	decision core.Decision
}

// course is what has become of a pass so far, apart from the machine.
type course struct {
	// sick says of each machine whether the truth justified its repair when it was read live.
	sick []bool
	// created are the repairs that it has recorded.
	created []core.Repair
	// began is the edit of the policies at which it began.
	began int
	// made counts the calls, and writes those that change something.
	made, writes int
	// skew is by how much the clock was fast when it was read last.
	skew time.Duration
	// found is set when something that was asked for had been asked for already, which the caches did not show.
	found bool
	// overtaken is set when another writer had changed a repair, or an answer was lost, so that the pass is repeated.
	overtaken bool
	// failed is set when a call has failed, or its answer was lost.
	failed bool
}

func (f *course) clone() course {
	twin := *f
	twin.sick, twin.created = slices.Clone(f.sick), slices.Clone(f.created)
	return twin
}

// never is the number of a call that is not made.
const never = -1

// mishap is what befalls one pass.
type mishap struct {
	// crashAfter is the number of writes after which the process crashes, loses the write whose answer is lost, and fails the call that
	// fails; never for none.
	crashAfter, loses, fails int
	// refused is set when remedies refuse.
	refused bool
}

// smooth is a pass that nothing befalls.
var smooth = mishap{crashAfter: never, loses: never, fails: never} //nolint:gochecknoglobals // a constant

// begin begins a pass of an engine, which is made call by call or at once.
func (u *Universe) begin(e *engine, flies bool) *plan {
	if u.setup.Faults.NoMemory {
		e.state, e.imprint = &pass.State{}, nil
	}
	p := &plan{engine: e, course: course{began: u.truth.edited}, config: u.config(), state: e.state.Clone()}
	for _, m := range u.truth.machines {
		p.sick = append(p.sick, m.sick(u.truth.now))
	}
	s := e.shows(u)
	e.leases = maps.Clone(u.truth.leases)
	if flies {
		p.flight = &flight{state: e.state, snapshot: s}
		s = own(s)
	}
	p.pass = pass.New(p.config, p.state, s)
	p.look()
	return p
}

// config is that of the passes of a universe.
func (u *Universe) config() pass.Config {
	return pass.Config{
		Sources:  []pass.Source{{}, {}},
		Remedies: map[string]bool{"Delete": false, "Ask": true, Mark().Remedy: true, HandOver().Remedy: false},
		Leases:   u.setup.Leases, Quorum: true, Retention: u.retention(), Decide: u.setup.Faults.decide,
	}
}

// aeons is longer than any story.
const aeons = 100 * 365 * 24 * time.Hour

func (u *Universe) retention() core.Retention {
	if u.setup.Prunes {
		return core.Retention{For: Ticks(2), Most: 1}
	}
	return core.Retention{For: 2 * aeons, Most: 1 << 30}
}

// shows is what the caches of an engine show.
func (e *engine) shows(u *Universe) pass.Snapshot {
	s := pass.Snapshot{
		Clock: u.clock(e), Fleet: e.snapshot(u), PolicySource: map[core.ID]int{}, Kinds: map[string]bool{"Machine": true, "Node": true},
	}
	s.Policies = e.policies(u, &s.Fleet)
	s.Fleet.ClockAgrees = s.Clock.Agrees
	if !e.inStep && !u.setup.Faults.Hasty {
		s.Fleet.Observed = core.Unknown
	}
	for i := range s.Policies {
		if id := s.Policies[i].ID; id.Kind == nodeCheck {
			s.PolicySource[id] = 1
		}
	}
	s.TargetSource = make([]int, len(s.Fleet.Targets))
	for i := range s.Fleet.Targets {
		if s.Fleet.Targets[i].ID.Kind == "Node" {
			s.TargetSource[i] = 1
		}
	}
	for i := range s.Policies {
		s.PolicySource[s.Policies[i].ID] += 0
	}
	return s
}

// clock is what the clock of an engine shows, which knows how far it is from that of the API server.
func (u *Universe) clock(e *engine) pass.ClockReading {
	r := pass.ClockReading{Now: at(u.truth.now).Add(e.skew), Agrees: core.Yes, Corrected: at(u.truth.now)}
	if e.skew.Abs() > core.MostSkew {
		r.Agrees = core.No
	}
	return r
}

// look takes in what the machine offers and decides.
func (p *plan) look() {
	p.calls = append(p.calls, p.pass.Calls()...)
	p.policies, p.fleet, p.decision = p.pass.Policies(), *p.pass.Fleet(), *p.pass.Decision()
}

// take removes the call from the offered ones.
func (p *plan) take(i int) pass.Call {
	c := p.calls[i]
	p.calls = slices.Delete(p.calls, i, i+1)
	return c
}

// pass has an engine pass over the cluster at once, call by call.
func (u *Universe) pass(e *engine, m mishap) {
	p := u.begin(e, false)
	for len(p.calls) > 0 {
		i := 0
		if u.setup.LastFirst {
			i = len(p.calls) - 1
		}
		c := p.take(i)
		if writes(&c) {
			if p.writes == m.crashAfter {
				u.crash(e)
				return
			}
			u.interpose()
		}
		u.make(p, &c, m)
	}
	e.state, e.imprint = p.state, nil
	u.end(p)
	if p.writes <= m.crashAfter {
		u.crash(e)
	}
}

// make makes one call, and hands the machine its result.
func (u *Universe) make(p *plan, c *pass.Call, m mishap) {
	var r pass.Result
	loses := writes(c) && p.writes == m.loses
	if writes(c) && p.made != m.fails {
		p.writes++
	}
	if p.made == m.fails {
		r.Err = errFailed
	} else {
		r = u.answer(p, c, m.refused)
	}
	if loses && r.Err == nil {
		r = pass.Result{Err: errLost}
		u.forgive()
	}
	p.failed = p.failed || p.made == m.fails || loses
	p.made++
	r.Clock, r.Began = u.clock(p.engine), at(u.truth.now).Add(p.engine.skew)
	p.pass.Done(*c, r)
	if p.flight != nil {
		p.flight.note(c.ID, r)
	}
	p.look()
}

func (u *Universe) crash(e *engine) {
	e.forget()
	u.forgive()
}

// end ends a pass that has made all its calls.
func (u *Universe) end(p *plan) {
	e := p.engine
	if !p.pass.Over() {
		u.complain("a pass is not over, and offers no call")
	}
	next, now := u.next(p), at(u.truth.now).Add(e.skew)
	e.repeat = len(p.pass.Failures()) > 0 || (!next.IsZero() && !next.After(now.Add(time.Second)))
	e.nextAt, e.passed = next, true
	if u.setup.Faults.NoSecondLook && len(p.decision.Finishes) > 0 {
		e.repeat, e.nextAt = false, p.decision.NextAt
	}
	if u.setup.Faults.NoAlarm {
		e.nextAt = time.Time{}
	}
	u.watchPass(p)
}

// next is when the engine is to look again. It is let off asking for the quorum once more, which is what it is in a universe for
// ever, and off deleting what is kept for longer than any story.
func (u *Universe) next(p *plan) time.Time {
	next, now := p.pass.Next(), at(u.truth.now).Add(p.engine.skew)
	asksAgain := slices.ContainsFunc(p.decision.Refusals, func(r core.Refusal) bool {
		return r.Gate == core.QuorumLost || r.Gate == core.QuorumUnknown
	})
	if asksAgain && next.Add(time.Second).Before(p.decision.NextAt) {
		asksAgain = false // there is another reason
	}
	if asksAgain {
		settled := copied(p.fleet)
		for i := range settled.Targets {
			settled.Targets[i].QuorumReadAt = now.Add(aeons)
		}
		next = u.setup.Faults.decide(p.policies, settled, now).NextAt
	}
	if next.Sub(now) >= aeons {
		return time.Time{}
	}
	return next
}

// look has a copy of an engine decide, and returns what it would do.
func (u *Universe) look(e *engine) *plan {
	p := u.begin(e.clone(), false)
	for p.pass.Deciding() && len(p.calls) > 0 {
		c := p.take(0)
		u.make(p, &c, smooth)
	}
	return p
}

// advanced is the request of the step of a repair that is given up, -1 when there is none.
func (p *plan) advanced(repair string) int {
	for i := range p.decision.Advances {
		if a := &p.decision.Advances[i]; p.fleet.Repairs[a.Repair].Name == repair {
			return a.Request
		}
	}
	return -1
}

// requestOf returns the place of the request of a step for a target, and -1 when the pass knows of none.
func (p *plan) requestOf(target core.ID, step *core.Step) int {
	return slices.IndexFunc(p.fleet.Requests, func(r core.Request) bool { return r.Target == target && r.Template == step.Template })
}

// repair is a repair as the pass knows it.
func (p *plan) repair(name string) core.Repair {
	for _, r := range slices.Concat(p.created, p.fleet.Repairs) {
		if r.Name == name {
			return r
		}
	}
	return core.Repair{}
}

// due tells whether the engine passes by itself, and at which tick.
func (e *engine) due(now int) (int, bool) {
	if e.repeat {
		return now, true
	}
	if e.nextAt.IsZero() {
		return 0, false
	}
	ticks := int((e.nextAt.Add(-e.skew).Sub(at(0)) + tick - time.Nanosecond) / tick)
	return max(ticks, now), true
}
