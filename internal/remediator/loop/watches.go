package loop

import (
	"context"
	"sync"

	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"

	"github.com/fettle-io/fettle/internal/informer"
)

// Watches are the watches of a remediator. They are safe for concurrent use.
type Watches struct {
	kinds informer.Kinds
	// watching is closed by mark, once all kinds are watched.
	watching chan struct{}
	mark     func()
}

// NewWatches returns watches of nothing.
func NewWatches() *Watches {
	watching := make(chan struct{})
	return &Watches{watching: watching, mark: sync.OnceFunc(func() { close(watching) })}
}

// Watch begins to watch. It returns a NoMatch error while the kinds are not served, and may be called again. After it
// has succeeded, it does nothing.
func (w *Watches) Watch(ctx context.Context, informers cache.Informers, kinds ...informer.Kind) error {
	err := w.kinds.Watch(ctx, informers, kinds...)
	if err == nil {
		w.mark()
	}
	return err
}

// HasSynced reports whether the initial lists were handled.
func (w *Watches) HasSynced() bool { return w.kinds.HasSynced() }

// Wait waits until all kinds are watched and have synced. It reports whether that came before the end of the context.
func (w *Watches) Wait(ctx context.Context) bool {
	select {
	case <-ctx.Done():
		return false
	case <-w.watching:
	}
	return toolscache.WaitForCacheSync(ctx.Done(), w.HasSynced)
}

// KeyOf returns the key of an object that a watch shows, or that it reports as deleted.
func KeyOf(obj any) (types.NamespacedName, bool) {
	key, err := toolscache.DeletionHandlingObjectToName(obj)
	return types.NamespacedName{Namespace: key.Namespace, Name: key.Name}, err == nil
}
