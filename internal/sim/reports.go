package sim

import (
	"slices"

	"github.com/fettle-io/fettle/internal/core"
	"github.com/fettle-io/fettle/internal/pass"
)

// The dialects: that of machines writes conditions on its targets, and that of nodes withdraws confirmations.
const (
	machineDialect = iota
	nodeDialect
	dialects
)

// dialectsOf returns what the dialects can do.
func (s *Setup) dialectsOf() []pass.Dialect {
	d := make([]pass.Dialect, dialects)
	if s.Reports {
		d[machineDialect] = pass.Dialect{ReportsBlocked: true, WritesConditions: true}
		d[nodeDialect] = pass.Dialect{ReportsBlocked: true, WithdrawsConfirmations: true}
	}
	return d
}

// report makes a call by which a dialect tells users something, or that looks something up, and calls about leases.
func (u *Universe) report(p *passRun, c *pass.Call) (r pass.Result) {
	switch c.Kind { //nolint:exhaustive // the others are answered elsewhere
	case pass.ReportBlocked:
		u.reportBlocked(p, c.Dialect)
	case pass.WriteConditions:
		u.writeConditions(p, c)
	case pass.WithdrawConfirmation:
		u.withdrawConfirmation(p, &c.Target)
	case pass.FindSibling:
		r.ID, r.OK = u.findSibling(p, &c.Target)
	case pass.AcquireLease:
		r.OK = u.truth.hold(c.Target.Node.Name, c.Holder, c.For)
		p.found = p.found || (!r.OK && c.Target.Lease.Holder == "")
	case pass.ReleaseLease:
		if !c.At.IsZero() && u.truth.leases[c.Node].renewed.After(c.At) {
			break
		}
		u.checkRelease(p, c.Node, c.Holder)
		r.OK = u.truth.release(c.Node, c.Holder)
		p.freed = r.OK || p.freed
	}
	return r
}

// reportBlocked notes that a dialect has said that nothing is known.
func (u *Universe) reportBlocked(p *passRun, dialect int) {
	if p.cluster.Observed == core.Yes {
		u.complain("I9: dialect %d says that nothing is known, and the caches are in step", dialect)
	}
	p.blocked[dialect] = !u.setup.Faults.SilentDialects
}

// checkBlocked checks that each dialect of the cluster has said that nothing is known.
func (u *Universe) checkBlocked(p *passRun) {
	kinds := [dialects]string{machineDialect: "Machine", nodeDialect: "Node"}
	for dialect, reported := range p.blocked {
		if u.setup.Reports && p.engine.cluster.has(kinds[dialect]) && !reported && !p.failed && u.atOnce(p) {
			u.complain("I9: nothing is known, and dialect %d does not say so", dialect)
		}
	}
}

// writeConditions writes on targets how they were judged.
func (u *Universe) writeConditions(p *passRun, c *pass.Call) {
	if !p.engine.inStep {
		u.complain("I1: an engine whose caches are not in step has judged targets")
	}
	for i := range c.Judged {
		j := &c.Judged[i]
		t := &c.Cluster.Targets[j.Target]
		if c.Dialect != machineDialect || t.ID.Kind != "Machine" {
			u.complain("I10: dialect %d has judged %s, which is no target of it", c.Dialect, t.ID.UID)
			continue
		}
		if m := &u.truth.machines[slotOf(t)]; m.id().UID == t.ID.UID && !u.setup.Faults.NoConditions {
			m.judged = j.Verdict.Health
		}
	}
}

// judgedAtRest checks that the condition of each machine says how it is judged.
func (u *Universe) judgedAtRest(p *passRun) {
	if !u.setup.Reports {
		return
	}
	for _, j := range p.decision.CombinedVerdicts(p.policies, &p.cluster) {
		t := &p.cluster.Targets[j.Target]
		if t.ID.Kind != "Machine" {
			continue
		}
		if m := &u.truth.machines[slotOf(t)]; m.judged != j.Verdict.Health {
			u.complain("I9: at rest %s is judged %s, and its condition says %s", t.ID.UID, j.Verdict.Health, m.judged)
		}
	}
}

// confirm has a user confirm that a node is healthy.
func (c *apiServer) confirm(slot int) { c.machines[slot].node.confirmed = true }

// hasCreated reports whether the pass has recorded a repair of a target. A confirmation is of the repair before it.
func (p *passRun) hasCreated(uid string) bool {
	return slices.ContainsFunc(p.created, func(r core.Repair) bool { return r.Target.UID == uid })
}

