package openshift

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fettle-io/fettle/api/openshift/v1beta1"
	"github.com/fettle-io/fettle/internal/core"
	"github.com/fettle-io/fettle/internal/healthcheck"
	"github.com/fettle-io/fettle/internal/informer"
	"github.com/fettle-io/fettle/internal/node"
	"github.com/fettle-io/fettle/internal/slim"
	"github.com/fettle-io/fettle/internal/writers"
)

// Kinds are the resources without which this dialect sleeps, by the name of their definitions.
var Kinds = []string{"machinehealthchecks.machine.openshift.io", "machines.machine.openshift.io"} //nolint:gochecknoglobals // a constant list

// Config is what a Client needs. Every field is required but Served, MachinesServed, Metrics and
// Writers.
type Config struct {
	// Informers give what is watched.
	Informers cache.Informers
	// Live reads from the API server itself.
	Live client.Reader
	// Writer writes statuses.
	Writer client.StatusClient
	Events events.EventRecorder
	Now    func() time.Time
	// Wake is called when something that decisions read has changed.
	Wake func()
	// Served tells whether the cluster serves Kinds. It may be nil, and then that is not known.
	Served func() core.Tri
	// MachinesServed tells whether the cluster serves MachineKinds. It may be nil, and then no machine is known by MachineOf.
	MachinesServed func() core.Tri
	// Metrics may be nil, and then nothing is counted.
	Metrics *Metrics
	// Writers may be nil, and then no other controller is noticed.
	Writers *writers.Registry
}

// Client is the dialect's thin side. It is safe for concurrent use.
type Client struct {
	Config

	// machines are watched without health checks too.
	checks, machines, sets informer.Kinds
	store                  store
	nodes                  *node.Store
}

// NewClient makes a client that watches nothing yet.
func NewClient(c Config) *Client {
	return &Client{Config: c, store: newStore(), nodes: node.NewStore()}
}

// +kubebuilder:rbac:groups=machine.openshift.io,resources=machinehealthchecks,verbs=list;watch
// +kubebuilder:rbac:groups=machine.openshift.io,resources=machines,verbs=list;watch
// +kubebuilder:rbac:groups="",resources=nodes,verbs=list;watch

// Watch begins to watch. It fails with a NoMatch error while the API is not served, and may be
// called again then. Once it has succeeded, calling it again does nothing.
func (c *Client) Watch(ctx context.Context) error {
	err := c.checks.Watch(ctx, c.Informers,
		informer.Kind{Plural: "health checks", Object: healthcheck.Object(checkKind, core.ID{}), Handler: c.handler(c.putCheck, c.dropCheck)},
	)
	if err != nil {
		return err
	}
	return c.WatchMachines(ctx)
}

// IsHealthCheck reports whether an object is a health check of this dialect.
func IsHealthCheck(u *unstructured.Unstructured) bool {
	return u.GroupVersionKind() == checkKind
}

// handler takes in what comes, and wakes the engine only for what can change a decision.
func (c *Client) handler(put func(any) bool, drop func(key string)) toolscache.ResourceEventHandler {
	take := func(obj any) {
		if put(obj) {
			c.Wake()
		}
	}
	return toolscache.ResourceEventHandlerFuncs{
		AddFunc:    take,
		UpdateFunc: func(_, obj any) { take(obj) },
		DeleteFunc: func(obj any) {
			if key, err := toolscache.DeletionHandlingMetaNamespaceKeyFunc(obj); err == nil {
				drop(key)
				c.Wake()
			}
		},
	}
}

func (c *Client) putNode(obj any) bool {
	changed, err := c.nodes.Put(obj)
	return changed && err == nil
}

// putCheck takes in a health check and reports whether that can change a decision.
func (c *Client) putCheck(obj any) bool {
	if u, is := obj.(*unstructured.Unstructured); is && u.GetDeletionTimestamp() == nil {
		c.Writers.Observe(u.GetNamespace(), u.GetName(), writers.Of(u, ownFields()), c.Wake)
	}
	return c.store.putCheck(obj)
}

