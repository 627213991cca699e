package faults

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"
)

// TestLoad measures how seldom Fettle repeats failing requests, and what a replica keeps in memory that does not lead.
// All fixtures share one sandbox, each behind its own proxy, and their pauses pass at the same time. Work beside it would delay requests, so it
// is not parallel to the faults.
func TestLoad(t *testing.T) {
	l := newLoad(t)
	inTurn := func(name string, test func(*load)) {
		passed := t.Run(name, func(t *testing.T) {
			l.plays(t)
			test(l)
		})
		if !passed { // the next part would wait in vain
			t.FailNow()
		}
	}
	inTurn("a replica that does not lead forgets clusters", (*load).forgets)
	inTurn("watches that are out of date", (*load).outOfDate)
	inTurn("watches that end at once", (*load).endAtOnce)
	inTurn("watches that end early", (*load).endEarly)
	inTurn("nodes that the cache lacks", (*load).unseen)
	inTurn("another replica takes over", (*load).handsOver)
	inTurn("a pass panics", (*load).panics)
}

// outOfDate: each watch of the nodes of six clusters is answered with 410. The lists come after pauses that double, and
// the pauses differ between clusters.
func (l *load) outOfDate() {
	const watches = 5
	var fourth []time.Duration
	for i, f := range l.outdated {
		l.wantHits("a watch of "+f.name, f.fault, watches)
		gaps := l.wantPauses(f.name, f.fault.Hits()[:watches], first, 2*first, 4*first, 8*first)
		fourth = append(fourth, gaps[watches-2])
		if lists, hits := len(f.lists()), len(f.fault.Hits()); lists > hits+1 {
			l.t.Errorf("%s: %d lists lead to %d watches", f.name, lists, hits)
		}
		if i == 0 {
			f.wantAllowed("Unknown/ConnectionDown")
		}
	}
	if slices.Max(fourth)-slices.Min(fourth) < first*3/10 {
		l.t.Errorf("the pauses of all clusters are alike: %s", fourth)
	}
	for _, f := range l.outdated {
		f.fault.End()
	}
	for _, f := range l.outdated {
		f.repairs("m-00")
	}
}

// endAtOnce: a watch that delivers nothing is useless, and Fettle connects to its cluster anew after pauses that
// double.
func (l *load) endAtOnce() {
	const watches = 5
	f := l.ended
	l.wantHits("a watch", f.fault, watches)
	l.wantPauses(f.name, f.fault.Hits()[:watches], first, 2*first, 4*first, 8*first)
	f.wantAllowed("Unknown/ConnectionDown")
	f.fault.End()
	f.repairs("m-00")
}

// endEarly: a watch that ends soon after it has delivered something continues after pauses that double, without another
// list. The cluster stays believed, so its machines are repaired all the while.
func (l *load) endEarly() {
	const watches = 5
	f := l.early
	l.wantHits("a watch", f.fault, watches)
	l.wantPauses(f.name, f.fault.Hits()[:watches], first, 2*first, 4*first, 8*first)
	f.repairs("m-00")
	if lists := len(f.lists()); lists != 1 {
		l.t.Errorf("its nodes were listed %d times, want once", lists)
	}
	l.wantHits("another watch", f.fault, watches+1)
}

// unseen: events cause passes all the while. Nodes that the watch does not show or that can't be read are read after
// pauses that double. Fettle remembers a missing node as gone.
func (l *load) unseen() {
	for name, pauses := range map[string][]time.Duration{
		"hidden":  {10 * first, 20 * first},
		"refused": {first, 2 * first, 4 * first, 8 * first},
	} {
		var reads []time.Time
		l.Eventually(l.t, "reads of the node that is "+name, func(context.Context) error {
			if reads = l.reads[name].Hits(); len(reads) <= len(pauses) {
				return fmt.Errorf("%d reads", len(reads))
			}
			return nil
		})
		l.wantPauses("the node that is "+name, reads[:len(pauses)+1], pauses...)
	}
	if reads := len(l.reads["absent"].Hits()); reads == 0 || reads > 3 {
		l.t.Errorf("the node that is absent was read %d times, want a few", reads)
	}
	if passes := l.passes(); passes < 100 {
		l.t.Errorf("there were %g passes meanwhile, which shows little", passes)
	}
	l.lacking.fault.End()
	l.reads["refused"].End()
	l.lacking.due([]string{"absent"})
	l.lacking.longBroken([]string{"hidden", "refused"})
	l.lacking.edit(map[string]any{"remediation": map[string]any{"triggerIf": map[string]any{"unhealthyLessThanOrEqualTo": "100%"}}})
	l.lacking.wantMarked(3)
}

