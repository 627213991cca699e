package sim

import (
	"slices"

	"github.com/fettle-io/fettle/internal/core"
)

// futureDate is the date of a condition by which a node is not Ready. It lay in the future when the engine first saw it.
type futureDate struct {
	target, node string
	slot         int
	// date is the tick that the condition shows, and seen the tick since which all passes of the engine have seen it.
	date, seen int
}

// is reports whether a node shows this date.
func (d *futureDate) is(m machine) bool {
	return d.slot == m.slot && d.node == m.nodeID().UID && m.node.exists && !m.node.ready && d.date == m.node.since+m.node.ahead
}

// noteDates notes the future dates that a pass sees in its cache, and no others. The checker does not rely on the memory of
// the engine alone. The slice is never changed, but replaced.
func (u *Universe) noteDates(e *engine, f *core.Cluster) {
	if f.Observed != core.Yes {
		return
	}
	var dates []futureDate
	for i := range f.Targets {
		t := &f.Targets[i]
		slot := slotOf(t)
		if d, known := u.futureDate(e, t.ID.UID, machine{slot: slot, node: e.nodes[slot]}); known && t.Node.State == core.NodePresent {
			dates = append(dates, d)
		}
	}
	e.dates = dates
}

// noteLiveDate notes the future date that a live read of the node of a target shows.
func (u *Universe) noteLiveDate(e *engine, t *core.Target, m machine) {
	if d, known := u.futureDate(e, t.ID.UID, m); known {
		dates := slices.DeleteFunc(slices.Clone(e.dates), func(d futureDate) bool { return d.target == t.ID.UID })
		e.dates = slices.Concat(dates, []futureDate{d})
	}
}

// futureDate returns the date that a node shows to an engine, if it is in the future, or was when the engine first saw it.
func (u *Universe) futureDate(e *engine, target string, m machine) (futureDate, bool) {
	if i := slices.IndexFunc(e.dates, func(d futureDate) bool { return d.target == target && d.is(m) }); i >= 0 {
		return e.dates[i], true
	}
	d := futureDate{target, m.nodeID().UID, m.slot, m.node.since + m.node.ahead, u.truth.now}
	return d, d.is(m) && at(d.date).After(at(u.truth.now).Add(e.skew))
}

// datedAlike reports whether a node is not Ready by a date that its clock has written before. The clock was fast then, and was
// set right since. The node has recovered meanwhile, and has failed again at that very date. To an engine that has seen
// nothing in between, it has been not Ready all the time. The date counts since the engine first saw it.
func (e *engine) datedAlike(m machine, now int) bool {
	return slices.ContainsFunc(e.dates, func(d futureDate) bool { return d.is(m) && Ticks(now-d.seen) >= patience })
}

// justified reports whether the truth, as far as an engine could know, justifies a repair now.
func (e *engine) justified(m machine, now int) bool { return m.unhealthy(now) || e.datedAlike(m, now) }

// justifiedByNode reports the same of a repair of the node.
func (e *engine) justifiedByNode(m machine, now int) bool {
	return m.nodeUnhealthy(now) || e.datedAlike(m, now)
}
