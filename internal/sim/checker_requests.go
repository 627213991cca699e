package sim

import (
	"slices"
	"time"

	"github.com/fettle-io/fettle/internal/core"
)

// The promises about remediation requests.

// inRepair reports whether a repair of a target runs in the ledger.
func (c *apiServer) inRepair(uid string) bool { return c.repairOf(uid) != "" }

// repairOf returns the name of the running repair of a target, "" for none.
func (c *apiServer) repairOf(uid string) string {
	for _, r := range c.ledger {
		if r.Running() && r.Target.UID == uid {
			return r.Name
		}
	}
	return ""
}

// hasRequest reports whether a remediation request about an existing node stands.
func (c *apiServer) hasRequest(slot int) bool {
	m := c.machines[slot]
	for _, r := range c.requests {
		if r.slot == slot && m.node.exists && r.Target.UID == m.nodeID().UID {
			return true
		}
	}
	return false
}

// remediated reports whether a member of the control plane counts as out by its requests. Its repair runs, or else the
// engine knows a request by its cache: a user may have made one anew. A node that is not selected has no repair.
func (c *apiServer) remediated(e *engine, slot int) bool {
	m := c.machines[slot]
	return !m.node.deselected && slices.ContainsFunc(c.requests, func(r request) bool {
		about := r.slot == slot && m.node.exists && r.Target.UID == m.nodeID().UID
		return about && (c.inRepair(r.Target.UID) || !e.staleRequests(c, r.template))
	})
}

// recoversWithin is how long a node has to recover after its last remediator has succeeded.
const recoversWithin = 10 * time.Minute

// leftToPeople reports whether all steps of the repair of a node were tried, and no remediator is at work on the node.
func (c *apiServer) leftToPeople(uid string) bool { return c.leftByRequests(uid, c.requests) }

// leftByRequests reports the same by some requests. An engine has the requests that its cache shows: a user may have made one
// of them anew.
func (c *apiServer) leftByRequests(uid string, requests []request) bool {
	i := c.entry(c.repairOf(uid))
	if i < 0 {
		return false
	}
	r, failed := &c.ledger[i], false
	for _, q := range requests {
		if q.Target.UID != uid {
			continue
		}
		if q.Stopped.IsZero() && q.Succeeded == core.Unknown {
			return false
		}
		ended := q.Succeeded == core.No || (q.Succeeded == core.Yes && at(c.now).Sub(q.SucceededSince) >= recoversWithin)
		failed = failed || (len(r.Tried) == len(r.Steps)-1 && ended && q.Template == r.Steps[len(r.Tried)].Template)
	}
	return len(r.Tried) >= len(r.Steps) || (failed && r.Steps[len(r.Steps)-1].Limit == 0)
}

// heldOut reports whether a node counts as out: a request about it stands, and it is not left to people. Its repair may
// have been deleted from the ledger, or the node may be left to people as far as the engine could know. Then the engine
// knows the request only for the policy that made it, and by its state alone, which must be in sync. A node that no policy
// selects is not held, by the truth or by the cache of the engine.
func (c *apiServer) heldOut(e *engine, policy *core.ID, slot int, remade bool) bool {
	m := c.machines[slot]
	unselected := m.node.deselected || e.nodes[slot].deselected
	for _, r := range c.requests {
		if r.slot != slot || !m.node.exists || unselected || r.Target.UID != m.nodeID().UID || c.leftToPeople(r.Target.UID) {
			continue
		}
		seen := r.Policy == *policy && e.nodes[slot] == m.node && !e.staleRequests(c, r.template)
		left := remade && c.leftByRequests(r.Target.UID, slices.Concat(e.requests[:]...))
		if seen || (c.inRepair(r.Target.UID) && !left) {
			return true
		}
	}
	return false
}

