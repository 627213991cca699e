package main

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fettle-io/fettle/sandbox/stage"
)

// dialect is what a run must know of one API of health checks. Nodes are the same for all.
type dialect struct {
	// kinds are definitions in config/crd that the cluster has of others.
	kinds []string
	// target names what is repaired: the machine or the node of this index.
	target func(int) string
	// withoutMachines is set where nodes alone are repaired.
	withoutMachines bool
	// apart is set where the nodes are those of workload clusters, beside the cluster that Fettle runs in.
	apart bool
	// remedyCall is what Fettle does to have a target repaired.
	remedyCall remedyCall
	// stands is set where it is an appeal to others that stands until the node is healthy again.
	stands bool
	limits limits
	// checks is where a health check's status is written, as the audit log names it.
	checks string
	// check is the manifest of a health check that selects every target of cluster %[3]s, and allows its node to be not
	// Ready for %[1]s, which are %[2]d seconds.
	check string
	// install defines the kinds that the fleet is made of, and grants what Fettle needs for them alone.
	install func(context.Context, *stage.Stage) error
	// populate makes the machines of a cluster, if any, and tells how large one is on the wire.
	populate func(context.Context, *stage.Stage, cluster) (int, error)
	// healthy counts the targets that the statuses of health checks call healthy.
	healthy func(context.Context, client.Client) (int, error)
	// watch is what the floor watches beside nodes; nil for nothing.
	watch func(*rest.Config) (cache.SharedInformer, error)
}

// cluster is one whose nodes are judged.
type cluster struct {
	name string
	// kubeconfig is how Fettle gets there; empty for the cluster that it runs in.
	kubeconfig []byte
	// Its machines are those of the nodes from first on.
	first, machines int
}

// manifest gives the health check of a cluster that allows its nodes to be not Ready for that long.
func (d *dialect) manifest(cluster string, timeout time.Duration) ([]*unstructured.Unstructured, error) {
	return stage.Decode(fmt.Appendf(nil, d.check, timeout, int(timeout.Seconds()), cluster))
}

// limits are what Fettle is held to beside what holds for every dialect; empty for nothing.
type limits struct {
	// processor per heartbeat and memory at its peak, compared with the floor.
	processor, memory string
	// writes to the API per repair, and calls in a pass in which nothing has changed but the health check's time-out.
	writes, passes string
}

// remedyCall is the call by which Fettle has a target repaired.
type remedyCall struct {
	// verb, resource and subresource are the call, as the audit log names it. The object has the name of the target.
	verb        string
	resource    schema.GroupVersionResource
	subresource string
	// namespace has the objects, contentType is that of the body where it is not an object as JSON, and body is what the call
	// sends for a target, given the target as it is where that is an object of the same resource.
	namespace, contentType string
	body                   func(target string, now *unstructured.Unstructured) ([]byte, error)
	// reversed is set where it is taken back by a call of the same name.
	reversed bool
	// noun and participle say what is done to what, and many what several such calls are.
	noun, participle, many string
	// requested and seen are the steps at which the API server gets the call, and at which a watcher sees what came of it.
	requested, seen string
	// shows tells whether a watcher sees by this event what came of the call.
	shows func(watch.EventType, *unstructured.Unstructured) bool
}

// object is what the audit log names as the object of the call.
func (d *remedyCall) object() string {
	if d.subresource == "" {
		return d.resource.Resource
	}
	return d.resource.Resource + "/" + d.subresource
}

func dialects() map[string]dialect {
	return map[string]dialect{"openshift": openShift(), "nhc": nodeHealthCheck(), "capi": clusterAPI()}
}

// healthyIn adds up what the statuses of all health checks of a kind call healthy.
func healthyIn(ctx context.Context, c client.Client, kind schema.GroupVersionKind, field string) (int, error) {
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
	if err := c.List(ctx, list); err != nil {
		return 0, fmt.Errorf("reading the health checks: %w", err)
	}
	sum := int64(0)
	for i := range list.Items {
		n, _, err := unstructured.NestedInt64(list.Items[i].Object, "status", field)
		if err != nil {
			return 0, fmt.Errorf("reading the status of health check %s: %w", list.Items[i].GetName(), err)
		}
		sum += n
	}
	return int(sum), nil
}
