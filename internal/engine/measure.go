package engine

import (
	"context"
	"time"

	"github.com/fettle-io/fettle/internal/contain"
	"github.com/fettle-io/fettle/internal/core"
)

// Pass looks at the fleet once and does what follows. It returns when the next pass is due without
// any event, the zero time for never. After an error the pass is to be repeated with a back-off;
// what it did before stays done and is not done again.
//
// When the context ends, it begins nothing more, gives calls under way a few seconds, and returns. A pass that panics ends
// with an error. What it remembers by then is true, each fact by itself.
func (e *Engine) Pass(ctx context.Context) (time.Time, error) {
	began := e.Now()
	var next time.Time
	err := contain.Run(func() (err error) {
		next, err = e.pass(ctx)
		return err
	})
	e.Metrics.hasPassed(e.Fleet, e.Now().Sub(began), err)
	return next, err
}

// deliberate decides once.
func (e *Engine) deliberate(w *world) core.Decision {
	began := e.Now()
	d := core.Decide(w.policies, w.fleet, w.now)
	e.Metrics.hasDecided(e.Now().Sub(began))
	return d
}

// measure takes in what was decided.
func (e *Engine) measure(w *world, d core.Decision) {
	if e.Metrics == nil {
		return
	}
	e.Metrics.hasMeasured(e.stopwatch.Read(w.policies, &w.fleet, d, w.now)...)
	e.Metrics.nowStands(e.Fleet, w, d)
}

// measureDeed takes in a repair that was recorded, and how its remedy answered.
func (e *Engine) measureDeed(w *world, do *deed) {
	policy := &w.policies[do.policy]
	started := do.repair.Started
	if do.entry != nil {
		started = do.entry.Started
		e.Metrics.hasStarted(policy, do.entry.Ladder)
		if sample, measured := e.stopwatch.Started(policy.ID, w.fleet.Targets[do.target].ID, started); measured {
			e.Metrics.hasMeasured(sample)
		}
	}
	switch {
	case do.refused != nil:
		e.Metrics.hasRefused(policy, do.step.Remedy)
	case do.beginning == core.Accepted && len(do.repair.Rungs) == 0:
		e.Metrics.hasBegun(do.answered.Sub(started))
	}
}
