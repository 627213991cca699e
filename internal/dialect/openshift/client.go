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

// Kinds are the resources that this dialect needs, by the names of their definitions.
var Kinds = []string{"machinehealthchecks.machine.openshift.io", "machines.machine.openshift.io"} //nolint:gochecknoglobals // a constant list

// Config holds the dependencies of a Client. All fields are required except Served, MachinesServed,
// External, Metrics and Writers.
type Config struct {
	// Informers deliver the watched objects.
	Informers cache.Informers
	// Live reads from the API server and not from a cache.
	Live client.Reader
	// Writer writes statuses.
	Writer client.StatusClient
	Events events.EventRecorder
	Now    func() time.Time
	// Wake is called after a change that can change a decision.
	Wake func()
	// Served reports whether the cluster serves Kinds. Where Served is nil, that is unknown.
	Served func() core.Tri
	// MachinesServed reports whether the cluster serves MachineKinds. Where it is nil, MachineOf
	// finds no machine.
	MachinesServed func() core.Tri
	// External is how the strategy external-baremetal is carried out where a health check does not say.
	External ExternalBaremetal
	// Metrics may be nil. Then nothing is counted.
	Metrics *Metrics
	// Writers may be nil. Then foreign writers are not detected.
	Writers *writers.Registry
}

// Client connects the dialect to the API server. It is safe for concurrent use.
type Client struct {
	Config

	// machines are watched even where the cluster serves no health checks.
	checks, machines, sets informer.Kinds
	store                  store
	nodes                  *node.Store
}

// NewClient returns a client that watches nothing yet.
func NewClient(c Config) *Client {
	s := newStore()
	s.external = c.External
	return &Client{Config: c, store: s, nodes: node.NewStore()}
}

// +kubebuilder:rbac:groups=machine.openshift.io,resources=machinehealthchecks,verbs=list;watch
// +kubebuilder:rbac:groups=machine.openshift.io,resources=machines,verbs=list;watch
// +kubebuilder:rbac:groups="",resources=nodes,verbs=list;watch

// Watch starts the informers. It returns a NoMatch error while the API is not served, and may then
// be called again. After it has succeeded, further calls do nothing.
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

// handler returns an event handler that stores objects. It wakes the engine only for changes that
// can change a decision.
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

// putCheck stores a health check and reports whether that can change a decision. Writers are observed after it, so that
// a pass which they cause reads this version.
func (c *Client) putCheck(obj any) bool {
	changed := c.store.putCheck(obj)
	if u, is := obj.(*unstructured.Unstructured); is && u.GetDeletionTimestamp() == nil {
		c.Writers.Observe(u.GetNamespace(), u.GetName(), writers.Of(u, ownFields()), c.Wake)
	}
	return changed
}

func (c *Client) dropCheck(key string) {
	namespace, name, _ := strings.Cut(key, "/")
	c.Writers.Drop(namespace, name)
	c.store.dropCheck(key)
}

// Observe returns the machines of the cluster and the health checks, as watched. While the cluster
// does not serve them, the observation is empty.
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

// HasSynced reports whether the caches of all watched kinds are in sync.
func (c *Client) HasSynced() bool { return c.checks.HasSynced() && c.MachinesSynced() }

// +kubebuilder:rbac:groups="",resources=nodes,verbs=get

// ReadNode reads the node of a machine from the API server. A missing node is NodeGone and no
// error.
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

// ReadPolicy reads a health check from the API server and returns its fingerprint, or "" if it is
// gone.
func (c *Client) ReadPolicy(ctx context.Context, id core.ID) (string, error) {
	u, err := healthcheck.ReadLive(ctx, c.Live, checkKind, id)
	if u == nil {
		return "", err
	}
	return translate(u, c.External).policy.Fingerprint, nil
}

// WriteStatuses writes the statuses that have changed, and returns the errors by health check.
func (c *Client) WriteStatuses(ctx context.Context, reports []core.PolicyReport) map[core.ID]error {
	c.Metrics.setGauges(reports)
	return healthcheck.Record(reports, func(r *core.PolicyReport) func() error {
		other := c.Writers.Find(&r.Policy, c.Wake) // a write from here on causes another pass
		old, revision, known := c.store.statusOf(r.Policy.ID)
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

// writeStatus patches a status at the revision that it was made from. The patch replaces the list
// of conditions, which may hold conditions of other controllers.
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

// EmitEvents emits the events of what happened, in the background.
func (c *Client) EmitEvents(coreEvents []core.Event) {
	c.Metrics.countEvents(coreEvents)
	for _, h := range coreEvents {
		c.emit(eventFor(h))
	}
}

func (c *Client) emit(e event) { e.Emit(c.Events, v1beta1.GroupVersion.String()) }
