package capi

import (
	"context"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/events"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fettle-io/fettle/internal/clusterapi"
	"github.com/fettle-io/fettle/internal/core"
	"github.com/fettle-io/fettle/internal/informer"
	"github.com/fettle-io/fettle/internal/writers"
)

// Kinds are the resources without which this dialect sleeps, by the name of their definitions.
var Kinds = []string{ //nolint:gochecknoglobals // a constant list
	"machinehealthchecks.cluster.x-k8s.io", "machines.cluster.x-k8s.io", "clusters.cluster.x-k8s.io",
}

// Config is what a Client needs. Every field is required but Served, Changed, WatchFilter, Home and Metrics.
type Config struct {
	// Informers give what is watched.
	Informers cache.Informers
	// Live reads from the API server itself.
	Live client.Reader
	// Writer writes health checks and the conditions of machines.
	Writer client.Client
	Events events.EventRecorder
	Now    func() time.Time
	// After has a function called once a time is over.
	After func(d time.Duration, do func())
	// Wake is called when something that decisions about a cluster read has changed.
	Wake func(cluster types.NamespacedName)
	// Changed is called when another set of clusters has health checks.
	Changed func()
	// WatchFilter is the value of the label cluster.x-k8s.io/watch-filter without which health checks are left to
	// others. Empty takes all.
	WatchFilter string
	// Home may be nil where no other health checks are served.
	Home Home
	// Served tells whether the cluster serves Kinds. It may be nil, and then that is not known.
	Served func() core.Tri
	// Writers may be nil, and then no other controller is noticed.
	Writers *writers.Registry
}

// Client is the dialect's thin side on the management cluster. It is safe for concurrent use.
type Client struct {
	Config

	watched  informer.Kinds
	machines clusterapi.Writer

	// mu guards rooms, and what comes into them: a room that is empty goes.
	mu     sync.Mutex
	stores map[types.NamespacedName]*store
	// clusterOfCheck is where each health check is.
	clusterOfCheck map[types.NamespacedName]types.NamespacedName
}

// NewClient makes a client that watches nothing yet.
func NewClient(c Config) *Client {
	return &Client{
		Config: c, machines: clusterapi.Writer{Statuses: c.Writer, Live: c.Live, Now: c.Now},
		stores: map[types.NamespacedName]*store{}, clusterOfCheck: map[types.NamespacedName]types.NamespacedName{},
	}
}

// +kubebuilder:rbac:groups=cluster.x-k8s.io,resources=machinehealthchecks,verbs=list;watch
// +kubebuilder:rbac:groups=cluster.x-k8s.io,resources=machines,verbs=list;watch
// +kubebuilder:rbac:groups=cluster.x-k8s.io,resources=clusters,verbs=list;watch

// Watch begins to watch. It fails with a NoMatch error while the API is not served, and may be called again then. Once
// it has succeeded, calling it again does nothing.
func (c *Client) Watch(ctx context.Context) error {
	check := &unstructured.Unstructured{}
	check.SetGroupVersionKind(checkKind)
	return c.watched.Watch(ctx, c.Informers,
		informer.Kind{Plural: "clusters", Object: &clusterapi.Cluster{}, Handler: handler(c.putCluster, c.dropCluster)},
		informer.Kind{Plural: "health checks", Object: check, Handler: handler(c.putCheck, c.dropCheck)},
		informer.Kind{Plural: "machines", Object: &clusterapi.Machine{}, Handler: handler(c.putMachine, c.dropMachine)},
	)
}

// handler takes in objects of one type, an object in the place of an older version of it where there was one.
func handler[T client.Object](put func(old, fresh T), drop func(old T)) toolscache.ResourceEventHandler {
	return toolscache.ResourceEventHandlerFuncs{
		AddFunc: func(obj any) {
			if fresh, ok := obj.(T); ok {
				var none T
				put(none, fresh)
			}
		},
		UpdateFunc: func(before, obj any) {
			old, _ := before.(T)
			if fresh, ok := obj.(T); ok {
				put(old, fresh)
			}
		},
		DeleteFunc: func(obj any) {
			if last, missed := obj.(toolscache.DeletedFinalStateUnknown); missed {
				obj = last.Obj
			}
			if old, ok := obj.(T); ok {
				drop(old)
			}
		},
	}
}

// HasSynced tells whether what is watched has been taken in.
func (c *Client) HasSynced() bool { return c.watched.HasSynced() }

// update changes what is known of a cluster, and wakes its engine when that can change a decision.
func (c *Client) update(cluster types.NamespacedName, change func(*store) bool) {
	if c.change(cluster, change) {
		c.Wake(cluster)
	}
}

func (c *Client) change(cluster types.NamespacedName, change func(*store) bool) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.stores[cluster]
	if s == nil {
		s = newStore()
		c.stores[cluster] = s
	}
	changed := change(s)
	if s.empty() {
		delete(c.stores, cluster)
	}
	return changed
}

// storeOf gives what is known of a cluster, an empty room for nothing.
func (c *Client) storeOf(cluster types.NamespacedName) *store {
	c.mu.Lock()
	defer c.mu.Unlock()
	if s := c.stores[cluster]; s != nil {
		return s
	}
	return newStore()
}

