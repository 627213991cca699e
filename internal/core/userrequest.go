package core

import "time"

// A user may request the repair of a target although no criterion is met. The request is a time in an annotation of the
// target. It outlives the repair, since a node keeps its object when it is rebooted. So each repair records the request
// that it began with: the clock of a user may differ from the clock by which repairs end. A request that no repair has
// served lapses.

// userRequestIndex has the users' repair requests.
type userRequestIndex struct {
	requestIndex
	// repairRequests is the history of each target with a request.
	repairRequests map[int]*repairRequestHistory
	// requestStatuses say whether each request counts.
	requestStatuses []RepairRequestStatus
}

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

func newUserRequestIndex(requests *requestIndex) *userRequestIndex {
	x := &userRequestIndex{requestIndex: *requests}
	if len(x.requestedTargets) == 0 {
		return x
	}
	x.findRequestedRepairs()
	for _, i := range x.requestedTargets {
		x.requestStatuses = append(x.requestStatuses, x.statusOf(i))
	}
	return x
}

// statusOf decides whether the user's request about a target counts.
func (x *userRequestIndex) statusOf(target int) RepairRequestStatus {
	t, history := &x.cluster.Targets[target], x.repairRequests[target]
	status := RepairRequestStatus{Target: target, RepairRequest: t.RepairRequest}
	status.State = x.resolve(status.RepairRequest, history)
	if status.State == RequestPending && status.At.Before(t.Created.Add(-requestAhead)) {
		status.State = RequestInherited
	}
	history.pending = status.State == RequestPending
	if history.pending && !history.begun {
		status.Lapses = status.At.Add(RequestLasts)
		x.wakeAt(status.Lapses)
	}
	return status
}

// findRequestedRepairs relates repairs to targets with a user's request. A node and its machine are one group, so a
// repair of either serves a request about the other. A node that was restored with its annotations is the same
// computer, so earlier repairs have served it.
func (x *userRequestIndex) findRequestedRepairs() {
	x.repairRequests = make(map[int]*repairRequestHistory, len(x.requestedTargets))
	ids, nodes := map[ID]int{}, map[string][]int{}
	for _, i := range x.requestedTargets {
		t := &x.cluster.Targets[i]
		x.repairRequests[i] = &repairRequestHistory{running: none, of: none}
		ids[t.ID.backoffID()] = i
		if t.Node.Name != "" {
			nodes[t.Node.Name] = append(nodes[t.Node.Name], i)
		}
	}
	for at := range x.cluster.Repairs {
		r := &x.cluster.Repairs[at]
		if i, known := ids[r.Target.backoffID()]; known && (!r.Running() || r.Target == x.cluster.Targets[i].ID) {
			x.repairRequests[i].add(&x.input, at)
		}
		for _, i := range nodes[r.Node] {
			if x.cluster.Targets[i].ID.Kind != r.Target.Kind {
				x.repairRequests[i].add(&x.input, at)
			}
		}
	}
	x.findRunningTargets()
}

// add takes in a repair of the target.
func (a *repairRequestHistory) add(in *input, at int) {
	r := &in.cluster.Repairs[at]
	switch {
	case !r.Running():
		a.ended, a.served = latest(a.ended, r.Ended), latest(a.served, r.Requested)
	case a.running == none || in.olderRepair(at, a.running) < 0:
		a.running = at
	}
}

// findRunningTargets finds the targets of running repairs.
func (x *userRequestIndex) findRunningTargets() {
	of := map[ID][]*repairRequestHistory{}
	for _, a := range x.repairRequests {
		if a.running != none {
			id := x.cluster.Repairs[a.running].Target
			of[id] = append(of[id], a)
		}
	}
	if len(of) == 0 {
		return
	}
	for i := range x.cluster.Targets {
		for _, a := range of[x.cluster.Targets[i].ID] {
			a.of = i
		}
	}
}

// resolve returns the state of a request. It sets in the history whether the repair under way began with the request,
// and since when a condition of the node must turn.
func (x *userRequestIndex) resolve(q RepairRequest, history *repairRequestHistory) RepairRequestState {
	from := x.now
	switch {
	case q.Unreadable:
		return RequestUnreadable
	case q.Ahead:
		return RequestAhead
	case !q.At.After(latest(history.ended, history.served)):
		return RequestServed
	case history.running != none:
		r := &x.cluster.Repairs[history.running]
		if !q.At.After(latest(r.Started, r.Requested)) {
			from, history.begun = r.Started, true
		}
		if x.hasServed(r, history) {
			return RequestServed
		}
	}
	if from.Sub(q.At) >= RequestLasts {
		return RequestLapsed
	}
	return RequestPending
}

// hasServed reports whether a running repair has done its work. Where a remediator does not report success, the node
// shows it: hasServed sets in the history since when a condition of the node must turn.
func (x *requestIndex) hasServed(r *Repair, history *repairRequestHistory) bool {
	step, more := r.step()
	switch {
	case !r.Recovered.IsZero(), !more:
		return true
	case history.of == none:
		return false
	case step.Nature.Effect().MarksForRemediator:
		return !r.Begun.IsZero() && !x.cluster.Targets[history.of].ExternallyRemediated && !x.markMayLag(r)
	case !step.Nature.Effect().CreatesRequest:
		return false
	}
	for _, i := range x.requestsAbout[history.of] {
		q := &x.cluster.Requests[i]
		switch {
		case !r.made(q) || !q.isFor(step):
		case q.Succeeded == Yes, q.Own && q.Leaving:
			return true
		case q.Succeeded == Unknown && q.Processing != Yes:
			history.turned = q.Created
		}
	}
	return false
}

// remediationRequested reports whether a user's request makes a target unhealthy by a policy.
func (x *userRequestIndex) remediationRequested(target int, p *Policy) bool {
	a := x.repairRequests[target]
	if a == nil || !a.pending {
		return false
	}
	return a.turned.IsZero() || !healthySince(&p.Criteria, &x.cluster.Targets[target]).After(a.turned)
}

// judgeOne judges a target by a policy. A user's dated request counts as a user's mark does, and has a time.
func (x *userRequestIndex) judgeOne(p *Policy, target int) Verdict {
	t := &x.cluster.Targets[target]
	if t.RemediationRequested || !x.remediationRequested(target, p) {
		return judge(p, t, x.now)
	}
	requested := *t
	requested.RemediationRequested = true
	v := judge(p, &requested, x.now)
	if v.Reason == RemediationRequested {
		v.Since = t.RepairRequest.At
	}
	return v
}

// servesRequest reports whether a running repair serves a user's request. Requests that are older than the ledger shows
// don't count.
func (x *userRequestIndex) servesRequest(repair int) bool {
	for _, i := range x.requestedTargets {
		if x.repairRequests[i].running == repair {
			return true
		}
	}
	return false
}

// markMayLag reports whether a target was handed over so recently that its mark may not show yet.
func (in *input) markMayLag(r *Repair) bool {
	shows := r.Begun.Add(unrecordedLimit)
	in.wakeAt(shows)
	return in.now.Before(shows)
}
