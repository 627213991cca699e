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
	type name struct{ kind, namespace, name string }
	wanted := make(map[name][]int, len(d.fleet.Requests))
	for i := range d.fleet.Requests {
		of := &d.fleet.Requests[i].Target
		key := name{of.Kind, of.Namespace, of.Name}
		wanted[key] = append(wanted[key], i)
	}
	d.requestsOn = make(map[int][]int, len(wanted))
	for i := range d.fleet.Targets {
		t := &d.fleet.Targets[i].ID
		for _, r := range wanted[name{t.Kind, t.Namespace, t.Name}] {
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
		return d.fleet.Requests[r].askedBy(&p.ID)
	})
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
			return s.Nature == Delegates && q.asks(&s)
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

// relatePetitions finds the requests of each running repair: those of its steps, by its policy. One that was made
// and not seen is asked about again when it is not believed in any more.
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
			if q.ID.UID == "" {
				d.wakeAt(q.Created.Add(unseenFor))
			}
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

// asked tells whether the repair asked for a request about its target.
func (r *Repair) asked(q *Request) bool {
	if q.Policy != (ID{}) && !q.askedBy(&r.Policy) {
		return false
	}
	return slices.ContainsFunc(r.Ladder, func(s Step) bool { return q.asks(&s) })
}

// blind tells whether requests of the repair may stand that can't be seen.
func (d *deliberation) blind(r *Repair) bool {
	return len(d.fleet.Unseen) > 0 && slices.ContainsFunc(r.Ladder, func(s Step) bool {
		return s.Nature == Requests && slices.ContainsFunc(d.fleet.Unseen, func(u Reference) bool {
			return u.APIVersion == s.Template.APIVersion && u.Kind == s.Template.Kind
		})
	})
}

// begun tells whether the remedy of a repair has done something, as far as the world shows it.
func (d *deliberation) begun(repair, target int) bool {
	t, r := &d.fleet.Targets[target], &d.fleet.Repairs[repair]
	return t.Deleting || len(r.Rungs) > 0 || !r.Begun.IsZero() || len(d.petitions[repair]) > 0
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

// takeBack withdraws the requests of a repair, and tells whether none stands any more.
func (d *deliberation) takeBack(repair, target, policy int, text string) bool {
	for _, i := range d.petitions[repair] {
		d.withdraw(i, target, policy, text)
	}
	return len(d.petitions[repair]) == 0
}

func (d *deliberation) withdraw(request, target, policy int, text string) {
	// One that was made and has not been seen yet can't be named.
	if q := &d.fleet.Requests[request]; !q.Leaving && q.ID.UID != "" {
		well := text == wellText || text == wellAgainText
		d.decision.Withdrawals = append(d.decision.Withdrawals, Withdrawal{
			Request: request, Target: target, Policy: policy, Settled: well && !d.disputed(target), Text: text,
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

// Why the request of a target that is healthy is withdrawn.
const (
	wellText      = "the target is healthy"
	wellAgainText = "the target is healthy again"
)

// lastsUntil tells whether the request of a target that is healthy again stands for the policy's delay,
// and until when, zero for until a person says otherwise.
func (d *deliberation) lastsUntil(p *Policy, t *Target, recovered time.Time) (time.Time, bool) {
	if p.HealthyDelay == 0 || t.Vouched {
		return time.Time{}, false
	}
	if p.HealthyDelay < 0 {
		return time.Time{}, true
	}
	since := recovered
	if turned := healthySince(&p.Criteria, t); turned.After(since) {
		since = turned
	}
	until := since.Add(p.HealthyDelay)
	return until, d.now.Before(until)
}

// healthySince is the last time at which a condition that matters turned; zero when none says.
func healthySince(c *Criteria, t *Target) time.Time {
	var since time.Time
	for i := range t.Node.Conditions {
		have := &t.Node.Conditions[i]
		matters := slices.ContainsFunc(c.Conditions, func(want ConditionCriterion) bool { return want.Type == have.Type })
		if matters && have.Since.After(since) {
			since = have.Since
		}
	}
	return since
}

// withdrawOrphans looks at the requests that no running repair accounts for: somebody deleted its entry,
// another health checker made them, or their health check is gone. Those of a policy that only rehearses are let be.
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
	for i := range d.fleet.Requests {
		if q := &d.fleet.Requests[i]; accounted[i] || d.illegible(q) || d.rehearses(d.asker(q)) {
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
	return slices.ContainsFunc(d.policies, func(p Policy) bool {
		return p.Illegible && (q.Policy == (ID{}) || q.askedBy(&p.ID))
	})
}

// bereft: the target of a request is gone, or nobody selects it any more. Whoever expects it to be gone
// still has to say that it was replaced.
func (d *deliberation) bereft(request int) {
	q := &d.fleet.Requests[request]
	if q.Policy == (ID{}) || (q.Replaces && q.Succeeded != Yes) {
		return
	}
	d.withdraw(request, none, d.asker(q), goneText)
}

// asker is the policy that asked for a request, none when it is gone.
func (d *deliberation) asker(q *Request) int {
	return slices.IndexFunc(d.policies, func(p Policy) bool { return q.askedBy(&p.ID) })
}

// orphan: a request about a target that exists is taken back as soon as the target is healthy. While it
// isn't, the request is left for the repair that follows.
func (d *deliberation) orphan(request, target int) {
	q, t := &d.fleet.Requests[request], &d.fleet.Targets[target]
	policy, v := d.verdictFor(q, target)
	switch {
	case v == nil && q.Policy != (ID{}):
		d.withdraw(request, target, d.asker(q), "the health check that asked for it no longer selects the target, or no longer exists")
	case v == nil:
		return // it may be somebody else's
	case v.Health != Healthy && v.Reason != Recovering, v.Reason == Premature:
		return
	default:
		if until, lasts := d.lastsUntil(&d.policies[policy], t, time.Time{}); lasts {
			d.wakeAt(until)
			return
		}
		d.withdraw(request, target, policy, wellText)
	}
}

// verdictFor finds the verdict on a target of the policy that asked for a request. A request that doesn't
// name it is that of whoever would make the same.
func (d *deliberation) verdictFor(q *Request, target int) (int, *Verdict) {
	for i := range d.decision.Verdicts {
		v := &d.decision.Verdicts[i]
		if v.Target != target {
			continue
		}
		p := &d.policies[v.Policy]
		if p.DryRun {
			continue
		}
		anonymous := q.Policy == (ID{}) && slices.ContainsFunc(p.Ladder, func(s Step) bool { return q.asks(&s) })
		if anonymous || q.askedBy(&p.ID) {
			return v.Policy, v
		}
	}
	return none, nil
}
