package core

import "time"

// A pool is given up when its replacements have failed too often in a row. No target of it is
// repaired then, until a user resumes repairs, its owner has another template, or a younger target
// is healthy. The ledger has the repairs, so a restart forgets nothing.

// givesUp reports whether a repair is the last that is allowed in a row if it does not help.
func (b Backoff) givesUp(r *Repair) bool { return b.GiveUpAfter > 0 && r.Retry+1 >= b.GiveUpAfter }

// forgives reports whether a user resumed repairs after a repair had started. That time has whole
// seconds, so a repair that starts later in the same second is the first one after it.
func (b Backoff) forgives(r *Repair) bool { return !r.Started.After(b.ResumedAt) }

// templateChanged reports whether the owner of a target has another template than at the start of a
// repair. An unknown template counts as the same.
func (t *Target) templateChanged(r *Repair) bool {
	return t.OwnerTemplate != "" && r.OwnerTemplate != "" && t.OwnerTemplate != r.OwnerTemplate
}

// givenUp returns how many repairs in a row have not helped a target or its pool. It returns 0
// unless the policy gives up after as many. Relapsed is set for repairs of the target itself.
func (d *planner) givenUp(policy int, p *proposal) (failed int, relapsed bool) {
	b, t := d.policies[policy].Backoff, &d.cluster.Targets[p.target]
	b.ResumedAt = d.resumedBy(policy)
	if r := d.lastOwnRepair(t, d.startOf(p)); r != nil && b.givesUp(r) && !b.forgives(r) {
		return r.Retry + 1, true
	}
	of := d.pools[t.Owner]
	if of == nil || of.youngestUnhealthy == none {
		return 0, false
	}
	youngest := &d.cluster.Targets[of.youngestUnhealthy]
	for _, i := range of.repairs {
		r := &d.cluster.Repairs[i]
		counts := b.givesUp(r) && !b.forgives(r) && !t.templateChanged(r)
		if counts && r.precedes(youngest) && r.Started.After(of.healthyCreated) && r.Started.After(of.ranCreated) {
			failed = max(failed, r.Retry+1)
		}
	}
	return failed, false
}

// resumedAt returns the instant before which the repairs of a target's series don't count: each
// policy that gives up has been resumed since. It is zero where there is none.
func (d *planner) resumedAt(p *proposal) time.Time {
	var at time.Time
	for _, i := range d.verdictsOnGroup(p.target) {
		policy := d.decision.Verdicts[i].Policy
		b := &d.policies[policy].Backoff
		if b.GiveUpAfter == 0 || (d.policies[policy].DryRun && policy != p.leader) {
			continue
		}
		resumed := d.resumedBy(policy)
		if resumed.IsZero() {
			return time.Time{}
		}
		if at.IsZero() || resumed.Before(at) {
			at = resumed
		}
	}
	return at
}

// resumedBy returns when a policy was resumed; zero where it was not. A time in the future counts
// once it has come. Otherwise repairs would have no bound until then.
func (d *planner) resumedBy(policy int) time.Time {
	at := d.policies[policy].Backoff.ResumedAt
	if at.After(d.now) {
		d.wakeAt(at)
		return time.Time{}
	}
	return at
}

// findUnhealthy finds the youngest unhealthy target of each pool, which the last repair may have
// brought about. It also finds the youngest target that ran for a while before it failed: the pool
// can create such targets.
func (d *planner) findUnhealthy(healthy []Tri) {
	for i := range d.cluster.Targets {
		t := &d.cluster.Targets[i]
		if p := d.pools[t.Owner]; p != nil && healthy[i] == No && (p.youngestUnhealthy == none || d.younger(t, &d.cluster.Targets[p.youngestUnhealthy])) {
			p.youngestUnhealthy = i
		}
	}
	for i := range d.decision.Verdicts {
		v := &d.decision.Verdicts[i]
		t := &d.cluster.Targets[v.Target]
		if p := d.pools[t.Owner]; p != nil && !d.policies[v.Policy].DryRun && d.ranBeforeFailing(v) {
			p.ranCreated = latest(p.ranCreated, t.Created)
		}
	}
}

// ranBeforeFailing reports whether the target of a verdict had a node for a while before it failed.
// A user's request is no failure, so the criteria judge its target, which may be healthy.
func (d *planner) ranBeforeFailing(v *Verdict) bool {
	t, c := &d.cluster.Targets[v.Target], &d.policies[v.Policy].Criteria
	if v.Reason != RemediationRequested {
		return t.ranBeforeFailing(c, v)
	}
	own := *t
	own.RemediationRequested = false
	w := judge(&d.policies[v.Policy], &own, d.now)
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

func (d *planner) younger(t, other *Target) bool {
	if order := t.Created.Compare(other.Created); order != 0 {
		return order > 0
	}
	return t.ID.Compare(other.ID) < 0
}

// addGivenUp adds to the reports what their policies have given up, each once: pools by their
// owners, and targets that fail again themselves.
func (d *Decision) addGivenUp(reports []PolicyReport, cluster *Cluster) {
	type given struct {
		policy int
		id     ID
	}
	seen := map[given]bool{}
	for i := range d.Refusals {
		r := &d.Refusals[i]
		if r.Gate != PoolGivenUp || r.DryRun {
			continue
		}
		id := cluster.Targets[r.Target].Owner
		if r.Relapsed {
			id = cluster.Targets[r.Target].ID
		}
		if key := (given{r.Policy, id}); !seen[key] {
			seen[key] = true
			reports[r.Policy].GivenUp = append(reports[r.Policy].GivenUp, id)
		}
	}
}
