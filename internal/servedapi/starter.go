// Package servedapi wakes the parts of Fettle whose API the cluster does not serve yet, when it begins
// to, without a restart. It watches the names of custom resource definitions and nothing else.
package servedapi

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fettle-io/fettle/internal/core"
)

// Part is something that needs certain kinds to be served.
type Part struct {
	// Name is what people call the part.
	Name string
	// Kinds are the names of the definitions that it needs.
	Kinds []string
	// Reads are what Watch watches. The part sleeps until it may list all of it.
	Reads []Read
	// Grants names what an administrator applies to grant these rights.
	Grants string
	// Optional parts are ready without these rights, since not every installation has them.
	Optional bool
	// Watch begins to watch those kinds. It may be called again after it failed.
	Watch func(context.Context) error
	// HasSynced tells whether what is watched has been taken in.
	HasSynced func() bool
	// Without tells people how Fettle goes on while the part cannot read what the cluster defines. It may be empty.
	Without string
}

// The pauses between looks at a definition that exists but is not served yet, and at caches that
// are filling.
const (
	servedCheck = time.Second
	fillCheck   = 20 * time.Millisecond
	// allowedCheck is the pause between attempts of a part that may not read what it needs.
	allowedCheck = 30 * time.Second
)

// Starter starts parts when their kinds are served.
type Starter struct {
	Informers cache.Informers
	// API reads from the API server itself.
	API client.Reader
	// Mapper asks the cluster which kinds it serves. It may be nil, and then Templates returns none.
	Mapper meta.RESTMapper
	Log    logr.Logger
	Parts  []Part
	// OnChange is called when a part has begun to watch and is in step, and when a kind that a part needs
	// is served no more.
	OnChange func()

	// templates are nil until they have been looked up.
	templates atomic.Pointer[[]TemplateKind]
	// definitions are nil until they have been read.
	definitions atomic.Pointer[definitions]
	// forbidden are the parts that may not read what they need, by name.
	forbidden sync.Map
	// unreadable are the parts that others go on without, by name.
	unreadable sync.Map
	// unserved are the parts whose kinds are defined, and not served in the version that Fettle reads, by name.
	unserved sync.Map
}

// Start wakes parts until the context ends.
func (w *Starter) Start(ctx context.Context) error {
	definitions, err := w.watchDefinitions(ctx)
	if err != nil {
		return err
	}
	var parts sync.WaitGroup
	if w.Mapper != nil {
		parts.Go(func() { w.followTemplates(ctx, definitions) })
	}
	for _, part := range w.Parts {
		parts.Go(func() { w.startWhenServed(ctx, part, definitions) })
	}
	parts.Wait()
	return nil
}

// Served tells whether the cluster defines all of some kinds, given by the names of their definitions. It
// is Unknown until the definitions have been read.
func (w *Starter) Served(kinds []string) core.Tri {
	definitions := w.definitions.Load()
	switch {
	case definitions == nil:
		return core.Unknown
	case definitions.have(kinds):
		return core.Yes
	}
	return core.No
}

// NeedLeaderElection lets replicas that don't lead fill their caches too, so that the next leader
// can act at once.
func (*Starter) NeedLeaderElection() bool { return false }

// startWhenServed waits until the kinds of a part are defined and served, and starts it.
func (w *Starter) startWhenServed(ctx context.Context, part Part, definitions *definitions) {
	told, tries := false, newReadAttempt()
	for ctx.Err() == nil {
		changed := definitions.changed()
		if !definitions.have(part.Kinds) {
			w.unserved.Delete(part.Name)
			w.forbidden.Delete(part.Name)
			w.unreadable.Delete(part.Name)
			if !told {
				w.Log.Info("asleep until the cluster serves what this needs", "part", part.Name, "needs", part.Kinds)
				told = true
			}
			await(ctx, changed, 0)
			tries = newReadAttempt()
			continue
		}
		err := w.watch(ctx, part)
		pause := servedCheck
		w.noteServed(part, err)
		switch {
		case err == nil:
			w.forbidden.Delete(part.Name)
			w.unreadable.Delete(part.Name)
			w.awaitSync(ctx, part)
			return
		case apierrors.IsForbidden(err):
			pause = allowedCheck
			if _, told := w.forbidden.Swap(part.Name, true); !told {
				w.Log.Info("asleep until this may read what it needs", "part", part.Name, "why", err.Error())
			}
			tries = newReadAttempt()
		case !meta.IsNoMatchError(err):
			w.Log.Error(err, "could not begin to watch; it is tried again", "part", part.Name)
		}
		w.failed(part, tries, err)
		await(ctx, changed, pause)
	}
}

