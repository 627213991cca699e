// Package servedapi starts the parts of Fettle once the cluster serves the APIs that they need. Fettle needs
// no restart then. The package watches nothing but the names of custom resource definitions.
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

// Part is a part of Fettle that needs certain kinds.
type Part struct {
	// Name is the name of the part for users.
	Name string
	// Kinds are the names of the definitions that the part needs.
	Kinds []string
	// Reads are the kinds that Watch watches. The part waits until it may list all of them.
	Reads []Read
	// Grants names the file that an administrator applies to grant these rights.
	Grants string
	// Optional is set for a part that is ready without these rights, since not every installation has them.
	Optional bool
	// Watch starts to watch the kinds. It may be called again after it failed.
	Watch func(context.Context) error
	// HasSynced reports whether the caches of the part have synced.
	HasSynced func() bool
	// Without says how Fettle goes on while the part can't read its kinds. It is a text for users and may be empty.
	Without string
}

// The pauses between checks whether a defined kind is served, and whether caches have synced.
const (
	servedCheck = time.Second
	fillCheck   = 20 * time.Millisecond
	// allowedCheck is the pause between attempts of a part that lacks rights.
	allowedCheck = 30 * time.Second
)

// Starter starts parts once their kinds are served.
type Starter struct {
	Informers cache.Informers
	// API reads from the API server.
	API client.Reader
	// Mapper finds the kinds that the cluster serves. It may be nil, and then Templates returns none.
	Mapper meta.RESTMapper
	Log    logr.Logger
	Parts  []Part
	// OnChange is called when a part has synced, and when a kind that a part needs is no longer served.
	OnChange func()

	// templates is nil until the templates have been looked up.
	templates atomic.Pointer[[]TemplateKind]
	// definitions is nil until the definitions have been read.
	definitions atomic.Pointer[definitions]
	// forbidden has the names of the parts that lack rights.
	forbidden sync.Map
	// unreadable has the names of the parts that other parts must not wait for.
	unreadable sync.Map
	// unserved has the names of the parts whose kinds are defined, and not served in the version that Fettle reads.
	unserved sync.Map
}

// Start starts parts until the context ends.
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

// Served reports whether the cluster has all of some definitions, given by their names. It is Unknown until the
// definitions have been read.
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

// NeedLeaderElection lets replicas that don't lead fill their caches, so that the next leader can act at once.
func (*Starter) NeedLeaderElection() bool { return false }

// startWhenServed waits until the kinds of a part are defined and served, and starts the part.
func (w *Starter) startWhenServed(ctx context.Context, part Part, definitions *definitions) {
	logged, tries := false, newReadAttempt()
	for ctx.Err() == nil {
		changed := definitions.changed()
		if !definitions.have(part.Kinds) {
			w.unserved.Delete(part.Name)
			w.forbidden.Delete(part.Name)
			w.unreadable.Delete(part.Name)
			if !logged {
				w.Log.Info("asleep until the cluster serves what this needs", "part", part.Name, "needs", part.Kinds)
				logged = true
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
			if _, logged := w.forbidden.Swap(part.Name, true); !logged {
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

// watch starts to watch the kinds of a part, if the part may list them. An informer without that right would try
// again without end, and return no error.
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

// await waits for a change, the end of the context or the pause. A pause of 0 is none.
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

// definitions has the names of the definitions in the cluster.
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
			if w.needs(d.set(obj, false)) {
				w.OnChange() // no pass needs to wait for the part now
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

// needs reports whether any part needs a kind.
func (w *Starter) needs(kind string) bool {
	return slices.ContainsFunc(w.Parts, func(p Part) bool { return slices.Contains(p.Kinds, kind) })
}

// set records whether a definition exists, and returns its name. The name is empty for an object that is none.
func (d *definitions) set(obj any, exists bool) string {
	name, err := toolscache.DeletionHandlingMetaNamespaceKeyFunc(obj)
	if err != nil {
		return ""
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
	return name
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

// changed returns a channel that is closed at the next change.
func (d *definitions) changed() <-chan struct{} {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.notify
}
