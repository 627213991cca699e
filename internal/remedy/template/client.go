package template

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fettle-io/fettle/api/fettle/annotation"
	"github.com/fettle-io/fettle/api/medik8s/v1alpha1"
	"github.com/fettle-io/fettle/internal/core"
)

// Config is what a Client needs. Every field is required.
type Config struct {
	// Informers give what is watched, as unstructured objects. Those of a kind that is not served any more are
	// removed, so nobody else may rely on them.
	Informers cache.Informers
	// API reads from the API server itself, and writes to it.
	API client.WithWatch
	// Served tells whether the definitions of these names are in the cluster, and Changed gives a channel that is
	// closed when any comes or goes; it may be nil for as long as that can't be told.
	Served  func(names []string) core.Tri
	Changed func() <-chan struct{}
	Log     logr.Logger
}

// Client is the remedy's thin side, for all of its forms and all fleets. It is safe for concurrent use.
type Client struct {
	Config

	// kindAdded has one element when fresh may have some.
	kindAdded chan struct{}

	mu    sync.Mutex
	kinds map[schema.GroupVersionKind]*kind
	// order has all kinds that are kept, in the order in which they came.
	order []schema.GroupVersionKind
	// unwatched are kinds that nobody keeps yet.
	unwatched []*kind
	// clusters are those of the fleets that there are.
	clusters map[ClusterKey]*ClusterClient
}

// NewClient makes a client that watches nothing yet.
func NewClient(c Config) *Client {
	return &Client{Config: c, kindAdded: make(chan struct{}, 1), kinds: map[schema.GroupVersionKind]*kind{}, clusters: map[ClusterKey]*ClusterClient{}}
}

// Start watches the kinds that surveys need, until the context ends. A kind that nothing needs any more is let go of.
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

// NeedLeaderElection lets replicas that don't lead watch too what they have been asked about.
func (*Client) NeedLeaderElection() bool { return false }

func (c *Client) takeUnwatched() []*kind {
	c.mu.Lock()
	defer c.mu.Unlock()
	fresh := c.unwatched
	c.unwatched = nil
	return fresh
}

// lookUp gives the template of an order and the shelf of what is made from it. Each is nil where it is not known.
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
	return of.store.find(at.Namespace, at.Name), made.store
}

// Begin asks for the remediation of a target. The answer is Stale when the template is not there any more, when it can't
// be seen what others have asked for, when a machine is not as it was judged, and when an earlier request of the same name
// is not gone yet.
func (d *ClusterClient) Begin(ctx context.Context, o core.RemedyCall) (core.RemedyResult, error) {
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

// isAsJudged tells whether a machine is still the one that was judged, and as it was then. Nothing in a request insists on
// that, as the revision in a deletion does (I11). A node was read a moment ago.
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
		return false, fmt.Errorf("reading %s before it is asked for: %w", o.Target.ID, err)
	}
	return string(m.UID) == o.Target.ID.UID && m.ResourceVersion == o.Target.Revision, nil
}

// withAdvice adds to an error what a person can do about it.
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

// errNoUID keeps a namesake from being taken for a request.
var errNoUID = errors.New("its UID is not known, and nothing is done to it without")

// errForeign keeps what Fettle did not make from being touched, whatever was decided about it (I10).
var errForeign = errors.New("it was not made by Fettle, which touches only its own requests")

// Stop tells a remediator that its time is over.
func (c *Client) Stop(ctx context.Context, r core.Request, at time.Time) error {
	if !r.Stopped.IsZero() {
		return nil
	}
	if !r.Own {
		return fmt.Errorf("telling %s to stop: %w", r.ID, errForeign)
	}
	if r.ID.UID == "" {
		return fmt.Errorf("telling %s to stop: %w", r.ID, errNoUID)
	}
	// A UID in a patch is a condition: an object with another is left alone.
	body, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"uid": r.ID.UID, "annotations": map[string]string{v1alpha1.TimedOutAnnotation: at.UTC().Format(time.RFC3339)},
	}})
	if err != nil {
		return fmt.Errorf("encoding the annotation: %w", err)
	}
	err = c.API.Patch(ctx, objectOf(r), client.RawPatch(types.MergePatchType, body))
	if err != nil && !isGone(err) && !c.replaced(ctx, r, err) {
		return fmt.Errorf("telling %s to stop: %w", r.ID, withAdvice(err))
	}
	return nil
}

// replaced tells whether a patch or a deletion was refused since a namesake is there instead. Which refusal that is depends on the
// kind, and each has other causes too.
func (c *Client) replaced(ctx context.Context, r core.Request, refusal error) bool {
	if !apierrors.IsInvalid(refusal) && !apierrors.IsConflict(refusal) {
		return false
	}
	u := objectOf(r)
	err := c.API.Get(ctx, client.ObjectKeyFromObject(u), u)
	return apierrors.IsNotFound(err) || err == nil && string(u.GetUID()) != r.ID.UID
}

// Withdraw deletes a request. Its remediator may keep it until everything that it did is undone.
func (c *Client) Withdraw(ctx context.Context, r core.Request) error {
	if r.Leaving {
		return nil
	}
	if !r.Own {
		return fmt.Errorf("withdrawing %s: %w", r.ID, errForeign)
	}
	if r.ID.UID == "" {
		return fmt.Errorf("withdrawing %s: %w", r.ID, errNoUID)
	}
	uid := types.UID(r.ID.UID)
	err := c.API.Delete(ctx, objectOf(r), client.Preconditions{UID: &uid}, client.PropagationPolicy(metav1.DeletePropagationBackground))
	if err != nil && !isGone(err) && !c.replaced(ctx, r, err) {
		return fmt.Errorf("withdrawing %s: %w", r.ID, withAdvice(err))
	}
	return nil
}

// isGone tells that nothing has the name of a request any more.
func isGone(err error) bool { return apierrors.IsNotFound(err) || meta.IsNoMatchError(err) }

func objectOf(r core.Request) *unstructured.Unstructured {
	u := &unstructured.Unstructured{}
	u.SetAPIVersion(r.APIVersion)
	u.SetKind(r.ID.Kind)
	u.SetNamespace(r.ID.Namespace)
	u.SetName(r.ID.Name)
	return u
}
