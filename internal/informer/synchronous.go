package informer

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	toolscache "k8s.io/client-go/tools/cache"
)

var (
	errStarted = errors.New("the informer has started already")
	errStopped = errors.New("the informer has stopped already")
	errForeign = errors.New("the handler was not added to this informer")
)

// NewSynchronous returns an informer that calls its handlers in the goroutine that reads the watch, one after the other. An
// informer of client-go passes each event through a queue and two goroutines of each handler, which all wake for it. For
// heartbeats of nodes, which are most of all events, that costs as much as decoding.
//
// A handler must not block. It gets each change once, and in order. A handler that is added late gets the objects of the
// store first. There are no resyncs: an object whose resource version has not changed causes no event.
func NewSynchronous(watched toolscache.ListerWatcher, example runtime.Object, indexers toolscache.Indexers) toolscache.SharedIndexInformer {
	return &synchronous{
		watched: watched, example: example,
		store:  toolscache.NewIndexer(toolscache.DeletionHandlingMetaNamespaceKeyFunc, indexers),
		synced: make(chan struct{}), closed: make(chan struct{}),
	}
}

// synchronous is a SharedIndexInformer. It is the Queue of its reflector too, but keeps nothing in it.
type synchronous struct {
	watched toolscache.ListerWatcher
	example runtime.Object
	store   toolscache.Indexer
	// synced is closed once the store has the first list, and closed once the reflector ends.
	synced, closed chan struct{}

	// delivery is held while the store is changed and the handlers are told. It is locked before mu.
	delivery sync.Mutex

	mu sync.Mutex
	// handlers is replaced, and never changed in place.
	handlers         []*subscription
	transform        toolscache.TransformFunc
	onError          toolscache.WatchErrorHandlerWithContext
	reflector        toolscache.Controller
	started, stopped bool
}

// subscription is a handler of a synchronous informer.
type subscription struct {
	handler toolscache.ResourceEventHandler
	name    string
	// synced is closed once the handler has the objects of the first list.
	synced chan struct{}
	// removed is set when the handler gets no further event.
	removed atomic.Bool
}

// HasSynced implements toolscache.ResourceEventHandlerRegistration.
func (s *subscription) HasSynced() bool { return isClosed(s.synced) }

// HasSyncedChecker implements toolscache.ResourceEventHandlerRegistration.
func (s *subscription) HasSyncedChecker() toolscache.DoneChecker { return done{s.name, s.synced} }

// done implements toolscache.DoneChecker.
type done struct {
	name string
	when chan struct{}
}

// Name implements toolscache.DoneChecker.
func (d done) Name() string { return d.name }

// Done implements toolscache.DoneChecker.
func (d done) Done() <-chan struct{} { return d.when }

func isClosed(c chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// RunWithContext implements toolscache.SharedInformer. An informer runs once.
func (i *synchronous) RunWithContext(ctx context.Context) {
	reflector, err := i.start()
	if err != nil {
		return
	}
	defer i.stop()
	reflector.RunWithContext(ctx)
}

func (i *synchronous) start() (toolscache.Controller, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.started {
		return nil, errStarted
	}
	i.started = true
	i.reflector = toolscache.New(&toolscache.Config{
		Queue: reflected{i}, ListerWatcher: i.watched, ObjectType: i.example, WatchErrorHandlerWithContext: i.onError,
	})
	return i.reflector, nil
}

func (i *synchronous) stop() {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.stopped = true
}

// Run implements toolscache.SharedInformer.
func (i *synchronous) Run(stop <-chan struct{}) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() {
		defer cancel()
		select {
		case <-stop:
		case <-ctx.Done():
		}
	}()
	i.RunWithContext(ctx)
}

// AddEventHandler implements toolscache.SharedInformer.
func (i *synchronous) AddEventHandler(handler toolscache.ResourceEventHandler) (toolscache.ResourceEventHandlerRegistration, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.stopped {
		return nil, errStopped
	}
	s := &subscription{handler: handler, name: i.name(), synced: make(chan struct{})}
	if i.started {
		go i.begin(s) // the caller may hold a lock that the handler needs
	} else {
		i.add(s)
	}
	return s, nil
}

