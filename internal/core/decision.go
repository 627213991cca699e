package core

import (
	"fmt"
	"time"
)

// Decision is what follows from the facts. Indices refer to the policies and the fleet that it was
// made from.
type Decision struct {
	// Verdicts has one for each policy and each of its members.
	Verdicts []Verdict
	// Tallies has one for each policy, in their order.
	Tallies []Tally
	// Starts are the repairs to record and then to begin, the oldest unhealthy target first.
	Starts []Start
	// Rehearsals are what dry-run policies would start.
	Rehearsals []Start
	// Acts are running repairs whose remedy is to be called, or called again.
	Acts []Act
	// Finishes are running repairs that have come to their end.
	Finishes []Finish
	// Advances are steps that are given up, so that the next is taken.
	Advances []Advance
	// Withdrawals are requests that nothing asks for any more.
	Withdrawals []Withdrawal
	// Notes are running repairs whose target has just recovered, or no longer is, or about which there is an answer.
	Notes []Note
	// Holds are leases to be taken or renewed for repairs under way.
	Holds []Hold
	// Releases are leases to be given back that no repair accounts for, in the order of their nodes.
	Releases []NodeLease
	// Refusals say which gate holds back which unhealthy target.
	Refusals []Refusal
	// Confirm are targets whose node must be read live before anything can happen to them, and Polls those of
	// them for which the quorum of the control plane is to be known.
	Confirm, Polls []int
	// NextAt is when time alone will change the decision; zero for never.
	NextAt time.Time
}

// Tally is how a policy's members stand against its limits.
type Tally struct {
	Total, Healthy int
	// Failed are found unhealthy. Members may be neither.
	Failed int
	// MostUnhealthy is the number of unhealthy members up to which repairs go on.
	MostUnhealthy int
	// Permitted tells whether the short circuit lets repairs start.
	Permitted bool
	// Opening is to be remembered while the cooldown after a short circuit lasts, until ResumeAt.
	Opening  Opening
	ResumeAt time.Time
	// CoolingDown tells whether that cooldown holds repairs back.
	CoolingDown bool
	// InFlight members are under repair, out of MostInFlight.
	InFlight, MostInFlight int
}

// Unhealthy counts the members that are not known to be healthy.
func (t Tally) Unhealthy() int { return t.Total - t.Healthy }

// RepairsAllowed is how many more members may become unhealthy before the short circuit trips.
func (t Tally) RepairsAllowed() int {
	if !t.Permitted || t.CoolingDown {
		return 0
	}
	return max(0, t.MostUnhealthy-t.Unhealthy())
}

// Start is a repair to begin. Policy leads it, and its verdict says why.
type Start struct {
	Target, Policy int
	Name           string
	Ladder         []Step
	Retry          int
	Verdict        Verdict
	Contemporaries []string
}

// Act is a running repair the step of which has not begun yet.
type Act struct {
	Repair, Target, Policy int
	Verdict                Verdict
	// Step is the index of the step in the repair's ladder.
	Step int
}

// Advance is a step that is given up. Its request, an index in Fleet.Requests or -1, is told to stop
// first, unless the remediator says that it has succeeded.
type Advance struct {
	Repair, Target, Policy int
	Request                int
	Outcome                RungOutcome
	Text                   string
}

// Withdrawal is a request to take back, an index in Fleet.Requests.
type Withdrawal struct {
	Request int
	// Policy is the index of the one that asked, -1 when that is gone. Target likewise.
	Policy, Target int
	// Settled is set when the target is healthy, and no policy that acts finds it unhealthy.
	Settled bool
	Text    string
}

// Note is what is to be remembered of a running repair: since when its target has been healthy again,
// zero for not, and how whoever was asked has answered.
type Note struct {
	Repair    int
	Recovered time.Time
	Answer    string
}

// Hold is a lease to be held for a time from now.
type Hold struct {
	Target int
	Holder string
	For    time.Duration
}

// Finish is a running repair that ends.
type Finish struct {
	Repair  int
	Outcome Outcome
	Text    string
	// HandsOff is set when the repair's policy only rehearses: nothing but the record of the repair is touched.
	HandsOff bool
}

// Gate is a limit that may refuse.
type Gate int

// The gates, in the order in which they are asked.
const (
	PolicyInvalid Gate = iota + 1
	PolicyPaused
	TooManyUnhealthy
	StormCooldown
	NoRemedy
	NoOwner
	QuorumUnknown
	ControlPlaneBusy
	InFlightLimit
	BackingOff
	AttemptPause
	Unconfirmed
	QuorumLost
	Excluded
	ClusterUpgrading
	TargetUpgrading
	LeaseHeld
	TemplateUnusable
	RequestsUnseen
	LadderExhausted
)

