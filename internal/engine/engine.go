package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/go-logr/logr"

	"github.com/fettle-io/fettle/internal/core"
)

// Config is what an engine needs. Every field is required but Fleet, Surveyors, Quorum, Lock and Metrics.
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
	// Remedies by the name that a ladder calls them.
	Remedies map[string]Remedy
	// Retention bounds how long finished repairs are kept.
	Retention core.Retention
	// Now is the clock.
	Now func() time.Time
	Log logr.Logger
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
	// vouched are the UIDs of targets of whom nothing is asked any more and whose confirmation is still to be taken back.
	vouched []string
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
	blocked, unrecorded := e.record(ctx, w, d)
	e.announce(w, e.journal.News(w.policies, &w.fleet, d))

	changes := changesOf(w, d)
	ahead := e.preview(w, d)
	var kept *upkeep
	var beside sync.WaitGroup
	beside.Go(func() { kept = e.keepUp(ctx, w, d, changes) })
	var marked marking
	beside.Go(e.marker(ctx, w, d, &marked))
	beside.Go(func() { ahead.read(ctx, e.Now) })
	repeat, acted := e.act(ctx, w, d, deedsOf(w, d, blocked, changes))
	beside.Wait()
	ahead.remember(&e.memory)
	repeat = repeat || marked.more || kept.overtaken()
	changed, unkept := e.settle(w, d, kept)
	finished := e.finish(ctx, w, d)
	nextDrop, dropped := e.prune(ctx, w)

	next := earliest(earliest(e.foresee(w, d, ahead), nextDrop), e.digest.NextAt())
	if changed { // the next step is due
		next = w.now
	}
	// What has ended made room that this decision could not count on.
	if repeat || (len(d.Finishes) > 0 && finished == nil) {
		next = earliest(next, w.now.Add(again))
	}
	return next, errors.Join(unrecorded, acted, unkept, marked.failed, finished, dropped)
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
		return w, nil
	}
	w.fleet.Observed, w.fleet.Repairs = core.Yes, entries
	for _, s := range e.Surveyors {
		s.Survey(w.policies, &w.fleet)
	}
	e.memory.Lay(&w.fleet, w.now)
	w.leaveAlone(kinds)
	e.memory.LayPolicies(w.policies)
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
	for range o.Targets {
		w.targetsFrom = append(w.targetsFrom, dialect)
	}
}

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
		w.now = e.Now()
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

// record writes what was found. It returns the targets for which nothing may start, since the
// status of a policy that selects them could not be written.
func (e *Engine) record(ctx context.Context, w *world, d core.Decision) (map[int]bool, error) {
	reports := map[Dialect][]core.PolicyReport{}
	for _, r := range d.Reports(w.policies, &w.fleet) {
		if !r.Policy.Settled() {
			continue
		}
		of := w.dialectOf[r.Policy.ID]
		reports[of] = append(reports[of], r)
	}
	blocked := map[int]bool{}
	var errs []error
	for _, dialect := range e.Dialects {
		if err := ctx.Err(); err != nil {
			return blocked, errors.Join(append(errs, err)...) // nothing starts any more
		}
		limited, cancel := within(ctx, recordTimeout)
		failed := dialect.Record(limited, reports[dialect])
		cancel()
		for id, err := range failed {
			errs = append(errs, fmt.Errorf("recording the status of %s: %w", id, err))
			for i := range w.policies {
				if w.policies[i].ID == id {
					blockMembers(blocked, w.policies[i].Members)
				}
			}
		}
	}
	return blocked, errors.Join(errs...)
}

func blockMembers(blocked map[int]bool, members []int) {
	for _, m := range members {
		blocked[m] = true
	}
}

// announce tells people, by the dialect of each policy. What was gathered about one that is gone by
// now is of no use to anybody.
func (e *Engine) announce(w *world, happenings []core.Happening) {
	e.tell(happenings)
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
