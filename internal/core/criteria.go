package core

import (
	"slices"
	"time"
)

// A criterion checks one target. It reports false when it has no finding.
type criterion func(c *Criteria, t *Target, now time.Time) (finding, bool)

type finding struct {
	health    Health
	reason    Reason
	since     time.Time
	until     time.Time
	limit     time.Duration
	criterion *ConditionCriterion
	detail    string
}

// The criteria, in the order in which today's controllers check them. The first finding of
// unhealthy or undetermined decides. Otherwise the suspicion that ends first does.
var criteria = [...]criterion{
	parsable,
	remediationRequested,
	notPremature,
	failed,
	targetConditions,
	nodeInTime,
	nodeExists,
	nodeConditions,
	externallyRemediated,
}

// judge returns the verdict of one policy on one target. Nearly every target is healthy, and each
// decision judges all of them.
func judge(p *Policy, t *Target, now time.Time) Verdict {
	best, remarkable := examine(p, t, now)
	if !remarkable {
		v := Verdict{Health: Healthy, Reason: NoCriterionMet}
		if t.Deleting {
			v.Health = Gone
		}
		return v
	}
	v := Verdict{Health: best.health, Reason: best.reason, Since: best.since, Until: best.until, Limit: best.limit, Detail: best.detail}
	if best.criterion != nil {
		v.Criterion = *best.criterion
	}
	if t.Deleting {
		v.WasUnhealthy = v.Health != Healthy
		v.Health, v.Until = Gone, time.Time{}
	}
	return v
}

// examine checks the criteria, and reports whether any of them has a finding.
func examine(p *Policy, t *Target, now time.Time) (finding, bool) {
	var best finding
	remarkable := false
	for _, check := range criteria {
		f, found := check(&p.Criteria, t, now)
		switch {
		case !found:
		case f.health != Suspect || f.reason == Premature:
			return f, true
		case !remarkable || sooner(f.until, best.until):
			best, remarkable = f, true
		}
	}
	return best, remarkable
}

// parsable finds a target undetermined while some of its facts can't be read, since the others may
// be as wrong.
func parsable(_ *Criteria, t *Target, _ time.Time) (finding, bool) {
	return finding{health: Undetermined, reason: TargetUnreadable, detail: t.Problem}, t.Problem != ""
}

// remediationRequested finds a target unhealthy that a user has marked. The mark outweighs all
// facts.
func remediationRequested(_ *Criteria, t *Target, _ time.Time) (finding, bool) {
	return finding{health: Unhealthy, reason: RemediationRequested}, t.RemediationRequested
}

// notPremature finds a target suspect before its time. A target with a node counts as healthy, as
// in today's Cluster API (docs/reference/cluster-api.md#counting). So it does not change the limits
// of the others.
func notPremature(_ *Criteria, t *Target, _ time.Time) (finding, bool) {
	f := finding{health: Suspect, reason: Premature, detail: t.Premature}
	if t.Node.State == NodePresent {
		f.health = Healthy
	}
	return f, t.Premature != ""
}

// failed finds a machine unhealthy at once whose status says that it can't recover.
func failed(_ *Criteria, t *Target, _ time.Time) (finding, bool) {
	if !t.Failed {
		return finding{}, false
	}
	return finding{health: Unhealthy, reason: TargetFailed, since: t.FailedSince}, true
}

// nodeInTime finds a target without a node suspect, and unhealthy after the node startup timeout.
func nodeInTime(c *Criteria, t *Target, now time.Time) (finding, bool) {
	if t.Node.State != NodeAwaited {
		return finding{}, false
	}
	f := finding{health: Suspect, reason: NodeStartupTimeout, since: t.StartupFrom, limit: c.NodeStartup}
	if c.NodeStartup > 0 && !t.StartupFrom.IsZero() {
		f.health, f.until = deadline(t.StartupFrom, c.NodeStartup, now)
	}
	return f, true
}

// nodeExists finds a target unhealthy whose node is gone, once a live read has confirmed that. A
// cache that lags must not condemn a machine that has just joined. A target that is a node itself
// is gone with it, and an object that has its name by now is another (I11).
func nodeExists(c *Criteria, t *Target, now time.Time) (finding, bool) {
	switch t.Node.State {
	case NodeGone:
		if t.ID.IsNode() {
			return finding{health: Gone, reason: NodeNotFound}, true
		}
		return nodeGone(c, t, now), true
	case NodeUnseen:
		return finding{health: Undetermined, reason: NodeUnconfirmed}, true
	case NodeAwaited, NodePresent:
	}
	return finding{}, false
}

// nodeGone returns the finding on a missing node. The delay runs since a live read did not find it,
// or from now where that time is not known.
func nodeGone(c *Criteria, t *Target, now time.Time) finding {
	if c.NodeGoneDelay <= 0 {
		return finding{health: Unhealthy, reason: NodeNotFound}
	}
	f := finding{reason: NodeNotFound, since: t.NodeGoneSince, limit: c.NodeGoneDelay}
	from := t.NodeGoneSince
	if from.IsZero() {
		from = now
	}
	f.health, f.until = deadline(from, c.NodeGoneDelay, now)
	return f
}