// checkRequest checks a new request; before is the truth until then.
func (u *Universe) checkRequest(p *passRun, before *apiServer, b remedyStart) {
	t := &p.cluster.Targets[b.target]
	slot, step := slotOf(t), len(b.repair.Tried)
	m := before.machines[slot]
	u.requested++
	switch {
	case !p.engine.inStep:
		u.complain("I1: a remediator of %s was asked by an engine whose caches are not in step", t.ID.UID)
	case !u.atOnce(p):
	case !m.node.exists, m.nodeID().UID != t.ID.UID:
		u.complain("I11: %s was judged, and a request was made about a namesake", t.ID.UID)
	case !p.engine.justifiedByNode(m, before.now):
		u.complain("I5: a remediator of %s was asked, and in truth no criterion had held for its time when it was read live", t.ID.UID)
	}
	if m.deleting && m.byFettle && before.inRepair(m.id().UID) && u.sees(p.engine, "Machine") {
		u.complain("I2: a remediator of %s was asked while its machine is being deleted", t.ID.UID)
	}
	u.checkSteps(p, before, b, slot)
	for i := range p.policies {
		policy := &p.policies[i]
		if !p.selects(policy, slot) {
			continue
		}
		if policy.Paused || policy.Problem != "" {
			u.complain("I3: a remediator of n%d was asked though policy %s permits nothing", slot, policy.ID.Name)
		}
		if step == 0 {
			u.checkLimits(p, before, policy, slot)
		}
	}
	if step == 0 {
		u.checkControlPlane(p, before, slot)
	}
}

// checkRelease checks that a lease is released only when no request about its node stands, and its machine is not being
// deleted. A node that is gone needs none, and a user who deletes a Repair gives up its lease.
func (u *Universe) checkRelease(p *passRun, node, holder string) {
	if u.truth.leases[node].holder != holder {
		return
	}
	for i := range u.truth.requests {
		if r := &u.truth.requests[i]; r.Target.Name == node && u.holdsLease(p, r) {
			u.complain("I3: the lease of %s was released while %s stands", node, r.ID.UID)
		}
	}
	for _, m := range u.truth.machines {
		erased := u.setup.RecordDeletions > 0 && !u.truth.inRepair(m.id().UID)
		if m.nodeID().Name == node && m.deleting && m.byFettle && !erased && len(u.setup.Workload) == 0 {
			u.complain("I3: the lease of %s was released while %s is being deleted", node, m.id().UID)
		}
	}
}

// holdsLease reports whether a request holds the lease of its node. A request that no cache has shown for a minute is not
// counted any more. Of two leaders, one may make a request anew that the other has seen go.
func (u *Universe) holdsLease(p *passRun, r *request) bool {
	shown := slices.Contains(p.engine.requests[r.template], *r)
	overdue := at(u.truth.now).Sub(r.Created) >= seenWithin && !shown
	erased := u.setup.RecordDeletions > 0 && !u.truth.inRepair(r.Target.UID)
	again := u.setup.Leaders > 1 && !shown && u.wasShown(p, r) && p.hasSeenRequestOf(r)
	return !r.Leaving && !overdue && !erased && !again && u.truth.hasRequest(r.slot)
}

// seenWithin is how long a cache may lag behind a request or a repair before Fettle does not count it any more.
const seenWithin = time.Minute

func (m machine) nodeUnhealthy(now int) bool {
	return m.node.exists && !m.node.ready && time.Duration(now-m.node.since-min(m.node.ahead, 0))*tick >= patience
}

// checkSteps checks that the begun step is the step under way, and that the remediators of earlier steps were told to
// stop.
func (u *Universe) checkSteps(p *passRun, before *apiServer, b remedyStart, slot int) {
	step := len(b.repair.Tried)
	if i := before.entry(b.repair.Name); i >= 0 && u.atOnce(p) {
		if under := len(before.ledger[i].Tried); under != step {
			u.complain("ladder: step %d of %s was taken while step %d is under way", step, b.repair.Name, under)
		}
	}
	for _, r := range before.requests {
		if r.slot != slot || r.Target.UID != b.repair.Target.UID || r.Leaving || r.Succeeded == core.Yes || !r.Stopped.IsZero() {
			continue
		}
		for _, earlier := range b.repair.Steps[:step] {
			if earlier.Template == r.Template && u.setup.RequestReplacements == 0 {
				u.complain("ladder: the remediator was not told that an earlier step of %s is over, and step %d was taken", b.repair.Name, step)
			}
		}
	}
}

