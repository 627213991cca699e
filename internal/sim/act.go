package sim

import (
	"slices"
	"time"

	"github.com/fettle-io/fettle/internal/core"
)

// do is the second half of a pass: record, act, keep up, finish, remember. After a number of writes the
// process crashes; a negative number means that it doesn't. It returns how many writes there were.
func (p *plan) do(u *Universe, crashAfter int, refused bool) int {
	w := &writer{universe: u, plan: p, left: crashAfter, refused: refused}
	e, now := p.engine, at(u.truth.now)
	e.repeat, e.nextAt = false, p.nextAt(u)
	changes := p.changes(u)
	begin := p.due(u, changes)
	if u.setup.UpkeepLast {
		w.act(begin)
		w.keepUp(changes)
	} else {
		w.keepUp(changes)
		w.act(begin)
	}
	for _, f := range p.decision.Finishes {
		r := p.fleet.Repairs[f.Repair]
		r.Ended, r.Outcome = now, f.Outcome
		w.amend(&r)
		if !u.setup.Faults.NoSecondLook {
			e.repeat = true
		}
	}
	if w.crashed {
		e.forget()
		u.forgive()
	}
	return w.writes
}

// nextAt is when the engine is to look again. It is let off asking for the quorum once more, which is what it is in a
// universe for ever.
func (p *plan) nextAt(u *Universe) time.Time {
	asksAgain := slices.ContainsFunc(p.decision.Refusals, func(r core.Refusal) bool {
		return r.Gate == core.QuorumLost || r.Gate == core.QuorumUnknown
	})
	if !asksAgain {
		return p.decision.NextAt
	}
	now, settled := at(u.truth.now), copied(p.fleet)
	const never = 1000 * time.Hour
	for i := range settled.Targets {
		settled.Targets[i].QuorumReadAt = now.Add(never)
	}
	next := u.setup.Faults.decide(p.policies, settled, now).NextAt
	if next.After(now.Add(never)) {
		return time.Time{}
	}
	return next
}

// due are the remedies that are to begin. A repair the record of which changes has its turn in the next pass.
func (p *plan) due(u *Universe, changes []change) []beginning {
	var begin []beginning
	for _, a := range p.decision.Acts {
		if !slices.ContainsFunc(changes, func(c change) bool { return c.index == a.Repair }) {
			begin = append(begin, beginning{target: a.Target, policy: a.Policy, repair: p.fleet.Repairs[a.Repair]})
		}
	}
	for _, s := range p.decision.Starts {
		t := &p.fleet.Targets[s.Target]
		r := core.Repair{
			Namespace: t.ID.Namespace, Name: s.Name, Target: t.ID, Node: t.Node.Name, Policy: p.policies[s.Policy].ID, Owner: t.Owner,
			Retry: s.Retry, Requested: s.Requested, Started: at(u.truth.now), Contemporaries: s.Contemporaries, Ladder: s.Ladder,
		}
		if u.setup.Faults.OwnNames {
			r.Name = p.engine.name + "-" + r.Name
		}
		begin = append(begin, beginning{target: s.Target, policy: s.Policy, repair: r, fresh: true})
	}
	return begin
}

// writer makes the writes of one pass, until the process crashes.
type writer struct {
	universe *Universe
	plan     *plan
	left     int
	refused  bool
	writes   int
	crashed  bool
}

// act records what is new, and begins what the fence lets through.
func (w *writer) act(begin []beginning) {
	for i := range begin {
		b := &begin[i]
		b.unrecorded = b.fresh && !w.create(&b.repair)
	}
	begin = slices.DeleteFunc(begin, func(b beginning) bool { return b.unrecorded })
	for _, b := range w.admitted(begin) {
		w.begin(b)
	}
}

// beginning is a remedy that may begin.
type beginning struct {
	target, policy int
	repair         core.Repair
	// fresh is set for a repair that is to be recorded first, and unrecorded when it was not.
	fresh, unrecorded bool
}

// admitted are those that the fence lets through, now that all are recorded.
func (w *writer) admitted(begin []beginning) []beginning {
	u := w.universe
	if w.crashed || u.setup.Faults.NoFence {
		return begin
	}
	var targets []int
	for _, b := range begin {
		targets = append(targets, b.target)
	}
	if !core.Contested(w.plan.policies, &w.plan.fleet, w.plan.decision, targets) {
		return begin
	}
	over := map[string]bool{}
	for _, f := range w.plan.decision.Finishes {
		over[w.plan.fleet.Repairs[f.Repair].Name] = f.Outcome == core.Succeeded
	}
	running := slices.DeleteFunc(slices.Clone(u.truth.ledger), func(r core.Repair) bool { return !r.Running() || over[r.Name] })
	admitted := map[string]int{}
	policies, fleet := core.Fenced(w.plan.policies, w.plan.fleet, running)
	for _, a := range u.setup.Faults.decide(policies, fleet, at(u.truth.now)).Acts {
		admitted[fleet.Repairs[a.Repair].Name] = a.Step
	}
	return slices.DeleteFunc(begin, func(b beginning) bool {
		step, may := admitted[b.repair.Name]
		may = may && step == len(b.repair.Rungs)
		if !may {
			w.plan.engine.repeat = true
		}
		return !may
	})
}

