package sim

import (
	"fmt"
	"slices"

	"github.com/fettle-io/fettle/internal/core"
)

// The watcher keeps the promises in mind. It judges by the truth, and by what the engine could know
// where nobody could know the truth.

// watchDeletion is called when the deletion of a machine was accepted; before is the truth until then.
func (u *Universe) watchDeletion(p *plan, before *cluster, slot int) {
	m := before.machines[slot]
	u.deletions++
	meant := p.fleet.Targets[slot].ID
	switch {
	case !p.engine.inStep:
		u.complain("I1: %s was deleted by an engine whose caches are not in step", meant.UID)
	case m.id().UID != meant.UID:
		u.complain("I11: %s was judged, and %s was deleted", meant.UID, m.id().UID)
	case u.setup.Interpose == nil && !m.sick(before.now), !p.sick[slot]:
		u.complain("I5: %s was deleted, and in truth no criterion had held for its time when its node was read live", meant.UID)
	case m.deleting:
		return
	}
	for _, r := range before.requests {
		// A node that is gone, or not selected any more, takes its repair with it, though its remediator may not
		// have let go yet.
		if r.slot == slot && m.node.exists && p.target(r.Target) >= 0 && before.under(r.Target.UID) {
			u.complain("I2: %s was deleted while a remediator is at work on its node", meant.UID)
		}
	}
	u.watchControlPlane(before, slot)
	for i := range p.policies {
		if policy := &p.policies[i]; p.selects(policy, slot) {
			u.watchLimits(p, before, policy, slot)
		}
	}
}

func (u *Universe) watchControlPlane(before *cluster, slot int) {
	if slot >= u.setup.ControlPlane {
		return
	}
	if u.setup.QuorumSurvives != core.Yes {
		u.complain("I4: m%d of the control plane is repaired though nobody knows whether quorum survives", slot)
	}
	for other := range u.setup.ControlPlane {
		if other != slot && (before.machines[other].deleting || before.asked(other)) {
			u.complain("I4: m%d and m%d of the control plane are out together", other, slot)
		}
	}
}

// watchLimits: I3, also with several leaders at once.
func (u *Universe) watchLimits(p *plan, before *cluster, policy *core.Policy, slot int) {
	if policy.Paused || policy.Problem != "" {
		u.complain("I3: m%d is repaired though policy %s permits nothing", slot, policy.ID.Name)
	}
	unhealthy := 0
	for _, i := range policy.Members {
		if !u.looksWell(&p.fleet.Targets[i]) {
			unhealthy++
		}
	}
	if most := policy.ShortCircuit.MaxUnhealthy.FloorOf(len(policy.Members)); unhealthy > most {
		u.complain("I3: m%d is repaired for policy %s while its engine knew of %d unhealthy, more than %d", slot, policy.ID.Name, unhealthy, most)
	}
	out := 0
	for _, i := range policy.Members {
		other := slotOf(&p.fleet.Targets[i])
		if other != slot && (u.countsAsOut(p.engine, before, other) || before.heldOut(p.engine, &policy.ID, other) || u.markedOut(p, before, other)) {
			out++
		}
	}
	if most := policy.MaxInFlight.FloorOf(len(policy.Members)); out >= most {
		u.complain("I3: m%d is repaired for policy %s while %d others were out, and %d may be at a time", slot, policy.ID.Name, out, most)
	}
}

// looksWell tells whether a target, as the engine knew it, is not counted against a short circuit.
func (u *Universe) looksWell(t *core.Target) bool {
	return !t.Deleting && !t.Failed && t.Node.State == core.NodePresent && t.Node.Conditions[0].Status == "True"
}

