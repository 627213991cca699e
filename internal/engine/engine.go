package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/go-logr/logr"

	"github.com/fettle-io/fettle/internal/contain"
	"github.com/fettle-io/fettle/internal/core"
)

// Config is what an engine needs. Every field is required but Fleet, Surveyors, Quorum, Lock, Siblings and Metrics.
type Config struct {
	// Fleet names the fleet among those that share Metrics; it may be empty where there is one.
	Fleet string
	// Dialects may be Confirmers too.
	Dialects []Dialect
	Ledger   Ledger
	Witness  Witness
	Pruner   Pruner
	// Surveyors are asked in their order, after all dialects.
	Surveyors []Surveyor
	// Quorum may be nil, and then nothing is known of it: no member of the control plane is repaired.
	Quorum Quorum
	// Lock may be nil, and then no leases are held.
	Lock Lock
	// Siblings returns the machine of a node that is no target itself, the zero ID for none, and false while that is not
	// known. It may be nil.
	Siblings func(core.Target) (core.ID, bool)
	// Remedies by the name that a ladder calls them.
	Remedies map[string]Remedy
	// Retention bounds how long finished repairs are kept.
	Retention core.Retention
	// Now is the clock, and Clock compares it with that of the API server.
	Now   func() time.Time
	Clock Clock
	Log   logr.Logger
	// Metrics may be nil, and then nothing is counted.
	Metrics *Metrics
}

// Engine keeps one fleet. Its methods must not be called concurrently.
type Engine struct {
	Config

	memory  core.Memory
	journal core.Journal
	digest  core.Digest

	stopwatch core.Stopwatch

	// lost are the leases that somebody else has taken from repairs under way, so that each is told once.
	lost map[leaseKey]bool
	// vouched are the targets of whom nothing is asked any more and whose confirmation is still to be taken back.
	vouched []core.ID
	// overlooked are the policies whose status says that they are not judged, with how many targets it says they select.
	overlooked map[core.ID]int
}

// New makes an engine that remembers nothing yet.
func New(c Config) *Engine {
	return &Engine{Config: c}
}

// again is how soon a pass is repeated after something it could not see through: a target that
// changed under its hands, or an entry of the ledger that somebody else made.
const again = time.Second

// pass is Pass without its measures.
func (e *Engine) pass(ctx context.Context) (time.Time, error) {
	w, err := e.observe()
	if err != nil || w.fleet.Observed != core.Yes {
		e.Metrics.standsBy(e.Fleet)
		return time.Time{}, errors.Join(err, e.standBy(ctx, w))
	}
	decision, unsure, unread := e.decide(ctx, w)
	if err := ctx.Err(); err != nil {
		return time.Time{}, err
	}
	next, err := e.carryOut(ctx, w, decision)
	if unsure {
		next = earliest(next, w.now.Add(again))
	}
	return next, errors.Join(unread, err)
}

// carryOut does what was decided, and tells when to look again. Nothing begins before the statuses are
// written. Beginning what is due, and the upkeep of what has begun, don't wait for each other: requests are
// withdrawn while creations hang (I12). Ends are recorded last, since nobody waits for those.
func (e *Engine) carryOut(ctx context.Context, w *world, d core.Decision) (time.Time, error) {
	e.measure(w, d)
	e.memory.Tallied(w.policies, d.Tallies)
	e.memory.Proved(&w.fleet, &d)
	recorded := e.record(ctx, w, d)
	e.announce(w, e.journal.News(w.policies, &w.fleet, d))

	changes := changesOf(w, d)
	ahead := e.preview(w, d)
	var kept *upkeep
	var beside contain.Group
	defer beside.Wait() // also when what follows panics
	beside.Go(func() { kept = e.keepUp(ctx, w, d, changes) })
	var marked marking
	beside.Go(e.marker(ctx, w, d, &marked))
	beside.Go(func() { ahead.read(ctx, e.Now) })
	repeat, acted := e.act(ctx, w, d, deedsOf(w, d, recorded.blocked, changes))
	beside.Wait()
	ahead.remember(&e.memory)
	repeat = repeat || recorded.more || marked.more || kept.overtaken()
	changed, unkept := e.settle(w, d, kept)
	finished := e.finish(ctx, w, d)
	nextDrop, dropped := e.prune(ctx, w, d)

	next := earliest(earliest(e.foresee(w, d, ahead), nextDrop), e.digest.NextAt())
	if changed { // the next step is due
		next = w.now
	}
	// What has ended made room that this decision could not count on.
	if repeat || (len(d.Finishes) > 0 && finished == nil) {
		next = earliest(next, w.now.Add(again))
	}
	return next, errors.Join(recorded.failed, acted, unkept, marked.failed, finished, dropped)
}

// world is what one pass sees.
type world struct {
	now      time.Time
	policies []core.Policy
	fleet    core.Fleet
	// dialectOf gives the dialect of each policy, targetsFrom that of each target.
	dialectOf   map[core.ID]Dialect
	targetsFrom []Dialect
	// unknown are the dialects that don't know what they would observe.
	unknown []Dialect
}

