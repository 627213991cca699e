package machinedeletion

import (
	"context"
	"sync"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fettle-io/fettle/api/fettle/v1alpha1"
	"github.com/fettle-io/fettle/internal/contain"
	"github.com/fettle-io/fettle/internal/informer"
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

	queue workqueue.TypedRateLimitingInterface[types.NamespacedName]
	pools *pools

	watched informer.Kinds
	// watching is closed by markWatching, once both kinds are watched.
	watching     chan struct{}
	markWatching func()
}

// retryFirst and retryMost bound the pauses after a failure. reconcileTimeout bounds one reconciliation.
const (
	retryFirst       = 100 * time.Millisecond
	retryMost        = time.Minute
	reconcileTimeout = 30 * time.Second
)

// NewClient returns a remediator that watches nothing yet.
func NewClient(c Config) *Client {
	watches := make(chan struct{})
	return &Client{
		Config: c, pools: newPools(), watching: watches, markWatching: sync.OnceFunc(func() { close(watches) }),
		queue: workqueue.NewTypedRateLimitingQueue(newLimiter()),
	}
}

// newLimiter returns the pauses after failures.
func newLimiter() workqueue.TypedRateLimiter[types.NamespacedName] {
	return workqueue.NewTypedItemExponentialFailureRateLimiter[types.NamespacedName](retryFirst, retryMost)
}

// +kubebuilder:rbac:groups=fettle.io,resources=machinedeletionremediations,verbs=list;watch
// +kubebuilder:rbac:groups=machine.openshift.io,resources=machines,verbs=list;watch

// Watch begins to watch. It returns a NoMatch error while the kinds are not served, and may be called again. After it
// has succeeded, it does nothing.
func (c *Client) Watch(ctx context.Context) error {
	err := c.watched.Watch(ctx, c.Informers,
		informer.Kind{Plural: "machines", Object: c.Machine, Handler: c.machineEvents()},
		informer.Kind{Plural: "remediations", Object: &v1alpha1.MachineDeletionRemediation{}, Handler: c.remediationEvents()},
	)
	if err == nil {
		c.markWatching()
	}
	return err
}

func (c *Client) remediationEvents() toolscache.ResourceEventHandler {
	take := func(obj any) {
		if key, err := toolscache.DeletionHandlingObjectToName(obj); err == nil {
			c.queue.Add(types.NamespacedName{Namespace: key.Namespace, Name: key.Name})
		}
	}
	return toolscache.ResourceEventHandlerFuncs{AddFunc: take, UpdateFunc: func(_, obj any) { take(obj) }, DeleteFunc: take}
}

// HasSynced reports whether the initial lists were handled.
func (c *Client) HasSynced() bool { return c.watched.HasSynced() }

// NeedLeaderElection keeps replicas that don't lead from working.
func (*Client) NeedLeaderElection() bool { return true }

// workers is the number of remediations that are reconciled at the same time.
const workers = 8

// Start reconciles until the context ends. It must run only in the replica that leads.
func (c *Client) Start(ctx context.Context) error {
	defer c.queue.ShutDown()
	select {
	case <-ctx.Done():
		return nil
	case <-c.watching:
	}
	if !toolscache.WaitForCacheSync(ctx.Done(), c.HasSynced) {
		return nil
	}
	stop := context.AfterFunc(ctx, c.queue.ShutDown)
	defer stop()
	var group sync.WaitGroup
	for range workers {
		group.Go(func() {
			for c.processNext(ctx) {
			}
		})
	}
	group.Wait()
	return nil
}

// processNext reconciles one remediation. It returns false after the queue was shut down.
func (c *Client) processNext(ctx context.Context) bool {
	key, over := c.queue.Get()
	if over {
		return false
	}
	defer c.queue.Done(key)
	limited, cancel := context.WithTimeout(ctx, reconcileTimeout)
	defer cancel()
	switch err := contain.Run(func() error { return c.reconcile(limited, key) }); {
	case err == nil:
		c.queue.Forget(key)
	case apierrors.IsConflict(err), apierrors.IsNotFound(err):
		c.queue.AddRateLimited(key) // another writer was faster, and the cache will show the change
	case ctx.Err() == nil:
		c.Log.Error(err, "remediation could not go on; it is tried again after a pause", "remediation", key.String())
		c.queue.AddRateLimited(key)
	}
	return true
}
