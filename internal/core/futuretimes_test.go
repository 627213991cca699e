package core_test

import (
	"slices"
	"testing"
	"time"
	"unsafe"

	"github.com/google/go-cmp/cmp"

	"github.com/fettle-io/fettle/internal/core"
)

const year = 365 * 24 * time.Hour

// TestI09FutureTimes: each state counts from when it was first seen, whatever its time.
func TestI09FutureTimes(t *testing.T) {
	ahead := noon.Add(year)
	x := machine("x", ready("False", ahead), func(t *core.Target) {
		t.FailedSince, t.StartupFrom, t.HandedBack = ahead, ahead, ahead
		t.Conditions = []core.Condition{{Type: "Ready", Status: "False", Since: ahead}}
	})
	p := policy("p", []int{0})
	r := repair(x, p, ended(ahead), started(ahead), attempts(1, ahead), func(r *core.Repair) {
		r.Recovered, r.Begun, r.Tried = ahead, ahead, []core.StepRecord{{Ended: ahead}}
	})
	q := core.Request{ID: core.ID{UID: "q"}, Target: x.ID, Created: ahead, Stopped: ahead, SucceededSince: ahead}
	shown := func(m *core.Expectations, at time.Time) core.Cluster {
		f := clusterOf([]core.Target{x}, r)
		f.Requests = []core.Request{q}
		m.Overlay(&f, at)
		return f
	}
	claimed := func(f core.Cluster) []time.Time {
		t, r, q := &f.Targets[0], &f.Repairs[0], &f.Requests[0]
		return []time.Time{
			t.FailedSince, t.StartupFrom, t.HandedBack, t.Conditions[0].Since, t.Node.Conditions[0].Since,
			r.Started, r.Ended, r.LastAttempt, r.Recovered, r.Begun, r.Tried[0].Ended, q.Created, q.Stopped, q.SucceededSince,
		}
	}
	var m core.Expectations
	for _, after := range []time.Duration{0, time.Second, time.Hour, year + time.Hour} {
		for i, at := range claimed(shown(&m, noon.Add(after))) {
			if !at.Equal(noon) {
				t.Errorf("%s after it was first seen, instant %d is %s", after, i, at)
			}
		}
	}
	if !x.Node.Conditions[0].Since.Equal(ahead) || !x.Conditions[0].Since.Equal(ahead) || !r.Tried[0].Ended.Equal(ahead) {
		t.Error("what the caches have was changed")
	}
	if anew := claimed(shown(&core.Expectations{}, noon.Add(time.Minute))); !anew[4].Equal(noon.Add(time.Minute)) {
		t.Errorf("after a restart it counts from %s, want anew", anew[4])
	}
	m.Overlay(&core.Cluster{Observed: core.Yes, ClockAgrees: core.Yes}, noon.Add(time.Minute))
	if back := claimed(shown(&m, noon.Add(time.Hour))); !back[4].Equal(noon.Add(time.Hour)) {
		t.Errorf("a state that comes back counts from %s, want from then", back[4])
	}
}

// TestFutureTimesThatCome: a time that has come counts as reported, unless the state was seen before.
func TestFutureTimesThatCome(t *testing.T) {
	at := func(m *core.Expectations, since, now time.Time) time.Time {
		return laid(m, now, []core.Target{machine("x", ready("False", since))}).Targets[0].Node.Conditions[0].Since
	}
	soon := noon.Add(10 * time.Minute)
	var m core.Expectations
	for _, now := range []time.Time{noon, soon, soon.Add(time.Hour)} {
		if got := at(&m, soon, now); !got.Equal(noon) {
			t.Errorf("at %s it counts from %s, want from when it was seen", now, got)
		}
	}
	if got := at(&core.Expectations{}, soon, soon.Add(time.Hour)); !got.Equal(soon) {
		t.Errorf("seen late, it counts from %s", got)
	}
	if got := at(&m, ago(time.Hour), soon); !got.Equal(ago(time.Hour)) {
		t.Errorf("a state of the past counts from %s", got)
	}
}

