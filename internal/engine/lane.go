package engine

import (
	"context"
	"sync"
	"time"
)

// How many fleets are passed over at a time, so that hundreds don't burst upon an API server, and how long a pass keeps its
// place. A pass takes a millisecond unless it waits for an API server. Workload clusters may have theirs hang, so a pass that
// waits for longer goes on without a place, and the next one over that fleet waits for a place among the slow, unless it was
// kept by KeepPrompt. All calls of a pass have time limits of their own.
const (
	promptPlaces, slowPlaces = 32, 32
	promptTurn, slowTurn     = 2 * time.Second, 15 * time.Second
	// slowFor is how long a fleet is among the slow after a pass that was.
	slowFor = time.Minute
)

// lane is a number of places in which fleets are passed over.
type lane struct {
	places chan struct{}
	turn   time.Duration
}

func newLane(places int, turn time.Duration) *lane {
	return &lane{make(chan struct{}, places), turn}
}

// enter waits for a place. It reports whether there was one before the context ended.
func (l *lane) enter(ctx context.Context) bool {
	select {
	case l.places <- struct{}{}:
		return true
	case <-ctx.Done():
		return false
	}
}

// hold keeps the place for a turn, or until leave is called.
func (l *lane) hold() (leave func()) {
	release := sync.OnceFunc(func() { <-l.places })
	over := time.AfterFunc(l.turn, release)
	return func() {
		over.Stop()
		release()
	}
}
