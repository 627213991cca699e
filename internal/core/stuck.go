package core

import "slices"

// findStuck finds the requests that were withdrawn long ago and that finalizers keep.
func (d *planner) findStuck() {
	if d.cluster.Observed != Yes {
		return
	}
	requesters := newStuckRequester(&d.judgement)
	for i := range d.cluster.Requests {
		switch q := &d.cluster.Requests[i]; {
		case q.stuck(d.now):
			d.decision.Stuck = append(d.decision.Stuck, Stuck{Request: i, Policy: requesters.of(q)})
		case q.Own && q.Leaving:
			d.wakeAt(q.LeavingSince.Add(stuckAfter))
		}
	}
	slices.SortFunc(d.decision.Stuck, func(a, b Stuck) int {
		return d.cluster.Requests[a.Request].ID.Compare(d.cluster.Requests[b.Request].ID)
	})
}

// stuckRequester finds the policy that made a request that is stuck.
type stuckRequester struct {
	*judgement

	// last returns the repairs that started last, by the UID of their target.
	last func() map[string]*Repair
}

func newStuckRequester(judged *judgement) *stuckRequester {
	last := onceValue(func() map[string]*Repair { return lastOf(judged.cluster.Repairs) })
	return &stuckRequester{judgement: judged, last: last}
}

// of returns the policy that made a request, none when it is gone. A request about a machine does not name its
// policy. It is the policy of the machine's last repair, or else the oldest policy that has the step.
func (a *stuckRequester) of(q *Request) int {
	if q.Policy != (ID{}) {
		return a.requester(q)
	}
	if r := a.last()[q.Target.UID]; r != nil && r.made(q) {
		if lead := a.leaderAt(r); lead != none {
			return lead
		}
	}
	oldest := none
	for i := range a.policies {
		has := slices.ContainsFunc(a.policies[i].Steps, func(s Step) bool { return q.isFor(&s) })
		if has && (oldest == none || a.ageRank[i] < a.ageRank[oldest]) {
			oldest = i
		}
	}
	return oldest
}
