package core

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Policy is one health check, translated. Its zero value selects nothing, finds nothing unhealthy and permits nothing.
type Policy struct {
	ID      ID
	Created time.Time
	// Fingerprint stands for all that the policy was translated from. The core doesn't interpret it: a policy stands as
	// decided while what the API server has of it has the same. Without one, nothing begins that the policy selects.
	Fingerprint string
	// Problem says in a sentence why the policy can't be followed, and is empty when it can. A
	// policy with a problem still judges the members that it has, and permits no repair of them.
	Problem string
	// Unparsable is set when the policy's selector or criteria can't be read. A target that seems healthy or not
	// selected may be neither, so its requests stay as they are (I1).
	Unparsable bool
	// Unjudged is set by [LimitVerdicts] when the policy is not judged, since the limit of verdicts is reached. It selects Selected targets, and has
	// no members.
	Unjudged bool
	Selected int
	Paused   bool
	// PauseReason says in a sentence why a policy is paused whose author has not paused it, and what ends that.
	PauseReason string
	// DryRun policies are decided as if, and have no effect on anything, other policies included.
	DryRun bool
	// Members are the indices, in Cluster.Targets, of the targets that the policy selects.
	Members []int

	Criteria     Criteria
	ShortCircuit ShortCircuit
	// StormCooldown is how long repairs wait after the short circuit has opened again, since targets
	// recover one after the other; 0 is no wait.
	StormCooldown time.Duration
	// WasStopped is set when the recorded status says that repairs were stopped. That was by the short circuit, its
	// cooldown, or a gate that hides whether these were closed meanwhile.
	WasStopped bool
	// ClockGate is the gate by which the clock of the status' writer held back repairs, as the status says; 0 when it did not.
	// Decisions don't read it. Readers, who know that clock by this alone, hand it to Cluster.ClockGates.
	ClockGate Gate
	// Cooldown is the recorded state of the cooldown after the short circuit opened; zero when there is none.
	Cooldown CooldownState
	// MaxInFlight is how many members may be under repair at the same time.
	MaxInFlight Amount
	// ReclaimsBypassMaxInFlight has MaxInFlight hold back no target that is unhealthy by a criterion that Reclaims. Its deletion costs no
	// capacity. It counts as one in flight for all others.
	ReclaimsBypassMaxInFlight bool
	Backoff                   Backoff
	// Steps are the steps of a repair, in order. A policy without steps repairs nothing.
	Steps []Step
	// FailedSteps are the steps for targets that say of themselves that they can't recover; nil stands
	// for Steps. It is for remedies that wake a target up, which is no use where that is gone for good.
	FailedSteps []Step
	// HealthyDelay is how long a target must be healthy again before the request to a remediator is
	// withdrawn. If it is negative, a user must confirm that
	// (docs/reference/medik8s.md#healthy-delay).
	HealthyDelay time.Duration
	// FixedCooldown starts the cooldown at the opening of the short circuit. Later recoveries don't prolong it.
	FixedCooldown bool
	// IgnoresRequests has targets count as healthy for which a remediator is still at work.
	IgnoresRequests bool
	// RequestsAwaitMarks has the requests of the policy wait while a target is marked for an outside remediator, which would work on the
	// same host.
	RequestsAwaitMarks bool
	// QuietWhileNoneFails has the short circuit reported only once a member is found unhealthy. Other members that are
	// not healthy, such as new ones, are not worth an event.
	QuietWhileNoneFails bool
	// EmitsUnhealthyEvents has an event emitted also for targets that are unhealthy at once, and not only for targets
	// that may become so.
	EmitsUnhealthyEvents bool
	// WaitsForUpgrades has repairs wait while the cluster, or the target itself, is being upgraded.
	WaitsForUpgrades bool
	// Advice says what a user does about the gates of the policy.
	Advice Advice
	// Holder is the name under which the policy holds the lease of a node that it has repaired. A policy
	// without one neither holds leases nor heeds them.
	Holder string
}

// Advice has, for some gates, what a user does about them, as a clause in the words of the policy's API. It names the
// annotations and labels that the core doesn't know.
type Advice map[Gate]string

// StepsFor returns the steps of a repair of one of the policy's members.
func (p *Policy) StepsFor(t *Target) []Step {
	if t.Failed && p.FailedSteps != nil {
		return p.FailedSteps
	}
	return p.Steps
}

