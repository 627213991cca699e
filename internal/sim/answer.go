package sim

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/fettle-io/fettle/internal/core"
	"github.com/fettle-io/fettle/internal/pass"
)

var (
	errLost    = errors.New("the connection was lost")
	errFailed  = errors.New("the call has failed")
	errRefused = errors.New("refused")
	errUnseen  = errors.New("what has not been seen can't be told")
)

// writes reports whether a call changes something that a promise is about.
func writes(c *pass.Call) bool {
	switch c.Kind { //nolint:exhaustive // the others change nothing
	case pass.CreateRepair, pass.UpdateRepair, pass.StartRemedy, pass.StopRequest, pass.WithdrawRequest, pass.DeleteRepair, pass.AcquireLease, pass.ReleaseLease,
		pass.WriteConditions, pass.WithdrawConfirmation:
		return true
	}
	return false
}

// answer makes a call against the API server.
func (u *Universe) answer(p *passRun, c *pass.Call, refused bool) (r pass.Result) {
	switch c.Kind { //nolint:exhaustive // the others are granted, and change nothing
	case pass.ReadNode:
		r.Node = u.readNode(p, &c.Target)
	case pass.ReadClock:
		p.skew[taskOf(c)] = u.off(p.engine)
	case pass.ReadQuorum:
		r.Survives = u.truth.quorum
	case pass.ReadPolicy:
		r.Fingerprint = u.readPolicy(p, c.Policy)
	case pass.CreateRepair:
		r.Repair, r.OK = u.create(p, c.NewRepair)
	case pass.ListRunning:
		r.Repairs = u.running(p)
	case pass.UpdateRepair:
		r.Repair, r.OK = u.amend(p, c.Repair)
	case pass.StartRemedy:
		if refused {
			return pass.Result{Err: errRefused}
		}
		r.RemedyResult, r.Err = u.start(p, c)
	case pass.DeleteRepair:
		r.OK = u.drop(c.Repair)
	case pass.StopRequest:
		r.Err = u.stop(c.Request)
	case pass.WithdrawRequest:
		u.withdraw(p, c.Request)
	default:
		return u.report(p, c)
	}
	return r
}

// readNode returns a live read of the node of a target.
func (u *Universe) readNode(p *passRun, t *core.Target) core.Node {
	if u.setup.Faults.NoLiveRead {
		n := t.Node
		if n.State == core.NodeUnseen {
			n.State = core.NodeGone
		}
		return n
	}
	slot := slotOf(t)
	u.noteLiveDate(p.engine, t, u.truth.machines[slot])
	p.unhealthy[slot] = p.engine.justified(u.truth.machines[slot], u.truth.now)
	n := u.truth.readNode(slot)
	if t.ID.Kind == "Node" && n.UID != t.ID.UID {
		n = core.Node{State: core.NodeGone, Name: t.ID.Name}
	}
	return n
}

// noteEarlierReads notes the machines whose node an earlier pass has read live, a moment ago. The cache shows the node as it
// was then, and the pass does not read it again.
func (u *Universe) noteEarlierReads(p *passRun) {
	for i := range p.cluster.Targets {
		t := &p.cluster.Targets[i]
		if t.NodeReadAt.IsZero() {
			continue
		}
		m := u.truth.machines[slotOf(t)]
		m.node = p.engine.nodes[m.slot]
		p.unhealthy[m.slot] = p.unhealthy[m.slot] || p.engine.justified(m, u.truth.now)
	}
}

// judgeWithoutNode notes the machines without a node whose repair the truth justifies now. No live read is about them, so
// the pass decides on them after the last live read of others.
func (u *Universe) judgeWithoutNode(p *passRun) {
	for i := range p.cluster.Targets {
		t := &p.cluster.Targets[i]
		if t.ID.Kind != "Machine" || t.Node.Name != "" {
			continue
		}
		if slot := slotOf(t); p.engine.justified(u.truth.machines[slot], u.truth.now) {
			p.unhealthy[slot] = true
		}
	}
}

