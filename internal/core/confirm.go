package core

import "time"

// confirmationGate refuses a destructive step that rests on a cached node. Facts about the machine
// itself need no second read, since the destructive call requires their revision (I11).
func confirmationGate(d *planner, p *proposal) (Refusal, bool) {
	t := &d.cluster.Targets[p.target]
	step := d.stepOf(p)
	if t.Confirmed(step, d.now) {
		return Refusal{}, false
	}
	if !t.NodeUnreadable && d.reserve(p) {
		d.confirm(p.target, step)
	}
	return Refusal{Policy: p.leader, Gate: Unconfirmed}, true
}

// reserve bounds the live reads to as many targets as may be repaired. It takes a place for the
// target in each policy, unless a Repair has it already. The targets of a quorum group share one
// place, since at most one of them is repaired. Otherwise the control plane would be read one
// member after the other while every other target waits.
func (d *planner) reserve(p *proposal) bool {
	if p.repair != none {
		return true
	}
	if d.reserved == nil {
		d.reserved, d.readOf = make([]int, len(d.policies)), map[quorumGroup]reads{}
	}
	t := &d.cluster.Targets[p.target]
	of := t.quorumGroup()
	shares := t.takesQuorum(d.stepOf(p)) && d.readOf[of].targets < maxReadsPerGroup
	takes := func(v *Verdict) int {
		if shares && d.readOf[of].reserved[v.Policy] {
			return 0
		}
		return d.placesTaken(v)
	}
	for _, i := range d.verdictsOnGroup(p.target) {
		v := &d.decision.Verdicts[i]
		t := &d.decision.Tallies[v.Policy]
		if !d.policies[v.Policy].DryRun && !d.passesInFlight(v.Policy, p) && takes(v) > 0 && t.MaxInFlight-t.InFlight <= d.reserved[v.Policy] {
			return false
		}
	}
	for _, i := range d.verdictsOnGroup(p.target) {
		v := &d.decision.Verdicts[i]
		d.reserved[v.Policy] += takes(v)
	}
	if shares {
		d.shareReads(of, p.target)
	}
	return true
}

// maxReadsPerGroup bounds the targets of a quorum group that share a place. A control plane has
// fewer members, but each author of labels can add targets. Each target beyond the bound takes a
// place of its own.
const maxReadsPerGroup = 9

// reads counts the targets of a quorum group that will be read.
type reads struct {
	targets int
	// reserved has the policies in which they have a place.
	reserved map[int]bool
}

// shareReads adds a target that will be read. Its policies have a place for its quorum group from
// now on.
func (d *planner) shareReads(of quorumGroup, target int) {
	r := d.readOf[of]
	r.targets++
	if r.reserved == nil {
		r.reserved = map[int]bool{}
	}
	for _, i := range d.verdictsOnGroup(target) {
		r.reserved[d.decision.Verdicts[i].Policy] = true
	}
	d.readOf[of] = r
}

// Confirmed reports whether the facts about the target's node justify a step at an instant. The
// node was read live a moment ago, or there is no node yet. The quorum of a control plane must be
// as fresh.
func (t *Target) Confirmed(step *Step, now time.Time) bool {
	if t.takesQuorum(step) && !t.quorumKnown(now) {
		return false
	}
	if t.Node.State == NodeAwaited {
		return true
	}
	return t.Node.State != NodeUnseen && Elapsed(t.NodeReadAt, now) < liveReadLimit
}

// Elapsed returns how much time has passed since an instant, by the clock that shows more. While
// the computer is suspended a monotonic clock may stand still. The wall clock is set when the
// computer resumes.
func Elapsed(since, now time.Time) time.Duration {
	return max(now.Sub(since), now.Round(0).Sub(since.Round(0)))
}
