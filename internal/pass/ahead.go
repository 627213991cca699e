package pass

import (
	"slices"
	"time"

	"github.com/fettle-io/fettle/internal/core"
)

// readAheadLead is how long before a deadline the nodes are read live whose time is up then, so that at the deadline nothing but their
// repair is left to do. What changes meanwhile shows in the cache, and is read once more.
const readAheadLead = time.Second

// readAhead is the nodes that are to be confirmed at the next deadline, as they are read ahead of it.
type readAhead struct {
	// near is set when that deadline is: nothing is to be read before it but this.
	near    bool
	targets []int
}

// nextDeadline gathers the nodes that are to be read now for the next deadline, if that is near. In an outage deadlines are whole
// seconds apart, as kubelets report times, so the nodes of one are read while those of the one before it are being repaired.
func (p *Pass) nextDeadline() int {
	next, now := p.decision.NextAt, p.clock.Now
	if !p.dueAt(next) || !next.After(now) || next.Add(-readAheadLead).After(now) {
		return 0
	}
	p.ahead.near = true
	ahead := p.config.Decide(p.policies, p.cluster, next)
	for _, t := range ahead.Confirm {
		// The quorum of a control plane is asked for when it matters.
		if !slices.Contains(ahead.QuorumReads, t) && p.cluster.Targets[t].Node.State == core.NodePresent {
			p.ahead.targets = append(p.ahead.targets, t)
		}
	}
	return len(p.ahead.targets)
}

// readAhead reads a node until the deadline, which a read that hangs must not put off.
func (p *Pass) readAhead(_ *task, i int) []Call {
	t := p.ahead.targets[i]
	return []Call{{Kind: ReadNode, Dialect: p.targetDialect[t], Target: p.cluster.Targets[t], Until: p.decision.NextAt}}
}

// readAheadDone remembers what was read. A node that could not be read is read at the deadline.
func (p *Pass) readAheadDone(_ *task, c *Call, r *Result) {
	if r.Err == nil {
		p.state.Expectations.KeepNodeRead(c.Target.ID, r.Node, r.Began)
	}
}

// wakeUp returns when the next pass is due by the decision: a little before a deadline when nodes are to be read for it that were
// not read in this pass.
func (p *Pass) wakeUp() time.Time {
	next := p.decision.NextAt
	if p.ahead.near || !p.dueAt(next) || !next.After(p.clock.Now) {
		return next
	}
	return next.Add(-readAheadLead)
}

// dueAt reports whether the time of a suspect that has a node is up at an instant.
func (p *Pass) dueAt(at time.Time) bool {
	return slices.ContainsFunc(p.decision.Verdicts, func(v core.Verdict) bool {
		return v.Health == core.Suspect && v.Until.Equal(at) && p.cluster.Targets[v.Target].Node.State == core.NodePresent
	})
}
