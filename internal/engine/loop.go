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

// rest is the least time from the end of a pass to the next that only events ask for. An outage
// brings events for seconds on end, and a pass costs the same for one as for a hundred of them, as
// does the status that it writes. What is due at an instant does not rest.
const rest = 100 * time.Millisecond

// The pauses between passes that fail, from the first to the longest.
const (
	firstRetry   = 100 * time.Millisecond
	longestRetry = 30 * time.Second
)

// firstPause is the pause after a pass that panicked, which is twice as long after each that follows, up to longestRetry.
// Neither events nor what is due cut it short.
const firstPause = time.Second

// Pass looks at a fleet once, and tells when it is to be looked at again without any event; the zero time is never.
type Pass = func(context.Context) (time.Time, error)

// Loop passes over fleets when something has changed and when time has. One pass runs at a time
// for each fleet; fleets run beside each other, and come and go.
type Loop struct {
	log          logr.Logger
	now          func() time.Time
	queue        workqueue.TypedRateLimitingInterface[string]
	panics       workqueue.TypedRateLimiter[string]
	prompt, slow *lane
	// started is set once Start wakes all fleets. Before that none is queued, since nothing takes any out.
	started atomic.Bool

	mu     sync.Mutex
	fleets map[string]*kept
}

// kept is a fleet that is passed over. The queue lets one worker at a time have it.
type kept struct {
	pass Pass
	// prompt keeps the fleet from ever being among the slow.
	prompt bool
	// rested is when the fleet has rested, and rests for how long.
	rested time.Time
	rests  time.Duration
	// slowUntil is how long the fleet is passed over in a slow place.
	slowUntil time.Time
	// end asks the pass under way to end; it is nil while there is none. It belongs to the Loop's lock.
	end context.CancelFunc
}

// NewLoop makes a loop over no fleets yet.
func NewLoop(log logr.Logger, now func() time.Time) *Loop {
	retries := workqueue.NewTypedItemExponentialFailureRateLimiter[string](firstRetry, longestRetry)
	return &Loop{
		log: log, now: now, queue: workqueue.NewTypedRateLimitingQueue(retries),
		panics: workqueue.NewTypedItemExponentialFailureRateLimiter[string](firstPause, longestRetry),
		prompt: newLane(promptPlaces, promptTurn), slow: newLane(slowPlaces, slowTurn), fleets: map[string]*kept{},
	}
}

// Keep has a fleet passed over from now on, or by another pass than before. The pass may wait for a workload cluster.
func (l *Loop) Keep(fleet string, pass Pass) { l.keep(fleet, &kept{pass: pass}) }

// KeepPrompt is Keep for a fleet whose pass waits for the management cluster alone. Such a fleet never waits for a place
// among the slow, however long its passes take: workload clusters that hang must not delay it.
func (l *Loop) KeepPrompt(fleet string, pass Pass) { l.keep(fleet, &kept{pass: pass, prompt: true}) }

func (l *Loop) keep(fleet string, k *kept) {
	l.mu.Lock()
	l.end(fleet)
	l.fleets[fleet] = k
	l.mu.Unlock()
	l.Wake(fleet)
}

// Drop has a fleet passed over no more. A pass under way is asked to end, and not waited for.
func (l *Loop) Drop(fleet string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.end(fleet)
	delete(l.fleets, fleet)
	l.panics.Forget(fleet)
}

func (l *Loop) end(fleet string) {
	if before := l.fleets[fleet]; before != nil && before.end != nil {
		before.end()
	}
}

// Wake has a fleet looked at soon. It may be called from anywhere and does not block.
func (l *Loop) Wake(fleet string) {
	if l.started.Load() {
		l.queue.AddAfter(fleet, coalesce)
	}
}

// WakeAll has all fleets looked at soon.
func (l *Loop) WakeAll() {
	for _, fleet := range l.names() {
		l.Wake(fleet)
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
	for l.prompt.enter(ctx) {
		fleet, shutdown := l.queue.Get()
		if shutdown {
			return
		}
		passes.Go(func() {
			defer l.queue.Done(fleet)
			l.next(ctx, fleet)
		})
	}
}

// NeedLeaderElection keeps replicas that don't lead from passing.
func (*Loop) NeedLeaderElection() bool { return true }

func (l *Loop) names() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Sorted(maps.Keys(l.fleets))
}

// next passes over a fleet, unless it was dropped or rests. Its caller has entered the prompt lane.
func (l *Loop) next(ctx context.Context, fleet string) {
	leave := l.prompt.hold()
	defer func() { leave() }() //nolint:gocritic // leave is another function by then, if the fleet has changed its lane
	k, ctx, end := l.begin(ctx, fleet)
	defer end()
	if k == nil { // it was dropped
		l.queue.Forget(fleet)
		return
	}
	// A longer pause than that is one of a clock that was set back.
	if pause := k.rested.Sub(l.now()); pause > 0 && pause <= k.rests {
		l.queue.AddAfter(fleet, pause)
		return
	}
	if left := k.slowUntil.Sub(l.now()); left > 0 && left <= slowFor {
		leave()
		if !l.slow.enter(ctx) {
			return
		}
		leave = l.slow.hold()
	}
	if ctx.Err() == nil {
		l.passOver(ctx, fleet, k)
	}
}

// passOver passes over a fleet once, and queues it for when it is to be looked at again.
func (l *Loop) passOver(ctx context.Context, fleet string, k *kept) {
	began := l.now()
	var due time.Time
	err := contain.Run(func() (err error) {
		due, err = k.pass(ctx)
		return err
	})
	now := l.now()
	if !k.prompt && now.Sub(began) >= promptTurn {
		k.slowUntil = now.Add(slowFor)
	}
	k.rested, k.rests = now.Add(rest), rest
	if l.pauses(fleet, err, k) {
		return
	}
	l.queueAnew(ctx, fleet, err)
	if !due.IsZero() {
		if due.Before(k.rested) {
			k.rested = due
		}
		l.queue.AddAfter(fleet, due.Sub(now))
	}
}

// pauses has a fleet rest whose pass panicked, and reports whether it did. What such a pass remembers is true, but may lack
// what it has done last, and the caches get the time to show that.
func (l *Loop) pauses(fleet string, err error, k *kept) bool {
	if !panicked(err) {
		l.panics.Forget(fleet)
		return false
	}
	pause := l.panics.When(fleet)
	l.log.Error(err, "a pass panicked, which is a fault of Fettle; it is repeated after a pause, and other fleets go on; report it with this line", "fleet", fleet, "pause", pause)
	k.rested, k.rests = k.rested.Add(pause-rest), pause
	l.queue.AddAfter(fleet, pause)
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
