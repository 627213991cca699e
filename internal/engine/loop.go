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

// coalesce is how long the queue gathers events before a pass.
const coalesce = 10 * time.Millisecond

// minRest is the shortest time between the end of a pass and a pass that only events cause. An
// outage brings events for seconds, and one pass costs the same for one event as for hundreds. A
// pass that is due at an instant doesn't wait.
const minRest = 100 * time.Millisecond

// The pauses after failed passes grow from the first to the longest.
const (
	firstRetry   = 100 * time.Millisecond
	longestRetry = 30 * time.Second
)

// firstPanicPause is the pause after a pass that panicked. It doubles after each further panic, up
// to longestRetry. Neither events nor deadlines shorten it.
const firstPanicPause = time.Second

// Pass runs one pass over a cluster. It returns when the next pass is due without an event, the
// zero time for never.
type Pass = func(context.Context) (time.Time, error)

// Loop runs a pass over a cluster when its state has changed and when a deadline is due. It runs
// one pass at a time for each cluster, and clusters in parallel. Clusters may be added and removed
// at any time.
type Loop struct {
	log        logr.Logger
	now        func() time.Time
	queue      workqueue.TypedRateLimitingInterface[string]
	panics     workqueue.TypedRateLimiter[string]
	fast, slow *slots
	// started is set once Start wakes all clusters. No cluster is queued before, since no worker
	// reads the queue.
	started atomic.Bool

	mu       sync.Mutex
	clusters map[string]*scheduled
}

// scheduled is a cluster that the Loop runs passes over. The queue gives it to one worker at a
// time.
type scheduled struct {
	pass Pass
	// neverSlow keeps the cluster from ever waiting for a slow slot.
	neverSlow bool
	// restsUntil is when the next pass may start, and restsFor is the pause that ends then.
	restsUntil time.Time
	restsFor   time.Duration
	// Until slowUntil, each pass waits for a slow slot.
	slowUntil time.Time
	// cancel cancels the last pass. It is nil before the first, and guarded by the Loop's mutex.
	cancel context.CancelFunc
}

// NewLoop returns a Loop without clusters.
func NewLoop(log logr.Logger, now func() time.Time) *Loop {
	retries := workqueue.NewTypedItemExponentialFailureRateLimiter[string](firstRetry, longestRetry)
	return &Loop{
		log: log, now: now, queue: workqueue.NewTypedRateLimitingQueue(retries),
		panics: workqueue.NewTypedItemExponentialFailureRateLimiter[string](firstPanicPause, longestRetry),
		fast:   newSlots(fastSlots, fastHold), slow: newSlots(slowSlots, slowHold), clusters: map[string]*scheduled{},
	}
}

// Add adds a cluster, or replaces its pass. The pass may wait for a workload cluster.
func (l *Loop) Add(key string, pass Pass) { l.add(key, &scheduled{pass: pass}) }

// AddHome adds the cluster that Fettle runs in, whose pass waits for no other cluster. Such a
// cluster never waits for a slow slot, so workload clusters that hang don't delay it.
func (l *Loop) AddHome(key string, pass Pass) { l.add(key, &scheduled{pass: pass, neverSlow: true}) }

func (l *Loop) add(key string, k *scheduled) {
	l.mu.Lock()
	l.cancelPass(key)
	l.clusters[key] = k
	l.mu.Unlock()
	l.Wake(key)
}

// Remove removes a cluster. It cancels a pass under way, and doesn't wait for it.
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

// Wake queues a cluster for a pass. It doesn't block, and is safe for concurrent use.
func (l *Loop) Wake(key string) {
	if l.started.Load() {
		l.queue.AddAfter(key, coalesce)
	}
}

// WakeAll queues all clusters.
func (l *Loop) WakeAll() {
	for _, key := range l.keys() {
		l.Wake(key)
	}
}

// Start runs the Loop until the context ends. Then it waits for the passes under way.
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

// dispatch starts passes in the order of the queue, each in a fast slot.
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

// NeedLeaderElection reports true: only the leader runs passes.
func (*Loop) NeedLeaderElection() bool { return true }

func (l *Loop) keys() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Sorted(maps.Keys(l.clusters))
}

// process runs a pass over a cluster, unless the cluster was removed or its pause isn't over. The
// caller has acquired a fast slot.
func (l *Loop) process(ctx context.Context, key string) {
	release := l.fast.hold()
	defer func() { release() }() //nolint:gocritic // release is another function once the pass has a slow slot
	k, ctx, end := l.startPass(ctx, key)
	defer end()
	if k == nil { // it was removed
		l.queue.Forget(key)
		return
	}
	// A pause longer than restsFor means that the clock was set back.
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

// runPass runs one pass, and queues the cluster for the next.
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

// pauseAfterPanic starts a pause if the pass panicked, and reports whether it did. The expectations
// of such a pass are true, but may lack its last writes. The pause lets the caches show those
// writes.
func (l *Loop) pauseAfterPanic(key string, err error, k *scheduled) bool {
	if !panicked(err) {
		l.panics.Forget(key)
		return false
	}
	pause := l.panics.When(key)
	l.log.Error(err, "a pass panicked, which is a bug in Fettle; it is repeated after a pause, and other clusters go on; report this line", "cluster", key, "pause", pause)
	k.restsUntil, k.restsFor = k.restsUntil.Add(pause-minRest), pause
	l.queue.AddAfter(key, pause)
	return true
}

// startPass returns a cluster with a context that ends when the cluster is removed. The cluster is
// nil if it was removed before.
func (l *Loop) startPass(ctx context.Context, key string) (*scheduled, context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	l.mu.Lock()
	defer l.mu.Unlock()
	k := l.clusters[key]
	if k == nil {
		return nil, ctx, cancel
	}
	k.cancel = cancel
	return k, ctx, cancel
}

// requeue repeats a failed pass after a pause. It logs no error of a pass that was cancelled.
func (l *Loop) requeue(ctx context.Context, key string, err error) {
	switch {
	case err == nil:
		l.queue.Forget(key)
	case ctx.Err() == nil:
		l.log.Error(err, "pass was not completed; it is repeated", "cluster", key)
		l.queue.AddRateLimited(key)
	default:
		l.queue.AddRateLimited(key)
	}
}
