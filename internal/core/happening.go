package core

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
	// Text says in a sentence what happened and why.
	Text string
}

// HappeningKind tells the happenings apart.
type HappeningKind int

// The happenings.
const (
	// Suspected: a target matches a criterion whose duration is not over; or it is over, and the policy has that told too.
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
	}
	return "unnamed"
}
