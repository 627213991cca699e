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
	// Stuck are requests that were withdrawn long ago and are still there.
	Stuck []Stuck
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
	// Asked are the requests of people for repairs of targets, in the order of these.
	Asked []AskedRepair
	// Proofs has, for each owner with repairs, its youngest target that is well; none where there is none.
	Proofs map[ID]Proof
	// NextAt is when time alone will change the decision; zero for never.
	NextAt time.Time
}

// Tally is how a policy's members stand against its limits.
type Tally struct {
	// Total are the members. Behind are targets that are gone, whose repairs go on and whose replacements have not come:
	// they count against the limits too. Waits says in a sentence which repairs go on without their targets.
	Total, Healthy, Behind int
	Waits                  string
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

// Counted is what shares are taken of: the members, and the targets that are gone and not replaced yet.
func (t Tally) Counted() int { return t.Total + t.Behind }

// Unhealthy counts what is not known to be healthy.
func (t Tally) Unhealthy() int { return t.Counted() - t.Healthy }

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
	// Requested is when a person asked for the repair of the target; zero when none did.
	Requested time.Time
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
	Reason                 EndReason
	Text                   string
}

// Withdrawal is a request to take back, an index in Fleet.Requests.
type Withdrawal struct {
	Request int
	// Policy is the index of the one that asked, -1 when that is gone. Target likewise.
	Policy, Target int
	// Settled is set when the target is healthy, and no policy that acts finds it unhealthy.
	Settled bool
	Reason  EndReason
	Text    string
}

// Stuck is a request that does not go away, an index in Fleet.Requests. Policy is the index of the policy that asked, -1 when that is gone.
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
	Reason  EndReason
	Text    string
	// HandsOff is set when the repair's policy only rehearses: nothing but the record of the repair is touched.
	HandsOff bool
}

// MostSkew is by how much the clocks of Fettle and of the API server may differ. Criteria last minutes.
const MostSkew = 5 * time.Second

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
	PoolGivenUp
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
	ClockSkewed
	ClockUnknown
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
	PoolGivenUp:      "PoolGivenUp",
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
	ClockSkewed:      "ClockSkewed",
	ClockUnknown:     "ClockUnknown",
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
	// Fact is what is known of the fact that the gate asks for, for ClusterUpgrading.
	Fact Tri
	// Why is a clause on how the detail is known, for gates that have such a thing.
	Why string
	// Advice is that of the policy about the gate; it may be empty.
	Advice string
	// Rehearsed is set when it holds back only what a dry run would do.
	Rehearsed bool
	// Relapsed is set when a back-off is due to earlier repairs of the target itself.
	Relapsed bool
}

// Text says in one sentence why the target is held back and what would open the gate.
func (r Refusal) Text() string {
	switch r.Gate {
	case PolicyInvalid:
		return "the health check can't be followed: " + r.Detail
	case PolicyPaused:
		if r.Detail != "" {
			return "the health check begins nothing new, since " + r.Detail
		}
		return "the health check is paused" + r.advice("; ", "")
	case TooManyUnhealthy:
		return r.restrictionText() + r.among()
	case StormCooldown:
		return "repairs were stopped until just now, and those that recover are given time to do so"
	case NoRemedy:
		return "the health check names no remedy that can be used: " + r.Detail
	case NoOwner:
		return "no controller owns it, so nothing would replace it after a deletion; repair it by hand, or let a machine set own it"
	case QuorumUnknown:
		return "it belongs to the control plane, and it is not known whether the cluster's quorum survives while it is out; " +
			"repair it by hand, or let Fettle read what it needs" + r.advice("; ", "")
	case ControlPlaneBusy:
		return "another member of the control plane is out; one at a time is repaired"
	case InFlightLimit:
		return fmt.Sprintf("%d under repair already and at most %d may be at a time; it follows when one of them has ended", r.Have, r.Most) + r.advice(" (", ")") + r.among()
	case BackingOff:
		return r.backoffText()
	case AttemptPause:
		return r.attemptText()
	case Unconfirmed:
		return "its node is read once more from the API server before anything is done"
	case PoolGivenUp, QuorumLost, Excluded, ClusterUpgrading, TargetUpgrading, LeaseHeld, TemplateUnusable, RequestsUnseen, LadderExhausted,
		ClockSkewed, ClockUnknown:
		return r.circumstance()
	}
	return "refused"
}

func (r Refusal) restrictionText() string {
	if r.Have < r.Least {
		return fmt.Sprintf("%d of %d are not healthy and repairs go on only from %d to %d, as the health check's range says", r.Have, r.Total, r.Least, r.Most)
	}
	return fmt.Sprintf("%d of %d are not healthy and repairs go on only up to %d: a fault this wide is likelier in what they share than in each of them; repairs resume when enough are healthy again", r.Have, r.Total, r.Most)
}

