package core

import "time"

// A remediator may give a target up, and ask the target's owner to replace it by a condition that owners do not read. The owner
// is then asked by the last step of the ladder, which delegates and follows a step that requests:
//
//	step 0, CreateRequest ─── the remediator gives the target up ─── step 1, AskOwner ─── the owner replaces the target
//
// That step is taken for no other reason, since a remediator without a limit has the time that it needs. The owner deletes the
// target, so the step passes the gates of a first step.

// byHandBack reports whether the step at a place in a ladder is taken only after the remediator of the step before has given the
// target up.
func byHandBack(steps []Step, place int) bool {
	return place > 0 && place < len(steps) && steps[place].Nature.Effect().OwnerDecides && steps[place-1].Nature.Effect().CreatesRequest
}

// lastOfItself reports whether no step follows the one under way, unless its remediator gives the target up.
func (r *Repair) lastOfItself() bool {
	next := len(r.Tried) + 1
	return next >= len(r.Steps) || byHandBack(r.Steps, next)
}

// handedBack reports whether the remediator of the step under way has given its target up, after Fettle asked it.
func (d *planner) handedBack(repair, target int, q *Request) bool {
	t, r := &d.cluster.Targets[target], &d.cluster.Repairs[repair]
	return byHandBack(r.Steps, len(r.Tried)+1) && q.Own && !q.Created.IsZero() && t.handedBackSince(q.Created)
}

// handedBackSince reports whether a remediator gave the target up, and not before an instant. The condition by which it does
// that may have been left by an earlier one.
func (t *Target) handedBackSince(since time.Time) bool {
	return !t.HandedBack.IsZero() && !t.HandedBack.Before(since.Truncate(time.Second))
}

// replaces reports whether a step of a repair has the target replaced, and is not the first by which it was to be.
func (r *Repair) replaces(step *Step) bool {
	effect := step.Nature.Effect()
	return effect.Deletes || (effect.OwnerReplaces && len(r.Steps) > 0 && r.Steps[0].Nature.Effect().CreatesRequest)
}
