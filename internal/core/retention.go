package core

import (
	"cmp"
	"slices"
	"time"
)

// Retention bounds how long finished repairs are kept: by age, and by number in one namespace. Repairs that back-off
// reads are kept beyond both bounds, and don't count towards the number. The same holds for repairs that have served a
// user's request which would count again without them.
type Retention struct {
	For time.Duration
	Max int
}

// Expired returns the finished repairs that the retention no longer keeps, as indices, the oldest first. It also
// returns the next instant at which there may be another. Running repairs are kept, and so are repairs that back-off
// still reads. The verdicts are those of the latest decision about the cluster.
func (k Retention) Expired(cluster *Cluster, verdicts []Verdict, now time.Time) (expired []int, next time.Time) {
	finished := finishedIn(cluster.Repairs)
	if len(finished) == 0 {
		return nil, time.Time{}
	}
	needs, all, idle := needsOf(cluster, verdicts, now), map[string]int{}, map[string]int{}
	for _, i := range finished {
		of := cluster.Repairs[i].Namespace
		all[of]++
		if needs.until(i).IsZero() {
			idle[of]++
		}
	}
	for _, i := range finished {
		r := &cluster.Repairs[i]
		due, needed := r.Ended.Add(k.For), needs.until(i)
		switch {
		case needed.IsZero() && (!now.Before(due) || idle[r.Namespace] > k.Max):
			expired = append(expired, i)
			idle[r.Namespace]--
			continue
		case all[r.Namespace] > k.Max && !needed.IsZero(), needed.After(due):
			due = needed
		}
		if due.Before(forever) && sooner(due, next) {
			next = due
		}
	}
	return expired, next
}

// finishedIn returns the repairs that have ended, as indices, the oldest first.
func finishedIn(repairs []Repair) []int {
	finished := make([]int, 0, len(repairs))
	for i := range repairs {
		if !repairs[i].Running() {
			finished = append(finished, i)
		}
	}
	slices.SortFunc(finished, func(a, b int) int {
		p, q := &repairs[a], &repairs[b]
		return cmp.Or(p.Ended.Compare(q.Ended), cmp.Compare(p.Name, q.Name))
	})
	return finished
}

// neededTime is how long a finished repair may count for a failure that begins later. The failure is dated by another
// clock than the repair.
const neededTime = unrelatedAfter + maxClockDifference

// forever is until when a repair is needed that counts for a target which is not healthy now. When that changes,
// another pass follows anyway.
var forever = time.Unix(1<<40, 0) //nolint:gochecknoglobals // a constant

// needs holds which finished repairs back-off reads.
type needs struct {
	cluster *Cluster
	now     time.Time
	repairHistory
	// failing are the lineages of the targets that are not known to be healthy. Spans are, for each of their pools, when the repairs started
	// that may count for them, in order and without overlap.
	failing map[ID]bool
	// requested has when users requested repairs, by the backoffID of the target and by its node.
	requested       map[ID]time.Time
	requestedOnNode map[string]time.Time
	spans           map[ID][]span
	// lasting are the repairs by which a pool may be given up, however long ago they started, and until when. Heirs are, by pool, when
	// the targets were created by whose failure it may be.
	lasting   map[int]time.Time
	unhealthy map[ID][]time.Time
}

// span is the time between two instants.
type span struct{ after, before time.Time }

func needsOf(cluster *Cluster, verdicts []Verdict, now time.Time) *needs {
	n := &needs{cluster: cluster, now: now, repairHistory: newRepairHistory(cluster.Repairs), failing: map[ID]bool{}, spans: map[ID][]span{}, lasting: map[int]time.Time{}, unhealthy: map[ID][]time.Time{}}
	for i := range verdicts {
		switch v, t := &verdicts[i], &cluster.Targets[verdicts[i].Target]; {
		case v.Health != Healthy || v.Reason == Premature:
			n.fails(t, v)
		case now.Sub(t.Created) < unrelatedAfter: // it may fail before it has lived for a while
			n.unhealthy[t.Owner] = append(n.unhealthy[t.Owner], t.Created)
		}
	}
	for i := range cluster.Targets {
		t := &cluster.Targets[i]
		if t.UnjudgedPolicy != nil {
			n.fails(t, &Verdict{})
		}
		n.takeRequest(t)
	}
	for owner, spans := range n.spans {
		n.spans[owner] = merged(spans)
	}
	for owner := range n.unhealthy {
		n.keepLongest(owner)
	}
	return n
}

// takeRequest takes in a user's request for a repair. The repairs that have served it show that it is served.
func (n *needs) takeRequest(t *Target) {
	at := t.RepairRequest.At
	if at.IsZero() {
		return
	}
	if n.requested == nil {
		n.requested, n.requestedOnNode = map[ID]time.Time{}, map[string]time.Time{}
	}
	n.requested[t.ID.backoffID()] = at
	if t.Node.Name != "" {
		n.requestedOnNode[t.Node.Name] = latest(n.requestedOnNode[t.Node.Name], at)
	}
}

