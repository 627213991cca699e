package core

import (
	"slices"
	"time"
)

// continueRepairs decides on the running repairs, before new repairs compete for their places.
func (d *planner) continueRepairs() {
	if d.cluster.Observed != Yes {
		return
	}
	for _, r := range d.runningRepairs() {
		if t, exists := d.targetOf[r]; exists {
			d.continueOrEnd(r, t)
			d.queue(r, t, -1)
		} else {
			d.continueWithoutTarget(r)
		}
	}
}

// continueOrEnd decides on a running repair whose target exists.
func (d *planner) continueOrEnd(repair, target int) {
	switch {
	case d.requestsUnlisted(&d.cluster.Repairs[repair]):
		d.leaveUnseen(repair, target)
	case d.unreadable(repair, target):
		// The repair neither continues nor ends.
	case d.leads(repair, target):
		d.continueRepair(repair, target)
	default:
		d.endRepair(repair, target, Withdrawn, OlderRepairOfNode)
	}
}

// continueWithoutTarget decides on a running repair whose target is gone, or that is not the oldest
// of its target.
func (d *planner) continueWithoutTarget(repair int) {
	switch r := &d.cluster.Repairs[repair]; {
	case d.requestsUnlisted(r), d.unreadableGone(r):
		// The repair neither continues nor ends.
	case d.running[r.Target] != repair:
		d.finish(repair, Withdrawn, because(OlderRepairOfTarget))
	default:
		d.targetGone(repair)
	}
}

// leaveUnseen refuses to continue or end a repair whose requests can't be listed.
func (d *planner) leaveUnseen(repair, target int) {
	if lead, v := d.leaderOf(&d.cluster.Repairs[repair], target); v != nil {
		d.refuse(Refusal{Target: target, Policy: lead, Gate: RequestsUnseen})
	}
}

// maxUnledEnded bounds how many repairs without a target and without a policy end in one pass.
// Nothing waits for them, and users may have created very many.
const maxUnledEnded = 50

// endRepair withdraws the requests of a repair, and ends it once none of them exists. A repair
// whose requests must not be touched ends at once.
func (d *planner) endRepair(repair, target int, outcome Outcome, reason EndReason) {
	lead := d.leaderAt(&d.cluster.Repairs[repair])
	if d.isDryRun(lead) || d.withdrawAll(repair, target, lead, reason) {
		d.finish(repair, outcome, because(reason))
	}
}

// continueRepair decides on one running repair. A repair that has begun goes on to its own end,
// whatever the limits say now. Any other must pass its gates again, and ends when its target is not
// unhealthy any more. A target that is being deleted, or that a live read did not find, is left
// until the caches show that it is gone.
func (d *planner) continueRepair(repair, target int) {
	t, r := &d.cluster.Targets[target], &d.cluster.Repairs[repair]
	if t.Deleting {
		return
	}
	lead, v := d.leaderOf(r, target)
	switch {
	case d.leftUntouched(r, t):
		d.finish(repair, Withdrawn, because(HandsOff))
	case v == nil:
		d.endRepair(repair, target, Withdrawn, d.notSelected(repair, target))
	case v.Health == Undetermined, v.Health == Gone, v.Reason == Premature && d.begun(repair, target):
	case v.Health != Healthy && v.Reason != Recovering && d.withdrawnOnRecovery(repair):
		d.endWithdrawn(repair)
	case v.Health == Unhealthy:
		d.noteRecovery(repair, time.Time{})
		d.escalate(&proposal{target: target, leader: lead, verdict: v, repair: repair})
	case v.Health == Healthy, v.Reason == Recovering:
		d.handleRecovery(repair, target, lead)
	case !d.begun(repair, target):
		if !d.leftToOtherLeader(r) {
			d.finish(repair, r.outcomeOfRecovery(), r.endOfSuspect())
		}
	default:
		d.noteRecovery(repair, time.Time{})
		d.handleSuspect(repair, target)
	}
}

// notSelected returns the end reason of a repair whose target its leading policy does not select.
func (x *requestIndex) notSelected(repair, target int) EndReason {
	if x.begun(repair, target) {
		return NotSelectedAnymore
	}
	return NotSelected
}

// withdrawnOnRecovery reports whether all requests of a repair were withdrawn because its target
// was healthy. If the target fails again, that failure is a new one with a repair of its own.
func (x *requestIndex) withdrawnOnRecovery(repair int) bool {
	if x.cluster.Repairs[repair].Recovered.IsZero() {
		return false
	}
	return !slices.ContainsFunc(x.requestsOf[repair], func(i int) bool { return x.cluster.Requests[i].Own && !x.cluster.Requests[i].Leaving })
}

// endWithdrawn ends such a repair once none of its requests exists.
func (d *planner) endWithdrawn(repair int) {
	if r := &d.cluster.Repairs[repair]; !d.stands(repair) {
		d.finish(repair, r.outcomeOfRecovery(), r.endOfSuspect())
	}
}

// leftUntouched reports whether the requests about a target must not be touched. An annotation
// skips the target, or the policy is a dry run, perhaps beside another controller.
func (in *input) leftUntouched(r *Repair, t *Target) bool {
	return t.Skipped || in.isDryRun(in.leaderAt(r))
}

