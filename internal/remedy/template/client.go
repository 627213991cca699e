package template

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fettle-io/fettle/api/fettle/annotation"
	"github.com/fettle-io/fettle/internal/core"
)

// Config is what a Client needs. Every field is required but BuiltIn and Finalizers.
type Config struct {
	// Informers watch unstructured objects. The client removes the informer of a kind that is not served any more, so
	// other users of the same informers lose it.
	Informers cache.Informers
	// API reads from the API server, and writes to it.
	API client.WithWatch
	// Served reports whether the cluster has the definitions of these names. Changed returns a channel that is closed
	// when a definition comes or goes. It may be nil while definitions are not known.
	Served  func(names []string) core.Tri
	Changed func() <-chan struct{}
	Log     logr.Logger
	BuiltIn BuiltIn
	// Finalizers returns the finalizers that requests of a kind are created with. A remediator of this process would set the
	// same before its first effect, and removes them.
	Finalizers func(schema.GroupKind) []string
}

// Client is the remedy's access to the API server, for all forms and all clusters. It is safe for concurrent use.
type Client struct {
	Config

	// kindAdded has one element after a kind was added to unwatched.
	kindAdded chan struct{}

	mu    sync.Mutex
	kinds map[schema.GroupVersionKind]*kind
	// order has all kinds, in the order in which they came.
	order []schema.GroupVersionKind
	// unwatched are the kinds that no goroutine watches yet.
	unwatched []*kind
	// clusters are the clients of the clusters.
	clusters map[core.ClusterKey]*ClusterClient
}

// NewClient returns a client that watches nothing yet.
func NewClient(c Config) *Client {
	return &Client{Config: c, kindAdded: make(chan struct{}, 1), kinds: map[schema.GroupVersionKind]*kind{}, clusters: map[core.ClusterKey]*ClusterClient{}}
}

// Start watches the kinds that clusters need, until the context ends. It drops a kind that no cluster needs any more.
func (c *Client) Start(ctx context.Context) error {
	var watchers sync.WaitGroup
	defer watchers.Wait()
	for {
		for _, k := range c.takeUnwatched() {
			watchers.Go(func() { c.keepWatching(ctx, k) })
		}
		select {
		case <-ctx.Done():
			return nil
		case <-c.kindAdded:
		}
	}
}

// NeedLeaderElection lets replicas that don't lead watch the kinds too.
func (*Client) NeedLeaderElection() bool { return false }

func (c *Client) takeUnwatched() []*kind {
	c.mu.Lock()
	defer c.mu.Unlock()
	fresh := c.unwatched
	c.unwatched = nil
	return fresh
}

// lookUp returns the template of a call, and the store of the requests of its kind. Each is nil if it is not known.
func (c *Client) lookUp(o core.RemedyCall) (*unstructured.Unstructured, *store) {
	templates, requests, ok := kindsOf(o.Step.Template)
	if !ok {
		return nil, nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	of, made := c.kinds[templates], c.kinds[requests]
	if of == nil || made == nil {
		return nil, nil
	}
	at := resolveTemplate(&o.Step, o.Target.ID.Namespace, of.namespaced)
	stock := c.BuiltIn.find(o.Step.Remedy, at)
	return stock.or(of.store.find(at.Namespace, at.Name)), made.store
}

// Start creates the request of a call. The result is Stale when the template is gone, requests of its kind can't be
// seen, or a machine has changed since it was judged. It is Stale too while an earlier request of the same name is
// being deleted.
func (d *ClusterClient) Start(ctx context.Context, o core.RemedyCall) (core.RemedyResult, error) {
	c := d.Client
	template, made := c.lookUp(o)
	if template == nil || made == nil {
		return core.Stale, nil
	}
	if other := made.findForeign(o, template.GetName()); other != nil {
		return 0, foreignError(other, o, foreignReason(other, o))
	}
	request, err := render(template, o, d.key.Name)
	if err != nil {
		return 0, err
	}
	switch same, err := c.isAsJudged(ctx, o); {
	case err != nil:
		return 0, err
	case !same:
		return core.Stale, nil
	}
	if c.Finalizers != nil {
		request.SetFinalizers(c.Finalizers(request.GroupVersionKind().GroupKind()))
	}
	err = c.API.Create(ctx, request)
	switch {
	case err == nil:
		return core.Accepted, nil
	case meta.IsNoMatchError(err):
		return core.Stale, nil
	case !apierrors.IsAlreadyExists(err):
		return 0, fmt.Errorf("creating %s for %s: %w", idOf(request), o.Target.ID, withAdvice(err))
	}
	existing := &unstructured.Unstructured{}
	existing.SetGroupVersionKind(request.GroupVersionKind())
	err = c.API.Get(ctx, client.ObjectKeyFromObject(request), existing)
	switch {
	case apierrors.IsNotFound(err):
		return core.Stale, nil
	case err != nil:
		return 0, fmt.Errorf("reading %s, which exists already: %w", idOf(request), withAdvice(err))
	}
	return checkExisting(existing, o, template.GetName())
}

// isAsJudged reports whether a machine is still as it was judged. A request has no precondition on the machine, unlike
// a deletion (I11). Nodes need no check: the pass has just read them.
func (c *Client) isAsJudged(ctx context.Context, o core.RemedyCall) (bool, error) {
	kind, is := machineKinds[o.Step.Remedy]
	if !is {
		return true, nil
	}
	m := &metav1.PartialObjectMetadata{}
	m.SetGroupVersionKind(kind)
	err := c.API.Get(ctx, client.ObjectKey{Namespace: o.Target.ID.Namespace, Name: o.Target.ID.Name}, m)
	switch {
	case apierrors.IsNotFound(err):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("reading %s before its request is created: %w", o.Target.ID, err)
	}
	return string(m.UID) == o.Target.ID.UID && m.ResourceVersion == o.Target.Revision, nil
}

// withAdvice adds to an error what a user can do about it.
func withAdvice(err error) error {
	var status apierrors.APIStatus
	switch {
	case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		return fmt.Errorf("%w; use a template in another namespace", err)
	case apierrors.IsForbidden(err):
		return fmt.Errorf("%w; create a ClusterRole with the label %s=true that grants get, list, watch, create, patch and delete of this kind, as docs/contract.md shows", err, annotation.AggregateToFettleLabel)
	case apierrors.IsNotFound(err) && errors.As(err, &status) && status.Status().Details != nil && status.Status().Details.Kind == "namespaces":
		return fmt.Errorf("%w; create the namespace", err)
	}
	return err
}
