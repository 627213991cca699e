package core

import (
	"slices"
	"time"
)

// carryOn looks at the repairs under way, before new ones compete for their room.
func (d *deliberation) carryOn() {
	if d.fleet.Observed != Yes {
		return
	}
	d.later, d.laterOut = make([]int, len(d.policies)), map[circle]int{}
	for r, t := range d.targetOf {
		d.queue(r, t, 1)
	}
	for _, r := range d.runningRepairs() {
		t, exists := d.targetOf[r]
		switch {
		case d.blind(&d.fleet.Repairs[r]):
			d.leaveUnseen(r, t, exists)
		case d.unreadable(r, t, exists):
			// It is neither carried on nor ended.
		case exists && d.repairOf[d.body(t)] == r:
			d.carryOnOne(r, t)
		case exists:
			d.close(r, t, Withdrawn, OlderRepairOfNode)
		case d.running[d.fleet.Repairs[r].Target] != r:
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
func (d *deliberation) queue(repair, target, by int) {
	if !d.waits(repair, target) || d.spent(repair) || d.repairOf[d.body(target)] != repair {
		return
	}
	for _, i := range d.judgementsOf(target) {
		d.later[d.decision.Verdicts[i].Policy] += by
	}
	if t := &d.fleet.Targets[target]; t.MaybeControlPlane() {
		d.laterOut[t.circle()] += by
	}
}

func (d *deliberation) runningRepairs() []int {
	var running []int
	for i := range d.fleet.Repairs {
		if d.fleet.Repairs[i].Running() {
			running = append(running, i)
		}
	}
	slices.SortFunc(running, d.olderRepair)
	return running
}

// leaveUnseen: a repair whose requests can't be seen is neither carried on nor ended.
func (d *deliberation) leaveUnseen(repair, target int, exists bool) {
	if lead, v := d.leaderOf(&d.fleet.Repairs[repair], target); exists && v != nil {
		d.refuse(Refusal{Target: target, Policy: lead, Gate: RequestsUnseen})
	}
}

// unreadable tells whether nothing can be said of the target of a repair, since its policy can't be read: that it
// is healthy or not selected may be for want of that alone.
func (d *deliberation) unreadable(repair, target int, exists bool) bool {
	r := &d.fleet.Repairs[repair]
	lead := d.leaderAt(r)
	if lead == none || !d.policies[lead].Illegible || (exists && d.repairOf[d.body(target)] != repair) {
		return false
	}
	overlooked := exists && d.policies[lead].Overlooked
	if !overlooked && !r.asks() {
		return false
	}
	if !exists {
		return true
	}
	_, v := d.leaderOf(r, target)
	return v == nil || v.Health != Unhealthy
}

// asks tells whether any step of the repair is one whose requests stand until they are taken back.
func (r *Repair) asks() bool {
	return slices.ContainsFunc(r.Ladder, func(s Step) bool { return s.Nature.Effect().Stands })
}

// mostUnled bounds the repairs without a target and without a health check that end in one pass. Nothing waits for them, and
// people may have made very many.
const mostUnled = 50

// leaderAt is the index of the policy that leads a repair, none when it is gone.
func (d *deliberation) leaderAt(r *Repair) int {
	for i := range d.policies {
		if d.policies[i].ID == r.Policy {
			return i
		}
	}
	return none
}

// close withdraws what a repair has asked for and ends it when none of that stands any more, or when nothing may be touched.
func (d *deliberation) close(repair, target int, outcome Outcome, reason EndReason) {
	lead := d.leaderAt(&d.fleet.Repairs[repair])
	if d.rehearses(lead) || d.takeBack(repair, target, lead, reason) {
		d.finish(repair, outcome, because(reason))
	}
}

// carryOnOne: what has begun goes on to its own end, whatever the limits say now. What has not is asked
// for again from the start, and dropped when nothing asks for it. What leaves, or has left as a live read
// says, is waited for until the caches show it.
func (d *deliberation) carryOnOne(repair, target int) {
	t, r := &d.fleet.Targets[target], &d.fleet.Repairs[repair]
	if t.Deleting {
		return
	}
	lead, v := d.leaderOf(r, target)
	switch {
	case v == nil && d.handsOff(r, t):
		d.finish(repair, Withdrawn, because(HandsOff))
	case v == nil:
		d.close(repair, target, Withdrawn, d.notSelected(repair, target))
	case v.Health == Undetermined, v.Health == Gone, v.Reason == Premature && d.begun(repair, target):
	case v.Health != Healthy && v.Reason != Recovering && d.relieved(repair):
		d.endRelieved(repair)
	case v.Health == Unhealthy:
		d.note(repair, time.Time{})
		d.climb(&proposal{target: target, leader: lead, verdict: v, repair: repair})
	case v.Health == Healthy, v.Reason == Recovering:
		d.recover(repair, target, lead)
	case !d.begun(repair, target):
		d.finish(repair, d.recoveredAs(r), d.endOfSuspected(r))
	default:
		d.note(repair, time.Time{})
		d.suspected(repair, target)
	}
}

// notSelected returns why the repair of a target ends that the health check which leads it does not select.
func (d *deliberation) notSelected(repair, target int) EndReason {
	if d.begun(repair, target) {
		return NotSelectedAnymore
	}
	return NotSelected
}

// relieved reports whether all that a repair had asked for was taken back since its target was healthy. The target has
// failed again meanwhile, and that failure is another one: its repair keeps its distance.
func (d *deliberation) relieved(repair int) bool {
	if d.fleet.Repairs[repair].Recovered.IsZero() {
		return false
	}
	return !slices.ContainsFunc(d.petitions[repair], func(i int) bool { return d.fleet.Requests[i].Own && !d.fleet.Requests[i].Leaving })
}

// endRelieved ends such a repair once nothing stands that it has asked for.
func (d *deliberation) endRelieved(repair int) {
	if r := &d.fleet.Repairs[repair]; !d.stands(repair) {
		d.finish(repair, d.recoveredAs(r), d.endOfSuspected(r))
	}
}

// handsOff tells whether nothing of what was asked for a target may be touched: somebody has taken it out of health
// checking, or has the policy rehearse, maybe beside another controller.
func (d *deliberation) handsOff(r *Repair, t *Target) bool {
	return t.LeftAlone || d.rehearses(d.leaderAt(r))
}

// rehearses is false for a policy that is gone.
func (d *deliberation) rehearses(policy int) bool {
	return policy != none && d.policies[policy].DryRun
}

// suspected: a target that is neither well nor unhealthy keeps what was asked for it.
func (d *deliberation) suspected(repair, target int) {
	t, r := &d.fleet.Targets[target], &d.fleet.Repairs[repair]
	if !r.Begun.IsZero() && !t.Claimed && !d.stands(repair) {
		d.finish(repair, Succeeded, because(ClaimReleased))
	}
}

// recover takes back what was asked for a target that is healthy again, and ends its repair.
func (d *deliberation) recover(repair, target, lead int) {
	t, r := &d.fleet.Targets[target], &d.fleet.Repairs[repair]
	if !d.stands(repair) {
		d.finish(repair, d.recoveredAs(r), d.endOfRecovered(r))
		return
	}
	recovered := r.Recovered
	if recovered.IsZero() {
		recovered = d.now
		asked := d.servesRequest(repair)
		if asked || d.policies[lead].HealthyDelay != 0 { // else it is over at once
			d.note(repair, recovered)
		}
		if asked { // until that is recorded, a restart would ask the remediator again
			d.wakeAt(d.now.Add(time.Second))
			d.hold(repair, target, lead)
			return
		}
	}
	if until, lasts := d.lastsUntil(&d.policies[lead], t, recovered); lasts {
		d.wakeAt(until)
		d.hold(repair, target, lead)
		return
	}
	d.takeBack(repair, target, lead, TargetRecovered)
}

func (d *deliberation) recoveredAs(r *Repair) Outcome {
	if r.failed() {
		return Withdrawn
	}
	if !r.Petitioned && r.Recovered.IsZero() && r.Begun.IsZero() && len(r.Rungs) == 0 {
		return Recovered
	}
	return Succeeded
}

// endOfRecovered returns why the repair of a target ends that is healthy again.
func (d *deliberation) endOfRecovered(r *Repair) ending {
	switch d.recoveredAs(r) { //nolint:exhaustive // the other has one reason
	case Recovered:
		return because(spared(r))
	case Withdrawn:
		return ending{reason: RecoveredAfterFailure, steps: len(r.Ladder)}
	}
	return because(TargetRecovered)
}

// endOfSuspected returns why the repair of a target ends for which no request exists. If one did, it was withdrawn since the target
// was healthy, and then the target is repaired again as one whose repair did not last.
func (d *deliberation) endOfSuspected(r *Repair) ending {
	if d.recoveredAs(r) == Recovered {
		return because(spared(r))
	}
	return because(RequestsWithdrawn)
}

// spared returns why a repair ends that has done nothing, as far as this process knows. A request may have been withdrawn just
// before the process started, by a process that could not record that.
func spared(r *Repair) EndReason {
	if r.asks() {
		return NothingRequested
	}
	return NothingDone
}

// note remembers since when the target of a repair is healthy again; zero for not.
func (d *deliberation) note(repair int, recovered time.Time) {
	if n := d.noteOn(repair); !n.Recovered.Equal(recovered) {
		n.Recovered = recovered
		d.keepNote(n)
	}
}

// noteOn is what is noted of a repair by now.
func (d *deliberation) noteOn(repair int) Note {
	for _, n := range d.decision.Notes {
		if n.Repair == repair {
			return n
		}
	}
	r := &d.fleet.Repairs[repair]
	return Note{Repair: repair, Recovered: r.Recovered, Answer: r.Answer}
}

func (d *deliberation) keepNote(n Note) {
	for i := range d.decision.Notes {
		if d.decision.Notes[i].Repair == n.Repair {
			d.decision.Notes[i] = n
			return
		}
	}
	d.decision.Notes = append(d.decision.Notes, n)
}

// leaderOf finds the policy that leads a repair and its verdict on the target.
func (d *deliberation) leaderOf(r *Repair, target int) (int, *Verdict) {
	for _, i := range d.judgementsOf(target) {
		v := &d.decision.Verdicts[i]
		if p := &d.policies[v.Policy]; v.Target == target && p.ID == r.Policy && !p.DryRun {
			return v.Policy, v
		}
	}
	return none, nil
}

func (d *deliberation) finish(repair int, outcome Outcome, end ending) {
	d.decision.Finishes = append(d.decision.Finishes, Finish{
		Repair: repair, Outcome: outcome, Reason: end.reason, Text: end.text(), HandsOff: d.rehearses(d.leaderAt(&d.fleet.Repairs[repair])),
	})
}
