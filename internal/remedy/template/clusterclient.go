package template

import (
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/fettle-io/fettle/internal/core"
)

// ClusterClient is the remedy for the targets of one cluster. Like the Client, it is safe for concurrent use.
type ClusterClient struct {
	*Client

	key  core.ClusterKey
	wake func()
	// round counts the calls of AddFacts. neededCount is the number of kinds that the last call needed.
	round       uint64
	neededCount int
}

// ForCluster returns a client for a cluster, in the place of an earlier one. It calls wake after a change of an object
// that decisions about the cluster read.
func (c *Client) ForCluster(key core.ClusterKey, wake func()) *ClusterClient {
	d := &ClusterClient{Client: c, key: key, wake: wake}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.clusters[key] = d
	return d
}

// Close drops what the cluster needed. A later client of the same cluster stays.
func (d *ClusterClient) Close() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.clusters[d.key] == d {
		delete(d.clusters, d.key)
	}
	for _, k := range d.kinds {
		delete(k.neededBy, d)
	}
}

// AddFacts adds the remediation requests to a cluster. For each step that makes such a request, of policies and running
// repairs, it sets whether the step can be taken. The client watches the kinds of these steps until no cluster needs
// them.
func (d *ClusterClient) AddFacts(policies []core.Policy, cluster *core.Cluster) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.round++
	d.neededCount = 0
	factReader{d, d, d.key}.addFacts(policies, cluster)
}

// need returns a kind, and has it watched. It returns nil if the cluster needs too many kinds already.
func (d *ClusterClient) need(gvk schema.GroupVersionKind) *kind {
	if known := d.kinds[gvk]; known != nil && d.needsNow(known) {
		return known
	}
	if d.neededCount >= mostKindsOfCluster {
		return nil
	}
	k := d.Client.need(gvk)
	if k != nil {
		k.neededBy[d] = d.round
		d.neededCount++
	}
	return k
}

// needsNow reports whether the last call of AddFacts needed a kind. The caller holds the Client's lock.
func (d *ClusterClient) needsNow(k *kind) bool {
	pass, needed := k.neededBy[d]
	return needed && pass == d.round
}

// wakeAffected wakes the cluster that a request is about. For a template it wakes all clusters that need its kind.
func (c *Client) wakeAffected(k *kind, object *unstructured.Unstructured) {
	if _, key, isRequest := readRequest(object); isRequest {
		c.mu.Lock()
		d := c.clusters[key]
		c.mu.Unlock()
		if d != nil {
			d.wake()
		}
		return
	}
	c.wakeAll(k)
}

// wakeAll wakes all clusters that need a kind.
func (c *Client) wakeAll(k *kind) {
	for _, d := range c.needingClients(k) {
		d.wake()
	}
}

func (c *Client) needingClients(k *kind) []*ClusterClient {
	c.mu.Lock()
	defer c.mu.Unlock()
	var clients []*ClusterClient
	for _, d := range c.clusters {
		if d.needsNow(k) {
			clients = append(clients, d)
		}
	}
	return clients
}

// clusterOf returns the cluster of the machine that a request is about. Cluster API labels all objects of a cluster
// with its name.
func clusterOf(request *unstructured.Unstructured, remedy string) core.ClusterKey {
	if remedy != ClusterMachineRemedy {
		return core.ClusterKey{}
	}
	return core.ClusterKey{Namespace: request.GetNamespace(), Name: request.GetLabels()[clusterv1.ClusterNameLabel]}
}
