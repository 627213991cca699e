package core

import (
	"fmt"
	"slices"
	"time"
)

// escalate takes the step under way of a repair whose target is unhealthy, waits for it, or gives it up for
// the next.
func (d *planner) escalate(p *proposal) {
	t, r := &d.cluster.Targets[p.target], &d.cluster.Repairs[p.repair]
	step, more := r.step()
	switch {
	case !more:
		d.giveUpRepair(p)
	case d.failedForGood(p, step):
		d.finish(p.repair, Withdrawn, because(FailedForGood))
	case step.Nature.Effect().MarksForRemediator && t.ExternallyRemediated && !r.Begun.IsZero():
		// It is in the hands of somebody else.
	case d.justMarked(p, step):
		// It is about to be.
	case step.Nature.Effect().NeedsWithdrawal && d.leaves(d.current(p.repair, step)):
		// Somebody has taken it away. It is made again when its name is free.
	case step.Nature.Effect().NeedsWithdrawal && d.current(p.repair, step) != none:
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

// reasonToDrop returns why the step under way is not to be taken at all, and is empty when it is.
func (d *planner) reasonToDrop(p *proposal, step *Step) EndReason {
	t, r := &d.cluster.Targets[p.target], &d.cluster.Repairs[p.repair]
	switch {
	case byHandBack(r.Steps, len(r.Tried)) && !t.handedBackSince(r.Started):
		return NotHandedBack
	case !d.policyHasStep(p, step):
		return StepsChanged
	}
	return ""
}

// policyHasStep reports whether the policy that leads a repair has a step. What a Repair says of its steps is what it was recorded
// with, or what other people have written, so the policy decides. A policy that can't be followed holds everything back anyway.
func (d *planner) policyHasStep(p *proposal, step *Step) bool {
	policy := &d.policies[p.leader]
	steps := policy.StepsFor(&d.cluster.Targets[p.target])
	return policy.Problem != "" || slices.ContainsFunc(steps, func(s Step) bool { return s.equal(step) })
}

// giveUpRepair leaves a target to people when all steps were taken, and ends the repair when the policy has others.
func (d *planner) giveUpRepair(p *proposal) {
	if d.exhausted(p) {
		d.refuse(d.stepsExhausted(p))
		return
	}
	reason := StepsChanged
	if d.failedAlone(p.repair) {
		reason = LastStepFailed
	}
	d.finish(p.repair, Withdrawn, because(reason))
}

// failedAlone reports whether the last step of a repair was given up since its remediator failed, and not for its time.
func (d *planner) failedAlone(repair int) bool {
	r := &d.cluster.Repairs[repair]
	return len(r.Tried) > 0 && r.Tried[len(r.Tried)-1].Outcome == Failed && r.Steps[len(r.Steps)-1].Limit == 0
}

// exhausted reports whether a repair without a step left has taken all steps that the policy has. The last one of a policy that
// sets no limit to it is taken anew once a person has deleted the request of the remediator that failed.
func (d *planner) exhausted(p *proposal) bool {
	r, policy := &d.cluster.Repairs[p.repair], &d.policies[p.leader]
	steps := policy.StepsFor(&d.cluster.Targets[p.target])
	if policy.Problem != "" || len(r.Steps) == 0 || len(steps) == 0 {
		return true
	}
	untaken := func(s Step) bool { return !slices.ContainsFunc(r.Steps, func(of Step) bool { return of.equal(&s) }) }
	ended := steps[len(steps)-1].Limit > 0 || (d.failedAlone(p.repair) && d.stands(p.repair))
	return ended && !slices.ContainsFunc(steps, untaken)
}

// failedForGood tells whether a target has failed for good since it was handed over, and its policy has other steps for that.
// Whoever has it in hand may never give it back.
func (d *planner) failedForGood(p *proposal, step *Step) bool {
	failed := d.policies[p.leader].FailedSteps
	return step.Nature.Effect().MarksForRemediator && d.cluster.Targets[p.target].Failed && len(failed) > 0 && !failed[0].Nature.Effect().MarksForRemediator
}

func (d *planner) leaves(request int) bool {
	return request != none && d.cluster.Requests[request].Leaving
}

// overdue tells whether a step that did not begin, since its remedy was refused, has had its time.
func (r *Repair) overdue(step *Step, now time.Time) bool {
	return step.Limit > 0 && r.Attempts > 0 && !now.Before(r.StepBegan().Add(step.Limit))
}

// waitForRemediator waits for a remediator, until it fails or its time is over. The last step of a ladder that has no limit is given up only
// when its remediator says that it failed. What Fettle did not ask for is waited for all the same: its author may ask again.
func (d *planner) waitForRemediator(p *proposal, step *Step, request int) {
	r, q := &d.cluster.Repairs[p.repair], &d.cluster.Requests[request]
	next := len(r.Tried) + 1
	last := r.lastOfItself()
	until := r.StepEnds(step, q)
	d.noteAnswer(p.repair, q)
	switch {
	case q.ID.UID == "":
		// Nobody can be told to stop before it has been seen.
		d.renewLease(p.repair, p.target, p.leader)
	case d.handedBack(p.repair, p.target, q):
		d.giveUp(p, none, Failed, because(RemediatorGaveUp))
	case q.Succeeded == No && (step.Limit > 0 || !last):
		d.giveUp(p, request, Failed, because(RemediatorFailed))
	case q.Succeeded == No && next == len(r.Steps) && q.Own && !q.Leaving:
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

// giveUp gives a step up for the next, unless that would be held back: then nobody would be at work.
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

// noAnswerAfter are after how long without an answer a repair says so, and says so again.
var noAnswerAfter = [...]time.Duration{24 * time.Hour, 6 * time.Hour, time.Hour, 15 * time.Minute, 5 * time.Minute, time.Minute}

// noteAnswer notes what whoever was asked has answered, or for how long it has not.
func (d *planner) noteAnswer(repair int, q *Request) {
	if !q.Answers || q.ID.UID == "" {
		return
	}
	answer := q.Answer
	if answer == "" {
		answer = d.noAnswerText(q.Created)
	}
	d.setAnswer(repair, answer)
}

// setAnswer notes what was answered to what stands, which is nothing where nothing does.
func (d *planner) setAnswer(repair int, answer string) {
	if n := d.noteFor(repair); n.Answer != answer {
		n.Answer = answer
		d.keepNote(n)
	}
}

// noAnswerText says for how long there has been no answer, in the few words that are worth writing down.
func (d *planner) noAnswerText(since time.Time) string {
	for i, after := range noAnswerAfter {
		if d.now.Before(since.Add(after)) {
			continue
		}
		if i > 0 {
			d.wakeAt(since.Add(noAnswerAfter[i-1]))
		}
		return fmt.Sprintf("there has been no answer for more than %s, since %s", duration(after), stamp(since))
	}
	d.wakeAt(since.Add(noAnswerAfter[len(noAnswerAfter)-1]))
	return ""
}

// wakeForAnswer: that an owner is asked shows on the target, and whoever wrote it there is not woken by that.
func (d *planner) wakeForAnswer(step *Step) {
	if step != nil && step.Nature.Effect().OwnerDecides {
		d.wakeAt(d.now.Add(noAnswerAfter[len(noAnswerAfter)-1]))
	}
}

// endStep ends a step that has not helped. Only a remediator that Fettle asked is told to stop (I10).
func (d *planner) endStep(p *proposal, request int, outcome StepOutcome, end ending) {
	if request != none && !d.cluster.Requests[request].Own {
		request = none
	}
	d.decision.Escalations = append(d.decision.Escalations, Escalation{
		Repair: p.repair, Target: p.target, Policy: p.leader, Request: request, Outcome: outcome, Reason: end.reason, Text: end.text(),
	})
}

// callRemedy has the remedy of the step called, unless it was just refused or a gate holds it back.
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

// othersTurn is how long whoever has recorded a step has for beginning it. It takes a moment.
const othersTurn = 5 * time.Second

// otherLeader tells until when a step is left to another leader, who has just recorded it and is about to ask for it, or
// has asked and taken that back. No revision keeps a request from being made once more, unlike a deletion or a mark.
func (d *planner) otherLeader(p *proposal) (time.Time, bool) {
	r, step := &d.cluster.Repairs[p.repair], d.stepOf(p)
	return r.StepBegan().Add(othersTurn), r.RecordedElsewhere && step != nil && step.Nature.Effect().CreatesRequest
}

// What a lease is held for: the time of the step under way, or the usual time of one without a limit, and
// some time for what ends it (docs/reference/medik8s.md#lease).
const (
	leaseWithoutLimit = 10 * time.Minute
	leaseMargin       = time.Minute
)

// LeaseDuration is how long the lease of a node is taken for while a step is under way.
func (s *Step) LeaseDuration() time.Duration {
	if s.Limit > 0 {
		return s.Limit + leaseMargin
	}
	return leaseWithoutLimit + leaseMargin
}

// renewLease renews the lease of a node under repair when half of it is over, and takes it when it was lost to
// nobody. A lease of another holder is left to that holder.
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
