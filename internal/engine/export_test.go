package engine

import (
	"context"
	"errors"
	"time"

	"github.com/fettle-io/fettle/internal/core"
	"github.com/fettle-io/fettle/internal/pass"
)

// Carry is a pass whose decision a script makes instead of the core.
func (e *Engine) Carry(ctx context.Context, script func(d *core.Decision, fleet *core.Fleet)) (time.Time, error) {
	s, err := e.observe()
	if err != nil {
		return time.Time{}, err
	}
	scripted := false
	p := pass.New(e.passConfig(func(policies []core.Policy, fleet core.Fleet, now time.Time) core.Decision {
		d := core.Decide(policies, fleet, now)
		if scripted {
			return d
		}
		scripted = true
		d.Starts, d.Acts, d.Finishes, d.Confirm, d.NextAt = nil, nil, nil, nil, time.Time{}
		d.Advances, d.Withdrawals, d.Notes, d.Holds = nil, nil, nil, nil
		script(&d, &fleet)
		return d
	}), &e.state, s)
	err = errors.Join(e.run(ctx, p), failures(p))
	e.Metrics.hasPassed(e.Fleet, 0, err)
	return p.Next(), err
}

// Seen is the fleet and the policies that a pass would decide on.
func (e *Engine) Seen() ([]core.Policy, core.Fleet, error) {
	s, err := e.observe()
	if err != nil {
		return nil, core.Fleet{}, err
	}
	undecided := func(policies []core.Policy, _ core.Fleet, _ time.Time) core.Decision {
		return core.Decision{Tallies: make([]core.Tally, len(policies))}
	}
	p := pass.New(e.passConfig(undecided), &e.state, s)
	return p.Policies(), *p.Fleet(), nil
}

// Queued is how many fleets wait for a pass.
func (l *Loop) Queued() int { return l.queue.Len() }
