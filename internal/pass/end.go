package pass

import (
	"fmt"
	"slices"
	"time"

	"github.com/fettle-io/fettle/internal/core"
)

// ending is a repair that ends, or what was left to do of a repair that has ended.
type ending struct {
	// finish is nil for a repair that has ended before.
	finish *core.Finish
	repair core.Repair
	// node and holder are set where there may be a lease to release.
	node, holder string
	// withdrawConfirmation is set where a user's confirmation is to be removed, by the dialect of the target.
	withdrawConfirmation bool
	dialect              int
	target               core.Target

	// renewed is when the lease of the node was renewed last, as the caches show; zero where they show none of the holder.
	renewed time.Time

	recorded bool
}

// endings takes in the results for running repairs. It gathers the repairs that end now, with what is left of earlier
// ones.
func (p *Pass) endings() int {
	p.finishRunning()
	if len(p.decision.Finishes)+len(p.state.usedConfirmations) == 0 {
		return 0
	}
	targetOf := make(map[core.ID]int, len(p.cluster.Targets))
	for i := range p.cluster.Targets {
		targetOf[p.cluster.Targets[i].ID] = i
	}
	inRepair, requested, renewed := p.nodesInRepair(), p.requestedTargets(), p.leasesRenewed()
	for i := range p.decision.Finishes {
		f := &p.decision.Finishes[i]
		end := ending{finish: f, repair: p.cluster.Repairs[f.Repair]}
		// A clock that is wrong holds back no end, and back-off reads the end when the clock is right again.
		end.repair.Ended, end.repair.Outcome = p.clock.Corrected, f.Outcome
		if !f.RecordOnly {
			end.node, end.holder = end.repair.Node, end.repair.Holder
			if t, there := targetOf[end.repair.Target]; there {
				p.setTarget(&end, t)
			} else if inRepair[end.node] || requested[end.repair.Target] {
				// A namesake's repair may hold the lease, under the same name. Or the target is only not selected any more, and
				// its remediator is still at work.
				end.node = ""
			}
			end.renewed = renewed[heldLease{end.node, end.holder}]
		}
		p.ends = append(p.ends, end)
	}
	p.addUsedConfirmations(targetOf)
	return len(p.ends)
}

// addUsedConfirmations adds the confirmations that an earlier pass has not withdrawn. While a repair of the target seems to
// run, its end may have been recorded without an answer, and the confirmation waits for the cache.
func (p *Pass) addUsedConfirmations(targetOf map[core.ID]int) {
	running := map[core.ID]bool{}
	for i := range p.cluster.Repairs {
		if r := &p.cluster.Repairs[i]; r.Running() {
			running[r.Target] = true
		}
	}
	for _, id := range p.state.usedConfirmations {
		t, there := targetOf[id]
		if !there {
			continue
		}
		var end ending
		p.setTarget(&end, t)
		switch {
		case !end.withdrawConfirmation:
		case running[id]:
			p.awaited = append(p.awaited, id)
		default:
			p.ends = append(p.ends, end)
		}
	}
}

// requestedTargets returns the targets about which a cache has shown a request.
func (p *Pass) requestedTargets() map[core.ID]bool {
	targets := make(map[core.ID]bool, len(p.cluster.Requests))
	for i := range p.cluster.Requests {
		targets[p.cluster.Requests[i].Target] = true
	}
	return targets
}

// heldLease identifies the lease of a node by a holder.
type heldLease struct{ node, holder string }

// leasesRenewed returns when each lease was renewed last.
func (p *Pass) leasesRenewed() map[heldLease]time.Time {
	renewed := make(map[heldLease]time.Time, len(p.cluster.Leases))
	for _, l := range p.cluster.Leases {
		renewed[heldLease{l.Node, l.Holder}] = l.Renewed
	}
	return renewed
}

// nodesInRepair returns the nodes of repairs that run after this pass.
func (p *Pass) nodesInRepair() map[string]bool {
	ends := make(map[int]bool, len(p.decision.Finishes))
	for i := range p.decision.Finishes {
		ends[p.decision.Finishes[i].Repair] = true
	}
	nodes := map[string]bool{}
	for i := range p.cluster.Repairs {
		if r := &p.cluster.Repairs[i]; r.Running() && !ends[i] {
			nodes[r.Node] = true
		}
	}
	for i := range p.decision.Starts {
		nodes[p.cluster.Targets[p.decision.Starts[i].Target].Node.Name] = true
	}
	return nodes
}

// setTarget takes in the target as it is now.
func (p *Pass) setTarget(end *ending, target int) {
	end.target, end.dialect = p.cluster.Targets[target], p.targetDialect[target]
	if name := end.target.Node.Name; name != "" {
		end.node = name
	}
	end.withdrawConfirmation = end.target.ConfirmedHealthy && p.config.Dialects[end.dialect].WithdrawsConfirmations
}

// recordEnd records the end first. A later call that fails is no reason to keep the repair from ending.
func (p *Pass) recordEnd(_ *task, i int) []Call {
	end := &p.ends[i]
	if end.finish == nil {
		return nil
	}
	return []Call{{Kind: UpdateRepair, Repair: end.repair.ToWrite(), Text: end.finish.Text}}
}

