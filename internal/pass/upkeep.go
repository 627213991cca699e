package pass

import (
	"fmt"
	"slices"

	"github.com/fettle-io/fettle/internal/core"
)

// change is what changes in the record of one repair. A record is written in full, so one write has it all.
type change struct {
	index   int
	amended core.Repair
	text    string
	// advance is set when a step is given up, and stop when its request is to be told.
	advance *core.Advance
	stop    *core.Request
	// written is set once the record was written, and held when a step is not given up in this pass after all.
	written, held bool
}

// upkeep is what is done for repairs under way.
type upkeep struct {
	check   policyCheck
	changes []change
	// withdrawn has the withdrawals that were made.
	withdrawn []bool
	// leases says of each hold how it went.
	leases []leaseAnswer
	// changed is set when a record was written or a request withdrawn, so that the cluster is to be looked at anew.
	changed bool
	// overtaken is set when another writer has changed a record, or a step was not given up after all.
	overtaken bool
}

// gatherChanges gathers the changes, one for each repair that has any.
func (p *Pass) gatherChanges() {
	at := map[int]int{}
	of := func(repair int) *change {
		if _, known := at[repair]; !known {
			at[repair] = len(p.upkeep.changes)
			p.upkeep.changes = append(p.upkeep.changes, change{index: repair, amended: p.fleet.Repairs[repair]})
		}
		return &p.upkeep.changes[at[repair]]
	}
	for _, n := range p.decision.Notes {
		c := of(n.Repair)
		c.text = n.Text(&c.amended)
		c.amended.Recovered, c.amended.Answer = n.Recovered, n.Answer
	}
	for i := range p.decision.Advances {
		a := &p.decision.Advances[i]
		c := of(a.Repair)
		c.amended.GiveUpStep(core.Rung{Ended: p.now, Outcome: a.Outcome, Text: a.Text})
		c.advance, c.text = a, a.Text
		if a.Request >= 0 && p.fleet.Requests[a.Request].Succeeded != core.Yes {
			c.stop = &p.fleet.Requests[a.Request]
		}
	}
}

// withdrawable returns an error unless there is a remedy that takes the request back.
func (p *Pass) withdrawable(r *core.Request) error {
	if p.config.Remedies[r.Remedy] {
		return nil
	}
	return fmt.Errorf("no remedy is called %q that could take it back", r.Remedy)
}

func (p *Pass) withdrawals() int {
	p.upkeep.withdrawn = make([]bool, len(p.decision.Withdrawals))
	return len(p.decision.Withdrawals)
}

// taken returns a request as it is taken back.
func (p *Pass) taken(back core.Withdrawal) core.Request {
	r := p.fleet.Requests[back.Request]
	r.Settled = back.Settled
	return r
}

func (p *Pass) withdraw(t *task, i int) []Call {
	r := p.taken(p.decision.Withdrawals[i])
	if err := p.withdrawable(&r); err != nil {
		t.end(fmt.Errorf("withdrawing %s: %w", r.ID, err))
		return nil
	}
	return []Call{{Kind: WithdrawRequest, Request: r}}
}

func (p *Pass) withdrawn(t *task, c *Call, r *Result) {
	switch {
	case r.Skipped:
		t.end(r.Err)
	case r.Err != nil:
		t.end(fmt.Errorf("withdrawing %s: %w", c.Request.ID, r.Err))
	default:
		p.upkeep.withdrawn[c.Task] = true
	}
}

func (p *Pass) repairChanges() int { return len(p.upkeep.changes) }

// stopRequest tells the remediator first that its time is over. If that is all that is done before a crash, the step is given up by
// the next leader, who tells it once more.
func (p *Pass) stopRequest(t *task, i int) []Call {
	c := &p.upkeep.changes[i]
	switch {
	case c.held:
		t.end(nil)
		return nil
	case c.stop == nil:
		return nil
	}
	if err := p.withdrawable(c.stop); err != nil {
		t.end(fmt.Errorf("telling %s that its time is over: %w", c.stop.ID, err))
		return nil
	}
	return []Call{{Kind: StopRequest, Request: *c.stop, At: p.now}}
}

func (p *Pass) requestStopped(t *task, c *Call, r *Result) {
	switch {
	case r.Skipped:
		t.end(r.Err)
	case r.Err != nil:
		t.end(fmt.Errorf("telling %s that its time is over: %w", c.Request.ID, r.Err))
	}
}

func (p *Pass) amendChange(_ *task, i int) []Call {
	c := &p.upkeep.changes[i]
	return []Call{{Kind: AmendRepair, Repair: c.amended.ToWrite(), Text: c.text}}
}

