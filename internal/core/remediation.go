package core

import "time"

// withdrawAll withdraws the requests of a repair, and reports whether none stands any more. Requests of other authors
// don't count, since their authors withdraw them.
func (d *planner) withdrawAll(repair, target, policy int, reason EndReason) bool {
	for _, i := range d.requestsOf[repair] {
		d.withdraw(Withdrawal{Request: i, Target: target, Policy: policy, Reason: reason})
	}
	return !d.stands(repair)
}

// withdraw withdraws a request, unless it must stay. It sets the fields of the withdrawal that follow from the others.
func (d *planner) withdraw(w Withdrawal) {
	q := &d.cluster.Requests[w.Request]
	if !q.Own || q.Leaving || q.ID.UID == "" { // a request that was made and not seen yet can't be named
		return
	}
	w.TargetHealthy = w.Reason.healthy() && !d.disputed(w.Target)
	w.Text = because(w.Reason).text()
	d.decision.Withdrawals = append(d.decision.Withdrawals, w)
}

// lastsUntil reports whether the request of a recovered target stays, and until when. It stays for the policy's delay,
// or since a condition has just turned. The zero instant means until a user says otherwise.
func (in *input) lastsUntil(p *Policy, t *Target, recovered time.Time) (time.Time, bool) {
	switch {
	case t.ConfirmedHealthy:
		return time.Time{}, false
	case p.HealthyDelay < 0:
		return time.Time{}, true
	}
	until := stableAt(&p.Criteria, t)
	if p.HealthyDelay > 0 {
		until = latest(until, latest(recovered, healthySince(&p.Criteria, t)).Add(p.HealthyDelay))
	}
	return until, in.now.Before(until)
}
