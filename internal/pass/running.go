package pass

import (
	"fmt"
	"slices"

	"github.com/fettle-io/fettle/internal/core"
)

// repairChange is a change of one repair. A write replaces the whole state of a repair, so one write has all changes.
type repairChange struct {
	index   int
	updated core.Repair
	text    string
	// advance is set when a step is given up, and stop when the remediator of its request is to be told to stop.
	advance *core.Escalation
	stop    *core.Request
	// written is set once the repair was written. Held is set when this pass does not give up the step after all.
	written, held bool
}

// runningRepairs is the progress of changing running repairs.
type runningRepairs struct {
	check   policyCheck
	changes []repairChange
	// withdrawn reports of each withdrawal whether it was made.
	withdrawn []bool
	// leases has the result of each renewal.
	leases []leaseAnswer
	// orphaned has the leases to release, which belong to no running repair.
	orphaned []core.NodeLease
	// changed is set when a repair was written or a request withdrawn, so that another pass should decide anew.
	changed bool
	// conflict is set when another writer has changed a repair or a request, or a step was not given up after all.
	conflict bool
}

// gatherChanges gathers the changes, one for each repair that has any.
func (p *Pass) gatherChanges() {
	at := map[int]int{}
	of := func(repair int) *repairChange {
		if _, known := at[repair]; !known {
			at[repair] = len(p.running.changes)
			p.running.changes = append(p.running.changes, repairChange{index: repair, updated: p.cluster.Repairs[repair]})
		}
		return &p.running.changes[at[repair]]
	}
	for _, n := range p.decision.Notes {
		c := of(n.Repair)
		c.text = n.Text(&c.updated)
		c.updated.Recovered, c.updated.Answer = n.Recovered, n.Answer
	}
	for i := range p.decision.Escalations {
		a := &p.decision.Escalations[i]
		c := of(a.Repair)
		c.updated.GiveUpStep(core.StepRecord{Ended: p.now, Outcome: a.Outcome, Text: a.Text})
		c.advance, c.text = a, a.Text
		if a.Request >= 0 && p.cluster.Requests[a.Request].Succeeded != core.Yes {
			c.stop = &p.cluster.Requests[a.Request]
		}
	}
}

// withdrawable returns an error unless a remedy can withdraw the request.
func (p *Pass) withdrawable(r *core.Request) error {
	if p.config.Remedies[r.Remedy] {
		return nil
	}
	return fmt.Errorf("no remedy is called %q that could withdraw it", r.Remedy)
}

func (p *Pass) withdrawals() int {
	p.running.withdrawn = make([]bool, len(p.decision.Withdrawals))
	return len(p.decision.Withdrawals)
}

// withdrawnRequest returns a request with the fields that its withdrawal sets.
func (p *Pass) withdrawnRequest(back core.Withdrawal) core.Request {
	r := p.cluster.Requests[back.Request]
	r.TargetHealthy, r.OnlyAsReported = back.TargetHealthy, back.OnlyAsReported
	return r
}

func (p *Pass) withdraw(t *task, i int) []Call {
	r := p.withdrawnRequest(p.decision.Withdrawals[i])
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
	case r.RemedyResult == core.Stale:
		p.running.conflict = true
	default:
		p.running.withdrawn[c.Task] = true
	}
}

func (p *Pass) repairChanges() int { return len(p.running.changes) }

// stopRequest comes first: the remediator is told that its time is over. After a crash in between, the next leader gives up the
// step and tells the remediator once more.
func (p *Pass) stopRequest(t *task, i int) []Call {
	c := &p.running.changes[i]
	switch {
	case c.held:
		t.end(nil)
		return nil
	case c.stop == nil:
		return nil
	}
	if err := p.withdrawable(c.stop); err != nil {
		t.end(fmt.Errorf("telling the remediator of %s to stop: %w", c.stop.ID, err))
		return nil
	}
	return []Call{{Kind: StopRequest, Request: *c.stop, At: p.now}}
}

func (p *Pass) requestStopped(t *task, c *Call, r *Result) {
	switch {
	case r.Skipped:
		t.end(r.Err)
	case r.Err != nil:
		t.end(fmt.Errorf("telling the remediator of %s to stop: %w", c.Request.ID, r.Err))
	}
}

func (p *Pass) writeChange(_ *task, i int) []Call {
	c := &p.running.changes[i]
	return []Call{{Kind: UpdateRepair, Repair: c.updated.ToWrite(), Text: c.text}}
}