// handleSuspect keeps the requests of a target that is neither healthy nor unhealthy.
func (d *planner) handleSuspect(repair, target int) {
	t, r := &d.cluster.Targets[target], &d.cluster.Repairs[repair]
	if !r.Begun.IsZero() && !t.ExternallyRemediated && !d.stands(repair) {
		d.finish(repair, Succeeded, because(ExternalRemediationEnded))
	}
}

// handleRecovery withdraws the requests of a target that is healthy again, and ends its repair.
func (d *planner) handleRecovery(repair, target, lead int) {
	t, r := &d.cluster.Targets[target], &d.cluster.Repairs[repair]
	if !d.stands(repair) {
		if !d.leftToOtherLeader(r) {
			d.finish(repair, r.outcomeOfRecovery(), r.endOfRecovery())
		}
		return
	}
	recovered := r.Recovered
	if recovered.IsZero() {
		recovered = d.now
		requested := d.servesRequest(repair)
		if requested || d.policies[lead].HealthyDelay != 0 { // otherwise the requests are withdrawn at once
			d.noteRecovery(repair, recovered)
		}
		if requested { // until the recovery is recorded, a restart would make the request again
			d.wakeAt(d.now.Add(time.Second))
			d.renewLease(repair, target, lead)
			return
		}
	}
	if until, lasts := d.lastsUntil(&d.policies[lead], t, recovered); lasts {
		d.wakeAt(until)
		d.renewLease(repair, target, lead)
		return
	}
	d.withdrawAll(repair, target, lead, TargetRecovered)
}

// leftToOtherLeader reports whether another leader has just recorded the step of a repair. That leader has seen the target
// fail, and this one may not have seen that yet. So a repair of which nothing stands does not end for a moment.
func (d *planner) leftToOtherLeader(r *Repair) bool {
	until := r.StepBegan().Add(othersTurn)
	if !r.RecordedElsewhere || !d.now.Before(until) {
		return false
	}
	d.wakeAt(until)
	return true
}

func (r *Repair) outcomeOfRecovery() Outcome {
	if r.failed() {
		return Withdrawn
	}
	if r.StepSeen == 0 && r.Recovered.IsZero() && r.Begun.IsZero() && len(r.Tried) == 0 {
		return Recovered
	}
	return Succeeded
}

// endOfRecovery returns the ending of a repair whose target is healthy again.
func (r *Repair) endOfRecovery() ending {
	switch r.outcomeOfRecovery() { //nolint:exhaustive // the other has one reason
	case Recovered:
		return because(nothingDoneReason(r))
	case Withdrawn:
		return ending{reason: RecoveredAfterFailure, steps: len(r.Steps)}
	}
	return because(TargetRecovered)
}

// endOfSuspect returns the ending of a repair without a request whose target is suspect. A request
// that did exist was withdrawn since the target was healthy. The next repair of the target then
// counts as one after a repair that did not last.
func (r *Repair) endOfSuspect() ending {
	if r.outcomeOfRecovery() == Recovered {
		return because(nothingDoneReason(r))
	}
	return because(RequestsWithdrawn)
}

// nothingDoneReason returns the end reason of a repair that has done nothing, as far as this
// process knows. A process before it may have withdrawn a request without recording that.
func nothingDoneReason(r *Repair) EndReason {
	if r.needsWithdrawal() {
		return NothingRequested
	}
	return NothingDone
}

// noteRecovery notes since when the target of a repair is healthy again; zero if it is not.
func (d *planner) noteRecovery(repair int, recovered time.Time) {
	if n := d.noteFor(repair); !n.Recovered.Equal(recovered) {
		n.Recovered = recovered
		d.keepNote(n)
	}
}

// noteFor returns the note on a repair so far.
func (d *planner) noteFor(repair int) Note {
	for _, n := range d.decision.Notes {
		if n.Repair == repair {
			return n
		}
	}
	r := &d.cluster.Repairs[repair]
	return Note{Repair: repair, Recovered: r.Recovered, Answer: r.Answer}
}

func (d *planner) keepNote(n Note) {
	for i := range d.decision.Notes {
		if d.decision.Notes[i].Repair == n.Repair {
			d.decision.Notes[i] = n
			return
		}
	}
	d.decision.Notes = append(d.decision.Notes, n)
}

func (d *planner) finish(repair int, outcome Outcome, end ending) {
	d.decision.Finishes = append(d.decision.Finishes, Finish{
		Repair: repair, Outcome: outcome, Reason: end.reason, Text: end.text(), RecordOnly: d.isDryRun(d.leaderAt(&d.cluster.Repairs[repair])),
	})
}

// noteEvidence has the proofs recorded that no record has yet, for the repairs that go on. The end of a repair is written
// anyway, with all evidence.
func (d *planner) noteEvidence() {
	for _, repair := range d.runningRepairs() {
		ends := func(f Finish) bool { return f.Repair == repair }
		if d.cluster.Repairs[repair].EvidenceUnrecorded && !slices.ContainsFunc(d.decision.Finishes, ends) {
			d.keepNote(d.noteFor(repair))
		}
	}
}
