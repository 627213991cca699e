package nhc

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fettle-io/fettle/api/medik8s/v1alpha1"
	"github.com/fettle-io/fettle/internal/core"
	"github.com/fettle-io/fettle/internal/healthcheck"
	"github.com/fettle-io/fettle/internal/informer"
	"github.com/fettle-io/fettle/internal/node"
	"github.com/fettle-io/fettle/internal/slim"
	"github.com/fettle-io/fettle/internal/writers"
)

// Kinds are the names of the definitions that the API server must serve before this dialect works.
var Kinds = []string{"nodehealthchecks.remediation.medik8s.io"} //nolint:gochecknoglobals // a constant list

// Writer writes statuses, and removes annotations of nodes.
type Writer interface {
	client.StatusClient
	Patch(ctx context.Context, obj client.Object, patch client.Patch, opts ...client.PatchOption) error
}

// Config has the dependencies of a Client. Every field is required but Served, Remediators, Metrics and Writers.
type Config struct {
	// Informers watch the objects of the cluster.
	Informers cache.Informers
	// Live reads from the API server and not from a cache.
	Live   client.Reader
	Writer Writer
	Events events.EventRecorder
	Now    func() time.Time
	// Wake is called when a fact that decisions read has changed.
	Wake func()
	// Served reports whether the cluster serves Kinds. If it is nil, the client can't know that.
	Served func() core.Tri
	// Remediators returns the kinds of remediation templates that the cluster serves. The statuses of health checks
	// without a template suggest them. It may be nil.
	Remediators func() []Remediator
	// Metrics may be nil.
	Metrics *Metrics
	// Writers detects foreign writers of statuses. It may be nil.
	Writers *writers.Registry
}

// Client watches the objects of the cluster and writes to them. It is safe for concurrent use.
type Client struct {
	Config

	watched informer.Kinds
	store   store
	// unclearExclusions are the nodes with a faulty exclusion label for which an event was emitted.
	unclearExclusions unclearExclusions
}

// NewClient returns a client that watches nothing yet.
func NewClient(c Config) *Client {
	return &Client{Config: c, store: newStore()}
}

// +kubebuilder:rbac:groups=remediation.medik8s.io,resources=nodehealthchecks,verbs=list;watch
// +kubebuilder:rbac:groups="",resources=nodes,verbs=list;watch

// Watch starts to watch. While the API is not served, it returns a NoMatch error, and may be called again. After a
// success, another call does nothing.
func (c *Client) Watch(ctx context.Context) error {
	return c.watched.Watch(ctx, c.Informers,
		informer.Kind{Plural: "health checks", Object: healthcheck.Object(checkKind, core.ID{}), Handler: c.handler(c.putCheck, c.dropCheck)},
		informer.Kind{Plural: "nodes", Object: &slim.Node{}, Handler: c.handler(c.store.putNode, c.store.dropNode)},
	)
}

// IsHealthCheck reports whether an object is a health check of this dialect.
func IsHealthCheck(u *unstructured.Unstructured) bool {
	return u.GroupVersionKind() == checkKind
}

// handler returns an event handler that wakes the loop only for changes that can alter a decision.
func (c *Client) handler(put func(any) bool, drop func(name string) bool) toolscache.ResourceEventHandler {
	take := func(obj any) {
		if put(obj) {
			c.Wake()
		}
	}
	return toolscache.ResourceEventHandlerFuncs{
		AddFunc:    take,
		UpdateFunc: func(_, obj any) { take(obj) },
		DeleteFunc: func(obj any) {
			name, err := toolscache.DeletionHandlingMetaNamespaceKeyFunc(obj)
			if err == nil && drop(name) {
				c.Wake()
			}
		},
	}
}

// putCheck stores a health check and reports whether that can change a decision. Writers are observed after it, so that
// a pass which they cause reads this version.
func (c *Client) putCheck(obj any) bool {
	changed := c.store.putCheck(obj)
	if u, is := obj.(*unstructured.Unstructured); is && u.GetDeletionTimestamp() == nil {
		c.Writers.Observe("", u.GetName(), writers.Of(u, ownFields()), c.Wake)
	}
	return changed
}

func (c *Client) dropCheck(name string) bool {
	c.Writers.Drop("", name)
	return c.store.dropCheck(name)
}

// Observe returns the health checks and the nodes that they select, from the caches. While the cluster doesn't serve
// health checks of this kind, there is nothing to observe.
func (c *Client) Observe() (core.Observation, error) {
	switch {
	case c.Served != nil && c.Served() == core.No:
		return core.Observation{Kind: nodeKind, Observed: core.No}, nil
	case !c.HasSynced():
		return core.Observation{Kind: nodeKind}, nil
	}
	o := core.Observation{Kind: nodeKind, Observed: core.Yes}
	o.Policies, o.Targets = c.store.snapshot()
	c.suggestRemediators(o.Policies)
	return o, nil
}

