package core

import "time"

// A person may ask that a target is repaired although no criterion is met. The request is a time that an annotation of the target
// holds. It outlives the repair, since a node keeps its object when it is rebooted. So each repair records the request that it began
// with: the clock of a person may differ from the clock by which repairs end. A request that no repair has served lapses.

// asked is what the ledger tells of a target about which there is a request.
type asked struct {
	// running is the repair under way of the target, none without one, and of is the index of its own target.
	running, of int
	// ended is when the last repair of the target ended, and served the last request that an ended repair began with; zero without
	// one. The latter is told by the clock of the person.
	ended, served time.Time
	// turned is set where a remediator says nothing of its success. The request is served once a condition of the node turns after
	// this instant and the target is healthy.
	turned time.Time
	// begun is set where the repair under way began with the request or since. Such a request does not lapse.
	begun bool
	// pending is set while the request makes the target unhealthy.
	pending bool
}

// readRepairRequests decides of each request whether it counts.
func (d *deliberation) readRepairRequests() {
	if len(d.requested) == 0 {
		return
	}
	d.findAskedRepairs()
	for _, i := range d.requested {
		a := d.asked[i]
		answer := AskedRepair{Target: i, RepairRequest: d.fleet.Targets[i].RepairRequest}
		answer.State = d.stateOf(answer.RepairRequest, a)
		if answer.State == RequestPending && answer.At.Before(d.fleet.Targets[i].Created.Add(-requestAhead)) {
			answer.State = RequestInherited
		}
		a.pending = answer.State == RequestPending
		if a.pending && !a.begun {
			answer.Lapses = answer.At.Add(RequestLasts)
			d.wakeAt(answer.Lapses)
		}
		d.decision.Asked = append(d.decision.Asked, answer)
	}
}

// findAskedRepairs relates repairs to the targets that people ask about. A node and its machine are one, so a repair of either serves
// a request about the other. A node that was restored with its annotations is the same computer, so earlier repairs have served it.
func (d *deliberation) findAskedRepairs() {
	d.asked = make(map[int]*asked, len(d.requested))
	ids, nodes := map[ID]int{}, map[string][]int{}
	for _, i := range d.requested {
		t := &d.fleet.Targets[i]
		d.asked[i] = &asked{running: none, of: none}
		ids[t.ID.lineage()] = i
		if t.Node.Name != "" {
			nodes[t.Node.Name] = append(nodes[t.Node.Name], i)
		}
	}
	for at := range d.fleet.Repairs {
		r := &d.fleet.Repairs[at]
		if i, known := ids[r.Target.lineage()]; known && (!r.Running() || r.Target == d.fleet.Targets[i].ID) {
			d.asked[i].take(d, at)
		}
		for _, i := range nodes[r.Node] {
			if d.fleet.Targets[i].ID.Kind != r.Target.Kind {
				d.asked[i].take(d, at)
			}
		}
	}
	d.findRunningTargets()
}

// take takes in a repair of the target.
func (a *asked) take(d *deliberation, at int) {
	r := &d.fleet.Repairs[at]
	switch {
	case !r.Running():
		a.ended, a.served = latest(a.ended, r.Ended), latest(a.served, r.Requested)
	case a.running == none || d.olderRepair(at, a.running) < 0:
		a.running = at
	}
}

// findRunningTargets finds the targets of the repairs under way.
func (d *deliberation) findRunningTargets() {
	of := map[ID][]*asked{}
	for _, a := range d.asked {
		if a.running != none {
			id := d.fleet.Repairs[a.running].Target
			of[id] = append(of[id], a)
		}
	}
	if len(of) == 0 {
		return
	}
	for i := range d.fleet.Targets {
		for _, a := range of[d.fleet.Targets[i].ID] {
			a.of = i
		}
	}
}

func (d *deliberation) stateOf(q RepairRequest, a *asked) RequestState {
	from := d.now
	switch {
	case q.Unreadable:
		return RequestUnreadable
	case q.Ahead:
		return RequestAhead
	case !q.At.After(latest(a.ended, a.served)):
		return RequestServed
	case a.running != none:
		r := &d.fleet.Repairs[a.running]
		if !q.At.After(latest(r.Started, r.Requested)) {
			from, a.begun = r.Started, true
		}
		if d.serves(r, a) {
			return RequestServed
		}
	}
	if from.Sub(q.At) >= RequestLasts {
		return RequestLapsed
	}
	return RequestPending
}

// serves reports whether a repair under way has done its work. A remediator that says nothing of its success is judged by the node.
func (d *deliberation) serves(r *Repair, a *asked) bool {
	step, more := r.step()
	switch {
	case !r.Recovered.IsZero(), !more:
		return true
	case a.of == none:
		return false
	case step.Nature.Effect().Claims:
		return !r.Begun.IsZero() && !d.fleet.Targets[a.of].Claimed && !d.settling(r)
	case !step.Nature.Effect().AsksRemediator:
		return false
	}
	for _, i := range d.requestsOn[a.of] {
		q := &d.fleet.Requests[i]
		switch {
		case !r.asked(q) || !q.asks(step):
		case q.Succeeded == Yes, q.Own && q.Leaving:
			return true
		case q.Succeeded == Unknown && q.Processing != Yes:
			a.turned = q.Created
		}
	}
	return false
}

// settling reports whether a target was handed over so recently that its mark may not show yet.
func (d *deliberation) settling(r *Repair) bool {
	shows := r.Begun.Add(laggingFor)
	d.wakeAt(shows)
	return d.now.Before(shows)
}

// condemns reports whether a person's request makes a target unhealthy in the eyes of a policy.
func (d *deliberation) condemns(target int, p *Policy) bool {
	a := d.asked[target]
	if a == nil || !a.pending {
		return false
	}
	return a.turned.IsZero() || !healthySince(&p.Criteria, &d.fleet.Targets[target]).After(a.turned)
}

// judgeOne judges a target by a policy. A person's request counts as the person's mark does, and has a time.
func (d *deliberation) judgeOne(p *Policy, target int) Verdict {
	t := &d.fleet.Targets[target]
	if t.Condemned || !d.condemns(target, p) {
		return judge(p, t, d.now)
	}
	condemned := *t
	condemned.Condemned = true
	v := judge(p, &condemned, d.now)
	if v.Reason == PersonAsked {
		v.Since = t.RepairRequest.At
	}
	return v
}

// requestOn returns when people have asked last for the repair of a target or of another target of its body; zero when none has.
func (d *deliberation) requestOn(target int) time.Time {
	var at time.Time
	for _, i := range d.requested {
		if q := &d.fleet.Targets[i].RepairRequest; d.body(i) == d.body(target) && !q.Unreadable && !q.Ahead {
			at = latest(at, q.At)
		}
	}
	return at
}

// servesRequest reports whether a repair under way serves a person's request that is no older than the ledger tells.
func (d *deliberation) servesRequest(repair int) bool {
	for _, i := range d.requested {
		if d.asked[i].running == repair {
			return true
		}
	}
	return false
}

// handsOverNow reports whether a step has just marked its target for a person's request, and the mark may not show yet.
func (d *deliberation) handsOverNow(p *proposal, step *Step) bool {
	r := &d.fleet.Repairs[p.repair]
	return step.Nature.Effect().Claims && p.verdict.Reason == PersonAsked && !r.Begun.IsZero() && d.settling(r)
}
