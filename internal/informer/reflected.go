package informer

import (
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	toolscache "k8s.io/client-go/tools/cache"
)

// reflected is the Queue of a reflector. It applies each change to the informer at once, so that nothing waits in it.
type reflected struct{ of *synchronous }

// Add implements toolscache.ReflectorStore.
func (q reflected) Add(obj any) error { return q.Update(obj) }

// Update implements toolscache.ReflectorStore.
func (q reflected) Update(obj any) error {
	q.of.delivery.Lock()
	defer q.of.delivery.Unlock()
	handlers, transform := q.of.current()
	obj, err := transformed(obj, transform)
	if err == nil {
		err = q.store(obj, handlers)
	}
	return err
}

// store stores a transformed object, and tells the handlers.
func (q reflected) store(obj any, handlers []*subscription) error {
	old, exists, err := q.of.store.Get(obj)
	if err == nil {
		err = q.of.store.Update(obj)
	}
	switch {
	case err != nil: // nothing has changed
	case !exists:
		initial := !isClosed(q.of.synced)
		each(handlers, func(h toolscache.ResourceEventHandler) { h.OnAdd(obj, initial) })
	case !isSameVersion(old, obj):
		each(handlers, func(h toolscache.ResourceEventHandler) { h.OnUpdate(old, obj) })
	}
	return err //nolint:wrapcheck // it says what is wrong with the object
}

// Delete implements toolscache.ReflectorStore.
func (q reflected) Delete(obj any) error {
	q.of.delivery.Lock()
	defer q.of.delivery.Unlock()
	handlers, transform := q.of.current()
	obj, err := transformed(obj, transform)
	if err == nil {
		err = q.remove(obj, handlers)
	}
	return err
}

// remove removes a transformed object, or one of which the last known state was transformed, and tells the handlers.
func (q reflected) remove(obj any, handlers []*subscription) error {
	err := q.of.store.Delete(obj)
	if err == nil {
		each(handlers, func(h toolscache.ResourceEventHandler) { h.OnDelete(obj) })
	}
	return err //nolint:wrapcheck // it says what is wrong with the object
}

// Replace implements toolscache.ReflectorStore. It stores the objects of a list, and removes the others. Their handlers get
// the last known state, as DeletedFinalStateUnknown. A list of which an object can't be read changes nothing.
func (q reflected) Replace(list []any, _ string) error {
	q.of.delivery.Lock()
	defer q.of.delivery.Unlock()
	handlers, transform := q.of.current()
	listed := make(map[string]bool, len(list))
	for i, obj := range list {
		obj, err := transformed(obj, transform)
		var key string
		if err == nil {
			key, err = toolscache.MetaNamespaceKeyFunc(obj)
		}
		if err != nil {
			return fmt.Errorf("reading a list: %w", err)
		}
		list[i], listed[key] = obj, true
	}
	var err error
	for _, key := range q.of.store.ListKeys() {
		if !listed[key] {
			last, _, _ := q.of.store.GetByKey(key)
			err = errors.Join(err, q.remove(toolscache.DeletedFinalStateUnknown{Key: key, Obj: last}, handlers))
		}
	}
	for _, obj := range list {
		err = errors.Join(err, q.store(obj, handlers))
	}
	if err == nil {
		q.sync(handlers)
	}
	return err
}

// sync notes that the informer and its handlers have the first list.
func (q reflected) sync(handlers []*subscription) {
	if isClosed(q.of.synced) {
		return
	}
	close(q.of.synced)
	for _, s := range handlers {
		close(s.synced)
	}
}

// Transformer implements toolscache.TransformingStore.
func (q reflected) Transformer() toolscache.TransformFunc {
	_, transform := q.of.current()
	return transform
}

// Resync implements toolscache.ReflectorStore. There are no resyncs.
func (reflected) Resync() error { return nil }

// Pop implements toolscache.Queue. It waits until the reflector ends.
func (q reflected) Pop(toolscache.PopProcessFunc) (any, error) {
	<-q.of.closed
	return nil, toolscache.ErrFIFOClosed
}

// HasSynced implements toolscache.Queue.
func (q reflected) HasSynced() bool { return q.of.HasSynced() }

// HasSyncedChecker implements toolscache.Queue.
func (q reflected) HasSyncedChecker() toolscache.DoneChecker { return q.of.HasSyncedChecker() }

// Close implements toolscache.Queue. The reflector calls it once.
func (q reflected) Close() { close(q.of.closed) }

// transformed applies a transform to an object.
func transformed(obj any, transform toolscache.TransformFunc) (any, error) {
	if transform == nil {
		return obj, nil
	}
	obj, err := transform(obj)
	if err != nil {
		return nil, fmt.Errorf("transforming an object: %w", err)
	}
	return obj, nil
}

// isSameVersion reports whether two objects have the same resource version.
func isSameVersion(a, b any) bool {
	of, err := meta.Accessor(a)
	other, wrong := meta.Accessor(b)
	return err == nil && wrong == nil && of.GetResourceVersion() == other.GetResourceVersion()
}

// each calls a function for each handler that gets events.
func each(handlers []*subscription, tell func(toolscache.ResourceEventHandler)) {
	for _, s := range handlers {
		if !s.removed.Load() {
			tell(s.handler)
		}
	}
}
