package powercycle

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
	"github.com/fettle-io/fettle/internal/remediator/fencednode"
	"github.com/fettle-io/fettle/internal/remediator/loop"
	"github.com/fettle-io/fettle/internal/remediator/nodepromise"
	"github.com/fettle-io/fettle/internal/slim"
)

// Kinds are the definitions without which this remediator does nothing, by name.
var Kinds = []string{"powerremediations.fettle.io", "bmcs.fettle.io", "fencepolicies.fettle.io"} //nolint:gochecknoglobals // a constant list

// Config is what a Client needs. Every field is required but Metrics, OtherFences, OtherWorks, OtherKeeps, Tidy, and Workload with HandBack.
type Config struct {
	// Informers watch remediations, BMCs, policies and nodes, and Cache reads them.
	Informers cache.Informers
	Cache     client.Reader
	// Live reads from the API server, and Writer writes to it.
	Live   client.Reader
	Writer client.Client
	// Core reads and writes Nodes, Pods, VolumeAttachments and Secrets at the API server, never from a cache.
	Core   client.Client
	Events events.EventRecorder
	Log    logr.Logger
	Now    func() time.Time
	// Workload returns where the nodes of a workload cluster are. Its errors have texts that are fit to show. It may be nil, and then no
	// machine of Cluster API has a node. HandBack has the owner of a machine of Cluster API replace it. Where a health check of Fettle
	// has made the remediation (gated), that health check decides when.
	Workload func(cluster types.NamespacedName) fencednode.API
	HandBack func(ctx context.Context, machine types.NamespacedName, uid types.UID, gated bool) error
	// Claims are shared with the other remediators that fence.
	Claims *fencednode.Claims
	// Promises are shared with the other remediators that revoke promises. Tidy has the Lease of a node read once the remediation is gone that
	// may have condemned it.
	Promises *nodepromise.Promises
	Tidy     func(node string)
	// OtherFences returns the remediation of another kind that has begun to fence a node of the cluster that Fettle runs in, and has not
	// ended. It may be nil.
	OtherFences func(ctx context.Context, node string) (fencednode.Holder, bool)
	// OtherWorks returns the node on which a remediation of another kind works. It may be nil.
	OtherWorks fencednode.Works
	// OtherKeeps reports whether a remediation of another kind keeps the taint on a node, as Keeps does. It may be nil.
	OtherKeeps fencednode.Keeps
	// Namespace is where BMCs and the Secrets with their credentials are.
	Namespace string
	// Metrics may be nil.
	Metrics *Metrics
}

// Client is the remediator. It is safe for concurrent use.
type Client struct {
	Config
	nodes    *fencednode.Nodes // of the cluster that Fettle runs in
	machines fencednode.Machines

	watches       *loop.Watches
	remediations  loop.Queue[types.NamespacedName]
	probes        loop.Queue[types.NamespacedName]
	sessions      *sessions
	bmcs          *inventory
	hosts         *hosts
	turns         *turns
	apiSlots      *apiSlots
	clusterLimits *clusterLimits
	// elsewhere has the probes that read a node of a workload cluster.
	elsewhere chan struct{}
}

const (
	// reconcileTimeout bounds one reconcile of a remediation, and probeTimeout one probe of a BMC. Both contain operations of a BMC.
	reconcileTimeout = 3 * time.Minute
	probeTimeout     = time.Minute
	// maxReconciles and maxProbes bound the remediations and the BMCs of one moment. Most of them wait for a BMC.
	maxReconciles = 512
	maxProbes     = 64
	// maxProbesElsewhere bounds the probes that read a node of a workload cluster, so that clusters that hang leave room for the others.
	maxProbesElsewhere = maxProbes / 4
)

// NewClient returns a remediator that watches nothing yet.
func NewClient(c Config) *Client {
	bmcs := newInventory()
	created := &Client{
		Config: c, nodes: fencednode.New(c.Core, c.Now, fencednode.NewVolumes()), machines: fencednode.Machines{Live: c.Live, Writer: c.Writer},
		watches: loop.NewWatches(), remediations: loop.NewQueue[types.NamespacedName](), probes: loop.NewQueue[types.NamespacedName](),
		sessions: newSessions(c.Claims), bmcs: bmcs, hosts: newHosts(c.Now, bmcs.get), turns: newTurns(), apiSlots: newAPISlots(maxAPISlots, maxOthers), clusterLimits: &clusterLimits{byCluster: map[types.NamespacedName]*clusterLimit{}},
		elsewhere: make(chan struct{}, maxProbesElsewhere),
	}
	created.hosts.metal = created.bareMetalHostOf
	return created
}

// +kubebuilder:rbac:groups=fettle.io,resources=powerremediations;bmcs;fencepolicies,verbs=list;watch
// +kubebuilder:rbac:groups="",resources=nodes,verbs=list;watch

