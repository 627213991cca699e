package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/fettle-io/fettle/internal/core"
)

// deed is one repair to record, unless it is recorded already, and to begin.
type deed struct {
	target, policy int
	verdict        core.Verdict
	repair         core.Repair
	// step is the one to take, nil when the repair has none.
	step *core.Step
	// entry is nil for a repair that the ledger has already.
	entry          *core.Entry
	contemporaries []string

	// affirmed is when the policies that select the target were last known to stand as decided.
	affirmed time.Time

	recorded bool
	// written is set when something about the repair is to be remembered until the ledger's cache shows it.
	written bool
	// overtaken is set when somebody else has written the record before it could tell that the target is handed over.
	// The step is taken again then, by whatever the record says by now.
	overtaken bool
	// admitted is set when no limit stands against it, whoever else records repairs meanwhile.
	admitted  bool
	beginning core.Beginning
	refused   error
	// answered is when the remedy did.
	answered time.Time
}

// act starts repairs. Each is recorded before its remedy begins; one that can't be recorded is not
// begun. It tells whether the fleet should be looked at again soon.
func (e *Engine) act(ctx context.Context, w *world, d core.Decision, deeds []deed) (bool, error) {
	if len(deeds) == 0 {
		return false, nil
	}
	deeds, repeat, unaffirmed := e.affirm(ctx, w, deeds)
	if len(deeds) == 0 {
		return repeat, unaffirmed
	}
	undone, unread := e.perform(ctx, w, d, deeds)
	var happenings []core.Happening
	for i := range deeds {
		h, soon := e.remember(w, &deeds[i])
		// A pass that fails is repeated after pauses that grow, which looking again would cut short.
		repeat = repeat || (soon && undone[i] == nil && unread == nil)
		happenings = append(happenings, h...)
	}
	e.announce(w, happenings)
	return repeat, errors.Join(unaffirmed, joined(undone), unread)
}

// perform records repairs and begins their remedies. Where a limit may be contested, all are recorded
// before any begins. It gives the error of each deed, and that of asking which may begin.
func (e *Engine) perform(ctx context.Context, w *world, d core.Decision, deeds []deed) ([]error, error) {
	if !core.Contested(w.policies, &w.fleet, d, targetsOf(deeds)) {
		return inParallel(ctx, len(deeds), deedTimeout, func(ctx context.Context, i int) error {
			if err := e.recordRepair(ctx, w, &deeds[i]); err != nil {
				return err
			}
			deeds[i].admitted = deeds[i].recorded
			return e.begin(ctx, w, &deeds[i])
		}), nil
	}
	undone := inParallel(ctx, len(deeds), callTimeout, func(ctx context.Context, i int) error {
		return e.recordRepair(ctx, w, &deeds[i])
	})
	if err := e.admit(ctx, w, d, deeds); err != nil {
		return undone, err
	}
	unbegun := inParallel(ctx, len(deeds), deedTimeout, func(ctx context.Context, i int) error {
		return e.begin(ctx, w, &deeds[i])
	})
	for i, err := range unbegun {
		undone[i] = errors.Join(undone[i], err)
	}
	return undone, nil
}

func targetsOf(deeds []deed) []int {
	targets := make([]int, len(deeds))
	for i := range deeds {
		targets[i] = deeds[i].target
	}
	return targets
}

// deedsOf gives what is to be done for targets that are not blocked. A repair the record of which changes in
// this pass has its turn in the next.
func deedsOf(w *world, d core.Decision, blocked map[int]bool, changes []change) []deed {
	changing := map[int]bool{}
	for i := range changes {
		changing[changes[i].index] = true
	}
	deeds := make([]deed, 0, len(d.Acts)+len(d.Starts))
	for _, a := range d.Acts {
		if !blocked[a.Target] && !changing[a.Repair] {
			deeds = append(deeds, carryingOn(&w.fleet.Repairs[a.Repair], a))
		}
	}
	for _, s := range d.Starts {
		if !blocked[s.Target] {
			deeds = append(deeds, w.starting(s))
		}
	}
	return deeds
}

// carryingOn is the next step of a repair by the ladder that it was recorded with.
func carryingOn(r *core.Repair, a core.Act) deed {
	do := deed{target: a.Target, policy: a.Policy, verdict: a.Verdict, repair: *r, recorded: true}
	if at := len(r.Rungs); at < len(r.Ladder) {
		do.step = &r.Ladder[at]
	}
	return do
}