// may tells whether one more write is made.
func (w *writer) may() bool {
	if w.left == 0 {
		w.crashed = true
	}
	if w.crashed {
		return false
	}
	w.left--
	w.writes++
	w.universe.interpose()
	return true
}

// amend writes how far a repair has come, and tells whether it did: somebody else may have written that since.
func (w *writer) amend(r *core.Repair) bool {
	switch {
	case !w.may():
		return false
	case w.overtaken(r):
		w.plan.overtaken, w.plan.engine.repeat = true, true
		return false
	}
	r.Revision = w.universe.truth.amend(*r)
	w.recorded(*r)
	return true
}

func (w *writer) overtaken(r *core.Repair) bool {
	return w.universe.truth.overtaken(r) && !w.universe.setup.Faults.BlindAmend
}

func (w *writer) recorded(r core.Repair) {
	now := at(w.universe.truth.now)
	w.plan.engine.remember(func(m *core.Memory) { m.Recorded(r, now) })
}

func (w *writer) create(r *core.Repair) bool {
	if !w.may() {
		return false
	}
	revision, created := w.universe.truth.create(*r)
	if !created {
		w.plan.engine.repeat = true
		return false
	}
	r.Revision = revision
	w.recorded(*r)
	return true
}

// begin takes a step, or finds that it is refused.
func (w *writer) begin(b beginning) {
	if !w.may() {
		return
	}
	step := b.repair.Ladder[len(b.repair.Rungs)]
	switch effect := step.Nature.Effect(); {
	case w.refused:
		w.refusedOnce(b.repair)
	case effect.OwnerDecides:
		w.mark(b)
	case effect.Stands:
		w.ask(b, step)
	default:
		w.remove(b.target)
	}
}

// refusedOnce records that the call of a remedy was refused.
func (w *writer) refusedOnce(r core.Repair) {
	r.Attempts++
	r.LastAttempt = at(w.universe.truth.now)
	w.plan.engine.repeat = true
	w.amend(&r)
}

// remove asks for the deletion of a machine.
func (w *writer) remove(target int) {
	t := w.plan.fleet.Targets[target]
	uid, revision := t.ID.UID, t.Revision
	if w.universe.setup.Faults.BlindDelete {
		uid, revision = "", ""
	}
	before := w.universe.truth.clone()
	if w.universe.truth.remove(target, uid, revision) != core.Accepted {
		w.plan.engine.repeat = true
		return
	}
	w.universe.watchDeletion(w.plan, before, target)
	w.plan.engine.remember(func(m *core.Memory) { m.Deleted(t.ID) })
}

// ask asks the remediator of a step.
func (w *writer) ask(b beginning, step core.Step) {
	u, t := w.universe, &w.plan.fleet.Targets[b.target]
	now := at(u.truth.now)
	r := core.Request{Remedy: step.Remedy, Template: step.Template, Target: t.ID, Policy: w.plan.policies[b.policy].ID, Created: now, Own: true}
	before := u.truth.clone()
	asked := r
	asked.Replaces = u.setup.Replacing
	answer, made := u.truth.petition(request{asked, templateOf(step.Template), slotOf(t), u.setup.Clinging})
	switch answer { //nolint:exhaustive // it answers no other
	case 0:
		w.refusedOnce(b.repair)
	case core.Stale:
		w.plan.engine.repeat = true
	case core.Accepted:
		w.plan.found = w.plan.found || !made
		if made {
			u.watchRequest(w.plan, before, b)
		}
		if !u.setup.Faults.NoRequestMemory {
			w.plan.engine.remember(func(m *core.Memory) { m.Requested(r, now) })
		}
	}
}

// due tells whether the engine passes by itself, and at which tick.
func (e *engine) due(now int) (int, bool) {
	if e.repeat {
		return now, true
	}
	if e.nextAt.IsZero() {
		return 0, false
	}
	ticks := int((e.nextAt.Sub(at(0)) + tick - time.Nanosecond) / tick)
	return max(ticks, now), true
}
