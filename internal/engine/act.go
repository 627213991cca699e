package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/fettle-io/fettle/internal/core"
)

// finish closes the repairs that have come to their end.
func (e *Engine) finish(ctx context.Context, w *world, d core.Decision) error {
	ended := make([]core.Repair, len(d.Finishes))
	errs := inParallel(ctx, len(d.Finishes), callTimeout, func(ctx context.Context, i int) error {
		f := d.Finishes[i]
		r := w.fleet.Repairs[f.Repair]
		r.Ended, r.Outcome = w.now, f.Outcome
		if err := e.Ledger.Amend(ctx, r, f.Text, nil); err != nil {
			return fmt.Errorf("recording the end of repair %s: %w", r.Name, err)
		}
		ended[i] = r
		return nil
	})
	for i := range ended {
		if errs[i] == nil {
			e.memory.Recorded(ended[i], w.now)
			e.Metrics.hasEnded(w.policies, ended[i])
			e.Log.Info("repair ended", "repair", ended[i].Name, "target", ended[i].Target.String(), "outcome", ended[i].Outcome.String())
		}
	}
	return joined(errs)
}

// deed is one repair to record, unless it is recorded already, and to begin.
type deed struct {
	target, policy int
	verdict        core.Verdict
	repair         core.Repair
	// entry is nil for a repair that the ledger has already.
	entry          *core.Entry
	contemporaries []string

	recorded bool
	// admitted is set when no limit stands against it, whoever else records repairs meanwhile.
	admitted  bool
	beginning core.Beginning
	refused   error
	// answered is when the remedy did.
	answered time.Time
}

// act starts repairs. Each is recorded before its remedy begins; one that can't be recorded is not
// begun. It tells whether the fleet should be looked at again soon.
func (e *Engine) act(ctx context.Context, w *world, d core.Decision, blocked map[int]bool) (bool, error) {
	deeds := deedsOf(w, d, blocked)
	if len(deeds) == 0 {
		return false, nil
	}
	undone, unread := e.perform(ctx, w, d, deeds)
	repeat := false
	var happenings []core.Happening
	for i := range deeds {
		h, soon := e.remember(w, &deeds[i])
		// A pass that fails is repeated after pauses that grow, which looking again would cut short.
		repeat = repeat || (soon && undone[i] == nil && unread == nil)
		happenings = append(happenings, h...)
	}
	e.announce(w, happenings)
	return repeat, errors.Join(joined(undone), unread)
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

func deedsOf(w *world, d core.Decision, blocked map[int]bool) []deed {
	deeds := make([]deed, 0, len(d.Acts)+len(d.Starts))
	for _, a := range d.Acts {
		if !blocked[a.Target] {
			deeds = append(deeds, deed{target: a.Target, policy: a.Policy, verdict: a.Verdict, repair: w.fleet.Repairs[a.Repair], recorded: true})
		}
	}
	for _, s := range d.Starts {
		if !blocked[s.Target] {
			deeds = append(deeds, deed{
				target: s.Target, policy: s.Policy, verdict: s.Verdict, contemporaries: s.Contemporaries,
				entry: &core.Entry{
					Name: s.Name, Target: w.fleet.Targets[s.Target], Policy: w.policies[s.Policy],
					Verdict: s.Verdict, Retry: s.Retry, Started: w.now,
				},
			})
		}
	}
	return deeds
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
		do.repair, do.recorded = repair, true
	}
	return nil
}

