package engine

import (
	"context"
	"slices"
	"time"

	"github.com/fettle-io/fettle/internal/core"
)

// foresight is how long before a deadline the nodes are read live whose time is up then, so that at the deadline
// nothing but their repair is left to do. What changes meanwhile shows in the cache, and is read once more.
const foresight = time.Second

// preview is the nodes that are to be confirmed at the next deadline, as they are read ahead of it.
type preview struct {
	// near is set when that deadline is: nothing is to be read before it but this. left is the time until then.
	near    bool
	left    time.Duration
	targets []core.Target
	from    []Dialect
	// found and at belong to the targets; at is zero for one that could not be read. It is read at the deadline.
	found []core.Node
	at    []time.Time
}

// preview gathers whose nodes are to be read now for the next deadline, if that is near. Reading them runs beside what
// the pass does, which changes the world: in an outage deadlines are whole seconds apart, as kubelets tell the time, so
// when the nodes of one are to be read those of the one before it are being repaired.
func (e *Engine) preview(w *world, d core.Decision) *preview {
	p := &preview{}
	now := e.Now()
	if !w.dueAt(d, d.NextAt) || !d.NextAt.After(now) || d.NextAt.Add(-foresight).After(now) {
		return p
	}
	p.near, p.left = true, d.NextAt.Sub(now)
	ahead := core.Decide(w.policies, w.fleet, d.NextAt)
	for _, t := range ahead.Confirm {
		// The quorum of a control plane is asked for when it matters.
		if !slices.Contains(ahead.Polls, t) && w.fleet.Targets[t].Node.State == core.NodePresent {
			p.targets, p.from = append(p.targets, w.fleet.Targets[t]), append(p.from, w.targetsFrom[t])
		}
	}
	p.found, p.at = make([]core.Node, len(p.targets)), make([]time.Time, len(p.targets))
	return p
}

// read reads them until the deadline, which what hangs must not put off: a read that is cut off leaves nothing behind, and
// has no grace. Nobody looks at what fails.
func (p *preview) read(ctx context.Context, clock func() time.Time) {
	ctx, cancel := context.WithTimeout(ctx, p.left)
	defer cancel()
	_ = inParallel(ctx, len(p.targets), callTimeout, func(_ context.Context, i int) error {
		at := clock()
		n, err := p.from[i].ReadNode(ctx, p.targets[i])
		if err == nil {
			p.found[i], p.at[i] = n, at
		}
		return err
	})
}

// remember keeps what was read.
func (p *preview) remember(m *core.Memory) {
	for i := range p.targets {
		if !p.at[i].IsZero() {
			m.Read(p.targets[i].ID, p.found[i], p.at[i])
		}
	}
}

// foresee tells when to wake up for the next deadline: a little before it when nodes are to be read for it that were
// not read in this pass.
func (e *Engine) foresee(w *world, d core.Decision, p *preview) time.Time {
	next := d.NextAt
	if p.near || !w.dueAt(d, next) || !next.After(e.Now()) {
		return next
	}
	return next.Add(-foresight)
}

// dueAt tells whether the time of a suspect that has a node is up at an instant.
func (w *world) dueAt(d core.Decision, at time.Time) bool {
	return slices.ContainsFunc(d.Verdicts, func(v core.Verdict) bool {
		return v.Health == core.Suspect && v.Until.Equal(at) && w.fleet.Targets[v.Target].Node.State == core.NodePresent
	})
}
