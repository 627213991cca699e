package core

import (
	"cmp"
	"strings"
)

// Event is something that a person may want to know, told once when it begins.
type Event struct {
	Kind   EventKind
	Policy ID
	// Target is the zero ID for what happens to a policy as a whole, or to several Targets.
	Target ID
	Node   string
	// Targets are set instead of Target when as many are told together; Text is then about the first.
	Targets []ID
	// Gate is set for EventHeldBack.
	Gate Gate
	// Remedy names the remedy that was called, or would be, for EventStarted, EventRefused and EventDryRun.
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

// RelateRepairs sets the repair of each happening that has none: the last one of its target, or of the first of several.
func RelateRepairs(events []Event, repairs []Repair) {
	var last map[string]*Repair
	for i := range events {
		h := &events[i]
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
func (h *Event) subject() ID {
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

// EventKind tells the happenings apart.
type EventKind int

// The happenings.
const (
	// EventSuspected: a target matches a criterion whose duration is not over, other than that it has not booted yet; or the
	// duration is over, and the policy has that told too.
	EventSuspected EventKind = iota + 1
	// EventUnreadable: a target has facts that can't be read, so that it is not judged.
	EventUnreadable
	// EventShortCircuited: a policy's short circuit holds.
	EventShortCircuited
	// EventMisconfigured: a policy can't be followed.
	EventMisconfigured
	// EventHeldBack: a gate holds back a target for a reason of its own.
	EventHeldBack
	// EventStarted: a repair has begun.
	EventStarted
	// EventRefused: the call of a remedy was refused by the API server.
	EventRefused
	// EventDryRun: a dry run would have started a repair.
	EventDryRun
	// EventEscalated: a step of a repair was given up, and the next one is taken if there is one.
	EventEscalated
	// EventWithdrawn: a remediator was relieved, since its request was withdrawn.
	EventWithdrawn
	// EventStuck: a request that was withdrawn long ago is still there.
	EventStuck
)

// String names the happening.
func (k EventKind) String() string {
	switch k {
	case EventSuspected:
		return "suspected"
	case EventUnreadable:
		return "unreadable"
	case EventShortCircuited:
		return "restricted"
	case EventMisconfigured:
		return "misconfigured"
	case EventHeldBack:
		return "held"
	case EventStarted:
		return "begun"
	case EventRefused:
		return "refused"
	case EventDryRun:
		return "rehearsed"
	case EventEscalated:
		return "escalated"
	case EventWithdrawn:
		return "relieved"
	case EventStuck:
		return "lingering"
	}
	return "unnamed"
}
