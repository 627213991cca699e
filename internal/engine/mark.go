package engine

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/fettle-io/fettle/internal/core"
)

// standBy has the dialects that don't know their fleet say so.
func (e *Engine) standBy(ctx context.Context, w *world) error {
	if w == nil {
		return nil
	}
	var errs []error
	for _, dialect := range w.unknown {
		bystander, tells := dialect.(Bystander)
		if !tells {
			continue
		}
		limited, cancel := within(ctx, recordTimeout)
		if err := bystander.StandBy(limited); err != nil {
			errs = append(errs, fmt.Errorf("telling why nothing is done: %w", err))
		}
		cancel()
	}
	return errors.Join(errs...)
}

// marking is how the writing on targets went.
type marking struct {
	// more is set when some of it is left for later.
	more   bool
	failed error
}

// marker gives the work of writing on targets how they were judged. What it reads of the world is gathered
// before it runs, since it runs beside stages that change that.
func (e *Engine) marker(ctx context.Context, w *world, d core.Decision, m *marking) func() {
	var work []func() (bool, error)
	for _, dialect := range e.Dialects {
		marker, marks := dialect.(Marker)
		if !marks {
			continue
		}
		judged := w.judgedFrom(dialect, d)
		fleet := core.Fleet{Observed: w.fleet.Observed, Targets: w.fleet.Targets}
		work = append(work, func() (bool, error) {
			limited, cancel := within(ctx, e.leisure(d.NextAt))
			defer cancel()
			return marker.Mark(limited, w.policies, &fleet, judged)
		})
	}
	return func() {
		var errs []error
		for _, do := range work {
			left, err := do()
			m.more = m.more || left
			errs = append(errs, err)
		}
		m.failed = errors.Join(errs...)
	}
}

// leisure is how long a pass may go on with what can wait: until something else is due, and nodes are read for that.
func (e *Engine) leisure(next time.Time) time.Duration {
	if next.IsZero() {
		return recordTimeout
	}
	return min(recordTimeout, max(0, next.Sub(e.Now())-foresight))
}

// judgedFrom gives the judgements on the targets of one dialect.
func (w *world) judgedFrom(dialect Dialect, d core.Decision) []core.Judgement {
	var judged []core.Judgement
	for _, j := range d.Judgements(w.policies, &w.fleet) {
		if w.targetsFrom[j.Target] == dialect {
			if j.Repair != nil {
				repair := *j.Repair // what is recorded of it may change meanwhile
				j.Repair = &repair
			}
			judged = append(judged, j)
		}
	}
	return judged
}