func (w *world) starting(s core.Start) deed {
	policy := &w.policies[s.Policy]
	do := deed{
		target: s.Target, policy: s.Policy, verdict: s.Verdict, contemporaries: s.Contemporaries,
		entry: &core.Entry{
			Name: s.Name, Target: w.fleet.Targets[s.Target], Policy: *policy,
			Verdict: s.Verdict, Ladder: s.Ladder, Retry: s.Retry, Started: w.now, Requested: s.Requested,
		},
	}
	if len(s.Ladder) > 0 {
		do.step = &s.Ladder[0]
	}
	return do
}

// recordRepair records one repair, unless it is recorded already.
func (e *Engine) recordRepair(ctx context.Context, w *world, do *deed) error {
	if do.entry == nil {
		return nil
	}
	repair, created, err := e.Ledger.Open(ctx, *do.entry)
	if err != nil {
		return fmt.Errorf("recording the repair of %s: %w", w.fleet.Targets[do.target].ID, err)
	}
	if created {
		repair.Contemporaries = do.contemporaries
		do.repair, do.recorded, do.written = repair, true, true
	}
	return nil
}

// admit asks which of the repairs may begin, all things considered that are recorded by now.
func (e *Engine) admit(ctx context.Context, w *world, d core.Decision, deeds []deed) error {
	if !slices.ContainsFunc(deeds, func(do deed) bool { return do.recorded }) {
		return nil
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	limited, cancel := within(ctx, callTimeout)
	defer cancel()
	running, err := e.Witness.Running(limited)
	if err != nil {
		return fmt.Errorf("reading which repairs run: %w", err)
	}
	policies, fleet := core.Fenced(w.policies, w.fleet, w.withoutGone(running, d))
	fleet.ClockAgrees = e.Clock.Agrees()
	for _, a := range core.Decide(policies, fleet, w.later(e.Now())).Acts {
		r := &fleet.Repairs[a.Repair]
		for i := range deeds {
			// Somebody else may have given up the step meanwhile.
			if do := &deeds[i]; do.repair.Namespace == r.Namespace && do.repair.Name == r.Name && len(do.repair.Rungs) == a.Step {
				do.admitted = do.recorded
			}
		}
	}
	for i := range deeds {
		if do := &deeds[i]; do.recorded && !do.admitted {
			e.Log.Info("repair waits, since what others have recorded meanwhile leaves no room for it",
				"repair", do.repair.Name, "target", w.fleet.Targets[do.target].ID.String())
		}
	}
	return nil
}

// withoutGone leaves out the repairs whose targets are gone, which is recorded later in this pass.
func (w *world) withoutGone(running []core.Repair, d core.Decision) []core.Repair {
	type key struct{ namespace, name string }
	over := map[key]bool{}
	for _, f := range d.Finishes {
		if r := &w.fleet.Repairs[f.Repair]; f.Outcome == core.Succeeded {
			over[key{r.Namespace, r.Name}] = true
		}
	}
	return slices.DeleteFunc(running, func(r core.Repair) bool { return over[key{r.Namespace, r.Name}] })
}

// mostDropped bounds the finished repairs that one pass deletes. Nothing waits for that, and there may be very many.
const mostDropped = 100

// prune deletes finished repairs that the retention no longer keeps, and returns when there may be more. A repair that has
// changed since it was read is looked at again. By a clock that is wrong a repair that back-off reads may seem old, so nothing
// is deleted then (I6). A pass follows once the clocks agree.
func (e *Engine) prune(ctx context.Context, w *world, d core.Decision) (time.Time, error) {
	if w.fleet.ClockAgrees != core.Yes || e.Clock.Agrees() != core.Yes {
		return time.Time{}, nil
	}
	expired, next := e.Retention.Expired(&w.fleet, d.Verdicts, w.now)
	if len(expired) > mostDropped {
		expired, next = expired[:mostDropped], w.now.Add(again)
	}
	dropped := make([]bool, len(expired))
	errs := inParallel(ctx, len(expired), callTimeout, func(ctx context.Context, i int) (err error) {
		r := w.fleet.Repairs[expired[i]]
		if dropped[i], err = e.Pruner.Drop(ctx, r); err != nil {
			return fmt.Errorf("deleting finished repair %s: %w", r.Name, err)
		}
		return nil
	})
	for i, r := range expired {
		switch {
		case dropped[i]:
			e.memory.Dropped(w.fleet.Repairs[r])
		case errs[i] == nil:
			next = earliest(next, w.now.Add(again))
		}
	}
	return next, joined(errs)
}
