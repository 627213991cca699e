package engine

import (
	"context"
	"errors"
	"time"

	"github.com/fettle-io/fettle/internal/core"
	"github.com/fettle-io/fettle/internal/pass"
)

// PassWith runs a pass with the decision of a script.
func (e *Engine) PassWith(ctx context.Context, script func(d *core.Decision, cluster *core.Cluster)) (time.Time, error) {
	s, err := e.observe()
	if err != nil {
		return time.Time{}, err
	}
	scripted := false
	p := pass.New(e.passConfig(func(policies []core.Policy, cluster core.Cluster, now time.Time) core.Decision {
		d := core.Decide(policies, cluster, now)
		if scripted {
			return d
		}
		scripted = true
		d.Starts, d.StepStarts, d.Finishes, d.Confirm, d.NextAt = nil, nil, nil, nil, time.Time{}
		d.Escalations, d.Withdrawals, d.Notes, d.LeaseHolds = nil, nil, nil, nil
		script(&d, &cluster)
		return d
	}), &e.state, s)
	err = errors.Join(e.run(ctx, p), joinFailures(p))
	e.Metrics.observePass(e.ClusterKey, 0, err)
	return p.Next(), err
}

// Observed returns the policies and the cluster that a pass would decide on.
func (e *Engine) Observed() ([]core.Policy, core.Cluster, error) {
	s, err := e.observe()
	if err != nil {
		return nil, core.Cluster{}, err
	}
	undecided := func(policies []core.Policy, _ core.Cluster, _ time.Time) core.Decision {
		return core.Decision{Tallies: make([]core.Tally, len(policies))}
	}
	p := pass.New(e.passConfig(undecided), &e.state, s)
	return p.Policies(), *p.Cluster(), nil
}

// Queued returns the number of clusters that wait for a pass.
func (l *Loop) Queued() int { return l.queue.Len() }
