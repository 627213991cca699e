package engine

import (
	"context"
	"sync"
	"time"
)

// These constants bound how many passes run at a time, so that hundreds of clusters don't overload
// an API server. A pass takes a millisecond unless an API server delays it. A pass that takes
// longer than its hold gives up its slot and goes on. The next pass over that cluster waits for a
// slow slot, unless the cluster was added by AddHome.
const (
	fastSlots, slowSlots = 32, 32
	fastHold, slowHold   = 2 * time.Second, 15 * time.Second
	// slowFor is how long the passes over a cluster need slow slots after a slow pass.
	slowFor = time.Minute
)

// slots bounds how many passes run at a time.
type slots struct {
	taken   chan struct{}
	maxHold time.Duration
}

func newSlots(count int, maxHold time.Duration) *slots {
	return &slots{make(chan struct{}, count), maxHold}
}

// acquire waits for a slot. It returns false if the context ends first.
func (l *slots) acquire(ctx context.Context) bool {
	select {
	case l.taken <- struct{}{}:
		return true
	case <-ctx.Done():
		return false
	}
}

// hold keeps the acquired slot for maxHold, or until release is called.
func (l *slots) hold() (release func()) {
	free := sync.OnceFunc(func() { <-l.taken })
	over := time.AfterFunc(l.maxHold, free)
	return func() {
		over.Stop()
		free()
	}
}
