package engine

import (
	"context"
	"fmt"
	"slices"

	"github.com/fettle-io/fettle/internal/core"
)

// ending is a repair that ends, or only what was left to do of one that has.
type ending struct {
	// finish is nil for the latter.
	finish *core.Finish
	repair core.Repair
	// node and holder are set where there may be a lease to release.
	node, holder string
	// confirmer is set where a person's word about the target is to be taken back.
	confirmer Confirmer
	target    core.Target

	recorded bool
}

// finish closes the repairs that have come to their end, and gives back what they held.
func (e *Engine) finish(ctx context.Context, w *world, d core.Decision) error {
	endings := e.endings(w, d)
	errs := inParallel(ctx, len(endings), finishTimeout, func(ctx context.Context, i int) error {
		return e.end(ctx, &endings[i])
	})
	e.vouched = nil
	for i := range endings {
		end := &endings[i]
		if end.confirmer != nil && errs[i] != nil && (end.recorded || end.finish == nil) {
			e.vouched = append(e.vouched, end.target.ID)
		}
		if end.recorded {
			e.memory.Recorded(end.repair, w.now)
			e.Metrics.hasEnded(w.policies, end.repair)
			e.Log.Info("repair ended", "repair", end.repair.Name, "target", end.repair.Target.String(), "outcome", end.repair.Outcome.String())
		}
	}
	return joined(errs)
}

// end records an end first. Whatever else fails then is no reason to keep the repair from ending. Nothing is given back
// where somebody else has written the record meanwhile.
func (e *Engine) end(ctx context.Context, end *ending) error {
	if end.finish != nil {
		limited, cancel := context.WithTimeout(ctx, callTimeout)
		defer cancel()
		written, err := e.amend(limited, &end.repair, end.finish.Text, nil)
		if err != nil {
			return fmt.Errorf("recording the end of repair %s: %w", end.repair.Name, err)
		}
		if !written {
			return nil
		}
		end.recorded = true
	}
	e.release(ctx, end)
	if end.confirmer == nil {
		return nil
	}
	limited, cancel := context.WithTimeout(ctx, leaseTimeout)
	defer cancel()
	if err := end.confirmer.Unvouch(limited, end.target); err != nil {
		return fmt.Errorf("taking back the confirmation that %s is healthy: %w", end.target.ID, err)
	}
	return nil
}

// release gives back the lease of the node. It is not tried again here: by then another repair may hold it under
// the same name. If none does, it is given back as one that was left behind.
func (e *Engine) release(ctx context.Context, end *ending) {
	if e.Lock == nil || end.holder == "" || end.node == "" {
		return
	}
	limited, cancel := context.WithTimeout(ctx, leaseTimeout)
	defer cancel()
	if err := e.Lock.Release(limited, end.node, end.holder); err != nil {
		e.Log.Error(err, "the lease of a node could not be released; it is tried again later", "node", end.node, "holder", end.holder)
	}
}

// endings gives the repairs that end now, and what is left of earlier ones.
func (e *Engine) endings(w *world, d core.Decision) []ending {
	if len(d.Finishes)+len(e.vouched) == 0 {
		return nil
	}
	targetOf := make(map[core.ID]int, len(w.fleet.Targets))
	for i := range w.fleet.Targets {
		targetOf[w.fleet.Targets[i].ID] = i
	}
	busy := w.stillRepaired(d)
	// A clock that is wrong holds back no end, and back-off reads the end when the clock is right again.
	ended := e.Clock.Corrected(e.Now())
	var endings []ending
	for i := range d.Finishes {
		f := &d.Finishes[i]
		end := ending{finish: f, repair: w.fleet.Repairs[f.Repair]}
		end.repair.Ended, end.repair.Outcome = ended, f.Outcome
		if !f.HandsOff {
			end.node, end.holder = end.repair.Node, end.repair.Holder
			if t, there := targetOf[end.repair.Target]; there {
				end.about(w, t)
			} else if busy[end.node] { // a namesake's repair may hold the lease, under the same name
				end.node = ""
			}
		}
		endings = append(endings, end)
	}
	for _, id := range e.vouched {
		if t, there := targetOf[id]; there {
			if end := (&ending{}).about(w, t); end.confirmer != nil {
				endings = append(endings, *end)
			}
		}
	}
	return endings
}

// stillRepaired are the nodes of repairs that run after this pass.
func (w *world) stillRepaired(d core.Decision) map[string]bool {
	ends := make(map[int]bool, len(d.Finishes))
	for i := range d.Finishes {
		ends[d.Finishes[i].Repair] = true
	}
	busy := map[string]bool{}
	for i := range w.fleet.Repairs {
		if r := &w.fleet.Repairs[i]; r.Running() && !ends[i] {
			busy[r.Node] = true
		}
	}
	for i := range d.Starts {
		busy[w.fleet.Targets[d.Starts[i].Target].Node.Name] = true
	}
	return busy
}

// usedUp are the targets that a person has vouched for and of whom nothing is asked any more. A repair
// that runs takes that word back at its end.
func (w *world) usedUp(d core.Decision, u *upkeep) []core.ID {
	waits := map[core.ID]bool{}
	for i := range w.fleet.Repairs {
		if r := &w.fleet.Repairs[i]; r.Running() {
			waits[r.Target] = true
		}
	}
	var settled []core.ID
	for i, x := range d.Withdrawals {
		if !x.Settled || x.Target < 0 || !w.fleet.Targets[x.Target].Vouched {
			continue
		}
		id := w.fleet.Targets[x.Target].ID
		waits[id] = waits[id] || u.standing[i] != nil
		settled = append(settled, id)
	}
	slices.SortFunc(settled, core.ID.Compare)
	return slices.DeleteFunc(slices.Compact(settled), func(id core.ID) bool { return waits[id] })
}

// about takes in the target as it is now.
func (end *ending) about(w *world, target int) *ending {
	end.target = w.fleet.Targets[target]
	if name := end.target.Node.Name; name != "" {
		end.node = name
	}
	if c, confirms := w.targetsFrom[target].(Confirmer); confirms && end.target.Vouched {
		end.confirmer = c
	}
	return end
}
