package core

import "time"

// Observation is what one dialect sees of a cluster.
type Observation struct {
	// Kind is the kind of its targets. Repairs of targets of a kind that no source observes are left
	// alone.
	Kind string
	// Observed is Yes when everything below is in sync with the cluster. It is No when the cluster does not serve the
	// API, so that there is nothing to observe. While one dialect's is Unknown, nothing is decided.
	Observed Tri
	Policies []Policy
	// Targets has the targets. Members of policies are indices in it.
	Targets []Target
	// Requests are marks, which targets themselves carry.
	Requests []Request
	// Upgrading and UpgradingWhy are as in Cluster, where the dialect sees upgrades, and else Unknown and empty.
	Upgrading    Tri
	UpgradingWhy string
}

// PolicyReport is the report on one policy.
type PolicyReport struct {
	Policy Policy
	Tally  Tally
	// Clock is the gate that holds back all repairs since Fettle's clock is wrong, or may be; 0 when it does not.
	Clock Gate
	// Concerns has some of the members that are not healthy. Members that need a repair come first.
	Concerns []Concern
	// GivenUp has what the policy has given up: owners of pools, and targets that fail again themselves.
	GivenUp []ID
	// Members has the members that are unhealthy, under repair, or have requests, for policies that create requests.
	// They are ordered by name.
	Members []MemberReport
	// Deferred is set when its status is to be written in a later pass.
	Deferred bool
}

// MemberReport is one member of a policy that is unhealthy, under repair, or has requests.
type MemberReport struct {
	Target ID
	Health Health
	// Repair is the running repair, nil when there is none.
	Repair *Repair
	// Lead is the policy that leads it.
	Lead ID
	// Requests are the policy's own, the oldest first.
	Requests []Request
	// HealthySince is when a recovering target's conditions stopped matching any criterion.
	HealthySince time.Time
	// Delayed is set while the request of a recovered target stands only for the policy's HealthyDelay.
	Delayed bool
	// SettlesAt is until when the request of a recovered target stands since a condition has just turned; zero when none has.
	SettlesAt time.Time
}

// Concern is one member of a policy that is not healthy. Text says why, without its name, and stays the same while that
// lasts.
type Concern struct {
	Target ID
	Text   string
}

// RemedyCall is the call of a remedy for one step.
type RemedyCall struct {
	Target Target
	Policy ID
	Step   Step
	// Repair is the name of the repair.
	Repair string
	// Sibling is the other target with the same node, such as a node's machine. It is the zero ID when there is none,
	// and for steps that create no request.
	Sibling ID
	// Findings has all that makes the target unhealthy, for steps that ask its owner.
	Findings []Verdict
}

// NewRepair is a repair to be recorded.
type NewRepair struct {
	Name    string
	Target  Target
	Policy  Policy
	Verdict Verdict
	Steps   []Step
	Retry   int
	Started time.Time
	// Requested is when a user asked for the repair; zero when none did.
	Requested time.Time
}

// RemedyResult is the answer of a remedy.
type RemedyResult int

// The answers of a remedy. What failed is an error instead.
const (
	// Accepted: the repair has begun.
	Accepted RemedyResult = iota + 1
	// Vanished: the target is not there any more.
	Vanished
	// Stale: the target has changed since it was judged. It must be judged again.
	Stale
	// Busy: another holder has what the repair needs.
	Busy
)

// String returns the name of the answer.
func (b RemedyResult) String() string {
	switch b {
	case Accepted:
		return "accepted"
	case Vanished:
		return "vanished"
	case Stale:
		return "stale"
	case Busy:
		return "busy"
	}
	return "failed"
}
