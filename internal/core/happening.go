package core

import (
	"cmp"
	"strings"
)

// Happening is something that a person may want to know, told once when it begins.
type Happening struct {
	Kind   HappeningKind
	Policy ID
	// Target is the zero ID for what happens to a policy as a whole, or to several Targets.
	Target ID
	Node   string
	// Targets are set instead of Target when as many are told together; Text is then about the first.
	Targets []ID
	// Gate is set for Held.
	Gate Gate
	// Remedy names the remedy that was called, or would be, for Begun, Refused and Rehearsed.
	Remedy string
	// Repair is the repair that it is about, or else the last repair of its target. The zero RepairKey means that there is none.
	Repair RepairKey
	// Step is the number of the step of the repair that it is about, counted from 1. It is 0 for what is about no step.
	Step int
	// Text says in a sentence what happened and why.
	Text string
}

// RepairKey names a repair.
type RepairKey struct{ Namespace, Name string }

// Relate sets the repair of each happening that has none: the last one of its target, or of the first of several.
func Relate(happenings []Happening, repairs []Repair) {
	var last map[string]*Repair
	for i := range happenings {
		h := &happenings[i]
		if h.Repair != (RepairKey{}) {
			continue
		}
		if last == nil {
			last = lastOf(repairs)
		}
		if r := last[h.subject().UID]; r != nil {
			h.Repair = RepairKey{Namespace: r.Namespace, Name: r.Name}
		}
	}
}

// subject is the target of a happening, or the first of several. It is the zero ID for a policy as a whole.
func (h *Happening) subject() ID {
	if len(h.Targets) > 0 {
		return h.Targets[0]
	}
	return h.Target
}

// lastOf returns the repair of each target that started last, by the UID of the target.
func lastOf(repairs []Repair) map[string]*Repair {
	last := make(map[string]*Repair, len(repairs))
	for i := range repairs {
		r := &repairs[i]
		if before := last[r.Target.UID]; r.Target.UID != "" && (before == nil || r.startedAfter(before)) {
			last[r.Target.UID] = r
		}
	}
	return last
}

func (r *Repair) startedAfter(other *Repair) bool {
	return cmp.Or(r.Started.Compare(other.Started), cmp.Compare(r.Sequence, other.Sequence), strings.Compare(r.Name, other.Name)) > 0
}

// HappeningKind tells the happenings apart.
type HappeningKind int

// The happenings.
const (
	// Suspected: a target matches a criterion whose duration is not over, other than that it has not booted yet; or the
	// duration is over, and the policy has that told too.
	Suspected HappeningKind = iota + 1
	// Unreadable: a target has facts that can't be read, so that it is not judged.
	Unreadable
	// Restricted: a policy's short circuit holds.
	Restricted
	// Misconfigured: a policy can't be followed.
	Misconfigured
	// Held: a gate holds back a target for a reason of its own.
	Held
	// Begun: a repair has begun.
	Begun
	// Refused: the call of a remedy was refused by the API server.
	Refused
	// Rehearsed: a dry run would have started a repair.
	Rehearsed
	// Escalated: a step of a repair was given up, and the next one is taken if there is one.
	Escalated
	// Relieved: a remediator was relieved, since its request was withdrawn.
	Relieved
	// Lingering: a request that was withdrawn long ago is still there.
	Lingering
)

// String names the happening.
func (k HappeningKind) String() string {
	switch k {
	case Suspected:
		return "suspected"
	case Unreadable:
		return "unreadable"
	case Restricted:
		return "restricted"
	case Misconfigured:
		return "misconfigured"
	case Held:
		return "held"
	case Begun:
		return "begun"
	case Refused:
		return "refused"
	case Rehearsed:
		return "rehearsed"
	case Escalated:
		return "escalated"
	case Relieved:
		return "relieved"
	case Lingering:
		return "lingering"
	}
	return "unnamed"
}
