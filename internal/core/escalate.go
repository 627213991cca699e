package core

import (
	"fmt"
	"slices"
	"time"
)

// escalate begins the current step of a repair whose target is unhealthy, waits for it, or gives it
// up for the next step.
func (d *planner) escalate(p *proposal) {
	t, r := &d.cluster.Targets[p.target], &d.cluster.Repairs[p.repair]
	step, more := r.step()
	switch {
	case !more:
		d.giveUpRepair(p)
	case d.failedForGood(p, step):
		d.finish(p.repair, Withdrawn, because(FailedForGood))
	case step.Nature.Effect().MarksForRemediator && t.ExternallyRemediated && !r.Begun.IsZero():
		// An outside remediator repairs the target.
	case d.justMarked(p, step):
		// The mark is written, and the cache may not show it yet.
	case d.leaves(d.current(p.repair, step)):
		// A user or another controller has deleted the request. It is created again once its name
		// is free.
	case d.current(p.repair, step) != none:
		d.waitForRemediator(p, step, d.current(p.repair, step))
	case d.reasonToDrop(p, step) != "":
		d.finish(p.repair, Withdrawn, because(d.reasonToDrop(p, step)))
	case r.overdue(step, d.now) && len(d.nextStepRefusals(p)) == 0:
		d.endStep(p, none, TimedOut, ending{reason: StepNotBegun, limit: step.Limit})
	default:
		d.setAnswer(p.repair, "")
		d.callRemedy(p)
	}
}

// reasonToDrop returns why the current step must not begin at all, and "" if it may.
func (in *input) reasonToDrop(p *proposal, step *Step) EndReason {
	t, r := &in.cluster.Targets[p.target], &in.cluster.Repairs[p.repair]
	switch {
	case byHandBack(r.Steps, len(r.Tried)) && !t.handedBackSince(r.Started):
		return NotHandedBack
	case !in.policyHasStep(p, step):
		return StepsChanged
	}
	return ""
}

// policyHasStep reports whether the policy that leads a repair has a step. The steps in a Repair
// may be outdated, or written by other clients, so the policy decides. A policy with a problem
// holds everything back anyway.
func (in *input) policyHasStep(p *proposal, step *Step) bool {
	policy := &in.policies[p.leader]
	steps := policy.StepsFor(&in.cluster.Targets[p.target])
	return policy.Problem != "" || slices.ContainsFunc(steps, func(s Step) bool { return s.equal(step) })
}

// giveUpRepair leaves a target to users when all steps were tried. It ends the repair when the
// policy has other steps.
func (d *planner) giveUpRepair(p *proposal) {
	if d.exhausted(p) {
		d.refuse(d.stepsExhausted(p))
		return
	}
	reason := StepsChanged
	if d.cluster.Repairs[p.repair].failedAlone() {
		reason = LastStepFailed
	}
	d.finish(p.repair, Withdrawn, because(reason))
}

// failedAlone reports whether the last step of a repair was given up because its remediator failed,
// and not because of its time limit.
func (r *Repair) failedAlone() bool {
	return r.Tried[len(r.Tried)-1].Outcome == Failed && r.Steps[len(r.Steps)-1].Limit == 0
}

// exhausted reports whether a repair without a step left has tried all steps of the policy. A last
// step without a limit is tried again once a user has deleted the request of the failed remediator.
func (x *requestIndex) exhausted(p *proposal) bool {
	r, policy := &x.cluster.Repairs[p.repair], &x.policies[p.leader]
	steps := policy.StepsFor(&x.cluster.Targets[p.target])
	if policy.Problem != "" || len(r.Steps) == 0 || len(steps) == 0 {
		return true
	}
	untaken := func(s Step) bool { return !slices.ContainsFunc(r.Steps, func(of Step) bool { return of.equal(&s) }) }
	ended := steps[len(steps)-1].Limit > 0 || (r.failedAlone() && x.stands(p.repair))
	return ended && !slices.ContainsFunc(steps, untaken)
}

