package pass

import (
	"fmt"

	"github.com/fettle-io/fettle/internal/core"
)

// leaseKey names the lease of a target's node in the hands of a holder.
type leaseKey struct{ target, holder string }

// leaseAnswer is how the renewal of a lease went.
type leaseAnswer struct{ answered, holds bool }

func (p *Pass) holds() int {
	p.upkeep.leases = make([]leaseAnswer, len(p.decision.Holds))
	if !p.config.Leases {
		return 0
	}
	return len(p.decision.Holds)
}

func (p *Pass) renewLease(_ *task, i int) []Call {
	h := p.decision.Holds[i]
	return []Call{{Kind: HoldLease, Target: p.fleet.Targets[h.Target], Holder: h.Holder, For: h.For}}
}

func (p *Pass) leaseRenewed(t *task, c *Call, r *Result) {
	switch {
	case r.Skipped:
		t.end(r.Err)
	case r.Err != nil:
		t.end(fmt.Errorf("renewing the lease of the node of %s: %w", c.Target.ID, r.Err))
	default:
		p.upkeep.leases[c.Task] = leaseAnswer{answered: true, holds: r.OK}
	}
}

// reportLost reports the leases that others have taken, each once. The repairs go on: what a remediator was asked for is under way,
// whoever has the lease.
func (p *Pass) reportLost() {
	before := p.state.lost
	lost := map[leaseKey]bool{}
	for i, h := range p.decision.Holds {
		target, answer := p.fleet.Targets[h.Target].ID, p.upkeep.leases[i]
		key := leaseKey{target.UID, h.Holder}
		switch {
		case !p.config.Leases || answer.holds:
		case !answer.answered: // nothing is known
			lost[key] = before[key]
		default:
			if lost[key] = true; !before[key] {
				p.report(Event{Kind: LeaseLost, Target: target, Holder: h.Holder})
			}
		}
	}
	p.state.lost = lost
}

// idleLeases has leases given back that were left behind. Unlike after a repair of its own, which releases once, that is tried again
// until it is done.
func (p *Pass) idleLeases() int {
	if !p.config.Leases {
		return 0
	}
	return len(p.decision.Releases)
}

func (p *Pass) releaseIdle(_ *task, i int) []Call {
	l := p.decision.Releases[i]
	return []Call{{Kind: ReleaseLease, Node: l.Node, Holder: l.Holder}}
}

func (p *Pass) idleReleased(t *task, c *Call, r *Result) {
	switch {
	case r.Skipped:
		t.end(r.Err)
	case r.Err != nil:
		t.end(fmt.Errorf("giving back what was left behind: %w", r.Err))
	default:
		p.report(Event{Kind: LeaseLeftBehind, Node: c.Node, Holder: c.Holder})
	}
}

// marking is how the writing on targets goes.
type marking struct {
	sources []int
	// more is set when some of it is left for later.
	more bool
}

func (p *Pass) markers() int {
	for source := range p.config.Sources {
		if p.config.Sources[source].Marks {
			p.marking.sources = append(p.marking.sources, source)
		}
	}
	return len(p.marking.sources)
}

// mark has the judgements on the targets of one source written. That ends when something else is due.
func (p *Pass) mark(_ *task, i int) []Call {
	source := p.marking.sources[i]
	var judged []core.Judgement
	for _, j := range p.decision.Judgements(p.policies, &p.fleet) {
		if p.targetSource[j.Target] != source {
			continue
		}
		if j.Repair != nil {
			repair := *j.Repair // what is recorded of it may change meanwhile
			j.Repair = &repair
		}
		judged = append(judged, j)
	}
	c := Call{Kind: WriteMarks, Source: source, Policies: p.policies, Judged: judged, Fleet: &core.Fleet{Observed: p.fleet.Observed, Targets: p.fleet.Targets}}
	if !p.decision.NextAt.IsZero() {
		c.Until = p.decision.NextAt.Add(-foresight)
	}
	return []Call{c}
}

func (p *Pass) marked(t *task, _ *Call, r *Result) {
	p.marking.more = p.marking.more || r.OK
	if r.Err != nil {
		t.end(r.Err)
	}
}
