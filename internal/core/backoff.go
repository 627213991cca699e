package core

import (
	"slices"
	"time"
)

// unrelatedAfter is how long after the last repair of its pool a failure is taken for a new one
// rather than for a failed replacement (as minHealthyPeriod in docs/reference/proposals.md#cluster-api-guide).
const unrelatedAfter = time.Hour

// The pauses after a remedy's call was refused: they double from the first to the longest.
const (
	firstAttemptPause   = time.Second
	longestAttemptPause = 5 * time.Minute
)

// nextAttempt is when the remedy of a repair may be called again.
func (r *Repair) nextAttempt() time.Time {
	if r.Attempts == 0 {
		return time.Time{}
	}
	return r.LastAttempt.Add(doubled(firstAttemptPause, r.Attempts-1, longestAttemptPause))
}

// pool is what the ledger and the fleet tell of the targets of one owner.
type pool struct {
	repairs []int
	// lastStart is when the youngest repair of the pool started, this pass included.
	lastStart time.Time
	// healthyCreated is when the youngest healthy target was created: a replacement that works shows that
	// the pool can make working ones.
	healthyCreated time.Time
	// ranCreated is when the youngest target was created that has lived for a while before it failed.
	ranCreated time.Time
	// youngestUnhealthy is the youngest target that is not healthy, none where there is none.
	youngestUnhealthy int
}

// retryOf tells how many replacements in a row have failed before the target of a proposal, which is included. It is the longest
// streak that the target may continue: the repair of an old target in between does not end it. A person, or another template, does.
func (d *planner) retryOf(p *proposal) (retry int, relapsed bool) {
	t, resumed := &d.cluster.Targets[p.target], Backoff{ResumedAt: d.resumedAt(p)}
	since := d.startOf(p)
	if r := d.lastOwnRepair(t, since); r != nil && !resumed.forgives(r) {
		retry, relapsed = r.Retry+1, true
	}
	of := d.pools[t.Owner]
	if of == nil || t.Owner.UID == "" {
		return retry, relapsed
	}
	for _, i := range of.repairs {
		r := &d.cluster.Repairs[i]
		counts := r.precedes(t) && r.Started.After(of.healthyCreated) && since.Sub(r.Started) < unrelatedAfter && r.Retry >= retry
		if counts && !resumed.forgives(r) && !t.templateChanged(r) {
			retry, relapsed = r.Retry+1, false
		}
	}
	return retry, relapsed
}

// startOf returns when the failure of a proposal began: now, where no criterion has a time. Where a process that has started since may
// have forgotten when, it is the earliest time that there is, so that a failure stays one in a row (I6).
func (d *planner) startOf(p *proposal) time.Time {
	v, t := p.verdict, &d.cluster.Targets[p.target]
	if c := &d.policies[v.Policy].Criteria; v.Reason == ConditionsMet && c.mayBeOlder(t) {
		return c.datedSince(t)
	}
	if v.Since.IsZero() || v.Since.After(d.now) {
		return d.now
	}
	return v.Since
}

// lastOwnRepair returns the last repair of the target itself, when that has not lasted until a failure that began at an instant; nil
// otherwise.
func (d *planner) lastOwnRepair(t *Target, since time.Time) *Repair {
	last, known := d.ended[t.ID.backoffID()]
	if !known {
		return nil
	}
	if r := &d.cluster.Repairs[last]; since.Sub(r.Ended) < unrelatedAfter {
		return r
	}
	return nil
}

// paceFrom returns the instant from which the pause before a repair runs: the start of the last repair of its pool, or the
// instant at which the replacement failed, or the end of the last repair of the target itself, whichever is the latest. A
// replacement may take longer to fail than any pause, as a machine does that never joins.
func (d *planner) paceFrom(p *proposal) time.Time {
	t := &d.cluster.Targets[p.target]
	var from time.Time
	if of := d.pools[t.Owner]; of != nil && t.Owner.UID != "" {
		from = of.lastStart
		if !p.relapsed {
			from = latest(from, d.failedAt(p.verdict))
		}
	}
	if last, known := d.ended[t.ID.backoffID()]; known && d.cluster.Repairs[last].Ended.After(from) {
		from = d.cluster.Repairs[last].Ended
	}
	return from
}

// failedAt returns when the target of an unhealthy verdict became so; zero when that is not known. It lies in the past, whatever a
// clock has told.
func (d *planner) failedAt(v *Verdict) time.Time {
	at := v.Since.Add(v.Limit)
	switch {
	case v.Since.IsZero():
		return time.Time{}
	case at.After(d.now):
		return d.now
	}
	return at
}

// precedes reports whether t may be a replacement that the repair brought about. Creation times are
// whole seconds, so one in the same second counts unless the target is known to be older.
func (r *Repair) precedes(t *Target) bool {
	if r.Target == t.ID || t.Created.Before(r.Started.Truncate(time.Second)) {
		return false
	}
	return !slices.Contains(r.CreatedSameSecond, t.ID.UID)
}