// Criteria are the rules by which a target is unhealthy; any one suffices.
type Criteria struct {
	// NodeStartup is how long a target may be without a node; 0 means for ever.
	NodeStartup time.Duration
	// NodeGoneDelay is how long a node must have been gone before that counts; 0 means at once.
	NodeGoneDelay time.Duration
	// Conditions are about the node, TargetConditions about the target's own object.
	Conditions, TargetConditions []ConditionCriterion
	// Groups are about several conditions of the node that hold together.
	Groups []ConditionGroup
}

// equal reports whether two sets of criteria judge alike. TestCriteriaDifferByEachField sees to it that no field is forgotten.
func (c *Criteria) equal(other *Criteria) bool {
	return c.NodeStartup == other.NodeStartup && c.NodeGoneDelay == other.NodeGoneDelay &&
		slices.Equal(c.Conditions, other.Conditions) && slices.Equal(c.TargetConditions, other.TargetConditions) &&
		slices.EqualFunc(c.Groups, other.Groups, func(g, h ConditionGroup) bool { return g.For == h.For && slices.Equal(g.Tests, h.Tests) })
}

// ConditionCriterion holds when a condition has had Status for the whole of For.
type ConditionCriterion struct {
	Type, Status string
	For          time.Duration
	// Reclaims is set for a condition that says that the target goes away in any case, since its instance is taken back.
	Reclaims bool
}

// Step is one step of a repair.
type Step struct {
	// Remedy names the remedy that takes this step.
	Remedy string
	// Nature is the kind of the remedy.
	Nature Nature
	// Template is what the remedy makes its request from, for remedies that need one.
	Template Reference
	// Limit is how long the step may take before the next one is taken; 0 is no limit.
	Limit time.Duration
	// Problem says in a sentence why the step can't be taken now, and is empty when it can. Missing is set
	// when that is because the template does not exist, Pending when it is not known yet whether it can.
	Problem          string
	Missing, Pending bool
}

// StepsKnown reports whether it is known of each step whether it can be taken. Without that, neither a status nor an
// event says anything.
func (p *Policy) StepsKnown() bool {
	return !slices.ContainsFunc(p.Steps, func(s Step) bool { return s.Pending })
}

// equal reports whether two steps do the same. Their limits may differ.
func (s *Step) equal(other *Step) bool {
	return s.Remedy == other.Remedy && s.Nature == other.Nature && s.Template == other.Template
}

// Reference names an object as users do, without a UID.
type Reference struct {
	APIVersion, Kind, Namespace, Name string
}

// String returns the reference as a user would write it.
func (r Reference) String() string {
	return ID{Kind: r.Kind, Namespace: r.Namespace, Name: r.Name}.String()
}

// Amount is a number of targets, given as such or as a share of a total.
type Amount struct {
	Number    int
	Percent   bool
	Unlimited bool
}

// Unlimited is the Amount that is never exceeded.
func Unlimited() Amount { return Amount{Unlimited: true} }

// Count is an Amount given as a number.
func Count(n int) Amount { return Amount{Number: n} }

// Percent is an Amount given as a share of a hundred.
func Percent(n int) Amount { return Amount{Number: n, Percent: true} }

// FloorOf is the amount as a number of total, rounded down and never below zero.
func (a Amount) FloorOf(total int) int {
	switch {
	case a.Unlimited:
		return total
	case a.Percent:
		return max(0, int(int64(a.Number)*int64(total)/100))
	}
	return max(0, a.Number)
}

// CeilOf is the amount as a number of total, rounded up, from zero to total.
func (a Amount) CeilOf(total int) int {
	switch {
	case a.Unlimited:
		return total
	case a.Percent:
		return max(0, int((int64(min(a.Number, 100))*int64(total)+99)/100))
	}
	return max(0, min(total, a.Number))
}

// String returns the amount as an administrator would write it.
func (a Amount) String() string {
	switch {
	case a.Unlimited:
		return "unlimited"
	case a.Percent:
		return strconv.Itoa(a.Number) + "%"
	}
	return strconv.Itoa(a.Number)
}