// servedUntil returns until when a repair shows that a user's request is served; zero when it shows none.
func (n *needs) servedUntil(r *Repair) time.Time {
	at := n.requested[r.Target.backoffID()]
	if r.Node != "" {
		at = latest(at, n.requestedOnNode[r.Node])
	}
	if at.IsZero() || at.After(latest(r.Ended, r.Requested)) {
		return time.Time{}
	}
	return at.Add(RequestLasts + maxClockDifference)
}

// fails takes in a target that is not known to be healthy. Repairs of its pool count for it that started within the hour
// before it failed, and not after it was created. When it failed is not known before it is unhealthy.
func (n *needs) fails(t *Target, v *Verdict) {
	n.failing[t.ID.backoffID()] = true
	if n.pools[t.Owner] == nil {
		return
	}
	since := t.Created
	if v.Health == Unhealthy && !v.Since.IsZero() {
		since = v.Since
	}
	n.unhealthy[t.Owner] = append(n.unhealthy[t.Owner], t.Created)
	n.spans[t.Owner] = append(n.spans[t.Owner], span{after: since.Add(-unrelatedAfter), before: t.Created.Add(time.Second)})
}

// keepLongest keeps the repairs of a pool by which it may be given up. A repair is not kept if a later one counts in
// all the same cases. That one was retried as often, for the same template, and precedes the same heirs.
func (n *needs) keepLongest(owner ID) {
	p := n.pools[owner]
	if p == nil {
		return
	}
	youngestFirst := slices.SortedFunc(slices.Values(n.unhealthy[owner]), func(a, b time.Time) int { return b.Compare(a) })
	until := youngestFirst[0].Add(unrelatedAfter)
	if oldest := youngestFirst[len(youngestFirst)-1]; n.now.Sub(oldest) >= unrelatedAfter { // it is failing
		until = forever
	}
	passed, most := 0, map[string]int{}
	for _, i := range n.latestFirst(p.repairs) {
		r := &n.cluster.Repairs[i]
		for passed < len(youngestFirst) && !youngestFirst[passed].Before(r.Started.Truncate(time.Second)) {
			passed++
			clear(most) // an earlier repair precedes this heir too
		}
		if longest, known := most[r.OwnerTemplate]; passed == 0 || (known && r.Retry <= longest) {
			continue
		}
		n.lasting[i] = until
		if !n.failing[r.Target.backoffID()] && len(r.CreatedSameSecond) == 0 { // it precedes each heir that passed
			most[r.OwnerTemplate] = r.Retry
		}
	}
}

func (n *needs) latestFirst(repairs []int) []int {
	return slices.SortedFunc(slices.Values(repairs), func(a, b int) int {
		p, q := &n.cluster.Repairs[a], &n.cluster.Repairs[b]
		return cmp.Or(q.Started.Compare(p.Started), cmp.Compare(q.Retry, p.Retry), cmp.Compare(p.Name, q.Name))
	})
}

// merged orders spans and joins the spans that overlap.
func merged(spans []span) []span {
	slices.SortFunc(spans, func(a, b span) int { return a.after.Compare(b.after) })
	joined := spans[:0]
	for _, s := range spans {
		last := len(joined) - 1
		switch {
		case !s.after.Before(s.before): // no repair started in it
		case last >= 0 && s.after.Before(joined[last].before):
			if s.before.After(joined[last].before) {
				joined[last].before = s.before
			}
		default:
			joined = append(joined, s)
		}
	}
	return joined
}

// until returns when back-off stops reading a finished repair; the zero time when it doesn't read it now.
func (n *needs) until(repair int) time.Time {
	r := &n.cluster.Repairs[repair]
	var until time.Time
	if last, known := n.ended[r.Target.backoffID()]; known && last == repair {
		if n.failing[r.Target.backoffID()] {
			return forever
		}
		until = r.Ended.Add(neededTime)
	}
	if n.counts(repair) {
		return forever
	}
	until = latest(latest(until, n.servedUntil(r)), n.lasting[repair])
	if r.Owner.UID != "" && r.Outcome != Recovered {
		until = latest(until, r.Started.Add(neededTime))
	}
	if !until.After(n.now) {
		return time.Time{}
	}
	return until
}

// counts reports whether a finished repair counts for the back-off of a target of its pool that is not known to be healthy.
func (n *needs) counts(repair int) bool {
	r := &n.cluster.Repairs[repair]
	spans, failing := n.spans[r.Owner]
	if !failing || r.Outcome == Recovered {
		return false
	}
	at, _ := slices.BinarySearchFunc(spans, r.Started, func(s span, started time.Time) int {
		if s.before.After(started) {
			return 1
		}
		return -1
	})
	return r.Started.Equal(n.pools[r.Owner].lastStart) || (at < len(spans) && spans[at].after.Before(r.Started))
}
