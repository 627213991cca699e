package selffencing

import (
	"context"
	"fmt"
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
	"github.com/fettle-io/fettle/internal/remediator/fencednode"
	"github.com/fettle-io/fettle/internal/remediator/loop"
	"github.com/fettle-io/fettle/internal/remediator/nodepromise"
	"github.com/fettle-io/fettle/internal/slim"
)

// Kinds are the definitions without which this remediator does nothing, by name.
var Kinds = []string{"selffenceremediations.fettle.io", "fencepolicies.fettle.io"} //nolint:gochecknoglobals // a constant list

// Config is what a Client needs. Every field is required but Metrics, OtherFences, OtherWorks and OtherKeeps.
type Config struct {
	// Informers watch remediations, policies and nodes, and Cache reads remediations and policies.
	Informers cache.Informers
	Cache     client.Reader
	// Writer writes remediations, and claims on machines.
	Writer client.Client
	// Core reads and writes Nodes, machines, Leases, remediations, Pods and VolumeAttachments at the API server, never from a cache.
	Core   client.Client
	Events events.EventRecorder
	Log    logr.Logger
	// Now is the clock. Time between two calls must pass steadily, as that of time.Now does.
	Now func() time.Time
	// Claims are shared with the other remediators that fence.
	Claims *fencednode.Claims
	// Promises are shared with the other remediators that revoke promises.
	Promises *nodepromise.Promises
	// OtherFences returns the remediation of another kind that has begun to fence a node and has not ended. It may be nil.
	OtherFences func(ctx context.Context, node string) (fencednode.Holder, bool)
	// OtherWorks returns the node on which a remediation of another kind works. It may be nil.
	OtherWorks fencednode.Works
	// OtherKeeps reports whether a remediation of another kind keeps the taint on a node, as Keeps does. It may be nil.
	OtherKeeps fencednode.Keeps
	// Metrics may be nil.
	Metrics *Metrics
}

// Client is the remediator. It is safe for concurrent use.
type Client struct {
	Config

	nodes        *fencednode.Nodes
	machines     fencednode.Machines
	watches      *loop.Watches
	remediations loop.Queue[types.NamespacedName]
	// unready has the nodes that are not Ready, whose promise is to be read.
	unready loop.Queue[string]
	// tidying has the nodes whose Lease is to be tidied, and allNodes.
	tidying  loop.Queue[string]
	present  *presence
	sessions *sessions
}

const (
	// retryRead is the pause after a read that failed.
	retryRead = 2 * time.Second
	// reconcileTimeout bounds one reconcile of a remediation.
	reconcileTimeout = time.Minute
	// maxReconciles bounds the remediations, and the nodes whose promise is read, of one moment.
	maxReconciles = 32
)

// NewClient returns a remediator that watches nothing yet.
func NewClient(c Config) *Client {
	return &Client{
		Config: c, nodes: fencednode.New(c.Core, c.Now, fencednode.NewVolumes()),
		machines:     fencednode.Machines{Live: c.Core, Writer: c.Writer},
		watches:      loop.NewWatches(),
		remediations: loop.NewQueue[types.NamespacedName](), unready: loop.NewQueue[string](), tidying: loop.NewQueue[string](), present: newPresence(),
		sessions: newSessions(),
	}
}

// +kubebuilder:rbac:groups=fettle.io,resources=selffenceremediations;fencepolicies,verbs=list;watch
// +kubebuilder:rbac:groups="",resources=nodes,verbs=list;watch

// Watch begins to watch. It returns a NoMatch error while the kinds are not served, and may be called again. After it
// has succeeded, it does nothing.
func (c *Client) Watch(ctx context.Context) error {
	return c.watches.Watch(ctx, c.Informers,
		informer.Kind{Plural: "remediations", Object: &v1alpha1.SelfFenceRemediation{}, Handler: c.remediationEvents()},
		informer.Kind{Plural: "policies", Object: &v1alpha1.FencePolicy{}, Handler: toolscache.ResourceEventHandlerFuncs{}},
		informer.Kind{Plural: "nodes", Object: &slim.Node{}, Handler: c.nodeEvents()},
	)
}

