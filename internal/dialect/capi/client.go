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

// Kinds are the names of the definitions that the API server must serve before this dialect works.
var Kinds = []string{ //nolint:gochecknoglobals // a constant list
	"machinehealthchecks.cluster.x-k8s.io", "machines.cluster.x-k8s.io", "clusters.cluster.x-k8s.io",
}

// Config has the dependencies of a Client. Every field is required but Served, Changed, WatchFilter, Home and Writers.
type Config struct {
	// Informers watch the objects of the management cluster.
	Informers cache.Informers
	// Live reads from the API server and not from a cache.
	Live client.Reader
	// Writer writes health checks and the conditions of machines.
	Writer client.Client
	Events events.EventRecorder
	Now    func() time.Time
	// After calls a function when the duration has passed.
	After func(d time.Duration, do func())
	// Wake is called when a fact that decisions about a cluster read has changed.
	Wake func(cluster types.NamespacedName)
	// Changed is called when a cluster gets its first health check or loses its last.
	Changed func()
	// WatchFilter is a value of the label cluster.x-k8s.io/watch-filter. The client ignores health checks without it.
	// If WatchFilter is empty, the client takes all health checks.
	WatchFilter string
	// Home may be nil if the cluster serves no other kinds of health checks.
	Home Home
	// Served reports whether the cluster serves Kinds. If it is nil, the client can't know that.
	Served func() core.Tri
	// Writers detects foreign writers of statuses. It may be nil.
	Writers *writers.Registry
}

// Client watches the objects of the management cluster and writes to them. It is safe for concurrent use.
type Client struct {
	Config

	watched  informer.Kinds
	machines clusterapi.Writer

	// mu guards stores and the changes to each store. An empty store is deleted.
	mu     sync.Mutex
	stores map[types.NamespacedName]*store
	// clusterOfCheck has the cluster of each health check.
	clusterOfCheck map[types.NamespacedName]types.NamespacedName
}

// NewClient returns a client that watches nothing yet.
func NewClient(c Config) *Client {
	return &Client{
		Config: c, machines: clusterapi.Writer{Statuses: c.Writer, Live: c.Live, Now: c.Now},
		stores: map[types.NamespacedName]*store{}, clusterOfCheck: map[types.NamespacedName]types.NamespacedName{},
	}
}

// +kubebuilder:rbac:groups=cluster.x-k8s.io,resources=machinehealthchecks,verbs=list;watch
// +kubebuilder:rbac:groups=cluster.x-k8s.io,resources=machines,verbs=list;watch
// +kubebuilder:rbac:groups=cluster.x-k8s.io,resources=clusters,verbs=list;watch

// Watch starts to watch. While the API is not served, it returns a NoMatch error, and may be called again. After a
// success, another call does nothing.
func (c *Client) Watch(ctx context.Context) error {
	check := &unstructured.Unstructured{}
	check.SetGroupVersionKind(checkKind)
	return c.watched.Watch(ctx, c.Informers,
		informer.Kind{Plural: "clusters", Object: &clusterapi.Cluster{}, Handler: handler(c.putCluster, c.dropCluster)},
		informer.Kind{Plural: "health checks", Object: check, Handler: handler(c.putCheck, c.dropCheck)},
		informer.Kind{Plural: "machines", Object: &clusterapi.Machine{}, Handler: handler(c.putMachine, c.dropMachine)},
	)
}

// handler returns an event handler for objects of one type. On an update, put also receives the older version.
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

// HasSynced reports whether the stores have all objects of the initial lists.
func (c *Client) HasSynced() bool { return c.watched.HasSynced() }

// update changes the store of a cluster, and wakes its loop if the change can alter a decision.
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

// storeOf returns the store of a cluster, or an empty store if there is none.
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

// clusterOfMachine returns the cluster of a machine, and false if the machine names none.
func clusterOfMachine(m *clusterapi.Machine) (types.NamespacedName, bool) {
	name := m.ClusterName()
	return types.NamespacedName{Namespace: m.Namespace, Name: name}, name != ""
}

// putMachine stores a machine. If the machine has moved to another cluster, putMachine removes it from the former one.
func (c *Client) putMachine(old, fresh *clusterapi.Machine) {
	cluster, has := clusterOfMachine(fresh)
	if old != nil {
		if former, _ := clusterOfMachine(old); former != cluster {
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

// putCheck stores a health check. It drops a health check that is being deleted, or that WatchFilter leaves to others.
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
	if fresh.cluster == "" { // no cluster could report the problem
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

// moveCheck sets the cluster of a health check, or removes it if to is nil. It returns the former cluster.
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

// Clusters returns the clusters that have a health check, sorted by name.
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

// Machine returns a machine as last seen or written, or nil if there is none. It searches all clusters, since there are
// few clusters and only machines under repair are looked up.
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

// Wrote stores a machine as the API server returned it after a write, before the watch shows it.
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
