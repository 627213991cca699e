package core

import "time"

// Observation is what one source of policies and targets sees of a fleet.
type Observation struct {
	// Kind is the kind of its targets. Repairs of targets of a kind that nobody observes are
	// left alone.
	Kind string
	// Observed is Yes when everything below is in step with the cluster.
	Observed Tri
	Policies []Policy
	// Targets are what the members of the policies index.
	Targets []Target
}

// PolicyReport is what was found for one policy.
type PolicyReport struct {
	Policy Policy
	Tally  Tally
	// Concerns are some of the members that are not healthy, those first that need a repair.
	Concerns []Concern
}

// Concern is one member of a policy that is not healthy. Text says how it stands, without its name,
// in the same words as long as that lasts.
type Concern struct {
	Target ID
	Text   string
}

// Entry is a repair to be recorded.
type Entry struct {
	Name    string
	Target  Target
	Policy  Policy
	Verdict Verdict
	Retry   int
	Started time.Time
}

// Beginning is how a remedy answered.
type Beginning int

// The answers of a remedy. What failed is an error instead.
const (
	// Accepted: the repair has begun.
	Accepted Beginning = iota + 1
	// Vanished: the target is not there any more.
	Vanished
	// Stale: the target has changed since it was judged. It must be judged again.
	Stale
)

// String names the answer.
func (b Beginning) String() string {
	switch b {
	case Accepted:
		return "accepted"
	case Vanished:
		return "vanished"
	case Stale:
		return "stale"
	}
	return "failed"
}
