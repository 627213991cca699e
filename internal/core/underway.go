package core

import (
	"slices"
	"time"
)

// A repair that is under way has its place among the limits, and its further steps are spared most gates. That it is under
// way must show in the world: the record of a repair may have been written by other people.

// isFurtherStep reports whether the proposal is one more step of a repair that is under way, and does not have the target replaced.
func (x *requestIndex) isFurtherStep(p *proposal) bool {
	if p.repair == none || !x.underWay(p.repair, p.target) {
		return false
	}
	step := x.stepOf(p)
	return step == nil || !x.cluster.Repairs[p.repair].replaces(step)
}

// underWay reports whether the world shows that a repair has begun. The record of the repair alone is no evidence.
// Other users may have written it, and a repair under way passes few gates.
func (x *requestIndex) underWay(repair, target int) bool {
	t, r := &x.cluster.Targets[target], &x.cluster.Repairs[repair]
	return t.Deleting || x.stands(repair) || (t.ExternallyRemediated && !r.Begun.IsZero())
}

// waitsForTurn reports whether a repair takes its turn among the repairs that compete for the same places. It does if
// it is not under way, or if its step has the target replaced and has not begun.
func (x *requestIndex) waitsForTurn(repair, target int) bool {
	if x.cluster.Targets[target].Deleting {
		return false
	}
	r := &x.cluster.Repairs[repair]
	step, more := r.step()
	return !x.underWay(repair, target) || (more && r.replaces(step) && x.current(repair, step) == none)
}

// outOfSteps reports whether a repair has no step left that may help its target, which is left to people. The target is
// unhealthy, and has no place among the targets under repair. The record of a repair alone does not show that (I14).
// Its remediators were told to stop, or report themselves how they ended. A remediator may be at work whose request no
// cache shows yet.
func (x *requestIndex) outOfSteps(repair int) bool {
	r := &x.cluster.Repairs[repair]
	target, exists := x.targetOf[repair]
	if !exists || x.requestsUnlisted(r) || !x.exhaustedBy(r, repair) || x.unanswered(r) {
		return false
	}
	return !slices.ContainsFunc(x.requestsAbout[target], func(i int) bool { return x.cluster.Requests[i].atWork() })
}

// unanswered reports whether the remedy of a repair may have done something that no cache shows. A wrong clock does not
// tell when that is over.
func (in *input) unanswered(r *Repair) bool {
	until := in.cluster.ShownAt(r.UnansweredUntil())
	in.wakeAt(until)
	return !until.IsZero() && (clockHolds(in.cluster, &r.Policy) != 0 || in.now.Before(until))
}

// atWork reports whether the remediator of a request may still do something.
func (r *Request) atWork() bool {
	return r.Stopped.IsZero() && r.Succeeded == Unknown
}

// stepsExhausted returns the refusal of a repair that has no step left. Fettle does not tell the remediators of other
// authors to stop, so their requests keep the place of the target.
func (x *requestIndex) stepsExhausted(p *proposal) Refusal {
	repair := &x.cluster.Repairs[p.repair]
	tried := min(len(repair.Tried)+1, len(repair.Steps)) // a step that is taken by hand-back alone may be left
	r := Refusal{Target: p.target, Policy: p.leader, Gate: StepsExhausted, Have: tried}
	for _, i := range x.requestsAbout[p.target] {
		if q := &x.cluster.Requests[i]; !q.Own && q.atWork() {
			r.Detail = q.ID.String()
			return r
		}
	}
	return r
}

// exhaustedBy reports whether all steps of a repair were given up, or the last one can't help any more. That is so if
// it has no limit and its remediator failed, or succeeded and the target did not recover in time.
func (x *requestIndex) exhaustedBy(r *Repair, repair int) bool {
	step, more := r.step()
	if !more {
		return len(r.Steps) > 0
	}
	if !r.isOpenEnd(step) {
		return false
	}
	q := x.current(repair, step)
	return q != none && x.lastStepOver(r, &x.cluster.Requests[q])
}

// recoveryTime is how long a target has to recover after its last remediator has succeeded. A node boots in that time.
const recoveryTime = 10 * time.Minute

// isOpenEnd reports whether a step makes a request to a remediator without a limit, and no step follows.
func (r *Repair) isOpenEnd(step *Step) bool {
	return step.Nature.Effect().CreatesRequest && step.Limit == 0 && r.lastOfItself()
}

// RecoversUntil returns until when the target has time to recover after the remediator of the last step, which has no limit, has
// succeeded. It is zero while that remediator does not say so, and for other steps.
func (r *Repair) RecoversUntil(q *Request) time.Time {
	step, more := r.step()
	if !more || !r.isOpenEnd(step) || q.Succeeded != Yes {
		return time.Time{}
	}
	return latest(r.StepEnds(step, q), q.SucceededSince).Add(recoveryTime)
}

// lastStepOver reports whether the last step, which has no limit, can't help its target any more. A remediator that
// failed says so. After a success the target has time to recover, by a clock that agrees.
func (in *input) lastStepOver(r *Repair, q *Request) bool {
	if q.Succeeded != Yes {
		return q.Succeeded == No
	}
	until := r.RecoversUntil(q)
	in.wakeAt(until)
	return clockHolds(in.cluster, &r.Policy) == 0 && !in.now.Before(until)
}
