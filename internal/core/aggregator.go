package core

import (
	"cmp"
	"slices"
	"time"
)

// The bounds of what is announced one by one: so many at once for each policy and kind of
// happening, and one more each second. What goes beyond is gathered for a second and told together.
const (
	aggregationBurst  = 20
	aggregationWindow = time.Second
)

// Aggregator keeps a storm of happenings from being a storm of announcements. What concerns a policy as a
// whole always passes. Losing a digest loses what it had gathered. The zero Aggregator
// is empty and ready; it is not safe for concurrent use.
type Aggregator struct {
	buckets map[aggregationKey]bucket
	batches map[aggregationKey]*batch
}

// aggregationKey is what may be told together.
type aggregationKey struct {
	kind   EventKind
	gate   Gate
	remedy string
	policy ID
}

// bucket is how many of a topic were told one by one, less what time has given back.
type bucket struct {
	emitted int
	at      time.Time
}

type batch struct {
	first Event
	names []ID
	due   time.Time
}

// Add takes in what has happened and gives what to announce now, in the order in which it came,
// and after it the bundles that are due.
func (d *Aggregator) Add(events []Event, now time.Time) []Event {
	var tell []Event
	for _, h := range events {
		if !aggregated(h.Kind) || d.allow(aggregationKeyOf(h), now) {
			tell = append(tell, h)
			continue
		}
		d.aggregate(h, now)
	}
	return append(tell, d.due(now)...)
}

// aggregated happenings concern one target each and come in numbers.
func aggregated(k EventKind) bool {
	switch k {
	case EventSuspected, EventUnreadable, EventHeldBack, EventStarted, EventRefused, EventDryRun, EventEscalated, EventWithdrawn, EventStuck:
		return true
	case EventShortCircuited, EventMisconfigured:
	}
	return false
}

func aggregationKeyOf(h Event) aggregationKey {
	return aggregationKey{h.Kind, h.Gate, h.Remedy, h.Policy}
}

func (d *Aggregator) allow(t aggregationKey, now time.Time) bool {
	if d.batches[t] != nil {
		return false // so that nothing overtakes what waits
	}
	if d.buckets == nil {
		d.buckets = map[aggregationKey]bucket{}
	}
	s := d.buckets[t]
	if back := int(now.Sub(s.at) / aggregationWindow); back > 0 {
		s = bucket{emitted: max(0, s.emitted-back), at: now}
	}
	if s.emitted >= aggregationBurst {
		return false
	}
	s.emitted++
	d.buckets[t] = s
	return true
}

func (d *Aggregator) aggregate(h Event, now time.Time) {
	if d.batches == nil {
		d.batches = map[aggregationKey]*batch{}
	}
	b := d.batches[aggregationKeyOf(h)]
	if b == nil {
		b = &batch{first: h, due: now.Add(aggregationWindow)}
		d.batches[aggregationKeyOf(h)] = b
	}
	b.names = append(b.names, h.Target)
}

// due gives the bundles that are due, and forgets them and what time has given back in full.
func (d *Aggregator) due(now time.Time) []Event {
	var tell []Event
	for t, b := range d.batches {
		if now.Before(b.due) {
			continue
		}
		h := b.first
		if len(b.names) > 1 {
			h.Target, h.Node, h.Targets = ID{}, "", b.names
		}
		tell = append(tell, h)
		delete(d.batches, t)
	}
	for t, s := range d.buckets {
		if now.Sub(s.at) >= aggregationBurst*aggregationWindow {
			delete(d.buckets, t)
		}
	}
	slices.SortFunc(tell, func(a, b Event) int {
		return cmp.Or(a.Policy.Compare(b.Policy), cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Gate, b.Gate), cmp.Compare(a.Remedy, b.Remedy))
	})
	return tell
}

// NextAt is when the next bundle is due; zero for never.
func (d *Aggregator) NextAt() time.Time {
	var next time.Time
	for _, b := range d.batches {
		if sooner(b.due, next) {
			next = b.due
		}
	}
	return next
}
