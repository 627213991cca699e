package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"
)

// lookEvery is how often the timeline looks at the fleet.
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

// timeline prints what changes in the fleet.
type timeline struct {
	stage *demo
	last  snapshot
}

// until watches the fleet, and prints its changes, until it is as wanted. It fails when it is not in time, or when
// something happens meanwhile that must not.
func (t *timeline) until(ctx context.Context, what string, within time.Duration, wanted func(snapshot) (bool, error)) error {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		shot, err := t.stage.look(ctx)
		if err == nil {
			t.print(shot)
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

func (t *timeline) print(now snapshot) {
	for _, name := range slices.Sorted(maps.Keys(now.machines)) {
		before, known := t.last.machines[name]
		t.printMachine(before, now.machines[name], known)
	}
	for _, name := range slices.Sorted(maps.Keys(t.last.machines)) {
		if _, exists := now.machines[name]; !exists {
			saw("machine", "%s is gone", name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(now.repairs)) {
		if now.repairs[name] != t.last.repairs[name] {
			saw("repair", "%s %s", name, now.repairs[name])
		}
	}
	t.printCheck(t.last.check, now.check)
	t.last = now
}

func (t *timeline) printMachine(before, now machine, known bool) {
	if !known {
		saw("machine", "%s is made (%s)", now.name, now.zone)
		return
	}
	if now.phase != before.phase && before.phase != "" {
		saw("machine", "%s is %s", now.name, now.phase)
	}
	if now.ready != before.ready && now.ready != "" {
		saw("node", "%s: Ready is %s", now.name, now.ready)
	}
}

func (t *timeline) printCheck(before, now check) {
	if now.expected != before.expected || now.healthy != before.healthy {
		saw("check", "example: %d of %d machines are healthy", now.healthy, now.expected)
	}
	if now.allowed != before.allowed || now.reason != before.reason {
		saw("check", "example: RemediationAllowed is %s %s", now.allowed, now.reason)
	}
}
