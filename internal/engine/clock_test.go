package engine_test

import (
	"context"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
	"unsafe"

	"github.com/go-logr/logr"

	"github.com/fettle-io/fettle/internal/core"
)

// TestNodeWhoseClockIsAhead: a condition in the future counts from when Fettle first saw it, in the
// cache and in live reads.
func TestNodeWhoseClockIsAhead(t *testing.T) {
	s := newFixture(t)
	ahead := machine("m", dead)
	ahead.Node = node("m", "False", -24*time.Hour)
	s.machines.observes(ahead)
	s.machines.live["m-node"] = ahead.Node
	for _, after := range []time.Duration{0, 5*time.Minute - 10*time.Second} {
		s.now = noon.Add(after)
		if did, _ := s.pass(); slices.Contains(did, "begin m") {
			t.Errorf("it begins %s after it was first seen", after)
		}
	}
	s.now = noon.Add(5 * time.Minute)
	if did, _ := s.pass(); !slices.Contains(did, "begin m") {
		t.Errorf("nothing begins %s after it was first seen: %v", 5*time.Minute, did)
	}
}

// set returns the time of a clock whose wall clock was set by a number of seconds. Its monotonic
// clock is unchanged. Only the runtime makes such a time, so set relies on the runtime's layout,
// and checks it.
func set(t *testing.T, at time.Time, seconds int) time.Time {
	t.Helper()
	moved := at
	*(*uint64)(unsafe.Pointer(&moved)) += uint64(seconds) << 30 // 30 bits of nanoseconds are below the seconds
	if by := moved.Round(0).Sub(at.Round(0)); by != time.Duration(seconds)*time.Second || moved.Sub(at) != 0 {
		t.Fatalf("the clock is set by %s, and %s have passed", by, moved.Sub(at))
	}
	return moved
}

// TestI05ClockSetDuringAPass: the clock is set forward during the read of one node. The criterion
// of another node doesn't end earlier. The age of the read is unknown then, so its step waits.
func TestI05ClockSetDuringAPass(t *testing.T) {
	s := newFixture(t)
	s.now = clock()
	since := func(d time.Duration) func(*core.Target) {
		return func(target *core.Target) {
			target.Node = node(target.ID.Name, "False", 0)
			target.Node.Conditions[0].Since = s.now.Add(-d).Round(0)
		}
	}
	s.machines.observes(machine("a", since(time.Hour)), machine("b", since(time.Minute)))
	for _, name := range []string{"a", "b"} {
		s.wait["read "+name] = func(context.Context) error {
			s.now = set(t, s.now, 3600)
			return nil
		}
	}
	if did, _ := s.pass(); !slices.Contains(did, "open a") || slices.Contains(did, "open b") || slices.Contains(did, "begin a") {
		t.Errorf("it did %q, want the repair of a recorded, b left alone, and nothing begun", did)
	}
}

// TestI1SuspendedComputer: only the wall clock shows that the computer was suspended after the read
// of the node.
func TestI1SuspendedComputer(t *testing.T) {
	for _, seconds := range []int{9, 10} {
		s := newFixture(t)
		s.now = clock()
		s.machines.observes(machine("m", dead))
		s.wait["open m"] = func(context.Context) error {
			s.now = set(t, s.now, seconds)
			return nil
		}
		if did, _ := s.pass(); slices.Contains(did, "begin m") != (seconds < 10) {
			t.Errorf("it stood still for %d s, and it did %q", seconds, did)
		}
		s.syncCaches()
		delete(s.wait, "open m")
		s.now = s.now.Add(time.Minute)
		if did, _ := s.pass(); slices.Contains(did, "begin m") != (seconds >= 10) {
			t.Errorf("a minute later it did %q", did)
		}
	}
}

// TestI1SuspendedComputerReadsPoliciesAgain before a step that needs no fresh read of the node.
func TestI1SuspendedComputerReadsPoliciesAgain(t *testing.T) {
	c := newStepFixture(t, sick("n"))
	c.now = clock()
	c.ledger.has(runningSteps(sick("n"), onStep(1)))
	c.wait["read policy workers"] = func(context.Context) error { return nil }
	c.wait["hold n-node for check 11m0s"] = func(context.Context) error {
		c.now = set(t, c.now, 3600)
		return nil
	}
	did, _, err := c.runs(acts(1))
	if err != nil || gauge(did, "read policy workers") != 2 || len(c.requester.remedyCalls) != 1 {
		t.Errorf("the engine does %q and tells %v", did, err)
	}
}

