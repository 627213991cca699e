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
	p.stepped.sum = sha256.Sum256(b)
	u.advance(p)
}

// makeCall makes one call of the current pass, which may fail, or lose its answer.
func (u *Universe) makeCall(e *engine, which int, fails, loses bool) {
	p := u.resume(e)
	c, m := p.take(which), noFault
	if fails {
		m.fails = p.made
	}
	if loses {
		m.loses = p.writes
	}
	u.make(p, &c, m)
	u.advance(p)
}

// resume returns the current pass of an engine.
func (u *Universe) resume(e *engine) *passRun {
	f := e.stepped
	p := &passRun{engine: e, state: f.state.Clone(), progress: f.progress.clone(), config: u.config(e)}
	p.stepped = &steppedPass{state: f.state, snapshot: f.snapshot, results: slices.Clip(f.results), sum: f.sum}
	p.pass = pass.New(p.config, p.state, own(f.snapshot))
	p.look()
	for _, r := range f.results {
		p.calls = slices.DeleteFunc(p.calls, func(c pass.Call) bool { return c.ID == r.call })
		p.pass.Done(pass.Call{ID: r.call}, r.result)
		p.look()
	}
	return p
}

// own returns a snapshot with slices of its own.
func own(s pass.Snapshot) pass.Snapshot {
	s.Cluster, s.Policies = copied(s.Cluster), slices.Clone(s.Policies)
	return s
}

// advance makes the calls that nothing depends on, and ends the pass when no call is left.
func (u *Universe) advance(p *passRun) {
	for {
		i := slices.IndexFunc(p.calls, func(c pass.Call) bool { return c.Kind == pass.WriteStatuses || c.Kind == pass.ReadClock })
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
		u.makeCall(e, 0, false, false)
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