func (c *Client) dropCheck(key string) {
	namespace, name, _ := strings.Cut(key, "/")
	c.Writers.Drop(namespace, name)
	c.store.dropCheck(key)
}

// Observe gives the machines of the cluster and the health checks, from what has been watched. While the
// cluster does not serve them, there is nothing to observe.
func (c *Client) Observe() (core.Observation, error) {
	switch {
	case c.Served != nil && c.Served() == core.No:
		return core.Observation{Kind: machineKind, Observed: core.No}, nil
	case !c.HasSynced():
		return core.Observation{Kind: machineKind}, nil
	}
	o := core.Observation{Kind: machineKind, Observed: core.Yes}
	c.nodes.Lookup(func(find func(string) (node.Facts, bool)) {
		o.Policies, o.Targets = c.store.snapshot(find)
	})
	return o, nil
}

// HasSynced tells whether what is watched has been taken in.
func (c *Client) HasSynced() bool { return c.checks.HasSynced() && c.MachinesSynced() }

// +kubebuilder:rbac:groups="",resources=nodes,verbs=get

// ReadNode reads the node that a machine refers to from the API server itself.
func (c *Client) ReadNode(ctx context.Context, t core.Target) (core.Node, error) {
	var n slim.Node
	err := c.Live.Get(ctx, types.NamespacedName{Name: t.Node.Name}, &n)
	switch {
	case apierrors.IsNotFound(err):
		return core.Node{State: core.NodeGone, Name: t.Node.Name}, nil
	case err != nil:
		return core.Node{}, fmt.Errorf("getting node %s: %w", t.Node.Name, err)
	}
	return node.FactsOf(&n).Node, nil
}

// +kubebuilder:rbac:groups=machine.openshift.io,resources=machinehealthchecks,verbs=get

// ReadPolicy reads the fingerprint of a health check from the API server itself.
func (c *Client) ReadPolicy(ctx context.Context, id core.ID) (string, error) {
	u, err := healthcheck.ReadLive(ctx, c.Live, checkKind, id)
	if u == nil || err != nil {
		return "", err
	}
	return readHealthCheck(u).policy.Fingerprint, nil
}

// WriteStatuses writes the statuses that have changed.
func (c *Client) WriteStatuses(ctx context.Context, reports []core.PolicyReport) map[core.ID]error {
	c.Metrics.setGauges(reports)
	return healthcheck.Record(reports, func(r *core.PolicyReport) func() error {
		old, revision, known := c.store.statusOf(r.Policy.ID)
		other := c.Writers.Find(&r.Policy, c.Wake)
		if other.News {
			c.emit(foreignWriterEvent(r.Policy.ID, other.Manager))
		}
		fresh, changed := statusOf(old, *r, c.Now(), foreignWriterConditions(other.Manager)...)
		if !known || !changed || r.Deferred {
			return nil
		}
		id := r.Policy.ID
		return func() error {
			write := func(s v1beta1.MachineHealthCheckStatus) error { return c.writeStatus(ctx, id, revision, s) }
			return healthcheck.Write(fresh, write, brief)
		}
	})
}

// +kubebuilder:rbac:groups=machine.openshift.io,resources=machinehealthchecks/status,verbs=patch

// writeStatus insists on the revision that the status was made from, since the list of conditions
// is replaced as a whole and may hold those of others.
func (c *Client) writeStatus(ctx context.Context, id core.ID, revision string, status v1beta1.MachineHealthCheckStatus) error {
	body, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"resourceVersion": revision},
		"status":   status,
	})
	if err != nil {
		return fmt.Errorf("encoding the status: %w", err)
	}
	u := healthcheck.Object(checkKind, id)
	there, err := healthcheck.PatchStatus(ctx, c.Writer, u, types.MergePatchType, body)
	if there {
		c.store.storeWritten(u)
	}
	return err
}

// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// EmitEvents emits the events of what happened. They are written in the background.
func (c *Client) EmitEvents(coreEvents []core.Event) {
	c.Metrics.countEvents(coreEvents)
	for _, h := range coreEvents {
		c.emit(eventFor(h))
	}
}

func (c *Client) emit(e event) { e.Emit(c.Events, v1beta1.GroupVersion.String()) }