// advice returns the advice of the policy between what comes before and after it, and "" without any.
func (r Refusal) advice(before, after string) string {
	if r.Advice == "" {
		return ""
	}
	return before + r.Advice + after
}

// among names what is counted that is no member any more.
func (r Refusal) among() string {
	if r.Detail == "" {
		return ""
	}
	return "; among them " + r.Detail
}

// circumstance says what about the target, its node or its remediator holds it back.
func (r Refusal) circumstance() string {
	switch r.Gate { //nolint:exhaustive // the others are about limits
	case PoolGivenUp:
		return r.givenUpText()
	case QuorumLost:
		return "it belongs to the control plane, whose quorum would not survive while it is out; repair another member first, by hand"
	case Excluded:
		return "its node is excluded from repairs" + r.advice("; ", "")
	case ClusterUpgrading, TargetUpgrading:
		return r.upgradeText()
	case LeaseHeld:
		return "the lease of its node is held by " + r.Detail + ", so somebody else is at work on it; it follows when they release the lease, or let it expire"
	case TemplateUnusable:
		return "a step of the health check can't be taken: " + r.Detail
	case RequestsUnseen:
		return "what was asked of its remediator can't be seen at the moment, so it is left as it is"
	case ClockSkewed:
		return "the clocks of Fettle and of the API server differ by more than " + MostSkew.String() + ", so it is not known how long anything has lasted; " +
			"correct the clock of Fettle's host, or that of the API server's (the metric fettle_clock_skew_seconds says by how much Fettle's is ahead)"
	case ClockUnknown:
		return "it is not known by how much the clocks of Fettle and of the API server differ; each answer of the API server tells that by its Date header, " +
			"so let the API server be reached, and let no proxy remove that header"
	case LadderExhausted:
		return r.exhaustedText()
	}
	return "refused"
}

func (r Refusal) exhaustedText() string {
	text := fmt.Sprintf("all %d steps of its repair were tried to no avail, so it counts as unhealthy", r.Have)
	if r.Have == 1 {
		text = "the only step of its repair was tried to no avail, so it counts as unhealthy"
	}
	if r.Detail != "" {
		return text + "; it counts as under repair until " + r.Detail + ", which Fettle did not make, says how it ended or is gone; repair it by hand"
	}
	return text + " and no longer as under repair; repair it by hand"
}

func (r Refusal) upgradeText() string {
	switch {
	case r.Gate == TargetUpgrading:
		return "its node is being upgraded; repairs go on when that is done"
	case r.Fact == Unknown && r.Why != "":
		return "it is not known whether the cluster is being upgraded: " + r.Why + "; repairs go on when it is known that it is not" + r.advice("; ", "")
	case r.Fact == Unknown:
		return "it is not known yet whether the cluster is being upgraded"
	case r.Why != "":
		return "the cluster is being upgraded: " + r.Why + "; repairs go on when that is done"
	}
	return "the cluster is being upgraded; repairs go on when that is done"
}

func (r Refusal) backoffText() string {
	switch {
	case r.Relapsed && r.Have == 1:
		return "it has failed again within an hour of its last repair, so its next repair waits; look at why it fails"
	case r.Relapsed:
		return fmt.Sprintf("its last %d repairs have not lasted an hour, so its next repair waits; look at why it fails", r.Have)
	}
	if r.Have == 1 {
		return "the replacement of a repaired one has failed too, so the next repair in this pool waits; look at why it fails"
	}
	return fmt.Sprintf("%d replacements in a row have failed, so the next repair in this pool waits; look at why they fail", r.Have)
}

// givenUpText says what failed, and what a user does about that.
func (r Refusal) givenUpText() string {
	failed := fmt.Sprintf("%d replacements in a row have failed, so this pool is given up", r.Have)
	switch {
	case r.Relapsed && r.Have == 1:
		failed = "its last repair has not lasted an hour, so it is given up"
	case r.Relapsed:
		failed = fmt.Sprintf("its last %d repairs have not lasted an hour, so it is given up", r.Have)
	case r.Have == 1:
		failed = "the replacement of a repaired one has failed too, so this pool is given up"
	}
	return failed + "; find out why and mend that" + r.advice(", then ", "")
}

func (r Refusal) attemptText() string {
	if r.Have == 1 {
		return "the call of the remedy was refused; it is tried again after a pause"
	}
	return fmt.Sprintf("the last %d calls of the remedy were refused; it is tried again after a pause", r.Have)
}
