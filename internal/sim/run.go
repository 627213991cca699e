package sim

import (
	"maps"
	"slices"
	"time"

	"github.com/fettle-io/fettle/internal/core"
	"github.com/fettle-io/fettle/internal/pass"
)

// passRun is one pass of an engine: the step machine, the calls that it waits for, and what the checker needs to know
// of it.
type passRun struct {
	engine *engine
	pass   *pass.Pass
	config pass.Config
	// state is the state that the pass leaves to the next.
	state *pass.State
	// stepped is set for a pass whose calls are steps.
	stepped *steppedPass
	// calls are the offered calls that were not made yet.
	calls []pass.Call
	progress
	// policies, cluster and decision are the machine's own by now.
	policies []core.Policy
	cluster  core.Cluster
	decision core.Decision
}

// progress is the progress of a pass, apart from the step machine.
type progress struct {
	// unhealthy reports of each machine whether the truth justified its repair when it was read live.
	unhealthy []bool
	// created are the repairs that it has recorded.
	created []core.Repair
	// began is the edit of the policies at which it began.
	began int
	// beganAt is the tick at which it began.
	beganAt int
	// others reports whether it could know, when it last read its policies, that policies of the home cluster act on the
	// same nodes.
	others core.Tri
	// made counts the calls, and writes the calls that change something.
	made, writes int
	// skew is by how much the clock was fast when each task read it last.
	skew map[taskKey]time.Duration
	// found is set when a request existed already, or a lease had another holder, and no cache showed that. Freed is set when
	// a lease was released.
	found, freed bool
	// conflict is set when another writer had changed a repair, so that the pass is repeated.
	conflict bool
	// failed is set when a call has failed, or its answer was lost.
	failed bool
	// blocked has the dialects that have said that nothing is known.
	blocked [dialects]bool
	// written has the policies whose status was written, and read the edit of the policies at which each was read from the API server last.
	written map[core.ID]bool
	read    map[core.ID]int
	// wrote is set once a status, or anything else, was to be written.
	wrote bool
	// siblingUnknown has the nodes whose machine was not known when it was looked up.
	siblingUnknown []bool
}

// taskKey identifies a task of a pass.
type taskKey struct {
	stage pass.Stage
	task  int
}

func taskOf(c *pass.Call) taskKey { return taskKey{c.Stage, c.Task} }

func (f *progress) clone() progress {
	twin := *f
	twin.skew, twin.written, twin.read = maps.Clone(f.skew), maps.Clone(f.written), maps.Clone(f.read)
	twin.unhealthy, twin.created, twin.siblingUnknown = slices.Clone(f.unhealthy), slices.Clone(f.created), slices.Clone(f.siblingUnknown)
	return twin
}

// never is the number of a call that is not made.
const never = -1

// passFault is what goes wrong in one pass.
type passFault struct {
	// crashAfter is the number of writes after which the process crashes. Loses is the write whose answer is lost, and
	// fails the call that fails. Each may be never.
	crashAfter, loses, fails int
	// refused is set when remedies refuse.
	refused bool
	// skips is set when the call is not made. A call that loses or fails is cut off with its pass, or panics.
	skips, cutsOff, panics bool
	// misses is set when the status of the policy of the index missed is not written.
	misses bool
	missed int
}

// noFault is a pass in which nothing goes wrong.
var noFault = passFault{crashAfter: never, loses: never, fails: never} //nolint:gochecknoglobals // a constant

// begin begins a pass of an engine, at once or call by call.
func (u *Universe) begin(e *engine, stepped bool) *passRun {
	if u.setup.Faults.NoExpectations {
		e.state, e.digestCache = &pass.State{}, nil
	}
	p := &passRun{engine: e, progress: progress{skew: map[taskKey]time.Duration{}, written: map[core.ID]bool{}, read: map[core.ID]int{}, began: u.truth.edited, beganAt: u.truth.now, others: u.othersAct(e)}, config: u.config(e), state: e.state.Clone()}
	s := e.shows(u)
	u.noteDates(e, &s.Cluster)
	for _, m := range u.truth.machines {
		p.unhealthy = append(p.unhealthy, e.justified(m, u.truth.now))
	}
	p.siblingUnknown = make([]bool, len(u.truth.machines))
	e.leases = maps.Clone(u.truth.leases)
	if stepped {
		p.stepped = &steppedPass{state: e.state, snapshot: s}
		s = own(s)
	}
	p.pass = pass.New(p.config, p.state, s)
	p.refresh()
	u.noteEarlierReads(p)
	u.noteShown(p)
	return p
}

