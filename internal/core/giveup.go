package core

import "time"

// A pool is given up when its replacements have failed too often in a row. Nothing in it is repaired then, until a person has it
// resumed, its owner has another template, or one of its younger targets is healthy. The repairs tell, so a restart forgets nothing.

// givesUp reports whether a repair is the last of as many in a row as are allowed, when it does not help.
func (b Backoff) givesUp(r *Repair) bool { return b.GiveUpAfter > 0 && r.Retry+1 >= b.GiveUpAfter }

// forgives reports whether a person has had repairs resumed since a repair started. People give the time in whole seconds, so a repair
// that starts later in the same second is taken for the first after that.
func (b Backoff) forgives(r *Repair) bool { return !r.Started.After(b.ResumedAt) }

// remade reports whether the owner of a target has another template than when a repair started. A template that is not known is
// taken for the same.
func (t *Target) remade(r *Repair) bool {
	return t.OwnerTemplate != "" && r.OwnerTemplate != "" && t.OwnerTemplate != r.OwnerTemplate
}

// givenUp returns how many repairs in a row have not helped a target, or its pool, where a policy gives up after as many; 0 where it
// does not. Relapsed is set where they were of the target itself.
func (d *deliberation) givenUp(policy int, p *proposal) (failed int, relapsed bool) {
	b, t := d.policies[policy].Backoff, &d.fleet.Targets[p.target]
	b.ResumedAt = d.resumedBy(policy)
	if r := d.lastOfItsOwn(t, d.startOf(p)); r != nil && b.givesUp(r) && !b.forgives(r) {
		return r.Retry + 1, true
	}
	of := d.pools[t.Owner]
	if of == nil || t.Owner.UID == "" || of.heir == none {
		return 0, false
	}
	heir := &d.fleet.Targets[of.heir]
	for _, i := range of.repairs {
		r := &d.fleet.Repairs[i]
		counts := b.givesUp(r) && !b.forgives(r) && !t.remade(r)
		if counts && r.precedes(heir) && r.Started.After(of.proven) && r.Started.After(of.lived) {
			failed = max(failed, r.Retry+1)
		}
	}
	return failed, false
}

// resumedAt returns the instant before which the repairs of a target's series are forgiven: since then each policy has been resumed
// that gives up at all. It is zero where there is none.
func (d *deliberation) resumedAt(p *proposal) time.Time {
	var at time.Time
	for _, i := range d.judgementsOf(p.target) {
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

// resumedBy returns when a policy was resumed; zero where it was not. A time that is to come counts once it has come: repairs would
// have no end until then.
func (d *deliberation) resumedBy(policy int) time.Time {
	at := d.policies[policy].Backoff.ResumedAt
	if at.After(d.now) {
		d.wakeAt(at)
		return time.Time{}
	}
	return at
}

// findHeirs finds the youngest target of each pool that is not healthy, which the last repair may have brought about, and the youngest
// that has lived for a while before it failed: the pool can make such.
func (d *deliberation) findHeirs(sound []Tri) {
	for i := range d.fleet.Targets {
		t := &d.fleet.Targets[i]
		if p := d.pools[t.Owner]; p != nil && sound[i] == No && (p.heir == none || d.younger(t, &d.fleet.Targets[p.heir])) {
			p.heir = i
		}
	}
	for i := range d.decision.Verdicts {
		v := &d.decision.Verdicts[i]
		t := &d.fleet.Targets[v.Target]
		if p := d.pools[t.Owner]; p != nil && !d.policies[v.Policy].DryRun && d.lived(v) {
			p.lived = latest(p.lived, t.Created)
		}
	}
}

// lived reports whether the target of a verdict had a node for a while before it failed. What a person asks for is no failure, so the
// criteria tell of such a target: it may well be healthy. The target itself is not known to have lived where its node is gone.
func (d *deliberation) lived(v *Verdict) bool {
	t, c := &d.fleet.Targets[v.Target], &d.policies[v.Policy].Criteria
	if v.Reason != PersonAsked {
		return t.livedUntil(c, v)
	}
	own := *t
	own.Condemned = false
	w := judge(&d.policies[v.Policy], &own, d.now)
	return (w.Health == Healthy && w.Reason != Premature) || t.livedUntil(c, &w)
}

// livedUntil reports whether a target had a node for a while before it failed as a verdict by the criteria says.
func (t *Target) livedUntil(c *Criteria, v *Verdict) bool {
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

func (d *deliberation) younger(t, other *Target) bool {
	if order := t.Created.Compare(other.Created); order != 0 {
		return order > 0
	}
	return t.ID.Compare(other.ID) < 0
}

// fileGivenUp adds to the reports what their policies have given up, without repetition: pools by their owners, and targets that fail
// again themselves.
func (d *Decision) fileGivenUp(reports []PolicyReport, fleet *Fleet) {
	type given struct {
		policy int
		id     ID
	}
	seen := map[given]bool{}
	for i := range d.Refusals {
		r := &d.Refusals[i]
		if r.Gate != PoolGivenUp || r.Rehearsed {
			continue
		}
		id := fleet.Targets[r.Target].Owner
		if r.Relapsed {
			id = fleet.Targets[r.Target].ID
		}
		if key := (given{r.Policy, id}); !seen[key] {
			seen[key] = true
			reports[r.Policy].GivenUp = append(reports[r.Policy].GivenUp, id)
		}
	}
}