// failedForGood reports whether a target has failed for good since it was marked for an outside remediator,
// and its policy has other steps for that. The outside remediator may never finish.
func (in *input) failedForGood(p *proposal, step *Step) bool {
	failed := in.policies[p.leader].FailedSteps
	return step.Nature.Effect().MarksForRemediator && in.cluster.Targets[p.target].Failed && len(failed) > 0 && !failed[0].Nature.Effect().MarksForRemediator
}

func (in *input) leaves(request int) bool {
	return request != none && in.cluster.Requests[request].Leaving
}

// overdue reports whether the time of a step is over that did not begin because its remedy was
// refused.
func (r *Repair) overdue(step *Step, now time.Time) bool {
	return step.Limit > 0 && r.Attempts > 0 && !now.Before(r.StepBegan().Add(step.Limit))
}

// waitForRemediator waits for a remediator until it fails or its time is over. A last step without
// a limit is given up only when its remediator reports failure. A request that Fettle did not make
// counts as well: its author may make it again.
func (d *planner) waitForRemediator(p *proposal, step *Step, request int) {
	r, q := &d.cluster.Repairs[p.repair], &d.cluster.Requests[request]
	next := len(r.Tried) + 1
	last := r.lastOfItself()
	until := r.StepEnds(step, q)
	d.noteAnswer(p.repair, q)
	switch {
	case q.ID.UID == "":
		// A remediator can't be told to stop before its request has been seen.
		d.renewLease(p.repair, p.target, p.leader)
	case d.handedBack(p.repair, p.target, q):
		d.giveUp(p, none, Failed, because(RemediatorGaveUp))
	case q.Succeeded == No && (step.Limit > 0 || !last):
		d.giveUp(p, request, Failed, because(RemediatorFailed))
	case q.Succeeded == No && next == len(r.Steps) && q.Own:
		d.giveUp(p, none, Failed, because(RemediatorFailed))
	case step.Limit > 0 && !d.now.Before(until):
		d.giveUp(p, request, TimedOut, ending{reason: StepTimedOut, limit: step.Limit})
	default:
		if step.Limit > 0 {
			d.wakeAt(until)
		}
		if d.outOfSteps(p.repair) {
			d.refuse(d.stepsExhausted(p))
		}
		d.renewLease(p.repair, p.target, p.leader)
	}
}

// giveUp ends the current step for the next, unless a gate would hold that back. Then no remediator would
// work on the target.
func (d *planner) giveUp(p *proposal, request int, outcome StepOutcome, end ending) {
	held := d.nextStepRefusals(p)
	if len(held) == 0 {
		d.endStep(p, request, outcome, end)
		return
	}
	for _, r := range held {
		d.refuse(r)
	}
	d.renewLease(p.repair, p.target, p.leader)
}

// noAnswerAfter are the times without an answer after which the record of a repair says so.
var noAnswerAfter = [...]time.Duration{24 * time.Hour, 6 * time.Hour, time.Hour, 15 * time.Minute, 5 * time.Minute, time.Minute}

// noteAnswer notes the answer to a request, or for how long there has been none.
func (d *planner) noteAnswer(repair int, q *Request) {
	if !q.Answers || q.ID.UID == "" {
		return
	}
	answer := q.Answer
	if answer == "" {
		answer = d.noAnswerText(q)
	}
	d.setAnswer(repair, answer)
}

// setAnswer notes the answer to the current request; "" where no request exists.
func (d *planner) setAnswer(repair int, answer string) {
	if n := d.noteFor(repair); n.Answer != answer { // a text of texts
		n.Answer = answer
		d.keepNote(n)
	}
}

// noAnswerText returns for how long there has been no answer, by the steps of noAnswerAfter. It names the time that the
// request has. A time that one leader counts from would not be that of another, and each would write over the other's note.
func (in *input) noAnswerText(q *Request) string {
	since, named := q.Created, q.CreatedReported
	if named.IsZero() {
		named = since
	}
	for i, after := range noAnswerAfter {
		if in.now.Before(since.Add(after)) {
			continue
		}
		if i > 0 {
			in.wakeAt(since.Add(noAnswerAfter[i-1]))
		}
		return fmt.Sprintf("there has been no answer for more than %s, since %s", duration(after), stamp(named))
	}
	in.wakeAt(since.Add(noAnswerAfter[len(noAnswerAfter)-1]))
	return ""
}

