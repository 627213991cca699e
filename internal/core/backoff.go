package core

import (
	"slices"
	"time"
)

// Backoff paces the repairs of targets whose replacements fail too. The first repair of a pool is
// never delayed; the n-th replacement in a row that fails waits Base × 2^(n-1), at most Limit.
type Backoff struct {
	Base, Limit time.Duration
}

// DefaultBackoff applies where a policy sets none (seed 000, risks; seed 003, backoff limit).
func DefaultBackoff() Backoff {
	return Backoff{Base: 5 * time.Second, Limit: 10 * time.Minute}
}

// Delay is the pause before the retry-th repair in a row; none before the first, retry 0.
func (b Backoff) Delay(retry int) time.Duration {
	if retry <= 0 {
		return 0
	}
	return doubled(b.Base, retry-1, b.Limit)
}

// unrelatedAfter is how long after the last repair of its pool a failure is taken for a new one
// rather than for a failed replacement (as minHealthyPeriod in seed 002).
const unrelatedAfter = time.Hour

// The pauses after a remedy's call was refused: they double from the first to the longest.
const (
	firstAttemptPause   = time.Second
	longestAttemptPause = 5 * time.Minute
)

// nextAttempt is when the remedy of a repair may be called again. An attempt that is further in the
// future than any pause was made by nobody's clock.
func (r *Repair) nextAttempt(now time.Time) time.Time {
	if r.Attempts == 0 || r.LastAttempt.After(now.Add(longestAttemptPause)) {
		return time.Time{}
	}
	return r.LastAttempt.Add(doubled(firstAttemptPause, r.Attempts-1, longestAttemptPause))
}

// doubled is base × 2^times, at most limit, without overflow.
func doubled(base time.Duration, times int, limit time.Duration) time.Duration {
	d := base
	for range times {
		if d > limit/2 {
			return limit
		}
		if d <= 0 {
			break
		}
		d *= 2
	}
	return min(d, limit)
}

// pool is what the ledger and the fleet tell of the targets of one owner.
type pool struct {
	repairs []int
	// lastStart is when the youngest repair of the pool started, this pass included.
	lastStart time.Time
	// proven is when the youngest healthy target was created: a replacement that works shows that
	// the pool can make working ones.
	proven time.Time
}

// retryOf tells how many replacements in a row have failed before t, t included. It is the longest
// streak that t may continue: the repair of an old target in between does not end it.
func (d *deliberation) retryOf(t *Target, since time.Time) int {
	if since.IsZero() || since.After(d.now) {
		since = d.now
	}
	retry := d.relapses(t, since)
	p := d.pools[t.Owner.UID]
	if p == nil || t.Owner.UID == "" {
		return retry
	}
	for _, i := range p.repairs {
		r := &d.fleet.Repairs[i]
		if r.precedes(t) && r.Started.After(p.proven) && since.Sub(r.Started) < unrelatedAfter {
			retry = max(retry, r.Retry+1)
		}
	}
	return retry
}

// relapses tells how many repairs of the target itself have not lasted, in a row.
func (d *deliberation) relapses(t *Target, since time.Time) int {
	last, known := d.ended[t.ID.UID]
	if !known {
		return 0
	}
	r := &d.fleet.Repairs[last]
	if since.Sub(r.Ended) >= unrelatedAfter {
		return 0
	}
	return r.Retry + 1
}

// paceFrom is when the last repair that a target's must keep its distance from began, or, of the target
// itself, ended.
func (d *deliberation) paceFrom(t *Target) time.Time {
	var from time.Time
	if p := d.pools[t.Owner.UID]; p != nil && t.Owner.UID != "" {
		from = p.lastStart
	}
	if last, known := d.ended[t.ID.UID]; known && d.fleet.Repairs[last].Ended.After(from) {
		from = d.fleet.Repairs[last].Ended
	}
	return from
}

// precedes tells whether t may be a replacement that the repair brought about. Creation times are
// whole seconds, so one in the same second counts unless the target is known to be older.
func (r *Repair) precedes(t *Target) bool {
	if r.Target.UID == t.ID.UID || t.Created.Before(r.Started.Truncate(time.Second)) {
		return false
	}
	return !slices.Contains(r.Contemporaries, t.ID.UID)
}
