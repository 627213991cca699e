package core

import "time"

// A user may request the repair of a target although no criterion is met. The request is a time in an annotation of the
// target. It outlives the repair, since a node keeps its object when it is rebooted. So each repair records the request
// that it began with: the clock of a user may differ from the clock by which repairs end. A request that no repair has
// served lapses.

// repairRequestHistory is what the ledger has about a target with a user's request.
type repairRequestHistory struct {
	// running is the repair under way of the target, none without one, and of is the index of its own target.
	running, of int
	// ended is when the last repair of the target ended. Served is the last request that an ended repair began with, by
	// the clock of the user; zero without one.
	ended, served time.Time
	// turned is set where a remediator does not report success. The request is served once a condition of the node
	// turns after this instant and the target is healthy.
	turned time.Time
	// begun is set where the repair under way began with the request or since. Such a request does not lapse.
	begun bool
	// pending is set while the request makes the target unhealthy.
	pending bool
}

// readRepairRequests decides whether each request counts.
func (d *planner) readRepairRequests() {
	if len(d.requestedTargets) == 0 {
		return
	}
	d.findRequestedRepairs()
	for _, i := range d.requestedTargets {
		a := d.repairRequests[i]
		answer := RepairRequestStatus{Target: i, RepairRequest: d.cluster.Targets[i].RepairRequest}
		answer.State = d.stateOf(answer.RepairRequest, a)
		if answer.State == RequestPending && answer.At.Before(d.cluster.Targets[i].Created.Add(-requestAhead)) {
			answer.State = RequestInherited
		}
		a.pending = answer.State == RequestPending
		if a.pending && !a.begun {
			answer.Lapses = answer.At.Add(RequestLasts)
			d.wakeAt(answer.Lapses)
		}
		d.decision.RepairRequests = append(d.decision.RepairRequests, answer)
	}
}

// findRequestedRepairs relates repairs to targets with a user's request. A node and its machine are one group, so a
// repair of either serves a request about the other. A node that was restored with its annotations is the same
// computer, so earlier repairs have served it.
func (d *planner) findRequestedRepairs() {
	d.repairRequests = make(map[int]*repairRequestHistory, len(d.requestedTargets))
	ids, nodes := map[ID]int{}, map[string][]int{}
	for _, i := range d.requestedTargets {
		t := &d.cluster.Targets[i]
		d.repairRequests[i] = &repairRequestHistory{running: none, of: none}
		ids[t.ID.backoffID()] = i
		if t.Node.Name != "" {
			nodes[t.Node.Name] = append(nodes[t.Node.Name], i)
		}
	}
	for at := range d.cluster.Repairs {
		r := &d.cluster.Repairs[at]
		if i, known := ids[r.Target.backoffID()]; known && (!r.Running() || r.Target == d.cluster.Targets[i].ID) {
			d.repairRequests[i].add(d, at)
		}
		for _, i := range nodes[r.Node] {
			if d.cluster.Targets[i].ID.Kind != r.Target.Kind {
				d.repairRequests[i].add(d, at)
			}
		}
	}
	d.findRunningTargets()
}

// add takes in a repair of the target.
func (a *repairRequestHistory) add(d *planner, at int) {
	r := &d.cluster.Repairs[at]
	switch {
	case !r.Running():
		a.ended, a.served = latest(a.ended, r.Ended), latest(a.served, r.Requested)
	case a.running == none || d.olderRepair(at, a.running) < 0:
		a.running = at
	}
}

// findRunningTargets finds the targets of running repairs.
func (d *planner) findRunningTargets() {
	of := map[ID][]*repairRequestHistory{}
	for _, a := range d.repairRequests {
		if a.running != none {
			id := d.cluster.Repairs[a.running].Target
			of[id] = append(of[id], a)
		}
	}
	if len(of) == 0 {
		return
	}
	for i := range d.cluster.Targets {
		for _, a := range of[d.cluster.Targets[i].ID] {
			a.of = i
		}
	}
}

func (d *planner) stateOf(q RepairRequest, a *repairRequestHistory) RepairRequestState {
	from := d.now
	switch {
	case q.Unreadable:
		return RequestUnreadable
	case q.Ahead:
		return RequestAhead
	case !q.At.After(latest(a.ended, a.served)):
		return RequestServed
	case a.running != none:
		r := &d.cluster.Repairs[a.running]
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

// serves reports whether a running repair has done its work. Where a remediator does not report success, the node shows
// it.
func (d *planner) serves(r *Repair, a *repairRequestHistory) bool {
	step, more := r.step()
	switch {
	case !r.Recovered.IsZero(), !more:
		return true
	case a.of == none:
		return false
	case step.Nature.Effect().MarksForRemediator:
		return !r.Begun.IsZero() && !d.cluster.Targets[a.of].ExternallyRemediated && !d.markMayLag(r)
	case !step.Nature.Effect().CreatesRequest:
		return false
	}
	for _, i := range d.requestsAbout[a.of] {
		q := &d.cluster.Requests[i]
		switch {
		case !r.made(q) || !q.isFor(step):
		case q.Succeeded == Yes, q.Own && q.Leaving:
			return true
		case q.Succeeded == Unknown && q.Processing != Yes:
			a.turned = q.Created
		}
	}
	return false
}

// markMayLag reports whether a target was handed over so recently that its mark may not show yet.
func (d *planner) markMayLag(r *Repair) bool {
	shows := r.Begun.Add(unrecordedLimit)
	d.wakeAt(shows)
	return d.now.Before(shows)
}

// remediationRequested reports whether a user's request makes a target unhealthy by a policy.
func (d *planner) remediationRequested(target int, p *Policy) bool {
	a := d.repairRequests[target]
	if a == nil || !a.pending {
		return false
	}
	return a.turned.IsZero() || !healthySince(&p.Criteria, &d.cluster.Targets[target]).After(a.turned)
}

// judgeOne judges a target by a policy. A user's dated request counts as a user's mark does, and has a time.
func (d *planner) judgeOne(p *Policy, target int) Verdict {
	t := &d.cluster.Targets[target]
	if t.RemediationRequested || !d.remediationRequested(target, p) {
		return judge(p, t, d.now)
	}
	requested := *t
	requested.RemediationRequested = true
	v := judge(p, &requested, d.now)
	if v.Reason == RemediationRequested {
		v.Since = t.RepairRequest.At
	}
	return v
}

// repairRequestedAt returns when users last requested the repair of a target, or of another target of its group; zero
// when none has.
func (d *planner) repairRequestedAt(target int) time.Time {
	var at time.Time
	for _, i := range d.requestedTargets {
		if q := &d.cluster.Targets[i].RepairRequest; d.groupOf(i) == d.groupOf(target) && !q.Ahead {
			at = latest(at, q.At)
		}
	}
	return at
}

// servesRequest reports whether a running repair serves a user's request. Requests that are older than the ledger shows
// don't count.
func (d *planner) servesRequest(repair int) bool {
	for _, i := range d.requestedTargets {
		if d.repairRequests[i].running == repair {
			return true
		}
	}
	return false
}

// justMarked reports whether a step has just marked its target for a user's request. The mark may not show yet.
func (d *planner) justMarked(p *proposal, step *Step) bool {
	r := &d.cluster.Repairs[p.repair]
	return step.Nature.Effect().MarksForRemediator && p.verdict.Reason == RemediationRequested && !r.Begun.IsZero() && d.markMayLag(r)
}
