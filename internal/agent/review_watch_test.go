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
		"a witness":            {"n0", rests, []string{"first 0s", "list 0s", "follow 1 0s", "list 5m2s", "follow 1 5m2s"}, 0},
		"a witness, forgetful": {"n0", forgets, []string{"first 0s", "list 0s", "follow 1 0s", "list 0s", "follow 1 0s", "list 5m2s", "follow 1 5m2s"}, 1},
		"another agent":        {"x", rests, []string{"first 0s", "list 0s", "first 6m45.46875s", "list 6m45.46875s"}, 2},
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

// TestEnoughPromise: this agent is no witness of its own, and sixteen others are placed at most.
func TestEnoughPromise(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		size   int
		want   bool
		placed int
	}{{5, false, 4}, {6, true, 5}, {40, true, 16}} {
		c := newCrowd(tc.size)
		n, r := c.reviews("n0", 5)
		if got := n.enough(t.Context(), r, c.all, 5); got != tc.want || len(c.placed) != tc.placed {
			t.Errorf("of %d nodes there are enough: %t, and %d were placed", tc.size, got, len(c.placed))
		}
	}
}

// TestWhoServesOfMany: an agent in a zone of its own serves if it is one of the first sixteen. Of the agents that serve, sixteen precede it at most.
func TestWhoServesOfMany(t *testing.T) {
	t.Parallel()
	order := promising(newCrowd(40).all)
	for sentence, tc := range map[string]struct {
		node, alone, idle int
		want              bool
	}{
		"the sixteenth, in a zone of its own":   {15, 15, 0, true},
		"the seventeenth, in a zone of its own": {16, 16, 0, false},
		"the fourth, after sixteen that serve":  {3, 16 + 15, 16, false},
		"the fourth, after seventeen":           {3, 16 + 16, 16, true},
	} {
		c := newCrowd(40)
		c.zones = map[string]string{order[tc.alone]: "y"}
		for _, name := range order[:tc.idle] {
			r := c.all[name]
			r.Witnessed = 0
			c.all[name] = r
		}
		n, r := c.reviews(order[tc.node], 3)
		if got := n.serves(t.Context(), r, c.all, 3); got != tc.want {
			t.Errorf("%s: it serves: %t", sentence, got)
		}
	}
}
