package core

import (
	"slices"
	"time"
)

// orphanIndex holds the lookups for requests without a running repair. There may be as many of them
// as targets, so none may cost a look at all verdicts or policies.
type orphanIndex struct {
	*judgement
	// byGroup has the verdicts on the groups that have requests.
	byGroup groupVerdicts
	// anyUnparsable is set when there is a policy that can't be read.
	anyUnparsable bool
}

func newOrphanIndex(judged *judgement) *orphanIndex {
	requested := make([]bool, len(judged.cluster.Targets))
	for target := range judged.requestsAbout {
		requested[judged.groupOf(target)] = true
	}
	return &orphanIndex{
		judgement: judged, byGroup: judged.verdictsByGroup(requested),
		anyUnparsable: slices.ContainsFunc(judged.policies, func(p Policy) bool { return p.Unparsable }),
	}
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
	orphans := newOrphanIndex(&d.judgement)
	for i := range d.cluster.Requests {
		if q := &d.cluster.Requests[i]; !q.Own || accounted[i] || orphans.unparsable(q) || d.isDryRun(d.requester(q)) {
			continue
		}
		if target, exists := targetOf[i]; exists {
			d.withdrawOrphan(orphans, i, target)
		} else {
			d.withdrawTargetless(i)
		}
	}
}

// unparsable reports whether a request belongs, or may belong, to a policy that can't be read.
func (x *orphanIndex) unparsable(q *Request) bool {
	if q.Policy == (ID{}) {
		return x.anyUnparsable
	}
	return slices.ContainsFunc(x.policiesNamed(&q.Policy), func(i int) bool {
		return x.policies[i].Unparsable && q.RequestedBy(&x.policies[i].ID)
	})
}

// withdrawTargetless withdraws a request whose target is gone or no longer selected. A remediator that replaces the
// target has until that is done.
func (d *planner) withdrawTargetless(request int) {
	q := &d.cluster.Requests[request]
	if q.Policy == (ID{}) || d.awaitsReplacement(q, nil) {
		return
	}
	d.withdraw(Withdrawal{Request: request, Target: none, Policy: d.requester(q), OnlyAsReported: d.mayAwaitReplacement(q, nil), Reason: TargetGone})
}

// withdrawOrphan withdraws a request about an existing target as soon as the target is healthy. Until then the request
// is left for the repair that follows.
func (d *planner) withdrawOrphan(orphans *orphanIndex, request, target int) {
	q, t := &d.cluster.Requests[request], &d.cluster.Targets[target]
	policy, v := orphans.verdictFor(q, target)
	switch {
	case v == nil && q.Policy != (ID{}):
		d.withdraw(Withdrawal{Request: request, Target: target, Policy: d.requester(q), Reason: RequesterGone})
	case v == nil:
		// Another author may have made it.
	case v.Health != Healthy && v.Reason != Recovering, v.Reason == Premature:
		// It is left for the repair that follows.
	default:
		if until, lasts := d.lastsUntil(&d.policies[policy], t, time.Time{}); lasts {
			d.wakeAt(until)
			return
		}
		d.withdraw(Withdrawal{Request: request, Target: target, Policy: policy, Reason: TargetHealthy})
	}
}

// verdictFor returns the verdict on a target by the policy that made a request. A request that names no policy
// belongs to any policy that would make the same.
func (x *orphanIndex) verdictFor(q *Request, target int) (int, *Verdict) {
	for _, i := range x.byGroup.on(x.groupOf(target)) {
		v := &x.verdicts[i]
		if v.Target != target {
			continue
		}
		p := &x.policies[v.Policy]
		if p.DryRun {
			continue
		}
		if q.mayBeRequestedBy(p) {
			return v.Policy, v
		}
	}
	return none, nil
}