// countsAsOut: a machine that an engine has deleted is out until it is gone. Where somebody has
// deleted its entry from the ledger, the engine knows by its looks alone, and these must be in step.
func (u *Universe) countsAsOut(e *engine, c *cluster, slot int) bool {
	m := c.machines[slot]
	if !m.deleting || !m.byFettle {
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

// watchPass is called after each pass.
func (u *Universe) watchPass(p *plan, writes int, crashed, refused bool) {
	if !p.engine.inStep && !crashed && writes > 0 {
		u.complain("I1: an engine whose caches are not in step wrote something")
	}
	if crashed || p.fleet.Observed != core.Yes {
		return
	}
	u.watchReasons(p)
	if u.setup.Interpose != nil || p.overtaken {
		return
	}
	u.watchRecovery(p)
	if refused || p.found || p.engine.repeat {
		return
	}
	again := p.engine.clone().look(u)
	if deeds := deedsOf(&again.decision); deeds != "" {
		u.complain("I8: nothing has changed since the pass, and another would do something: %s", deeds)
	}
}

// deedsOf counts what a decision does.
func deedsOf(d *core.Decision) string {
	if len(d.Starts)+len(d.Acts)+len(d.Finishes)+len(d.Advances)+len(d.Notes)+len(d.Withdrawals) == 0 {
		return ""
	}
	return fmt.Sprintf("%d starts, %d acts, %d ends, %d steps given up, %d notes, %d withdrawals",
		len(d.Starts), len(d.Acts), len(d.Finishes), len(d.Advances), len(d.Notes), len(d.Withdrawals))
}

// watchRecovery: I12. Whatever the gates say, the repair of a target that is well again has ended.
func (u *Universe) watchRecovery(p *plan) {
	for i := range p.fleet.Targets {
		t := &p.fleet.Targets[i]
		if !u.looksWell(t) {
			continue
		}
		u.watchRelief(p, i)
		for _, r := range p.fleet.Repairs {
			if r.Running() && r.Target.UID == t.ID.UID && u.runs(r.Name) && !begun(p, &r) {
				u.complain("I12: %s looks well and nothing was done to it, yet its repair %s does not end", t.ID.UID, r.Name)
			}
		}
	}
}

// watchReasons: I9. What is unhealthy is repaired, or there is a reason why not.
func (u *Universe) watchReasons(p *plan) {
	slot := func(target int) int { return slotOf(&p.fleet.Targets[target]) }
	answered := map[int]bool{}
	for _, s := range p.decision.Starts {
		answered[slot(s.Target)] = true
	}
	for _, r := range p.decision.Refusals {
		answered[slot(r.Target)] = answered[slot(r.Target)] || r.Text() != ""
	}
	for _, r := range p.fleet.Repairs {
		for i := range p.fleet.Targets {
			answered[slot(i)] = answered[slot(i)] || (r.Running() && r.Target.UID == p.fleet.Targets[i].ID.UID)
		}
	}
	for _, v := range p.decision.Verdicts {
		if v.Health == core.Unhealthy && !answered[slot(v.Target)] {
			u.complain("I9: %s is unhealthy, and nobody says why it is not repaired", p.fleet.Targets[v.Target].ID.UID)
		}
	}
}

func (u *Universe) runs(name string) bool {
	i := u.truth.entry(name)
	return i >= 0 && u.truth.ledger[i].Running()
}

// watch looks at the truth after each step.
func (u *Universe) watch() {
	running := map[string]string{}
	for _, r := range u.truth.ledger {
		if !r.Running() {
			continue
		}
		if other := running[r.Target.UID]; other != "" {
			u.complain("I2: %s has two running repairs, %s and %s", r.Target.UID, other, r.Name)
		}
		running[r.Target.UID] = r.Name
	}
}

// Settle lets everything come to rest: caches catch up, deletions end, and engines pass when
// something wakes them. It complains if they don't come to rest, or rest with work undone.
func (u *Universe) Settle() string {
	s := u.clone()
	woken := true
	for looks := range 90 {
		if s.complaint != "" {
			return s.complaint
		}
		if woken || s.wakeByTime() {
			for _, e := range s.engines {
				s.pass(e, -1, false)
			}
		}
		deletions := s.ownersEnd()
		deletions = s.endDeletions() || deletions
		if woken = s.catchUp(); looks%5 == 4 && !woken && !deletions {
			s.truth.now++ // whoever looks again and again does so once in a while
		}
		if !woken && !deletions && !s.anyDue() {
			s.atRest()
			return s.complaint
		}
	}
	s.complain("convergence: it does not come to rest")
	return s.complaint
}

func (u *Universe) endDeletions() bool {
	ended := false
	for i := range u.truth.machines {
		if i < u.setup.Machines && u.truth.machines[i].deleting {
			u.truth.machines[i] = u.truth.machines[i].replaced(u.truth.now)
			ended = true
		}
	}
	standing := slices.DeleteFunc(slices.Clone(u.truth.requests), func(r request) bool { return r.Leaving && !u.setup.Clinging })
	ended = ended || len(standing) < len(u.truth.requests)
	u.truth.requests = standing
	return ended
}

// catchUp brings every cache in step, and tells whether that wakes an engine: what becomes of a
// repair does so only if somebody deleted it or it was refused.
func (u *Universe) catchUp() bool {
	woken := false
	for _, e := range u.engines {
		woken = woken || !e.inStep
		for i := range u.truth.machines {
			woken = woken || e.staleMachine(u.truth, i) || e.nodes[i] != u.truth.machines[i].node
		}
		for template := range e.requests {
			woken = woken || e.staleRequests(u.truth, template)
		}
		for _, r := range e.ledger {
			woken = woken || u.truth.entry(r.Name) < 0
		}
		for _, r := range u.truth.ledger {
			woken = woken || r.Attempts > e.attempts(r.Name)
		}
		e.resync(u.truth)
	}
	return woken
}

// attempts of an entry, as far as the cache shows.
func (e *engine) attempts(name string) int {
	for _, r := range e.ledger {
		if r.Name == name {
			return r.Attempts
		}
	}
	return 0
}

func (u *Universe) anyDue() bool {
	for _, e := range u.engines {
		if _, due := e.due(u.truth.now); due {
			return true
		}
	}
	return false
}

// wakeByTime moves time on to when an engine would pass by itself.
func (u *Universe) wakeByTime() bool {
	soonest, found := 0, false
	for _, e := range u.engines {
		if when, due := e.due(u.truth.now); due && (!found || when < soonest) {
			soonest, found = when, true
		}
	}
	if found {
		u.truth.now = soonest
	}
	return found
}

// atRest: a pass would do nothing, whoever is sick is held back for a reason, and no repair runs.
func (u *Universe) atRest() {
	for _, e := range u.engines {
		p := e.look(u)
		if deeds := deedsOf(&p.decision); deeds != "" {
			u.complain("convergence: nothing wakes the engine, and there is something to do: %s", deeds)
		}
		if next := p.nextAt(u); !next.IsZero() {
			u.complain("convergence: nothing wakes the engine, and it is to look again at %s", next)
		}
		u.nodesAtRest(p)
		if u.delegates {
			u.marksAtRest(p)
		}
	}
	if u.setup.Nodes > 0 || u.delegates {
		return
	}
	for i, m := range u.truth.machines {
		if m.sick(u.truth.now) && !u.mayStaySick(i) {
			u.complain("convergence: %s is at rest and not repaired", m.id().UID)
		}
	}
	for _, r := range u.truth.ledger {
		if r.Running() && !u.mayStaySick(0) {
			u.complain("convergence: repair %s runs for ever", r.Name)
		}
	}
}

// mayStaySick: a short circuit holds, a policy is paused, or the control plane is not to be touched.
func (u *Universe) mayStaySick(slot int) bool {
	if slot < u.setup.ControlPlane && u.setup.QuorumSurvives != core.Yes {
		return true
	}
	for i := range u.setup.Policies {
		p := &u.setup.Policies[i]
		unhealthy := 0
		for _, m := range p.Members {
			if m := u.truth.machines[m]; m.sick(u.truth.now) || !m.node.ready {
				unhealthy++
			}
		}
		if p.Paused || p.Problem != "" || unhealthy > p.ShortCircuit.MaxUnhealthy.FloorOf(len(p.Members)) {
			return true
		}
	}
	return false
}
