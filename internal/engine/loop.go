package engine

import (
	"context"
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

// Loop passes over fleets when something has changed and when time has. One pass runs at a time
// for each fleet; fleets run beside each other.
type Loop struct {
	log    logr.Logger
	now    func() time.Time
	queue  workqueue.TypedRateLimitingInterface[string]
	passes map[string]func(context.Context) (time.Time, error)
	// rested are by fleet; the queue lets one worker at a time have each.
	rested map[string]*time.Time
}

// NewLoop makes a loop over these passes, by the name of their fleet.
func NewLoop(log logr.Logger, now func() time.Time, passes map[string]func(context.Context) (time.Time, error)) *Loop {
	limiter := workqueue.NewTypedItemExponentialFailureRateLimiter[string](firstRetry, longestRetry)
	l := &Loop{
		log: log, now: now, queue: workqueue.NewTypedRateLimitingQueue(limiter), passes: passes, rested: map[string]*time.Time{},
	}
	for fleet := range passes {
		l.rested[fleet] = &time.Time{}
	}
	return l
}

// Wake has a fleet looked at soon. It may be called from anywhere and does not block.
func (l *Loop) Wake(fleet string) {
	l.queue.AddAfter(fleet, coalesce)
}

// Start runs the loop until the context ends, and then waits for the passes under way.
func (l *Loop) Start(ctx context.Context) error {
	var workers sync.WaitGroup
	for fleet := range l.passes {
		l.Wake(fleet)
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

func (l *Loop) next(ctx context.Context) bool {
	fleet, shutdown := l.queue.Get()
	if shutdown {
		return false
	}
	defer l.queue.Done(fleet)
	if ctx.Err() != nil {
		return false
	}
	rested := l.rested[fleet]
	if pause := rested.Sub(l.now()); pause > 0 {
		l.queue.AddAfter(fleet, pause)
		return true
	}
	due, err := l.passes[fleet](ctx)
	*rested = l.now().Add(rest)
	if err != nil {
		if ctx.Err() == nil {
			l.log.Error(err, "pass was not completed; it is repeated", "fleet", fleet)
		}
		l.queue.AddRateLimited(fleet)
	} else {
		l.queue.Forget(fleet)
	}
	if !due.IsZero() {
		if due.Before(*rested) {
			*rested = due
		}
		l.queue.AddAfter(fleet, due.Sub(l.now()))
	}
	return true
}