var gateNames = [...]string{
	PolicyInvalid:    "InvalidSpec",
	PolicyPaused:     "Paused",
	TooManyUnhealthy: "TooManyUnhealthy",
	StormCooldown:    "StormCooldown",
	NoRemedy:         "NoRemedy",
	NoOwner:          "NoOwner",
	QuorumUnknown:    "QuorumUnknown",
	ControlPlaneBusy: "ControlPlaneBusy",
	InFlightLimit:    "InFlightLimit",
	BackingOff:       "BackingOff",
	AttemptPause:     "AttemptPause",
	Unconfirmed:      "Unconfirmed",
	QuorumLost:       "QuorumLost",
	Excluded:         "Excluded",
	ClusterUpgrading: "ClusterUpgrading",
	TargetUpgrading:  "TargetUpgrading",
	LeaseHeld:        "LeaseHeld",
	TemplateUnusable: "TemplateUnusable",
	RequestsUnseen:   "RequestsUnseen",
	LadderExhausted:  "LadderExhausted",
}

// String names the gate as conditions, events and metrics do.
func (g Gate) String() string {
	if g > 0 && int(g) < len(gateNames) {
		return gateNames[g]
	}
	return "Unnamed"
}

// Refusal is one gate that holds back one target. Policy is the one whose gate it is, which need
// not be the one that leads the repair.
type Refusal struct {
	Target, Policy int
	Gate           Gate
	// Until is when the gate may open by time alone; zero when something else must happen first.
	Until time.Time
	// Have is the number that the gate counts, Least and Most are its limits; Total what a share is of.
	Have, Least, Most, Total int
	// Detail names what the gate is about, for gates that have such a thing.
	Detail string
	// Rehearsed is set when it holds back only what a dry run would do.
	Rehearsed bool
}

// Text says in one sentence why the target is held back and what would open the gate.
func (r Refusal) Text() string {
	switch r.Gate {
	case PolicyInvalid:
		return "the health check can't be followed: " + r.Detail
	case PolicyPaused:
		return "the health check is paused; remove its pause annotation, or its pause requests, to go on"
	case TooManyUnhealthy:
		if r.Have < r.Least {
			return fmt.Sprintf("%d of %d are not healthy and repairs go on only from %d to %d, as the health check's range says", r.Have, r.Total, r.Least, r.Most)
		}
		return fmt.Sprintf("%d of %d are not healthy and repairs go on only up to %d: a fault this wide is likelier in what they share than in each of them; repairs resume when enough are healthy again", r.Have, r.Total, r.Most)
	case StormCooldown:
		return "repairs were stopped until just now, and those that recover are given time to do so"
	case NoRemedy:
		return "the health check names no remedy that can be used: " + r.Detail
	case NoOwner:
		return "no controller owns it, so nothing would replace it after a deletion; repair it by hand, or let a machine set own it"
	case QuorumUnknown:
		return "it belongs to the control plane, and it is not known whether the cluster's quorum survives while it is out; repair it by hand, or let Fettle read what it needs (docs/guards.md)"
	case ControlPlaneBusy:
		return "another member of the control plane is out; one at a time is repaired"
	case InFlightLimit:
		return fmt.Sprintf("%d under repair already and at most %d may be at a time; it follows when one of them has ended (annotation fettle.io/max-in-flight changes the limit)", r.Have, r.Most)
	case BackingOff:
		return r.backoffText()
	case AttemptPause:
		return r.attemptText()
	case Unconfirmed:
		return "its node is read once more from the API server before anything is done"
	case QuorumLost, Excluded, ClusterUpgrading, TargetUpgrading, LeaseHeld, TemplateUnusable, RequestsUnseen, LadderExhausted:
		return r.circumstance()
	}
	return "refused"
}

// circumstance says what about the target, its node or its remediator holds it back.
func (r Refusal) circumstance() string {
	switch r.Gate { //nolint:exhaustive // the others are about limits
	case QuorumLost:
		return "it belongs to the control plane, whose quorum would not survive while it is out; repair another member first, by hand"
	case Excluded:
		return "its node is excluded from repairs by the label remediation.medik8s.io/exclude-from-remediation; remove the label to go on"
	case ClusterUpgrading, TargetUpgrading:
		return r.upgradeText()
	case LeaseHeld:
		return "the lease of its node is held by " + r.Detail + ", so somebody else is at work on it; it follows when they release the lease, or let it expire"
	case TemplateUnusable:
		return "a step of the health check can't be taken: " + r.Detail
	case RequestsUnseen:
		return "what was asked of its remediator can't be seen at the moment, so it is left as it is"
	case LadderExhausted:
		return fmt.Sprintf("all %d steps of its repair were tried to no avail; repair it by hand", r.Have)
	}
	return "refused"
}

func (r Refusal) upgradeText() string {
	switch {
	case r.Gate == TargetUpgrading:
		return "its node is being upgraded; repairs go on when that is done"
	case r.Detail == Unknown.String():
		return "it is not known yet whether the cluster is being upgraded"
	}
	return "the cluster is being upgraded; repairs go on when that is done"
}

func (r Refusal) backoffText() string {
	if r.Have == 1 {
		return "the replacement of a repaired one has failed too, so the next repair in this pool waits; look at why it fails"
	}
	return fmt.Sprintf("%d replacements in a row have failed, so the next repair in this pool waits; look at why they fail", r.Have)
}

func (r Refusal) attemptText() string {
	if r.Have == 1 {
		return "the call of the remedy was refused; it is tried again after a pause"
	}
	return fmt.Sprintf("the last %d calls of the remedy were refused; it is tried again after a pause", r.Have)
}
