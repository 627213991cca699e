package machinedeletion

import (
	"context"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fettle-io/fettle/api/fettle/v1alpha1"
	"github.com/fettle-io/fettle/internal/informer"
	"github.com/fettle-io/fettle/internal/remediator/loop"
)

// Kinds are the definitions without which this remediator does nothing, by name.
var Kinds = []string{"machinedeletionremediations.fettle.io", "machines.machine.openshift.io"} //nolint:gochecknoglobals // a constant list

// Config is what a Client needs. Every field is required.
type Config struct {
	// Informers watch remediations and machines, and Cache reads them.
	Informers cache.Informers
	Cache     client.Reader
	// Live reads from the API server.
	Live   client.Reader
	Writer client.Client
	Events events.EventRecorder
	Log    logr.Logger
	Now    func() time.Time
	// Machine and Machines are an empty machine and an empty list, of the types of the other watches of machines, so
	// that they share one. Read reads such a machine.
	Machine  client.Object
	Machines client.ObjectList
	Read     func(client.Object) Machine
}

// Client is the remediator. It is safe for concurrent use.
type Client struct {
	Config

	watches *loop.Watches
	queue   loop.Queue[types.NamespacedName]
	pools   *pools
}

// reconcileTimeout bounds one reconciliation.
const reconcileTimeout = 30 * time.Second

// NewClient returns a remediator that watches nothing yet.
func NewClient(c Config) *Client {
	return &Client{Config: c, watches: loop.NewWatches(), queue: loop.NewQueue[types.NamespacedName](), pools: newPools()}
}

// +kubebuilder:rbac:groups=fettle.io,resources=machinedeletionremediations,verbs=list;watch
// +kubebuilder:rbac:groups=machine.openshift.io,resources=machines,verbs=list;watch

// Watch begins to watch. It returns a NoMatch error while the kinds are not served, and may be called again. After it
// has succeeded, it does nothing.
func (c *Client) Watch(ctx context.Context) error {
	return c.watches.Watch(ctx, c.Informers,
		informer.Kind{Plural: "machines", Object: c.Machine, Handler: c.machineEvents()},
		informer.Kind{Plural: "remediations", Object: &v1alpha1.MachineDeletionRemediation{}, Handler: c.remediationEvents()},
	)
}

func (c *Client) remediationEvents() toolscache.ResourceEventHandler {
	take := func(obj any) {
		if key, ok := loop.KeyOf(obj); ok {
			c.queue.Add(key)
		}
	}
	return toolscache.ResourceEventHandlerFuncs{AddFunc: take, UpdateFunc: func(_, obj any) { take(obj) }, DeleteFunc: take}
}

// HasSynced reports whether the initial lists were handled.
func (c *Client) HasSynced() bool { return c.watches.HasSynced() }

// NeedLeaderElection keeps replicas that don't lead from working.
func (*Client) NeedLeaderElection() bool { return true }

// workers is the number of remediations that are reconciled at the same time.
const workers = 8

// Start reconciles until the context ends. It must run only in the replica that leads.
func (c *Client) Start(ctx context.Context) error {
	defer c.queue.ShutDown()
	if !c.watches.Wait(ctx) {
		return nil
	}
	stop := context.AfterFunc(ctx, c.queue.ShutDown)
	defer stop()
	var group sync.WaitGroup
	for range workers {
		group.Go(func() { c.worker().Run(ctx) })
	}
	group.Wait()
	return nil
}

// worker reconciles the remediations of the queue.
func (c *Client) worker() loop.Worker[types.NamespacedName] {
	return loop.Worker[types.NamespacedName]{Queue: c.queue, Timeout: reconcileTimeout, Do: c.reconcile, Log: c.Log, Noun: "remediation"}
}
