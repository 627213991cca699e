package core

import "time"

// Decision is what follows from the facts. Indices refer to the policies and the fleet that it was
// made from.
type Decision struct {
	// Verdicts has one for each policy and each of its members.
	Verdicts []Verdict
	// Tallies has one for each policy, in their order.
	Tallies []Tally
	// Starts are the repairs to record and then to begin, the oldest unhealthy target first.
	Starts []Start
	// DryRunStarts are what dry-run policies would start.
	DryRunStarts []Start
	// StepStarts are running repairs whose remedy is to be called, or called again.
	StepStarts []StepStart
	// Finishes are running repairs that have come to their end.
	Finishes []Finish
	// Escalations are steps that are given up, so that the next is taken.
	Escalations []Escalation
	// Withdrawals are requests that nothing asks for any more.
	Withdrawals []Withdrawal
	// Stuck are requests that were withdrawn long ago and are still there.
	Stuck []Stuck
	// Notes are running repairs whose target has just recovered, or no longer is, or about which there is an answer.
	Notes []Note
	// LeaseHolds are leases to be taken or renewed for repairs under way.
	LeaseHolds []LeaseHold
	// LeaseReleases are leases to be given back that no repair accounts for, in the order of their nodes.
	LeaseReleases []NodeLease
	// Refusals say which gate holds back which unhealthy target.
	Refusals []Refusal
	// Confirm are targets whose node must be read live before anything can happen to them, and QuorumReads those of
	// them for which the quorum of the control plane is to be known.
	Confirm, QuorumReads []int
	// RepairRequests are the requests of people for repairs of targets, in the order of these.
	RepairRequests []RepairRequestStatus
	// YoungestHealthy has, for each owner with repairs, its youngest target that is well; none where there is none.
	YoungestHealthy map[ID]HealthyTarget
	// NextAt is when time alone will change the decision; zero for never.
	NextAt time.Time
}

// Tally is how a policy's members stand against its limits.
type Tally struct {
	// Total are the members. Behind are targets that are gone, whose repairs go on and whose replacements have not come:
	// they count against the limits too. Waits says in a sentence which repairs go on without their targets.
	Total, Healthy, AwaitingReplacement int
	Waits                               string
	// Failed are found unhealthy. Members may be neither.
	Failed int
	// MaxUnhealthy is the number of unhealthy members up to which repairs go on.
	MaxUnhealthy int
	// Permitted tells whether the short circuit lets repairs start.
	Permitted bool
	// Cooldown is to be remembered while the cooldown after a short circuit lasts, until ResumeAt.
	Cooldown CooldownState
	ResumeAt time.Time
	// CoolingDown tells whether that cooldown holds repairs back.
	CoolingDown bool
	// InFlight members are under repair, out of MaxInFlight.
	InFlight, MaxInFlight int
}

// Counted is what shares are taken of: the members, and the targets that are gone and not replaced yet.
func (t Tally) Counted() int { return t.Total + t.AwaitingReplacement }

// Unhealthy counts what is not known to be healthy.
func (t Tally) Unhealthy() int { return t.Counted() - t.Healthy }

// RepairsAllowed is how many more members may become unhealthy before the short circuit trips.
func (t Tally) RepairsAllowed() int {
	if !t.Permitted || t.CoolingDown {
		return 0
	}
	return max(0, t.MaxUnhealthy-t.Unhealthy())
}

// Start is a repair to begin. Policy leads it, and its verdict says why.
type Start struct {
	Target, Policy    int
	Name              string
	Steps             []Step
	Retry             int
	Verdict           Verdict
	CreatedSameSecond []string
	// Requested is when a person asked for the repair of the target; zero when none did.
	Requested time.Time
}

// StepStart is a running repair the step of which has not begun yet.
type StepStart struct {
	Repair, Target, Policy int
	Verdict                Verdict
	// Step is the index of the step in the repair's ladder.
	Step int
}

// Escalation is a step that is given up. Its request, an index in Cluster.CreateRequest or -1, is told to stop
// first, unless the remediator says that it has succeeded.
type Escalation struct {
	Repair, Target, Policy int
	Request                int
	Outcome                StepOutcome
	Reason                 EndReason
	Text                   string
}

// Withdrawal is a request to take back, an index in Cluster.CreateRequest.
type Withdrawal struct {
	Request int
	// Policy is the index of the policy that asked, -1 when that is gone. Target likewise.
	Policy, Target int
	// TargetHealthy is set when the target is healthy, and no policy that acts finds it unhealthy.
	TargetHealthy bool
	Reason        EndReason
	Text          string
}

// Stuck is a request that does not go away, an index in Cluster.CreateRequest. Policy is the index of the policy that asked, -1 when that is gone.
type Stuck struct {
	Request, Policy int
}

// Note is what is to be remembered of a running repair: since when its target has been healthy again,
// zero for not, and how whoever was asked has answered.
type Note struct {
	Repair    int
	Recovered time.Time
	Answer    string
}

// LeaseHold is a lease to be held for a time from now.
type LeaseHold struct {
	Target int
	Holder string
	For    time.Duration
}

// Finish is a running repair that ends.
type Finish struct {
	Repair  int
	Outcome Outcome
	Reason  EndReason
	Text    string
	// RecordOnly is set when the repair's policy only rehearses: nothing but the record of the repair is touched.
	RecordOnly bool
}

// HealthyTarget is a target that every policy which acts finds well, and that shows that its owner can make such. A target that is being
// deleted counts too while no criterion is met: autoscalers remove targets that are well.
type HealthyTarget struct {
	Target  ID
	Created time.Time
}

// younger orders proofs by their creation. Of those created in the same second the first by its ID counts.
func (p *HealthyTarget) younger(other *HealthyTarget) bool {
	if order := p.Created.Compare(other.Created); order != 0 {
		return order > 0
	}
	return p.Target.Compare(other.Target) < 0
}
