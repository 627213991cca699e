package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/fettle-io/fettle/internal/core"
)

// affirmedFor is how long a live read of the policies can justify a step.
const affirmedFor = 10 * time.Second

// What people are told of a step that is not taken, since calls before it took too long.
var (
	errNodeStale = errors.New("the node or the quorum was read too long ago for this step, since calls to the API server took long, " +
		"or this computer was suspended; it is tried again after a pause; check why the API server or its admission webhooks answer slowly")
	errPolicyStale = errors.New("reading the health checks took too long for this step; " +
		"it is tried again after a pause; check why the API server or its conversion webhooks answer slowly")
)

// justified reports whether what was read of the node and the policies is recent enough for the step. Since then calls may have
// hung, and the process or its whole computer may have been stopped. Policies that were read too long ago are read again. A step that is not
// justified after that is told as a refusal.
func (e *Engine) justified(ctx context.Context, w *world, do *deed) (bool, error) {
	if core.Passed(do.affirmed, e.Now()) >= affirmedFor {
		left, _, err := e.affirm(ctx, w, []deed{*do})
		if err != nil || len(left) == 0 {
			return false, err
		}
		do.affirmed = left[0].affirmed
	}
	target, now := &w.fleet.Targets[do.target], e.Now()
	switch {
	case do.needsFreshNode(target) && !target.Confirmed(do.step, now):
		do.refused = errNodeStale
	case core.Passed(do.affirmed, now) >= affirmedFor:
		do.refused = errPolicyStale
	default:
		return true, nil
	}
	do.answered = now
	return false, e.recordAnswer(ctx, do)
}

// affirm returns the deeds for which all policies that select the target, or another target of its body, stand as
// decided. It reports whether a deed was left out since one does not.
func (e *Engine) affirm(ctx context.Context, w *world, deeds []deed) ([]deed, bool, error) {
	at := e.Now()
	fallen, changed, err := e.fallen(ctx, w, targetsOf(deeds))
	bodies, blocked := fallen.bodies(w)
	left := slices.DeleteFunc(deeds, func(do deed) bool { return blocked[bodies[do.target]] })
	for i := range left {
		left[i].affirmed = at
	}
	return left, changed, err
}

// affirmChanges leaves out, for this pass, the changes that give up a step while a policy that selects the target does not stand
// as decided, or the clock is wrong. The next step would be held back then, and no remediator would be at work.
func (e *Engine) affirmChanges(ctx context.Context, w *world, changes []change) error {
	var targets []int
	for i := range changes {
		if a := changes[i].advance; a != nil {
			targets = append(targets, a.Target)
		}
	}
	if len(targets) == 0 {
		return nil
	}
	fallen, _, err := e.fallen(ctx, w, targets)
	agrees := e.Clock.Agrees() == core.Yes
	bodies, blocked := fallen.bodies(w)
	for i := range changes {
		if a := changes[i].advance; a != nil && (!agrees || blocked[bodies[a.Target]]) {
			changes[i].held = true
		}
	}
	return err
}

// policies are some that were decided on.
type policies []core.Policy

// bodies returns the bodies of all targets, and which of them a policy selects.
func (p policies) bodies(w *world) ([]int, map[int]bool) {
	bodies, selected := core.Bodies(w.fleet.Targets), map[int]bool{}
	for i := range p {
		for _, m := range p[i].Members {
			selected[bodies[m]] = true
		}
	}
	return bodies, selected
}

// fallen returns the policies that select one of these targets, or another target of its body, and do not stand as decided by
// what the API server itself has now. A watch that lags shows a policy that is deleted, paused or changed as it was, and a
// status that needs no write does not show it either. It reports whether any was deleted or changed.
func (e *Engine) fallen(ctx context.Context, w *world, targets []int) (policies, bool, error) {
	asked := core.Selecting(w.policies, &w.fleet, targets)
	found := make([]string, len(asked))
	errs := inParallel(ctx, len(asked), callTimeout, func(ctx context.Context, i int) error {
		p := &w.policies[asked[i]]
		fingerprint, err := w.dialectOf[p.ID].ReadPolicy(ctx, p.ID)
		if err != nil {
			return fmt.Errorf("reading whether %s still stands: %w", p.ID, err)
		}
		found[i] = fingerprint
		return nil
	})
	var fallen policies
	changed := false
	for i, index := range asked {
		p := w.policies[index]
		if found[i] != "" && found[i] == p.Fingerprint {
			continue
		}
		fallen = append(fallen, p)
		if errs[i] == nil {
			changed = true
			e.Log.Info("health check was deleted or changed after it was read; nothing begins for its targets until its watch shows that",
				"policy", p.ID.String())
		}
	}
	return fallen, changed, joined(errs)
}
