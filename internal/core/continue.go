package core

import (
	"slices"
	"time"
)

// continueRepairs looks at the repairs under way, before new ones compete for their room.
func (d *planner) continueRepairs() {
	if d.cluster.Observed != Yes {
		return
	}
	d.later, d.laterOut = make([]int, len(d.policies)), map[quorumGroup]int{}
	for r, t := range d.targetOf {
		d.queue(r, t, 1)
	}
	for _, r := range d.runningRepairs() {
		t, exists := d.targetOf[r]
		switch {
		case d.requestsUnlisted(&d.cluster.Repairs[r]):
			d.leaveUnseen(r, t, exists)
		case d.unreadable(r, t, exists):
			// It is neither carried on nor ended.
		case exists && d.repairOf[d.groupOf(t)] == r:
			d.continueRepair(r, t)
		case exists:
			d.endRepair(r, t, Withdrawn, OlderRepairOfNode)
		case d.running[d.cluster.Repairs[r].Target] != r:
			d.finish(r, Withdrawn, because(OlderRepairOfTarget))
		default:
			d.targetGone(r)
		}
		if exists {
			d.queue(r, t, -1)
		}
	}
}

// queue puts the repair of a target, which waits for its turn, among those whose turn comes later, or
// takes it out. Of several the oldest goes first; they don't wait for each other.
func (d *planner) queue(repair, target, by int) {
	if !d.waitsForTurn(repair, target) || d.outOfSteps(repair) || d.repairOf[d.groupOf(target)] != repair {
		return
	}
	for _, i := range d.verdictsOnGroup(target) {
		d.later[d.decision.Verdicts[i].Policy] += by
	}
	if t := &d.cluster.Targets[target]; t.MaybeControlPlane() {
		d.laterOut[t.quorumGroup()] += by
	}
}

func (d *planner) runningRepairs() []int {
	var running []int
	for i := range d.cluster.Repairs {
		if d.cluster.Repairs[i].Running() {
			running = append(running, i)
		}
	}
	slices.SortFunc(running, d.olderRepair)
	return running
}

// leaveUnseen: a repair whose requests can't be seen is neither carried on nor ended.
func (d *planner) leaveUnseen(repair, target int, exists bool) {
	if lead, v := d.leaderOf(&d.cluster.Repairs[repair], target); exists && v != nil {
		d.refuse(Refusal{Target: target, Policy: lead, Gate: RequestsUnseen})
	}
}

// unreadable tells whether nothing can be said of the target of a repair, since its policy can't be read: that it
// is healthy or not selected may be for want of that alone.
func (d *planner) unreadable(repair, target int, exists bool) bool {
	r := &d.cluster.Repairs[repair]
	lead := d.leaderAt(r)
	if lead == none || !d.policies[lead].Unparsable || (exists && d.repairOf[d.groupOf(target)] != repair) {
		return false
	}
	overlooked := exists && d.policies[lead].Unjudged
	if !overlooked && !r.needsWithdrawal() {
		return false
	}
	if !exists {
		return true
	}
	_, v := d.leaderOf(r, target)
	return v == nil || v.Health != Unhealthy
}

// needsWithdrawal tells whether any step of the repair is one whose requests stand until they are taken back.
func (r *Repair) needsWithdrawal() bool {
	return slices.ContainsFunc(r.Steps, func(s Step) bool { return s.Nature.Effect().NeedsWithdrawal })
}

// maxUnledEnded bounds the repairs without a target and without a health check that end in one pass. Nothing waits for them, and
// people may have made very many.
const maxUnledEnded = 50

// leaderAt is the index of the policy that leads a repair, none when it is gone.
func (d *planner) leaderAt(r *Repair) int {
	for i := range d.policies {
		if d.policies[i].ID == r.Policy {
			return i
		}
	}
	return none
}

// endRepair withdraws what a repair has asked for and ends it when none of that stands any more, or when nothing may be touched.
func (d *planner) endRepair(repair, target int, outcome Outcome, reason EndReason) {
	lead := d.leaderAt(&d.cluster.Repairs[repair])
	if d.isDryRun(lead) || d.withdrawAll(repair, target, lead, reason) {
		d.finish(repair, outcome, because(reason))
	}
}

// continueRepair: what has begun goes on to its own end, whatever the limits say now. What has not is asked
// for again from the start, and dropped when nothing asks for it. What leaves, or has left as a live read
// says, is waited for until the caches show it.
func (d *planner) continueRepair(repair, target int) {
	t, r := &d.cluster.Targets[target], &d.cluster.Repairs[repair]
	if t.Deleting {
		return
	}
	lead, v := d.leaderOf(r, target)
	switch {
	case v == nil && d.leftUntouched(r, t):
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
		d.finish(repair, d.outcomeOfRecovery(r), d.endOfSuspect(r))
	default:
		d.noteRecovery(repair, time.Time{})
		d.handleSuspect(repair, target)
	}
}

// notSelected returns why the repair of a target ends that the health check which leads it does not select.
func (d *planner) notSelected(repair, target int) EndReason {
	if d.begun(repair, target) {
		return NotSelectedAnymore
	}
	return NotSelected
}

