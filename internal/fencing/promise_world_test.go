package fencing_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/fettle-io/fettle/internal/fencing"
)

const (
	// granted is for how many ticks a grant lasts: the node is reset at the latest that long after the last one.
	granted = 2
	// expiresAfter is for how many ticks the manager expiresAfter from when it saw the last grant first. Its clock may run faster.
	expiresAfter = 3
)

// lease is the Lease in which the agent of the node promises, and what the node does by it.
type lease struct {
	revision int
	state    fencing.PromiseState
	boot     int
	// timed is set where the node is reset without a grant. Otherwise it is reset only when its agent learns that it is condemned.
	timed bool
	// grant is when the boot that runs got its last grant, and bound is set while it is reset without another.
	grant int
	bound bool
}

// observed is when a process of the manager has seen the Lease first as it is.
type observed struct {
	revision, at int
	seen         bool
}

var promiseEvents = []event{
	{"the agent renews", func(_ *setup, w world) (world, bool) {
		ok := w.host.on && w.lease.state == fencing.Promised && w.lease.boot == w.host.boot
		return w.promises(w.lease.timed), ok
	}},
	{"the agent promises", func(s *setup, w world) (world, bool) {
		free := w.lease.state == fencing.NoPromise || w.lease.state == fencing.Promised && w.lease.boot != w.host.boot
		return w.promises(!s.hold), w.host.on && free && (!s.cut || w.host.boot > 1)
	}},
	{"the agent withdraws its promise", func(_ *setup, w world) (world, bool) {
		ok := w.host.on && w.lease.state == fencing.Promised && w.lease.boot == w.host.boot && w.budget.withdrawals > 0
		w.budget.withdrawals--
		w.lease.revision++
		w.lease.state, w.lease.bound = fencing.NoPromise, false
		return w, ok
	}},
	{"the node is reset", func(_ *setup, w world) (world, bool) {
		learns := w.lease.state == fencing.Revoked && w.lease.boot == w.host.boot
		return reset(w), w.host.on && !w.neverFires && (learns || w.lease.bound && w.now >= w.lease.grant+granted)
	}},
	{"others free the promise", func(_ *setup, w world) (world, bool) {
		ok := w.budget.frees > 0 && w.lease.state == fencing.Revoked
		w.budget.frees--
		w.lease.revision++
		w.lease.state = fencing.NoPromise
		return w, ok
	}},
}

// promises has the agent of the running boot write its Lease. That is a grant.
func (w world) promises(timed bool) world {
	w.lease = lease{revision: w.lease.revision + 1, state: fencing.Promised, boot: w.host.boot, timed: timed, grant: w.now, bound: timed}
	return w
}

// reset resets the host, which boots anew.
func reset(w world) world {
	w.lease.bound = false
	return turn(turn(w, false), true)
}

// mustReset reports whether the watchdog has to fire before time passes.
func (w *world) mustReset() bool {
	return w.host.on && !w.neverFires && w.lease.bound && w.now >= w.lease.grant+granted
}

// readPromise has the manager read the Lease. It counts from when it has seen the last grant first.
func (m *manager) readPromise(l lease, now int) {
	if !m.observed.seen || m.observed.revision != l.revision {
		m.observed = observed{l.revision, now, true}
	}
	m.notePromise(l, now)
}

func (m *manager) notePromise(l lease, now int) {
	m.promise = fencing.Promise{Begun: at(now), Ended: at(now), State: l.state}
	if l.boot > 0 {
		m.promise.Boot = fmt.Sprint(l.boot)
	}
	if l.state == fencing.Revoked && l.timed {
		m.promise.Expires = at(m.observed.at + expiresAfter)
		m.promise.Expired = !m.promise.Begun.Before(m.promise.Expires)
	}
}

// writePromise has the manager revoke or free the promise, if the Lease is as it has read it.
func (w *world) writePromise(k fencing.StepKind) {
	m := &w.manager
	if m.observed.revision != w.lease.revision {
		m.promise = fencing.Promise{} // it is read again
		return
	}
	w.lease.revision++
	m.observed.revision = w.lease.revision
	w.lease.state = fencing.Revoked
	if k == fencing.FreePromise {
		w.lease.state = fencing.NoPromise
	}
	m.notePromise(w.lease, w.now)
}

// promiseKey is what of a promise decides about what follows.
type promiseKey struct {
	state, read     fencing.PromiseState
	boot            int
	about           string
	timed, bound    bool
	grant, observed int
	expires, begun  int
	seen, current   bool
	stale           bool
}