func (u *Universe) create(p *passRun, e *core.NewRepair) (core.Repair, bool) {
	t := &e.Target
	r := core.Repair{
		Namespace: t.ID.Namespace, Name: e.Name, Target: t.ID, Node: t.Node.Name, Policy: e.Policy.ID, Owner: t.Owner, Holder: e.Policy.Holder,
		Retry: e.Retry, Requested: e.Requested, Started: e.Started, Steps: e.Steps,
	}
	if u.setup.Faults.OwnNames {
		r.Name = p.engine.name + "-" + r.Name
	}
	besides := u.overdue(p, t.ID.UID)
	r, created := u.truth.create(written(r))
	if created {
		u.truth.noteSecond(r.Name, besides)
		p.created = append(p.created, r)
	}
	return r, created
}

// running returns the running repairs. Without a fence, it returns what the engine knows itself.
func (u *Universe) running(p *passRun) []core.Repair {
	all := u.truth.ledger
	if u.setup.Faults.NoFence {
		all = slices.Concat(p.created, p.engine.ledger)
	}
	return slices.DeleteFunc(p.engine.cluster.own(all), func(r core.Repair) bool { return !r.Running() })
}

// amend writes the state of a repair, unless another writer has changed it since.
func (u *Universe) amend(p *passRun, r core.Repair) (core.Repair, bool) {
	faults := &u.setup.Faults
	was := p.repair(r.Name)
	if gone := len(r.Tried) - len(was.Tried); faults.TwoSteps && gone == 1 && len(r.Tried) < len(r.Steps) {
		r.GiveUpStep(r.Tried[len(r.Tried)-1])
	}
	if u.truth.overtaken(&r) && !faults.BlindUpdate {
		p.conflict = true
		return core.Repair{}, false
	}
	if len(r.Tried) > len(was.Tried) {
		u.checkAdvance(p, &was, &r)
	}
	r = written(r)
	r.Revision = u.truth.amend(r)
	u.useConfirmation(p, &r)
	return r, true
}

// start calls the remedy of a step.
func (u *Universe) start(p *passRun, c *pass.Call) (core.RemedyResult, error) {
	o := c.RemedyCall
	if skew, read := p.skew[taskOf(c)]; !read || skew.Abs() > core.MaxSkew {
		u.complain("I5: a step for %s is taken by a clock that is wrong", o.Target.ID.UID)
	}
	b := remedyStart{target: p.target(o.Target.ID), policy: slices.IndexFunc(p.policies, func(q core.Policy) bool { return q.ID == o.Policy }), repair: p.repair(o.Repair)}
	u.checkStart(p, b)
	u.checkSibling(p, o)
	switch effect := o.Step.Nature.Effect(); {
	case effect.OwnerDecides:
		return u.mark(p, b), nil
	case effect.MarksForRemediator:
		return u.handOver(p, b), nil
	case effect.NeedsWithdrawal:
		return u.ask(p, b, &o.Step)
	default:
		return u.remove(p, &o.Target), nil
	}
}

// remedyStart is the call of a remedy.
type remedyStart struct {
	target, policy int
	repair         core.Repair
}

// HandOverStep returns the step that hands a machine over to an outside remediator.
func HandOverStep() core.Step { return core.Step{Remedy: "HandOver", Nature: core.Annotate} }

// handOver marks a machine for an outside remediator.
func (u *Universe) handOver(p *passRun, b remedyStart) core.RemedyResult {
	t := &p.cluster.Targets[b.target]
	slot := slotOf(t)
	m := &u.truth.machines[slot]
	if m.id().UID != t.ID.UID || fmt.Sprint(m.revision) != t.Revision {
		return core.Stale
	}
	before := u.truth.clone()
	m.remediated, m.revision = true, m.revision+1
	u.requested++
	u.checkLimitsOf(p, before, slot)
	u.wrote(p, slot)
	return core.Accepted
}

func (u *Universe) checkLimitsOf(p *passRun, before *apiServer, slot int) {
	for i := range p.policies {
		if policy := &p.policies[i]; p.selects(policy, slot) {
			u.checkLimits(p, before, policy, slot)
		}
	}
}

// drop deletes a finished repair as it was read.
func (u *Universe) drop(r core.Repair) bool {
	i := u.truth.entry(r.Name)
	switch {
	case i >= 0 && u.truth.ledger[i].Running():
		u.complain("I6: %s runs, and was dropped", r.Name)
	case i >= 0 && u.truth.ledger[i].Revision != r.Revision:
		return false
	}
	u.truth.erase(r.Name)
	return true
}

