package engine

import (
	"context"
	"sync"
	"time"
)

// How many fleets are passed over at a time, so that hundreds don't burst upon an API server, and how long a pass keeps its
// place. A pass takes a millisecond unless it waits for an API server. Workload clusters may have theirs hang, so a pass that
// waits for longer goes on without a place, and the next one over that fleet waits for a place among the slow, unless it was
// kept by AddHome. All calls of a pass have time limits of their own.
const (
	fastSlots, slowSlots = 32, 32
	fastHold, slowHold   = 2 * time.Second, 15 * time.Second
	// slowFor is how long a fleet is among the slow after a pass that was.
	slowFor = time.Minute
)

// slots is a number of places in which fleets are passed over.
type slots struct {
	taken   chan struct{}
	maxHold time.Duration
}

func newSlots(count int, maxHold time.Duration) *slots {
	return &slots{make(chan struct{}, count), maxHold}
}

// acquire waits for a place. It reports whether there was one before the context ended.
func (l *slots) acquire(ctx context.Context) bool {
	select {
	case l.taken <- struct{}{}:
		return true
	case <-ctx.Done():
		return false
	}
}

// hold keeps the place for a turn, or until leave is called.
func (l *slots) hold() (release func()) {
	free := sync.OnceFunc(func() { <-l.taken })
	over := time.AfterFunc(l.maxHold, free)
	return func() {
		over.Stop()
		free()
	}
}