// config returns the configuration of the passes of an engine.
func (u *Universe) config(e *engine) pass.Config {
	return pass.Config{
		Dialects: u.setup.dialectsOf(), Siblings: u.setup.Reports,
		Remedies: map[string]bool{"Delete": false, "Ask": true, MarkStep().Remedy: true, HandOverStep().Remedy: false},
		Leases:   u.setup.Leases && e.cluster != workloadCluster, Quorum: true, Retention: u.retention(), Decide: u.setup.Faults.decide,
	}
}

// veryLong is longer than any story.
const veryLong = 100 * 365 * 24 * time.Hour

func (u *Universe) retention() core.Retention {
	if u.setup.Prunes {
		return core.Retention{For: Ticks(2), Max: 1}
	}
	return core.Retention{For: 2 * veryLong, Max: 1 << 30}
}

// shows returns what the caches of an engine show.
func (e *engine) shows(u *Universe) pass.Snapshot {
	synced := core.Unknown
	if e.synced(u) {
		synced = core.Yes
	}
	s := pass.NewSnapshot(u.clock(e), e.observations(u), slices.Clone(e.ledger), synced)
	if s.Cluster.Observed == core.Yes {
		e.addFacts(u, &s.Cluster)
	}
	return s
}

// clock returns what the clock of an engine shows. The engine knows how far it is from the API server's.
func (u *Universe) clock(e *engine) pass.ClockReading {
	r := pass.ClockReading{Now: fastAt(u.truth.now, e.skew), Agrees: core.Yes, Corrected: at(u.truth.now + u.truth.ahead)}
	if u.off(e).Abs() > core.MaxSkew {
		r.Agrees = core.No
	}
	return r
}

// off returns by how much the clock of an engine is fast, by that of the API server.
func (u *Universe) off(e *engine) time.Duration { return e.skew - Ticks(u.truth.ahead) }

// refresh takes over the calls and the decision of the step machine.
func (p *passRun) refresh() {
	p.calls = append(p.calls, p.pass.Calls()...)
	p.policies, p.cluster, p.decision = p.pass.Policies(), *p.pass.Cluster(), *p.pass.Decision()
}

// take removes a call from the offered calls, and returns it.
func (p *passRun) take(i int) pass.Call {
	c := p.calls[i]
	p.calls = slices.Delete(p.calls, i, i+1)
	return c
}

// pass makes a pass of an engine at once, call by call.
func (u *Universe) pass(e *engine, m passFault) {
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
	e.state, e.digestCache = p.state, nil
	u.end(p)
	if p.writes <= m.crashAfter {
		u.crash(e)
	}
}

// make makes one call, and hands its result to the step machine.
func (u *Universe) make(p *passRun, c *pass.Call, m passFault) {
	var r pass.Result
	loses := writes(c) && p.writes == m.loses
	if writes(c) && p.made != m.fails {
		p.writes++
	}
	if p.made == m.fails {
		r.Err, r.Skipped = errFailed, m.skips
	} else {
		r = u.answer(p, c, m.refused)
	}
	if loses && r.Err == nil {
		r = pass.Result{Err: errLost}
		u.forgetMarkRemovals()
	}
	if r.Err != nil {
		r.CutOff, r.Panicked = m.cutsOff, m.panics
	}
	p.failed = p.failed || p.made == m.fails || loses || m.misses
	p.made++
	r.Clock, r.Began = u.clock(p.engine), fastAt(u.truth.now, p.engine.skew)
	if c.Kind == pass.WriteStatuses {
		p.noteWritten(c, &r, &m)
	}
	u.noteRecorded(c, &r)
	p.wrote = p.wrote || writes(c) || isStatuses(*c)
	u.plant(p, c, &r)
	u.done(p, c, &r)
}

// done hands the result of a call to the step machine.
func (u *Universe) done(p *passRun, c *pass.Call, r *pass.Result) {
	deciding := p.pass.Deciding()
	p.pass.Done(*c, *r)
	if deciding && !p.pass.Deciding() {
		u.judgeWithoutNode(p)
	}
	if p.stepped != nil {
		p.stepped.note(c.ID, *r)
	}
	p.refresh()
}