// hold takes a lease that is free, expired or the holder's own.
func (c *apiServer) hold(node, holder string, d time.Duration) bool {
	now := at(c.now)
	if held := c.leases[node]; held.holder != "" && held.holder != holder && now.Before(held.until) {
		return false
	}
	c.leases[node] = lease{holder, now, now.Add(d)}
	return true
}

// release releases a lease of a holder, and reports whether the holder had it.
func (c *apiServer) release(node, holder string) bool {
	if c.leases[node].holder != holder {
		return false
	}
	delete(c.leases, node)
	return true
}

// remove deletes a machine.
func (u *Universe) remove(p *passRun, t *core.Target) core.RemedyResult {
	uid, revision, slot := t.ID.UID, t.Revision, slotOf(t)
	if u.setup.Faults.BlindDelete {
		uid, revision = "", ""
	}
	before := u.truth.clone()
	answer := u.truth.remove(slot, uid, revision)
	if answer == core.Accepted {
		u.checkDeletion(p, before, slot)
	}
	return answer
}

// ask creates the remediation request of a step.
func (u *Universe) ask(p *passRun, b remedyStart, step *core.Step) (core.RemedyResult, error) {
	t := &p.cluster.Targets[b.target]
	r := core.Request{
		Remedy: step.Remedy, Template: step.Template, Target: t.ID, Policy: p.policies[b.policy].ID, Created: at(u.truth.now + u.truth.ahead), Own: true,
		Replaces: u.setup.Replacing,
	}
	before := u.truth.clone()
	answer, made := u.truth.createRequest(request{r, templateOf(step.Template), slotOf(t), u.setup.KeepsFinalizers})
	switch {
	case answer == 0:
		return 0, errRefused
	case answer == core.Accepted && made:
		u.checkRequest(p, before, b)
		u.noteMade(b.repair.Name, templateOf(step.Template))
	case answer == core.Accepted:
		p.found = true
	}
	return answer, nil
}

// mark marks a machine for its owner. The engine sees the machine as it was written, before a watch shows it.
func (u *Universe) mark(p *passRun, b remedyStart) core.RemedyResult {
	t := &p.cluster.Targets[b.target]
	slot, uid, revision := slotOf(t), t.ID.UID, t.Revision
	if u.setup.Faults.BlindMark {
		uid, revision = "", ""
	}
	before := u.truth.clone()
	answer, made := u.truth.ask(slot, uid, revision)
	if answer != core.Accepted {
		return answer
	}
	u.wrote(p, slot)
	if p.found = p.found || !made; made {
		u.checkMark(p, before, b)
	}
	return answer
}

// stop marks a request so that its remediator stops.
func (u *Universe) stop(r core.Request) error {
	if r.ID.UID == "" {
		return errUnseen
	}
	if !u.setup.Faults.NoStop {
		u.truth.stop(r)
	}
	return nil
}

func (u *Universe) withdraw(p *passRun, r core.Request) {
	if r.Remedy == MarkStep().Remedy {
		u.unmark(p, r)
		return
	}
	hit := u.truth.withdraw(r, u.setup.Faults.BlindWithdrawal)
	u.checkWithdrawal(p, r, hit)
}

// unmark removes a mark.
func (u *Universe) unmark(p *passRun, r core.Request) {
	slot := p.slotOf(r.Target)
	before := u.truth.machines[slot]
	hit := u.truth.unmark(slot, r.ID.UID, u.setup.Faults.BlindWithdrawal)
	u.checkMarkRemoval(p, r, before, hit)
	if hit == "" {
		return
	}
	if m := &u.truth.machines[slot]; r.TargetHealthy && before.mark.ours {
		m.markRemoved = markRemoval{u.truth.now, u.truth.repairOf(r.Target.UID)}
	}
	u.wrote(p, slot)
}

func (u *Universe) wrote(p *passRun, slot int) {
	if !u.setup.Faults.NoWriteThrough {
		p.engine.see(u.truth, Step{Kind: SeeMachine, Which: slot})
	}
}
