package informer

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Kind is one of the kinds that are watched.
type Kind struct {
	// Plural is what people call it, as in "machines".
	Plural string
	// Object is of the type that the handler gets.
	Object  client.Object
	Handler toolscache.ResourceEventHandler
}

// Kinds are watched together. The zero Kinds watch nothing yet. They are safe for concurrent use.
type Kinds struct {
	mu sync.Mutex
	// synced tell whether what is watched has been taken in; nil until watching began.
	synced []toolscache.InformerSynced
	// plurals name the kinds in the same order.
	plurals []string
	// broken is set once a handler has panicked.
	broken atomic.Bool
}

// Watch begins to watch. It fails with a NoMatch error while one of the kinds is not served; then none is watched, and
// it may be called again. Once it has succeeded, calling it again does nothing.
func (k *Kinds) Watch(ctx context.Context, informers cache.Informers, kinds ...Kind) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.synced != nil {
		return nil
	}
	of := make([]cache.Informer, len(kinds))
	for i, kind := range kinds {
		informer, err := informers.GetInformer(ctx, kind.Object, cache.BlockUntilSynced(false))
		if err != nil {
			return fmt.Errorf("watching %s: %w", kind.Plural, err)
		}
		of[i] = informer
	}
	synced := make([]toolscache.InformerSynced, len(kinds))
	for i, kind := range kinds {
		registration, err := of[i].AddEventHandler(&recoveringHandler{handler: kind.Handler, kind: kind.Plural, broken: &k.broken, ctx: ctx})
		if err != nil {
			return fmt.Errorf("subscribing to %s: %w", kind.Plural, err)
		}
		synced[i] = registration.HasSynced
	}
	k.synced = synced
	for _, kind := range kinds {
		k.plurals = append(k.plurals, kind.Plural)
		Panics.WithLabelValues(kind.Plural) // the series begins at zero
	}
	return nil
}

// KindHasSynced reports whether the objects of one kind, by its plural, have been taken in. It is false for good once a handler has
// panicked.
func (k *Kinds) KindHasSynced(plural string) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	i := slices.Index(k.plurals, plural)
	return i >= 0 && k.synced[i]() && !k.broken.Load()
}

// HasSynced reports whether what is watched has been taken in. It is false until watching began, and for good once a handler has
// panicked.
func (k *Kinds) HasSynced() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, done := range k.synced {
		if !done() {
			return false
		}
	}
	return k.synced != nil && !k.broken.Load()
}
