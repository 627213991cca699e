package core

import (
	"fmt"
	"time"
)

// Health is the state of a target under a policy.
type Health int8

// The verdicts. Only Healthy counts as healthy against a policy's limits.
const (
	// Healthy targets match no criterion.
	Healthy Health = iota + 1
	// Suspect targets match a criterion whose duration is not over, or wait for something.
	Suspect
	// Unhealthy targets have matched a criterion for its whole duration.
	Unhealthy
	// Undetermined targets can't be judged, since a fact is missing; nothing is done to them.
	Undetermined
	// Gone targets are being deleted already, or are nodes that a live read did not find.
	Gone
)

// String returns the name of the state in conditions and metrics.
func (h Health) String() string {
	switch h {
	case Healthy:
		return "healthy"
	case Suspect:
		return "suspect"
	case Unhealthy:
		return "unhealthy"
	case Undetermined:
		return "unknown"
	case Gone:
		return "gone"
	}
	return "unjudged"
}

// Reason is why a target is judged as it is.
type Reason int8

// The reasons. The table of criteria has the order in which these are checked.
const (
	NoCriterionMet Reason = iota + 1
	ClusterUnobserved
	TargetUnreadable
	TargetFailed
	NodeStartupTimeout
	NodeNotFound
	NodeUnconfirmed
	ConditionMet
	ConditionUntimed
	ExternalRemediation
	Recovering
	RemediationRequested
	Premature
	TargetConditionMet
	TargetConditionUntimed
	ConditionsMet
)

var reasonNames = [...]string{
	NoCriterionMet:         "Healthy",
	ClusterUnobserved:      "FleetUnobserved",
	TargetUnreadable:       "Unreadable",
	TargetFailed:           "Failed",
	NodeStartupTimeout:     "NodeStartupTimeout",
	NodeNotFound:           "NodeNotFound",
	NodeUnconfirmed:        "NodeUnconfirmed",
	ConditionMet:           "UnhealthyCondition",
	ConditionUntimed:       "ConditionUntimed",
	ExternalRemediation:    "ExternalRemediation",
	Recovering:             "Recovering",
	RemediationRequested:   "RemediationRequested",
	Premature:              "Premature",
	TargetConditionMet:     "UnhealthyTargetCondition",
	TargetConditionUntimed: "TargetConditionUntimed",
	ConditionsMet:          "UnhealthyConditions",
}

// String returns the name of the reason in conditions, events and metrics.
func (r Reason) String() string {
	if r > 0 && int(r) < len(reasonNames) {
		return reasonNames[r]
	}
	return "Unjudged"
}

// Verdict is one target judged by one policy at one instant.
type Verdict struct {
	// Target is the index in Cluster.Targets, Policy the index in the policies.
	Target, Policy int
	Health         Health
	Reason         Reason
	// Since is when the reason began; zero when that is not known.
	Since time.Time
	// Until is when a suspect target becomes unhealthy; zero when time alone won't make it so.
	Until time.Time
	// Criterion is the condition that matched, for the reasons that have one.
	Criterion ConditionCriterion
	// Limit is the duration that the reason must hold before the target is unhealthy.
	Limit time.Duration
	// Detail is what can't be read, or which request stands that Fettle does not withdraw, or which conditions hold
	// together. Only some reasons have it.
	Detail string
	// WasUnhealthy is set for a Gone target that was not healthy when its deletion was seen.
	WasUnhealthy bool
	// RequestRemains is set for a Recovering target if Fettle does not withdraw its request, or can't. Detail says why.
	RequestRemains bool
}

// reclaimed reports whether the target is unhealthy because it goes away in any case.
func (v Verdict) reclaimed() bool {
	return v.Health == Unhealthy && v.Reason == ConditionMet && v.Criterion.Reclaims
}

