package core

import "slices"

// requestIndex relates remediation requests to targets and to running repairs. The oldest request
// comes first.
type requestIndex struct {
	repairIndex
	// requestsAbout are the requests about each target, and requestsOf those of each running
	// repair.
	requestsAbout map[int][]int
	requestsOf    map[int][]int
}

func newRequestIndex(repairs *repairIndex) *requestIndex {
	x := &requestIndex{repairIndex: *repairs}
	if len(x.cluster.Requests) > 0 {
		x.relateToTargets()
		x.relateToRepairs()
	}
	return x
}

// relateToTargets finds the target of each request.
func (x *requestIndex) relateToTargets() {
	wanted := make(map[qualifiedName][]int, len(x.cluster.Requests))
	for i := range x.cluster.Requests {
		key := x.cluster.Requests[i].Target.qualified()
		wanted[key] = append(wanted[key], i)
	}
	x.requestsAbout = make(map[int][]int, len(wanted))
	for i := range x.cluster.Targets {
		t := &x.cluster.Targets[i].ID
		for _, r := range wanted[t.qualified()] {
			if x.cluster.Requests[r].about(t) {
				x.requestsAbout[i] = append(x.requestsAbout[i], r)
			}
		}
	}
	for _, requests := range x.requestsAbout {
		slices.SortFunc(requests, x.olderRequest)
	}
}

// relateToRepairs finds the requests of each running repair: requests of its steps, by its policy.
func (x *requestIndex) relateToRepairs() {
	if len(x.running) == 0 {
		return
	}
	x.requestsOf = map[int][]int{}
	byName := make(map[string][]int, len(x.running))
	for _, at := range x.running {
		name := x.cluster.Repairs[at].Target.Name
		byName[name] = append(byName[name], at)
	}
	for i := range x.cluster.Requests {
		q := &x.cluster.Requests[i]
		if of := x.repairOfRequest(q, byName[q.Target.Name]); of != none {
			x.requestsOf[of] = append(x.requestsOf[of], i)
		}
	}
	for _, requests := range x.requestsOf {
		slices.SortFunc(requests, x.olderRequest)
	}
}

// repairOfRequest returns the repair that made a request. A request without the UID of its target is about the target
// that exists.
func (x *requestIndex) repairOfRequest(q *Request, repairs []int) int {
	best := none
	for _, at := range repairs {
		r := &x.cluster.Repairs[at]
		if !q.about(&r.Target) || !r.made(q) {
			continue
		}
		_, exists := x.targetOf[at]
		_, bestExists := x.targetOf[best]
		if best == none || (exists && !bestExists) || (exists == bestExists && x.olderRepair(at, best) < 0) {
			best = at
		}
	}
	return best
}

// awaitsRequest reports whether a request about a target stands that its policy must wait for.
func (x *requestIndex) awaitsRequest(policy, target int) bool {
	p := &x.policies[policy]
	return !p.IgnoresRequests && slices.ContainsFunc(x.requestsAbout[target], func(r int) bool {
		return x.cluster.Requests[r].RequestedBy(&p.ID)
	})
}

// remainingRequest reports whether a request of a policy remains, and returns a sentence on it. Fettle did not make it and does not
// withdraw it, or its withdrawal does not end. The other requests are Fettle's own and on their way.
func (x *requestIndex) remainingRequest(policy, target int) (text string, remains bool) {
	p := &x.policies[policy]
	for _, r := range x.requestsAbout[target] {
		switch q := &x.cluster.Requests[r]; {
		case !q.RequestedBy(&p.ID):
		case !q.Own:
			return "Fettle did not make " + q.ID.String() + ", so it does not delete it; delete it once its remediator is done", true
		case q.stuck(x.now):
			return q.stuckText(), true
		}
	}
	return "", false
}

// markedForOwner reports whether a mark stands that the policy would make for the target's owner. Marks don't name their
// author. The mark of a healthy target doesn't count, since it is withdrawn.
func (x *requestIndex) markedForOwner(v *Verdict) bool {
	if v.Health == Healthy && v.Reason != Premature {
		return false
	}
	return slices.ContainsFunc(x.requestsAbout[v.Target], func(r int) bool {
		q := &x.cluster.Requests[r]
		return q.Policy == (ID{}) && slices.ContainsFunc(x.policies[v.Policy].Steps, func(s Step) bool {
			return s.Nature.Effect().OwnerDecides && q.isFor(&s)
		})
	})
}

// underRemediation reports whether a remediator or an owner works on a target, by the requests that stand.
func (x *requestIndex) underRemediation(v *Verdict) bool {
	return x.cluster.Targets[v.Target].ExternallyRemediated || x.awaitsRequest(v.Policy, v.Target) || x.markedForOwner(v)
}

// placesTaken returns how many places in flight the first step of a repair takes. It takes none where a request for the
// target has it already.
func (x *requestIndex) placesTaken(v *Verdict) int {
	if x.underRemediation(v) {
		return 0
	}
	return 1
}

// stands reports whether a request stands that Fettle made for a repair.
func (x *requestIndex) stands(repair int) bool {
	return slices.ContainsFunc(x.requestsOf[repair], func(i int) bool { return x.cluster.Requests[i].Own })
}

// begun reports whether the remedy of a repair has done something, as far as the world shows it. A request that Fettle did
// not make begins nothing: else its author would spare the repair the gates of its first step.
func (x *requestIndex) begun(repair, target int) bool {
	t, r := &x.cluster.Targets[target], &x.cluster.Repairs[repair]
	return t.Deleting || len(r.Tried) > 0 || !r.Begun.IsZero() || x.stands(repair)
}

// current returns the request of the step under way, or none. A request that is not leaving goes before a leaving one.
func (x *requestIndex) current(repair int, step *Step) int {
	found := none
	for _, i := range x.requestsOf[repair] {
		if q := &x.cluster.Requests[i]; q.isFor(step) && (found == none || !q.Leaving) {
			found = i
		}
	}
	return found
}

// stabilizes reports whether a target that meets no criterion is not healthy yet. That is so while a request of the policy
// stands and a condition has just turned.
func (x *requestIndex) stabilizes(policy, target int) bool {
	if len(x.requestsAbout[target]) == 0 {
		return false
	}
	p := &x.policies[policy]
	at := stableAt(&p.Criteria, &x.cluster.Targets[target])
	if !x.now.Before(at) {
		return false
	}
	stands := slices.ContainsFunc(x.requestsAbout[target], func(i int) bool {
		q := &x.cluster.Requests[i]
		return q.Own && !q.Leaving && q.mayBeRequestedBy(p)
	})
	if stands {
		x.wakeAt(at)
	}
	return stands
}
