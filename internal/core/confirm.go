package core

// gatesOpen checks every gate and records every refusal. When all are open but the facts about the
// node are stale, it requests a live read.
func (d *planner) gatesOpen(p *proposal) bool {
	open := true
	hold := func(r Refusal) {
		open = false
		r.DryRun = p.dryRun
		d.refuse(r)
	}
	d.checkStep(p, hold)
	if open && !p.dryRun {
		if r, refuses := confirmationGate(d, p); refuses {
			r.Target = p.target
			hold(r)
		}
	}
	return open
}

// confirmationGate refuses a destructive step that rests on a cached node. Facts about the machine
// itself need no second read, since the destructive call requires their revision (I11).
func confirmationGate(d *planner, p *proposal) (Refusal, bool) {
	t := &d.cluster.Targets[p.target]
	step := d.stepOf(p)
	if t.Confirmed(step, d.now) {
		return Refusal{}, false
	}
	if !t.NodeUnreadable && d.reserve(&d.counts, p) {
		d.confirm(p.target, step)
	}
	return Refusal{Policy: p.leader, Gate: Unconfirmed}, true
}

// confirm adds a target to the live reads. It adds the quorum of the control plane where the step
// may cost that.
func (d *planner) confirm(target int, step *Step) {
	if d.confirming == nil {
		d.confirming = map[int]bool{}
	}
	polled, known := d.confirming[target]
	if !known {
		d.decision.Confirm = append(d.decision.Confirm, target)
	}
	takes := d.cluster.Targets[target].takesQuorum(step)
	if takes && !polled {
		d.decision.QuorumReads = append(d.decision.QuorumReads, target)
	}
	d.confirming[target] = polled || takes
}

// reservations bound the live reads to as many targets as may be repaired.
type reservations struct {
	// reserved counts, for each policy, the targets whose nodes are read so that they may be
	// repaired.
	reserved []int
	// readOf counts the targets among them that share a place, by quorum group.
	readOf map[quorumGroup]reads
}

// reads counts the targets of a quorum group that will be read.
type reads struct {
	targets int
	// reserved has the policies in which they have a place.
	reserved map[int]bool
}

// maxReadsPerGroup bounds the targets of a quorum group that share a place. A control plane has
// fewer members, but each author of labels can add targets. Each target beyond the bound takes a
// place of its own.
const maxReadsPerGroup = 9

// reserve takes a place for the target of a proposal in each policy, unless a Repair has it
// already. It reports whether all policies had one left. The targets of a quorum group share one
// place, since at most one of them is repaired. Otherwise the control plane would be read one
// member after the other while every other target waits.
func (r *reservations) reserve(c *counts, p *proposal) bool {
	if p.repair != none {
		return true
	}
	if r.reserved == nil {
		r.reserved, r.readOf = make([]int, len(c.policies)), map[quorumGroup]reads{}
	}
	t := &c.cluster.Targets[p.target]
	of := t.quorumGroup()
	shares := t.takesQuorum(c.stepOf(p)) && r.readOf[of].targets < maxReadsPerGroup
	takes := func(v *Verdict) int {
		if shares && r.readOf[of].reserved[v.Policy] {
			return 0
		}
		return c.placesTaken(v)
	}
	for _, i := range c.verdictsOnGroup(p.target) {
		v := &c.verdicts[i]
		t := &c.tallies[v.Policy]
		if !c.policies[v.Policy].DryRun && !c.passesInFlight(v.Policy, p) && takes(v) > 0 && t.MaxInFlight-t.InFlight <= r.reserved[v.Policy] {
			return false
		}
	}
	for _, i := range c.verdictsOnGroup(p.target) {
		v := &c.verdicts[i]
		r.reserved[v.Policy] += takes(v)
	}
	if shares {
		r.share(c, of, p.target)
	}
	return true
}

// share adds a target that will be read. Its policies have a place for its quorum group from now
// on.
func (r *reservations) share(c *counts, of quorumGroup, target int) {
	group := r.readOf[of]
	group.targets++
	if group.reserved == nil {
		group.reserved = map[int]bool{}
	}
	for _, i := range c.verdictsOnGroup(target) {
		group.reserved[c.verdicts[i].Policy] = true
	}
	r.readOf[of] = group
}
