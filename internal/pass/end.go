package pass

import (
	"fmt"
	"time"

	"github.com/fettle-io/fettle/internal/core"
)

// ending is a repair that ends, or only what was left to do of one that has.
type ending struct {
	// finish is nil for the latter.
	finish *core.Finish
	repair core.Repair
	// node and holder are set where there may be a lease to release.
	node, holder string
	// confirmed is set where a person's word about the target is to be taken back, by its source.
	confirmed bool
	source    int
	target    core.Target

	recorded bool
}

// endings settles what was done for repairs under way, and gathers the repairs that end now, with what is left of earlier ones.
func (p *Pass) endings() int {
	p.settle()
	if len(p.decision.Finishes)+len(p.state.vouched) == 0 {
		return 0
	}
	targetOf := make(map[core.ID]int, len(p.fleet.Targets))
	for i := range p.fleet.Targets {
		targetOf[p.fleet.Targets[i].ID] = i
	}
	busy := p.stillRepaired()
	for i := range p.decision.Finishes {
		f := &p.decision.Finishes[i]
		end := ending{finish: f, repair: p.fleet.Repairs[f.Repair]}
		// A clock that is wrong holds back no end, and back-off reads the end when the clock is right again.
		end.repair.Ended, end.repair.Outcome = p.clock.Corrected, f.Outcome
		if !f.HandsOff {
			end.node, end.holder = end.repair.Node, end.repair.Holder
			if t, there := targetOf[end.repair.Target]; there {
				p.about(&end, t)
			} else if busy[end.node] { // a namesake's repair may hold the lease, under the same name
				end.node = ""
			}
		}
		p.ends = append(p.ends, end)
	}
	for _, id := range p.state.vouched {
		if t, there := targetOf[id]; there {
			var end ending
			p.about(&end, t)
			if end.confirmed {
				p.ends = append(p.ends, end)
			}
		}
	}
	return len(p.ends)
}

// stillRepaired returns the nodes of repairs that run after this pass.
func (p *Pass) stillRepaired() map[string]bool {
	ends := make(map[int]bool, len(p.decision.Finishes))
	for i := range p.decision.Finishes {
		ends[p.decision.Finishes[i].Repair] = true
	}
	busy := map[string]bool{}
	for i := range p.fleet.Repairs {
		if r := &p.fleet.Repairs[i]; r.Running() && !ends[i] {
			busy[r.Node] = true
		}
	}
	for i := range p.decision.Starts {
		busy[p.fleet.Targets[p.decision.Starts[i].Target].Node.Name] = true
	}
	return busy
}

// about takes in the target as it is now.
func (p *Pass) about(end *ending, target int) {
	end.target, end.source = p.fleet.Targets[target], p.targetSource[target]
	if name := end.target.Node.Name; name != "" {
		end.node = name
	}
	end.confirmed = end.target.Vouched && p.config.Sources[end.source].Confirms
}

// recordEnd records an end first. Whatever else fails then is no reason to keep the repair from ending.
func (p *Pass) recordEnd(_ *task, i int) []Call {
	end := &p.ends[i]
	if end.finish == nil {
		return nil
	}
	return []Call{{Kind: AmendRepair, Repair: end.repair.ToWrite(), Text: end.finish.Text}}
}

// endRecorded has nothing given back where another writer has changed the record meanwhile.
func (p *Pass) endRecorded(t *task, c *Call, r *Result) {
	end := &p.ends[c.Task]
	end.recorded = p.amended(&end.repair, r)
	switch {
	case r.Skipped:
		t.end(r.Err)
	case r.Err != nil:
		t.end(fmt.Errorf("recording the end of repair %s: %w", end.repair.Name, r.Err))
	case !end.recorded:
		t.end(nil)
	}
}

// releaseEnded gives back the lease of the node. It is not tried again here: by then another repair may hold it under the same name.
// If none does, it is given back as one that was left behind.
func (p *Pass) releaseEnded(_ *task, i int) []Call {
	end := &p.ends[i]
	if !p.config.Leases || end.holder == "" || end.node == "" {
		return nil
	}
	return []Call{{Kind: ReleaseLease, Node: end.node, Holder: end.holder}}
}

func (p *Pass) endedReleased(t *task, c *Call, r *Result) {
	if r.Err != nil {
		p.report(Event{Kind: LeaseKept, Node: c.Node, Holder: c.Holder, Err: r.Err})
	}
	if r.Panicked {
		t.end(fmt.Errorf("giving back the lease of node %s: %w", c.Node, r.Err))
	}
}

func (p *Pass) takeBackConfirmation(_ *task, i int) []Call {
	end := &p.ends[i]
	if !end.confirmed {
		return nil
	}
	return []Call{{Kind: TakeBackConfirmation, Source: end.source, Target: end.target}}
}

func (p *Pass) confirmationTakenBack(t *task, c *Call, r *Result) {
	switch {
	case r.Skipped:
		t.end(r.Err)
	case r.Err != nil:
		t.end(fmt.Errorf("taking back the confirmation that %s is healthy: %w", c.Target.ID, r.Err))
	}
}

func (p *Pass) rememberEnds() bool {
	p.state.vouched = nil
	for i := range p.ends {
		end := &p.ends[i]
		failed := len(p.progress[EndingRepairs].tasks[i].errs) > 0
		if end.confirmed && failed && (end.recorded || end.finish == nil) {
			p.state.vouched = append(p.state.vouched, end.target.ID)
		}
		if end.recorded {
			p.state.Memory.Recorded(end.repair, p.now)
			p.report(Event{Kind: Ended, Repair: end.repair})
		}
	}
	return false
}

// mostDropped bounds the finished repairs that one pass deletes. Nothing waits for that, and there may be very many.
const mostDropped = 100

// dropping is how the deletion of finished repairs goes.
type dropping struct {
	expired []int
	dropped []bool
	// next is when there may be more to delete.
	next time.Time
}

// expired gathers the finished repairs that are not kept any longer. By a clock that is wrong a repair that back-off reads may seem
// old, so nothing is deleted then (I6). A pass follows once the clocks agree.
func (p *Pass) expired() int {
	if p.fleet.ClockAgrees != core.Yes || p.clock.Agrees != core.Yes {
		return 0
	}
	d := &p.dropping
	d.expired, d.next = p.config.Retention.Expired(&p.fleet, p.decision.Verdicts, p.now)
	if len(d.expired) > mostDropped {
		d.expired, d.next = d.expired[:mostDropped], p.now.Add(again)
	}
	d.dropped = make([]bool, len(d.expired))
	return len(d.expired)
}

func (p *Pass) dropRepair(_ *task, i int) []Call {
	return []Call{{Kind: DropRepair, Repair: p.fleet.Repairs[p.dropping.expired[i]]}}
}

func (p *Pass) repairDropped(t *task, c *Call, r *Result) {
	switch {
	case r.Skipped:
		t.end(r.Err)
	case r.Err != nil:
		t.end(fmt.Errorf("deleting finished repair %s: %w", c.Repair.Name, r.Err))
	default:
		p.dropping.dropped[c.Task] = r.OK
	}
}

// rememberDropped has a repair that has changed since it was read looked at again.
func (p *Pass) rememberDropped() bool {
	d := &p.dropping
	for i, r := range d.expired {
		switch {
		case d.dropped[i]:
			p.state.Memory.Dropped(p.fleet.Repairs[r], p.now)
		case len(p.progress[DroppingRepairs].tasks[i].errs) == 0:
			d.next = earliest(d.next, p.now.Add(again))
		}
	}
	return false
}
