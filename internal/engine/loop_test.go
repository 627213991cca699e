package engine_test

import (
	"context"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	"github.com/google/go-cmp/cmp"

	"github.com/fettle-io/fettle/internal/engine"
)

// coalesced is how long a loop gathers events before a pass. The constant rested is its pause
// between passes that events cause.
const (
	coalesced = 10 * time.Millisecond
	rested    = 100 * time.Millisecond
)

// loopRecorder runs a loop in a synctest bubble, and records when each pass began.
type loopRecorder struct {
	*testing.T
	*engine.Loop

	mu     sync.Mutex
	start  time.Time
	passes map[string][]time.Duration
	stop   func()
}

// pass runs the n-th pass over a cluster, from 0.
type pass func(ctx context.Context, n int) (time.Time, error)

// runs starts a loop. The test waits for the loop and its passes at its end.
func runs(t *testing.T, log logr.Logger, clusters map[string]pass) *loopRecorder {
	t.Helper()
	return runsBy(t, clock, log, clusters)
}

// runsBy starts a loop with another clock than the bubble's.
func runsBy(t *testing.T, now func() time.Time, log logr.Logger, clusters map[string]pass) *loopRecorder {
	t.Helper()
	k := newLoopRecorder(t, now, log)
	for name, p := range clusters {
		k.keep(name, p)
	}
	k.starts()
	return k
}

func newLoopRecorder(t *testing.T, now func() time.Time, log logr.Logger) *loopRecorder {
	t.Helper()
	return &loopRecorder{T: t, start: clock(), passes: map[string][]time.Duration{}, Loop: engine.NewLoop(log, now)}
}

func (k *loopRecorder) starts() {
	ctx, cancel := context.WithCancel(k.Context())
	ended := make(chan error)
	go func() { ended <- k.Start(ctx) }()
	k.stop = func() {
		cancel()
		if err := <-ended; err != nil {
			k.Errorf("the loop ended with %v", err)
		}
	}
}

func (k *loopRecorder) keep(key string, p pass) {
	k.Add(key, func(ctx context.Context) (time.Time, error) { return p(ctx, k.note(key)) })
}

func (k *loopRecorder) note(key string) int {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.passes[key] = append(k.passes[key], clock().Sub(k.start))
	return len(k.passes[key]) - 1
}

// taken returns when passes over a cluster began, and clears the record.
func (k *loopRecorder) taken(key string) []time.Duration {
	k.mu.Lock()
	defer k.mu.Unlock()
	at := k.passes[key]
	delete(k.passes, key)
	return at
}

// after waits, and lets all goroutines come to rest.
func (k *loopRecorder) after(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

// wantPasses checks when passes over a cluster began, counted from the start.
func (k *loopRecorder) wantPasses(sentence, key string, want ...time.Duration) {
	k.Helper()
	k.mu.Lock()
	defer k.mu.Unlock()
	if diff := cmp.Diff(want, k.passes[key]); diff != "" {
		k.Errorf("%s; passes over %s (-want +got):\n%s", sentence, key, diff)
	}
}

func idle(context.Context, int) (time.Time, error) { return time.Time{}, nil }

func TestLoopPassesAtTheStartAndWhenWoken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := runs(t, logr.Discard(), map[string]pass{"a": idle})
		defer k.stop()
		k.after(time.Hour)
		k.wantPasses("one look at the start, and none while nothing happens", "a", coalesced)
		for range 50 {
			k.Wake("a")
		}
		k.after(time.Hour)
		k.wantPasses("many events at a time are one pass", "a", coalesced, time.Hour+coalesced)
	})
}

// TestLoopGathersEventsWithoutEnd: incessant events neither delay a pass nor remove the pauses
// between passes.
func TestLoopGathersEventsWithoutEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := runs(t, logr.Discard(), map[string]pass{"a": idle})
		defer k.stop()
		for range 305 {
			k.Wake("a")
			k.after(time.Millisecond)
		}
		k.after(time.Second)
		k.wantPasses("events for 305ms", "a", coalesced, coalesced+rested, coalesced+2*rested, coalesced+3*rested)
	})
}

// TestLoopActsWhileItRests: a pass that is due at an instant runs then, whatever events came just
// before.
func TestLoopActsWhileItRests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		due := clock().Add(50 * time.Millisecond)
		k := runs(t, logr.Discard(), map[string]pass{"a": func(_ context.Context, n int) (time.Time, error) {
			if n == 0 {
				return due, nil
			}
			return time.Time{}, nil
		}})
		defer k.stop()
		k.after(20 * time.Millisecond)
		k.Wake("a")
		k.after(time.Second)
		k.wantPasses("the event waits for the pass that is due", "a", coalesced, 50*time.Millisecond)
	})
}

