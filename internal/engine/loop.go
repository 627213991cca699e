package engine

import (
	"context"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/client-go/util/workqueue"

	"github.com/fettle-io/fettle/internal/contain"
)

// coalesce is how long events are gathered before a pass looks at what they changed.
const coalesce = 10 * time.Millisecond

// minRest is the least time from the end of a pass to the next that only events ask for. An outage
// brings events for seconds on end, and a pass costs the same for one as for a hundred of them, as
// does the status that it writes. What is due at an instant does not rest.
const minRest = 100 * time.Millisecond

// The pauses between passes that fail, from the first to the longest.
const (
	firstRetry   = 100 * time.Millisecond
	longestRetry = 30 * time.Second
)

// firstPanicPause is the pause after a pass that panicked, which is twice as long after each that follows, up to longestRetry.
// Neither events nor what is due cut it short.
const firstPanicPause = time.Second

// Pass looks at a fleet once, and tells when it is to be looked at again without any event; the zero time is never.
type Pass = func(context.Context) (time.Time, error)

// Loop passes over fleets when something has changed and when time has. One pass runs at a time
// for each fleet; fleets run beside each other, and come and go.
type Loop struct {
	log        logr.Logger
	now        func() time.Time
	queue      workqueue.TypedRateLimitingInterface[string]
	panics     workqueue.TypedRateLimiter[string]
	fast, slow *slots
	// started is set once Start wakes all fleets. Before that none is queued, since nothing takes any out.
	started atomic.Bool

	mu       sync.Mutex
	clusters map[string]*scheduled
}

// scheduled is a fleet that is passed over. The queue lets one worker at a time have it.
type scheduled struct {
	pass Pass
	// neverSlow keeps the fleet from ever being among the slow.
	neverSlow bool
	// restsUntil is when the fleet has rested, and rests for how long.
	restsUntil time.Time
	restsFor   time.Duration
	// slowUntil is how long the fleet is passed over in a slow place.
	slowUntil time.Time
	// cancel asks the pass under way to end; it is nil while there is none. It belongs to the Loop's lock.
	cancel context.CancelFunc
}

// NewLoop makes a loop over no fleets yet.
func NewLoop(log logr.Logger, now func() time.Time) *Loop {
	retries := workqueue.NewTypedItemExponentialFailureRateLimiter[string](firstRetry, longestRetry)
	return &Loop{
		log: log, now: now, queue: workqueue.NewTypedRateLimitingQueue(retries),
		panics: workqueue.NewTypedItemExponentialFailureRateLimiter[string](firstPanicPause, longestRetry),
		fast:   newSlots(fastSlots, fastHold), slow: newSlots(slowSlots, slowHold), clusters: map[string]*scheduled{},
	}
}

// Add has a fleet passed over from now on, or by another pass than before. The pass may wait for a workload cluster.
func (l *Loop) Add(key string, pass Pass) { l.add(key, &scheduled{pass: pass}) }

// AddHome is Add for a fleet whose pass waits for the management cluster alone. Such a fleet never waits for a place
// among the slow, however long its passes take: workload clusters that hang must not delay it.
func (l *Loop) AddHome(key string, pass Pass) { l.add(key, &scheduled{pass: pass, neverSlow: true}) }

func (l *Loop) add(key string, k *scheduled) {
	l.mu.Lock()
	l.cancelPass(key)
	l.clusters[key] = k
	l.mu.Unlock()
	l.Wake(key)
}

// Remove has a fleet passed over no more. A pass under way is asked to end, and not waited for.
func (l *Loop) Remove(key string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.cancelPass(key)
	delete(l.clusters, key)
	l.panics.Forget(key)
}

func (l *Loop) cancelPass(key string) {
	if old := l.clusters[key]; old != nil && old.cancel != nil {
		old.cancel()
	}
}

// Wake has a fleet looked at soon. It may be called from anywhere and does not block.
func (l *Loop) Wake(key string) {
	if l.started.Load() {
		l.queue.AddAfter(key, coalesce)
	}
}

// WakeAll has all fleets looked at soon.
func (l *Loop) WakeAll() {
	for _, key := range l.keys() {
		l.Wake(key)
	}
}

