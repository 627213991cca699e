package core

import (
	"fmt"
	"time"
)

// MaxSkew is by how much the clocks of Fettle and of the API server may differ. Criteria last minutes.
const MaxSkew = 5 * time.Second

// Gate is a limit that may refuse.
type Gate int

// The gates. The tables in gates.go have the order in which they are checked.
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
	AnotherRemediator
	TemplateUnusable
	RequestsUnseen
	StepsExhausted
	ClockSkewed
	ClockUnknown
)

var gateNames = [...]string{
	PolicyInvalid:     "InvalidSpec",
	PolicyPaused:      "Paused",
	TooManyUnhealthy:  "TooManyUnhealthy",
	StormCooldown:     "StormCooldown",
	NoRemedy:          "NoRemedy",
	NoOwner:           "NoOwner",
	QuorumUnknown:     "QuorumUnknown",
	ControlPlaneBusy:  "ControlPlaneBusy",
	InFlightLimit:     "InFlightLimit",
	BackingOff:        "BackingOff",
	PoolGivenUp:       "PoolGivenUp",
	AttemptPause:      "AttemptPause",
	Unconfirmed:       "Unconfirmed",
	QuorumLost:        "QuorumLost",
	Excluded:          "Excluded",
	ClusterUpgrading:  "ClusterUpgrading",
	TargetUpgrading:   "TargetUpgrading",
	LeaseHeld:         "LeaseHeld",
	AnotherRemediator: "AnotherRemediator",
	TemplateUnusable:  "TemplateUnusable",
	RequestsUnseen:    "RequestsUnseen",
	StepsExhausted:    "LadderExhausted",
	ClockSkewed:       "ClockSkewed",
	ClockUnknown:      "ClockUnknown",
}

// String returns the name of the gate in conditions, events and metrics.
func (g Gate) String() string {
	if g > 0 && int(g) < len(gateNames) {
		return gateNames[g]
	}
	return "Unnamed"
}

// Refusal is one gate that holds back one target. Policy is the one whose gate it is, which need
// not be the leading policy of the repair.
type Refusal struct {
	Target, Policy int
	Gate           Gate
	// Until is when the gate may open by time alone; zero when something else must happen first.
	Until time.Time
	// Have is the number that the gate counts, Min and Max are its limits; Total what a share is of.
	Have, Min, Max, Total int
	// Detail names what the gate is about, for gates that have such a thing.
	Detail string
	// Fact is what is known of the fact that the gate depends on, for ClusterUpgrading.
	Fact Tri
	// Why is a clause on how the detail is known, for gates that have such a thing.
	Why string
	// Advice is that of the policy about the gate; it may be empty.
	Advice string
	// DryRun is set when it holds back only what a dry run would do.
	DryRun bool
	// Relapsed is set when a back-off is due to earlier repairs of the target itself.
	Relapsed bool
}

// Text returns a sentence: why the target is held back, and what would open the gate.
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
		return "repairs were stopped until just now, and targets that recover are given time"
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
		return fmt.Sprintf("%d under repair already and at most %d may be at a time; it follows when one of them has ended", r.Have, r.Max) + r.advice(" (", ")") + r.among()
	case BackingOff:
		return r.backoffText()
	case AttemptPause:
		return r.attemptText()
	case Unconfirmed:
		return "its node is read once more from the API server before anything is done"
	case PoolGivenUp, QuorumLost, Excluded, ClusterUpgrading, TargetUpgrading, LeaseHeld, AnotherRemediator, TemplateUnusable, RequestsUnseen, StepsExhausted,
		ClockSkewed, ClockUnknown:
		return r.circumstance()
	}
	return "refused"
}

func (r Refusal) restrictionText() string {
	if r.Have < r.Min {
		return fmt.Sprintf("%d of %d are not healthy and repairs go on only from %d to %d, as the health check's range says", r.Have, r.Total, r.Min, r.Max)
	}
	return fmt.Sprintf("%d of %d are not healthy and repairs go on only up to %d: a fault this wide is likelier in what they share than in each of them; repairs resume when enough are healthy again", r.Have, r.Total, r.Max)
}

// advice returns the advice of the policy between what comes before and after it, and "" without any.
func (r Refusal) advice(before, after string) string {
	if r.Advice == "" {
		return ""
	}
	return before + r.Advice + after
}

// among returns a clause on what is counted and is no member any more.
func (r Refusal) among() string {
	if r.Detail == "" {
		return ""
	}
	return "; among them " + r.Detail
}

// circumstance returns what about the target, its node or its remediator holds it back.
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
		return "the lease of its node is held by " + r.Detail + ", so another tool is at work on it; it follows when they release the lease, or let it expire"
	case TemplateUnusable:
		return "a step of the health check can't be taken: " + r.Detail
	case AnotherRemediator:
		return "another remediator works on it, since " + r.Detail + "; it follows when that remediator is done"
	case RequestsUnseen:
		return "the request to its remediator can't be seen at the moment, so it is left as it is"
	case ClockSkewed:
		return "the clocks of Fettle and of the API server differ by more than " + MaxSkew.String() + ", so it is not known how long anything has lasted; " +
			"correct the clock of Fettle's host, or that of the API server's (the metric fettle_clock_skew_seconds says by how much Fettle's is ahead)"
	case ClockUnknown:
		return "it is not known by how much the clocks of Fettle and of the API server differ; each answer of the API server tells that by its Date header, " +
			"so let the API server be reached, and let no proxy remove that header"
	case StepsExhausted:
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

// givenUpText returns what failed, and what a user does about that.
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