func TestLoopHonoursNextAt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		due := []time.Duration{time.Minute, time.Hour, 0, -time.Minute}
		start := clock()
		k := runs(t, logr.Discard(), map[string]pass{"a": func(_ context.Context, n int) (time.Time, error) {
			if n >= len(due) || due[n] == 0 {
				return time.Time{}, nil
			}
			return start.Add(due[n]), nil
		}})
		defer k.stop()
		k.after(24 * time.Hour)
		k.wantPasses("each at its instant, and none when none is due", "a", coalesced, time.Minute, time.Hour)
		k.Wake("a")
		k.after(time.Hour)
		woken := 24*time.Hour + coalesced
		k.wantPasses("an instant that is past is now", "a", coalesced, time.Minute, time.Hour, woken, woken)
	})
}

// TestLoopAsksAnewWhatIsDue: a pass that an event causes sets the next deadline.
func TestLoopAsksAnewWhatIsDue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		minute := clock().Add(time.Minute)
		k := runs(t, logr.Discard(), map[string]pass{"a": func(context.Context, int) (time.Time, error) {
			if clock().Before(minute) {
				return minute, nil
			}
			return time.Time{}, nil
		}})
		defer k.stop()
		k.after(30 * time.Second)
		k.Wake("a")
		k.after(time.Hour)
		k.wantPasses("the event came first, and the minute is kept", "a", coalesced, 30*time.Second+coalesced, time.Minute)
	})
}

func TestLoopRepeatsWhatFailed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var logged []string
		log := funcr.New(func(_, args string) { logged = append(logged, args) }, funcr.Options{})
		k := runs(t, log, map[string]pass{"a": func(_ context.Context, n int) (time.Time, error) {
			if n < 12 {
				return time.Time{}, errDown
			}
			return time.Time{}, nil
		}})
		defer k.stop()
		k.after(time.Hour)
		want, at, pause := []time.Duration{coalesced}, coalesced, 100*time.Millisecond
		for range 12 {
			at += pause
			want = append(want, at)
			pause = min(2*pause, 30*time.Second)
		}
		k.wantPasses("the pauses double up to half a minute", "a", want...)
		if len(logged) != 12 {
			t.Errorf("12 failures are %d lines in the log", len(logged))
		}
		k.passes["a"] = nil
		k.Wake("a")
		k.after(time.Second)
		k.mu.Lock()
		defer k.mu.Unlock()
		if len(k.passes["a"]) != 4 {
			t.Errorf("after a pass that went well, pauses begin anew; passes at %v", k.passes["a"])
		}
	})
}

// TestLoopKeepsNextAtOfAFailedPass: the pause after a failure doesn't delay a deadline.
func TestLoopKeepsNextAtOfAFailedPass(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := runs(t, logr.Discard(), map[string]pass{"a": func(_ context.Context, n int) (time.Time, error) {
			if n == 0 {
				return clock().Add(50 * time.Millisecond), errDown
			}
			return time.Time{}, nil
		}})
		defer k.stop()
		k.after(time.Hour)
		k.wantPasses("the instant was sooner", "a", coalesced, coalesced+50*time.Millisecond)
	})
}

func TestOnePassAtATimeForEachCluster(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		under := map[string]int{}
		var mu sync.Mutex
		together := 0
		slow := func(key string) pass {
			return func(context.Context, int) (time.Time, error) {
				mu.Lock()
				under[key]++
				if under[key] > 1 {
					t.Errorf("%d passes over %s run at a time", under[key], key)
				}
				together = max(together, under["a"]+under["b"])
				mu.Unlock()
				<-time.After(time.Second)
				mu.Lock()
				defer mu.Unlock()
				under[key]--
				return time.Time{}, nil
			}
		}
		k := runs(t, logr.Discard(), map[string]pass{"a": slow("a"), "b": slow("b")})
		defer k.stop()
		k.after(500 * time.Millisecond)
		for range 10 {
			k.Wake("a")
			k.after(10 * time.Millisecond)
		}
		k.after(time.Minute)
		k.wantPasses("what came during a pass is one pass after it", "a", coalesced, time.Second+coalesced+rested)
		k.wantPasses("no event woke it", "b", coalesced)
		if together != 2 {
			t.Error("clusters did not run beside each other")
		}
	})
}

// TestLoopStops when its context ends: it waits for the pass under way and starts none.
func TestLoopStops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var ended time.Duration
		lines := 0
		log := funcr.New(func(string, string) { lines++ }, funcr.Options{})
		start := clock()
		k := runs(t, log, map[string]pass{"a": func(ctx context.Context, _ int) (time.Time, error) {
			<-ctx.Done()
			<-time.After(time.Second)
			ended = clock().Sub(start)
			return clock(), ctx.Err()
		}})
		k.after(time.Minute)
		k.Wake("a")
		k.stop()
		if ended != time.Minute+time.Second {
			t.Errorf("the loop ended before its pass did, which was after %s", ended)
		}
		if lines > 0 {
			t.Errorf("a pass that was cut short is told %d times", lines)
		}
		k.Wake("a")
		k.after(time.Minute)
		k.wantPasses("none is begun when it is over", "a", coalesced)
	})
}

