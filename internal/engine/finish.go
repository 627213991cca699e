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
			e.vouched = append(e.vouched, end.target.ID.UID)
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
	targetOf := make(map[string]int, len(w.fleet.Targets))
	for i := range w.fleet.Targets {
		targetOf[w.fleet.Targets[i].ID.UID] = i
	}
	var endings []ending
	for i := range d.Finishes {
		f := &d.Finishes[i]
		end := ending{finish: f, repair: w.fleet.Repairs[f.Repair]}
		end.repair.Ended, end.repair.Outcome = w.now, f.Outcome
		if !f.HandsOff {
			end.node, end.holder = end.repair.Node, end.repair.Holder
			if t, there := targetOf[end.repair.Target.UID]; there {
				end.about(w, t)
			}
		}
		endings = append(endings, end)
	}
	for _, uid := range e.vouched {
		if t, there := targetOf[uid]; there {
			if end := (&ending{}).about(w, t); end.confirmer != nil {
				endings = append(endings, *end)
			}
		}
	}
	return endings
}

// usedUp are the targets, by their UIDs, that a person has vouched for and of whom nothing is asked any more. A repair
// that runs takes that word back at its end.
func (w *world) usedUp(d core.Decision, u *upkeep) []string {
	waits := map[string]bool{}
	for i := range w.fleet.Repairs {
		if r := &w.fleet.Repairs[i]; r.Running() {
			waits[r.Target.UID] = true
		}
	}
	var settled []string
	for i, x := range d.Withdrawals {
		if !x.Settled || x.Target < 0 || !w.fleet.Targets[x.Target].Vouched {
			continue
		}
		uid := w.fleet.Targets[x.Target].ID.UID
		waits[uid] = waits[uid] || u.standing[i] != nil
		settled = append(settled, uid)
	}
	slices.Sort(settled)
	return slices.DeleteFunc(slices.Compact(settled), func(uid string) bool { return waits[uid] })
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
