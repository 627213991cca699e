package sim

import (
	"crypto/sha256"
	"encoding/binary"
	"reflect"
	"slices"

	"github.com/fettle-io/fettle/internal/pass"
)

// steppedPass is a pass between two of its calls. It is never changed, so that copies of an engine may share it. The
// step machine is made anew from its snapshot and from the results so far.
type steppedPass struct {
	state    *pass.State
	snapshot pass.Snapshot
	results  []madeCall
	progress
	// sum identifies the pass with its results.
	sum [sha256.Size]byte
}

// madeCall is the result of one call.
type madeCall struct {
	call   int
	result pass.Result
}

// digest returns the same for passes that go on alike.
func (f *steppedPass) digest() []byte {
	if f == nil {
		return nil
	}
	return f.sum[:]
}

// beginStepped begins a pass of an engine whose calls are steps.
func (u *Universe) beginStepped(e *engine) {
	p := u.begin(e, true)
	b := append(slices.Clone(e.digest()), dump(nil, reflect.ValueOf(p.stepped.snapshot.Cluster))...)
	b = dump(b, reflect.ValueOf(p.stepped.snapshot.Policies))
	b = binary.AppendVarint(b, int64(u.truth.now))
	b = dump(binary.AppendVarint(binary.AppendVarint(b, int64(p.began)), int64(p.others)), reflect.ValueOf(p.unhealthy)) // for the checker
	p.stepped.sum = sha256.Sum256(b)
	u.advance(p)
}

// makeCall makes one call of the current pass, with a fault of some kind.
func (u *Universe) makeCall(e *engine, kind Kind, which int) {
	p, m := u.resume(e), noFault
	if kind == MissStatus {
		m.misses, m.missed = true, which
		which = slices.IndexFunc(p.calls, isStatuses)
	}
	c := p.take(which)
	switch kind { //nolint:exhaustive // the others are no faults of a call
	case FailCall, SkipCall, RefuseCutOff:
		m.fails = p.made
	case LoseAnswer, CutOffCall, PanicCall:
		m.loses = p.writes
	}
	if kind == PanicCall && !writes(&c) {
		m.fails = p.made
	}
	m.skips, m.cutsOff, m.panics = kind == SkipCall, kind == CutOffCall || kind == RefuseCutOff, kind == PanicCall
	if kind == PanicCall && isStatuses(c) { // the runner gives up, and the pass gets no result
		u.abandon(p)
		return
	}
	u.make(p, &c, m)
	u.advance(p)
}

func isStatuses(c pass.Call) bool { return c.Kind == pass.WriteStatuses }

// mayAbandon reports whether the runner may give up the current pass: it has written nothing yet.
func (p *passRun) mayAbandon() bool { return !p.wrote }

// abandon ends a pass that is not over. The next one goes on from its state.
func (u *Universe) abandon(p *passRun) {
	e := p.engine
	e.stepped, e.state, e.digestCache = nil, p.state, nil
	e.repeat, e.passed = true, true
	if u.setup.Faults.Forgetful {
		e.state = &pass.State{}
	}
}

// resume returns the current pass of an engine.
func (u *Universe) resume(e *engine) *passRun {
	f := e.stepped
	p := &passRun{engine: e, state: f.state.Clone(), progress: f.progress.clone(), config: u.config(e)}
	p.stepped = &steppedPass{state: f.state, snapshot: f.snapshot, results: slices.Clip(f.results), sum: f.sum}
	p.pass = pass.New(p.config, p.state, own(f.snapshot))
	p.refresh()
	for _, r := range f.results {
		p.calls = slices.DeleteFunc(p.calls, func(c pass.Call) bool { return c.ID == r.call })
		p.pass.Done(pass.Call{ID: r.call}, r.result)
		p.refresh()
	}
	return p
}

// own returns a snapshot with slices of its own.
func own(s pass.Snapshot) pass.Snapshot {
	s.Cluster, s.Policies = copied(s.Cluster), slices.Clone(s.Policies)
	return s
}

// advance makes the calls whose order changes nothing, and ends the pass when no call is left. Statuses are steps of their own
// where one may be missed.
func (u *Universe) advance(p *passRun) {
	stepwise := u.setup.MissedStatuses > 0
	for {
		i := slices.IndexFunc(p.calls, func(c pass.Call) bool { return c.Kind == pass.ReadClock || isStatuses(c) && !stepwise })
		if i < 0 {
			break
		}
		c := p.take(i)
		u.make(p, &c, noFault)
	}
	if len(p.calls) == 0 {
		p.engine.stepped, p.engine.state, p.engine.digestCache = nil, p.state, nil
		u.end(p)
		return
	}
	p.stepped.progress = p.progress
	p.engine.stepped = p.stepped
}

// finishStepped makes all calls that are left of the current pass of an engine.
func (u *Universe) finishStepped(e *engine) {
	for e.stepped != nil {
		u.makeCall(e, MakeCall, 0)
	}
}

// note stores the result of a call.
func (f *steppedPass) note(call int, r pass.Result) {
	f.results = append(f.results, madeCall{call, r})
	b := binary.AppendVarint(slices.Clone(f.sum[:]), int64(call))
	r.Err = nil // an error shows in what is lacking
	b = dump(b, reflect.ValueOf(r))
	f.sum = sha256.Sum256(b)
}
