package core

import (
	"slices"
	"time"
)

// stuckAfter is how long a request that was withdrawn may be on its way out. Remediators undo what they did meanwhile.
const stuckAfter = 10 * time.Minute

// stuckText returns what to do about a request that does not go away.
func (r *Request) stuckText() string {
	return r.ID.String() + " was withdrawn at " + stamp(r.LeavingSince) + " and is still there, since these finalizers keep it: " + r.KeptBy +
		"; see whether its remediator runs, and remove the finalizers by hand when nothing is left for it to undo"
}

// stuck reports whether a request has been on its way out for long.
func (r *Request) stuck(now time.Time) bool {
	return r.Own && r.Leaving && r.KeptBy != "" && !r.LeavingSince.IsZero() && !now.Before(r.LeavingSince.Add(stuckAfter))
}

// findStuck finds the requests that were withdrawn long ago and that finalizers keep.
func (d *planner) findStuck() {
	if d.cluster.Observed != Yes {
		return
	}
	asker := stuckRequester{planner: d}
	for i := range d.cluster.Requests {
		switch q := &d.cluster.Requests[i]; {
		case q.stuck(d.now):
			d.decision.Stuck = append(d.decision.Stuck, Stuck{Request: i, Policy: asker.of(q)})
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
	*planner

	// last are the repairs that started last, by the UID of their target; nil until they are needed.
	last map[string]*Repair
}

// of returns the policy that made a request, none when it is gone. A request about a machine does not name its
// policy. It is the policy of the machine's last repair, or else the oldest policy that has the step.
func (a *stuckRequester) of(q *Request) int {
	if q.Policy != (ID{}) {
		return a.requester(q)
	}
	if a.last == nil {
		a.last = lastOf(a.cluster.Repairs)
	}
	if r := a.last[q.Target.UID]; r != nil && r.made(q) {
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
