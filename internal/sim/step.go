package sim

import (
	"slices"

	"github.com/fettle-io/fettle/internal/core"
)

// Steps returns what can happen now, in a fixed order.
func (u *Universe) Steps() []Step {
	var steps []Step
	for i := range u.engines {
		steps = u.engineSteps(steps, i)
	}
	for m := range u.truth.machines {
		steps = u.machineSteps(steps, m)
	}
	for i := range u.truth.requests {
		steps = u.requestSteps(steps, i)
	}
	steps = u.maybe(steps, Step{Kind: Tick})
	steps = u.maybe(steps, Step{Kind: Pause})
	steps = u.maybe(steps, Step{Kind: Remove})
	steps = u.maybe(steps, Step{Kind: ChangeQuorum})
	steps = u.maybe(steps, Step{Kind: Edit})
	steps = u.maybe(steps, Step{Kind: ServerJump})
	steps = u.maybe(steps, Step{Kind: NodeJump})
	for i := range u.truth.ledger {
		if u.left[DeleteRepairRecord] > 0 {
			steps = append(steps, Step{Kind: DeleteRepairRecord, Which: i})
		}
	}
	return steps
}

func (u *Universe) engineSteps(steps []Step, i int) []Step {
	e := u.engines[i]
	if !e.inStep {
		steps = append(steps, Step{Kind: Resync, Engine: i})
		steps = u.maybe(steps, Step{Kind: StaleList, Engine: i})
		if u.setup.Reports && !u.setup.OnlySteppedPasses {
			steps = append(steps, Step{Kind: Pass, Engine: i})
		}
		if !u.setup.Faults.Hasty {
			return steps
		}
	}
	steps = u.passSteps(steps, i)
	if u.left[Restart] > 0 && (e.passed || e.stepped != nil) {
		steps = append(steps, Step{Kind: Restart, Engine: i})
	}
	for m := range u.truth.machines {
		if e.staleMachine(u.truth, m) {
			steps = append(steps, Step{Kind: SeeMachine, Engine: i, Which: m})
		}
		if e.nodes[m] != u.truth.machines[m].node {
			steps = append(steps, Step{Kind: SeeNode, Engine: i, Which: m})
		}
	}
	if e.edition != u.editionFor(e) {
		steps = append(steps, Step{Kind: SeePolicies, Engine: i})
	}
	steps = u.maybe(steps, Step{Kind: Jump, Engine: i})
	if e.staleLedger(u.truth) {
		steps = append(steps, Step{Kind: SeeLedger, Engine: i})
	}
	for template := range e.requests {
		if e.staleRequests(u.truth, template) {
			steps = append(steps, Step{Kind: SeeRequests, Engine: i, Which: template})
		}
	}
	return steps
}

// passSteps returns the passes that an engine may make, or the calls of the current one.
func (u *Universe) passSteps(steps []Step, i int) []Step {
	if u.engines[i].stepped != nil {
		return u.callSteps(steps, i)
	}
	if !u.setup.OnlySteppedPasses {
		steps = append(steps, Step{Kind: Pass, Engine: i})
	}
	for writes := range 4 {
		steps = u.maybe(steps, Step{Kind: CrashingPass, Engine: i, Which: writes})
		steps = u.maybe(steps, Step{Kind: LosingPass, Engine: i, Which: writes})
	}
	for call := range 8 {
		steps = u.maybe(steps, Step{Kind: FailingPass, Engine: i, Which: call})
	}
	steps = u.maybe(steps, Step{Kind: RefusedPass, Engine: i})
	return u.maybe(steps, Step{Kind: BeginPass, Engine: i})
}

