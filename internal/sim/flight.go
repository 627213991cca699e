package sim

import (
	"crypto/sha256"
	"encoding/binary"
	"reflect"
	"slices"

	"github.com/fettle-io/fettle/internal/pass"
)

// flight is a pass between two of its calls. It is never changed, so that copies of an engine may share it: the machine is made
// anew from what it began with and from the results so far.
type flight struct {
	state    *pass.State
	snapshot pass.Snapshot
	results  []flown
	course
	// sum tells flights apart.
	sum [sha256.Size]byte
}

// flown is the result of one call.
type flown struct {
	call   int
	result pass.Result
}

// digest is the same for flights that go on alike.
func (f *flight) digest() []byte {
	if f == nil {
		return nil
	}
	return f.sum[:]
}

// takeOff has an engine begin a pass that is made call by call, each of them a step.
func (u *Universe) takeOff(e *engine) {
	p := u.begin(e, true)
	b := append(slices.Clone(e.digest()), dump(nil, reflect.ValueOf(p.flight.snapshot.Fleet))...)
	b = dump(b, reflect.ValueOf(p.flight.snapshot.Policies))
	b = binary.AppendVarint(b, int64(u.truth.now))
	p.flight.sum = sha256.Sum256(b)
	u.land(p)
}

// fly makes one call of a pass under way, which fails, or whose answer is lost.
func (u *Universe) fly(e *engine, which int, fails, loses bool) {
	p := u.resume(e)
	c, m := p.take(which), smooth
	if fails {
		m.fails = p.made
	}
	if loses {
		m.loses = p.writes
	}
	u.make(p, &c, m)
	u.land(p)
}

// resume is the pass under way of an engine.
func (u *Universe) resume(e *engine) *plan {
	f := e.flight
	p := &plan{engine: e, state: f.state.Clone(), course: f.course.clone(), config: u.config()}
	p.flight = &flight{state: f.state, snapshot: f.snapshot, results: slices.Clip(f.results), sum: f.sum}
	p.pass = pass.New(p.config, p.state, own(f.snapshot))
	p.look()
	for _, r := range f.results {
		p.calls = slices.DeleteFunc(p.calls, func(c pass.Call) bool { return c.ID == r.call })
		p.pass.Done(pass.Call{ID: r.call}, r.result)
		p.look()
	}
	return p
}

// own is a snapshot with slices of its own.
func own(s pass.Snapshot) pass.Snapshot {
	s.Fleet, s.Policies = copied(s.Fleet), slices.Clone(s.Policies)
	return s
}

// land makes the calls that nothing depends on, and ends the pass when no call is left.
func (u *Universe) land(p *plan) {
	for {
		i := slices.IndexFunc(p.calls, func(c pass.Call) bool { return c.Kind == pass.WriteStatuses || c.Kind == pass.ReadClock })
		if i < 0 {
			break
		}
		c := p.take(i)
		u.make(p, &c, smooth)
	}
	if len(p.calls) == 0 {
		p.engine.flight, p.engine.state, p.engine.imprint = nil, p.state, nil
		u.end(p)
		return
	}
	p.flight.course = p.course
	p.engine.flight = p.flight
}

// endFlight makes all calls that are left of the pass under way of an engine.
func (u *Universe) endFlight(e *engine) {
	for e.flight != nil {
		u.fly(e, 0, false, false)
	}
}

// note notes the result of a call of a pass that is made call by call.
func (f *flight) note(call int, r pass.Result) {
	f.results = append(f.results, flown{call, r})
	b := binary.AppendVarint(slices.Clone(f.sum[:]), int64(call))
	r.Err = nil // an error shows in what is lacking
	b = dump(b, reflect.ValueOf(r))
	f.sum = sha256.Sum256(b)
}
