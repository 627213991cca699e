package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/fettle-io/fettle/internal/contain"
	"github.com/fettle-io/fettle/internal/core"
)

// What a Repair says of itself when its target has recovered, and when it has not after all.
const (
	recoveredText = "the target is healthy again; its requests are withdrawn when that has lasted, or when somebody confirms it"
	relapsedText  = "the target is not healthy after all; its repair goes on"
)

// change is what changes in the record of one repair. A record is written in full, so one write has it all.
type change struct {
	index   int
	amended core.Repair
	text    string
	// advance is set when a step is given up, and stop when its request is to be told.
	advance *core.Advance
	stop    *core.Request
	// overtaken is set when somebody else has written the record meanwhile. The next pass goes by what that says.
	overtaken bool
	// held is set when a step is not given up in this pass after all.
	held bool
}

// changesOf gives the changes, one for each repair that has any.
func changesOf(w *world, d core.Decision) []change {
	var changes []change
	at := map[int]int{}
	of := func(repair int) *change {
		if _, known := at[repair]; !known {
			at[repair] = len(changes)
			changes = append(changes, change{index: repair, amended: w.fleet.Repairs[repair]})
		}
		return &changes[at[repair]]
	}
	for _, n := range d.Notes {
		c := of(n.Repair)
		c.text = textOf(n, &c.amended)
		c.amended.Recovered, c.amended.Answer = n.Recovered, n.Answer
	}
	for i := range d.Advances {
		a := &d.Advances[i]
		c := of(a.Repair)
		c.amended.GiveUpStep(core.Rung{Ended: w.now, Outcome: a.Outcome, Text: a.Text})
		c.advance, c.text = a, a.Text
		if a.Request >= 0 && w.fleet.Requests[a.Request].Succeeded != core.Yes {
			c.stop = &w.fleet.Requests[a.Request]
		}
	}
	return changes
}

// textOf says what is noted of a repair.
func textOf(n core.Note, before *core.Repair) string {
	switch {
	case !n.Recovered.IsZero() && before.Recovered.IsZero():
		return recoveredText
	case n.Recovered.IsZero() && !before.Recovered.IsZero():
		return relapsedText
	case n.Answer == "":
		return "whoever was asked has not said yet how it stands"
	}
	return n.Answer
}

// upkeep is what was done for repairs under way, and the error of each call.
type upkeep struct {
	changes                     []change
	unchanged, standing, unheld []error
	unreleased                  []error
	// unaffirmed is why steps are not given up whose policies could not be read.
	unaffirmed error
	// holds tells of each lease whether it is held.
	holds []bool
}

// keepUp makes the calls that repairs under way ask for: requests are withdrawn, steps given up, recoveries
// noted and leases renewed, each kind beside the others, so that none waits for another that hangs. What
// follows from them is left to settle, so this may run beside other stages of the pass.
func (e *Engine) keepUp(ctx context.Context, w *world, d core.Decision, changes []change) *upkeep {
	u := &upkeep{changes: changes, holds: make([]bool, len(d.Holds))}
	var all contain.Group
	all.Go(func() {
		u.standing = inParallel(ctx, len(d.Withdrawals), callTimeout, func(ctx context.Context, i int) error {
			return e.withdraw(ctx, w.taken(d.Withdrawals[i]))
		})
	})
	all.Go(func() {
		u.unaffirmed = e.affirmChanges(ctx, w, changes)
		u.unchanged = inParallel(ctx, len(changes), changeTimeout, func(ctx context.Context, i int) error {
			return e.writeChange(ctx, w, &changes[i])
		})
	})
	if e.Lock != nil {
		all.Go(func() {
			u.unheld = inParallel(ctx, len(d.Holds), leaseTimeout, func(ctx context.Context, i int) (err error) {
				h := d.Holds[i]
				if u.holds[i], err = e.Lock.Hold(ctx, w.fleet.Targets[h.Target], h.Holder, h.For); err != nil {
					return fmt.Errorf("renewing the lease of the node of %s: %w", w.fleet.Targets[h.Target].ID, err)
				}
				return nil
			})
		})
		all.Go(func() { u.unreleased = e.releaseIdle(ctx, d.Releases) })
	}
	all.Wait()
	return u
}

// overtaken reports whether another writer has changed a record that was to change, or a step was not given up after all.
func (u *upkeep) overtaken() bool {
	return slices.ContainsFunc(u.changes, func(c change) bool { return c.overtaken || (c.held && u.unaffirmed == nil) })
}

// releaseIdle gives back what was left behind. Unlike after a repair of its own, which releases once, it is tried
// again until it is done.
func (e *Engine) releaseIdle(ctx context.Context, idle []core.NodeLease) []error {
	return inParallel(ctx, len(idle), leaseTimeout, func(ctx context.Context, i int) error {
		l := idle[i]
		if err := e.Lock.Release(ctx, l.Node, l.Holder); err != nil {
			return fmt.Errorf("giving back what was left behind: %w", err)
		}
		e.Log.Info("the lease of a node was left behind, and is given back", "node", l.Node, "holder", l.Holder)
		return nil
	})
}

// petitioner is the remedy that has made a request.
func (e *Engine) petitioner(r core.Request) (Petitioner, error) {
	if p, withdraws := e.Remedies[r.Remedy].(Petitioner); withdraws {
		return p, nil
	}
	return nil, fmt.Errorf("no remedy is called %q that could take it back", r.Remedy)
}

// taken is a request as it is taken back.
func (w *world) taken(back core.Withdrawal) core.Request {
	r := w.fleet.Requests[back.Request]
	r.Settled = back.Settled
	return r
}

