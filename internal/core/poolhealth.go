package core

import "time"

// poolHealth holds what the targets of one owner show.
type poolHealth struct {
	// healthyCreated is when the youngest healthy target was created. A healthy replacement shows
	// that the pool can create healthy targets.
	healthyCreated time.Time
	// ranCreated is when the youngest target was created that ran for a while before it failed.
	ranCreated time.Time
	// youngestUnhealthy is the index of the youngest unhealthy target, or none.
	youngestUnhealthy int
}

// unrelatedAfter separates failures. A failure that begins later than this after the last repair of
// its pool is a new one, and not a failed replacement. It corresponds to minHealthyPeriod in
// docs/reference/proposals.md#cluster-api-guide.
const unrelatedAfter = time.Hour

// findPoolHealth finds the health of each pool with repairs.
func (x *verdictIndex) findPoolHealth() {
	x.poolHealth = make(map[ID]*poolHealth, len(x.pools))
	for owner := range x.pools {
		x.poolHealth[owner] = &poolHealth{youngestUnhealthy: none}
	}
	healthy := x.healthyTargets(deletedHealthy)
	x.findHealthy(healthy)
	x.findUnhealthy(healthy)
	x.findRanCreated()
}

// findHealthy finds the youngest healthy target of each pool.
func (x *verdictIndex) findHealthy(healthy []Tri) {
	youngest := map[ID]HealthyTarget{}
	for i := range x.cluster.Targets {
		t := &x.cluster.Targets[i]
		if x.poolHealth[t.Owner] == nil || healthy[i] != Yes {
			continue
		}
		p := HealthyTarget{Target: t.ID, Created: t.Created}
		if known, is := youngest[t.Owner]; !is || p.younger(&known) {
			youngest[t.Owner] = p
		}
	}
	for owner, p := range x.poolHealth {
		p.healthyCreated = latest(youngest[owner].Created, x.cluster.HealthyCreated[owner])
	}
	x.youngestHealthy = youngest
}

// findUnhealthy finds the youngest unhealthy target of each pool, which the last repair may have
// brought about.
func (x *verdictIndex) findUnhealthy(healthy []Tri) {
	for i := range x.cluster.Targets {
		t := &x.cluster.Targets[i]
		if p := x.poolHealth[t.Owner]; p != nil && healthy[i] == No && (p.youngestUnhealthy == none || t.younger(&x.cluster.Targets[p.youngestUnhealthy])) {
			p.youngestUnhealthy = i
		}
	}
}

// findRanCreated finds the youngest target of each pool that ran for a while before it
// failed: the pool can create such targets.
func (x *verdictIndex) findRanCreated() {
	for i := range x.verdicts {
		v := &x.verdicts[i]
		t := &x.cluster.Targets[v.Target]
		if p := x.poolHealth[t.Owner]; p != nil && !x.policies[v.Policy].DryRun && x.ranBeforeFailing(v) {
			p.ranCreated = latest(p.ranCreated, t.Created)
		}
	}
}

// healthyTargets reports for each target whether every policy that acts finds it healthy. The verdict of one policy is
// not enough: it would end the back-off of another that finds the target unhealthy. Verdicts that also reports count as
// healthy too; it may be nil.
func (x *judgement) healthyTargets(also func(*Verdict) bool) []Tri {
	sound := make([]Tri, len(x.cluster.Targets))
	for i := range x.verdicts {
		v := &x.verdicts[i]
		switch {
		case x.policies[v.Policy].DryRun:
		case v.Reason == Premature, v.Health != Healthy && (also == nil || !also(v)):
			sound[v.Target] = No
		case sound[v.Target] == Unknown:
			sound[v.Target] = Yes
		}
	}
	return sound
}

// deletedHealthy reports whether a target is being deleted that met no criterion.
func deletedHealthy(v *Verdict) bool { return v.Health == Gone && !v.WasUnhealthy }

// ranBeforeFailing reports whether the target of a verdict had a node for a while before it failed.
// A user's request is no failure, so the criteria judge its target, which may be healthy.
func (x *judgement) ranBeforeFailing(v *Verdict) bool {
	t, c := &x.cluster.Targets[v.Target], &x.policies[v.Policy].Criteria
	if v.Reason != RemediationRequested {
		return t.ranBeforeFailing(c, v)
	}
	own := *t
	own.RemediationRequested = false
	w := judge(&x.policies[v.Policy], &own, x.now)
	return (w.Health == Healthy && w.Reason != Premature) || t.ranBeforeFailing(c, &w)
}

// ranBeforeFailing reports whether a target had a node for a while before the failure of a verdict
// by the criteria. It is not known to have had one where its node is gone.
func (t *Target) ranBeforeFailing(c *Criteria, v *Verdict) bool {
	from := v.Since
	switch v.Reason { //nolint:exhaustive // the others don't tell
	case ConditionMet:
	case ConditionsMet:
		from = c.datedSince(t)
	case TargetFailed, TargetConditionMet:
		if t.Node.State == NodeAwaited {
			return false
		}
	default:
		return false
	}
	return from.Sub(t.Created) >= unrelatedAfter
}

// younger orders targets by creation. Of targets created in the same second the first by ID counts.
func (t *Target) younger(other *Target) bool {
	if order := t.Created.Compare(other.Created); order != 0 {
		return order > 0
	}
	return t.ID.Compare(other.ID) < 0
}
