package pass

import (
	"fmt"
	"slices"
	"time"

	"github.com/fettle-io/fettle/internal/core"
)

// pendingStart is one repair to record, unless it is recorded already, and to start.
type pendingStart struct {
	target, policy int
	verdict        core.Verdict
	repair         core.Repair
	// step is the step to take, nil when the repair has none.
	step *core.Step
	// newRepair is nil for a repair that is recorded already.
	newRepair      *core.NewRepair
	contemporaries []string

	// policiesReadAt is when the policies that select the target were last read and had not changed.
	policiesReadAt time.Time
	check          policyCheck

	recorded bool
	// expected is set when the repair is an expectation until a cache shows it.
	expected bool
	// admitted is set when the limits allow the repair, with all that other leaders have recorded.
	admitted   bool
	remedyCall *core.RemedyCall
	// result and refused are the answer of the remedy, at answered.
	result   core.RemedyResult
	refused  error
	answered time.Time
	// conflict is set when another writer has changed the record before it could say that the target is handed over.
	// The step is then taken again, by what the record says by then.
	conflict bool
	failed   bool
}

// starting is the progress of starting repairs.
type starting struct {
	check policyCheck
	// contested is set when another leader might start repairs that leave no room for these.
	contested bool
	// unread is set when the running repairs could not be listed.
	unread bool
	// repeat is set when another pass should follow soon.
	repeat bool
}

// gatherStarts gathers the starts for targets that are not blocked. A repair whose record changes in this pass waits
// for the next.
func (p *Pass) gatherStarts() {
	changing := map[int]bool{}
	for i := range p.running.changes {
		changing[p.running.changes[i].index] = true
	}
	for _, a := range p.decision.StepStarts {
		if !p.status.blocked[a.Target] && !changing[a.Repair] {
			p.starts = append(p.starts, nextStepOf(&p.cluster.Repairs[a.Repair], a))
		}
	}
	for _, s := range p.decision.Starts {
		if !p.status.blocked[s.Target] {
			p.starts = append(p.starts, p.newStart(s))
		}
	}
}

// nextStepOf returns the start of the next step of a repair, by the steps that it was recorded with.
func nextStepOf(r *core.Repair, a core.StepStart) pendingStart {
	s := pendingStart{target: a.Target, policy: a.Policy, verdict: a.Verdict, repair: *r, recorded: true}
	if at := len(r.Tried); at < len(r.Steps) {
		s.step = &r.Steps[at]
	}
	return s
}

func (p *Pass) newStart(d core.Start) pendingStart {
	s := pendingStart{
		target: d.Target, policy: d.Policy, verdict: d.Verdict, contemporaries: d.CreatedSameSecond,
		newRepair: &core.NewRepair{
			Name: d.Name, Target: p.cluster.Targets[d.Target], Policy: p.policies[d.Policy],
			Verdict: d.Verdict, Steps: d.Steps, Retry: d.Retry, Started: p.now, Requested: d.Requested,
		},
	}
	if len(d.Steps) > 0 {
		s.step = &d.Steps[0]
	}
	return s
}

func (p *Pass) startTargets() []int {
	targets := make([]int, len(p.starts))
	for i := range p.starts {
		targets[i] = p.starts[i].target
	}
	return targets
}

// contestedStarts returns how many repairs are to be recorded before any remedy starts. There are some only where
// another leader may contest a limit, or a user may have deleted a recorded repair that no cache has shown.
func (p *Pass) contestedStarts() int {
	if len(p.starts) == 0 {
		return 0
	}
	p.starting.contested = core.NeedsFencing(p.policies, &p.cluster, p.decision, p.startTargets()) || slices.ContainsFunc(p.starts, p.isUnshown)
	if !p.starting.contested {
		return 0
	}
	return len(p.starts)
}

// isUnshown reports whether a start is of a repair that is recorded already and that no cache has shown.
func (p *Pass) isUnshown(s pendingStart) bool {
	return s.newRepair == nil && p.state.Expectations.IsUnshown(keyOf(&s.repair))
}

func (p *Pass) createRepair(_ *task, i int) []Call {
	s := &p.starts[i]
	if s.newRepair == nil {
		return nil
	}
	return []Call{{Kind: CreateRepair, NewRepair: s.newRepair}}
}

