package core

import "time"

// Decision is what follows from the facts. Indices refer to the policies and the cluster that it
// was made from.
type Decision struct {
	// Verdicts has one for each policy and each of its members.
	Verdicts []Verdict
	// Tallies has one for each policy, in their order.
	Tallies []Tally
	// Starts are the repairs to record and then to begin, the oldest unhealthy target first.
	Starts []Start
	// DryRunStarts are the repairs that dry-run policies would start.
	DryRunStarts []Start
	// StepStarts are running repairs whose remedy is to be called, or called again.
	StepStarts []StepStart
	// Finishes are running repairs that end.
	Finishes []Finish
	// Escalations are steps that are given up, so that the next step begins.
	Escalations []Escalation
	// Withdrawals are the requests to withdraw.
	Withdrawals []Withdrawal
	// Stuck are requests that were withdrawn long ago and still exist.
	Stuck []Stuck
	// Notes are changes in running repairs to record: a recovery, a relapse, or an answer.
	Notes []Note
	// LeaseHolds are the leases to take or renew for running repairs.
	LeaseHolds []LeaseHold
	// LeaseReleases are the leases to release, which no repair accounts for, in the order of their
	// nodes.
	LeaseReleases []NodeLease
	// Refusals name each gate that holds back an unhealthy target.
	Refusals []Refusal
	// Confirm are the targets whose node must be read live before anything can happen to them.
	// QuorumReads are those of them for which the quorum of the control plane must be read too.
	Confirm, QuorumReads []int
	// RepairRequests are the users' repair requests, in the order of their targets.
	RepairRequests []RepairRequestStatus
	// YoungestHealthy maps each owner with repairs to its youngest healthy target, if it has one.
	YoungestHealthy map[ID]HealthyTarget
	// NextAt is when time alone will change the decision; zero for never.
	NextAt time.Time
}

// Tally compares the members of a policy with its limits.
type Tally struct {
	// Total counts the members. AwaitingReplacement counts targets that are gone, whose repairs go
	// on and whose replacements have not come. They count against the limits too. Waits is a clause
	// about these repairs.
	Total, Healthy, AwaitingReplacement int
	Waits                               string
	// Failed counts the members that are found unhealthy. A member may be neither healthy nor
	// unhealthy.
	Failed int
	// MaxUnhealthy is the number of unhealthy members up to which repairs go on.
	MaxUnhealthy int
	// Permitted reports whether the short circuit lets repairs start.
	Permitted bool
	// Cooldown is remembered while the cooldown after a short circuit lasts, until ResumeAt.
	Cooldown CooldownState
	ResumeAt time.Time
	// CoolingDown reports whether that cooldown holds repairs back.
	CoolingDown bool
	// InFlight counts the members under repair, of which there may be MaxInFlight.
	InFlight, MaxInFlight int
}

// Counted returns the total of which shares are taken: the members, and the targets that await
// replacement.
func (t Tally) Counted() int { return t.Total + t.AwaitingReplacement }

// Unhealthy counts the targets that are not known to be healthy.
func (t Tally) Unhealthy() int { return t.Counted() - t.Healthy }

// RepairsAllowed returns how many more members may become unhealthy before the short circuit stops
// repairs.
func (t Tally) RepairsAllowed() int {
	if !t.Permitted || t.CoolingDown {
		return 0
	}
	return max(0, t.MaxUnhealthy-t.Unhealthy())
}

// Start is a repair to begin. Policy leads it, and its verdict is the cause.
type Start struct {
	Target, Policy    int
	Name              string
	Steps             []Step
	Retry             int
	Verdict           Verdict
	CreatedSameSecond []string
	// Requested is when a user requested the repair of the target; zero when none did.
	Requested time.Time
}

// StepStart is a running repair whose step has not begun yet.
type StepStart struct {
	Repair, Target, Policy int
	Verdict                Verdict
	// Step is the index of the step in the repair's steps.
	Step int
}

// Escalation is a step that is given up. Its request is an index in Cluster.Requests, or -1. The
// remediator is told to stop first, unless it reports success.
type Escalation struct {
	Repair, Target, Policy int
	Request                int
	Outcome                StepOutcome
	Reason                 EndReason
	Text                   string
}

// Withdrawal is a request to withdraw, an index in Cluster.Requests.
type Withdrawal struct {
	Request int
	// Policy is the index of the policy that made the request, -1 when it is gone. Target likewise.
	Policy, Target int
	// TargetHealthy is set when the target is healthy, and no acting policy finds it unhealthy.
	TargetHealthy bool
	// OnlyAsReported is set when the target is gone, and the request would stay if its remediator had reported a replacement
	// that no cache shows. The repair goes on until the request is withdrawn.
	OnlyAsReported bool
	Reason         EndReason
	Text           string
}

// Stuck is a withdrawn request that still exists, an index in Cluster.Requests. Policy is the index
// of the policy that made it, -1 when it is gone.
type Stuck struct {
	Request, Policy int
}

// Note is a change of a running repair to record. Recovered is when its target became healthy
// again, zero while it is not. Answer is the last answer of its remediator or owner.
type Note struct {
	Repair    int
	Recovered time.Time
	Answer    string
}

// LeaseHold is a lease to hold for a time from now.
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
	// RecordOnly is set when the repair's policy is a dry run: only the record of the repair is
	// changed.
	RecordOnly bool
}

// HealthyTarget is a target that every acting policy finds healthy. It shows that its owner can
// create healthy targets. A target that is being deleted counts too while it meets no criterion,
// since autoscalers remove healthy targets.
type HealthyTarget struct {
	Target  ID
	Created time.Time
}

// younger orders targets by creation. Of targets created in the same second the first by ID counts.
func (p *HealthyTarget) younger(other *HealthyTarget) bool {
	if order := p.Created.Compare(other.Created); order != 0 {
		return order > 0
	}
	return p.Target.Compare(other.Target) < 0
}
