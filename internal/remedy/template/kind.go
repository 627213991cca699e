package template

import (
	"context"
	"errors"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fettle-io/fettle/internal/core"
	"github.com/fettle-io/fettle/internal/sanitize"
)

// These are the pauses between attempts to watch a kind. They double from firstPause up to lastPause. A change of
// definitions ends a pause; settleDelay later the API server serves the new kinds.
const (
	firstPause   = time.Second
	lastPause    = 30 * time.Second
	settleDelay  = 200 * time.Millisecond
	syncPoll     = 20 * time.Millisecond
	probeTimeout = 10 * time.Second
	syncTimeout  = 30 * time.Second
	// neededPoll is how often the client checks whether a watched kind is still needed. While definitions can't be
	// watched, it is also how often the client checks that the kind is among them.
	neededPoll = 5 * time.Second
)

// kind is one kind of templates or of requests. The Client's lock guards all fields but gvk.
type kind struct {
	gvk schema.GroupVersionKind
	watchStatus

	// store has the objects while the kind is synced, and is nil otherwise.
	store *store
	// neededBy has the round of each cluster that last needed the kind.
	neededBy map[*ClusterClient]uint64
}

// keepWatching watches a kind whenever it is served, until the context ends or no cluster needs the kind.
func (c *Client) keepWatching(ctx context.Context, k *kind) {
	pause := firstPause
	for ctx.Err() == nil {
		changed := c.Changed()
		found, resource := c.probe(ctx, k.gvk)
		if found.state == synced {
			found = c.watch(ctx, k, found, resource)
			pause = firstPause
		}
		c.setStatus(ctx, k, found, nil)
		if await(ctx, changed, pause) {
			pause = firstPause
			await(ctx, nil, settleDelay)
		} else {
			pause = min(2*pause, lastPause)
		}
		if c.forget(k) {
			return
		}
	}
}

// await waits for a change, for the end of the context, or for the pause. It reports whether there was a change.
func await(ctx context.Context, changed <-chan struct{}, pause time.Duration) bool {
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-changed:
		return true
	case <-ctx.Done():
	case <-timer.C:
	}
	return false
}

// probe reports whether the API server lets Fettle list and watch a kind. An informer would retry forever, and hide the
// error. For a kind that can be watched, probe returns the resource too.
func (c *Client) probe(ctx context.Context, gvk schema.GroupVersionKind) (watchStatus, schema.GroupResource) {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	mapping, err := c.API.RESTMapper().RESTMapping(gvk.GroupKind(), gvk.Version)
	if err != nil {
		return statusAfter(err), schema.GroupResource{}
	}
	found := watchStatus{state: synced, namespaced: core.No}
	if mapping.Scope.Name() == meta.RESTScopeNameNamespace {
		found.namespaced = core.Yes
	}
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(gvk)
	err = c.API.List(ctx, list, client.Limit(1))
	if err == nil {
		err = c.probeWatch(ctx, list)
	}
	if err != nil {
		failed := statusAfter(err)
		failed.namespaced = found.namespaced
		return failed, schema.GroupResource{}
	}
	return found, mapping.Resource.GroupResource()
}

// probeWatch begins a watch from a list, and ends it.
func (c *Client) probeWatch(ctx context.Context, list *unstructured.UnstructuredList) error {
	second := int64(1)
	raw := &metav1.ListOptions{ResourceVersion: list.GetResourceVersion(), TimeoutSeconds: &second}
	watch, err := c.API.Watch(ctx, list, &client.ListOptions{Raw: raw})
	if err != nil {
		return err //nolint:wrapcheck // it says what it is about, and becomes a fact
	}
	watch.Stop()
	return nil
}

// statusAfter returns the status of a kind after an error.
func statusAfter(err error) watchStatus {
	const mostSaid = 300
	switch {
	case meta.IsNoMatchError(err), apierrors.IsNotFound(err):
		return watchStatus{state: unserved}
	case apierrors.IsForbidden(err):
		return watchStatus{state: forbidden}
	case errors.Is(err, context.DeadlineExceeded):
		return watchStatus{state: failing, why: "the API server did not answer within " + probeTimeout.String()}
	}
	return watchStatus{state: failing, why: sanitize.Failure(mostSaid, err)}
}

