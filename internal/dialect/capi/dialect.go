package capi

import (
	"context"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fettle-io/fettle/internal/clusterapi"
	"github.com/fettle-io/fettle/internal/core"
	"github.com/fettle-io/fettle/internal/healthcheck"
	"github.com/fettle-io/fettle/internal/node"
)

// Nodes are the nodes of one workload cluster, seen through a connection to it.
type Nodes interface {
	// Answers reports whether the workload cluster answers and its nodes are synced. Otherwise it returns the reason
	// and the remedy in a sentence, which stays the same for as long as the state lasts.
	Answers() (core.Tri, string)
	// Lookup calls yield with a function that finds nodes by name. No node changes until yield returns.
	Lookup(yield func(find func(name string) (node.Facts, bool)))
	// ReadNode reads a node from the workload cluster's API server. For a missing node it returns NodeGone, and no
	// error.
	ReadNode(ctx context.Context, name string) (core.Node, error)
}

// Dialect has the machines of one workload cluster and the health checks for them. It is safe for concurrent use.
type Dialect struct {
	client  *Client
	cluster types.NamespacedName
	nodes   Nodes
}

// Dialect returns the dialect of one workload cluster.
func (c *Client) Dialect(cluster types.NamespacedName, nodes Nodes) *Dialect {
	return &Dialect{client: c, cluster: cluster, nodes: nodes}
}

// Observe returns the machines and health checks of the cluster from the caches. While the cluster is blocked, or its
// nodes can't be seen, the observation is unknown.
func (d *Dialect) Observe() (core.Observation, error) {
	o := core.Observation{Kind: machineKind}
	switch {
	case d.client.Served != nil && d.client.Served() == core.No:
		o.Observed = core.No
		return o, nil
	case !d.client.HasSynced():
		return o, nil
	}
	s := d.client.storeOf(d.cluster)
	if blocked := d.blockedBy(s); blocked != nil && !blocked.startsOnly {
		return o, nil
	}
	o.Observed = core.Yes
	d.nodes.Lookup(func(find func(string) (node.Facts, bool)) { s.snapshot(&o, find) })
	// If the connection was lost meanwhile, its nodes may be missing here, and they are not gone.
	blocked := d.blockedBy(s)
	if blocked != nil && !blocked.startsOnly {
		return core.Observation{Kind: machineKind}, nil
	}
	s.blockStarts(blocked, o.Policies)
	return o, nil
}

// ReadNode reads the node that a machine refers to from the workload cluster's API server.
func (d *Dialect) ReadNode(ctx context.Context, t core.Target) (core.Node, error) {
	n, err := d.nodes.ReadNode(ctx, t.Node.Name)
	if err != nil {
		return core.Node{}, fmt.Errorf("getting node %s of cluster %s: %w", t.Node.Name, d.cluster, err)
	}
	return n, nil
}

// +kubebuilder:rbac:groups=cluster.x-k8s.io,resources=machinehealthchecks,verbs=get
// +kubebuilder:rbac:groups=cluster.x-k8s.io,resources=clusters,verbs=get

// ReadPolicy reads the fingerprint of a health check from the API server. The fingerprint is empty if other health checks
// may act on the nodes since the last observation.
func (d *Dialect) ReadPolicy(ctx context.Context, id core.ID) (string, error) {
	u, err := healthcheck.ReadLive(ctx, d.client.Live, checkKind, id)
	if u == nil {
		return "", err
	}
	if stopped, err := d.pausedOrGone(ctx); stopped || err != nil {
		return "", err
	}
	if d.othersBeganToAct(d.client.storeOf(d.cluster)) {
		return "", nil
	}
	return readHealthCheck(u).policy.Fingerprint, nil
}

// pausedOrGone reads the Cluster from the API server, and reports whether its machines must not be touched. That is so
// if the Cluster is paused, gone, or has a spec.paused that can't be read.
func (d *Dialect) pausedOrGone(ctx context.Context) (bool, error) {
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(clusterapi.ClusterKind)
	switch err := d.client.Live.Get(ctx, d.cluster, u); {
	case apierrors.IsNotFound(err):
		return true, nil
	case err != nil:
		return false, fmt.Errorf("getting Cluster %s: %w", d.cluster, err)
	}
	paused, _, err := unstructured.NestedBool(u.Object, "spec", "paused")
	return paused || err != nil, nil
}

func sortClusters(clusters []types.NamespacedName) {
	slices.SortFunc(clusters, func(a, b types.NamespacedName) int { return strings.Compare(a.String(), b.String()) })
}