// Start runs the loop until the context ends, and then waits for the passes under way.
func (l *Loop) Start(ctx context.Context) error {
	l.started.Store(true)
	l.WakeAll()
	var passes sync.WaitGroup
	passes.Go(func() { l.dispatch(ctx, &passes) })
	<-ctx.Done()
	l.queue.ShutDown()
	passes.Wait()
	return nil
}

// dispatch begins passes in the order in which fleets are queued, each once there is a prompt place.
func (l *Loop) dispatch(ctx context.Context, passes *sync.WaitGroup) {
	for l.fast.acquire(ctx) {
		key, shutdown := l.queue.Get()
		if shutdown {
			return
		}
		passes.Go(func() {
			defer l.queue.Done(key)
			l.process(ctx, key)
		})
	}
}

// NeedLeaderElection keeps replicas that don't lead from passing.
func (*Loop) NeedLeaderElection() bool { return true }

func (l *Loop) keys() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Sorted(maps.Keys(l.clusters))
}

// process passes over a fleet, unless it was dropped or rests. Its caller has entered the prompt lane.
func (l *Loop) process(ctx context.Context, key string) {
	release := l.fast.hold()
	defer func() { release() }() //nolint:gocritic // leave is another function by then, if the fleet has changed its lane
	k, ctx, end := l.startPass(ctx, key)
	defer end()
	if k == nil { // it was dropped
		l.queue.Forget(key)
		return
	}
	// A longer pause than that is one of a clock that was set back.
	if pause := k.restsUntil.Sub(l.now()); pause > 0 && pause <= k.restsFor {
		l.queue.AddAfter(key, pause)
		return
	}
	if left := k.slowUntil.Sub(l.now()); left > 0 && left <= slowFor {
		release()
		if !l.slow.acquire(ctx) {
			return
		}
		release = l.slow.hold()
	}
	if ctx.Err() == nil {
		l.runPass(ctx, key, k)
	}
}

// runPass passes over a fleet once, and queues it for when it is to be looked at again.
func (l *Loop) runPass(ctx context.Context, key string, k *scheduled) {
	began := l.now()
	var due time.Time
	err := contain.Run(func() (err error) {
		due, err = k.pass(ctx)
		return err
	})
	now := l.now()
	if !k.neverSlow && now.Sub(began) >= fastHold {
		k.slowUntil = now.Add(slowFor)
	}
	k.restsUntil, k.restsFor = now.Add(minRest), minRest
	if l.pauseAfterPanic(key, err, k) {
		return
	}
	l.requeue(ctx, key, err)
	if !due.IsZero() {
		if due.Before(k.restsUntil) {
			k.restsUntil = due
		}
		l.queue.AddAfter(key, due.Sub(now))
	}
}

// pauseAfterPanic has a fleet rest whose pass panicked, and reports whether it did. What such a pass remembers is true, but may lack
// what it has done last, and the caches get the time to show that.
func (l *Loop) pauseAfterPanic(key string, err error, k *scheduled) bool {
	if !panicked(err) {
		l.panics.Forget(key)
		return false
	}
	pause := l.panics.When(key)
	l.log.Error(err, "a pass panicked, which is a fault of Fettle; it is repeated after a pause, and other fleets go on; report it with this line", "fleet", key, "pause", pause)
	k.restsUntil, k.restsFor = k.restsUntil.Add(pause-minRest), pause
	l.queue.AddAfter(key, pause)
	return true
}

// startPass gives a fleet, nil for one that is not kept, and a context that ends when it is dropped.
func (l *Loop) startPass(ctx context.Context, key string) (*scheduled, context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	l.mu.Lock()
	defer l.mu.Unlock()
	k := l.clusters[key]
	if k == nil {
		return nil, ctx, cancel
	}
	k.cancel = cancel
	return k, ctx, func() {
		cancel()
		l.mu.Lock()
		defer l.mu.Unlock()
		k.cancel = nil
	}
}

// requeue has a pass that was not completed repeated. One that was asked to end is nothing to tell of.
func (l *Loop) requeue(ctx context.Context, key string, err error) {
	switch {
	case err == nil:
		l.queue.Forget(key)
	case ctx.Err() == nil:
		l.log.Error(err, "pass was not completed; it is repeated", "fleet", key)
		l.queue.AddRateLimited(key)
	default:
		l.queue.AddRateLimited(key)
	}
}
