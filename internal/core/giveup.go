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
func (x *verdictIndex) givenUp(policy int, p *proposal) (failed int, relapsed bool) {
	b, t := x.policies[policy].Backoff, &x.cluster.Targets[p.target]
	b.ResumedAt = x.resumedBy(policy)
	if r := x.lastOwnRepair(t, x.startOf(p)); r != nil && b.givesUp(r) && !b.forgives(r) {
		return r.Retry + 1, true
	}
	of, health := x.pools[t.Owner], x.poolHealth[t.Owner]
	if of == nil || health.youngestUnhealthy == none {
		return 0, false
	}
	youngest := &x.cluster.Targets[health.youngestUnhealthy]
	for _, i := range of.repairs {
		r := &x.cluster.Repairs[i]
		counts := b.givesUp(r) && !b.forgives(r) && !t.templateChanged(r)
		if counts && r.precedes(youngest) && r.Started.After(health.healthyCreated) && r.Started.After(health.ranCreated) {
			failed = max(failed, r.Retry+1)
		}
	}
	return failed, false
}

// resumedAt returns the instant before which the repairs of a target's series don't count: each
// policy that gives up has been resumed since. It is zero where there is none.
func (x *verdictIndex) resumedAt(p *proposal) time.Time {
	var at time.Time
	for _, i := range x.verdictsOnGroup(p.target) {
		policy := x.verdicts[i].Policy
		b := &x.policies[policy].Backoff
		if b.GiveUpAfter == 0 || (x.policies[policy].DryRun && policy != p.leader) {
			continue
		}
		resumed := x.resumedBy(policy)
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
func (in *input) resumedBy(policy int) time.Time {
	at := in.policies[policy].Backoff.ResumedAt
	if at.After(in.now) {
		in.wakeAt(at)
		return time.Time{}
	}
	return at
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
