package core

import "slices"

// carryOn looks at the repairs under way, before new ones compete for their room.
func (d *deliberation) carryOn() {
	if d.fleet.Observed != Yes {
		return
	}
	targetOf := make(map[int]int, len(d.running))
	for t, r := range d.repairOf {
		if r != none {
			targetOf[r] = t
		}
	}
	d.later = make([]int, len(d.policies))
	for _, t := range targetOf {
		d.queue(t, 1)
	}
	for _, r := range d.runningRepairs() {
		t, exists := targetOf[r]
		switch {
		case exists:
			d.carryOnOne(r, t)
			d.queue(t, -1)
		case d.running[d.fleet.Repairs[r].Target.UID] != r:
			d.finish(r, Withdrawn, "an older repair of the same target is running")
		default:
			d.finish(r, Succeeded, "the target is gone; its owner replaces it")
		}
	}
}

// queue puts the repair of a target, which has not begun, among those whose turn comes later, or
// takes it out. Of several the oldest goes first; they don't wait for each other.
func (d *deliberation) queue(target, by int) {
	t := &d.fleet.Targets[target]
	if t.Deleting {
		return
	}
	for _, i := range d.judgements.on(target) {
		d.later[d.decision.Verdicts[i].Policy] += by
	}
	if t.ControlPlane {
		d.laterControlPlane += by
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

// carryOnOne: a deletion that has begun goes on to its own end, whatever the gates say now. One
// that has not is asked for again from the start, and dropped when nothing asks for it.
func (d *deliberation) carryOnOne(repair, target int) {
	t, r := &d.fleet.Targets[target], &d.fleet.Repairs[repair]
	if t.Deleting {
		return
	}
	lead, v := d.leaderOf(r, target)
	switch {
	case v == nil:
		d.finish(repair, Withdrawn, "the health check that asked for the repair no longer selects the target, or no longer exists")
		return
	case v.Health == Undetermined:
		return
	case v.Health != Unhealthy:
		d.finish(repair, Recovered, "the target is no longer unhealthy; nothing was done to it")
		return
	}
	if pause := r.nextAttempt(d.now); d.now.Before(pause) {
		d.refuse(Refusal{Target: target, Policy: lead, Gate: AttemptPause, Until: pause, Have: r.Attempts})
		return
	}
	if d.gatesOpen(&proposal{target: target, leader: lead, verdict: v, repair: repair}) {
		d.decision.Acts = append(d.decision.Acts, Act{Repair: repair, Target: target, Policy: lead, Verdict: *v})
	}
}

// leaderOf finds the policy that leads a repair and its verdict on the target.
func (d *deliberation) leaderOf(r *Repair, target int) (int, *Verdict) {
	for _, i := range d.judgements.on(target) {
		v := &d.decision.Verdicts[i]
		if p := &d.policies[v.Policy]; p.ID == r.Policy && !p.DryRun {
			return v.Policy, v
		}
	}
	return -1, nil
}

func (d *deliberation) finish(repair int, outcome Outcome, text string) {
	d.decision.Finishes = append(d.decision.Finishes, Finish{Repair: repair, Outcome: outcome, Text: text})
}