// set returns the time of a clock that is set by a number of seconds: its wall clock differs, and
// its monotonic clock does not. Only the runtime can make such a time. So this depends on the
// layout of time.Time, and checks it.
func set(t *testing.T, at time.Time, seconds int) time.Time {
	t.Helper()
	moved := at
	*(*uint64)(unsafe.Pointer(&moved)) += uint64(seconds) << 30 // 30 bits of nanoseconds are below the seconds
	if by := moved.Round(0).Sub(at.Round(0)); by != time.Duration(seconds)*time.Second || moved.Sub(at) != 0 {
		t.Fatalf("the clock is set by %s, and %s have passed", by, moved.Sub(at))
	}
	return moved
}

// TestI05ClockSetForward: a state was first seen while the clock was behind. It has not lasted
// longer once the clock is set.
func TestI05ClockSetForward(t *testing.T) {
	present := time.Now() //nolint:forbidigo // only this carries a monotonic clock
	var m core.Expectations
	x := machine("x", ready("False", present.Add(year).Round(0)))
	laid(&m, present, []core.Target{x})
	later := set(t, present.Add(time.Minute), 3600)
	got := laid(&m, later, []core.Target{x}).Targets[0].Node.Conditions[0].Since
	if lasted := later.Round(0).Sub(got.Round(0)); lasted != time.Minute {
		t.Errorf("it has lasted %s, want a minute", lasted)
	}
}

// TestI06SetBackClock: without a monotonic clock no time lies in the future either.
func TestI06SetBackClock(t *testing.T) {
	var m core.Expectations
	x := machine("x", ready("False", noon.Add(year)))
	laid(&m, noon, []core.Target{x})
	back := ago(time.Hour)
	if got := laid(&m, back, []core.Target{x}).Targets[0].Node.Conditions[0].Since; got.After(back) {
		t.Errorf("it counts from %s, which lies in the future", got)
	}
}

// TestLiveReadInTheFuture: the times of a live read are replaced too.
func TestLiveReadInTheFuture(t *testing.T) {
	var m core.Expectations
	x := machine("x", ready("False", noon.Add(year)))
	y := machine("y", ready("False", noon.Add(year)))
	laid(&m, noon, []core.Target{x, y})
	for _, live := range []core.Target{x, y} {
		m.OverlayLive(&live, noon.Add(time.Minute))
		if got := live.Node.Conditions[0].Since; !got.Equal(noon) {
			t.Errorf("%s counts from %s, want from when the cache showed it", live.ID.Name, got)
		}
	}
	z := machine("z", ready("False", noon.Add(year)))
	m.OverlayLive(&z, noon.Add(time.Minute))
	if f := laid(&m, noon.Add(time.Hour), []core.Target{x, y, z}); !f.Targets[2].Node.Conditions[0].Since.Equal(noon.Add(time.Minute)) {
		t.Errorf("z counts from %s, want from the live read", f.Targets[2].Node.Conditions[0].Since)
	}
}

// TestHealthyDelayOfAClockAhead: the node reports to be healthy since next year. Its request is
// withdrawn after the delay all the same.
func TestHealthyDelayOfAClockAhead(t *testing.T) {
	p := check("check", []int{0}, classic, func(p *core.Policy) { p.HealthyDelay = time.Minute })
	x := aNode("x", ready("True", noon.Add(year)))
	var m core.Expectations
	r := repair(x, p)
	withdrawn := func(at time.Time) int {
		f := clusterOf([]core.Target{x}, r)
		f.Requests = []core.Request{requestFor(p, x, rebooting)}
		m.Overlay(&f, at)
		d := core.Decide([]core.Policy{p}, f, at)
		for _, n := range d.Notes {
			r.Recovered = n.Recovered
		}
		return len(d.Withdrawals)
	}
	got := []int{withdrawn(noon), withdrawn(noon.Add(59 * time.Second)), withdrawn(noon.Add(time.Minute))}
	if want := []int{0, 0, 1}; !slices.Equal(got, want) {
		t.Errorf("withdrawn: %v, want %v", got, want)
	}
}