func (p *Pass) changeWritten(t *task, c *Call, r *Result) {
	change := &p.running.changes[c.Task]
	change.written = p.repairUpdated(&change.updated, r)
	switch {
	case r.Skipped:
		t.end(r.Err)
	case r.Err != nil:
		t.end(fmt.Errorf("updating repair %s: %w", change.updated.Name, r.Err))
	}
}

// finishRunning records and reports what was done for running repairs.
func (p *Pass) finishRunning() {
	u := &p.running
	var events []core.Event
	for i := range u.changes {
		c := &u.changes[i]
		if !c.written {
			failed := len(p.progress[UpdatingRepairs].tasks[i].errs) > 0 || (c.held && u.check.failed)
			u.conflict = u.conflict || !failed
			continue
		}
		u.changed = true
		p.cluster.Repairs[c.index] = c.updated
		p.state.Expectations.ExpectRepair(c.updated, p.answeredAt())
		if c.advance != nil {
			p.report(Event{Kind: StepGivenUp, Repair: c.updated})
			events = append(events, p.escalationEvent(c))
		}
	}
	events = append(events, p.finishWithdrawals()...)
	p.state.usedConfirmations = append(p.state.usedConfirmations, p.newlyUsedConfirmations()...)
	p.emit(events)
	p.reportLostLeases()
}

func (p *Pass) finishWithdrawals() []core.Event {
	// A withdrawalKey is one event, however many steps of a repair had requests about a target at that time.
	type withdrawalKey struct {
		policy, target core.ID
		reason         core.EndReason
	}
	var events []core.Event
	emitted := map[withdrawalKey]bool{}
	for i, withdrawal := range p.decision.Withdrawals {
		if !p.running.withdrawn[i] {
			continue
		}
		r := p.withdrawnRequest(withdrawal)
		p.state.Expectations.ExpectWithdrawal(r, p.now)
		p.running.changed = true    // the repair ends as soon as that shows
		if withdrawal.Policy >= 0 { // a policy that is gone has no series any more
			p.report(Event{Kind: RequestWithdrawn, Policy: &p.policies[withdrawal.Policy], Remedy: r.Remedy})
		}
		h := p.withdrawalEvent(withdrawal)
		if key := (withdrawalKey{h.Policy, h.Target, withdrawal.Reason}); !emitted[key] {
			emitted[key] = true
			events = append(events, h)
		}
	}
	return events
}

func (p *Pass) escalationEvent(c *repairChange) core.Event {
	return core.Event{
		Kind: core.EventEscalated, Policy: c.updated.Policy, Target: c.updated.Target, Node: p.cluster.Targets[c.advance.Target].Node.Name,
		Text: c.advance.Text + afterStep(&c.updated), Repair: keyOf(&c.updated), Step: len(c.updated.Tried),
	}
}

// afterStep returns what follows the step of a repair that was given up last.
func afterStep(r *core.Repair) string {
	if next := len(r.Tried) + 1; next <= len(r.Steps) {
		return fmt.Sprintf("; step %d of %d is next", next, len(r.Steps))
	}
	return "; no step is left, so repair it by hand"
}

// withdrawalEvent returns the event of a withdrawn request. Its policy may be gone, and its target too.
func (p *Pass) withdrawalEvent(of core.Withdrawal) core.Event {
	r := &p.cluster.Requests[of.Request]
	h := core.Event{Kind: core.EventWithdrawn, Policy: r.Policy, Target: r.Target, Text: of.Text}
	if of.Policy >= 0 {
		h.Policy = p.policies[of.Policy].ID
	}
	if of.Target >= 0 {
		h.Target, h.Node = p.cluster.Targets[of.Target].ID, p.cluster.Targets[of.Target].Node.Name
	}
	return h
}

// newlyUsedConfirmations returns the targets that a user has confirmed healthy and about which no request stands any
// more.
func (p *Pass) newlyUsedConfirmations() []core.ID {
	waits := map[core.ID]bool{}
	var settled []core.ID
	for i, x := range p.decision.Withdrawals {
		if !x.TargetHealthy || !p.cluster.Targets[x.Target].ConfirmedHealthy {
			continue
		}
		id := p.cluster.Targets[x.Target].ID
		waits[id] = waits[id] || !p.running.withdrawn[i]
		settled = append(settled, id)
	}
	slices.SortFunc(settled, core.ID.Compare)
	return slices.DeleteFunc(slices.Compact(settled), func(id core.ID) bool { return waits[id] })
}
