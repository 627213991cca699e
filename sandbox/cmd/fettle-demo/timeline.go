package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"
)

// lookEvery is how often the timeline reads the state.
const lookEvery = 200 * time.Millisecond

var began = time.Now() //nolint:gochecknoglobals // the demo has one clock

// say prints what the demo itself does.
func say(format string, args ...any) {
	fmt.Printf("%6.1fs  %s\n", time.Since(began).Seconds(), fmt.Sprintf(format, args...))
}

// saw prints what happened in the cluster.
func saw(what, format string, args ...any) {
	fmt.Printf("%6.1fs    %-8s %s\n", time.Since(began).Seconds(), what, fmt.Sprintf(format, args...))
}

func title(text string) { fmt.Printf("\n── %s\n\n", text) }

// timeline prints changes of a state, of which S is a snapshot.
type timeline[S any] struct {
	stage *demo
	// look reads the state, and tell prints the changes between two readings.
	look func(context.Context) (S, error)
	tell func(before, now S)
	last S
}

// step is a part of a scenario.
type step[S any] func(context.Context, *timeline[S]) error

// play runs the steps in order, until one fails.
func (t *timeline[S]) play(ctx context.Context, steps ...step[S]) error {
	for _, next := range steps {
		if err := next(ctx, t); err != nil {
			return err
		}
	}
	return nil
}

// until reads the state and prints its changes, until it is as wanted. It returns an error after a time limit, or when
// the state is not allowed.
func (t *timeline[S]) until(ctx context.Context, what string, within time.Duration, wanted func(S) (bool, error)) error {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		shot, err := t.look(ctx)
		if err == nil {
			t.tell(t.last, shot)
			t.last = shot
			var done bool
			if done, err = wanted(shot); done && err == nil {
				return nil
			}
		}
		if err != nil && !errors.Is(err, context.DeadlineExceeded) {
			return fmt.Errorf("%s: %w", what, err)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s: it did not come true within %s", what, within)
		case <-tick.C:
		}
	}
}

// tellRepairs prints new repairs, and those with progress.
func tellRepairs(before, now map[string]string) {
	for _, name := range slices.Sorted(maps.Keys(now)) {
		if now[name] != before[name] {
			saw("repair", "%s %s", name, now[name])
		}
	}
}