// TestLoopOfAClockSetBack: passes go on after the clock was set back.
func TestLoopOfAClockSetBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var back atomic.Int64
		k := runsBy(t, func() time.Time { return clock().Round(0).Add(-time.Duration(back.Load())) }, logr.Discard(), map[string]pass{"a": idle})
		defer k.stop()
		k.after(time.Minute)
		back.Store(int64(time.Hour))
		k.Wake("a")
		k.after(time.Hour)
		k.wantPasses("one at the start, and one when it is woken", "a", coalesced, time.Minute+coalesced)
	})
}

// TestLoopOfAClockSetBackALittle: a pause that seems longer than it was made is over.
func TestLoopOfAClockSetBackALittle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var back atomic.Int64
		k := runsBy(t, func() time.Time { return clock().Round(0).Add(-time.Duration(back.Load())) }, logr.Discard(), map[string]pass{"a": idle})
		defer k.stop()
		k.after(2 * coalesced)
		back.Store(int64(80 * time.Millisecond))
		k.Wake("a")
		k.after(time.Second)
		k.wantPasses("the pause seems to last for 170ms more", "a", coalesced, 3*coalesced)
	})
}

// TestI05NothingBeginsOnceTheClockIsWrong: each answer of the API server may show a wrong clock, up
// to the call of the remedy.
func TestI05NothingBeginsOnceTheClockIsWrong(t *testing.T) {
	for _, agrees := range []core.Tri{core.No, core.Unknown} {
		for _, call := range []string{"", "read m", "open m"} {
			s := newFixture(t)
			s.machines.observes(machine("m", dead))
			turn := func(context.Context) error {
				s.clock.agrees = agrees
				return nil
			}
			if call == "" {
				_ = turn(t.Context())
			}
			s.wait[call] = turn
			if did, _ := s.pass(); slices.Contains(did, "begin m") || slices.Contains(did, "open m") != (call == "open m") {
				t.Errorf("the clock agrees: %s from the call %q on, and it did %q", agrees, call, did)
			}
			delete(s.wait, call)
			s.clock.agrees = core.Yes
			if did, _ := s.pass(); !slices.Contains(did, "begin m") {
				t.Errorf("the clock agrees again, and it did %q", did)
			}
		}
	}
}

// TestI06EndByAWrongClock: a repair ends while Fettle's clock is hours wrong. Once the clock is
// right, the back-off of the pool still holds, also in another process.
func TestI06EndByAWrongClock(t *testing.T) {
	for _, ahead := range []time.Duration{2 * time.Hour, -2 * time.Hour} {
		s := newFixture(t)
		right, m := clock(), machine("m", dead)
		s.machines.observes()
		s.ledger.has(running(m, func(r *core.Repair) { r.Started, r.Retry = right.Add(-time.Minute).Round(0), 9 }))
		s.clock, s.now = fakeClock{core.No, ahead}, set(t, right, int(ahead/time.Second))
		s.pass()
		if got := s.ledger.of("m")[0].Ended; !got.Equal(right.Round(0)) {
			t.Errorf("by a clock that is ahead by %s the repair ended at %s, want %s", ahead, got, right)
		}
		s.clock, s.now = fakeClock{core.Yes, 0}, right.Add(time.Second)
		s.machines.observes(machine("n", func(t *core.Target) {
			t.Owner, t.Created, t.Failed, t.FailedSince = m.Owner, right.Round(0), true, right.Round(0)
		}))
		s.syncCaches()
		for _, restarts := range []bool{false, true} {
			if restarts {
				s.restart()
			}
			s.now = s.now.Add(time.Second)
			if did, _ := s.pass(); begins(did) {
				t.Errorf("the clock was ahead by %s, restarted %t, and it did %q", ahead, restarts, did)
			}
		}
	}
}

// TestI05ClockBehindRewritesNoStep: Fettle's clock is two hours behind while a refused call is
// recorded. The end of the step before stays as recorded.
func TestI05ClockBehindRewritesNoStep(t *testing.T) {
	c := newStepFixture(t, sick("a"))
	written := noon.Add(2 * time.Hour)
	c.ledger.has(runningSteps(sick("a"), func(r *core.Repair) { r.Tried = []core.StepRecord{{Ended: written, Outcome: core.Failed}} }))
	c.refuse["begin a slow"] = errDown
	did, _, _ := c.runs(acts(1))
	r := c.ledger.of("a")[0]
	if r.Attempts != 1 {
		t.Fatalf("it did %v, and the repair says %+v", did, r)
	}
	if !r.Tried[0].Ended.Equal(written) {
		t.Errorf("the step is recorded to have ended at %s, want %s", r.Tried[0].Ended, written)
	}
}