// wakeForAnswer sets a timer for the answer of an owner. Fettle's own mark on the target wakes
// nothing.
func (in *input) wakeForAnswer(step *Step) {
	if step != nil && step.Nature.Effect().OwnerDecides {
		in.wakeAt(in.now.Add(noAnswerAfter[len(noAnswerAfter)-1]))
	}
}

// endStep ends a step that has not helped. Only the remediator of Fettle's own request is told to
// stop (I10).
func (d *planner) endStep(p *proposal, request int, outcome StepOutcome, end ending) {
	if request != none && !d.cluster.Requests[request].Own {
		request = none
	}
	d.decision.Escalations = append(d.decision.Escalations, Escalation{
		Repair: p.repair, Target: p.target, Policy: p.leader, Request: request, Outcome: outcome, Reason: end.reason, Text: end.text(),
	})
}

// callRemedy adds a call of the remedy, unless the remedy was just refused or a gate holds it back.
func (d *planner) callRemedy(p *proposal) {
	r := &d.cluster.Repairs[p.repair]
	if pause := r.nextAttempt(); d.now.Before(pause) {
		d.refuse(Refusal{Target: p.target, Policy: p.leader, Gate: AttemptPause, Until: pause, Have: r.Attempts})
		return
	}
	if until, waits := d.otherLeader(p); waits && d.now.Before(until) {
		d.wakeAt(until)
		return
	}
	if d.gatesOpen(p) {
		d.decision.StepStarts = append(d.decision.StepStarts, StepStart{
			Repair: p.repair, Target: p.target, Policy: p.leader, Verdict: *p.verdict, Step: len(r.Tried),
		})
		d.wakeForAnswer(d.stepOf(p))
	}
}

// othersTurn is how long another leader that has recorded a step has for beginning it.
const othersTurn = 5 * time.Second

// otherLeader returns until when a step is left to another leader. That leader has just recorded
// the step. It is about to create the request, or has created and withdrawn it. A deletion or a
// mark requires a revision, but nothing else keeps a request from being created twice.
func (in *input) otherLeader(p *proposal) (time.Time, bool) {
	r, step := &in.cluster.Repairs[p.repair], in.stepOf(p)
	return r.StepBegan().Add(othersTurn), r.RecordedElsewhere && step != nil && step.Nature.Effect().CreatesRequest
}

// A lease is held for the time of the current step and a margin. A step without a limit has a usual
// time (docs/reference/medik8s.md#lease).
const (
	leaseWithoutLimit = 10 * time.Minute
	leaseMargin       = time.Minute
)

// LeaseDuration returns how long the lease of a node is taken for a step.
func (s *Step) LeaseDuration() time.Duration {
	if s.Limit > 0 {
		return s.Limit + leaseMargin
	}
	return leaseWithoutLimit + leaseMargin
}

// renewLease renews the lease of a node under repair when half of it is over. It takes a lease that
// has no holder, and leaves a lease of another holder alone.
func (d *planner) renewLease(repair, target, policy int) {
	holder := d.policies[policy].Holder
	step, more := d.cluster.Repairs[repair].step()
	lease := d.cluster.Targets[target].Lease
	if holder == "" || !more || lease.heldByOther(holder, d.now) {
		return
	}
	during := step.LeaseDuration()
	if renew := lease.Until.Add(-during / 2); lease.Holder == holder && d.now.Before(renew) {
		d.wakeAt(renew)
		return
	}
	d.decision.LeaseHolds = append(d.decision.LeaseHolds, LeaseHold{Target: target, Holder: holder, For: during})
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

// justMarked reports whether a step has just marked its target for a user's request. The mark may not show yet.
func (in *input) justMarked(p *proposal, step *Step) bool {
	r := &in.cluster.Repairs[p.repair]
	return step.Nature.Effect().MarksForRemediator && p.verdict.Reason == RemediationRequested && !r.Begun.IsZero() && in.markMayLag(r)
}