func (e *Engine) withdraw(ctx context.Context, r core.Request) error {
	p, err := e.petitioner(r)
	if err == nil {
		err = p.Withdraw(ctx, r)
	}
	if err != nil {
		return fmt.Errorf("withdrawing %s: %w", r.ID, err)
	}
	return nil
}

// writeChange tells the remediator first that its time is over. If that is all that is done before a crash,
// the step is given up by whoever leads next, who tells it once more.
func (e *Engine) writeChange(ctx context.Context, w *world, c *change) error {
	if c.held {
		return nil
	}
	if c.stop != nil {
		if err := e.stop(ctx, *c.stop, w.now); err != nil {
			return err
		}
	}
	written, err := e.amend(ctx, &c.amended, c.text, nil)
	if err != nil {
		return fmt.Errorf("recording how far repair %s has come: %w", c.amended.Name, err)
	}
	c.overtaken = !written
	return nil
}

// amend writes how far a repair has come. It is false when somebody else has written that since it was read: what was
// decided on it may be done already.
func (e *Engine) amend(ctx context.Context, r *core.Repair, text string, refused error) (bool, error) {
	amended, written, err := e.Ledger.Amend(ctx, *r, text, refused)
	switch {
	case err != nil:
		return false, err // the caller says what was recorded
	case !written:
		e.Log.Info("somebody else has written the record of a repair; looking again", "repair", r.Name, "target", r.Target.String())
		return false, nil
	}
	*r = amended
	return true, nil
}

func (e *Engine) stop(ctx context.Context, r core.Request, at time.Time) error {
	limited, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	p, err := e.petitioner(r)
	if err == nil {
		err = p.Stop(limited, r, at)
	}
	if err != nil {
		return fmt.Errorf("telling %s that its time is over: %w", r.ID, err)
	}
	return nil
}

// settle remembers what the upkeep has done and tells people. It says whether a record has changed, so that
// the fleet is to be looked at anew.
func (e *Engine) settle(w *world, d core.Decision, u *upkeep) (bool, error) {
	changed := false
	var happenings []core.Happening
	for i := range u.changes {
		c := &u.changes[i]
		if u.unchanged[i] != nil || c.overtaken || c.held {
			continue
		}
		changed = true
		w.fleet.Repairs[c.index] = c.amended
		e.memory.Recorded(c.amended, w.now)
		if c.advance != nil {
			e.Metrics.hasGivenUp(w.policies, c.amended)
			happenings = append(happenings, w.escalated(c))
		}
	}
	relieved := map[relief]bool{}
	for i, withdrawal := range d.Withdrawals {
		if u.standing[i] != nil {
			continue
		}
		r := w.taken(withdrawal)
		e.memory.Withdrawn(r, w.now)
		changed = true              // the repair ends as soon as that shows
		if withdrawal.Policy >= 0 { // one that is gone has no series any more
			e.Metrics.hasWithdrawn(&w.policies[withdrawal.Policy], r.Remedy)
		}
		h := w.relieved(withdrawal)
		if key := (relief{h.Policy, h.Target, h.Text}); !relieved[key] {
			relieved[key] = true
			happenings = append(happenings, h)
		}
	}
	e.vouched = append(e.vouched, w.usedUp(d, u)...)
	e.announce(w, happenings)
	e.tellLost(w, d, u)
	return changed, errors.Join(u.unaffirmed, joined(u.unchanged), joined(u.standing), joined(u.unheld), joined(u.unreleased))
}

// relief is what people are told once, however many steps of a repair had asked for a target at that time.
type relief struct {
	policy, target core.ID
	text           string
}

func (w *world) escalated(c *change) core.Happening {
	h := core.Happening{
		Kind: core.Escalated, Policy: c.amended.Policy, Target: c.amended.Target, Node: c.amended.Node, Text: c.advance.Text + afterStep(&c.amended),
		Repair: core.RepairKey{Namespace: c.amended.Namespace, Name: c.amended.Name}, Step: len(c.amended.Rungs),
	}
	if t := c.advance.Target; t >= 0 {
		h.Node = w.fleet.Targets[t].Node.Name
	}
	return h
}

// relieved tells of a request that is withdrawn. The policy that asked may be gone, and the target too.
func (w *world) relieved(of core.Withdrawal) core.Happening {
	r := &w.fleet.Requests[of.Request]
	h := core.Happening{Kind: core.Relieved, Policy: r.Policy, Target: r.Target, Text: of.Text}
	if of.Policy >= 0 {
		h.Policy = w.policies[of.Policy].ID
	}
	if of.Target >= 0 {
		h.Target, h.Node = w.fleet.Targets[of.Target].ID, w.fleet.Targets[of.Target].Node.Name
	}
	return h
}

// leaseKey names the lease of a target's node in the hands of a holder.
type leaseKey struct{ target, holder string }

// tellLost logs the leases that somebody else has taken, each once. The repairs go on: what a remediator was
// asked for is under way, whoever has the lease.
func (e *Engine) tellLost(w *world, d core.Decision, u *upkeep) {
	lost := map[leaseKey]bool{}
	for i, h := range d.Holds {
		target := w.fleet.Targets[h.Target].ID
		key := leaseKey{target.UID, h.Holder}
		switch {
		case u.unheld == nil || u.holds[i]:
		case u.unheld[i] != nil: // nothing is known
			lost[key] = e.lost[key]
		default:
			if lost[key] = true; !e.lost[key] {
				e.Log.Info("somebody else has taken the lease of a node under repair", "target", target.String(), "holder", h.Holder)
			}
		}
	}
	e.lost = lost
}
