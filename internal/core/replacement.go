package core

import "cmp"

// targetGone ends the repair of a target that is gone, unless the target is yet to be replaced. Requests of the repair
// are withdrawn. Their remediators may keep them for long, but the repair doesn't wait for that, since no remediator
// works on that target any more.
func (d *planner) targetGone(repair int) {
	r := &d.cluster.Repairs[repair]
	lead := d.leaderAt(r)
	var ends EndReason
	if !d.isDryRun(lead) {
		for _, i := range d.requestsOf[repair] {
			q := &d.cluster.Requests[i]
			ends = cmp.Or(d.replaced(q, r), ends)
			if q.Own && !d.awaitsReplacement(q, r) {
				d.withdraw(Withdrawal{Request: i, Target: none, Policy: lead, OnlyAsReported: d.mayAwaitReplacement(q, r), Reason: TargetGone})
			}
		}
	}
	if d.awaitingReplacement[repair] {
		return
	}
	if lead == none {
		d.unledEnded++
		if d.unledEnded > maxUnledEnded {
			return
		}
	}
	switch {
	case ends != "":
		d.finish(repair, Succeeded, because(ends))
	case r.lastStepCreatesRequest():
		d.finish(repair, Withdrawn, because(TargetGone))
	default:
		d.finish(repair, Succeeded, because(OwnerReplaces))
	}
}

// lastStepCreatesRequest reports whether the step under way, or else the last step, creates a request. With other steps
// the owner replaces the target.
func (r *Repair) lastStepCreatesRequest() bool {
	at := min(len(r.Tried), len(r.Steps)-1)
	return at >= 0 && r.Steps[at].Nature.Effect().CreatesRequest
}

// replaced returns the effect of a request on a target that is gone, and "" without any. Either its remediator reports
// success, or the replacement that it was to bring exists. A remediator that expects no replacement, such as a fencing
// remediator, may have succeeded before a user removed the target.
func (x *verdictIndex) replaced(q *Request, r *Repair) EndReason {
	switch {
	case !q.Own || q.stepIn(r.Steps) < len(r.Tried):
		// Fettle did not make it, or has given its step up.
	case q.Replaces && (q.Succeeded == Yes || x.replacementHealthy(&q.Target)):
		return TargetReplaced
	case q.Succeeded == Yes:
		return RemediatorSucceeded
	}
	return ""
}
