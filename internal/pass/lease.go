package pass

import (
	"fmt"

	"github.com/fettle-io/fettle/internal/core"
)

// leaseKey identifies the lease of a target's node by a holder.
type leaseKey struct{ target, holder string }

// leaseAnswer is the result of renewing a lease.
type leaseAnswer struct{ answered, held bool }

func (p *Pass) leasesToRenew() int {
	p.running.leases = make([]leaseAnswer, len(p.decision.LeaseHolds))
	if !p.config.Leases {
		return 0
	}
	return len(p.decision.LeaseHolds)
}

func (p *Pass) renewLease(_ *task, i int) []Call {
	h := p.decision.LeaseHolds[i]
	return []Call{{Kind: AcquireLease, Target: p.cluster.Targets[h.Target], Holder: h.Holder, For: h.For}}
}

func (p *Pass) leaseRenewed(t *task, c *Call, r *Result) {
	switch {
	case r.Skipped:
		t.end(r.Err)
	case r.Err != nil:
		t.end(fmt.Errorf("renewing the lease of the node of %s: %w", c.Target.ID, r.Err))
	default:
		p.running.leases[c.Task] = leaseAnswer{answered: true, held: r.OK}
	}
}

// reportLostLeases reports the leases that other holders have taken, each once. The repairs go on: their requests
// stand, also without the lease.
func (p *Pass) reportLostLeases() {
	before := p.state.lostLeases
	lost := map[leaseKey]bool{}
	for i, h := range p.decision.LeaseHolds {
		target, answer := p.cluster.Targets[h.Target].ID, p.running.leases[i]
		key := leaseKey{target.UID, h.Holder}
		switch {
		case answer.held:
		case !answer.answered: // nothing is known
			lost[key] = before[key]
		default:
			if lost[key] = true; !before[key] {
				p.report(Event{Kind: LeaseLost, Target: target, Holder: h.Holder})
			}
		}
	}
	p.state.lostLeases = lost
}

// leasesToCheck returns whether the running repairs are to be listed, as a number of tasks. Caches that lag may lack the
// repair of another leader, or of an earlier process, which needs the lease.
func (p *Pass) leasesToCheck() int {
	if !p.config.Leases || len(p.decision.LeaseReleases) == 0 {
		return 0
	}
	return 1
}

// runningForLeases keeps the leases of nodes without a running repair, to be released. After an error it keeps none.
func (p *Pass) runningForLeases(t *task, _ *Call, r *Result) {
	switch {
	case r.Skipped:
		t.end(r.Err)
		return
	case r.Err != nil:
		t.end(fmt.Errorf("listing the repairs that run, before leases without a repair are released: %w", r.Err))
		return
	}
	inRepair := map[string]bool{}
	for i := range r.Repairs {
		running := &r.Repairs[i]
		inRepair[running.Node] = true
		if running.Target.IsNode() {
			inRepair[running.Target.Name] = true
		}
	}
	for _, l := range p.decision.LeaseReleases {
		if !inRepair[l.Node] {
			p.running.orphaned = append(p.running.orphaned, l)
		}
	}
}

// leasesToRelease returns how many orphaned leases are to be released. Unlike the release at the end of a repair, this
// is tried again until it succeeds.
func (p *Pass) leasesToRelease() int { return len(p.running.orphaned) }

func (p *Pass) releaseLease(_ *task, i int) []Call {
	l := p.running.orphaned[i]
	return []Call{{Kind: ReleaseLease, Node: l.Node, Holder: l.Holder, At: p.cluster.ShownUntil(p.now)}}
}

func (p *Pass) leaseReleased(t *task, c *Call, r *Result) {
	switch {
	case r.Skipped:
		t.end(r.Err)
	case r.Err != nil:
		t.end(fmt.Errorf("releasing a lease without a repair: %w", r.Err))
	case r.OK:
		p.report(Event{Kind: OrphanedLeaseReleased, Node: c.Node, Holder: c.Holder})
	}
}

// conditionWriting is the progress of writing conditions of targets.
type conditionWriting struct {
	dialects []int
	// more is set when some conditions are left for a later pass.
	more bool
}

func (p *Pass) conditionWriters() int {
	for dialect := range p.config.Dialects {
		if p.config.Dialects[dialect].WritesConditions {
			p.conditions.dialects = append(p.conditions.dialects, dialect)
		}
	}
	return len(p.conditions.dialects)
}

// writeConditions writes the judgements on the targets of one dialect. It ends when something else is due.
func (p *Pass) writeConditions(_ *task, i int) []Call {
	dialect := p.conditions.dialects[i]
	var judged []core.CombinedVerdict
	for _, j := range p.decision.CombinedVerdicts(p.policies, &p.cluster) {
		if p.targetDialect[j.Target] != dialect {
			continue
		}
		if j.Repair != nil {
			repair := *j.Repair // what is recorded of it may change meanwhile
			j.Repair = &repair
		}
		judged = append(judged, j)
	}
	c := Call{Kind: WriteConditions, Dialect: dialect, Policies: p.policies, Judged: judged, Cluster: &core.Cluster{Observed: p.cluster.Observed, Targets: p.cluster.Targets}}
	if !p.decision.NextAt.IsZero() {
		c.Until = p.decision.NextAt.Add(-readAheadLead)
	}
	return []Call{c}
}

func (p *Pass) conditionsWritten(t *task, _ *Call, r *Result) {
	p.conditions.more = p.conditions.more || r.OK
	if r.Err != nil {
		t.end(r.Err)
	}
}
