package core

import (
	"slices"
	"time"
)

// unrelatedAfter separates failures. A failure that begins later than this after the last repair of
// its pool is a new one, and not a failed replacement. It corresponds to minHealthyPeriod in
// docs/reference/proposals.md#cluster-api-guide.
const unrelatedAfter = time.Hour

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

// pool holds what the repairs and the targets of one owner show.
type pool struct {
	repairs []int
	// lastStart is when the youngest repair of the pool started, this pass included.
	lastStart time.Time
	// healthyCreated is when the youngest healthy target was created. A healthy replacement shows
	// that the pool can create healthy targets.
	healthyCreated time.Time
	// ranCreated is when the youngest target was created that ran for a while before it failed.
	ranCreated time.Time
	// youngestUnhealthy is the index of the youngest unhealthy target, or none.
	youngestUnhealthy int
}

// retryOf returns how many replacements in a row have failed, the target of the proposal included.
// It is the longest series that the target may continue. A repair of an older target in between
// does not end a series. A user who resumes repairs does, and so does another template.
func (d *planner) retryOf(p *proposal) (retry int, relapsed bool) {
	t, resumed := &d.cluster.Targets[p.target], Backoff{ResumedAt: d.resumedAt(p)}
	since := d.startOf(p)
	if r := d.lastOwnRepair(t, since); r != nil && !resumed.forgives(r) {
		retry, relapsed = r.Retry+1, true
	}
	of := d.pools[t.Owner]
	if of == nil {
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

// startOf returns when the failure of a proposal began: now, where no criterion has a time. A
// process that started since may have forgotten the time. Then it is the earliest possible time, so
// that the failure still counts as one in a row (I6).
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

// lastOwnRepair returns the last repair of the target itself if the failure began within an hour of
// its end. Otherwise it returns nil.
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

// paceFrom returns the instant from which the pause before a repair runs. It is the latest of three
// instants: the start of the last repair of the pool, the failure of the replacement, and the end
// of the target's own last repair. A replacement may take longer to fail than any pause, as a
// machine does that never joins.
func (d *planner) paceFrom(p *proposal) time.Time {
	t := &d.cluster.Targets[p.target]
	var from time.Time
	if of := d.pools[t.Owner]; of != nil {
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

// failedAt returns when the target of an unhealthy verdict became unhealthy; an instant long ago when
// that is not known. It is never later than now.
func (d *planner) failedAt(v *Verdict) time.Time {
	if at := v.Since.Add(v.Limit); at.Before(d.now) {
		return at
	}
	return d.now
}

// precedes reports whether t may be a replacement that the repair brought about. Creation times are
// whole seconds, so a target created in the same second counts unless it is known to be older.
func (r *Repair) precedes(t *Target) bool {
	if r.Target == t.ID || t.Created.Before(r.Started.Truncate(time.Second)) {
		return false
	}
	return !slices.Contains(r.CreatedSameSecond, t.ID.UID)
}