func (p *Pass) repairCreated(t *task, c *Call, r *Result) {
	s := &p.starts[c.Task]
	switch {
	case r.Skipped:
		t.end(r.Err)
	case r.Err != nil:
		p.unanswered(p.cluster.Targets[s.target].ID, r)
		t.end(fmt.Errorf("recording the repair of %s: %w", p.cluster.Targets[s.target].ID, r.Err))
	case r.OK:
		s.repair, s.recorded, s.expected = r.Repair, true, true
		s.repair.CreatedSameSecond = s.contemporaries
	}
	s.failed = r.Err != nil
}

// unanswered notes that a repair of the target may have been created.
func (p *Pass) unanswered(target core.ID, r *Result) {
	if p.state.unanswered == nil {
		p.state.unanswered = map[core.ID]time.Time{}
	}
	p.state.unanswered[target] = p.later(r.Clock.Now).Add(unansweredFor)
}

// startsToAdmit returns whether the running repairs are to be listed, as a number of tasks. By these the recorded repairs are
// admitted.
func (p *Pass) startsToAdmit() int {
	if !p.starting.contested || !slices.ContainsFunc(p.starts, func(s pendingStart) bool { return s.recorded }) {
		return 0
	}
	return 1
}

func (*Pass) listRunning(*task, int) []Call { return []Call{{Kind: ListRunning}} }

// runningListed admits the repairs that the limits allow, with all repairs that are recorded by now.
func (p *Pass) runningListed(t *task, _ *Call, r *Result) {
	if r.Err != nil {
		p.starting.unread = true
		err := r.Err
		if !r.Skipped {
			err = fmt.Errorf("listing the repairs that run: %w", r.Err)
		}
		t.end(err)
		return
	}
	p.loseDeleted(r.Repairs)
	policies, cluster := core.Fenced(p.policies, p.cluster, p.withoutGone(r.Repairs))
	cluster.ClockAgrees, cluster.Age = r.Clock.Agrees, p.ageAt(r.Clock.Now)
	for _, a := range p.config.Decide(policies, cluster, p.later(r.Clock.Now)).StepStarts {
		admitted := &cluster.Repairs[a.Repair]
		for i := range p.starts {
			// Another leader may have given up the step meanwhile.
			if s := &p.starts[i]; keyOf(&s.repair) == keyOf(admitted) && len(s.repair.Tried) == a.Step {
				s.admitted = s.recorded
			}
		}
	}
	for i := range p.starts {
		if s := &p.starts[i]; s.recorded && !s.admitted {
			p.report(Event{Kind: NotAdmitted, Repair: s.repair, Target: p.cluster.Targets[s.target].ID})
		}
	}
}

// loseDeleted takes in that recorded repairs are gone which no cache has shown. A user has deleted them.
func (p *Pass) loseDeleted(running []core.Repair) {
	for i := range p.starts {
		s := &p.starts[i]
		is := func(r core.Repair) bool { return keyOf(&r) == keyOf(&s.repair) }
		if p.isUnshown(*s) && !slices.ContainsFunc(running, is) {
			p.state.Expectations.LoseRepair(keyOf(&s.repair))
		}
	}
}

func keyOf(r *core.Repair) core.RepairKey {
	return core.RepairKey{Namespace: r.Namespace, Name: r.Name}
}

// withoutGone leaves out the repairs whose targets are gone. Their end is recorded later in this pass.
func (p *Pass) withoutGone(running []core.Repair) []core.Repair {
	over := map[core.RepairKey]bool{}
	for _, f := range p.decision.Finishes {
		if f.Outcome == core.Succeeded {
			over[keyOf(&p.cluster.Repairs[f.Repair])] = true
		}
	}
	return slices.DeleteFunc(slices.Clone(running), func(r core.Repair) bool { return over[keyOf(&r)] })
}

// admittedStarts returns how many repairs may start. Where no limit is contested, each is recorded first.
func (p *Pass) admittedStarts() int {
	return len(p.starts)
}

func (p *Pass) createUncontested(t *task, i int) []Call {
	if p.starting.contested {
		return nil
	}
	return p.createRepair(t, i)
}