// add has a handler told of all changes from now on. The caller holds mu.
func (i *synchronous) add(s *subscription) { i.handlers = append(slices.Clone(i.handlers), s) }

// begin passes the objects of the store to a handler, and all changes from then on.
func (i *synchronous) begin(s *subscription) {
	i.delivery.Lock()
	defer i.delivery.Unlock()
	for _, obj := range i.store.List() {
		if !s.removed.Load() {
			s.handler.OnAdd(obj, true)
		}
	}
	if isClosed(i.synced) {
		close(s.synced)
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	if !s.removed.Load() {
		i.add(s)
	}
}

// AddEventHandlerWithResyncPeriod implements toolscache.SharedInformer. There are no resyncs.
func (i *synchronous) AddEventHandlerWithResyncPeriod(handler toolscache.ResourceEventHandler, _ time.Duration) (toolscache.ResourceEventHandlerRegistration, error) {
	return i.AddEventHandler(handler)
}

// AddEventHandlerWithOptions implements toolscache.SharedInformer. There are no resyncs, and nothing is logged.
func (i *synchronous) AddEventHandlerWithOptions(handler toolscache.ResourceEventHandler, _ toolscache.HandlerOptions) (toolscache.ResourceEventHandlerRegistration, error) {
	return i.AddEventHandler(handler)
}

// RemoveEventHandler implements toolscache.SharedInformer. An event that the handler is being told of is not waited for.
func (i *synchronous) RemoveEventHandler(registration toolscache.ResourceEventHandlerRegistration) error {
	s, ok := registration.(*subscription)
	if !ok {
		return errForeign
	}
	s.removed.Store(true)
	i.mu.Lock()
	defer i.mu.Unlock()
	i.handlers = slices.DeleteFunc(slices.Clone(i.handlers), func(other *subscription) bool { return other == s })
	return nil
}

// HasSynced implements toolscache.SharedInformer.
func (i *synchronous) HasSynced() bool { return isClosed(i.synced) }

// HasSyncedChecker implements toolscache.SharedInformer.
func (i *synchronous) HasSyncedChecker() toolscache.DoneChecker { return done{i.name(), i.synced} }

func (i *synchronous) name() string { return fmt.Sprintf("synchronous informer of %T", i.example) }

// LastSyncResourceVersion implements toolscache.SharedInformer.
func (i *synchronous) LastSyncResourceVersion() string {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.reflector == nil {
		return ""
	}
	return i.reflector.LastSyncResourceVersion()
}

// GetStore implements toolscache.SharedInformer.
func (i *synchronous) GetStore() toolscache.Store { return i.store }

// GetIndexer implements toolscache.SharedIndexInformer.
func (i *synchronous) GetIndexer() toolscache.Indexer { return i.store }

// GetController implements toolscache.SharedInformer.
func (i *synchronous) GetController() toolscache.Controller { return i }

// AddIndexers implements toolscache.SharedIndexInformer.
func (i *synchronous) AddIndexers(indexers toolscache.Indexers) error {
	if i.IsStopped() {
		return errStopped
	}
	return i.store.AddIndexers(indexers) //nolint:wrapcheck // it says what is wrong with the indexers
}

// SetWatchErrorHandler implements toolscache.SharedInformer.
func (i *synchronous) SetWatchErrorHandler(handler toolscache.WatchErrorHandler) error {
	return i.SetWatchErrorHandlerWithContext(func(_ context.Context, r *toolscache.Reflector, err error) { handler(r, err) })
}

// SetWatchErrorHandlerWithContext implements toolscache.SharedInformer.
func (i *synchronous) SetWatchErrorHandlerWithContext(handler toolscache.WatchErrorHandlerWithContext) error {
	return i.configure(func() { i.onError = handler })
}

// SetTransform implements toolscache.SharedInformer.
func (i *synchronous) SetTransform(transform toolscache.TransformFunc) error {
	return i.configure(func() { i.transform = transform })
}

func (i *synchronous) configure(set func()) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.started {
		return errStarted
	}
	set()
	return nil
}

// IsStopped implements toolscache.SharedInformer.
func (i *synchronous) IsStopped() bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.stopped
}

// current returns the handlers, and the transform.
func (i *synchronous) current() ([]*subscription, toolscache.TransformFunc) {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.handlers, i.transform
}
