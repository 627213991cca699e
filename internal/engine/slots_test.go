package engine_test

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"
)

// unanswered is a pass over a cluster whose reads hang until their time limits.
func unanswered(ctx context.Context, _ int) (time.Time, error) {
	return time.Time{}, withGrace(ctx, 40*time.Second)
}

// TestI15HangingClustersDelayNoOther: of a hundred clusters most hang in each pass, and the others
// are served as if alone.
func TestI15HangingClustersDelayNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		clusters := map[string]pass{}
		for i := range 100 {
			clusters[fmt.Sprintf("hanging-%d", i)] = unanswered
		}
		k := runs(t, logr.Discard(), clusters)
		defer k.stop()
		k.after(time.Second)
		start := clock()
		for i := range 10 {
			k.keep("honest-"+strconv.Itoa(i), idle)
		}
		k.after(time.Minute)
		for i := range 10 {
			honest := "honest-" + strconv.Itoa(i)
			if at := k.taken(honest); len(at) != 1 || at[0] > start.Sub(k.start)+8*time.Second {
				t.Errorf("while the clusters hang for the first time, %s is passed over at %v", honest, at)
			}
		}
		for range 600 {
			for key := range clusters {
				k.Wake(key)
			}
			woken := clock().Sub(k.start)
			k.Wake("honest-0")
			k.after(500 * time.Millisecond)
			if at := k.taken("honest-0"); len(at) != 1 || at[0] != woken+coalesced {
				t.Fatalf("woken at %s, the honest cluster is passed over at %v", woken, at)
			}
		}
		for key := range clusters {
			if n := len(k.taken(key)); n < 4 {
				t.Errorf("in six minutes %s is passed over %d times", key, n)
			}
		}
	})
}

// TestSlowClustersTakeTurns: slow clusters share the slow slots. A cluster that is no longer slow
// gets fast slots again after a minute.
func TestSlowClustersTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		now, most, hung := 0, 0, 10*time.Second
		count := func(change int) time.Duration {
			mu.Lock()
			defer mu.Unlock()
			now += change
			most = max(most, now)
			return hung
		}
		hangs := func(d time.Duration) {
			mu.Lock()
			defer mu.Unlock()
			most, hung = 0, d
		}
		clusters := map[string]pass{}
		for i := range 100 {
			clusters[strconv.Itoa(i)] = func(ctx context.Context, _ int) (time.Time, error) {
				defer count(-1)
				return time.Time{}, withGrace(ctx, count(1))
			}
		}
		k := runs(t, logr.Discard(), clusters)
		defer k.stop()
		k.after(time.Minute)
		hangs(10 * time.Second)
		k.WakeAll()
		k.after(time.Minute)
		if most != 32 {
			t.Errorf("%d slow clusters were passed over at a time, want 32", most)
		}
		hangs(0)
		k.WakeAll()
		k.after(2 * time.Minute)
		hangs(time.Second)
		k.WakeAll()
		k.after(time.Minute)
		if most != 32 {
			t.Errorf("%d clusters that are prompt again were passed over at a time, want 32", most)
		}
		for key := range clusters {
			if n := len(k.taken(key)); n != 4 {
				t.Errorf("%s was passed over %d times, want 4", key, n)
			}
		}
	})
}

// TestClusterIsAmongTheSlowForAMinute after a slow pass, and waits behind the clusters that hang.
func TestClusterIsAmongTheSlowForAMinute(t *testing.T) {
	for after, waits := range map[time.Duration]bool{50 * time.Second: true, 70 * time.Second: false} {
		synctest.Test(t, func(t *testing.T) {
			clusters := map[string]pass{"once": func(ctx context.Context, n int) (time.Time, error) {
				if n == 0 {
					return time.Time{}, withGrace(ctx, 2*time.Second)
				}
				return time.Time{}, nil
			}}
			k := runs(t, logr.Discard(), clusters)
			defer k.stop()
			k.after(3 * time.Second)
			for i := range 96 { // three times as many as there are slow places
				k.keep("hanging-"+strconv.Itoa(i), unanswered)
			}
			k.after(after - 2*time.Second)
			for range 10 {
				k.WakeAll()
				k.after(100 * time.Millisecond)
			}
			k.taken("once")
			k.Wake("once")
			k.after(time.Second)
			if n := len(k.taken("once")); (n == 0) != waits {
				t.Errorf("%s after a slow pass an event leads to %d passes; want it to wait: %t", after, n, waits)
			}
		})
	}
}

// crowd has many clusters that hang, and wakes them in each second. So all slow slots are taken 50 seconds later, and
// two more clusters wait for each. Other clusters had their first pass before.
func (k *loopRecorder) crowd() (wake func(during time.Duration)) {
	k.after(time.Second)
	for i := range 96 {
		k.keep("hanging-"+strconv.Itoa(i), unanswered)
	}
	k.after(48 * time.Second)
	wake = func(during time.Duration) {
		for end := clock().Add(during); clock().Before(end); k.after(time.Second) {
			for i := range 96 {
				k.Wake("hanging-" + strconv.Itoa(i))
			}
		}
	}
	wake(2 * time.Second)
	return wake
}