// remediationEvents has a remediation reconciled, and once it is gone the Lease of its node.
func (c *Client) remediationEvents() toolscache.ResourceEventHandler {
	take := func(obj any) {
		if key, ok := loop.KeyOf(obj); ok {
			c.remediations.Add(key)
		}
	}
	return toolscache.ResourceEventHandlerFuncs{
		AddFunc: take, UpdateFunc: func(_, obj any) { take(obj) },
		DeleteFunc: func(obj any) {
			take(obj)
			if last, known := obj.(toolscache.DeletedFinalStateUnknown); known {
				obj = last.Obj
			}
			if r, is := obj.(*v1alpha1.SelfFenceRemediation); is && r.Status.Node != nil {
				c.tidying.Add(r.Status.Node.Name)
			}
		},
	}
}

// nodeEvents has the remediations of a node reconciled when its readiness has changed, and has the promise of a node read that is not
// Ready.
func (c *Client) nodeEvents() toolscache.ResourceEventHandler {
	take := func(obj any) {
		if n, ok := obj.(*slim.Node); ok {
			c.noteNode(n)
		}
	}
	return toolscache.ResourceEventHandlerFuncs{
		AddFunc: take,
		UpdateFunc: func(old, obj any) {
			before, ok := old.(*slim.Node)
			if after, is := obj.(*slim.Node); !ok || !is || !after.SameReadiness(before) {
				take(obj)
			}
		},
		DeleteFunc: func(obj any) {
			if key, ok := loop.KeyOf(obj); ok {
				c.Promises.Drop(key.Name)
				c.present.ends(key.Name)
				c.wakeNode(key.Name)
			}
		},
	}
}

// noteNode notes that the readiness of a node has changed.
func (c *Client) noteNode(n *slim.Node) {
	c.present.exists(n.Name)
	if n.IsReady() {
		c.Promises.Drop(n.Name)
	} else {
		c.unready.Add(n.Name)
	}
	c.wakeNode(n.Name)
}

// readPromise reads the promise of a node that is not Ready. Without a policy no node promises anything.
func (c *Client) readPromise(ctx context.Context, node string) error {
	var policies v1alpha1.FencePolicyList
	if err := c.Cache.List(ctx, &policies, client.UnsafeDisableDeepCopy); err != nil {
		return fmt.Errorf("listing the FencePolicies: %w", err)
	}
	if len(policies.Items) == 0 {
		return nil
	}
	return c.Promises.Observe(ctx, node)
}

// wakeNode has the remediations of a node reconciled now.
func (c *Client) wakeNode(node string) {
	for _, key := range c.sessions.ofNode(node) {
		c.remediations.Add(key)
	}
}

// HasSynced reports whether the initial lists were handled.
func (c *Client) HasSynced() bool { return c.watches.HasSynced() }

// NeedLeaderElection keeps replicas that don't lead from working.
func (*Client) NeedLeaderElection() bool { return true }

// Start works until the context ends. It must run only in the replica that leads.
func (c *Client) Start(ctx context.Context) error {
	shutDown := func() { c.remediations.ShutDown(); c.unready.ShutDown(); c.tidying.ShutDown() }
	defer shutDown()
	if !c.watches.Wait(ctx) {
		return nil
	}
	stop := context.AfterFunc(ctx, shutDown)
	defer stop()
	c.tidying.Add(allNodes)
	var group sync.WaitGroup
	tidies := loop.Worker[string]{Queue: c.tidying, Timeout: reconcileTimeout, Do: c.tidy, Log: c.Log, Noun: "node"}
	reconciles := loop.Worker[types.NamespacedName]{Queue: c.remediations, Timeout: reconcileTimeout, Do: c.reconcile, Log: c.Log, Noun: "remediation"}
	promiseReads := loop.Worker[string]{Queue: c.unready, Timeout: reconcileTimeout, Do: c.readPromise, Log: c.Log, Noun: "node"}
	group.Go(func() { tidies.Run(ctx) })
	for range maxReconciles {
		group.Go(func() { reconciles.Run(ctx) })
		group.Go(func() { promiseReads.Run(ctx) })
	}
	group.Wait()
	return nil
}

// Tidy has the Lease of a node read: the remediation that may have condemned it is gone.
func (c *Client) Tidy(node string) { c.tidying.Add(node) }
