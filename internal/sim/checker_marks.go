package sim

import "github.com/fettle-io/fettle/internal/core"

// What the watcher asks about marks.

// checkMark is called when a mark was made; before is the truth until then.
func (u *Universe) checkMark(p *passRun, before *apiServer, b remedyStart) {
	t := &p.cluster.Targets[b.target]
	slot := slotOf(t)
	m := before.machines[slot]
	u.requested++
	switch {
	case !p.engine.inStep:
		u.complain("I1: %s was marked by an engine whose caches are not in step", t.ID.UID)
	case m.id().UID != t.ID.UID:
		u.complain("I11: %s was judged, and %s was marked", t.ID.UID, m.id().UID)
	case m.deleting:
		u.complain("I11: %s was judged, and was marked when it was about to leave", t.ID.UID)
	case u.atOnce(p) && !m.unhealthy(before.now), !p.unhealthy[slot]:
		u.complain("I5: %s was marked, and in truth no criterion had held for its time when its node was read live", t.ID.UID)
	case m.deselected:
		u.complain("I10: %s was marked, and nobody selects it", t.ID.UID)
	}
	for i := range p.policies {
		policy := &p.policies[i]
		if !p.selects(policy, slot) {
			continue
		}
		u.checkLimits(p, before, policy, slot)
		if pause := policy.Backoff.Delay(1); before.relapsed(m, b.repair.Name) && Ticks(before.now-m.markRemoved.at) < pause {
			u.complain("I6: %s was marked once more less than %s after it had recovered", t.ID.UID, pause)
		}
	}
}

// relapsed tells whether a machine's repair follows upon another that the ledger has. One that finds its machine unwell
// after all goes on, and marks it once more at once.
func (c *apiServer) relapsed(m machine, repair string) bool {
	return m.markRemoved.repair != "" && m.markRemoved.repair != repair && c.entry(m.markRemoved.repair) >= 0
}

// markedOut: a machine that an engine has marked is out while that stands. Where somebody has deleted the entry of its
// repair, the engine knows it by what it sees alone.
func (u *Universe) markedOut(p *passRun, c *apiServer, slot int) bool {
	m := c.machines[slot]
	if !m.mark.asked || !m.mark.ours {
		return false
	}
	i := p.target(m.id())
	seen := i >= 0 && p.engine.machines[slot].mark.asked && !u.looksHealthy(&p.cluster.Targets[i])
	return seen || c.inRepair(m.id().UID)
}

// checkMarkRemoval: I10 and I11. What is taken back is what was meant, of a machine that is well as far as the engine could
// know, or that nobody selects any more and Fettle had marked.
func (u *Universe) checkMarkRemoval(p *passRun, r core.Request, before machine, hit string) {
	if !p.engine.inStep {
		u.complain("I1: a mark was taken back by an engine whose caches are not in step")
	}
	if hit == "" {
		return
	}
	if hit != r.ID.UID || before.id().UID != r.Target.UID {
		u.complain("I11: %s was meant to be taken back, and %s was", r.ID.UID, hit)
	}
	i := p.target(r.Target)
	switch {
	case i < 0:
		u.complain("I10: %s was taken back, and its machine is not known", hit)
	case u.selected(p, i) && !u.looksHealthy(&p.cluster.Targets[i]):
		u.complain("I10: %s was taken back, and its machine is not well", hit)
	case !u.selected(p, i) && !repairs(p, r.Target):
		u.complain("I10: %s was taken back, which is nobody's whom Fettle knows", hit)
	}
}

// selected tells whether any policy selects a target, as far as the engine could know.
func (u *Universe) selected(p *passRun, target int) bool {
	for i := range p.policies {
		if p.selects(&p.policies[i], slotOf(&p.cluster.Targets[target])) {
			return true
		}
	}
	return false
}

// repairs tells whether a repair of a target runs, as far as the engine could know.
func repairs(p *passRun, target core.ID) bool {
	for _, r := range p.cluster.Repairs {
		if r.Running() && r.Target == target {
			return true
		}
	}
	return false
}

// marksAtRest: marks stand, and repairs run, only for machines that are not well; whoever is sick is marked, or there is
// a reason why not, which is never that another of the control plane is: their owner minds that.
func (u *Universe) marksAtRest(p *passRun) {
	if u.truth.removed {
		return
	}
	for _, m := range u.truth.machines {
		if i := p.target(m.id()); i >= 0 {
			u.markAtRest(p, m, i)
			u.checkOwnerOrder(p, i)
		}
	}
	for _, r := range u.truth.ledger {
		i := p.target(r.Target)
		if r.Running() && (i < 0 || u.looksHealthy(&p.cluster.Targets[i]) || !u.selected(p, i)) {
			u.complain("convergence: repair %s runs for ever", r.Name)
		}
	}
}

func (u *Universe) markAtRest(p *passRun, m machine, target int) {
	selected := u.selected(p, target)
	switch {
	case !m.mark.asked:
		if selected && m.unhealthy(u.truth.now) && !refused(p, m.slot) {
			u.complain("convergence: %s is at rest and not marked, and nobody says why", m.id().UID)
		}
	case selected && u.looksHealthy(&p.cluster.Targets[target]):
		u.complain("I12: at rest the mark of %s stands, and it is well", m.id().UID)
	case !selected && m.mark.ours && u.setup.Erasures == 0:
		u.complain("I12: at rest the mark of %s stands, and nobody selects it any more", m.id().UID)
	}
}

// checkOwnerOrder: I4. Nobody waits for another of the control plane where the owner minds their order.
func (u *Universe) checkOwnerOrder(p *passRun, target int) {
	for _, r := range p.decision.Refusals {
		if r.Target == target && (r.Gate == core.QuorumUnknown || r.Gate == core.QuorumLost || r.Gate == core.ControlPlaneBusy) {
			u.complain("I4: the owner is not told of %s, and can't choose among all that are unhealthy", p.cluster.Targets[target].ID.UID)
		}
	}
}
