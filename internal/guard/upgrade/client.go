package upgrade

import (
	"context"
	"sync"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"

	"github.com/fettle-io/fettle/internal/core"
	"github.com/fettle-io/fettle/internal/informer"
)

// Kinds has the definitions that the guard needs.
var Kinds = []string{"clusterversions.config.openshift.io"} //nolint:gochecknoglobals // a constant list

// VersionKind is the kind in which OpenShift reports upgrades.
var VersionKind = schema.GroupVersionKind{Group: "config.openshift.io", Version: "v1", Kind: "ClusterVersion"} //nolint:gochecknoglobals // a constant

// Config configures a Client. Every field is required.
type Config struct {
	// Informers serve ClusterVersions.
	Informers cache.Informers
	// Served reports whether the cluster serves Kinds.
	Served func() core.Tri
	// Wake is called when an upgrade begins or ends.
	Wake func()
}

// Client watches upgrades of the cluster. It is safe for concurrent use.
type Client struct {
	Config

	watched informer.Kinds

	mu sync.Mutex
	// progress reports for each ClusterVersion, by its name, whether it progresses.
	progress map[string]bool
}

// NewClient returns a client without a watch.
func NewClient(c Config) *Client { return &Client{Config: c, progress: map[string]bool{}} }

// +kubebuilder:rbac:groups=config.openshift.io,resources=clusterversions,verbs=list;watch

// Watch starts the watch. It fails with a NoMatch error while the API is not served, and may be
// called again then. After a success, further calls do nothing.
func (c *Client) Watch(ctx context.Context) error {
	kind := &unstructured.Unstructured{}
	kind.SetGroupVersionKind(VersionKind)
	return c.watched.Watch(ctx, c.Informers, informer.Kind{Plural: "cluster versions", Object: kind, Handler: toolscache.ResourceEventHandlerFuncs{
		AddFunc:    c.put,
		UpdateFunc: func(_, obj any) { c.put(obj) },
		DeleteFunc: c.drop,
	}})
}

// HasSynced reports whether the watch has synced.
func (c *Client) HasSynced() bool { return c.watched.HasSynced() }

func (c *Client) put(obj any) {
	version, ok := obj.(*unstructured.Unstructured)
	if !ok {
		return
	}
	fresh := Progressing(version)
	c.mu.Lock()
	old := c.progress[version.GetName()]
	c.progress[version.GetName()] = fresh
	c.mu.Unlock()
	if old != fresh {
		c.Wake()
	}
}

func (c *Client) drop(obj any) {
	name, err := toolscache.DeletionHandlingMetaNamespaceKeyFunc(obj)
	if err != nil {
		return
	}
	c.mu.Lock()
	delete(c.progress, name)
	c.mu.Unlock()
	c.Wake()
}

// AddFacts sets whether the cluster is being upgraded.
func (c *Client) AddFacts(_ []core.Policy, cluster *core.Cluster) { cluster.Upgrading = c.upgrading() }

func (c *Client) upgrading() core.Tri {
	if served := c.Served(); served != core.Yes {
		return served
	}
	if !c.HasSynced() {
		return core.Unknown
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, progresses := range c.progress {
		if progresses {
			return core.Yes
		}
	}
	return core.No
}
