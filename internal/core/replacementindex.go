package core

import "slices"

// A repair whose target is gone goes on only while a remediator replaces the target. Until then the
// target has its place among the limits: it is in flight, and it counts as unhealthy unless its
// replacement has come.

// replacementIndex has the targets that are gone and whose remediators are at work.
type replacementIndex struct {
	verdictIndex
	// awaitingReplacement has the running repairs whose targets are gone and that go on.
	// controlPlaneAwaited counts those whose targets may belong to the control plane.
	awaitingReplacement map[int]bool
	controlPlaneAwaited int
	// replacing has the first request whose remediator replaces a target that is gone, by the
	// target's ID without UID.
	replacing map[ID]int
}

func newReplacementIndex(verdicts *verdictIndex) *replacementIndex {
	x := &replacementIndex{verdictIndex: *verdicts, awaitingReplacement: map[int]bool{}, replacing: map[ID]int{}}
	x.findAwaitingReplacement()
	x.findReplacing()
	return x
}

// findAwaitingReplacement finds the running repairs of targets that are gone, and which of these repairs go on.
func (x *replacementIndex) findAwaitingReplacement() {
	if x.cluster.Observed != Yes {
		return
	}
	for _, at := range x.running {
		if _, exists := x.targetOf[at]; exists || !x.goesOn(at) {
			continue
		}
		x.awaitingReplacement[at] = true
		if !x.cluster.Workers[x.cluster.Repairs[at].Target] {
			x.controlPlaneAwaited++
		}
	}
}

// findReplacing finds the requests whose remediators are at work on targets that are gone. A replacement gets no repair
// of its own meanwhile: two would work on one node (I2), and the name of the request is taken.
func (x *replacementIndex) findReplacing() {
	of, others := map[int]*Repair{}, map[int]bool{}
	for repair, requests := range x.requestsOf {
		_, exists := x.targetOf[repair]
		for _, i := range requests {
			of[i], others[i] = &x.cluster.Repairs[repair], exists
		}
	}
	for _, requests := range x.requestsAbout {
		for _, i := range requests {
			others[i] = true
		}
	}
	for i := range x.cluster.Requests {
		q := &x.cluster.Requests[i]
		if others[i] || !q.Own || q.Leaving || !x.mayAwaitReplacement(q, of[i]) {
			continue
		}
		gone := q.Target.withoutUID()
		if first, taken := x.replacing[gone]; !taken || x.olderRequest(i, first) < 0 {
			x.replacing[gone] = i
		}
	}
}

// replacingRequest returns the request whose remediator still replaces the former namesake of a target, or of its node.
// It returns none where there is no such request.
func (x *replacementIndex) replacingRequest(target int) int {
	t := &x.cluster.Targets[target]
	for _, former := range []ID{t.ID.withoutUID(), {Kind: nodeKind, Name: t.Node.Name}} {
		if i, found := x.replacing[former]; found {
			return i
		}
	}
	return none
}

// goesOn reports whether something is left to be done for the repair of a target that is gone.
func (x *verdictIndex) goesOn(repair int) bool {
	r := &x.cluster.Repairs[repair]
	switch lead := x.leaderAt(r); {
	case x.isDryRun(lead):
		return false
	case x.mayHaveUnlistedRequests(lead, r), x.unreadableGone(r):
		return true
	}
	return slices.ContainsFunc(x.requestsOf[repair], func(i int) bool {
		q := &x.cluster.Requests[i]
		return q.Own && !q.Leaving && (q.ID.UID == "" || x.mayAwaitReplacement(q, r))
	})
}

// awaitsReplacement reports whether a request about a target that is gone waits for the replacement. It ends when the
// remediator reports the outcome, its time is over by a clock that agrees, or the replacement appears. The repair is
// nil where the ledger has none.
func (x *verdictIndex) awaitsReplacement(q *Request, r *Repair) bool {
	if !q.Replaces || q.Succeeded != Unknown || !q.Stopped.IsZero() || x.replacementHealthy(&q.Target) {
		return false
	}
	if r == nil {
		return x.awaitsWithoutRepair(q)
	}
	at := q.stepIn(r.Steps)
	switch {
	case at < 0:
		return true
	case at < len(r.Tried):
		return false
	case at > len(r.Tried) || r.Steps[at].Limit == 0:
		return true
	}
	until := r.StepEnds(&r.Steps[at], q)
	x.wakeAt(until)
	return clockHolds(x.cluster, &r.Policy) != 0 || x.now.Before(until)
}

// mayAwaitReplacement reports whether a request about a target that is gone waits for the replacement, or would if its
// remediator had reported a replacement that no cache shows yet. Such a request has its place until it is withdrawn.
func (x *verdictIndex) mayAwaitReplacement(q *Request, r *Repair) bool {
	reported := *q
	reported.Replaces = true
	return x.awaitsReplacement(&reported, r)
}

// awaitsWithoutRepair reports whether the time of a request is not over that belongs to no repair in the ledger. Its step
// is that of the policy that made it. Without a limit, or a policy, only the remediator or a user ends the wait.
func (in *input) awaitsWithoutRepair(q *Request) bool {
	by := in.requester(q)
	if by == none {
		return true
	}
	p := &in.policies[by]
	steps := slices.Concat(p.Steps, p.FailedSteps)
	at := q.stepIn(steps)
	if at < 0 || steps[at].Limit == 0 {
		return true
	}
	until := q.Created.Add(steps[at].Limit)
	in.wakeAt(until)
	return clockHolds(in.cluster, &p.ID) != 0 || in.now.Before(until)
}

// replacementHealthy reports whether another target has the name of a target that is gone, and every policy that acts finds it healthy.
func (x *verdictIndex) replacementHealthy(gone *ID) bool {
	uid := x.healthyUIDs()[gone.withoutUID()]
	return uid != "" && uid != gone.UID
}

func (x *judgement) findHealthyUIDs() map[ID]string {
	uids := map[ID]string{}
	for i, healthy := range x.healthyTargets(nil) {
		if healthy == Yes {
			id := x.cluster.Targets[i].ID
			uids[id.withoutUID()] = id.UID
		}
	}
	return uids
}

// withoutUID returns the ID that all namesakes of a target share.
func (id ID) withoutUID() ID {
	id.UID = ""
	return id
}