// targetConditions checks the conditions of the target's own object, whatever the state of the
// node.
func targetConditions(c *Criteria, t *Target, now time.Time) (finding, bool) {
	f, found := conditionsHeld(c.TargetConditions, t.Conditions, now)
	switch f.reason { //nolint:exhaustive // the two that there are
	case ConditionMet:
		f.reason = TargetConditionMet
	case ConditionUntimed:
		f.reason = TargetConditionUntimed
	}
	return f, found
}

// nodeConditions checks the conditions of the node. A part that was not read may have the condition
// that a criterion names, or contradict it. Then only the criteria about nodes find the target
// undetermined: a node can't hide its machine from the other criteria.
func nodeConditions(c *Criteria, t *Target, now time.Time) (finding, bool) {
	if t.Node.Unread != "" && len(c.Conditions)+len(c.Groups) > 0 {
		return finding{health: Undetermined, reason: TargetUnreadable, detail: "its node can't be read as a whole: " + t.Node.Unread}, true
	}
	f, found := conditionsHeld(c.Conditions, t.Node.Conditions, now)
	if len(c.Groups) == 0 || f.health == Unhealthy {
		return f, found
	}
	g, matches := groupsHeld(c.Groups, t, now)
	if matches && (!found || g.health == Unhealthy || worse(g, f)) {
		return g, true
	}
	return f, found
}

// conditionsHeld returns the first finding of unhealthy, or else the worst. The clock of each
// condition starts at its last transition.
func conditionsHeld(want []ConditionCriterion, have []Condition, now time.Time) (finding, bool) {
	var soonest finding
	found := false
	for i := range want {
		f, matches := conditionHeld(&want[i], have, now)
		switch {
		case !matches:
		case f.health == Unhealthy:
			return f, true
		case !found || worse(f, soonest):
			soonest, found = f, true
		}
	}
	return soonest, found
}

// conditionHeld returns the finding of one criterion. Of several conditions of one type all must
// have the status, and the latest of their times counts.
func conditionHeld(want *ConditionCriterion, have []Condition, now time.Time) (finding, bool) {
	m := (&ConditionTest{Type: want.Type, Status: want.Status}).match(have)
	if !m.holds {
		return finding{}, false
	}
	f := finding{reason: ConditionMet, since: m.since, limit: want.For, criterion: want}
	if m.untimed && want.For > 0 {
		f.health, f.reason, f.since = Undetermined, ConditionUntimed, time.Time{}
		return f, true
	}
	f.health, f.until = deadline(m.since, want.For, now)
	return f, true
}

// externallyRemediated finds a target suspect while an outside remediator repairs it.
func externallyRemediated(_ *Criteria, t *Target, _ time.Time) (finding, bool) {
	return finding{health: Suspect, reason: ExternalRemediation}, t.ExternallyRemediated
}

// deadline returns Unhealthy from since plus limit on, and before that Suspect with that instant.
func deadline(since time.Time, limit time.Duration, now time.Time) (Health, time.Time) {
	at := since.Add(limit)
	if now.Before(at) {
		return Suspect, at
	}
	return Unhealthy, time.Time{}
}

// worse reports whether a is undetermined and b is not, or ends sooner than b.
func worse(a, b finding) bool {
	if a.health != b.health {
		return a.health == Undetermined
	}
	return sooner(a.until, b.until)
}

// FindingsBy returns all findings that make a target unhealthy. The user's request that the verdict
// names comes first.
func (c *Criteria) FindingsBy(v *Verdict, t *Target, now time.Time) []Verdict {
	found := c.Findings(t, now)
	if v.Reason == RemediationRequested && !t.RemediationRequested {
		found = append([]Verdict{*v}, found...)
	}
	return found
}

// Findings returns a verdict for each criterion and condition that makes a target unhealthy at an
// instant, in the order of the checks.
func (c *Criteria) Findings(t *Target, now time.Time) []Verdict {
	var found []Verdict
	add := func(f finding, met bool) {
		if !met || f.health != Unhealthy {
			return
		}
		v := Verdict{Health: f.health, Reason: f.reason, Since: f.since, Limit: f.limit, Detail: f.detail}
		if f.criterion != nil {
			v.Criterion = *f.criterion
		}
		found = append(found, v)
	}
	add(remediationRequested(c, t, now))
	add(failed(c, t, now))
	for i := range c.TargetConditions {
		add(targetConditions(&Criteria{TargetConditions: c.TargetConditions[i : i+1]}, t, now))
	}
	add(nodeInTime(c, t, now))
	add(nodeExists(c, t, now))
	for i := range c.Conditions {
		add(nodeConditions(&Criteria{Conditions: c.Conditions[i : i+1]}, t, now))
	}
	for i := range c.Groups {
		add(nodeConditions(&Criteria{Groups: c.Groups[i : i+1]}, t, now))
	}
	return found
}

// names reports whether a criterion is about a node condition of the type.
func (c *Criteria) names(kind string) bool {
	return slices.ContainsFunc(c.Conditions, func(want ConditionCriterion) bool { return want.Type == kind }) ||
		slices.ContainsFunc(c.Groups, func(g ConditionGroup) bool {
			return slices.ContainsFunc(g.Tests, func(test ConditionTest) bool { return test.Type == kind })
		})
}
