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

// Kind is a kind to watch.
type Kind struct {
	// Plural is the name for several objects, such as "machines".
	Plural string
	// Object has the type that the handler gets.
	Object  client.Object
	Handler toolscache.ResourceEventHandler
}

// Kinds are watched together. The zero Kinds watch nothing. They are safe for concurrent use.
type Kinds struct {
	mu sync.Mutex
	// synced report whether the handlers have seen the first lists. They are nil until Watch has succeeded.
	synced []toolscache.InformerSynced
	// plurals are the names of the kinds, in the same order.
	plurals []string
	// broken is set once a handler has panicked.
	broken atomic.Bool
}

// Watch starts to watch the kinds. If one of them is not served, it returns a NoMatch error, watches none, and may
// be called again. After it has succeeded, further calls do nothing.
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

// KindHasSynced reports whether the handler of a kind has seen the first list. After a handler has panicked, it is
// always false.
func (k *Kinds) KindHasSynced(plural string) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	i := slices.Index(k.plurals, plural)
	return i >= 0 && k.synced[i]() && !k.broken.Load()
}

// HasSynced reports whether all handlers have seen the first lists. It is false before Watch has succeeded. After a
// handler has panicked, it is always false.
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