// observe takes the snapshot that the pass decides on.
func (e *Engine) observe() (*world, error) {
	w := &world{now: e.Now(), dialectOf: map[core.ID]Dialect{}}
	kinds, unknown := map[string]bool{}, false
	for _, dialect := range e.Dialects {
		o, err := dialect.Observe()
		if err != nil {
			e.memory.LayTests(nil, &w.fleet, w.now)
			return nil, fmt.Errorf("observing the fleet: %w", err)
		}
		switch o.Observed {
		case core.Yes:
			kinds[o.Kind] = true
			w.add(dialect, o)
		case core.Unknown: // it may have a policy that leads, or whose limits hold
			unknown = true
			w.unknown = append(w.unknown, dialect)
		case core.No:
		}
	}
	entries, inStep := e.Ledger.Entries()
	if unknown || len(kinds) == 0 || inStep != core.Yes {
		e.memory.LayTests(nil, &w.fleet, w.now)
		return w, nil
	}
	w.fleet.Observed, w.fleet.ClockAgrees, w.fleet.Repairs = core.Yes, e.Clock.Agrees(), entries
	core.Ration(w.policies, w.fleet.Targets, core.MostJudgements(len(w.fleet.Targets)))
	for _, s := range e.Surveyors {
		s.Survey(w.policies, &w.fleet)
	}
	e.memory.Lay(&w.fleet, w.now)
	w.leaveAlone(kinds)
	e.memory.LayPolicies(w.policies)
	e.memory.LayTests(w.policies, &w.fleet, w.now)
	return w, nil
}

// leaveAlone takes out the repairs of targets of a kind that nobody observes, and the requests for them.
// What is remembered may be of such a kind too, so this comes after it was laid over.
func (w *world) leaveAlone(kinds map[string]bool) {
	w.fleet.Repairs = slices.DeleteFunc(w.fleet.Repairs, func(r core.Repair) bool { return !kinds[r.Target.Kind] })
	w.fleet.Requests = slices.DeleteFunc(w.fleet.Requests, func(r core.Request) bool { return !kinds[r.Target.Kind] })
}

func (w *world) add(dialect Dialect, o core.Observation) {
	first := len(w.fleet.Targets)
	for i := range o.Policies {
		p := o.Policies[i]
		if first > 0 {
			members := make([]int, len(p.Members))
			for j, m := range p.Members {
				members[j] = m + first
			}
			p.Members = members
		}
		w.policies = append(w.policies, p)
		w.dialectOf[p.ID] = dialect
	}
	w.fleet.Targets = append(w.fleet.Targets, o.Targets...)
	w.fleet.Requests = append(w.fleet.Requests, o.Requests...)
	if o.Upgrading != core.Unknown || o.UpgradingWhy != "" {
		w.fleet.Upgrading, w.fleet.UpgradingWhy = o.Upgrading, o.UpgradingWhy
	}
	for range o.Targets {
		w.targetsFrom = append(w.targetsFrom, dialect)
	}
}

// later returns the instant of a pass at which the clock shows now. A clock that is set during the pass ends nothing early: what
// has passed is known by the monotonic clock.
func (w *world) later(now time.Time) time.Time { return w.now.Add(now.Sub(w.now)) }

// readRounds bounds how often one pass reads live and decides anew.
const readRounds = 3

// decide decides, and decides anew when the decision hangs on facts that must be read live first. It
// tells whether it still does after some rounds.
func (e *Engine) decide(ctx context.Context, w *world) (core.Decision, bool, error) {
	decision := e.deliberate(w)
	read := map[int]bool{}
	var failed error
	for range readRounds {
		unread := unreadOf(decision.Confirm, read)
		if len(unread) == 0 {
			return decision, false, failed
		}
		failed = errors.Join(failed, e.readLive(ctx, w, unread, decision.Polls))
		w.now, w.fleet.ClockAgrees = w.later(e.Now()), e.Clock.Agrees()
		for _, t := range unread {
			e.memory.LayLive(&w.fleet.Targets[t], w.now)
		}
		decision = e.deliberate(w)
	}
	return decision, len(unreadOf(decision.Confirm, read)) > 0, failed
}

func unreadOf(targets []int, read map[int]bool) []int {
	var unread []int
	for _, t := range targets {
		if !read[t] {
			read[t] = true
			unread = append(unread, t)
		}
	}
	return unread
}

// announce tells people, by the dialect of each policy. What was gathered about one that is gone by
// now is of no use to anybody.
func (e *Engine) announce(w *world, happenings []core.Happening) {
	e.tell(happenings)
	core.Relate(happenings, w.fleet.Repairs)
	told := map[Dialect][]core.Happening{}
	for _, h := range e.digest.Take(happenings, w.now) {
		if of := w.dialectOf[h.Policy]; of != nil {
			told[of] = append(told[of], h)
		}
	}
	for dialect, hs := range told {
		dialect.Announce(hs)
	}
}

func earliest(a, b time.Time) time.Time {
	if a.IsZero() || (!b.IsZero() && b.Before(a)) {
		return b
	}
	return a
}
