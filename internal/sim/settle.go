package sim

import (
	"maps"
	"slices"
	"strings"

	"github.com/fettle-io/fettle/internal/core"
)

// calm returns the universe in which no pass is under way and no clock is wrong any more.
func (u *Universe) calm() *Universe {
	s := u.clone()
	s.truth.ahead = 0
	for _, e := range s.engines {
		s.finishStepped(e)
		if e.skew.Abs() > core.MaxSkew {
			e.skew = 0
		}
	}
	return s
}

// Settle lets everything come to rest: caches catch up, deletions end, and engines pass when an event wakes them. It
// returns a complaint if they don't come to rest, or rest with work undone.
func (u *Universe) Settle() string {
	s := u.calm()
	woken := true
	for looks := range 90 {
		if s.complaint != "" {
			return s.complaint
		}
		if woken || s.wakeByTime() {
			for _, e := range s.engines {
				s.pass(e, noFault)
			}
		}
		deletions := s.ownersEnd()
		deletions = s.endDeletions() || deletions
		if woken = s.catchUp(); looks%5 == 4 && !woken && !deletions {
			s.truth.now++ // passes that repeat do so once in a while
		}
		if !woken && !deletions && !s.anyDue() {
			s.atRest()
			return s.complaint
		}
	}
	if !s.setup.Leases || len(s.truth.requests) == 0 { // a lease is renewed as long as its request stands
		s.complain("convergence: it does not come to rest")
	}
	return s.complaint
}

// anyRemediated reports whether an outside remediator is at work.
func (u *Universe) anyRemediated() bool {
	return slices.ContainsFunc(u.truth.machines, func(m machine) bool { return m.remediated })
}

func (u *Universe) endDeletions() bool {
	ended := false
	for i := range u.truth.machines {
		if i < u.setup.Machines && !u.setup.NeverGone && u.truth.machines[i].deleting {
			u.truth.machines[i] = u.truth.replaced(u.truth.machines[i])
			ended = true
		}
	}
	kept := slices.DeleteFunc(slices.Clone(u.truth.requests), func(r request) bool { return r.Leaving && !u.setup.KeepsFinalizers })
	ended = ended || len(kept) < len(u.truth.requests)
	u.truth.requests = kept
	return ended
}

// catchUp brings every cache in sync, and reports whether that wakes an engine.
func (u *Universe) catchUp() bool {
	woken := false
	for _, e := range u.engines {
		woken = woken || !e.inStep
		for i := range u.truth.machines {
			woken = woken || e.staleMachine(u.truth, i) || e.nodes[i] != u.truth.machines[i].node
		}
		for template := range e.requests {
			woken = woken || !maps.Equal(e.leases, u.truth.leases) || e.edition != u.editionFor(e) || e.staleRequests(u.truth, template)
		}
		woken = woken || u.wakesByLedger(e)
		e.resync(u.truth)
	}
	return woken
}

// wakesByLedger reports whether a change that the cache of the ledger lacks wakes an engine. A repair does so if the
// cache did not have it and it runs, a user deleted it, or its remedy was refused.
func (u *Universe) wakesByLedger(e *engine) bool {
	isGone := func(r core.Repair) bool { return u.truth.entry(r.Name) < 0 }
	wakes := func(r core.Repair) bool {
		isNew := r.Running() && !e.hasRepair(r.Name) && !u.setup.Faults.NewRepairsUnnoticed
		return isNew || r.Attempts > e.attempts(r.Name)
	}
	return slices.ContainsFunc(e.ledger, isGone) || slices.ContainsFunc(e.cluster.own(u.truth.ledger), wakes)
}

// hasRepair reports whether the cache has a repair.
func (e *engine) hasRepair(name string) bool {
	return slices.ContainsFunc(e.ledger, func(r core.Repair) bool { return r.Name == name })
}

// attempts returns the attempts of a repair, as far as the cache shows.
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