// endRecorded ends the task where another writer has changed the record. Nothing is released then.
func (p *Pass) endRecorded(t *task, c *Call, r *Result) {
	end := &p.ends[c.Task]
	end.recorded = p.repairUpdated(&end.repair, r)
	switch {
	case r.Skipped:
		t.end(r.Err)
	case r.Err != nil:
		t.end(fmt.Errorf("recording the end of repair %s: %w", end.repair.Name, r.Err))
	case !end.recorded:
		t.end(nil)
	}
}

// releaseEnded releases the lease of the node, unless the remedy may have done something that no cache shows. A clock that
// is wrong does not tell that. It is not tried again here, since another repair may soon hold the lease under the same
// name. If none does, the lease is released as an orphan. Another leader that takes the step renews the lease first, and
// the caches may lack that.
func (p *Pass) releaseEnded(_ *task, i int) []Call {
	end := &p.ends[i]
	until := p.cluster.ShownAt(end.repair.KeepsLeaseUntil(end.renewed))
	unanswered := !until.IsZero() && (p.clock.Agrees != core.Yes || until.After(p.now))
	if !p.config.Leases || end.holder == "" || end.node == "" || unanswered {
		return nil
	}
	call := Call{Kind: ReleaseLease, Node: end.node, Holder: end.holder}
	if end.repair.MayBeTakenElsewhere() {
		call.At = p.cluster.ShownUntil(p.now)
	}
	return []Call{call}
}

func (p *Pass) endedReleased(t *task, c *Call, r *Result) {
	if r.Err != nil {
		p.report(Event{Kind: LeaseNotReleased, Node: c.Node, Holder: c.Holder, Err: r.Err})
	}
	if r.Panicked {
		t.end(fmt.Errorf("releasing the lease of node %s: %w", c.Node, r.Err))
	}
}

func (p *Pass) withdrawConfirmation(_ *task, i int) []Call {
	end := &p.ends[i]
	if !end.withdrawConfirmation {
		return nil
	}
	return []Call{{Kind: WithdrawConfirmation, Dialect: end.dialect, Target: end.target}}
}

func (p *Pass) confirmationWithdrawn(t *task, c *Call, r *Result) {
	switch {
	case r.Skipped:
		t.end(r.Err)
	case r.Err != nil:
		t.end(fmt.Errorf("withdrawing the confirmation that %s is healthy: %w", c.Target.ID, r.Err))
	}
}

func (p *Pass) finishEnds() bool {
	p.state.usedConfirmations = p.awaited
	for i := range p.ends {
		end := &p.ends[i]
		failed := len(p.progress[EndingRepairs].tasks[i].errs) > 0
		if end.withdrawConfirmation {
			used := p.state.usedConfirmations
			used = slices.DeleteFunc(used, func(id core.ID) bool { return id == end.target.ID })
			if failed || (end.finish != nil && !end.recorded) { // the end may have been recorded without an answer
				used = append(used, end.target.ID)
			}
			p.state.usedConfirmations = used
		}
		if end.recorded {
			p.state.Expectations.ExpectRepair(end.repair, p.answeredAt())
			p.report(Event{Kind: RepairEnded, Repair: end.repair})
		}
	}
	return false
}

// maxDeleted bounds the finished repairs that one pass deletes. Nothing waits for their deletion, and there may be very
// many.
const maxDeleted = 100

// deleting is the progress of deleting finished repairs.
type deleting struct {
	expired []int
	deleted []bool
	// next is when there may be more to delete.
	next time.Time
}

// expired gathers the finished repairs that are not kept any longer. By a wrong clock a repair may seem old that
// back-off still reads, so nothing is deleted then (I6). A pass follows once the clocks agree.
func (p *Pass) expired() int {
	if p.cluster.ClockAgrees != core.Yes || p.clock.Agrees != core.Yes {
		return 0
	}
	d := &p.deleting
	d.expired, d.next = p.config.Retention.Expired(&p.cluster, p.decision.Verdicts, p.now)
	d.expired = slices.DeleteFunc(d.expired, p.numbers)
	if len(d.expired) > maxDeleted {
		d.expired, d.next = d.expired[:maxDeleted], p.now.Add(repeatAfter)
	}
	d.deleted = make([]bool, len(d.expired))
	return len(d.expired)
}

// numbers reports whether the number of a finished repair, or a later one, might be used again without it. Another
// repair of its target may have been created that no cache shows. The pass at the end of that time deletes it.
func (p *Pass) numbers(repair int) bool {
	_, unanswered := p.state.unanswered[p.cluster.Repairs[repair].Target]
	return unanswered
}

func (p *Pass) deleteRepair(_ *task, i int) []Call {
	return []Call{{Kind: DeleteRepair, Repair: p.cluster.Repairs[p.deleting.expired[i]]}}
}

func (p *Pass) repairDeleted(t *task, c *Call, r *Result) {
	switch {
	case r.Skipped:
		t.end(r.Err)
	case r.Err != nil:
		t.end(fmt.Errorf("deleting finished repair %s: %w", c.Repair.Name, r.Err))
	default:
		p.deleting.deleted[c.Task] = r.OK
	}
}

// finishDeletions records what was deleted. A repair that has changed since it was read is looked at again.
func (p *Pass) finishDeletions() bool {
	d := &p.deleting
	for i, r := range d.expired {
		switch {
		case d.deleted[i]:
			p.state.Expectations.ExpectRepairDeletion(p.cluster.Repairs[r], p.answeredAt())
		case len(p.progress[DeletingRepairs].tasks[i].errs) == 0:
			d.next = earliest(d.next, p.now.Add(repeatAfter))
		}
	}
	return false
}