// plant changes a result as a faulty runner would.
func (u *Universe) plant(p *passRun, c *pass.Call, r *pass.Result) {
	faults := &u.setup.Faults
	switch {
	case c.Kind == pass.WriteStatuses && faults.SilentStatuses:
		r.Unwritten, r.Err = nil, nil
	case c.Kind == pass.StartRemedy && r.CutOff && faults.GrantedCutOffs:
		r.CutOff, r.Err, r.RemedyResult = false, nil, core.Accepted
	case c.Kind == pass.ReadPolicy && faults.NoPolicyRead:
		r.Fingerprint = p.policies[slices.IndexFunc(p.policies, func(q core.Policy) bool { return q.ID == c.Policy })].Fingerprint
	}
}

// noteWritten notes the statuses that a call has written.
func (p *passRun) noteWritten(c *pass.Call, r *pass.Result, m *passFault) {
	for i := range c.Reports {
		id := c.Reports[i].Policy.ID
		if m.misses && i == m.missed {
			r.Unwritten = map[core.ID]error{id: errFailed}
			continue
		}
		p.written[id] = p.written[id] || r.Err == nil
	}
}

// crash ends the process of an engine.
func (u *Universe) crash(e *engine) {
	for _, other := range u.processOf(e) {
		other.forget(u.truth.now)
		u.forgetConfirmations(other)
	}
	u.forgetMarkRemovals()
}

// end ends a pass that has made all its calls.
func (u *Universe) end(p *passRun) {
	e := p.engine
	if !p.pass.Over() {
		u.complain("a pass is not over, and offers no call")
	}
	next, now := u.next(p), fastAt(u.truth.now, e.skew)
	e.repeat = len(p.pass.Failures()) > 0 || (!next.IsZero() && !next.After(now.Add(time.Second)))
	e.nextAt, e.passed = next, true
	if u.setup.Faults.NoSecondLook && len(p.decision.Finishes) > 0 {
		e.repeat, e.nextAt = false, p.decision.NextAt
	}
	if u.setup.Faults.NoTimer {
		e.nextAt = time.Time{}
	}
	u.checkPass(p)
}

// next returns when the engine passes again. It leaves out repeated reads of the quorum, which never changes in some
// universes, and deletions of repairs that outlast any story.
func (u *Universe) next(p *passRun) time.Time {
	next, now := p.pass.Next(), fastAt(u.truth.now, p.engine.skew)
	asksAgain := slices.ContainsFunc(p.decision.Refusals, func(r core.Refusal) bool {
		return r.Gate == core.QuorumLost || r.Gate == core.QuorumUnknown
	})
	if asksAgain && next.Add(time.Second).Before(p.decision.NextAt) {
		asksAgain = false // there is another reason
	}
	if asksAgain {
		settled := copied(p.cluster)
		for i := range settled.Targets {
			settled.Targets[i].QuorumReadAt = now.Add(veryLong)
		}
		next = u.setup.Faults.decide(p.policies, settled, now).NextAt
	}
	if next.Sub(now) >= veryLong {
		return time.Time{}
	}
	return next
}

// preview lets a copy of an engine decide, and returns what it would do.
func (u *Universe) preview(e *engine) *passRun {
	p := u.begin(e.clone(), false)
	for p.pass.Deciding() && len(p.calls) > 0 {
		c := p.take(0)
		u.make(p, &c, noFault)
	}
	return p
}

// advanced returns the request of the step of a repair that is given up, -1 when there is none.
func (p *passRun) advanced(repair string) int {
	for i := range p.decision.Escalations {
		if a := &p.decision.Escalations[i]; p.cluster.Repairs[a.Repair].Name == repair {
			return a.Request
		}
	}
	return -1
}

// requestOf returns the place of the request of a step for a target, and -1 when the pass knows of none.
func (p *passRun) requestOf(target core.ID, step *core.Step) int {
	return slices.IndexFunc(p.cluster.Requests, func(r core.Request) bool { return r.Target == target && r.Template == step.Template })
}

// repair returns a repair as the pass knows it.
func (p *passRun) repair(name string) core.Repair {
	for _, r := range slices.Concat(p.created, p.cluster.Repairs) {
		if r.Name == name {
			return r
		}
	}
	return core.Repair{}
}

// due reports whether the engine passes by itself, and at which tick.
func (e *engine) due(now int) (int, bool) {
	if e.repeat {
		return now, true
	}
	if e.nextAt.IsZero() {
		return 0, false
	}
	wait := e.nextAt.Sub(fastAt(now, e.skew)) // by the monotonic clock where nextAt has it, as a timer waits
	return now + max(int((wait+tick-time.Nanosecond)/tick), 0), true
}
