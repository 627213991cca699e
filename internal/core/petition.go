package core

import (
	"slices"
	"time"
)

// relateRequests finds the target of each request.
func (d *deliberation) relateRequests() {
	if len(d.fleet.Requests) == 0 {
		return
	}
	wanted := make(map[qualifiedName][]int, len(d.fleet.Requests))
	for i := range d.fleet.Requests {
		key := d.fleet.Requests[i].Target.qualified()
		wanted[key] = append(wanted[key], i)
	}
	d.requestsOn = make(map[int][]int, len(wanted))
	for i := range d.fleet.Targets {
		t := &d.fleet.Targets[i].ID
		for _, r := range wanted[t.qualified()] {
			if d.fleet.Requests[r].about(t) {
				d.requestsOn[i] = append(d.requestsOn[i], r)
			}
		}
	}
	for _, requests := range d.requestsOn {
		slices.SortFunc(requests, d.olderRequest)
	}
}

func (d *deliberation) olderRequest(a, b int) int {
	p, q := &d.fleet.Requests[a], &d.fleet.Requests[b]
	if order := p.Created.Compare(q.Created); order != 0 {
		return order
	}
	return p.ID.Compare(q.ID)
}

// petitioned tells whether a request about a target stands that its policy must wait for.
func (d *deliberation) petitioned(policy, target int) bool {
	if d.requestsOn == nil {
		return false
	}
	p := &d.policies[policy]
	return !p.IgnoresRequests && slices.ContainsFunc(d.requestsOn[target], func(r int) bool {
		return d.fleet.Requests[r].AskedBy(&p.ID)
	})
}

// foreignOn says in a sentence which request of a policy Fettle did not make and so does not withdraw, or which one does not
// go away. It is empty when all are Fettle's own and are on their way.
func (d *deliberation) foreignOn(policy, target int) string {
	p := &d.policies[policy]
	for _, r := range d.requestsOn[target] {
		switch q := &d.fleet.Requests[r]; {
		case !q.AskedBy(&p.ID):
		case !q.Own:
			return "Fettle did not make " + q.ID.String() + ", so it does not delete it; delete it once its remediator is done"
		case q.stuck(d.now):
			return q.stuckText()
		}
	}
	return ""
}

// delegated tells whether a mark stands by which the policy would ask the target's owner. Marks don't tell who made them.
// That of a target which is healthy is taken back.
func (d *deliberation) delegated(v *Verdict) bool {
	if d.requestsOn == nil || (v.Health == Healthy && v.Reason != Premature) {
		return false
	}
	return slices.ContainsFunc(d.requestsOn[v.Target], func(r int) bool {
		q := &d.fleet.Requests[r]
		return q.Policy == (ID{}) && slices.ContainsFunc(d.policies[v.Policy].Ladder, func(s Step) bool {
			return s.Nature.Effect().OwnerDecides && q.asks(&s)
		})
	})
}

// inHands tells whether a target is in the hands of a remediator or an owner, by what stands that was asked for it.
func (d *deliberation) inHands(v *Verdict) bool {
	return d.fleet.Targets[v.Target].Claimed || d.petitioned(v.Policy, v.Target) || d.delegated(v)
}

// takes is how much room among those in flight the first step of a repair takes: none where what was asked for the target
// has it already.
func (d *deliberation) takes(v *Verdict) int {
	if d.inHands(v) {
		return 0
	}
	return 1
}

// relatePetitions finds the requests of each running repair: those of its steps, by its policy.
func (d *deliberation) relatePetitions() {
	if len(d.fleet.Requests) == 0 {
		return
	}
	d.petitions = map[int][]int{}
	byName := make(map[string][]int, len(d.running))
	for _, at := range d.running {
		name := d.fleet.Repairs[at].Target.Name
		byName[name] = append(byName[name], at)
	}
	for i := range d.fleet.Requests {
		q := &d.fleet.Requests[i]
		if of := d.petitioner(q, byName[q.Target.Name]); of != none {
			d.petitions[of] = append(d.petitions[of], i)
		}
	}
	for _, requests := range d.petitions {
		slices.SortFunc(requests, d.olderRequest)
	}
}

