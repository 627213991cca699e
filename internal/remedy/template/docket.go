package template

import (
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/fettle-io/fettle/internal/core"
)

// Fleet names the fleet that a request is about a target of: a workload cluster, by its Cluster, or the zero Fleet, which is
// that of the cluster where requests are made.
type Fleet struct{ Namespace, Cluster string }

// Docket has the requests about the targets of one fleet, and makes and withdraws them. Like the Client, it is safe for
// concurrent use.
type Docket struct {
	*Client

	fleet Fleet
	wake  func()
	// pass counts the surveys of the fleet, and needed the kinds that the last one needed.
	pass   uint64
	needed int
}

// Of gives the docket of a fleet, of which there may be one at a time. Wake is called when something that decisions
// about the fleet read has changed.
func (c *Client) Of(fleet Fleet, wake func()) *Docket {
	d := &Docket{Client: c, fleet: fleet, wake: wake}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.dockets[fleet] = d
	return d
}

// Close forgets what the fleet needed. There may be another of its name by now.
func (d *Docket) Close() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.dockets[d.fleet] == d {
		delete(d.dockets, d.fleet)
	}
	for _, k := range d.kinds {
		delete(k.needs, d)
	}
}

// Survey says of each step that asks a remediator, of policies and of repairs under way, whether it can be taken, and
// gives what remediators have been asked for. The kinds that the ladders need are watched until no fleet's last survey
// needs them any more.
func (d *Docket) Survey(policies []core.Policy, fleet *core.Fleet) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.pass++
	d.needed = 0
	census{d, d.fleet}.survey(policies, fleet)
}

// need returns a kind, and has it watched. It is nil when the fleet needs too many already.
func (d *Docket) need(gvk schema.GroupVersionKind) *kind {
	if known := d.kinds[gvk]; known != nil && d.needsNow(known) {
		return known
	}
	if d.needed >= mostKindsOfFleet {
		return nil
	}
	k := d.Client.need(gvk)
	if k != nil {
		k.needs[d] = d.pass
		d.needed++
	}
	return k
}

// needsNow tells whether the last survey of the fleet needed a kind. Whoever asks holds the Client's lock.
func (d *Docket) needsNow(k *kind) bool {
	pass, needed := k.needs[d]
	return needed && pass == d.pass
}

// wakeFor wakes the fleets that an object matters to: the one that a request is about, and all that need a template of
// its kind.
func (c *Client) wakeFor(k *kind, object *unstructured.Unstructured) {
	if _, fleet, asks := readRequest(object); asks {
		c.mu.Lock()
		d := c.dockets[fleet]
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
	for _, d := range c.needing(k) {
		d.wake()
	}
}

func (c *Client) needing(k *kind) []*Docket {
	c.mu.Lock()
	defer c.mu.Unlock()
	var dockets []*Docket
	for _, d := range c.dockets {
		if d.needsNow(k) {
			dockets = append(dockets, d)
		}
	}
	return dockets
}

// fleetOf is the fleet of the machine that a request is about. One of Cluster API says so by the label that Cluster API
// gives to all that belongs to a cluster.
func fleetOf(request *unstructured.Unstructured, remedy string) Fleet {
	if remedy != ClusterMachineRemedy {
		return Fleet{}
	}
	return Fleet{Namespace: request.GetNamespace(), Cluster: request.GetLabels()[clusterv1.ClusterNameLabel]}
}
