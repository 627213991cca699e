package core

import "time"

// confirmationGate: nothing is destroyed on a cached word about its node. Facts about the machine
// itself need no second reading, since the destructive call insists on their revision (I11).
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

// reserve keeps the reads to as many as may be repaired: it takes room for one among the targets
// whose nodes are to be read. A repair in the ledger has its place already. Of a circle at most one target is repaired, so its
// targets share one place: else members of a control plane that its quorum holds back would be read one after the other, and
// every other target would wait for them.
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

// maxReadsPerGroup bounds the targets of one circle that share a place. A control plane has fewer members, but anyone who may label targets
// can have more taken for some. Each further one takes a place of its own, as other targets do.
const maxReadsPerGroup = 9

// reads are the targets of a circle that are to be read.
type reads struct {
	targets int
	// reserved are the policies in which they have their place.
	reserved map[int]bool
}

// shareReads counts a target that is to be read, whose policies have a place for its circle from now on.
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

// Confirmed tells whether what is known of the target's node justifies a step at an instant: it was read
// live a moment ago, or there is no node yet, and so was the quorum of a control plane.
func (t *Target) Confirmed(step *Step, now time.Time) bool {
	if t.takesQuorum(step) && !t.quorumKnown(now) {
		return false
	}
	if t.Node.State == NodeAwaited {
		return true
	}
	return t.Node.State != NodeUnseen && !t.NodeReadAt.IsZero() && Elapsed(t.NodeReadAt, now) < liveReadLimit
}

// Elapsed returns how much time has passed since an instant, by whichever clock shows more. While the computer is suspended a
// monotonic clock may stand still, and the wall clock is set when it goes on.
func Elapsed(since, now time.Time) time.Duration {
	return max(now.Sub(since), now.Round(0).Sub(since.Round(0)))
}
