package core

import (
	"slices"
	"time"
)

// relateRequests finds the target of each request.
func (d *planner) relateRequests() {
	if len(d.cluster.Requests) == 0 {
		return
	}
	wanted := make(map[qualifiedName][]int, len(d.cluster.Requests))
	for i := range d.cluster.Requests {
		key := d.cluster.Requests[i].Target.qualified()
		wanted[key] = append(wanted[key], i)
	}
	d.requestsAbout = make(map[int][]int, len(wanted))
	for i := range d.cluster.Targets {
		t := &d.cluster.Targets[i].ID
		for _, r := range wanted[t.qualified()] {
			if d.cluster.Requests[r].about(t) {
				d.requestsAbout[i] = append(d.requestsAbout[i], r)
			}
		}
	}
	for _, requests := range d.requestsAbout {
		slices.SortFunc(requests, d.olderRequest)
	}
}

func (d *planner) olderRequest(a, b int) int {
	p, q := &d.cluster.Requests[a], &d.cluster.Requests[b]
	if order := p.Created.Compare(q.Created); order != 0 {
		return order
	}
	return p.ID.Compare(q.ID)
}

// awaitsRequest reports whether a request about a target stands that its policy must wait for.
func (d *planner) awaitsRequest(policy, target int) bool {
	p := &d.policies[policy]
	return !p.IgnoresRequests && slices.ContainsFunc(d.requestsAbout[target], func(r int) bool {
		return d.cluster.Requests[r].RequestedBy(&p.ID)
	})
}

// remainingRequest reports whether a request of a policy remains, and returns a sentence on it. Fettle did not make it and does not
// withdraw it, or its withdrawal does not end. The other requests are Fettle's own and on their way.
func (d *planner) remainingRequest(policy, target int) (text string, remains bool) {
	p := &d.policies[policy]
	for _, r := range d.requestsAbout[target] {
		switch q := &d.cluster.Requests[r]; {
		case !q.RequestedBy(&p.ID):
		case !q.Own:
			return "Fettle did not make " + q.ID.String() + ", so it does not delete it; delete it once its remediator is done", true
		case q.stuck(d.now):
			return q.stuckText(), true
		}
	}
	return "", false
}

// markedForOwner reports whether a mark stands that the policy would make for the target's owner. Marks don't name their
// author. The mark of a healthy target doesn't count, since it is withdrawn.
func (d *planner) markedForOwner(v *Verdict) bool {
	if v.Health == Healthy && v.Reason != Premature {
		return false
	}
	return slices.ContainsFunc(d.requestsAbout[v.Target], func(r int) bool {
		q := &d.cluster.Requests[r]
		return q.Policy == (ID{}) && slices.ContainsFunc(d.policies[v.Policy].Steps, func(s Step) bool {
			return s.Nature.Effect().OwnerDecides && q.isFor(&s)
		})
	})
}

// underRemediation reports whether a remediator or an owner works on a target, by the requests that stand.
func (d *planner) underRemediation(v *Verdict) bool {
	return d.cluster.Targets[v.Target].ExternallyRemediated || d.awaitsRequest(v.Policy, v.Target) || d.markedForOwner(v)
}

// placesTaken returns how many places in flight the first step of a repair takes. It takes none where a request for the
// target has it already.
func (d *planner) placesTaken(v *Verdict) int {
	if d.underRemediation(v) {
		return 0
	}
	return 1
}

// relateRequestsToRepairs finds the requests of each running repair: requests of its steps, by its policy.
func (d *planner) relateRequestsToRepairs() {
	if len(d.cluster.Requests) == 0 {
		return
	}
	d.requestsOf = map[int][]int{}
	byName := make(map[string][]int, len(d.running))
	for _, at := range d.running {
		name := d.cluster.Repairs[at].Target.Name
		byName[name] = append(byName[name], at)
	}
	for i := range d.cluster.Requests {
		q := &d.cluster.Requests[i]
		if of := d.repairOfRequest(q, byName[q.Target.Name]); of != none {
			d.requestsOf[of] = append(d.requestsOf[of], i)
		}
	}
	for _, requests := range d.requestsOf {
		slices.SortFunc(requests, d.olderRequest)
	}
}