// checkAdvance checks a step that is given up, before that is recorded.
func (u *Universe) checkAdvance(p *passRun, was, amended *core.Repair) {
	at, now := len(was.Tried), at(u.truth.now)
	if len(amended.Tried) != at+1 {
		u.complain("ladder: step %d of %s is given up, and step %d too, which was not taken", at, was.Name, at+1)
		return
	}
	began := was.Started
	if at > 0 {
		began = was.Tried[at-1].Ended
	}
	step := &was.Steps[at]
	requested := p.advanced(was.Name)
	if requested < 0 && step.Limit == 0 && at == len(was.Steps)-1 {
		requested = p.requestOf(was.Target, step) // it stays, so the decision does not name it
	}
	if requested >= 0 && p.cluster.Requests[requested].Created.After(began) {
		began = p.cluster.Requests[requested].Created
	}
	over := step.Limit > 0 && !now.Add(2*u.setup.Skew.Abs()).Before(began.Add(step.Limit))
	failed := requested >= 0 && p.cluster.Requests[requested].Succeeded == core.No
	if !over && !failed {
		u.complain("ladder: step %d of %s is given up before its time", at, was.Name)
	}
	if i := u.truth.entry(was.Name); i >= 0 && u.atOnce(p) && len(u.truth.ledger[i].Tried) > at+1 {
		u.complain("ladder: step %d of %s is given up once more, so that later ones are taken again", at, was.Name)
	}
}

// checkWithdrawal checks I10 and I11: the withdrawn request is the intended one, and is not needed as far as the engine
// could know.
func (u *Universe) checkWithdrawal(p *passRun, r core.Request, hit string) {
	if !p.engine.inStep {
		u.complain("I1: a request was taken back by an engine whose caches are not in step")
	}
	if hit != "" && hit != r.ID.UID {
		u.complain("I11: %s was meant to be taken back, and %s was", r.ID.UID, hit)
	}
	i := p.target(r.Target)
	if i < 0 || len(p.policies) == 0 || u.looksHealthy(&p.cluster.Targets[i]) {
		return
	}
	for _, other := range p.cluster.Repairs {
		if other.Running() && other.Target != r.Target && other.Node == r.Target.Name {
			return // the node is repaired otherwise
		}
	}
	u.complain("I10: %s was taken back, and its node is neither well, nor gone, nor left to others", r.ID.UID)
}

// checkWithdrawn checks I12: requests about a target that looks healthy were withdrawn, whatever the gates say.
func (u *Universe) checkWithdrawn(p *passRun, target int) {
	for _, r := range p.cluster.Requests {
		if r.Target != p.cluster.Targets[target].ID || r.Leaving || !u.truth.asks(r) || u.delays() {
			continue
		}
		if r.Remedy == MarkStep().Remedy && !u.selected(p, target) && !repairs(p, r.Target) {
			continue
		}
		u.complain("I12: %s looks healthy, and %s is not withdrawn", r.Target.UID, r.ID.UID)
	}
}

// asks reports whether a request stands.
func (c *apiServer) asks(r core.Request) bool {
	if i := c.living(r.ID.UID); i >= 0 {
		return !c.requests[i].Leaving
	}
	return slices.ContainsFunc(c.machines, func(m machine) bool { return m.stands() && m.markUID() == r.ID.UID })
}

// delays reports whether requests stand for a while after their targets are healthy.
func (u *Universe) delays() bool {
	for i := range u.setup.Policies {
		if u.setup.Policies[i].HealthyDelay != 0 {
			return true
		}
	}
	return false
}

