package engine

import (
	"context"
	"fmt"

	"github.com/fettle-io/fettle/internal/core"
)

// What a Repair says of itself after a remedy was called.
const (
	refusedText    = "the remedy was refused and is tried again after a pause"
	handedOverText = "the target is handed over, and whoever repairs it takes the mark away"
)

// begin takes the step of one repair: it takes the lease of the node, and calls the remedy.
func (e *Engine) begin(ctx context.Context, w *world, do *deed) error {
	if !do.admitted {
		return nil
	}
	target := w.fleet.Targets[do.target]
	if do.step == nil {
		return fmt.Errorf("repairing %s: Repair %s has no step left that can be read; delete it to have the target repaired anew", target.ID, do.repair.Name)
	}
	remedy := e.Remedies[do.step.Remedy]
	if remedy == nil {
		return fmt.Errorf("repairing %s: no remedy is called %q", target.ID, do.step.Remedy)
	}
	// Without an order there is nothing to hold the lease for, and other tools may need it.
	order, err := e.order(w, do)
	if err != nil {
		return err
	}
	if holds, err := e.takeLease(ctx, w, do); err != nil || !holds {
		return err
	}
	// Each answer tells what the clock of the API server shows, and the last was that to the record of this repair.
	if e.Clock.Agrees() != core.Yes {
		return nil
	}
	if justified, err := e.justified(ctx, w, do); err != nil || !justified {
		return err
	}
	limited, cancel := context.WithTimeout(ctx, remedyTimeout)
	answer, err := remedy.Begin(limited, order)
	cancel()
	if err != nil && cutOff(ctx) {
		return fmt.Errorf("repairing %s was cut off, and whoever leads next goes on with it: %w", target.ID, err)
	}
	do.beginning, do.refused, do.answered = answer, err, e.Now()
	return e.recordAnswer(ctx, do)
}

// order asks for the step of a repair. An owner is told all that it is asked for.
func (e *Engine) order(w *world, do *deed) (core.Order, error) {
	o := core.Order{
		Target: w.fleet.Targets[do.target], Policy: w.policies[do.policy].ID, Step: *do.step, Repair: do.repair.Name,
	}
	switch do.step.Nature {
	case core.Requests: // of the whole fleet one is looked for, which nobody else needs
		var err error
		if o.Sibling, err = e.sibling(w, do.target); err != nil {
			return core.Order{}, err
		}
	case core.Delegates:
		o.Findings = w.policies[do.policy].Criteria.FindingsBy(&do.verdict, &o.Target, w.now)
	case core.Destroys, core.HandsOver:
	}
	return o, nil
}

// sibling returns the other target with the same node, or else what Siblings knows.
func (e *Engine) sibling(w *world, target int) (core.ID, error) {
	id := core.SiblingOf(&w.fleet, target)
	if e.Siblings == nil || id != (core.ID{}) {
		return id, nil
	}
	id, known := e.Siblings(w.fleet.Targets[target])
	if !known {
		return core.ID{}, fmt.Errorf("repairing %s: the machines of this cluster are being read, and one may be an owner of the request; it is tried again", w.fleet.Targets[target].ID)
	}
	return id, nil
}

// needsFreshNode: nothing is destroyed on a cached word, no repair begins on one, and no step is taken that may cost a control
// plane its quorum, or has the target replaced by its owner. Other further steps find their targets in repair already.
func (do *deed) needsFreshNode(t *core.Target) bool {
	return do.step.Nature == core.Destroys || do.step.Nature == core.Delegates || len(do.repair.Rungs) == 0 || t.MaybeControlPlane()
}

// takeLease takes the right to take the target's node out of service, where the policy holds leases. It is
// false while somebody else has it.
func (e *Engine) takeLease(ctx context.Context, w *world, do *deed) (bool, error) {
	holder := w.policies[do.policy].Holder
	if e.Lock == nil || holder == "" {
		return true, nil
	}
	limited, cancel := context.WithTimeout(ctx, leaseTimeout)
	defer cancel()
	target := w.fleet.Targets[do.target]
	holds, err := e.Lock.Hold(limited, target, holder, do.step.HoldFor())
	switch {
	case err != nil:
		return false, fmt.Errorf("taking the lease of the node of %s: %w", target.ID, err)
	case !holds:
		do.beginning = core.Busy
	}
	return holds, nil
}