// repairOfRequest returns the repair that made a request. A request without the UID of its target is about the target
// that exists.
func (d *planner) repairOfRequest(q *Request, repairs []int) int {
	best := none
	for _, at := range repairs {
		r := &d.cluster.Repairs[at]
		if !q.about(&r.Target) || !r.made(q) {
			continue
		}
		_, exists := d.targetOf[at]
		_, bestExists := d.targetOf[best]
		if best == none || (exists && !bestExists) || (exists == bestExists && d.olderRepair(at, best) < 0) {
			best = at
		}
	}
	return best
}

// requestsUnlisted reports whether requests of the repair may stand that can't be seen.
func (d *planner) requestsUnlisted(r *Repair) bool {
	return slices.ContainsFunc(r.Steps, func(s Step) bool { return d.unlisted(&s) })
}

// unlisted reports whether the requests of a step can't be seen.
func (d *planner) unlisted(s *Step) bool {
	return s.Nature.Effect().CreatesRequest && slices.ContainsFunc(d.cluster.UnlistedTemplates, func(u Reference) bool {
		return u.APIVersion == s.Template.APIVersion && u.Kind == s.Template.Kind
	})
}

// begun reports whether the remedy of a repair has done something, as far as the world shows it. A request that Fettle did
// not make begins nothing: else its author would spare the repair the gates of its first step.
func (d *planner) begun(repair, target int) bool {
	t, r := &d.cluster.Targets[target], &d.cluster.Repairs[repair]
	return t.Deleting || len(r.Tried) > 0 || !r.Begun.IsZero() || d.stands(repair)
}

// stands reports whether a request stands that Fettle made for a repair.
func (d *planner) stands(repair int) bool {
	return slices.ContainsFunc(d.requestsOf[repair], func(i int) bool { return d.cluster.Requests[i].Own })
}

// current returns the request of the step under way, or none. A request that is not leaving goes before a leaving one.
func (d *planner) current(repair int, step *Step) int {
	found := none
	for _, i := range d.requestsOf[repair] {
		if q := &d.cluster.Requests[i]; q.isFor(step) && (found == none || !q.Leaving) {
			found = i
		}
	}
	return found
}

// withdrawAll withdraws the requests of a repair, and reports whether none stands any more. Requests of other authors
// don't count, since their authors withdraw them.
func (d *planner) withdrawAll(repair, target, policy int, reason EndReason) bool {
	for _, i := range d.requestsOf[repair] {
		d.withdraw(i, target, policy, reason)
	}
	return !d.stands(repair)
}

func (d *planner) withdraw(request, target, policy int, reason EndReason) {
	// A request that was made and not seen yet can't be named.
	if q := &d.cluster.Requests[request]; q.Own && !q.Leaving && q.ID.UID != "" {
		d.decision.Withdrawals = append(d.decision.Withdrawals, Withdrawal{
			Request: request, Target: target, Policy: policy, TargetHealthy: reason.healthy() && !d.disputed(target),
			Reason: reason, Text: because(reason).text(),
		})
	}
}

// disputed reports whether any policy that acts finds a target unhealthy.
func (d *planner) disputed(target int) bool {
	return slices.ContainsFunc(d.verdictsOnGroup(target), func(i int32) bool {
		v := &d.decision.Verdicts[i]
		return v.Target == target && v.Health == Unhealthy && !d.policies[v.Policy].DryRun
	})
}

// lastsUntil reports whether the request of a recovered target stays, and until when. It stays for the policy's delay,
// or since a condition has just turned. The zero instant means until a user says otherwise.
func (d *planner) lastsUntil(p *Policy, t *Target, recovered time.Time) (time.Time, bool) {
	switch {
	case t.ConfirmedHealthy:
		return time.Time{}, false
	case p.HealthyDelay < 0:
		return time.Time{}, true
	}
	until := settlesAt(&p.Criteria, t)
	if p.HealthyDelay > 0 {
		until = latest(until, latest(recovered, healthySince(&p.Criteria, t)).Add(p.HealthyDelay))
	}
	return until, d.now.Before(until)
}