// withdrawConfirmation removes the confirmation of the node that was judged.
func (u *Universe) withdrawConfirmation(p *passRun, t *core.Target) {
	m := &u.truth.machines[slotOf(t)]
	switch {
	case !p.engine.inStep:
		u.complain("I1: a confirmation was withdrawn by an engine whose caches are not in step")
	case !t.ConfirmedHealthy:
		u.complain("I10: a confirmation of %s was withdrawn, and no user has confirmed it", t.ID.UID)
	case len(u.engines) == 1 && u.atOnce(p) && u.truth.inRepair(t.ID.UID) && !p.hasCreated(t.ID.UID) && !u.overdue(p, t.ID.UID):
		u.complain("I10: the confirmation of %s was withdrawn while its repair runs", t.ID.UID)
	}
	if m.nodeID().UID == t.ID.UID && !u.setup.Faults.KeptConfirmations {
		m.node.confirmed, m.usedBy = false, none
	}
}

// noteRecorded notes when a repair was written, if the API server has answered.
func (u *Universe) noteRecorded(c *pass.Call, r *pass.Result) {
	if r.OK && (c.Kind == pass.CreateRepair || c.Kind == pass.UpdateRepair) {
		u.truth.recordedAt[r.Repair.Name] = u.truth.now
	}
}

// overdue reports whether an engine no longer counts the running repair of a target, since its cache has lacked the repair
// for too long.
func (u *Universe) overdue(p *passRun, uid string) bool {
	name := u.truth.repairOf(uid)
	written, answered := u.truth.recordedAt[name]
	return answered && Ticks(u.truth.now-written) >= seenWithin && !p.engine.hasRepair(name)
}

// none is the place of no engine. Places of engines begin at 1 where they are stored.
const none = 0

// useConfirmation notes that a repair has ended whose node a user has confirmed, as far as the engine could know. The
// engine is to withdraw the confirmation.
func (u *Universe) useConfirmation(p *passRun, r *core.Repair) {
	i := p.target(r.Target)
	if !u.setup.Reports || r.Running() || i < 0 || !p.cluster.Targets[i].ConfirmedHealthy || p.recordsOnly(r.Name) {
		return
	}
	if m := &u.truth.machines[slotOf(&p.cluster.Targets[i])]; m.nodeID().UID == r.Target.UID && m.node.confirmed {
		m.usedBy = p.engine.place + 1
	}
}

// recordsOnly reports whether the end of a repair is recorded, and nothing else follows.
func (p *passRun) recordsOnly(repair string) bool {
	for _, f := range p.decision.Finishes {
		if p.cluster.Repairs[f.Repair].Name == repair {
			return f.RecordOnly
		}
	}
	return true
}

// forgetConfirmations forgets which confirmations an engine is to withdraw. Only its process knows.
func (u *Universe) forgetConfirmations(e *engine) {
	for i := range u.truth.machines {
		if m := &u.truth.machines[i]; m.usedBy == e.place+1 {
			m.usedBy = none
		}
	}
}

// confirmationsAtRest checks that each confirmation that was used is withdrawn.
func (u *Universe) confirmationsAtRest() {
	for _, m := range u.truth.machines {
		if m.usedBy != none && m.node.exists && !m.node.deselected {
			u.complain("convergence: at rest the confirmation of %s stands, and the repair has ended", m.nodeID().UID)
		}
	}
}

// findSibling returns the machine of a node. It is not known in the first pass of a process, which still reads the machines.
func (u *Universe) findSibling(p *passRun, t *core.Target) (core.ID, bool) {
	slot := slotOf(t)
	if !p.engine.passed {
		p.siblingUnknown[slot] = true
		return core.ID{}, u.setup.Faults.GuessedSiblings
	}
	return p.engine.machineOf(slot), true
}

// machineOf returns the machine of a node, which the home cluster does not have.
func (e *engine) machineOf(slot int) core.ID {
	if !e.cluster.has("Machine") {
		return core.ID{}
	}
	return e.machines[slot].id()
}

// checkSibling checks that a request is made only when the machine of the node is known.
func (u *Universe) checkSibling(p *passRun, c *core.RemedyCall) {
	if !u.setup.Reports || !c.Step.Nature.Effect().CreatesRequest {
		return
	}
	slot := slotOf(&c.Target)
	if want := p.engine.machineOf(slot); p.siblingUnknown[slot] || c.Sibling.Name != want.Name {
		u.complain("I1: a request about %s is made, and the machine of the node is not known", c.Target.ID.UID)
	}
}
