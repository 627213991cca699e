package engine

import (
	"context"
	"time"

	"github.com/fettle-io/fettle/internal/core"
)

// Carry observes, and carries out what a script decides of it instead of the core. It is a pass whose
// decision a test can choose.
func (e *Engine) Carry(ctx context.Context, script func(d *core.Decision, fleet *core.Fleet)) (time.Time, error) {
	w, err := e.observe()
	if err != nil {
		return time.Time{}, err
	}
	d := core.Decide(w.policies, w.fleet, w.now)
	d.Starts, d.Acts, d.Finishes, d.Confirm, d.NextAt = nil, nil, nil, nil, time.Time{}
	d.Advances, d.Withdrawals, d.Notes, d.Holds = nil, nil, nil, nil
	script(&d, &w.fleet)
	next, err := e.carryOut(ctx, w, d)
	e.Metrics.hasPassed(e.Fleet, 0, err)
	return next, err
}

// Seen is the fleet and the policies that a pass would decide on.
func (e *Engine) Seen() ([]core.Policy, core.Fleet, error) {
	w, err := e.observe()
	if err != nil {
		return nil, core.Fleet{}, err
	}
	return w.policies, w.fleet, nil
}

// Queued is how many fleets wait for a pass.
func (l *Loop) Queued() int { return l.queue.Len() }
