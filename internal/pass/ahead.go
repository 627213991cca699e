package pass

import (
	"slices"
	"time"

	"github.com/fettle-io/fettle/internal/core"
)

// readAheadLead is how long before a deadline nodes are read live whose time is up then. At the deadline only their
// repair is left to do. Changes until then show in the cache, and the node is read again.
const readAheadLead = time.Second

// readAhead has the nodes that the next deadline needs confirmed, as they are read ahead of it.
type readAhead struct {
	// near is set when the deadline is near: the pass that reads ahead is the last one before it.
	near    bool
	targets []int
}

// nextDeadline gathers the nodes to read now for the next deadline, if it is near. In an outage deadlines are whole
// seconds apart, as kubelets report times. So the nodes of one deadline are read while nodes of the previous one are
// being repaired.
func (p *Pass) nextDeadline() int {
	next, now := p.decision.NextAt, p.clock.Now
	if !p.dueAt(next) || !next.After(now) || next.Add(-readAheadLead).After(now) {
		return 0
	}
	p.ahead.near = true
	ahead := p.config.Decide(p.policies, p.cluster, next)
	for _, t := range ahead.Confirm {
		// The quorum of a control plane is read when it matters.
		if !slices.Contains(ahead.QuorumReads, t) && p.cluster.Targets[t].Node.State == core.NodePresent {
			p.ahead.targets = append(p.ahead.targets, t)
		}
	}
	return len(p.ahead.targets)
}

// readAhead reads a node until the deadline, which a read that hangs must not delay.
func (p *Pass) readAhead(_ *task, i int) []Call {
	t := p.ahead.targets[i]
	return []Call{{Kind: ReadNode, Dialect: p.targetDialect[t], Target: p.cluster.Targets[t], Until: p.decision.NextAt}}
}

// readAheadDone records the node. A node that could not be read is read at the deadline.
func (p *Pass) readAheadDone(_ *task, c *Call, r *Result) {
	if r.Err == nil {
		p.state.Expectations.KeepNodeRead(c.Target.ID, r.Node, r.Began)
	}
}

// wakeUp returns when the next pass is due by the decision. That is a little before a deadline for which nodes are
// still to be read.
func (p *Pass) wakeUp() time.Time {
	next := p.decision.NextAt
	if p.ahead.near || !p.dueAt(next) || !next.After(p.clock.Now) {
		return next
	}
	return next.Add(-readAheadLead)
}

// dueAt reports whether the time of a suspect target with a node is up at an instant.
func (p *Pass) dueAt(at time.Time) bool {
	return slices.ContainsFunc(p.decision.Verdicts, func(v core.Verdict) bool {
		return v.Until.Equal(at) && p.cluster.Targets[v.Target].Node.State == core.NodePresent
	})
}
