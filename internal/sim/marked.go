package sim

import "github.com/fettle-io/fettle/internal/core"

// What the watcher asks about marks.

// watchMark is called when a mark was made; before is the truth until then.
func (u *Universe) watchMark(p *plan, before *cluster, b beginning) {
	t := &p.fleet.Targets[b.target]
	slot := slotOf(t)
	m := before.machines[slot]
	u.asked++
	switch {
	case !p.engine.inStep:
		u.complain("I1: %s was marked by an engine whose caches are not in step", t.ID.UID)
	case m.id().UID != t.ID.UID:
		u.complain("I11: %s was judged, and %s was marked", t.ID.UID, m.id().UID)
	case m.deleting:
		u.complain("I11: %s was judged, and was marked when it was about to leave", t.ID.UID)
	case u.atOnce(p) && !m.sick(before.now), !p.sick[slot]:
		u.complain("I5: %s was marked, and in truth no criterion had held for its time when its node was read live", t.ID.UID)
	case m.deselected:
		u.complain("I10: %s was marked, and nobody selects it", t.ID.UID)
	}
	for i := range p.policies {
		policy := &p.policies[i]
		if !p.selects(policy, slot) {
			continue
		}
		u.watchLimits(p, before, policy, slot)
		if pause := policy.Backoff.Delay(1); before.relapsed(m, b.repair.Name) && Ticks(before.now-m.spared.at) < pause {
			u.complain("I6: %s was marked once more less than %s after it had recovered", t.ID.UID, pause)
		}
	}
}

// relapsed tells whether a machine's repair follows upon another that the ledger has. One that finds its machine unwell
// after all goes on, and marks it once more at once.
func (c *cluster) relapsed(m machine, repair string) bool {
	return m.spared.repair != "" && m.spared.repair != repair && c.entry(m.spared.repair) >= 0
}

// markedOut: a machine that an engine has marked is out while that stands. Where somebody has deleted the entry of its
// repair, the engine knows it by what it sees alone.
func (u *Universe) markedOut(p *plan, c *cluster, slot int) bool {
	m := c.machines[slot]
	if !m.mark.asked || !m.mark.ours {
		return false
	}
	i := p.target(m.id())
	seen := i >= 0 && p.engine.machines[slot].mark.asked && !u.looksWell(&p.fleet.Targets[i])
	return seen || c.under(m.id().UID)
}

// watchSparing: I10 and I11. What is taken back is what was meant, of a machine that is well as far as the engine could
// know, or that nobody selects any more and Fettle had marked.
func (u *Universe) watchSparing(p *plan, r core.Request, before machine, hit string) {
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
	case u.selected(p, i) && !u.looksWell(&p.fleet.Targets[i]):
		u.complain("I10: %s was taken back, and its machine is not well", hit)
	case !u.selected(p, i) && !repairs(p, r.Target):
		u.complain("I10: %s was taken back, which is nobody's whom Fettle knows", hit)
	}
}

// selected tells whether any policy selects a target, as far as the engine could know.
func (u *Universe) selected(p *plan, target int) bool {
	for i := range p.policies {
		if p.selects(&p.policies[i], slotOf(&p.fleet.Targets[target])) {
			return true
		}
	}
	return false
}

// repairs tells whether a repair of a target runs, as far as the engine could know.
func repairs(p *plan, target core.ID) bool {
	for _, r := range p.fleet.Repairs {
		if r.Running() && r.Target == target {
			return true
		}
	}
	return false
}

// marksAtRest: marks stand, and repairs run, only for machines that are not well; whoever is sick is marked, or there is
// a reason why not, which is never that another of the control plane is: their owner minds that.
func (u *Universe) marksAtRest(p *plan) {
	if u.truth.removed {
		return
	}
	for _, m := range u.truth.machines {
		if i := p.target(m.id()); i >= 0 {
			u.markAtRest(p, m, i)
			u.watchOrder(p, i)
		}
	}
	for _, r := range u.truth.ledger {
		i := p.target(r.Target)
		if r.Running() && (i < 0 || u.looksWell(&p.fleet.Targets[i]) || !u.selected(p, i)) {
			u.complain("convergence: repair %s runs for ever", r.Name)
		}
	}
}

func (u *Universe) markAtRest(p *plan, m machine, target int) {
	selected := u.selected(p, target)
	switch {
	case !m.mark.asked:
		if selected && m.sick(u.truth.now) && !refused(p, m.slot) {
			u.complain("convergence: %s is at rest and not marked, and nobody says why", m.id().UID)
		}
	case selected && u.looksWell(&p.fleet.Targets[target]):
		u.complain("I12: at rest the mark of %s stands, and it is well", m.id().UID)
	case !selected && m.mark.ours && u.setup.Erasures == 0:
		u.complain("I12: at rest the mark of %s stands, and nobody selects it any more", m.id().UID)
	}
}

// watchOrder: I4. Nobody waits for another of the control plane where the owner minds their order.
func (u *Universe) watchOrder(p *plan, target int) {
	for _, r := range p.decision.Refusals {
		if r.Target == target && (r.Gate == core.QuorumUnknown || r.Gate == core.QuorumLost || r.Gate == core.ControlPlaneBusy) {
			u.complain("I4: the owner is not told of %s, and can't choose among all that are unhealthy", p.fleet.Targets[target].ID.UID)
		}
	}
}