// Text returns a sentence: how the target was judged, and why.
func (v Verdict) Text() string {
	switch v.Reason {
	case NoCriterionMet:
		return "no criterion is met"
	case ClusterUnobserved:
		return "the cluster could not be observed completely, so nothing is judged until it can"
	case TargetUnreadable:
		return "it can't be judged until this is corrected: " + v.Detail
	case TargetFailed:
		return "the machine's phase is Failed, from which it does not recover"
	case NodeStartupTimeout:
		return v.startupText()
	case NodeNotFound:
		return v.goneText()
	case NodeUnconfirmed:
		return "the node that the machine refers to has not been seen, and its absence is not confirmed yet"
	case ConditionMet, TargetConditionMet:
		return v.conditionText()
	case ConditionsMet:
		return v.togetherText()
	case ConditionUntimed, TargetConditionUntimed:
		return fmt.Sprintf("%s %s is %s but carries no lastTransitionTime, so it is not known for how long", v.conditionSource(), v.Criterion.Type, v.Criterion.Status)
	case ExternalRemediation:
		return "it is marked for an external remediator, which has not finished"
	case RemediationRequested:
		return v.requestText()
	case Premature:
		return "it is not judged yet: " + v.Detail
	case Recovering:
		return v.recoveringText()
	}
	return "not judged"
}

// PremiseText returns the state that must last for a suspect target to become unhealthy.
func (v Verdict) PremiseText() string {
	switch v.Reason {
	case ConditionMet, TargetConditionMet:
		return v.Criterion.Type + " is still " + v.Criterion.Status
	case ConditionsMet:
		return "its conditions are still so"
	case NodeNotFound:
		return "its node has not come back by then"
	case NodeStartupTimeout:
		return "no node has joined by then"
	case NoCriterionMet, ClusterUnobserved, TargetUnreadable, TargetFailed, NodeUnconfirmed, ConditionUntimed,
		ExternalRemediation, Recovering, RemediationRequested, Premature, TargetConditionUntimed:
	}
	return "nothing has changed by then"
}

func (v Verdict) requestText() string {
	if v.Since.IsZero() {
		return "a user has requested its repair"
	}
	return "a user requested its repair at " + stamp(v.Since)
}

func (v Verdict) recoveringText() string {
	if v.Detail != "" {
		return "no criterion is met any more, but the request to the remediator still stands: " + v.Detail
	}
	return "no criterion is met any more, and the request to the remediator is not withdrawn yet"
}

func (v Verdict) startupText() string {
	if v.Limit == 0 {
		return "no node has joined yet; the node startup timeout is disabled, so it may take any time"
	}
	if v.Health == Suspect {
		return fmt.Sprintf("no node has joined since %s; it has %s for that", stamp(v.Since), v.Limit)
	}
	return fmt.Sprintf("no node has joined since %s, past the node startup timeout of %s", stamp(v.Since), v.Limit)
}

func (v Verdict) conditionText() string {
	c := v.Criterion
	if v.Health == Suspect {
		return fmt.Sprintf("%s %s=%s since %s; it is unhealthy after %s", v.conditionSource(), c.Type, c.Status, stamp(v.Since), c.For)
	}
	return fmt.Sprintf("%s %s=%s since %s, past the %s limit", v.conditionSource(), c.Type, c.Status, stamp(v.Since), c.For)
}

func (v Verdict) goneText() string {
	const gone = "the node that the machine refers to no longer exists"
	switch {
	case v.Health == Gone && v.Limit == 0:
		return "the node no longer exists"
	case v.Limit == 0:
		return gone
	case v.Health != Suspect:
		return fmt.Sprintf("%s; a live read found that at %s, and the delay of %s has passed since", gone, stamp(v.Since), v.Limit)
	case v.Since.IsZero():
		return fmt.Sprintf("%s; it is unhealthy %s after the controller first found that", gone, v.Limit)
	}
	return fmt.Sprintf("%s; a live read found that at %s, and it is unhealthy after %s", gone, stamp(v.Since), v.Limit)
}

func (v Verdict) togetherText() string {
	switch {
	case v.Health != Suspect:
		return fmt.Sprintf("%s since %s, past the %s limit", v.Detail, stamp(v.Since), v.Limit)
	case v.Since.IsZero():
		return fmt.Sprintf("%s; it is unhealthy %s after the controller first found that", v.Detail, v.Limit)
	}
	return fmt.Sprintf("%s since %s; it is unhealthy after %s", v.Detail, stamp(v.Since), v.Limit)
}

// conditionSource returns whether the condition that the verdict is about is of a node or of a machine.
func (v Verdict) conditionSource() string {
	if v.Reason == TargetConditionMet || v.Reason == TargetConditionUntimed {
		return "the machine's condition"
	}
	return "node condition"
}
