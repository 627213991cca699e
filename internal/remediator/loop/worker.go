package loop

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/util/workqueue"

	"github.com/fettle-io/fettle/internal/contain"
)

// retryFirst and retryMost bound the pauses after a failure.
const (
	retryFirst = 100 * time.Millisecond
	retryMost  = time.Minute
)

// Queue has the keys of what is to be done.
type Queue[T comparable] = workqueue.TypedRateLimitingInterface[T]

// NewQueue returns an empty queue.
func NewQueue[T comparable]() Queue[T] {
	return workqueue.NewTypedRateLimitingQueue(workqueue.NewTypedItemExponentialFailureRateLimiter[T](retryFirst, retryMost))
}

// Worker does something with the keys of a queue, each within a time limit. A key that failed comes back after a pause.
type Worker[T comparable] struct {
	Queue   Queue[T]
	Timeout time.Duration
	Do      func(context.Context, T) error
	// Log gets the failures that need an administrator. Noun says there what a key names.
	Log  logr.Logger
	Noun string
}

// Run takes keys from the queue until it is shut down. Several goroutines may run it.
func (w Worker[T]) Run(ctx context.Context) {
	for w.Next(ctx) {
	}
}

// Next takes one key from the queue. It returns false after the queue was shut down.
func (w Worker[T]) Next(ctx context.Context) bool {
	key, over := w.Queue.Get()
	if over {
		return false
	}
	w.handle(ctx, key)
	return true
}

// RunEach takes keys from the queue until it is shut down, up to a number at a time. Each has a goroutine of its own, so that a large number
// costs nothing while there are few keys. It returns once all have ended.
func (w Worker[T]) RunEach(ctx context.Context, most int) {
	var group sync.WaitGroup
	defer group.Wait()
	room := make(chan struct{}, most)
	for {
		room <- struct{}{}
		key, over := w.Queue.Get()
		if over {
			return
		}
		group.Go(func() {
			w.handle(ctx, key)
			<-room
		})
	}
}

// handle does what is to be done with a key.
func (w Worker[T]) handle(ctx context.Context, key T) {
	defer w.Queue.Done(key)
	limited, cancel := context.WithTimeout(ctx, w.Timeout)
	defer cancel()
	switch err := contain.Run(func() error { return w.Do(limited, key) }); {
	case err == nil:
		w.Queue.Forget(key)
	case apierrors.IsConflict(err), apierrors.IsNotFound(err):
		w.Queue.AddRateLimited(key) // another writer was faster, and the cache will show the change
	case ctx.Err() == nil:
		w.Log.Error(err, "could not go on; it is tried again after a pause", w.Noun, fmt.Sprint(key))
		w.Queue.AddRateLimited(key)
	}
}