// recordAnswer records that the call of a remedy was refused, or that the target was handed over. That it
// was destroyed or a request made for it shows in the cluster itself.
func (e *Engine) recordAnswer(ctx context.Context, do *deed) error {
	switch {
	case do.refused != nil:
		do.repair.Attempts++
		do.repair.LastAttempt, do.written = do.answered, true
		if _, err := e.amend(ctx, &do.repair, refusedText, do.refused); err != nil {
			return fmt.Errorf("recording an attempt of repair %s: %w", do.repair.Name, err)
		}
	case do.beginning == core.Accepted && do.step.Nature == core.HandsOver:
		do.repair.Begun, do.written = do.answered, true
		written, err := e.amend(ctx, &do.repair, handedOverText, nil)
		if err != nil {
			return fmt.Errorf("recording that the target of repair %s is handed over: %w", do.repair.Name, err)
		}
		do.overtaken = !written
	}
	return nil
}

// remember keeps what was done until the caches show it, and says what happened. It tells whether the
// target should be looked at again soon.
func (e *Engine) remember(w *world, do *deed) ([]core.Happening, bool) {
	if !do.recorded {
		return nil, true
	}
	// An entry that is only looked at once more may be gone, and must not be believed in anew each time.
	if do.written {
		e.memory.Recorded(do.repair, w.now)
	}
	e.measureDeed(w, do)
	target := w.fleet.Targets[do.target]
	h := core.Happening{
		Policy: w.policies[do.policy].ID, Target: target.ID, Node: target.Node.Name, Text: do.verdict.Text(),
		Repair: core.RepairKey{Namespace: do.repair.Namespace, Name: do.repair.Name}, Step: len(do.repair.Rungs) + 1,
	}
	if do.step != nil {
		h.Remedy = do.step.Remedy
	}
	log := e.Log.WithValues("repair", do.repair.Name, "target", target.ID.String())
	switch {
	case do.beginning == 0 && do.refused == nil: // the call was cut off, or not made
		return nil, true
	case do.refused != nil:
		h.Kind, h.Text = core.Refused, do.refused.Error()
		log.Error(do.refused, "remedy was refused", "attempts", do.repair.Attempts)
		return []core.Happening{h}, true
	case do.beginning == core.Accepted:
		e.rememberBegun(w, do)
		h.Kind = core.Begun
		log.Info("repair begun", "policy", h.Policy.String(), "remedy", do.step.Remedy, "step", len(do.repair.Rungs))
		if do.step.Nature == core.HandsOver && target.Claimed { // somebody else had marked it already
			return nil, do.overtaken
		}
		return []core.Happening{h}, do.overtaken
	case do.beginning == core.Busy: // a watch tells when that changes
		log.Info("somebody else holds what the repair needs; it goes on when that is given back")
		return nil, false
	}
	log.Info("target changed before its repair began; looking again", "answer", do.beginning.String())
	return nil, true
}

// rememberBegun keeps what a remedy has done until it is seen.
func (e *Engine) rememberBegun(w *world, do *deed) {
	target := w.fleet.Targets[do.target].ID
	switch do.step.Nature {
	case core.Destroys:
		e.memory.Deleted(target)
	case core.Requests:
		e.memory.Requested(core.Request{
			Remedy: do.step.Remedy, Template: do.step.Template, Target: target, Policy: w.policies[do.policy].ID, Created: do.answered, Own: true,
		}, w.now)
		e.Metrics.hasAsked(&w.policies[do.policy], do.step.Remedy)
	case core.Delegates:
		// The target itself shows it, and its dialect takes in what was written.
		e.Metrics.hasAsked(&w.policies[do.policy], do.step.Remedy)
	case core.HandsOver: // the repair says so
	}
}