// ShortCircuit stops all repairs of a policy while the number of its members that are not healthy
// is outside of what the administrator expects. The zero value permits nothing while any is.
type ShortCircuit struct {
	MaxUnhealthy Amount
	// MinHealthy, when set, replaces MaxUnhealthy by how many members must be healthy.
	MinHealthy *Amount
	// Range, when set, replaces both.
	Range *Range
	// Shut permits nothing, whatever the number is and even while all members are healthy.
	Shut bool
}

// Range is an inclusive range of numbers of targets.
type Range struct {
	From, To int
}

// MaxUnhealthyOf is the largest number of unhealthy members, out of total, at which repairs go on. Shares are
// rounded so that it is the smaller of two.
func (s ShortCircuit) MaxUnhealthyOf(total int) int {
	switch {
	case s.Range != nil:
		return s.Range.To
	case s.MinHealthy != nil:
		return total - s.MinHealthy.CeilOf(total)
	}
	return s.MaxUnhealthy.FloorOf(total)
}

// Permits reports whether repairs go on at this number of unhealthy members out of total.
func (s ShortCircuit) Permits(unhealthy, total int) bool {
	if s.Shut || (s.Range != nil && unhealthy < s.Range.From) {
		return false
	}
	return unhealthy <= s.MaxUnhealthyOf(total)
}

// Repairs reports whether the policy may have anything repaired: it can be followed, is not paused, and is no dry run.
func (p *Policy) Repairs() bool { return p.Problem == "" && !p.Paused && !p.DryRun }

// ConditionGroup holds when all its tests have held together for the whole of For. A group without tests never holds.
type ConditionGroup struct {
	Tests []ConditionTest
	For   time.Duration
}

// ConditionTest is a test of one condition of a node.
type ConditionTest struct {
	// Type is the type of the condition, and Status the status that it must have.
	Type, Status string
	// Reason is a pattern that the condition's reason must match. Each * in it stands for any text; an empty pattern matches every
	// reason.
	Reason string
	// Missing is set for a test that holds while the node has no condition of the type. Such a test has no Status and no Reason.
	Missing bool
}

// String returns the test as a clause.
func (c *ConditionTest) String() string {
	switch {
	case c.Missing:
		return "node condition " + c.Type + " has been missing"
	case c.Reason != "":
		return fmt.Sprintf("node condition %s=%s with a reason like %s", c.Type, c.Status, c.Reason)
	}
	return fmt.Sprintf("node condition %s=%s", c.Type, c.Status)
}

// String returns the tests of the group as clauses.
func (g *ConditionGroup) String() string {
	clauses := make([]string, len(g.Tests))
	for i := range g.Tests {
		clauses[i] = g.Tests[i].String()
	}
	return strings.Join(clauses, " and ")
}

// Remembered reports whether no time of a node tells since when the test holds. A condition that is missing has no time, and the
// transition time of a condition moves with its status alone, not with its reason. Such a test holds since it was first seen to
// hold, which is never too early. The creation of the node would be: the condition may have left a moment ago.
func (c *ConditionTest) Remembered() bool { return c.Missing || c.Reason != "" }

// Backoff paces the repairs of targets whose replacements fail too. The first repair of a pool is
// never delayed; the n-th replacement in a row that fails waits Base × 2^(n-1), at most Limit.
//
// After GiveUpAfter replacements in a row that fail the pool is given up; 0 is never. Repairs that started until ResumedAt don't count
// then.
type Backoff struct {
	Base, Limit time.Duration
	GiveUpAfter int
	ResumedAt   time.Time
}

// DefaultBackoff applies where a policy sets none (docs/reference/proposals.md#autoscaler-scenarios). Its limit lies
// above the 15 minutes within which the cluster autoscaler expects a machine to become a node. A pool whose machines
// are replaced sooner never looks broken to it.
func DefaultBackoff() Backoff {
	return Backoff{Base: 5 * time.Second, Limit: 20 * time.Minute, GiveUpAfter: defaultGiveUpAfter}
}

// Delay is the pause before the retry-th repair in a row; none before the first, retry 0.
func (b Backoff) Delay(retry int) time.Duration {
	if retry <= 0 {
		return 0
	}
	return doubled(b.Base, retry-1, b.Limit)
}

// defaultGiveUpAfter leaves time for an outage to pass. With the default pauses, targets that fail at once are given
// up after some 40 minutes. Targets that don't join within 10 minutes are given up after some two and a half hours.
const defaultGiveUpAfter = 10