// petitioner is the repair that made a request. A request may not tell the UID of its target: then it is
// that of the target which exists.
func (d *deliberation) petitioner(q *Request, repairs []int) int {
	best := none
	for _, at := range repairs {
		r := &d.fleet.Repairs[at]
		if !q.about(&r.Target) || !r.asked(q) {
			continue
		}
		_, exists := d.targetOf[at]
		_, rivalExists := d.targetOf[best]
		if best == none || (exists && !rivalExists) || (exists == rivalExists && d.olderRepair(at, best) < 0) {
			best = at
		}
	}
	return best
}

// blind tells whether requests of the repair may stand that can't be seen.
func (d *deliberation) blind(r *Repair) bool {
	return len(d.fleet.Unseen) > 0 && slices.ContainsFunc(r.Ladder, func(s Step) bool { return d.hidden(&s) })
}

// hidden reports whether the requests of a step can't be seen.
func (d *deliberation) hidden(s *Step) bool {
	return s.Nature.Effect().AsksRemediator && slices.ContainsFunc(d.fleet.Unseen, func(u Reference) bool {
		return u.APIVersion == s.Template.APIVersion && u.Kind == s.Template.Kind
	})
}

// begun reports whether the remedy of a repair has done something, as far as the world shows it. A request that Fettle did
// not make begins nothing: else its author would spare the repair the gates of its first step.
func (d *deliberation) begun(repair, target int) bool {
	t, r := &d.fleet.Targets[target], &d.fleet.Repairs[repair]
	return t.Deleting || len(r.Rungs) > 0 || !r.Begun.IsZero() || d.stands(repair)
}

// stands reports whether a request stands that Fettle made for a repair.
func (d *deliberation) stands(repair int) bool {
	return slices.ContainsFunc(d.petitions[repair], func(i int) bool { return d.fleet.Requests[i].Own })
}

// current is the request of the step under way, none when there is none. One that stands goes before
// one that is leaving.
func (d *deliberation) current(repair int, step *Step) int {
	found := none
	for _, i := range d.petitions[repair] {
		if q := &d.fleet.Requests[i]; q.asks(step) && (found == none || !q.Leaving) {
			found = i
		}
	}
	return found
}

// takeBack withdraws the requests of a repair, and tells whether none stands any more. Requests that Fettle did not
// make don't count: their makers withdraw them.
func (d *deliberation) takeBack(repair, target, policy int, reason EndReason) bool {
	for _, i := range d.petitions[repair] {
		d.withdraw(i, target, policy, reason)
	}
	return !d.stands(repair)
}

func (d *deliberation) withdraw(request, target, policy int, reason EndReason) {
	// One that was made and has not been seen yet can't be named.
	if q := &d.fleet.Requests[request]; q.Own && !q.Leaving && q.ID.UID != "" {
		d.decision.Withdrawals = append(d.decision.Withdrawals, Withdrawal{
			Request: request, Target: target, Policy: policy, Settled: reason.healthy() && !d.disputed(target),
			Reason: reason, Text: because(reason).text(),
		})
	}
}

// disputed tells whether a policy that acts finds a target unhealthy, whatever others find.
func (d *deliberation) disputed(target int) bool {
	return slices.ContainsFunc(d.judgementsOf(target), func(i int32) bool {
		v := &d.decision.Verdicts[i]
		return v.Target == target && v.Health == Unhealthy && !d.policies[v.Policy].DryRun
	})
}

