package agent

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fettle-io/fettle/internal/promiselease"
	"github.com/fettle-io/fettle/internal/selffence"
)

// TestWaitsForDemand: an agent waits for its time, or until witnesses are demanded, or until it ends.
func TestWaitsForDemand(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := &node{demanding: make(chan struct{}, 1)}
		begun := time.Now()                                       //nolint:forbidigo // the clock of the bubble
		took := func() time.Duration { return time.Since(begun) } //nolint:forbidigo // the same
		if !n.waitForDemand(t.Context(), time.Minute) || took() != time.Minute {
			t.Errorf("it waits for %s", took())
		}
		n.demanding <- struct{}{}
		if !n.waitForDemand(t.Context(), time.Minute) || took() != time.Minute {
			t.Errorf("where witnesses are demanded it waits until %s", took())
		}
		ctx, end := context.WithCancel(t.Context())
		end()
		if n.waitForDemand(ctx, time.Minute) || took() != time.Minute {
			t.Errorf("at the end it waits until %s", took())
		}
	})
}

// watching is a crowd that notes when its Leases are read, and how.
type watching struct {
	*crowd

	calls   []string
	begun   time.Time
	follows func(ctx context.Context, changed func(string, promiselease.Record, uint64))
}

func (w *watching) notes(call string) {
	if len(w.calls) > 100 {
		panic("the agent does not pause")
	}
	w.calls = append(w.calls, fmt.Sprint(call, " ", time.Since(w.begun))) //nolint:forbidigo // the clock of the bubble
}

func (w *watching) First(context.Context, int) (map[string]promiselease.Record, int, error) {
	w.notes("first")
	return w.all, len(w.all), nil
}

func (w *watching) List(context.Context) (map[string]promiselease.Record, uint64, error) {
	w.notes("list")
	return w.all, 1, w.unlisted
}

func (w *watching) Follow(ctx context.Context, since uint64, changed func(string, promiselease.Record, uint64)) error {
	w.notes(fmt.Sprint("follow ", since))
	w.follows(ctx, changed)
	return errors.New("the watch has ended")
}

// watches returns what an agent reads in the first ten minutes.
func watches(t *testing.T, name string, follows func(context.Context, *node)) (calls []string, forgotten int) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &watching{crowd: newCrowd(5), begun: time.Now()} //nolint:forbidigo // the clock of the bubble
		n, _ := w.reviews(name, 3)
		n.Others, n.limit = w, 2*time.Second
		w.follows = func(ctx context.Context, _ func(string, promiselease.Record, uint64)) { follows(ctx, n) }
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
		defer cancel()
		n.watchOthers(ctx)
		calls, forgotten = w.calls, n.Witness.begins()
	})
	return calls, forgotten
}

// TestWatchesOthers: a witness follows the Leases for five minutes and lists them again, at once where it has forgotten them. Another agent looks again later.
func TestWatchesOthers(t *testing.T) {
	t.Parallel()
	rests := func(ctx context.Context, _ *node) { <-ctx.Done() }
	forgot := false
	forgets := func(ctx context.Context, n *node) {
		if !forgot {
			forgot = true
			n.forgets()
		}
		<-ctx.Done()
	}
	for sentence, tc := range map[string]struct {
		node      string
		follows   func(context.Context, *node)
		want      []string
		forgotten int
	}{
		"a witness":        {"n0", rests, []string{"first 0s", "list 0s", "follow 1 0s", "list 5m2s", "follow 1 5m2s"}, 0},
		"one that forgets": {"n0", forgets, []string{"first 0s", "list 0s", "follow 1 0s", "list 0s", "follow 1 0s", "list 5m2s", "follow 1 5m2s"}, 1},
		"another agent":    {"x", rests, []string{"first 0s", "list 0s", "first 6m45.46875s", "list 6m45.46875s"}, 2},
	} {
		if got, forgotten := watches(t, tc.node, tc.follows); !slices.Equal(got, tc.want) || forgotten != tc.forgotten {
			t.Errorf("%s reads %q, want %q, and has forgotten %d times", sentence, got, tc.want, forgotten)
		}
	}
}

// TestFollows: a condemnation that names this agent is urgent, and no other change. Without a revision nothing is followed.
func TestFollows(t *testing.T) {
	t.Parallel()
	for sentence, tc := range map[string]struct {
		state selffence.State
		names string
		since uint64
		want  bool
		read  uint64
	}{
		"a condemnation":             {selffence.Condemned, "n0", 1, true, 12},
		"a condemnation of others":   {selffence.Condemned, "n1", 1, false, 12},
		"a promise":                  {selffence.Promised, "n0", 1, false, 12},
		"what was read still counts": {selffence.Condemned, "n0", 0, false, 1},
	} {
		w := &watching{crowd: newCrowd(5)}
		n, _ := w.reviews("n0", 3)
		n.Others = w
		n.Witness.listed(nil, 1, n.Witness.begins())
		record := promiseOfA(tc.state)
		record.Promise.Witnesses = selffence.Members{tc.names}
		w.follows = func(_ context.Context, changed func(string, promiselease.Record, uint64)) { changed("a", record, 12) }
		n.follow(t.Context(), tc.since, time.Hour)
		if !n.mu.TryLock() || n.urgent != tc.want || (len(n.woken) > 0) != tc.want || n.Witness.read() != tc.read {
			t.Errorf("%s: urgent is %t, and the witness has read up to %d", sentence, n.urgent, n.Witness.read())
		}
	}
}