// withdrawOrphans decides on Fettle's own requests that belong to no running repair: their repair was deleted, or their
// health check is gone. Requests of a dry-run policy stay.
func (d *planner) withdrawOrphans() {
	if d.cluster.Observed != Yes || len(d.cluster.Requests) == 0 {
		return
	}
	accounted := make([]bool, len(d.cluster.Requests))
	for _, requests := range d.requestsOf {
		for _, i := range requests {
			accounted[i] = true
		}
	}
	targetOf := make(map[int]int, len(d.cluster.Requests))
	for target, requests := range d.requestsAbout {
		for _, i := range requests {
			targetOf[i] = target
		}
	}
	d.indexOrphans()
	for i := range d.cluster.Requests {
		if q := &d.cluster.Requests[i]; !q.Own || accounted[i] || d.unparsable(q) || d.isDryRun(d.requester(q)) {
			continue
		}
		if target, exists := targetOf[i]; exists {
			d.withdrawOrphan(i, target)
		} else {
			d.withdrawTargetless(i)
		}
	}
}

// unparsable reports whether a request belongs, or may belong, to a policy that can't be read.
func (d *planner) unparsable(q *Request) bool {
	if q.Policy == (ID{}) {
		return d.orphans.unparsable
	}
	return slices.ContainsFunc(d.policiesNamed(&q.Policy), func(i int) bool {
		return d.policies[i].Unparsable && q.RequestedBy(&d.policies[i].ID)
	})
}

// withdrawTargetless withdraws a request whose target is gone or no longer selected. A remediator that replaces the
// target has until that is done.
func (d *planner) withdrawTargetless(request int) {
	q := &d.cluster.Requests[request]
	if q.Policy == (ID{}) || d.awaitsReplacement(q, nil) {
		return
	}
	d.withdraw(request, none, d.requester(q), TargetGone)
}

// requester returns the policy that made a request, or none if it is gone.
func (d *planner) requester(q *Request) int {
	for _, i := range d.policiesNamed(&q.Policy) {
		if q.RequestedBy(&d.policies[i].ID) {
			return i
		}
	}
	return none
}

// withdrawOrphan withdraws a request about an existing target as soon as the target is healthy. Until then the request
// is left for the repair that follows.
func (d *planner) withdrawOrphan(request, target int) {
	q, t := &d.cluster.Requests[request], &d.cluster.Targets[target]
	policy, v := d.verdictFor(q, target)
	switch {
	case v == nil && q.Policy != (ID{}):
		d.withdraw(request, target, d.requester(q), RequesterGone)
	case v == nil:
		// Another author may have made it.
	case v.Health != Healthy && v.Reason != Recovering, v.Reason == Premature:
		// It is left for the repair that follows.
	default:
		if until, lasts := d.lastsUntil(&d.policies[policy], t, time.Time{}); lasts {
			d.wakeAt(until)
			return
		}
		d.withdraw(request, target, policy, TargetHealthy)
	}
}

// verdictFor returns the verdict on a target by the policy that made a request. A request that names no policy
// belongs to any policy that would make the same.
func (d *planner) verdictFor(q *Request, target int) (int, *Verdict) {
	for _, i := range d.orphans.verdicts.on(d.groupOf(target)) {
		v := &d.decision.Verdicts[i]
		if v.Target != target {
			continue
		}
		p := &d.policies[v.Policy]
		if p.DryRun {
			continue
		}
		if q.mayBeRequestedBy(p) {
			return v.Policy, v
		}
	}
	return none, nil
}

// settles reports whether a target that meets no criterion is not healthy yet. That is so while a request of the policy
// stands and a condition has just turned.
func (d *planner) settles(policy, target int) bool {
	if len(d.requestsAbout[target]) == 0 {
		return false
	}
	p := &d.policies[policy]
	at := settlesAt(&p.Criteria, &d.cluster.Targets[target])
	if !d.now.Before(at) {
		return false
	}
	stands := slices.ContainsFunc(d.requestsAbout[target], func(i int) bool {
		q := &d.cluster.Requests[i]
		return q.Own && !q.Leaving && q.mayBeRequestedBy(p)
	})
	if stands {
		d.wakeAt(at)
	}
	return stands
}