// watch keeps a kind synced by an informer. It returns the status of the kind once its definition is gone, or no
// cluster needs it.
func (c *Client) watch(ctx context.Context, k *kind, found watchStatus, resource schema.GroupResource) watchStatus {
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(k.gvk)
	informer, err := c.Informers.GetInformer(ctx, object, cache.BlockUntilSynced(false))
	if err != nil {
		return statusAfter(err)
	}
	objects := newStore(func(u *unstructured.Unstructured) { c.wakeAffected(k, u) })
	registration, err := informer.AddEventHandler(objects.handler())
	if err != nil {
		return statusAfter(err)
	}
	if !awaitSync(ctx, registration.HasSynced) {
		if err := c.Informers.RemoveInformer(ctx, object); err != nil {
			return statusAfter(err)
		}
		return watchStatus{state: failing, why: "it was not taken in within " + syncTimeout.String(), namespaced: found.namespaced}
	}
	c.setStatus(ctx, k, found, objects)
	c.Log.Info("watching a kind that templates need", "kind", k.gvk.String())
	served := c.awaitUnneeded(ctx, k, resource)
	if ctx.Err() != nil {
		return watchStatus{}
	}
	// The informer of a kind that is gone would retry ever more rarely, and find the kind late when it returns.
	if err := c.Informers.RemoveInformer(ctx, object); err != nil {
		return statusAfter(err)
	}
	if served {
		c.Log.Info("a kind is needed no more, and is not watched any longer", "kind", k.gvk.String())
		return watchStatus{namespaced: found.namespaced}
	}
	c.Log.Info("a kind that templates need is not served any more", "kind", k.gvk.String())
	return watchStatus{state: unserved, namespaced: found.namespaced}
}

// awaitSync reports whether an informer has synced in time. It gives up after a while, since the probe may be out of
// date by then.
func awaitSync(ctx context.Context, filled toolscache.InformerSynced) bool {
	ctx, cancel := context.WithTimeout(ctx, syncTimeout)
	defer cancel()
	tick := time.NewTicker(syncPoll)
	defer tick.Stop()
	for !filled() {
		select {
		case <-ctx.Done():
			return false
		case <-tick.C:
		}
	}
	return true
}

// awaitUnneeded waits until the definition of a resource is gone, or no cluster needs the kind. It reports whether the
// kind is still served. A resource without a definition is served by an aggregated API server, and stays.
func (c *Client) awaitUnneeded(ctx context.Context, k *kind, resource schema.GroupResource) (served bool) {
	names, defined := []string{resource.String()}, false
	for ctx.Err() == nil {
		changed := c.Changed()
		switch c.Served(names) {
		case core.Yes:
			defined = true
		case core.No:
			if defined {
				return false
			}
		case core.Unknown:
		}
		if !c.needed(k) {
			return true
		}
		await(ctx, changed, neededPoll)
	}
	return true
}

// needed reports whether any cluster needs a kind.
func (c *Client) needed(k *kind) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return k.isNeeded()
}

// isNeeded is needed for callers that hold the Client's lock.
func (k *kind) isNeeded() bool {
	for d := range k.neededBy {
		if d.needsNow(k) {
			return true
		}
	}
	return false
}

// setStatus stores the status and the objects of a kind, and wakes the clusters that need it if the status is new.
func (c *Client) setStatus(ctx context.Context, k *kind, found watchStatus, objects *store) {
	if ctx.Err() != nil {
		return
	}
	c.mu.Lock()
	if found.namespaced == core.Unknown {
		found.namespaced = k.namespaced
	}
	news := k.watchStatus != found
	k.watchStatus, k.store = found, objects
	c.mu.Unlock()
	if news {
		c.wakeAll(k)
	}
}

// forget drops a kind that no cluster needs, and reports whether it did.
func (c *Client) forget(k *kind) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if k.isNeeded() {
		return false
	}
	delete(c.kinds, k.gvk)
	c.order = slices.DeleteFunc(c.order, func(gvk schema.GroupVersionKind) bool { return gvk == k.gvk })
	return true
}
