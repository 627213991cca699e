package core

import (
	"slices"
	"time"
)

// The pauses after a refused call of a remedy double from the first to the longest.
const (
	firstAttemptPause   = time.Second
	longestAttemptPause = 5 * time.Minute
)

// nextAttempt returns when the remedy of a repair may be called again.
func (r *Repair) nextAttempt() time.Time {
	if r.Attempts == 0 {
		return time.Time{}
	}
	return r.LastAttempt.Add(doubled(firstAttemptPause, r.Attempts-1, longestAttemptPause))
}

// retryOf returns how many replacements in a row have failed, the target of the proposal included.
// It is the longest series that the target may continue. A repair of an older target in between
// does not end a series. A user who resumes repairs does, and so does another template.
func (x *verdictIndex) retryOf(p *proposal) (retry int, relapsed bool) {
	t, resumed := &x.cluster.Targets[p.target], Backoff{ResumedAt: x.resumedAt(p)}
	since := x.startOf(p)
	if r := x.lastOwnRepair(t, since); r != nil && !resumed.forgives(r) {
		retry, relapsed = r.Retry+1, true
	}
	of, health := x.pools[t.Owner], x.poolHealth[t.Owner]
	if of == nil {
		return retry, relapsed
	}
	for _, i := range of.repairs {
		r := &x.cluster.Repairs[i]
		counts := r.precedes(t) && r.Started.After(health.healthyCreated) && since.Sub(r.Started) < unrelatedAfter && r.Retry >= retry
		if counts && !resumed.forgives(r) && !t.templateChanged(r) {
			retry, relapsed = r.Retry+1, false
		}
	}
	return retry, relapsed
}

// startOf returns when the failure of a proposal began: now, where no criterion has a time. A
// process that started since may have forgotten the time. Then it is the earliest possible time, so
// that the failure still counts as one in a row (I6).
func (in *input) startOf(p *proposal) time.Time {
	v, t := p.verdict, &in.cluster.Targets[p.target]
	if c := &in.policies[v.Policy].Criteria; v.Reason == ConditionsMet && c.mayBeOlder(t) {
		return c.datedSince(t)
	}
	if v.Since.IsZero() || v.Since.After(in.now) {
		return in.now
	}
	return v.Since
}

// lastOwnRepair returns the last repair of the target itself if the failure began within an hour of
// its end. Otherwise it returns nil.
func (x *repairIndex) lastOwnRepair(t *Target, since time.Time) *Repair {
	last, known := x.ended[t.ID.backoffID()]
	if !known {
		return nil
	}
	if r := &x.cluster.Repairs[last]; since.Sub(r.Ended) < unrelatedAfter {
		return r
	}
	return nil
}

// paceFrom returns the instant from which the pause before a repair runs. It is the latest of three
// instants. These are the start of the last repair of the pool, the failure of the replacement, and
// the end of the target's own last repair. A replacement may take longer to fail than any pause, as a
// machine does that never joins.
func (c *counts) paceFrom(p *proposal) time.Time {
	t := &c.cluster.Targets[p.target]
	var from time.Time
	if of := c.pools[t.Owner]; of != nil {
		from = of.lastStart
		if c.startedPools[t.Owner] {
			from = c.now
		}
		if !p.relapsed {
			from = latest(from, c.failedAt(p.verdict))
		}
	}
	if last, known := c.ended[t.ID.backoffID()]; known && c.cluster.Repairs[last].Ended.After(from) {
		from = c.cluster.Repairs[last].Ended
	}
	return from
}

// failedAt returns when the target of an unhealthy verdict became unhealthy; an instant long ago when
// that is not known. It is never later than now.
func (in *input) failedAt(v *Verdict) time.Time {
	if at := v.Since.Add(v.Limit); at.Before(in.now) {
		return at
	}
	return in.now
}

// precedes reports whether t may be a replacement that the repair brought about. Creation times are
// whole seconds, so a target created in the same second counts unless it is known to be older.
func (r *Repair) precedes(t *Target) bool {
	if r.Target == t.ID || t.Created.Before(r.Started.Truncate(time.Second)) {
		return false
	}
	return !slices.Contains(r.CreatedSameSecond, t.ID.UID)
}
