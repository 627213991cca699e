package informer

import (
	"context"
	"errors"
	"reflect"
	"sync"

	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// errShared refuses to remove a subscription that several handlers have.
var errShared = errors.New("the subscription is shared by several handlers and can't be removed")

// Share returns a cache whose handlers for one kind share one subscription. A subscription has two goroutines, which
// wake for each event. For nodes, whose heartbeats are most of all events, each subscription costs as much as decoding.
//
// The handlers are called one after the other, so they must not block. A handler that is added after the first event
// has a subscription of its own, which begins with all objects.
func Share(c cache.Cache, kind client.Object) cache.Cache {
	return &sharingCache{Cache: c, kind: reflect.TypeOf(kind)}
}

type sharingCache struct {
	cache.Cache

	kind reflect.Type

	mu     sync.Mutex
	shared *sharedInformer
}

// GetInformer implements cache.Informers.
func (c *sharingCache) GetInformer(ctx context.Context, obj client.Object, options ...cache.InformerGetOption) (cache.Informer, error) {
	of, err := c.Cache.GetInformer(ctx, obj, options...)
	if err != nil || reflect.TypeOf(obj) != c.kind {
		return of, err //nolint:wrapcheck // it is a cache itself
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.shared == nil || c.shared.Informer != of {
		c.shared = &sharedInformer{Informer: of}
	}
	return c.shared, nil
}

// sharedInformer is an informer whose handlers share a subscription.
type sharedInformer struct {
	cache.Informer

	mu           sync.Mutex
	subscription toolscache.ResourceEventHandlerRegistration
	handlers     []toolscache.ResourceEventHandler
	// begun is set by the first event. The handlers stay the same from then on.
	begun bool
}

// AddEventHandler implements cache.Informer.
func (s *sharedInformer) AddEventHandler(handler toolscache.ResourceEventHandler) (toolscache.ResourceEventHandlerRegistration, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.begun {
		return s.Informer.AddEventHandler(handler) //nolint:wrapcheck // it is an informer itself
	}
	if s.subscription == nil {
		subscription, err := s.Informer.AddEventHandler(sharedHandler{s})
		if err != nil {
			return nil, err //nolint:wrapcheck // it is an informer itself
		}
		s.subscription = subscription
	}
	s.handlers = append(s.handlers, handler)
	return s.subscription, nil
}

// RemoveEventHandler implements cache.Informer. It returns an error for the shared subscription.
func (s *sharedInformer) RemoveEventHandler(subscription toolscache.ResourceEventHandlerRegistration) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if subscription == s.subscription {
		return errShared
	}
	return s.Informer.RemoveEventHandler(subscription) //nolint:wrapcheck // it is an informer itself
}

// begin returns the handlers. No handler joins them any more.
func (s *sharedInformer) begin() []toolscache.ResourceEventHandler {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.begun = true
	return s.handlers
}

// sharedHandler passes each event to all handlers, in the order in which they were added.
type sharedHandler struct{ informer *sharedInformer }

// OnAdd implements toolscache.ResourceEventHandler.
func (h sharedHandler) OnAdd(obj any, initial bool) {
	for _, handler := range h.informer.begin() {
		handler.OnAdd(obj, initial)
	}
}

// OnUpdate implements toolscache.ResourceEventHandler.
func (h sharedHandler) OnUpdate(old, fresh any) {
	for _, handler := range h.informer.begin() {
		handler.OnUpdate(old, fresh)
	}
}

// OnDelete implements toolscache.ResourceEventHandler.
func (h sharedHandler) OnDelete(obj any) {
	for _, handler := range h.informer.begin() {
		handler.OnDelete(obj)
	}
}
