package sim

import (
	"slices"

	"github.com/fettle-io/fettle/internal/core"
)

// change is what changes in the record of one repair, and the request that is told to stop before.
type change struct {
	index   int
	amended core.Repair
	advance *core.Advance
	stop    *core.Request
}

// changes has one for each repair that is noted or advanced.
func (p *plan) changes(u *Universe) []change {
	var changes []change
	of := func(repair int) *change {
		if i := slices.IndexFunc(changes, func(c change) bool { return c.index == repair }); i >= 0 {
			return &changes[i]
		}
		changes = append(changes, change{index: repair, amended: p.fleet.Repairs[repair]})
		return &changes[len(changes)-1]
	}
	for _, n := range p.decision.Notes {
		c := of(n.Repair)
		c.amended.Recovered, c.amended.Answer = n.Recovered, n.Answer
	}
	for i := range p.decision.Advances {
		a := &p.decision.Advances[i]
		c := of(a.Repair)
		rung := core.Rung{Ended: at(u.truth.now), Outcome: a.Outcome}
		c.amended.GiveUpStep(rung)
		if u.setup.Faults.TwoRungs && len(c.amended.Rungs) < len(c.amended.Ladder) {
			c.amended.GiveUpStep(rung)
		}
		c.advance = a
		if a.Request >= 0 && p.fleet.Requests[a.Request].Succeeded != core.Yes && !u.setup.Faults.NoStop {
			c.stop = &p.fleet.Requests[a.Request]
		}
	}
	return changes
}

// keepUp takes back what is not needed any more, and records how far repairs have come.
func (w *writer) keepUp(changes []change) {
	for _, x := range w.plan.decision.Withdrawals {
		if w.may() {
			w.withdraw(x)
		}
	}
	for i := range changes {
		c := &changes[i]
		if c.stop != nil && c.stop.ID.UID == "" {
			w.plan.engine.repeat = true // what has not been seen can't be told, and the pass fails
			continue
		}
		if c.stop != nil && w.may() {
			w.universe.truth.stop(*c.stop)
		}
		if c.advance != nil && !w.crashed && w.left != 0 && !w.overtaken(&c.amended) {
			w.universe.watchAdvance(w.plan, c)
		}
		if w.amend(&c.amended) {
			w.plan.fleet.Repairs[c.index] = c.amended
			w.plan.engine.repeat = true
		}
	}
}

func (w *writer) withdraw(x core.Withdrawal) {
	u := w.universe
	r := w.plan.fleet.Requests[x.Request]
	r.Settled = x.Settled
	if r.Remedy == Mark().Remedy {
		w.unmark(r)
		return
	}
	hit := u.truth.withdraw(r, u.setup.Faults.BlindWithdrawal)
	u.watchWithdrawal(w.plan, r, hit)
	if !u.setup.Faults.NoRequestMemory {
		w.plan.engine.remember(func(m *core.Memory) { m.Withdrawn(r, at(w.universe.truth.now)) })
	}
}