// HasSynced reports whether the store has all objects of the initial lists.
func (c *Client) HasSynced() bool { return c.watched.HasSynced() }

// +kubebuilder:rbac:groups="",resources=nodes,verbs=get

// ReadNode reads the node of a target from the API server. If the node is missing, or another node has its name by now,
// ReadNode returns NodeGone.
func (c *Client) ReadNode(ctx context.Context, t core.Target) (core.Node, error) {
	var n slim.Node
	err := c.Live.Get(ctx, types.NamespacedName{Name: t.ID.Name}, &n)
	switch {
	case apierrors.IsNotFound(err), err == nil && string(n.UID) != t.ID.UID:
		return core.Node{State: core.NodeGone, Name: t.ID.Name}, nil
	case err != nil:
		return core.Node{}, fmt.Errorf("getting node %s: %w", t.ID.Name, err)
	}
	return node.FactsOf(&n).Node, nil
}

// +kubebuilder:rbac:groups=remediation.medik8s.io,resources=nodehealthchecks,verbs=get

// ReadPolicy reads the fingerprint of a health check from the API server.
func (c *Client) ReadPolicy(ctx context.Context, id core.ID) (string, error) {
	u, err := healthcheck.ReadLive(ctx, c.Live, checkKind, id)
	if u == nil {
		return "", err
	}
	return readHealthCheck(u).policy.Fingerprint, nil
}

// WriteStatuses writes the statuses that have changed, and emits events about their transitions.
func (c *Client) WriteStatuses(ctx context.Context, reports []core.PolicyReport) map[core.ID]error {
	now := c.Now()
	c.Metrics.update(reports, c.store.factsOf, now)
	c.emit(c.unclearExclusions.news(reports, c.store.factsOf))
	return healthcheck.Record(reports, func(r *core.PolicyReport) func() error {
		other := c.Writers.Find(&r.Policy, c.Wake) // a write from here on causes another pass
		last, known := c.store.statusOf(r.Policy.ID)
		if other.News {
			c.emit([]event{foreignWriterEvent(r.Policy.ID, other.Manager)})
		}
		fresh, changed := statusOf(last.status, *r, now, foreignWriterConditions(other.Manager)...)
		if !known || !changed || r.Deferred {
			return nil
		}
		id := r.Policy.ID
		return func() error {
			write := func(s v1alpha1.NodeHealthCheckStatus) error { return c.writeStatus(ctx, id, last, s) }
			return healthcheck.Write(fresh, write, brief)
		}
	})
}

// +kubebuilder:rbac:groups=remediation.medik8s.io,resources=nodehealthchecks/status,verbs=patch

// writeStatus replaces the status as a whole. A merge patch would keep entries that it does not name, such as a node
// that is healthy again. It requires the revision from which the status was made, since other clients may have
// written a newer one.
func (c *Client) writeStatus(ctx context.Context, id core.ID, last storedStatus, fresh v1alpha1.NodeHealthCheckStatus) error {
	body, err := json.Marshal([]map[string]any{
		{"op": "replace", "path": "/metadata/resourceVersion", "value": last.revision},
		{"op": "add", "path": "/status", "value": fresh},
	})
	if err != nil {
		return fmt.Errorf("encoding the status: %w", err)
	}
	u := healthcheck.Object(checkKind, core.ID{Name: id.Name})
	there, err := healthcheck.PatchStatus(ctx, c.Writer, u, types.JSONPatchType, body)
	if there {
		c.store.storeWritten(u)
		c.emit(transitions(id, last.status, fresh))
	}
	return err
}

// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// EmitEvents emits Kubernetes events, which are written in the background.
func (c *Client) EmitEvents(events []core.Event) {
	for _, h := range events {
		if e, emitted := eventFor(h); emitted {
			c.emit([]event{e})
		}
	}
}

func (c *Client) emit(events []event) {
	for _, e := range events {
		e.Emit(c.Events, v1alpha1.GroupVersion.String())
	}
}

// +kubebuilder:rbac:groups="",resources=nodes,verbs=patch

// WithdrawConfirmation removes the annotation by which a user confirmed that a node is healthy. If the node is gone, or
// another node has its name, that is no error.
func (c *Client) WithdrawConfirmation(ctx context.Context, t core.Target) error {
	body, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"uid": t.ID.UID, "annotations": map[string]any{v1alpha1.ConfirmedHealthyAnnotation: nil},
	}})
	if err != nil {
		return fmt.Errorf("encoding a patch: %w", err)
	}
	n := &metav1.PartialObjectMetadata{}
	n.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind(nodeKind))
	n.SetName(t.ID.Name)
	err = c.Writer.Patch(ctx, n, client.RawPatch(types.MergePatchType, body))
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) && !apierrors.IsInvalid(err) {
		return fmt.Errorf("taking the annotation %s away from node %s: %w", v1alpha1.ConfirmedHealthyAnnotation, t.ID.Name, err)
	}
	return nil
}