// withdrawnOnRecovery reports whether all that a repair had asked for was taken back since its target was healthy. The target has
// failed again meanwhile, and that failure is another one: its repair keeps its distance.
func (d *planner) withdrawnOnRecovery(repair int) bool {
	if d.cluster.Repairs[repair].Recovered.IsZero() {
		return false
	}
	return !slices.ContainsFunc(d.requestsOf[repair], func(i int) bool { return d.cluster.Requests[i].Own && !d.cluster.Requests[i].Leaving })
}

// endWithdrawn ends such a repair once nothing stands that it has asked for.
func (d *planner) endWithdrawn(repair int) {
	if r := &d.cluster.Repairs[repair]; !d.stands(repair) {
		d.finish(repair, d.outcomeOfRecovery(r), d.endOfSuspect(r))
	}
}

// leftUntouched tells whether nothing of what was asked for a target may be touched: somebody has taken it out of health
// checking, or has the policy rehearse, maybe beside another controller.
func (d *planner) leftUntouched(r *Repair, t *Target) bool {
	return t.Skipped || d.isDryRun(d.leaderAt(r))
}

// isDryRun is false for a policy that is gone.
func (d *planner) isDryRun(policy int) bool {
	return policy != none && d.policies[policy].DryRun
}

// handleSuspect: a target that is neither well nor unhealthy keeps what was asked for it.
func (d *planner) handleSuspect(repair, target int) {
	t, r := &d.cluster.Targets[target], &d.cluster.Repairs[repair]
	if !r.Begun.IsZero() && !t.ExternallyRemediated && !d.stands(repair) {
		d.finish(repair, Succeeded, because(ExternalRemediationEnded))
	}
}

// handleRecovery takes back what was asked for a target that is healthy again, and ends its repair.
func (d *planner) handleRecovery(repair, target, lead int) {
	t, r := &d.cluster.Targets[target], &d.cluster.Repairs[repair]
	if !d.stands(repair) {
		d.finish(repair, d.outcomeOfRecovery(r), d.endOfRecovery(r))
		return
	}
	recovered := r.Recovered
	if recovered.IsZero() {
		recovered = d.now
		asked := d.servesRequest(repair)
		if asked || d.policies[lead].HealthyDelay != 0 { // else it is over at once
			d.noteRecovery(repair, recovered)
		}
		if asked { // until that is recorded, a restart would ask the remediator again
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

func (d *planner) outcomeOfRecovery(r *Repair) Outcome {
	if r.failed() {
		return Withdrawn
	}
	if !r.RequestSeen && r.Recovered.IsZero() && r.Begun.IsZero() && len(r.Tried) == 0 {
		return Recovered
	}
	return Succeeded
}

// endOfRecovery returns why the repair of a target ends that is healthy again.
func (d *planner) endOfRecovery(r *Repair) ending {
	switch d.outcomeOfRecovery(r) { //nolint:exhaustive // the other has one reason
	case Recovered:
		return because(nothingDoneReason(r))
	case Withdrawn:
		return ending{reason: RecoveredAfterFailure, steps: len(r.Steps)}
	}
	return because(TargetRecovered)
}

// endOfSuspect returns why the repair of a target ends for which no request exists. If one did, it was withdrawn since the target
// was healthy, and then the target is repaired again as one whose repair did not last.
func (d *planner) endOfSuspect(r *Repair) ending {
	if d.outcomeOfRecovery(r) == Recovered {
		return because(nothingDoneReason(r))
	}
	return because(RequestsWithdrawn)
}

// nothingDoneReason returns why a repair ends that has done nothing, as far as this process knows. A request may have been withdrawn just
// before the process started, by a process that could not record that.
func nothingDoneReason(r *Repair) EndReason {
	if r.needsWithdrawal() {
		return NothingRequested
	}
	return NothingDone
}

// noteRecovery remembers since when the target of a repair is healthy again; zero for not.
func (d *planner) noteRecovery(repair int, recovered time.Time) {
	if n := d.noteFor(repair); !n.Recovered.Equal(recovered) {
		n.Recovered = recovered
		d.keepNote(n)
	}
}

// noteFor is what is noted of a repair by now.
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

// leaderOf finds the policy that leads a repair and its verdict on the target.
func (d *planner) leaderOf(r *Repair, target int) (int, *Verdict) {
	for _, i := range d.verdictsOnGroup(target) {
		v := &d.decision.Verdicts[i]
		if p := &d.policies[v.Policy]; v.Target == target && p.ID == r.Policy && !p.DryRun {
			return v.Policy, v
		}
	}
	return none, nil
}

func (d *planner) finish(repair int, outcome Outcome, end ending) {
	d.decision.Finishes = append(d.decision.Finishes, Finish{
		Repair: repair, Outcome: outcome, Reason: end.reason, Text: end.text(), RecordOnly: d.isDryRun(d.leaderAt(&d.cluster.Repairs[repair])),
	})
}
