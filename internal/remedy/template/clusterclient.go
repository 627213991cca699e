package template

import (
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/fettle-io/fettle/internal/core"
)

// ClusterKey names the fleet that a request is about a target of: a workload cluster, by its Name, or the zero ClusterKey, which is
// that of the cluster where requests are made.
type ClusterKey struct{ Namespace, Name string }

// ClusterClient has the requests about the targets of one fleet, and makes and withdraws them. Like the Client, it is safe for
// concurrent use.
type ClusterClient struct {
	*Client

	key  ClusterKey
	wake func()
	// round counts the surveys of the fleet, and needed the kinds that the last one needed.
	round       uint64
	neededCount int
}

// ForCluster gives the docket of a fleet, of which there may be one at a time. Wake is called when something that decisions
// about the fleet read has changed.
func (c *Client) ForCluster(key ClusterKey, wake func()) *ClusterClient {
	d := &ClusterClient{Client: c, key: key, wake: wake}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.clusters[key] = d
	return d
}

// Close forgets what the fleet needed. There may be another of its name by now.
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

// AddFacts says of each step that asks a remediator, of policies and of repairs under way, whether it can be taken, and
// gives what remediators have been asked for. The kinds that the ladders need are watched until no fleet's last survey
// needs them any more.
func (d *ClusterClient) AddFacts(policies []core.Policy, cluster *core.Cluster) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.round++
	d.neededCount = 0
	factReader{d, d.key}.addFacts(policies, cluster)
}

// need returns a kind, and has it watched. It is nil when the fleet needs too many already.
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

// needsNow tells whether the last survey of the fleet needed a kind. Whoever asks holds the Client's lock.
func (d *ClusterClient) needsNow(k *kind) bool {
	pass, needed := k.neededBy[d]
	return needed && pass == d.round
}

// wakeAffected wakes the fleets that an object matters to: the one that a request is about, and all that need a template of
// its kind.
func (c *Client) wakeAffected(k *kind, object *unstructured.Unstructured) {
	if _, key, asks := readRequest(object); asks {
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

// wakeAll wakes all fleets that need a kind.
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

// clusterOf is the fleet of the machine that a request is about. One of Name API says so by the label that Name API
// gives to all that belongs to a cluster.
func clusterOf(request *unstructured.Unstructured, remedy string) ClusterKey {
	if remedy != ClusterMachineRemedy {
		return ClusterKey{}
	}
	return ClusterKey{Namespace: request.GetNamespace(), Name: request.GetLabels()[clusterv1.ClusterNameLabel]}
}
