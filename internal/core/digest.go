package core

import (
	"cmp"
	"slices"
	"time"
)

// The bounds of what is announced one by one: so many at once for each policy and kind of
// happening, and one more each second. What goes beyond is gathered for a second and told together.
const (
	announcedAtOnce = 20
	gatheredFor     = time.Second
)

// Digest keeps a storm of happenings from being a storm of announcements. What concerns a policy as a
// whole always passes. Losing a digest loses what it had gathered. The zero Digest
// is empty and ready; it is not safe for concurrent use.
type Digest struct {
	spent    map[topic]spending
	gathered map[topic]*bundle
}

// topic is what may be told together.
type topic struct {
	kind   HappeningKind
	gate   Gate
	remedy string
	policy ID
}

// spending is how many of a topic were told one by one, less what time has given back.
type spending struct {
	told int
	at   time.Time
}

type bundle struct {
	first Happening
	names []ID
	due   time.Time
}

// Take takes in what has happened and gives what to announce now, in the order in which it came,
// and after it the bundles that are due.
func (d *Digest) Take(happenings []Happening, now time.Time) []Happening {
	var tell []Happening
	for _, h := range happenings {
		if !bundled(h.Kind) || d.afford(topicOf(h), now) {
			tell = append(tell, h)
			continue
		}
		d.gather(h, now)
	}
	return append(tell, d.ripe(now)...)
}

// bundled happenings concern one target each and come in numbers.
func bundled(k HappeningKind) bool {
	switch k {
	case Suspected, Unreadable, Held, Begun, Refused, Rehearsed, Escalated, Relieved, Lingering:
		return true
	case Restricted, Misconfigured:
	}
	return false
}

func topicOf(h Happening) topic { return topic{h.Kind, h.Gate, h.Remedy, h.Policy} }

func (d *Digest) afford(t topic, now time.Time) bool {
	if d.gathered[t] != nil {
		return false // so that nothing overtakes what waits
	}
	if d.spent == nil {
		d.spent = map[topic]spending{}
	}
	s := d.spent[t]
	if back := int(now.Sub(s.at) / gatheredFor); back > 0 {
		s = spending{told: max(0, s.told-back), at: now}
	}
	if s.told >= announcedAtOnce {
		return false
	}
	s.told++
	d.spent[t] = s
	return true
}

func (d *Digest) gather(h Happening, now time.Time) {
	if d.gathered == nil {
		d.gathered = map[topic]*bundle{}
	}
	b := d.gathered[topicOf(h)]
	if b == nil {
		b = &bundle{first: h, due: now.Add(gatheredFor)}
		d.gathered[topicOf(h)] = b
	}
	b.names = append(b.names, h.Target)
}

// ripe gives the bundles that are due, and forgets them and what time has given back in full.
func (d *Digest) ripe(now time.Time) []Happening {
	var tell []Happening
	for t, b := range d.gathered {
		if now.Before(b.due) {
			continue
		}
		h := b.first
		if len(b.names) > 1 {
			h.Target, h.Node, h.Targets = ID{}, "", b.names
		}
		tell = append(tell, h)
		delete(d.gathered, t)
	}
	for t, s := range d.spent {
		if now.Sub(s.at) >= announcedAtOnce*gatheredFor {
			delete(d.spent, t)
		}
	}
	slices.SortFunc(tell, func(a, b Happening) int {
		return cmp.Or(a.Policy.Compare(b.Policy), cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Gate, b.Gate), cmp.Compare(a.Remedy, b.Remedy))
	})
	return tell
}

// NextAt is when the next bundle is due; zero for never.
func (d *Digest) NextAt() time.Time {
	var next time.Time
	for _, b := range d.gathered {
		if sooner(b.due, next) {
			next = b.due
		}
	}
	return next
}