func (w *world) promiseKey() promiseKey {
	const old = 4 // ticks, more than a grant lasts and than the manager expiresAfter
	m := &w.manager
	k := promiseKey{
		state: w.lease.state, read: m.promise.State, boot: w.lease.boot, about: m.promise.Boot, timed: w.lease.timed, bound: w.lease.bound,
		seen: m.observed.seen, current: m.observed.revision == w.lease.revision, stale: m.promise.Begun.Before(at(m.begun)),
	}
	if w.lease.bound {
		k.grant = min(w.now-w.lease.grant, old)
	}
	if m.observed.seen {
		k.observed = min(w.now-m.observed.at, old)
	}
	if !m.promise.Expires.IsZero() {
		k.expires = max(int(m.promise.Expires.Sub(at(w.now))/tick), -1)
		if !m.promise.Begun.Before(m.promise.Expires) {
			k.expires = -2
		}
	}
	k.begun = -1
	if !m.promise.Begun.IsZero() {
		k.begun = min(int(at(w.now).Sub(m.promise.Begun)/tick), 1)
	}
	return k
}

// TestSmallWorldsByPromise (I12, I13): a node that fences itself is released only once it was reset.
func TestSmallWorldsByPromise(t *testing.T) {
	worlds := map[string]struct {
		setup setup
		long  bool
	}{
		"a crash":              {setup{config: config(byPromise), budget: budget{crashes: 1}}, false},
		"a cut that heals":     {setup{config: config(byPromise), budget: budget{heals: 1, withdrawals: 1}}, false},
		"deleted in between":   {setup{config: config(byPromise), budget: budget{deletions: 1}}, false},
		"freed by others":      {setup{config: config(byPromise), budget: budget{frees: 1}}, false},
		"a person":             {setup{config: config(byPromise), budget: budget{flips: 1}}, false},
		"two persons":          {setup{config: config(byPromise), budget: budget{flips: 2}}, true},
		"held":                 {setup{config: config(byPromise), hold: true, budget: budget{crashes: 1, heals: 1}}, false},
		"held and deleted":     {setup{config: config(byPromise), hold: true, budget: budget{deletions: 1, heals: 1}}, false},
		"without an agent":     {setup{config: config(byPromise), cut: true, budget: budget{flips: 1, deletions: 1}}, false},
		"by deletion":          {setup{config: config(byPromise, deleteNode), budget: budget{crashes: 1, heals: 1}}, false},
		"a second attempt":     {setup{config: config(byPromise, retry), budget: budget{heals: 1}}, true},
		"stays sick":           {setup{config: config(byPromise, retry), budget: budget{sick: 2}}, true},
		"the clock is put":     {setup{config: config(byPromise), budget: budget{crashes: 1, steps: 1}}, true},
		"deleted, and a crash": {setup{config: config(byPromise), budget: budget{deletions: 1, crashes: 1, heals: 1}}, true},
	}
	for name, w := range worlds {
		t.Run(name, func(t *testing.T) {
			if w.long && testing.Short() {
				t.Skip("a big world")
			}
			t.Parallel()
			w.setup.next, w.setup.settles = fencing.Next, true
			story, states := walk(t, &w.setup, 6_000_000)
			if len(story) > 0 {
				t.Error(strings.Join(story, "\n"))
			}
			t.Logf("%d states", states)
		})
	}
}

// TestPlantedFaultsByPromise: the small worlds find rules of promises that are left out.
func TestPlantedFaultsByPromise(t *testing.T) {
	seeing := func(change func(r fencing.Record, f *fencing.Facts)) func(fencing.Config, fencing.Record, fencing.Facts) fencing.Step {
		return func(c fencing.Config, r fencing.Record, f fencing.Facts) fencing.Step {
			change(r, &f)
			return fencing.Next(c, r, f)
		}
	}
	faults := map[string]struct {
		change func(fencing.Record, *fencing.Facts)
		setup  setup
	}{
		"a promise that was revoked is a proof": {func(_ fencing.Record, f *fencing.Facts) {
			if f.Promise.State == fencing.Revoked {
				f.Promise.Expires, f.Promise.Expired = f.Promise.Begun, true
			}
		}, setup{config: config(byPromise)}},
		"a promise that is not timed expires": {func(_ fencing.Record, f *fencing.Facts) {
			if f.Promise.State == fencing.Revoked && f.Promise.Expires.IsZero() {
				f.Promise.Expires, f.Promise.Expired = f.Now.Add(-time.Second), true
			}
		}, setup{config: config(byPromise), hold: true}},
		"a promise that stands expires": {func(_ fencing.Record, f *fencing.Facts) {
			if f.Promise.State == fencing.Promised {
				f.Promise.State, f.Promise.Expires, f.Promise.Expired = fencing.Revoked, f.Now, true
			}
		}, setup{config: config(byPromise)}},
		"no promise is a proof": {func(r fencing.Record, f *fencing.Facts) {
			if f.Promise.State == fencing.NoPromise {
				f.Promise.State, f.Promise.Boot, f.Promise.Expires, f.Promise.Expired = fencing.Revoked, r.BootID, f.Promise.Begun, true
			}
		}, setup{config: config(byPromise), cut: true}},
	}
	for name, f := range faults {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f.setup.next = seeing(f.change)
			story, states := walk(t, &f.setup, 2_000_000)
			if len(story) == 0 || !strings.HasPrefix(story[len(story)-1], "I13") {
				t.Errorf("in %d states the story was %q, want a complaint of I13", states, story)
			}
		})
	}
}