// slowThenDue returns a cluster whose second pass is slow, and whose third is due some time after that.
func slowThenDue(after time.Duration) pass {
	return func(ctx context.Context, n int) (time.Time, error) {
		if n != 1 {
			return time.Time{}, nil
		}
		return clock().Add(2*time.Second + after), withGrace(ctx, 2*time.Second)
	}
}

// TestSlowMinuteHasItsBounds: it begins at the end of the slow pass, and is over at its last instant.
func TestSlowMinuteHasItsBounds(t *testing.T) {
	for after, waits := range map[time.Duration]bool{0: true, time.Minute - 1: true, time.Minute: false} {
		synctest.Test(t, func(t *testing.T) {
			k := runs(t, logr.Discard(), map[string]pass{"once": slowThenDue(after)})
			defer k.stop()
			wake := k.crowd()
			k.Wake("once")
			slow := clock().Sub(k.start) + coalesced
			want := []time.Duration{coalesced, slow}
			if !waits {
				want = append(want, slow+2*time.Second+after)
			}
			wake(3*time.Second + after)
			k.wantPasses(fmt.Sprintf("a pass is due %s after the slow pass", after), "once", want...)
		})
	}
}

// TestSlowMinuteOfAClockSetBack: a minute that seems longer is over.
func TestSlowMinuteOfAClockSetBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var back atomic.Int64
		k := runsBy(t, func() time.Time { return clock().Round(0).Add(-time.Duration(back.Load())) }, logr.Discard(), map[string]pass{"once": slowThenDue(time.Hour)})
		defer k.stop()
		wake := k.crowd()
		slow := clock().Sub(k.start) + coalesced
		k.Wake("once")
		wake(3 * time.Second)
		back.Store(int64(30 * time.Second))
		k.Wake("once")
		again := clock().Sub(k.start) + coalesced
		k.after(time.Second)
		k.wantPasses("the minute seems to last for 89 seconds more", "once", coalesced, slow, again)
	})
}

// TestSlowSlotIsHeldForAWhile, and not for as long as a pass hangs.
func TestSlowSlotIsHeldForAWhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := runs(t, logr.Discard(), nil)
		defer k.stop()
		k.crowd()
		first := 49*time.Second + coalesced
		k.after(40 * time.Second)
		got := map[time.Duration]int{}
		for i := range 96 {
			for _, at := range k.taken("hanging-" + strconv.Itoa(i))[1:] {
				got[at]++
			}
		}
		want := map[time.Duration]int{first: 32, first + 15*time.Second: 32, first + 30*time.Second: 32}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("passes over clusters that hang again (-want +got):\n%s", diff)
		}
	})
}

// TestI12PromptClusterIsNeverAmongTheSlow: even after long passes, the home cluster doesn't wait
// behind clusters that hang.
func TestI12PromptClusterIsNeverAmongTheSlow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := runs(t, logr.Discard(), nil)
		defer k.stop()
		k.AddHome("home", func(ctx context.Context) (time.Time, error) {
			k.note("home")
			return time.Time{}, withGrace(ctx, 3*time.Second)
		})
		for i := range 96 { // three times as many as there are slow places
			k.keep("hanging-"+strconv.Itoa(i), unanswered)
		}
		k.after(50 * time.Second)
		k.taken("home")
		for range 10 {
			for i := range 96 {
				k.Wake("hanging-" + strconv.Itoa(i))
			}
			k.after(100 * time.Millisecond)
			k.Wake("home")
			k.after(4 * time.Second)
			if n := len(k.taken("home")); n != 1 {
				t.Fatalf("within four seconds of an event there are %d passes, want 1", n)
			}
		}
	})
}

// TestDroppedClusterWaitsForNoSlot, and neither does the end of the loop.
func TestDroppedClusterWaitsForNoSlot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		clusters := map[string]pass{}
		for i := range 40 {
			clusters[strconv.Itoa(i)] = unanswered
		}
		k := runs(t, logr.Discard(), clusters)
		k.after(time.Minute)
		k.WakeAll()
		k.after(time.Second)
		var waiting string
		for key := range clusters {
			if len(k.taken(key)) == 1 {
				waiting = key
			}
		}
		k.keep(waiting, idle)
		k.after(time.Second)
		if n := len(k.taken(waiting)); n != 1 {
			t.Errorf("the cluster that was kept anew has been passed over %d times", n)
		}
		ends := clock()
		k.stop()
		if took := clock().Sub(ends); took > 0 {
			t.Errorf("the loop took %s to end", took)
		}
	})
}

// TestLoopThatHasNotStartedKeepsNothing of clusters that come and go, as in a replica that doesn't
// lead.
func TestLoopThatHasNotStartedKeepsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newLoopRecorder(t, clock, logr.Discard())
		for i := range 100 {
			k.keep(strconv.Itoa(i), idle)
			k.Remove(strconv.Itoa(i))
			k.WakeAll()
		}
		k.after(time.Second)
		if n := k.Queued(); n != 0 {
			t.Errorf("%d clusters are queued", n)
		}
		k.keep("a", idle)
		k.starts()
		defer k.stop()
		k.after(time.Second)
		k.wantPasses("what was kept before is passed over", "a", time.Second+coalesced)
	})
}
