package sim

import "github.com/fettle-io/fettle/internal/core"

// The promises about marks.

// checkMark checks a new mark; before is the truth until then.
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
	case !p.unhealthy[slot]:
		u.complain("I5: %s was marked, and in truth no criterion had held for its time when its node was read live", t.ID.UID)
	case m.deselected:
		u.complain("I10: %s was marked, and no policy selects it", t.ID.UID)
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

// relapsed reports whether a machine's repair follows another repair that the ledger has. A repair that finds its
// machine unhealthy after all goes on, and marks it again at once.
func (c *apiServer) relapsed(m machine, repair string) bool {
	return m.markRemoved.repair != "" && m.markRemoved.repair != repair && c.entry(m.markRemoved.repair) >= 0
}

// markedOut reports whether a machine counts as out: an engine has marked it, and the mark stands. If its repair was
// deleted from the ledger, the engine knows it by its state alone.
func (u *Universe) markedOut(p *passRun, c *apiServer, slot int) bool {
	m := c.machines[slot]
	if !m.mark.requested || !m.mark.ours || !u.sees(p.engine, "Machine") {
		return false
	}
	i := p.target(m.id())
	seen := i >= 0 && p.engine.machines[slot].mark.requested && !u.looksHealthy(&p.cluster.Targets[i])
	return seen || c.inRepair(m.id().UID)
}

// checkMarkRemoval checks I10 and I11: the removed mark is the intended one. Its machine is healthy as far as the
// engine could know, or is not selected any more and was marked by Fettle.
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
		u.complain("I10: %s was removed, and is not Fettle's", hit)
	}
}

// selected reports whether any policy selects a target, as far as the engine could know.
func (u *Universe) selected(p *passRun, target int) bool {
	for i := range p.policies {
		if p.selects(&p.policies[i], slotOf(&p.cluster.Targets[target])) {
			return true
		}
	}
	return false
}

// acts reports whether any policy selects a target and is no dry run, as far as the engine could know.
func (u *Universe) acts(p *passRun, target int) bool {
	for i := range p.policies {
		if !p.policies[i].DryRun && p.selects(&p.policies[i], slotOf(&p.cluster.Targets[target])) {
			return true
		}
	}
	return false
}

// repairs reports whether a repair of a target runs, as far as the engine could know.
func repairs(p *passRun, target core.ID) bool {
	for _, r := range p.cluster.Repairs {
		if r.Running() && r.Target == target {
			return true
		}
	}
	return false
}

// marksAtRest checks that marks stand, and repairs run, only for unhealthy machines. Each unhealthy machine is marked,
// or has a reason why not. The reason is never that another member of the control plane is out, since their owner takes
// care of that.
func (u *Universe) marksAtRest(p *passRun) {
	if u.editionFor(p.engine).removed {
		return
	}
	for _, m := range u.truth.machines {
		if i := p.target(m.id()); i >= 0 {
			u.markAtRest(p, m, i)
			u.checkOwnerOrder(p, i)
		}
	}
	for _, r := range p.engine.cluster.own(u.truth.ledger) {
		i := p.target(r.Target)
		if r.Running() && (i < 0 || u.looksHealthy(&p.cluster.Targets[i]) || !u.selected(p, i)) {
			u.complain("convergence: repair %s runs for ever", r.Name)
		}
	}
}

func (u *Universe) markAtRest(p *passRun, m machine, target int) {
	selected := u.selected(p, target)
	switch {
	case !m.mark.requested:
		if selected && m.unhealthy(u.truth.now) && !refused(p, m.slot) {
			u.complain("convergence: %s is at rest and not marked, and no refusal says why", m.id().UID)
		}
	case selected && u.looksHealthy(&p.cluster.Targets[target]):
		u.complain("I12: at rest the mark of %s stands, and it is well", m.id().UID)
	case !selected && m.mark.ours && u.setup.RecordDeletions == 0:
		u.complain("I12: at rest the mark of %s stands, and no policy selects it any more", m.id().UID)
	}
}

// checkOwnerOrder checks I4: no machine waits for another of the control plane where the owner keeps their order.
func (u *Universe) checkOwnerOrder(p *passRun, target int) {
	for _, r := range p.decision.Refusals {
		if r.Target == target && (r.Gate == core.QuorumUnknown || r.Gate == core.QuorumLost || r.Gate == core.ControlPlaneBusy) {
			u.complain("I4: the owner is not told of %s, and can't choose among all that are unhealthy", p.cluster.Targets[target].ID.UID)
		}
	}
}