// admit asks which of the repairs may begin, all things considered that are recorded by now.
func (e *Engine) admit(ctx context.Context, w *world, d core.Decision, deeds []deed) error {
	if !slices.ContainsFunc(deeds, func(do deed) bool { return do.recorded }) {
		return nil
	}
	limited, cancel := within(ctx, callTimeout)
	defer cancel()
	running, err := e.Witness.Running(limited)
	if err != nil {
		return fmt.Errorf("reading which repairs run: %w", err)
	}
	policies, fleet := core.Fenced(w.policies, w.fleet, w.withoutGone(running, d))
	for _, a := range core.Decide(policies, fleet, e.Now()).Acts {
		r := &fleet.Repairs[a.Repair]
		for i := range deeds {
			if do := &deeds[i]; do.repair.Namespace == r.Namespace && do.repair.Name == r.Name {
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

// refusedText is what a repair says of itself after such a call.
const refusedText = "the remedy was refused and is tried again after a pause"

// begin calls the remedy of one repair.
func (e *Engine) begin(ctx context.Context, w *world, do *deed) error {
	if !do.admitted {
		return nil
	}
	target := w.fleet.Targets[do.target]
	// Since the node was read, calls may have hung, or the whole process may have been stopped.
	if !target.Confirmed(e.Now()) {
		return nil
	}
	name := w.policies[do.policy].Ladder[0].Remedy
	remedy := e.Remedies[name]
	if remedy == nil {
		return fmt.Errorf("repairing %s: no remedy is called %q", target.ID, name)
	}
	limited, cancel := context.WithTimeout(ctx, remedyTimeout)
	answer, err := remedy.Begin(limited, core.Order{Target: target, Policy: w.policies[do.policy].ID, Step: w.policies[do.policy].Ladder[0], Repair: do.repair.Name})
	cancel()
	if err != nil && cutOff(ctx) {
		return fmt.Errorf("repairing %s was cut off, and whoever leads next goes on with it: %w", target.ID, err)
	}
	do.beginning, do.refused, do.answered = answer, err, e.Now()
	if err == nil {
		return nil
	}
	do.repair.Attempts++
	do.repair.LastAttempt = e.Now()
	if err := e.Ledger.Amend(ctx, do.repair, refusedText, err); err != nil {
		return fmt.Errorf("recording an attempt of repair %s: %w", do.repair.Name, err)
	}
	return nil
}

// remember keeps what was done until the caches show it, and says what happened.
func (e *Engine) remember(w *world, do *deed) ([]core.Happening, bool) {
	if !do.recorded {
		return nil, true
	}
	e.memory.Recorded(do.repair, w.now)
	e.measureDeed(w, do)
	target := w.fleet.Targets[do.target]
	h := core.Happening{
		Policy: w.policies[do.policy].ID, Target: target.ID, Node: target.Node.Name, Text: do.verdict.Text(),
	}
	switch {
	case do.beginning == 0 && do.refused == nil: // the call was cut off, or not made
		return nil, true
	case do.refused != nil:
		h.Kind, h.Text = core.Refused, do.refused.Error()
		e.Log.Error(do.refused, "remedy was refused", "repair", do.repair.Name, "target", target.ID.String(), "attempts", do.repair.Attempts)
		return []core.Happening{h}, true
	case do.beginning == core.Accepted:
		e.memory.Deleted(target.ID)
		h.Kind = core.Begun
		e.Log.Info("repair begun", "repair", do.repair.Name, "target", target.ID.String(), "policy", h.Policy.String())
		return []core.Happening{h}, false
	}
	e.Log.Info("target changed before its repair began; looking again", "repair", do.repair.Name, "target", target.ID.String(), "answer", do.beginning.String())
	return nil, true
}

// prune deletes finished repairs whose time is over, and tells when the next one's will be.
func (e *Engine) prune(ctx context.Context, w *world) (time.Time, error) {
	expired, next := e.Retention.Expired(w.fleet.Repairs, w.now)
	errs := inParallel(ctx, len(expired), callTimeout, func(ctx context.Context, i int) error {
		r := w.fleet.Repairs[expired[i]]
		if err := e.Pruner.Drop(ctx, r); err != nil {
			return fmt.Errorf("deleting finished repair %s: %w", r.Name, err)
		}
		return nil
	})
	for i, r := range expired {
		if errs[i] == nil {
			e.memory.Dropped(w.fleet.Repairs[r])
		}
	}
	return next, joined(errs)
}
