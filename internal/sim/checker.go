package sim

import (
	"fmt"
	"slices"
	"time"

	"github.com/fettle-io/fettle/internal/core"
)

// The checker checks the promises of docs/invariants.md. It judges by the truth, or by the knowledge of the engine where the
// truth can't be known.

// checkDeletion checks an accepted deletion of a machine; before is the truth until then.
func (u *Universe) checkDeletion(p *passRun, before *apiServer, slot int) {
	m := before.machines[slot]
	u.deletions++
	meant := p.cluster.Targets[slot].ID
	switch {
	case !p.engine.inStep:
		u.complain("I1: %s was deleted by an engine whose caches are not in step", meant.UID)
	case m.id().UID != meant.UID:
		u.complain("I11: %s was judged, and %s was deleted", meant.UID, m.id().UID)
	case !p.unhealthy[slot]:
		u.complain("I5: %s was deleted, and in truth no criterion had held for its time when its node was read live", meant.UID)
	case m.deleting:
		return
	}
	for _, r := range before.requests {
		// A node that is gone, or not selected any more, takes its repair with it, though its remediator may not
		// have let go yet.
		if r.slot == slot && m.node.exists && p.target(r.Target) >= 0 && before.inRepair(r.Target.UID) {
			u.complain("I2: %s was deleted while a remediator is at work on its node", meant.UID)
		}
	}
	u.checkControlPlane(p, before, slot)
	u.checkLimitsOf(p, before, slot)
}

// checkStart checks a remedy before it begins. A pause is an emergency stop, also where no watch shows it.
func (u *Universe) checkStart(p *passRun, b remedyStart) {
	current := u.editionFor(p.engine)
	if current.paused && u.truth.edited == p.began {
		u.complain("I1: a step of %s is taken, and the policies were paused before the pass began", b.repair.Name)
	}
	if (current.removed || p.policies[b.policy].DryRun) && u.truth.edited == p.began {
		u.complain("I1: a step of %s is taken for a policy that is deleted, or a dry run", b.repair.Name)
	}
	u.checkYield(p, b)
	u.checkVersion(p, b)
	u.checkStatuses(p, b)
	t := &p.cluster.Targets[b.target]
	leases := u.setup.heedsLeases() && u.sees(p.engine, "Node")
	if holder := u.truth.leases[t.Node.Name].holder; leases && p.policies[b.policy].Holder != holder && u.atOnce(p) {
		u.complain("I3: a step of %s is taken, and %q holds the lease of its node", b.repair.Name, holder)
	}
	if i := u.truth.entry(b.repair.Name); i < 0 && u.setup.RecordDeletions == 0 {
		u.complain("I2: a remedy begins, and %q is not recorded", b.repair.Name)
	}
}

// checkVersion checks that no step is taken for a target unless each policy that selects its machine or node was read. It must have
// been the version that the pass decided by. An edit after that read is too late for the step.
func (u *Universe) checkVersion(p *passRun, b remedyStart) {
	slot := slotOf(&p.cluster.Targets[b.target])
	for i := range p.policies {
		policy := &p.policies[i]
		if !p.selects(policy, slot) {
			continue
		}
		if edit, read := p.read[policy.ID]; !read || policy.Fingerprint != fmt.Sprint("edit ", edit) {
			u.complain("I1: a step of %s is taken by %q of policy %s, which was read as edit %d (%t)", b.repair.Name, policy.Fingerprint, policy.ID.Name, edit, read)
		}
	}
}

// checkStatuses checks that no step is taken for a target before the statuses of the policies that select it are written.
func (u *Universe) checkStatuses(p *passRun, b remedyStart) {
	for i := range p.policies {
		if policy := &p.policies[i]; !p.written[policy.ID] && slices.Contains(policy.Members, b.target) {
			u.complain("I9: a step of %s is taken, and the status of %s was not written", b.repair.Name, policy.ID.Name)
		}
	}
}

// heedsLeases reports whether policies hold leases. Others don't look at them.
func (s *Setup) heedsLeases() bool {
	return s.Leases && slices.ContainsFunc(s.Policies, func(p core.Policy) bool { return p.Holder != "" })
}

func (u *Universe) checkControlPlane(p *passRun, before *apiServer, slot int) {
	if slot >= u.setup.ControlPlane {
		return
	}
	if u.atOnce(p) && before.quorum != core.Yes {
		u.complain("I4: m%d of the control plane is repaired though it is unknown whether quorum survives", slot)
	}
	for other := range u.setup.ControlPlane {
		m := before.machines[other]
		leaves := m.deleting && (p.engine.cluster.has("Machine") || m.byFettle && u.steady())
		if other != slot && (leaves || before.remediated(p.engine, other)) {
			u.complain("I4: m%d and m%d of the control plane are out together", other, slot)
		}
	}
}

// checkLimits checks I3, also with several leaders at once.
func (u *Universe) checkLimits(p *passRun, before *apiServer, policy *core.Policy, slot int) {
	if policy.Paused || policy.Problem != "" {
		u.complain("I3: m%d is repaired though policy %s permits nothing", slot, policy.ID.Name)
	}
	unhealthy := 0
	for _, i := range policy.Members {
		if !u.looksHealthy(&p.cluster.Targets[i]) {
			unhealthy++
		}
	}
	if most := policy.ShortCircuit.MaxUnhealthy.FloorOf(len(policy.Members)); unhealthy > most {
		u.complain("I3: m%d is repaired for policy %s while its engine knew of %d unhealthy, more than %d", slot, policy.ID.Name, unhealthy, most)
	}
	out := 0
	for _, i := range policy.Members {
		other := slotOf(&p.cluster.Targets[i])
		held := u.sees(p.engine, "Node") && before.heldOut(p.engine, &policy.ID, other, u.setup.RequestReplacements > 0)
		if other != slot && (held || u.countsAsOut(p.engine, before, other) || u.markedOut(p, before, other)) {
			out++
		}
	}
	if most := policy.MaxInFlight.FloorOf(len(policy.Members)); out >= most {
		u.complain("I3: m%d is repaired for policy %s while %d others were out, and %d may be at a time", slot, policy.ID.Name, out, most)
	}
}