// atRest checks the state at rest: a pass would do nothing, each unhealthy machine is held back for a reason, and no
// repair runs.
func (u *Universe) atRest() {
	for _, e := range u.engines {
		p := u.preview(e)
		u.idleAtRest(p)
		u.judgedAtRest(p)
		if e.cluster != workloadCluster {
			u.nodesAtRest(p)
		}
		if u.delegates && e.cluster != homeCluster {
			u.marksAtRest(p)
		}
	}
	u.confirmationsAtRest()
	u.leasesAtRest()
	if u.setup.Nodes > 0 || u.delegates {
		return
	}
	for i, m := range u.truth.machines {
		if m.unhealthy(u.truth.now) && !u.mayStaySick(i) {
			u.complain("convergence: %s is at rest and not repaired", m.id().UID)
		}
	}
	for _, r := range u.truth.ledger {
		if r.Running() && !u.mayStaySick(0) {
			u.complain("convergence: repair %s runs for ever", r.Name)
		}
	}
}

// idleAtRest checks that another pass would do nothing, and is not due.
func (u *Universe) idleAtRest(p *passRun) {
	if actions := actionsOf(&p.decision); actions != "" {
		u.complain("convergence: nothing wakes the engine, and there is something to do: %s", actions)
	}
	if next := u.next(p); !next.IsZero() && !u.pollsQuorum(p) {
		u.complain("convergence: nothing wakes the engine, and it is to look again at %s", next)
	}
}

// pollsQuorum reports whether an engine is woken by repeated reads of a quorum that does not survive a loss. Another gate
// may hold a member back for a while, and time alone opens that.
func (u *Universe) pollsQuorum(p *passRun) bool {
	return u.truth.quorum != core.Yes && slices.ContainsFunc(p.decision.Refusals, func(r core.Refusal) bool {
		return r.Gate == core.BackingOff && slotOf(&p.cluster.Targets[r.Target]) < u.setup.ControlPlane
	})
}

// memberInRepair reports whether a repair of a member of the control plane runs. While it waits for the quorum, it is in
// flight.
func (u *Universe) memberInRepair() bool {
	return slices.ContainsFunc(u.truth.machines[:u.setup.ControlPlane], func(m machine) bool { return u.truth.inRepair(m.id().UID) })
}

// mayStaySick reports whether a machine may stay unhealthy. It may while a short circuit holds or a policy is paused.
// It also may while no policy selects it, or while the control plane must not be repaired.
func (u *Universe) mayStaySick(slot int) bool {
	if u.truth.quorum != core.Yes && (slot < u.setup.ControlPlane || u.memberInRepair()) {
		return true
	}
	if u.truth.machines[slot].deselected {
		return true
	}
	if u.truth.paused || u.truth.removed || u.setup.NeverGone || len(u.truth.leases) > 0 || u.anyRemediated() {
		return true
	}
	return slices.ContainsFunc(u.setup.Policies, u.permitsNothing)
}

// permitsNothing reports whether a policy is paused, or its short circuit holds.
func (u *Universe) permitsNothing(p core.Policy) bool {
	if u.truth.strict {
		p = stricter(p)
	}
	unhealthy, selected := 0, 0
	for _, m := range p.Members {
		m := u.truth.machines[m]
		if m.deselected {
			continue
		}
		selected++
		if m.unhealthy(u.truth.now) || !m.node.ready {
			unhealthy++
		}
	}
	return p.Paused || p.Problem != "" || unhealthy > p.ShortCircuit.MaxUnhealthy.FloorOf(selected)
}

// leasesAtRest checks that no lease of Fettle is left behind. A policy that is gone or in dry run keeps its lease, and so
// does a Repair that a user has deleted.
func (u *Universe) leasesAtRest() {
	if u.truth.removed || u.setup.RecordDeletions > 0 {
		return
	}
	for node, l := range u.truth.leases {
		if l.holder != foreignHolder && !u.isServiced(node) {
			u.complain("I3: at rest the lease of %s is held by %s, and nothing is done there", node, l.holder)
		}
	}
}

// isServiced reports whether a running repair, a request or the deletion of its machine needs the lease of a node. A
// repair that began before its machine named the node has no node.
func (u *Universe) isServiced(node string) bool {
	slot := strings.TrimPrefix(node, "node-")
	return slices.ContainsFunc(u.truth.ledger, func(r core.Repair) bool { return r.Running() && (r.Node == node || r.Target.Name == "m"+slot) }) ||
		slices.ContainsFunc(u.truth.requests, func(r request) bool { return r.Target.Name == node }) ||
		slices.ContainsFunc(u.truth.machines, func(m machine) bool { return m.deleting && m.nodeID().Name == node })
}
