package core_test

import (
	"testing"
	"time"

	"github.com/fettle-io/fettle/internal/core"
)

// TestFutureTimesOfFields: each field of an object counts from when it was first seen itself.
func TestFutureTimesOfFields(t *testing.T) {
	next := noon.Add(time.Hour)
	m := machine("m", awaited(next))
	var e core.Expectations
	laid(&e, noon, []core.Target{m})
	m.Failed, m.FailedSince = true, next
	got := laid(&e, noon.Add(time.Minute), []core.Target{m}).Targets[0]
	if !got.StartupFrom.Equal(noon) || !got.FailedSince.Equal(noon.Add(time.Minute)) {
		t.Errorf("the startup counts from %s, and the failure from %s", got.StartupFrom, got.FailedSince)
	}
}

// TestFutureTimesOfRepairs: each time of a repair is replaced, whatever the others are.
func TestFutureTimesOfRepairs(t *testing.T) {
	m, p := machine("m"), policy("p", []int{0})
	next := noon.Add(time.Hour)
	for name, c := range map[string]struct {
		change func(*core.Repair)
		read   func(*core.Repair) time.Time
	}{
		"recovery": {recovered(next), func(r *core.Repair) time.Time { return r.Recovered }},
		"handover": {begunAt(next), func(r *core.Repair) time.Time { return r.Begun }},
		"attempt":  {attempts(1, next), func(r *core.Repair) time.Time { return r.LastAttempt }},
		"step":     {gaveUp(next), func(r *core.Repair) time.Time { return r.Tried[0].Ended }},
		"end":      {ended(next), func(r *core.Repair) time.Time { return r.Ended }},
		"start":    {started(next), func(r *core.Repair) time.Time { return r.Started }},
	} {
		var e core.Expectations
		got := laid(&e, noon, []core.Target{m}, repair(m, p, c.change)).Repairs[0]
		if at := c.read(&got); !at.Equal(noon) {
			t.Errorf("%s: it counts from %s", name, at)
		}
	}
}

// TestFutureTimesOfNewRequests: requests that have no UID yet are told apart by their target.
func TestFutureTimesOfNewRequests(t *testing.T) {
	p := check("p", nil, classic)
	next := noon.Add(time.Hour)
	unseen := func(q *core.Request) { q.ID.UID = "" }
	f := func(requests ...core.Request) core.Cluster {
		return core.Cluster{Observed: core.Yes, Targets: []core.Target{aNode("a", failed(next))}, Requests: requests}
	}
	for name, change := range map[string]func(*core.Request){"seen": func(*core.Request) {}, "unseen": unseen} {
		a, b := requestFor(p, aNode("a"), rebooting, requestedAt(next), change), requestFor(p, aNode("b"), rebooting, requestedAt(next), change)
		var e core.Expectations
		first := f(a)
		e.OverlayTimes(&first, noon)
		second := f(b, a)
		e.OverlayTimes(&second, noon.Add(time.Minute))
		if at, want := second.Requests[0].Created, noon.Add(time.Minute); !at.Equal(want) {
			t.Errorf("%s: the new request counts from %s, want %s", name, at, want)
		}
		if at := second.Requests[1].Created; !at.Equal(noon) {
			t.Errorf("%s: the old request counts from %s, want %s", name, at, noon)
		}
	}
}

// TestFutureTimesOfALiveRead: the next snapshot counts them from the live read.
func TestFutureTimesOfALiveRead(t *testing.T) {
	next := noon.Add(time.Hour)
	m := machine("m", ready("False", next))
	var e core.Expectations
	live := m
	e.OverlayLive(&live, noon)
	if at := live.Node.Conditions[0].Since; !at.Equal(noon) {
		t.Errorf("the live read counts from %s", at)
	}
	if at := laid(&e, noon.Add(time.Minute), []core.Target{m}).Targets[0].Node.Conditions[0].Since; !at.Equal(noon) {
		t.Errorf("the snapshot counts from %s, want %s", at, noon)
	}
}

// TestFutureTimesOfANewNode: a machine's next node counts anew, even if it reports the same instant.
func TestFutureTimesOfANewNode(t *testing.T) {
	next := noon.Add(time.Hour)
	var e core.Expectations
	old, later := machine("m", ready("False", next)), noon.Add(time.Minute)
	laid(&e, noon, []core.Target{old})
	anew := machine("m", ready("False", next))
	anew.Node.UID += "-anew"
	for uid, want := range map[string]time.Time{old.Node.UID: noon, anew.Node.UID: later} {
		m := old
		if uid == anew.Node.UID {
			m = anew
		}
		e := e
		if at := laid(&e, later, []core.Target{m}).Targets[0].Node.Conditions[0].Since; !at.Equal(want) {
			t.Errorf("node %s counts from %s, want %s", uid, at, want)
		}
	}
}

// TestRepairRequestAhead: a request may be ahead by a minute, as seen first.
func TestRepairRequestAhead(t *testing.T) {
	for after, want := range map[time.Duration]bool{time.Minute: false, time.Minute + time.Second: true} {
		m := machine("m", func(t *core.Target) { t.RepairRequest.At = noon.Add(after) })
		var e core.Expectations
		for _, now := range []time.Time{noon, noon.Add(time.Minute)} {
			if got := laid(&e, now, []core.Target{m}).Targets[0].RepairRequest.Ahead; got != want {
				t.Errorf("at %s a request that is ahead by %s is too far ahead: %t", now, after, got)
			}
		}
	}
	other := machine("m", awaited(noon.Add(2*time.Minute)), func(t *core.Target) { t.RepairRequest.At = noon.Add(2 * time.Minute) })
	var e core.Expectations
	before := other
	before.RepairRequest.At = time.Time{}
	laid(&e, noon, []core.Target{before})
	if laid(&e, noon.Add(90*time.Second), []core.Target{other}).Targets[0].RepairRequest.Ahead {
		t.Error("a request is ahead since another field of its target was")
	}
	byUser := machine("m", func(t *core.Target) { t.RepairRequest.At = noon.Add(90 * time.Second) })
	laid(&e, noon, []core.Target{byUser})
	byUser.RepairRequest.At = noon.Add(2 * time.Minute)
	if laid(&e, noon.Add(80*time.Second), []core.Target{byUser}).Targets[0].RepairRequest.Ahead {
		t.Error("a request is ahead since an earlier one was")
	}
}

// TestClockMovedByASecond: a time moves with a clock that is set by a second.
func TestClockMovedByASecond(t *testing.T) {
	present := time.Now() //nolint:forbidigo // only this carries a monotonic clock
	next := present.Add(time.Hour)
	m := machine("m", failed(next))
	for seconds, want := range map[int]time.Time{0: present, 1: present.Add(time.Second)} {
		var e core.Expectations
		laid(&e, present, []core.Target{m})
		if at := laid(&e, set(t, present, seconds), []core.Target{m}).Targets[0].FailedSince; !at.Round(0).Equal(want.Round(0)) {
			t.Errorf("a clock moved by %d s: the failure counts from %s, want %s", seconds, at, want)
		}
	}
}
