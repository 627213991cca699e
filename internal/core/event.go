package core

import (
	"cmp"
	"strings"
)

// Event is news for users. It is emitted once, when a state begins or an action happens.
type Event struct {
	Kind   EventKind
	Policy ID
	// Target is the zero ID for an event about a whole policy, or about several Targets.
	Target ID
	Node   string
	// Targets are set instead of Target for an event about several of them. Text is about the first
	// then.
	Targets []ID
	// Gate is set for EventHeldBack.
	Gate Gate
	// Remedy names the remedy for EventStarted, EventRefused and EventDryRun.
	Remedy string
	// Repair is the repair of the event, or else the last repair of its target. The zero RepairKey
	// means that there is none.
	Repair RepairKey
	// Step is the number of the repair's step, counted from 1, and 0 for an event about no step.
	Step int
	// Text is a sentence about what happened and why.
	Text string
}

// RepairKey is the key of a repair in the ledger.
type RepairKey struct{ Namespace, Name string }

func (r *Repair) key() RepairKey { return RepairKey{Namespace: r.Namespace, Name: r.Name} }

// RelateRepairs sets the repair of each event that has none. It is the last repair of its target,
// or of the first of several targets.
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
			h.Repair = r.key()
		}
	}
}

// subject returns the target of an event, or the first of several. It is the zero ID for an event
// about a whole policy.
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

// EventKind is the kind of an event.
type EventKind int

// The kinds of events.
const (
	// EventSuspected: a target meets a criterion whose duration is not over. Booting is no such
	// criterion. With Policy.EmitsUnhealthyEvents the duration may also be over.
	EventSuspected EventKind = iota + 1
	// EventUnreadable: a target has facts that can't be read, so it is not judged.
	EventUnreadable
	// EventShortCircuited: the short circuit of a policy stops repairs.
	EventShortCircuited
	// EventMisconfigured: a policy has a problem.
	EventMisconfigured
	// EventHeldBack: a gate holds back one target.
	EventHeldBack
	// EventStarted: a repair or a further step has begun.
	EventStarted
	// EventRefused: the API server refused the call of a remedy.
	EventRefused
	// EventDryRun: a dry run would have started a repair.
	EventDryRun
	// EventEscalated: a step of a repair was given up. The next step follows if there is one.
	EventEscalated
	// EventWithdrawn: a remediation request was withdrawn.
	EventWithdrawn
	// EventStuck: a request that was withdrawn long ago still exists.
	EventStuck
)

// String returns the name of the kind.
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
		return "dry run"
	case EventEscalated:
		return "escalated"
	case EventWithdrawn:
		return "relieved"
	case EventStuck:
		return "lingering"
	}
	return "unnamed"
}