// looksHealthy reports whether a target, as the engine knew it, does not count against a short circuit.
func (u *Universe) looksHealthy(t *core.Target) bool {
	return !t.Deleting && !t.Failed && t.Node.State == core.NodePresent && t.Node.Conditions[0].Status == "True"
}

// countsAsOut reports whether a machine counts as out: an engine has deleted it, and it is not gone. If its repair was
// deleted from the ledger, the engine knows it by its state alone, which must be in sync.
func (u *Universe) countsAsOut(e *engine, c *apiServer, slot int) bool {
	m := c.machines[slot]
	if !m.deleting || !m.byFettle || !u.sees(e, "Machine") {
		return false
	}
	for _, r := range c.ledger {
		if r.Running() && r.Target.UID == m.id().UID {
			return true
		}
	}
	seen := !e.staleMachine(c, slot) && e.nodes[slot] == m.node
	return seen && (m.failed || !m.node.exists || !m.node.ready)
}

// atOnce reports whether nothing happens between two calls of a pass.
func (u *Universe) atOnce(p *passRun) bool { return u.setup.Interpose == nil && p.stepped == nil }

// checkPass checks a pass that did not crash.
func (u *Universe) checkPass(p *passRun) {
	if !p.engine.inStep && p.writes > 0 {
		u.complain("I1: an engine whose caches are not in step wrote something")
	}
	if p.cluster.Observed != core.Yes {
		u.checkBlocked(p)
		return
	}
	u.checkReasons(p)
	if !u.atOnce(p) || p.conflict || p.failed {
		return
	}
	u.checkRecovery(p)
	if p.found || p.freed || p.engine.repeat {
		return
	}
	again := u.preview(p.engine)
	if actions := actionsOf(&again.decision); actions != "" {
		u.complain("I8: nothing has changed since the pass, and another would do something: %s", actions)
	}
}

// actionsOf returns what a decision does, "" for nothing.
func actionsOf(d *core.Decision) string {
	if len(d.Starts)+len(d.StepStarts)+len(d.Finishes)+len(d.Escalations)+len(d.Notes)+len(d.Withdrawals) == 0 {
		return ""
	}
	return fmt.Sprintf("%d starts, %d acts, %d ends, %d steps given up, %d notes, %d withdrawals",
		len(d.Starts), len(d.StepStarts), len(d.Finishes), len(d.Escalations), len(d.Notes), len(d.Withdrawals))
}

// checkRecovery checks I12: the repair of a recovered target has ended, whatever the gates say.
func (u *Universe) checkRecovery(p *passRun) {
	for i := range p.cluster.Targets {
		t := &p.cluster.Targets[i]
		if !u.looksHealthy(t) {
			continue
		}
		u.checkWithdrawn(p, i)
		for _, r := range p.cluster.Repairs {
			if r.Running() && !t.ExternallyRemediated && r.Target.UID == t.ID.UID && u.runs(r.Name) && !begun(p, &r) && !u.isOthersTurn(p, &r) {
				u.complain("I12: %s looks well and nothing was done to it, yet its repair %s does not end", t.ID.UID, r.Name)
			}
		}
	}
}

// isOthersTurn reports whether another leader has just recorded the step of a repair. The engine leaves the repair to it.
func (u *Universe) isOthersTurn(p *passRun, r *core.Repair) bool {
	return r.RecordedElsewhere && fastAt(u.truth.now, p.engine.skew).Before(r.StepBegan().Add(othersTurn))
}

// othersTurn is how long that is.
const othersTurn = 5 * time.Second

// checkReasons checks I9: each unhealthy target is repaired, or has a reason why not.
func (u *Universe) checkReasons(p *passRun) {
	slot := func(target int) int { return slotOf(&p.cluster.Targets[target]) }
	answered := map[int]bool{}
	for _, s := range p.decision.Starts {
		answered[slot(s.Target)] = true
	}
	for _, s := range p.decision.DryRunStarts {
		answered[slot(s.Target)] = answered[slot(s.Target)] || !u.acts(p, s.Target)
	}
	for _, r := range p.decision.Refusals {
		answered[slot(r.Target)] = answered[slot(r.Target)] || r.Text() != ""
	}
	for _, r := range p.cluster.Repairs {
		for i := range p.cluster.Targets {
			answered[slot(i)] = answered[slot(i)] || (r.Running() && r.Target.UID == p.cluster.Targets[i].ID.UID)
		}
	}
	for _, v := range p.decision.Verdicts {
		if v.Health == core.Unhealthy && !answered[slot(v.Target)] {
			u.complain("I9: %s is unhealthy, and no refusal says why it is not repaired", p.cluster.Targets[v.Target].ID.UID)
		}
	}
}

func (u *Universe) runs(name string) bool {
	i := u.truth.entry(name)
	return i >= 0 && u.truth.ledger[i].Running()
}

// check checks the truth after each step.
func (u *Universe) check() {
	u.checkOneRepairPerNode()
	running := map[string]string{}
	for _, r := range u.truth.ledger {
		if !r.Running() {
			continue
		}
		if other := running[r.Target.UID]; other != "" && !u.truth.seconds[r.Name] && !u.truth.seconds[other] {
			u.complain("I2: %s has two running repairs, %s and %s", r.Target.UID, other, r.Name)
		}
		running[r.Target.UID] = r.Name
	}
}