func (p *Pass) changeAmended(t *task, c *Call, r *Result) {
	change := &p.upkeep.changes[c.Task]
	change.written = p.amended(&change.amended, r)
	switch {
	case r.Skipped:
		t.end(r.Err)
	case r.Err != nil:
		t.end(fmt.Errorf("recording how far repair %s has come: %w", change.amended.Name, r.Err))
	}
}

// settle remembers what was done for repairs under way, and reports it.
func (p *Pass) settle() {
	u := &p.upkeep
	var happenings []core.Happening
	for i := range u.changes {
		c := &u.changes[i]
		u.overtaken = u.overtaken || (c.held && !u.check.failed) || (!c.held && !c.written && len(p.progress[AmendingRepairs].tasks[i].errs) == 0)
		if !c.written {
			continue
		}
		u.changed = true
		p.fleet.Repairs[c.index] = c.amended
		p.state.Memory.Recorded(c.amended, p.now)
		if c.advance != nil {
			p.report(Event{Kind: StepGivenUp, Repair: c.amended})
			happenings = append(happenings, p.escalated(c))
		}
	}
	happenings = append(happenings, p.settleWithdrawals()...)
	p.state.vouched = append(p.state.vouched, p.usedUp()...)
	p.announce(happenings)
	p.reportLost()
}

func (p *Pass) settleWithdrawals() []core.Happening {
	// relief is what people are told once, however many steps of a repair had asked for a target at that time.
	type relief struct {
		policy, target core.ID
		reason         core.EndReason
	}
	var happenings []core.Happening
	told := map[relief]bool{}
	for i, withdrawal := range p.decision.Withdrawals {
		if !p.upkeep.withdrawn[i] {
			continue
		}
		r := p.taken(withdrawal)
		p.state.Memory.Withdrawn(r, p.now)
		p.upkeep.changed = true     // the repair ends as soon as that shows
		if withdrawal.Policy >= 0 { // one that is gone has no series any more
			p.report(Event{Kind: RequestWithdrawn, Policy: &p.policies[withdrawal.Policy], Remedy: r.Remedy})
		}
		h := p.relieved(withdrawal)
		if key := (relief{h.Policy, h.Target, withdrawal.Reason}); !told[key] {
			told[key] = true
			happenings = append(happenings, h)
		}
	}
	return happenings
}

func (p *Pass) escalated(c *change) core.Happening {
	h := core.Happening{
		Kind: core.Escalated, Policy: c.amended.Policy, Target: c.amended.Target, Node: c.amended.Node, Text: c.advance.Text + afterStep(&c.amended),
		Repair: keyOf(&c.amended), Step: len(c.amended.Rungs),
	}
	if t := c.advance.Target; t >= 0 {
		h.Node = p.fleet.Targets[t].Node.Name
	}
	return h
}

// afterStep says what follows the step of a repair that was given up last.
func afterStep(r *core.Repair) string {
	if next := len(r.Rungs) + 1; next <= len(r.Ladder) {
		return fmt.Sprintf("; step %d of %d is next", next, len(r.Ladder))
	}
	return "; no step is left, so repair it by hand"
}

// relieved tells of a request that is withdrawn. The policy that asked may be gone, and the target too.
func (p *Pass) relieved(of core.Withdrawal) core.Happening {
	r := &p.fleet.Requests[of.Request]
	h := core.Happening{Kind: core.Relieved, Policy: r.Policy, Target: r.Target, Text: of.Text}
	if of.Policy >= 0 {
		h.Policy = p.policies[of.Policy].ID
	}
	if of.Target >= 0 {
		h.Target, h.Node = p.fleet.Targets[of.Target].ID, p.fleet.Targets[of.Target].Node.Name
	}
	return h
}

// usedUp returns the targets that a person has vouched for and about which no request stands any more. A repair that runs takes that
// word back at its end.
func (p *Pass) usedUp() []core.ID {
	waits := map[core.ID]bool{}
	for i := range p.fleet.Repairs {
		if r := &p.fleet.Repairs[i]; r.Running() {
			waits[r.Target] = true
		}
	}
	var settled []core.ID
	for i, x := range p.decision.Withdrawals {
		if !x.Settled || x.Target < 0 || !p.fleet.Targets[x.Target].Vouched {
			continue
		}
		id := p.fleet.Targets[x.Target].ID
		waits[id] = waits[id] || !p.upkeep.withdrawn[i]
		settled = append(settled, id)
	}
	slices.SortFunc(settled, core.ID.Compare)
	return slices.DeleteFunc(slices.Compact(settled), func(id core.ID) bool { return waits[id] })
}
