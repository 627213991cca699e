package core

import (
	"cmp"
	"slices"
	"time"
)

// For each policy and kind of event, aggregationBurst events are emitted at once, and one more each
// aggregationWindow. Events beyond that are collected for one window and emitted as one.
const (
	aggregationBurst  = 20
	aggregationWindow = time.Second
)

// Aggregator bounds how many events about single targets are emitted. Events about a whole policy
// always pass. Losing an Aggregator loses the events that it had collected. The zero Aggregator is
// empty and ready. It is not safe for concurrent use.
type Aggregator struct {
	buckets map[aggregationKey]bucket
	batches map[aggregationKey]*batch
}

// aggregationKey is what events have in common that may be emitted as one.
type aggregationKey struct {
	kind   EventKind
	gate   Gate
	remedy string
	policy ID
}

// bucket counts the events of a key that were emitted one by one, less one for each window since.
type bucket struct {
	emitted int
	at      time.Time
}

type batch struct {
	first Event
	names []ID
	due   time.Time
}

// Add takes new events and returns the events to emit now, in their order. The batches that are due
// follow them.
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

// aggregated reports whether events of the kind concern one target each, so that there may be many.
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
		return false // an event must not overtake the batch before it
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

// due returns the batches whose window is over, and forgets them. It also forgets the buckets that
// are full again.
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

// NextAt returns when the next batch is due; zero for never.
func (d *Aggregator) NextAt() time.Time {
	var next time.Time
	for _, b := range d.batches {
		if sooner(b.due, next) {
			next = b.due
		}
	}
	return next
}