// watch begins to watch what a part may list. An informer without the right to list asks again without end, and returns no
// error.
func (w *Starter) watch(ctx context.Context, part Part) error {
	for _, read := range part.Reads {
		err := read.check(ctx, w.API)
		switch {
		case apierrors.IsForbidden(err):
			return fmt.Errorf("%w; apply %s", err, part.Grants)
		case err != nil:
			return err
		}
	}
	return part.Watch(ctx)
}

func (w *Starter) awaitSync(ctx context.Context, part Part) {
	tick := time.NewTicker(fillCheck)
	defer tick.Stop()
	fills := newReadAttempt()
	for !part.HasSynced() {
		select {
		case <-ctx.Done():
			return
		case <-fills.late:
			w.reportUnreadable(part, errNotFilled)
		case <-tick.C:
		}
	}
	w.unreadable.Delete(part.Name)
	w.Log.Info("awake", "part", part.Name)
	w.OnChange()
}

// await waits for a change, for the context, and for the pause unless it is 0.
func await(ctx context.Context, changed <-chan struct{}, pause time.Duration) {
	var timeout <-chan time.Time
	if pause > 0 {
		timer := time.NewTimer(pause)
		defer timer.Stop()
		timeout = timer.C
	}
	select {
	case <-ctx.Done():
	case <-changed:
	case <-timeout:
	}
}

// definitions are the names of the definitions in the cluster.
type definitions struct {
	mu     sync.Mutex
	names  map[string]bool
	notify chan struct{}
}

// +kubebuilder:rbac:groups=apiextensions.k8s.io,resources=customresourcedefinitions,verbs=list;watch

func (w *Starter) watchDefinitions(ctx context.Context) (*definitions, error) {
	d := &definitions{names: map[string]bool{}, notify: make(chan struct{})}
	object := &metav1.PartialObjectMetadata{}
	object.SetGroupVersionKind(schema.GroupVersionKind{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"})
	informer, err := w.Informers.GetInformer(ctx, object, cache.BlockUntilSynced(false))
	if err != nil {
		return nil, fmt.Errorf("watching custom resource definitions: %w", err)
	}
	registration, err := informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc: func(obj any) { d.set(obj, true) },
		DeleteFunc: func(obj any) {
			if name, known := d.set(obj, false); known && w.needs(name) {
				w.OnChange() // whoever waited for that part waits no more
			}
		},
	})
	if err != nil {
		return nil, fmt.Errorf("subscribing to custom resource definitions: %w", err)
	}
	if toolscache.WaitForCacheSync(ctx.Done(), registration.HasSynced) {
		w.definitions.Store(d)
	}
	return d, nil
}

// needs tells whether any part needs a kind.
func (w *Starter) needs(kind string) bool {
	return slices.ContainsFunc(w.Parts, func(p Part) bool { return slices.Contains(p.Kinds, kind) })
}

// set takes in that a definition exists or does not, and gives its name.
func (d *definitions) set(obj any, exists bool) (string, bool) {
	name, err := toolscache.DeletionHandlingMetaNamespaceKeyFunc(obj)
	if err != nil {
		return "", false
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if exists {
		d.names[name] = true
	} else {
		delete(d.names, name)
	}
	close(d.notify)
	d.notify = make(chan struct{})
	return name, true
}

func (d *definitions) have(names []string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, name := range names {
		if !d.names[name] {
			return false
		}
	}
	return true
}

// changed is closed at the next change.
func (d *definitions) changed() <-chan struct{} {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.notify
}
