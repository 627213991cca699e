// Package informertest has informers for tests, which fill them by hand.
package informertest

import (
	"context"
	"reflect"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/runtime/schema"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Informers have one informer for each kind. They are not safe for concurrent use.
type Informers struct {
	cache.Informers

	// Refuse has errors of GetInformer by kind.
	Refuse map[string]error

	synced    bool
	informers map[string]*Informer
}

// New returns informers without objects.
func New() *Informers {
	return &Informers{Refuse: map[string]error{}, informers: map[string]*Informer{}}
}

// Of returns the informer of a kind. The kind of an object without one is the name of its Go type.
func (i *Informers) Of(kind string) *Informer {
	if i.informers[kind] == nil {
		i.informers[kind] = &Informer{Synced: i.synced, shown: map[string]client.Object{}}
	}
	return i.informers[kind]
}

// SetSynced sets whether the informers of all kinds have synced.
func (i *Informers) SetSynced(synced bool) {
	i.synced = synced
	for _, informer := range i.informers {
		informer.Synced = synced
	}
}

// GetInformer implements cache.Informers.
func (i *Informers) GetInformer(_ context.Context, obj client.Object, _ ...cache.InformerGetOption) (cache.Informer, error) {
	kind := obj.GetObjectKind().GroupVersionKind().Kind
	if kind == "" {
		kind = reflect.TypeOf(obj).Elem().Name()
	}
	informer := i.Of(kind)
	informer.Gets++
	informer.Kind = obj.GetObjectKind().GroupVersionKind()
	if err := i.Refuse[kind]; err != nil {
		return nil, err
	}
	return informer, nil
}

// Informer is the informer of one kind.
type Informer struct {
	cache.Informer

	// Handler is the handler that was added last, or nil.
	Handler toolscache.ResourceEventHandler
	// Kind is the kind of the object that was passed to GetInformer last.
	Kind schema.GroupVersionKind
	// Synced is what the registration of the handler reports.
	Synced bool
	// Refuse is the error of AddEventHandler.
	Refuse error
	// Gets and Handlers count the calls of GetInformer for the kind, and the handlers.
	Gets, Handlers int

	shown map[string]client.Object
}

// AddEventHandler implements cache.Informer.
func (i *Informer) AddEventHandler(h toolscache.ResourceEventHandler) (toolscache.ResourceEventHandlerRegistration, error) {
	if i.Refuse != nil {
		return nil, i.Refuse
	}
	i.Handler = h
	i.Handlers++
	return registration{of: i}, nil
}

// Show passes an object to the handler: as an update, if an object of its name was shown before.
func (i *Informer) Show(obj client.Object) {
	key := obj.GetNamespace() + "/" + obj.GetName()
	old := i.shown[key]
	i.shown[key] = obj
	if old == nil {
		i.Handler.OnAdd(obj, false)
		return
	}
	i.Handler.OnUpdate(old, obj)
}

// Hide passes the deletion of an object that was shown to the handler.
func (i *Informer) Hide(key string) {
	old := i.shown[key]
	delete(i.shown, key)
	i.Handler.OnDelete(old)
}

// HideUnseen passes the deletion of an object that was shown to the handler, as a watch that was interrupted reports it.
func (i *Informer) HideUnseen(key string) {
	old := i.shown[key]
	delete(i.shown, key)
	i.Handler.OnDelete(toolscache.DeletedFinalStateUnknown{Key: key, Obj: old})
}

// Syncing are informers that sync while they are in use. They have no objects.
type Syncing struct {
	cache.Informers

	// Synced is what the registration of each handler reports.
	Synced atomic.Bool
}

// GetInformer implements cache.Informers.
func (s *Syncing) GetInformer(context.Context, client.Object, ...cache.InformerGetOption) (cache.Informer, error) {
	return syncing{of: s}, nil
}

type syncing struct {
	cache.Informer
	toolscache.ResourceEventHandlerRegistration

	of *Syncing
}

// AddEventHandler implements cache.Informer.
func (s syncing) AddEventHandler(toolscache.ResourceEventHandler) (toolscache.ResourceEventHandlerRegistration, error) {
	return s, nil
}

// HasSyncedChecker implements both interfaces. Nothing calls it.
func (syncing) HasSyncedChecker() toolscache.DoneChecker { panic("not called") }

// HasSynced implements toolscache.ResourceEventHandlerRegistration.
func (s syncing) HasSynced() bool { return s.of.Synced.Load() }

type registration struct {
	toolscache.ResourceEventHandlerRegistration

	of *Informer
}

// HasSynced implements toolscache.ResourceEventHandlerRegistration.
func (r registration) HasSynced() bool { return r.of.Synced }
