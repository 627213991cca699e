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

// Nodes are the nodes of one workload cluster, as they are seen through a connection to it.
type Nodes interface {
	// Answers tells whether the workload cluster answers and what is seen of it is in step, and if not, in a sentence
	// that stays the same as long as that lasts, why and what to do.
	Answers() (core.Tri, string)
	// Lookup calls yield with a function that finds nodes by name, and holds the nodes still until it returns.
	Lookup(yield func(find func(name string) (node.Facts, bool)))
	// ReadNode reads a node from the workload cluster itself. One that is not there is NodeGone, and no error.
	ReadNode(ctx context.Context, name string) (core.Node, error)
}

// Dialect is one workload cluster: its machines, and the health checks for them. It is safe for concurrent use.
type Dialect struct {
	client  *Client
	cluster types.NamespacedName
	nodes   Nodes
}

// Dialect gives the fleet of a cluster.
func (c *Client) Dialect(cluster types.NamespacedName, nodes Nodes) *Dialect {
	return &Dialect{client: c, cluster: cluster, nodes: nodes}
}

// Observe gives the machines of the cluster and its health checks, from what has been watched. It is not known how
// they stand while the cluster is to be left alone, or its nodes can't be seen.
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
	// A connection that was lost in between may have given up its nodes, which are not gone by that.
	blocked := d.blockedBy(s)
	if blocked != nil && !blocked.startsOnly {
		return core.Observation{Kind: machineKind}, nil
	}
	s.blockStarts(blocked, o.Policies)
	return o, nil
}

// ReadNode reads the node that a machine refers to from the workload cluster itself.
func (d *Dialect) ReadNode(ctx context.Context, t core.Target) (core.Node, error) {
	n, err := d.nodes.ReadNode(ctx, t.Node.Name)
	if err != nil {
		return core.Node{}, fmt.Errorf("getting node %s of cluster %s: %w", t.Node.Name, d.cluster, err)
	}
	return n, nil
}

// +kubebuilder:rbac:groups=cluster.x-k8s.io,resources=machinehealthchecks,verbs=get
// +kubebuilder:rbac:groups=cluster.x-k8s.io,resources=clusters,verbs=get

// ReadPolicy reads the fingerprint of a health check from the API server itself.
func (d *Dialect) ReadPolicy(ctx context.Context, id core.ID) (string, error) {
	u, err := healthcheck.ReadLive(ctx, d.client.Live, checkKind, id)
	if u == nil || err != nil {
		return "", err
	}
	if stopped, err := d.pausedOrGone(ctx); stopped || err != nil {
		return "", err
	}
	return readHealthCheck(u).policy.Fingerprint, nil
}

// pausedOrGone reports whether the Cluster itself says, by the API server's word, that nothing of it may be touched: it is paused, or
// gone, or does not say so in a way that can be read.
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