// Watch begins to watch. It returns a NoMatch error while the kinds are not served, and may be called again. After it
// has succeeded, it does nothing.
func (c *Client) Watch(ctx context.Context) error {
	return c.watches.Watch(ctx, c.Informers,
		informer.Kind{Plural: "BMCs", Object: &v1alpha1.BMC{}, Handler: c.bmcEvents()},
		informer.Kind{Plural: "remediations", Object: &v1alpha1.PowerRemediation{}, Handler: c.remediationEvents()},
		informer.Kind{Plural: "policies", Object: &v1alpha1.FencePolicy{}, Handler: toolscache.ResourceEventHandlerFuncs{}},
		informer.Kind{Plural: "nodes", Object: &slim.Node{}, Handler: c.nodeEvents()},
	)
}

// bmcEvents stores BMCs, and has a new or changed one probed.
func (c *Client) bmcEvents() toolscache.ResourceEventHandler {
	take := func(obj any) {
		bmc, ok := obj.(*v1alpha1.BMC)
		if !ok || bmc.Namespace != c.Namespace {
			return
		}
		if changed := c.bmcs.put(bmc); changed {
			c.probes.AddAfter(client.ObjectKeyFromObject(bmc), firstProbe(bmc))
			c.wakeNode(nodeOf(bmc))
		}
	}
	return toolscache.ResourceEventHandlerFuncs{
		AddFunc: take, UpdateFunc: func(_, obj any) { take(obj) },
		DeleteFunc: func(obj any) {
			if key, ok := loop.KeyOf(obj); ok && key.Namespace == c.Namespace {
				c.wakeNode(c.bmcs.drop(key))
				c.probes.Add(key)
			}
		},
	}
}

// remediationEvents has a remediation reconciled, and once it is gone the Lease that it may have condemned.
func (c *Client) remediationEvents() toolscache.ResourceEventHandler {
	take := func(obj any) {
		if key, ok := loop.KeyOf(obj); ok {
			c.remediations.Add(key)
		}
	}
	return toolscache.ResourceEventHandlerFuncs{
		AddFunc: take,
		DeleteFunc: func(obj any) {
			take(obj)
			c.tidyAfter(obj)
		},
		UpdateFunc: func(_, obj any) {
			if r, ok := obj.(*v1alpha1.PowerRemediation); ok && c.sessions.hasWritten(client.ObjectKeyFromObject(r), r.ResourceVersion) {
				return // the reconcile that wrote it goes on from it
			}
			take(obj)
		},
	}
}

// nodeEvents has the remediations of a node reconciled when it has changed.
func (c *Client) nodeEvents() toolscache.ResourceEventHandler {
	take := func(obj any) {
		if n, ok := obj.(*slim.Node); ok {
			c.wakeNode(n.Name)
		}
	}
	return toolscache.ResourceEventHandlerFuncs{
		AddFunc: take,
		UpdateFunc: func(old, obj any) {
			if wakes(old, obj) {
				take(obj)
			}
		},
		DeleteFunc: func(obj any) {
			if key, ok := loop.KeyOf(obj); ok {
				c.wakeNode(key.Name)
			}
		},
	}
}

// wakes reports whether a change of a node has its remediations reconciled now. Other changes, such as heartbeats and what Fettle itself
// writes, are seen by the next periodic reconcile.
func wakes(old, obj any) bool {
	before, ok := old.(*slim.Node)
	after, is := obj.(*slim.Node)
	return !ok || !is || !after.SameReadiness(before)
}

// wakeNode has the remediations of a node reconciled now, by its key. An operation on its BMC must not delay that. So it is interrupted if the
// workload of the node is released, since the node may have to serve again at once.
func (c *Client) wakeNode(node string) {
	for _, key := range c.sessions.wake(node) {
		c.remediations.Add(key)
	}
}

// HasSynced reports whether the initial lists were handled.
func (c *Client) HasSynced() bool { return c.watches.HasSynced() }

// NeedLeaderElection keeps replicas that don't lead from working.
func (*Client) NeedLeaderElection() bool { return true }

// Start works until the context ends, and gives the sessions of BMCs back. It must run only in the replica that leads.
func (c *Client) Start(ctx context.Context) error {
	defer c.remediations.ShutDown()
	defer c.probes.ShutDown()
	if !c.watches.Wait(ctx) {
		return nil
	}
	stop := context.AfterFunc(ctx, func() { c.remediations.ShutDown(); c.probes.ShutDown() })
	defer stop()
	c.turns.start(c.Now())
	var group sync.WaitGroup
	// Most remediations and probes wait for a BMC.
	reconciles := loop.Worker[types.NamespacedName]{Queue: c.remediations, Timeout: reconcileTimeout, Do: c.reconcile, Log: c.Log, Noun: "remediation"}
	probes := loop.Worker[types.NamespacedName]{Queue: c.probes, Timeout: probeTimeout, Do: c.probe, Log: c.Log, Noun: "bmc"}
	group.Go(func() { reconciles.RunEach(ctx, maxReconciles) })
	group.Go(func() { probes.RunEach(ctx, maxProbes) })
	group.Wait()
	c.hosts.close(ctx)
	return nil
}
