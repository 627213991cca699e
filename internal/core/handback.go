package core

import "time"

// A remediator may give a target up, and request its replacement by a condition that owners do not
// read. Then the last step marks the target for its owner. It follows a step that creates a request:
//
//	step 0, CreateRequest ─── the remediator gives the target up ─── step 1, AskOwner ─── the owner replaces the target
//
// That step begins for no other reason, since a remediator without a limit has the time that it
// needs. The owner deletes the target, so the step passes the gates of a first step.

// byHandBack reports whether a step begins only after the remediator of the step before has given
// the target up.
func byHandBack(steps []Step, place int) bool {
	return place > 0 && place < len(steps) && steps[place].Nature.Effect().OwnerDecides && steps[place-1].Nature.Effect().CreatesRequest
}

// lastOfItself reports whether no step follows the current one, unless its remediator gives the
// target up.
func (r *Repair) lastOfItself() bool {
	next := len(r.Tried) + 1
	return next >= len(r.Steps) || byHandBack(r.Steps, next)
}

// handedBack reports whether the remediator of the current step has given its target up, after
// Fettle made the request.
func (in *input) handedBack(repair, target int, q *Request) bool {
	t, r := &in.cluster.Targets[target], &in.cluster.Repairs[repair]
	return byHandBack(r.Steps, len(r.Tried)+1) && q.Own && !q.Created.IsZero() && t.handedBackSince(q.Created)
}

// handedBackSince reports whether a remediator gave the target up at an instant or later. An
// earlier condition may stem from an earlier remediator.
func (t *Target) handedBackSince(since time.Time) bool {
	return !t.HandedBack.IsZero() && !t.HandedBack.Before(since.Truncate(time.Second))
}

// replaces reports whether a step has the target replaced although the first step of the repair
// does not, or deletes the target.
func (r *Repair) replaces(step *Step) bool {
	effect := step.Nature.Effect()
	return effect.Deletes || (effect.OwnerReplaces && len(r.Steps) > 0 && r.Steps[0].Nature.Effect().CreatesRequest)
}