// callSteps returns the calls of the current pass of an engine, and their faults.
func (u *Universe) callSteps(steps []Step, i int) []Step {
	p := u.resume(u.engines[i])
	for which, c := range p.calls {
		steps = append(steps, Step{Kind: MakeCall, Engine: i, Which: which})
		steps = u.maybe(steps, Step{Kind: FailCall, Engine: i, Which: which})
		steps = u.maybe(steps, Step{Kind: RefuseCutOff, Engine: i, Which: which})
		steps = u.maybe(steps, Step{Kind: PanicCall, Engine: i, Which: which})
		if c.First {
			steps = u.maybe(steps, Step{Kind: SkipCall, Engine: i, Which: which})
		}
		if writes(&c) {
			steps = u.maybe(steps, Step{Kind: LoseAnswer, Engine: i, Which: which})
			steps = u.maybe(steps, Step{Kind: CutOffCall, Engine: i, Which: which})
		}
		if isStatuses(c) {
			for policy := range c.Reports {
				steps = u.maybe(steps, Step{Kind: MissStatus, Engine: i, Which: policy})
			}
		}
	}
	if p.mayAbandon() {
		steps = u.maybe(steps, Step{Kind: AbandonPass, Engine: i})
	}
	return steps
}

func (u *Universe) machineSteps(steps []Step, m int) []Step {
	now := u.truth.machines[m]
	if u.left[Flap] > 0 && now.node.exists {
		steps = append(steps, Step{Kind: Flap, Which: m})
	}
	if u.left[Vanish] > 0 {
		steps = append(steps, Step{Kind: Vanish, Which: m})
	}
	if m < max(u.setup.Nodes, u.setup.Machines) {
		steps = u.maybe(steps, Step{Kind: Deselect, Which: m})
	}
	if m < u.setup.Nodes {
		steps = u.confirmSteps(steps, m)
	}
	if u.left[Fail] > 0 && !now.failed && !now.deleting && m < u.setup.Machines {
		steps = append(steps, Step{Kind: Fail, Which: m})
	}
	if now.deleting && !u.setup.NeverGone {
		steps = append(steps, Step{Kind: Deleted, Which: m})
	}
	if now.remediated {
		steps = u.maybe(steps, Step{Kind: RepairOutside, Which: m})
	}
	return u.markSteps(u.maybe(steps, Step{Kind: Lease, Which: m}), m)
}

// confirmSteps returns whether a user may confirm that a node is healthy.
func (u *Universe) confirmSteps(steps []Step, m int) []Step {
	if n := &u.truth.machines[m].node; !n.exists || n.confirmed {
		return steps
	}
	return u.maybe(steps, Step{Kind: Confirm, Which: m})
}

func (e *engine) staleMachine(c *apiServer, m int) bool {
	if e.cluster == homeCluster {
		return false
	}
	a, b := e.machines[m], c.machines[m]
	return a.generation != b.generation || a.revision != b.revision
}

func (e *engine) staleLedger(c *apiServer) bool {
	all := c.ledger
	if e.cluster != onlyCluster {
		all = e.cluster.own(all)
	}
	if len(e.ledger) != len(all) {
		return true
	}
	for i := range all {
		if a, b := &e.ledger[i], &all[i]; a.Name != b.Name || a.Revision != b.Revision {
			return true
		}
	}
	return false
}

func (e *engine) staleRequests(c *apiServer, template int) bool {
	return e.cluster != workloadCluster && !slices.Equal(e.requests[template], c.requestsFrom(template))
}

// After returns the universe in which the step has happened.
func (u *Universe) After(s Step) *Universe {
	next := u.clone()
	if s.Kind < kinds && next.left[s.Kind] > 0 {
		next.left[s.Kind]--
	}
	e := next.engines[s.Engine]
	switch s.Kind {
	case Pass, CrashingPass, RefusedPass, LosingPass, FailingPass, BeginPass, MakeCall, FailCall, LoseAnswer, SkipCall, CutOffCall, RefuseCutOff, PanicCall, MissStatus, AbandonPass:
		next.passes(e, s)
	case Tick:
		next.truth.now++
	case ChangeQuorum:
		next.truth.quorum = (next.truth.quorum + 1) % (core.Yes + 1)
	case Jump, ServerJump, NodeJump:
		next.jump(e, s.Kind)
	case StaleList:
		e.inStep, e.outOfStep = true, 0
	case Restart:
		next.left[CrashingPass]--
		next.crash(e)
	case Resync:
		e.resync(next.truth)
	case SeeMachine, SeeNode, SeeLedger, SeeRequests, SeePolicies:
		e.see(next.truth, s)
	case SucceedRequest, FailRequest, RemoveFinalizer, DeleteRequest, ReplaceRequest:
		next.changeRequest(s)
	case Pause, Remove, Edit, Lease, RepairOutside, DeleteRepairRecord, Confirm, Flap, Vanish, Fail, Deleted, Deselect, OwnerBegin, OwnerDelete, OwnerRefuse, RemoveMark, AddMark:
		next.happen(s)
	case Rest, kinds:
	}
	next.check()
	return next
}