// TestClustersComeAndGo while the loop runs.
func TestClustersComeAndGo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hourly := func(context.Context, int) (time.Time, error) { return clock().Add(time.Hour), nil }
		k := runs(t, logr.Discard(), map[string]pass{"a": hourly})
		defer k.stop()
		k.after(time.Minute)
		k.keep("b", hourly)
		k.after(90 * time.Minute)
		k.Remove("a")
		k.Remove("never-kept")
		k.Wake("a")
		k.after(60 * time.Minute)
		k.wantPasses("it was there from the start, and goes", "a", coalesced, time.Hour+coalesced)
		k.wantPasses("it comes later, and stays", "b", time.Minute+coalesced, 61*time.Minute+coalesced, 121*time.Minute+coalesced)
		k.keep("a", hourly)
		k.after(30 * time.Minute)
		k.wantPasses("it is back", "a", coalesced, time.Hour+coalesced, 151*time.Minute+coalesced)
	})
}

// TestDroppedPassIsCancelled, and a pass over another cluster of the same name waits for it.
func TestDroppedPassIsCancelled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		logged := 0
		log := funcr.New(func(string, string) { logged++ }, funcr.Options{})
		var cancelled, ended time.Time
		k := runs(t, log, map[string]pass{"a": func(ctx context.Context, _ int) (time.Time, error) {
			<-ctx.Done()
			cancelled = clock()
			<-time.After(time.Second) // a call under way has its grace
			ended = clock()
			return time.Time{}, ctx.Err()
		}})
		defer k.stop()
		k.after(time.Minute)
		k.Remove("a")
		var began time.Time
		k.keep("a", func(ctx context.Context, _ int) (time.Time, error) {
			if began.IsZero() {
				began = clock()
			}
			return time.Time{}, ctx.Err()
		})
		k.after(time.Minute)
		if start := k.start; !cancelled.Equal(start.Add(time.Minute)) || began.Before(ended) || began.After(ended.Add(time.Second)) {
			t.Errorf("asked to end after %s, ended after %s, the next began after %s", cancelled.Sub(start), ended.Sub(start), began.Sub(start))
		}
		if logged > 0 {
			t.Errorf("a pass that was asked to end is told as %d errors", logged)
		}
	})
}

// TestContextOfAPassEndsWithIt, so that nothing it has started goes on.
func TestContextOfAPassEndsWithIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var over func() error
		k := runs(t, logr.Discard(), map[string]pass{"a": func(ctx context.Context, _ int) (time.Time, error) {
			over = ctx.Err
			return time.Time{}, ctx.Err()
		}})
		defer k.stop()
		k.after(time.Second)
		if over() == nil {
			t.Error("the context of a pass outlives it")
		}
	})
}

// TestRemovedClusterLeavesNoPauses: another cluster of its name begins with the shortest pauses. The last pass over
// the first may have failed or panicked, or be under way.
func TestRemovedClusterLeavesNoPauses(t *testing.T) {
	fails := func(context.Context, int) (time.Time, error) { return time.Time{}, errDown }
	panics := func(context.Context, int) (time.Time, error) { panic("the sky falls") }
	for sentence, tc := range map[string]struct {
		first, second pass
		pause         time.Duration
	}{
		"it failed": {fails, fails, 100 * time.Millisecond},
		"it was under way": {func(ctx context.Context, n int) (time.Time, error) {
			if n >= 5 {
				<-ctx.Done()
			}
			return time.Time{}, errDown
		}, fails, 100 * time.Millisecond},
		"it panicked": {panics, panics, time.Second},
	} {
		synctest.Test(t, func(t *testing.T) {
			k := runs(t, logr.Discard(), map[string]pass{"a": tc.first})
			defer k.stop()
			k.after(10 * time.Second)
			k.Remove("a")
			k.after(time.Minute)
			k.taken("a")
			k.keep("a", tc.second)
			k.after(5 * time.Second)
			began := 70*time.Second + coalesced
			if at := k.taken("a"); len(at) < 3 || at[0] != began || at[1] != began+tc.pause || at[2] != began+3*tc.pause {
				t.Errorf("%s: the passes over another cluster of its name begin at %v", sentence, at)
			}
		})
	}
}

// TestManyClustersDoNotBurst: of hundreds of clusters the loop passes over some at a time, and over
// all in the end.
func TestManyClustersDoNotBurst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const clusters = 300
		var mu sync.Mutex
		now, most := 0, 0
		slow := func(context.Context, int) (time.Time, error) {
			mu.Lock()
			now++
			most = max(most, now)
			mu.Unlock()
			<-time.After(time.Second)
			mu.Lock()
			defer mu.Unlock()
			now--
			return time.Time{}, nil
		}
		all := map[string]pass{}
		for i := range clusters {
			all[strconv.Itoa(i)] = slow
		}
		k := runs(t, logr.Discard(), all)
		defer k.stop()
		k.after(time.Minute)
		if most < 8 || most > 64 {
			t.Errorf("%d clusters were passed over at a time", most)
		}
		for key := range all {
			if n := len(k.passes[key]); n != 1 {
				t.Errorf("cluster %s was passed over %d times", key, n)
			}
		}
	})
}

func TestOnlyTheLeaderPasses(t *testing.T) {
	if !(&engine.Loop{}).NeedLeaderElection() {
		t.Error("replicas that don't lead would pass too")
	}
}