// lastsUntil tells whether the request of a target that is healthy again stands for the policy's delay, or since a condition has
// just turned, and until when, zero for until a person says otherwise.
func (d *deliberation) lastsUntil(p *Policy, t *Target, recovered time.Time) (time.Time, bool) {
	switch {
	case t.Vouched:
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

// withdrawOrphans looks at Fettle's own requests that no running repair accounts for: its entry was deleted, or their
// health check is gone. Those of a policy that only rehearses are left alone.
func (d *deliberation) withdrawOrphans() {
	if d.fleet.Observed != Yes || len(d.fleet.Requests) == 0 {
		return
	}
	accounted := make([]bool, len(d.fleet.Requests))
	for _, requests := range d.petitions {
		for _, i := range requests {
			accounted[i] = true
		}
	}
	targetOf := make(map[int]int, len(d.fleet.Requests))
	for target, requests := range d.requestsOn {
		for _, i := range requests {
			targetOf[i] = target
		}
	}
	d.indexOrphans()
	for i := range d.fleet.Requests {
		if q := &d.fleet.Requests[i]; !q.Own || accounted[i] || d.illegible(q) || d.rehearses(d.asker(q)) {
			continue
		}
		if target, exists := targetOf[i]; exists {
			d.orphan(i, target)
		} else {
			d.bereft(i)
		}
	}
}

// illegible tells whether a request is that of a policy which can't be read, or may be.
func (d *deliberation) illegible(q *Request) bool {
	if q.Policy == (ID{}) {
		return d.orphans.illegible
	}
	return slices.ContainsFunc(d.orphans.policies[q.Policy.qualified()], func(i int) bool {
		return d.policies[i].Illegible && q.AskedBy(&d.policies[i].ID)
	})
}

// bereft: the target of a request is gone, or no policy selects it any more. A remediator that has the target replaced has
// until that is done.
func (d *deliberation) bereft(request int) {
	q := &d.fleet.Requests[request]
	if q.Policy == (ID{}) || d.awaited(q, nil) {
		return
	}
	d.withdraw(request, none, d.asker(q), TargetGone)
}

// asker is the policy that asked for a request, none when it is gone.
func (d *deliberation) asker(q *Request) int {
	for _, i := range d.orphans.policies[q.Policy.qualified()] {
		if q.AskedBy(&d.policies[i].ID) {
			return i
		}
	}
	return none
}

// orphan: a request about a target that exists is taken back as soon as the target is healthy. While it
// isn't, the request is left for the repair that follows.
func (d *deliberation) orphan(request, target int) {
	q, t := &d.fleet.Requests[request], &d.fleet.Targets[target]
	policy, v := d.verdictFor(q, target)
	switch {
	case v == nil && q.Policy != (ID{}):
		d.withdraw(request, target, d.asker(q), RequesterGone)
	case v == nil:
		return // it may be somebody else's
	case v.Health != Healthy && v.Reason != Recovering, v.Reason == Premature:
		return
	default:
		if until, lasts := d.lastsUntil(&d.policies[policy], t, time.Time{}); lasts {
			d.wakeAt(until)
			return
		}
		d.withdraw(request, target, policy, TargetHealthy)
	}
}

// verdictFor finds the verdict on a target of the policy that asked for a request. A request that doesn't
// name it is that of whoever would make the same.
func (d *deliberation) verdictFor(q *Request, target int) (int, *Verdict) {
	for _, i := range d.orphans.verdicts.on(d.body(target)) {
		v := &d.decision.Verdicts[i]
		if v.Target != target {
			continue
		}
		p := &d.policies[v.Policy]
		if p.DryRun {
			continue
		}
		if q.mayBeOf(p) {
			return v.Policy, v
		}
	}
	return none, nil
}

// settles reports whether a target that meets no criterion is not healthy yet, since something stands that the policy has asked for,
// and a condition has just turned.
func (d *deliberation) settles(policy, target int) bool {
	if len(d.requestsOn[target]) == 0 {
		return false
	}
	p := &d.policies[policy]
	at := settlesAt(&p.Criteria, &d.fleet.Targets[target])
	if !d.now.Before(at) {
		return false
	}
	stands := slices.ContainsFunc(d.requestsOn[target], func(i int) bool {
		q := &d.fleet.Requests[i]
		return q.Own && !q.Leaving && q.mayBeOf(p)
	})
	if stands {
		d.wakeAt(at)
	}
	return stands
}
