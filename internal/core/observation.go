package core

import "time"

// Observation is what one source of policies and targets sees of a cluster.
type Observation struct {
	// Kind is the kind of its targets. Repairs of targets of a kind that no source observes are left
	// alone.
	Kind string
	// Observed is Yes when all fields below are in sync with the cluster. It is No when the cluster does not
	// serve the API, so that there is nothing to observe. While one source's is Unknown, nothing is decided.
	Observed Tri
	Policies []Policy
	// Targets are what the members of the policies index.
	Targets []Target
	// Requests are marks, which targets themselves carry.
	Requests []Request
	// Upgrading and UpgradingWhy are as in Cluster, where the source sees that. Elsewhere they are not known, and no words.
	Upgrading    Tri
	UpgradingWhy string
}

// PolicyReport is what was found for one policy.
type PolicyReport struct {
	Policy Policy
	Tally  Tally
	// Clock is the gate that holds back all repairs since Fettle's clock is wrong, or may be; 0 when it does not.
	Clock Gate
	// Concerns are some of the members that are not healthy, those first that need a repair.
	Concerns []Concern
	// GivenUp is what the policy has given up: owners of pools, and targets that fail again themselves.
	GivenUp []ID
	// Members are the members that are unhealthy, under repair, or have requests, for policies that make
	// requests to remediators; in the order of their names.
	Members []MemberReport
	// Deferred is set when its status is to be written in a later pass.
	Deferred bool
}

// MemberReport is one member of a policy that is unhealthy, under repair, or has requests standing.
type MemberReport struct {
	Target ID
	Health Health
	// Repair is the one under way, nil when there is none.
	Repair *Repair
	// Lead is the policy that leads it.
	Lead ID
	// Requests are the policy's own, the oldest first.
	Requests []Request
	// HealthySince is when a recovering target's conditions stopped matching any criterion.
	HealthySince time.Time
	// Delayed is set while the request of a recovered target stands only for the policy's HealthyDelay.
	Delayed bool
	// StableAt is until when the request of a recovered target stands since a condition has just turned; zero when none has.
	StableAt time.Time
}

// Concern is one member of a policy that is not healthy. Text says how it stands, without its name,
// in the same words as long as that lasts.
type Concern struct {
	Target ID
	Text   string
}

// RemedyCall is the call of a remedy that takes a step.
type RemedyCall struct {
	Target Target
	Policy ID
	Step   Step
	// Repair names the entry of the ledger.
	Repair string
	// Sibling is the other target with the same node, such as a node's machine. It is the zero ID when there is none,
	// and for steps that make no request to a remediator.
	Sibling ID
	// Findings are all that makes the target unhealthy, for steps in which the owner decides.
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
	// Requested is when a user requested the repair; zero when none did.
	Requested time.Time
}

// RemedyResult is how a remedy answered.
type RemedyResult int

// The answers of a remedy. A call that failed returns an error instead.
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

// String names the answer.
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