// begun reports whether a request for a repair stands, as far as an engine knows. The repair ends only when that is
// withdrawn.
func begun(p *passRun, r *core.Repair) bool {
	for _, q := range p.cluster.Requests {
		if q.Target == r.Target {
			return true
		}
	}
	return false
}

// nodesAtRest checks that requests stand, and repairs run, only for unhealthy nodes. Each unhealthy node is under
// repair, or has a reason why not.
func (u *Universe) nodesAtRest(p *passRun) {
	for _, r := range u.truth.requests {
		if !u.needs(r.Target) && !u.lasts(&r) {
			u.complain("I12: at rest %s stands, and its node is well, gone or not selected", r.ID.UID)
		}
	}
	if u.setup.Nodes == 0 || u.truth.removed {
		return
	}
	for _, r := range p.engine.cluster.own(u.truth.ledger) {
		if i := p.target(r.Target); r.Running() && (i < 0 || u.looksHealthy(&p.cluster.Targets[i])) && !u.waits(&r, i >= 0) {
			u.complain("convergence: repair %s runs for ever", r.Name)
		}
	}
	for i := range p.cluster.Targets {
		if u.overlooked(p, i) {
			u.complain("convergence: %s is at rest, not repaired, and no refusal says why", p.cluster.Targets[i].ID.UID)
		}
	}
}

// overlooked reports whether a target's node is unhealthy and not under repair, without a reason.
func (u *Universe) overlooked(p *passRun, target int) bool {
	slot := slotOf(&p.cluster.Targets[target])
	answered := u.truth.hasRequest(slot) || refused(p, slot) || !u.acts(p, target)
	return u.truth.machines[slot].nodeUnhealthy(u.truth.now) && !answered
}

// lasts reports whether a request may stand at rest though its node does not need it. Its remediator never lets go, or
// has yet to report that the node is replaced, and no healthy node has its name. The engine does not tell a node that is not
// selected from a node that is gone.
func (u *Universe) lasts(r *request) bool {
	m := u.truth.machines[r.slot]
	gone := !m.node.exists || m.node.deselected || m.nodeID() != r.Target
	replaced := m.node.exists && m.node.ready && !m.node.deselected
	waited := u.truth.inRepair(r.Target.UID) || u.setup.RecordDeletions > 0 || !u.limited(r)
	awaited := r.Replaces && r.Succeeded == core.Unknown && r.Stopped.IsZero() && gone && !replaced && waited
	return (r.Leaving && u.setup.KeepsFinalizers) || awaited
}

// limited reports whether the step of a request has a limit.
func (u *Universe) limited(r *request) bool {
	return slices.ContainsFunc(u.setup.Policies, func(p core.Policy) bool {
		return slices.ContainsFunc(p.Steps, func(s core.Step) bool { return s.Template == r.Template && s.Limit > 0 })
	})
}

// waits reports whether a repair may run at rest though its node is gone or healthy. The repair of a node that is gone
// does not wait for requests on their way out.
func (u *Universe) waits(r *core.Repair, exists bool) bool {
	return slices.ContainsFunc(u.truth.requests, func(q request) bool {
		return q.Target == r.Target && u.lasts(&q) && (exists || !q.Leaving)
	})
}

// needs reports whether a node exists, is selected and is not healthy.
func (u *Universe) needs(id core.ID) bool {
	for _, m := range u.truth.machines {
		if m.nodeID() == id {
			return m.node.exists && !m.node.ready && !m.node.deselected
		}
	}
	return false
}

// refused reports whether a decision gives a reason for not repairing a slot's machine or node.
func refused(p *passRun, slot int) bool {
	for _, r := range p.decision.Refusals {
		if slotOf(&p.cluster.Targets[r.Target]) == slot && r.Text() != "" {
			return true
		}
	}
	return false
}