// TestI09LeaderWhoseClockWasAhead: the times that it has written delay nothing for longer than they
// should.
func TestI09LeaderWhoseClockWasAhead(t *testing.T) {
	days := noon.Add(72 * time.Hour)
	p := check("check", []int{0}, classic, func(p *core.Policy) {
		p.Steps = []core.Step{ask(rebooting, time.Hour), ask(reprovisioning, time.Hour)}
	})
	x := aNode("x", dead)
	cases := map[string]struct {
		repair core.Repair
		within time.Duration
	}{
		"the end of a step":   {repair(x, p, func(r *core.Repair) { r.Tried = []core.StepRecord{{Ended: days, Outcome: core.Failed}} }), 5 * time.Second},
		"the end of a repair": {repair(x, p, ended(noon.Add(time.Hour))), 5 * time.Second},
		"an attempt":          {repair(x, p, attempts(20, days)), 5 * time.Minute},
	}
	for sentence, tc := range cases {
		t.Run(sentence, func(t *testing.T) {
			var m core.Expectations
			begins := func(after time.Duration) bool {
				f := clusterOf([]core.Target{x}, tc.repair)
				f.Targets[0].NodeReadAt = noon.Add(after)
				m.Overlay(&f, noon.Add(after))
				d := core.Decide([]core.Policy{p}, f, noon.Add(after))
				return len(d.Starts)+len(d.StepStarts) > 0
			}
			if got := []bool{begins(0), begins(tc.within - time.Second), begins(tc.within)}; !cmp.Equal(got, []bool{false, false, true}) {
				t.Errorf("it begins at once, a second before %s, then: %v", tc.within, got)
			}
		})
	}
}

// TestI15EndInTheFutureIsNotKeptForEver: the retention counts from when the end was first seen.
func TestI15EndInTheFutureIsNotKeptForEver(t *testing.T) {
	var m core.Expectations
	r := repair(machine("gone"), policy("p", nil), ended(noon.Add(year)))
	expired := func(after time.Duration) int {
		f := laid(&m, noon.Add(after), nil, r)
		gone, _ := core.Retention{For: 24 * time.Hour, Max: 1000}.Expired(&f, nil, noon.Add(after))
		return len(gone)
	}
	if got := []int{expired(0), expired(24*time.Hour - time.Second), expired(24 * time.Hour)}; !slices.Equal(got, []int{0, 0, 1}) {
		t.Errorf("expired: %v, want none before a day is over", got)
	}
}

// TestI06EndSeenByAClockThatWasBehind: Fettle's clock was hours behind when an end was first seen.
// Once the right clock has passed that end, it counts.
func TestI06EndSeenByAClockThatWasBehind(t *testing.T) {
	behind := time.Now() //nolint:forbidigo // only this carries a monotonic clock
	right := set(t, behind.Add(time.Second), 2*3600)
	p := check("check", []int{0}, classic)
	x := aNode("x", dead)
	r := repair(x, p, started(right.Add(-2*time.Minute).Round(0)), ended(right.Add(-time.Second).Round(0)))
	var m core.Expectations
	if f := laid(&m, behind, []core.Target{x}, r); !f.Repairs[0].Misdated {
		t.Fatal("the end does not lie in the future while the clock is behind")
	}
	f := laid(&m, right, []core.Target{x}, r)
	if f.Repairs[0].Misdated {
		t.Error("the end has come by the right clock, and back-off does not count it")
	}
	f.Targets[0].NodeReadAt = right
	if d := core.Decide([]core.Policy{p}, f, right); len(d.Starts) > 0 {
		t.Error("the next repair begins without its pause")
	}
}