// forgets: before another replica leads, a health check names one cluster after the other. A replica lets go of what it
// holds for each, and connects to none of them.
func (l *load) forgets() {
	l.flips("first", flips/10)
	before := l.waits.objects()
	l.flips("more", flips)
	after := l.waits.objects()
	l.t.Logf("%d clusters came and went; there were %d objects in memory before, and are %d", flips, before, after)
	if grown := after - before; grown > flips*leastKept/2 {
		l.t.Errorf("%d clusters came and went, and there are %d objects more in memory", flips, grown)
	}
	for _, f := range l.all() {
		if open := f.proxy.Connections(); open > 0 || len(f.lists()) > 0 {
			l.t.Errorf("a replica that does not lead has %d connections to %s, and has listed its nodes %d times", open, f.name, len(f.lists()))
		}
	}
	l.leads = l.waits
	l.resign()
	l.waits = l.replica()
	l.lacks()
	l.lacking.events(l.whole)
	l.early.events(l.whole)
}

// handsOver: a cluster goes and the kubeconfig of another changes while a replica waits. When the replica leads, it
// connects to the clusters that exist. No connection of the old leader is left.
func (l *load) handsOver() {
	gone, moved, stays := l.outdated[0], l.outdated[1], l.outdated[2]
	next, address := l.StartProxy(l.t)
	moved.reachedBy("second", address)
	gone.wantReplaced(3)
	gone.deleteCheck()
	gone.wantConnections(0)
	former := map[*faulty]int{}
	for _, f := range l.all() {
		former[f] = len(f.lists())
		if open := f.proxy.Connections(); open > 1 {
			l.t.Errorf("%s has %d connections while one replica leads", f.name, open)
		}
	}
	l.leads.Stop(l.t)
	moved.wantConnections(0)
	for _, f := range []*faulty{moved, stays} {
		f.repairs("m-01")
	}
	if next.Connections() == 0 || len(stays.lists()) == former[stays] {
		l.t.Error("the replica that leads is not connected to what there is")
	}
	for _, f := range []*faulty{gone, moved} {
		if open, lists := f.proxy.Connections(), len(f.lists()); open > 0 || lists > former[f] {
			l.t.Errorf("%s is not reached there any more: there are %d connections, and %d lists since", f.name, open, lists-former[f])
		}
	}
}

// wantPauses checks the least times between requests. Pauses are spread by a quarter either way, and a busy machine
// makes them longer.
func (l *load) wantPauses(what string, at []time.Time, pauses ...time.Duration) (gaps []time.Duration) {
	l.t.Helper()
	for i, pause := range pauses {
		gap := at[i+1].Sub(at[i])
		gaps = append(gaps, gap.Round(time.Millisecond))
		if gap < pause*3/4-slack {
			l.t.Errorf("%s: request %d came %s after the one before, want at least %s", what, i+1, gap, pause*3/4)
		}
	}
	l.t.Logf("%s: requests %s apart", what, gaps)
	return gaps
}

// passes returns how many passes the leader has made.
func (l *load) passes() float64 {
	total := 0.0
	for name, value := range l.leads.series() {
		if name == `fettle_passes_total{result="ok"}` || name == `fettle_passes_total{result="error"}` {
			total += value
		}
	}
	return total
}
