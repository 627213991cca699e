package engine

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/client-go/util/workqueue"
)

// coalesce is how long events are gathered before a pass looks at what they changed.
const coalesce = 10 * time.Millisecond

// rest is the least time from the end of a pass to the next that only events ask for. An outage
// brings events for seconds on end, and a pass costs the same for one as for a hundred of them, as
// does the status that it writes. What is due at an instant does not rest.
const rest = 100 * time.Millisecond

// The pauses between passes that fail, from the first to the longest.
const (
	firstRetry   = 100 * time.Millisecond
	longestRetry = 30 * time.Second
)

// passesAtOnce bounds how many fleets are passed over at a time, so that hundreds don't burst upon an API server. A pass
// takes a millisecond unless it waits for one, and it is to be many that wait at once before other fleets do too.
const passesAtOnce = 32

// Pass looks at a fleet once, and tells when it is to be looked at again without any event; the zero time is never.
type Pass = func(context.Context) (time.Time, error)

// Loop passes over fleets when something has changed and when time has. One pass runs at a time
// for each fleet; fleets run beside each other, and come and go.
type Loop struct {
	log   logr.Logger
	now   func() time.Time
	queue workqueue.TypedRateLimitingInterface[string]

	mu     sync.Mutex
	fleets map[string]*kept
}

// kept is a fleet that is passed over. The queue lets one worker at a time have it.
type kept struct {
	pass   Pass
	rested time.Time
	// end asks the pass under way to end; it is nil while there is none. It belongs to the Loop's lock.
	end context.CancelFunc
}

// NewLoop makes a loop over no fleets yet.
func NewLoop(log logr.Logger, now func() time.Time) *Loop {
	limiter := workqueue.NewTypedItemExponentialFailureRateLimiter[string](firstRetry, longestRetry)
	return &Loop{log: log, now: now, queue: workqueue.NewTypedRateLimitingQueue(limiter), fleets: map[string]*kept{}}
}

// Keep has a fleet passed over from now on, or by another pass than before.
func (l *Loop) Keep(fleet string, pass Pass) {
	l.mu.Lock()
	l.end(fleet)
	l.fleets[fleet] = &kept{pass: pass}
	l.mu.Unlock()
	l.Wake(fleet)
}

// Drop has a fleet passed over no more. A pass under way is asked to end, and not waited for.
func (l *Loop) Drop(fleet string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.end(fleet)
	delete(l.fleets, fleet)
}

func (l *Loop) end(fleet string) {
	if before := l.fleets[fleet]; before != nil && before.end != nil {
		before.end()
	}
}

// Wake has a fleet looked at soon. It may be called from anywhere and does not block.
func (l *Loop) Wake(fleet string) {
	l.queue.AddAfter(fleet, coalesce)
}

// WakeAll has all fleets looked at soon.
func (l *Loop) WakeAll() {
	for _, fleet := range l.names() {
		l.Wake(fleet)
	}
}

// Start runs the loop until the context ends, and then waits for the passes under way.
func (l *Loop) Start(ctx context.Context) error {
	l.WakeAll()
	var workers sync.WaitGroup
	for range passesAtOnce {
		workers.Go(func() {
			for l.next(ctx) {
			}
		})
	}
	<-ctx.Done()
	l.queue.ShutDown()
	workers.Wait()
	return nil
}

// NeedLeaderElection keeps replicas that don't lead from passing.
func (*Loop) NeedLeaderElection() bool { return true }

func (l *Loop) names() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Sorted(maps.Keys(l.fleets))
}

func (l *Loop) next(ctx context.Context) bool {
	fleet, shutdown := l.queue.Get()
	if shutdown {
		return false
	}
	defer l.queue.Done(fleet)
	if ctx.Err() != nil {
		return false
	}
	k, ctx, end := l.begin(ctx, fleet)
	defer end()
	if k == nil { // it was dropped
		l.queue.Forget(fleet)
		return true
	}
	if pause := k.rested.Sub(l.now()); pause > 0 {
		l.queue.AddAfter(fleet, pause)
		return true
	}
	due, err := k.pass(ctx)
	k.rested = l.now().Add(rest)
	l.queueAnew(ctx, fleet, err)
	if !due.IsZero() {
		if due.Before(k.rested) {
			k.rested = due
		}
		l.queue.AddAfter(fleet, due.Sub(l.now()))
	}
	return true
}

// begin gives a fleet, nil for one that is not kept, and a context that ends when it is dropped.
func (l *Loop) begin(ctx context.Context, fleet string) (*kept, context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	l.mu.Lock()
	defer l.mu.Unlock()
	k := l.fleets[fleet]
	if k == nil {
		return nil, ctx, cancel
	}
	k.end = cancel
	return k, ctx, func() {
		cancel()
		l.mu.Lock()
		defer l.mu.Unlock()
		k.end = nil
	}
}

// queueAnew has a pass that was not completed repeated. One that was asked to end is nothing to tell of.
func (l *Loop) queueAnew(ctx context.Context, fleet string, err error) {
	switch {
	case err == nil:
		l.queue.Forget(fleet)
	case ctx.Err() == nil:
		l.log.Error(err, "pass was not completed; it is repeated", "fleet", fleet)
		l.queue.AddRateLimited(fleet)
	default:
		l.queue.AddRateLimited(fleet)
	}
}
