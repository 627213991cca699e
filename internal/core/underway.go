package core

import (
	"slices"
	"time"
)

// A repair that is under way has its place among the limits, and its further steps are spared most gates. That it is under
// way must show in the world: the record of a repair may have been written by other people.

// isFurtherStep reports whether the proposal is one more step of a repair that is under way, and does not have the target replaced.
func (d *planner) isFurtherStep(p *proposal) bool {
	if p.repair == none || !d.underWay(p.repair, p.target) {
		return false
	}
	step := d.stepOf(p)
	return step == nil || !d.cluster.Repairs[p.repair].replaces(step)
}

// underWay reports whether the world shows that a repair has begun. The record of the repair alone is no evidence.
// Other users may have written it, and a repair under way passes few gates.
func (d *planner) underWay(repair, target int) bool {
	t, r := &d.cluster.Targets[target], &d.cluster.Repairs[repair]
	return t.Deleting || d.stands(repair) || (t.ExternallyRemediated && !r.Begun.IsZero())
}

// waitsForTurn reports whether a repair takes its turn among the repairs that compete for the same places. It does if
// it is not under way, or if its step has the target replaced and has not begun.
func (d *planner) waitsForTurn(repair, target int) bool {
	if d.cluster.Targets[target].Deleting {
		return false
	}
	r := &d.cluster.Repairs[repair]
	step, more := r.step()
	return !d.underWay(repair, target) || (more && r.replaces(step) && d.current(repair, step) == none)
}

// outOfSteps reports whether a repair has no step left that may help its target, which is left to people. The target is
// unhealthy, and has no place among the targets under repair. The record of a repair alone does not show that (I14).
// Its remediators were told to stop, or report themselves how they ended. A remediator may be at work whose request no
// cache shows yet.
func (d *planner) outOfSteps(repair int) bool {
	r := &d.cluster.Repairs[repair]
	target, exists := d.targetOf[repair]
	if !exists || d.requestsUnlisted(r) || !d.exhaustedBy(r, repair) || d.unanswered(r) {
		return false
	}
	return !slices.ContainsFunc(d.requestsAbout[target], d.atWork)
}

// unanswered reports whether the remedy of a repair may have done something that no cache shows. A wrong clock does not
// tell when that is over.
func (d *planner) unanswered(r *Repair) bool {
	until := r.UnansweredUntil()
	d.wakeAt(until)
	return !until.IsZero() && (clockHolds(d.cluster, &r.Policy) != 0 || d.now.Before(until))
}

// atWork reports whether the remediator of a request may still do something.
func (d *planner) atWork(request int) bool {
	q := &d.cluster.Requests[request]
	return q.Stopped.IsZero() && q.Succeeded == Unknown
}

// stepsExhausted returns the refusal of a repair that has no step left. Fettle does not tell the remediators of other
// authors to stop, so their requests keep the place of the target.
func (d *planner) stepsExhausted(p *proposal) Refusal {
	repair := &d.cluster.Repairs[p.repair]
	tried := min(len(repair.Tried)+1, len(repair.Steps)) // a step that is taken by hand-back alone may be left
	r := Refusal{Target: p.target, Policy: p.leader, Gate: StepsExhausted, Have: tried}
	for _, i := range d.requestsAbout[p.target] {
		if q := &d.cluster.Requests[i]; !q.Own && d.atWork(i) {
			r.Detail = q.ID.String()
			return r
		}
	}
	return r
}

// exhaustedBy reports whether all steps of a repair were given up, or the last one can't help any more. That is so if
// it has no limit and its remediator failed, or succeeded and the target did not recover in time.
func (d *planner) exhaustedBy(r *Repair, repair int) bool {
	step, more := r.step()
	if !more {
		return len(r.Steps) > 0
	}
	if !r.isOpenEnd(step) {
		return false
	}
	q := d.current(repair, step)
	return q != none && d.lastStepOver(r, &d.cluster.Requests[q])
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
func (d *planner) lastStepOver(r *Repair, q *Request) bool {
	if q.Succeeded != Yes {
		return q.Succeeded == No
	}
	until := r.RecoversUntil(q)
	d.wakeAt(until)
	return clockHolds(d.cluster, &r.Policy) == 0 && !d.now.Before(until)
}

// nextStepRefusals returns what would hold back the step after the one under way. Where there is none, the repair gives up.
func (d *planner) nextStepRefusals(p *proposal) []Refusal {
	var held []Refusal
	hold := func(r Refusal) { held = append(held, r) }
	r := &d.cluster.Repairs[p.repair]
	next, more := r.stepAfter()
	if !more || byHandBack(r.Steps, len(r.Tried)+1) { // the latter has all gates before it when it is taken
		d.checkGates(laterPolicyGates, lastTargetGates, p, hold)
		return held
	}
	of := *p
	of.step = next
	d.checkStep(&of, hold)
	if t := &d.cluster.Targets[p.target]; len(held) == 0 && t.takesQuorum(next) && !t.quorumKnown(d.now) {
		if r, refuses := confirmationGate(d, &of); refuses {
			r.Target = p.target
			hold(r)
		}
	}
	return held
}

// verdictsOf counts the members of a policy in the group of a target. Each has a place while it is repaired.
func (d *planner) verdictsOf(policy, target int) int {
	n := 0
	for _, i := range d.verdictsOnGroup(target) {
		if d.decision.Verdicts[i].Policy == policy {
			n++
		}
	}
	return n
}