// passes makes a pass of an engine, or a call of its pass.
func (u *Universe) passes(e *engine, s Step) {
	switch s.Kind { //nolint:exhaustive // the others are no passes
	case Pass:
		u.pass(e, noFault)
	case CrashingPass:
		u.left[Restart]--
		u.pass(e, passFault{crashAfter: s.Which, loses: never, fails: never})
	case RefusedPass:
		u.pass(e, passFault{crashAfter: never, loses: never, fails: never, refused: true})
	case LosingPass:
		u.pass(e, passFault{crashAfter: never, loses: s.Which, fails: never})
	case FailingPass:
		u.pass(e, passFault{crashAfter: never, loses: never, fails: s.Which})
	case BeginPass:
		u.beginStepped(e)
	case AbandonPass:
		u.abandon(u.resume(e))
	default:
		u.makeCall(e, s.Kind, s.Which)
	}
}

// see lets one cache catch up.
func (e *engine) see(c *apiServer, s Step) {
	switch s.Kind { //nolint:exhaustive // no cache shows the others
	case SeeMachine:
		e.machines[s.Which] = c.machines[s.Which]
		e.machines[s.Which].node = node{}
	case SeeNode:
		e.nodes[s.Which] = c.machines[s.Which].node
	case SeeLedger:
		e.ledger = e.cluster.own(c.ledger)
	case SeePolicies:
		e.edition = c.edition
	case SeeRequests:
		e.requests[s.Which] = c.requestsFrom(s.Which)
	}
}

// happen applies what happens to a machine, or what users do.
func (u *Universe) happen(s Step) {
	c := u.truth
	switch s.Kind { //nolint:exhaustive // the others are about something else
	case Pause, Remove, Edit:
		u.edit(s.Kind)
	case Lease:
		c.takeLease(s.Which)
	case RepairOutside:
		m := &c.machines[s.Which]
		m.remediated, m.node.ready, m.revision = false, true, m.revision+1
		m.node.date(c)
	case Confirm:
		c.confirm(s.Which)
	case DeleteRepairRecord:
		c.erase(c.ledger[s.Which].Name)
	case Deleted:
		c.machines[s.Which] = c.replaced(c.machines[s.Which])
	case Fail:
		c.machines[s.Which].failed = true
		c.machines[s.Which].revision++
	case OwnerBegin, OwnerDelete, OwnerRefuse, RemoveMark, AddMark:
		c.touch(s.Which, s.Kind)
	case Deselect:
		u.deselect(s.Which)
	default:
		m := &c.machines[s.Which]
		m.node.happen(s.Kind, c)
		if s.Kind == Vanish {
			m.usedBy = none
		}
		if m.awaited && m.node.exists {
			m.awaited, m.revision = false, m.revision+1
		}
	}
}

// deselect deselects a machine, or in a world of nodes a node, or selects it again.
func (u *Universe) deselect(slot int) {
	m := &u.truth.machines[slot]
	if slot < u.setup.Nodes {
		m.node.deselected = !m.node.deselected
		return
	}
	m.deselected = !m.deselected
	m.revision++
}

// happen applies what happens to a node.
func (n *node) happen(k Kind, c *apiServer) {
	switch k { //nolint:exhaustive // the others are about something else
	case Flap:
		n.ready = !n.ready
	case Vanish:
		n.exists, n.ready, n.confirmed = !n.exists, true, false
		if n.exists {
			n.generation++
		}
	}
	n.date(c)
}

// date dates the condition by the clock of the node.
func (n *node) date(c *apiServer) { n.since, n.ahead = c.now, c.nodesAhead }