func (c *Client) putCluster(_, fresh *clusterapi.Cluster) {
	c.update(types.NamespacedName{Namespace: fresh.Namespace, Name: fresh.Name}, func(s *store) bool { return s.putCluster(fresh) })
}

func (c *Client) dropCluster(old *clusterapi.Cluster) {
	c.update(types.NamespacedName{Namespace: old.Namespace, Name: old.Name}, func(s *store) bool { return s.putCluster(nil) })
}

// clusterOfMachine is false for a machine that does not say which cluster it is of.
func clusterOfMachine(m *clusterapi.Machine) (types.NamespacedName, bool) {
	name := m.ClusterName()
	return types.NamespacedName{Namespace: m.Namespace, Name: name}, name != ""
}

// putMachine takes in a machine. One that is of another cluster now is none of the former any more.
func (c *Client) putMachine(old, fresh *clusterapi.Machine) {
	cluster, has := clusterOfMachine(fresh)
	if old != nil {
		if former, had := clusterOfMachine(old); had && former != cluster {
			c.dropMachine(old)
		}
	}
	if has {
		c.update(cluster, func(s *store) bool { return s.putMachine(fresh) })
	}
}

func (c *Client) dropMachine(old *clusterapi.Machine) {
	if cluster, had := clusterOfMachine(old); had {
		c.update(cluster, func(s *store) bool {
			s.dropMachine(old.Name)
			return true
		})
	}
}

// putCheck takes in a health check, unless it is left to others or is being deleted.
func (c *Client) putCheck(_, u *unstructured.Unstructured) {
	left := c.WatchFilter != "" && u.GetLabels()[clusterv1.WatchLabel] != c.WatchFilter
	if left || u.GetDeletionTimestamp() != nil {
		c.dropCheck(u)
		return
	}
	fresh := readHealthCheck(u)
	name := types.NamespacedName{Namespace: u.GetNamespace(), Name: u.GetName()}
	cluster := types.NamespacedName{Namespace: u.GetNamespace(), Name: fresh.cluster}
	if former, known := c.moveCheck(name, &cluster); known && former != cluster {
		c.forgetCheck(former, name.Name)
	}
	if fresh.cluster == "" { // nobody can be told
		c.moveCheck(name, nil)
		return
	}
	first := false
	c.update(cluster, func(s *store) bool {
		_, checked := s.clusterAndChecks()
		first = !checked
		return s.putCheck(fresh)
	})
	if first {
		c.changed()
	}
	c.Writers.Observe(name.Namespace, name.Name, writers.Of(u, ownFields()), func() { c.Wake(cluster) })
}

// dropCheck forgets a health check.
func (c *Client) dropCheck(u *unstructured.Unstructured) {
	name := types.NamespacedName{Namespace: u.GetNamespace(), Name: u.GetName()}
	if cluster, known := c.moveCheck(name, nil); known {
		c.forgetCheck(cluster, name.Name)
		c.Writers.Drop(name.Namespace, name.Name)
	}
}

// moveCheck notes of which cluster a health check is, nil for none, and gives of which it was.
func (c *Client) moveCheck(check types.NamespacedName, to *types.NamespacedName) (was types.NamespacedName, known bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	was, known = c.clusterOfCheck[check]
	delete(c.clusterOfCheck, check)
	if to != nil {
		c.clusterOfCheck[check] = *to
	}
	return was, known
}

func (c *Client) forgetCheck(cluster types.NamespacedName, name string) {
	last := false
	c.update(cluster, func(s *store) bool {
		s.dropCheck(name)
		_, checked := s.clusterAndChecks()
		last = !checked
		return true
	})
	if last {
		c.changed()
	}
}

func (c *Client) changed() {
	if c.Changed != nil {
		c.Changed()
	}
}

// Clusters gives the clusters that have a health check, in the order of their names.
func (c *Client) Clusters() []types.NamespacedName {
	c.mu.Lock()
	defer c.mu.Unlock()
	var clusters []types.NamespacedName
	for cluster, s := range c.stores {
		if _, checked := s.clusterAndChecks(); checked {
			clusters = append(clusters, cluster)
		}
	}
	sortClusters(clusters)
	return clusters
}

// Machine gives a machine as it was last seen or written, nil when there is none. Machines are many and clusters few,
// so nothing else is kept for this: it is asked for machines that are repaired.
func (c *Client) Machine(id core.ID) *clusterapi.Machine {
	c.mu.Lock()
	defer c.mu.Unlock()
	for cluster, s := range c.stores {
		if cluster.Namespace != id.Namespace {
			continue
		}
		if m := s.machineOf(id.Name); m != nil {
			return m
		}
	}
	return nil
}

// Wrote takes in a machine as it is after a write, before the watch shows it.
func (c *Client) Wrote(m *clusterapi.Machine) {
	if cluster, has := clusterOfMachine(m); has {
		c.change(cluster, func(s *store) bool {
			s.storeWrittenMachine(m)
			return false
		})
	}
}

// IsHealthCheck reports whether an object is a health check of this dialect.
func IsHealthCheck(u *unstructured.Unstructured) bool { return u.GroupVersionKind() == checkKind }
