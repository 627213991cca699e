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
	// kinds are definitions in config/crd that clusters have from other vendors.
	kinds []string
	// target returns the name of the target of this index: a machine or a node.
	target func(int) string
	// withoutMachines is set if only nodes are repaired.
	withoutMachines bool
	// apart is set if the nodes are in workload clusters, and not in the cluster in which Fettle runs.
	apart bool
	// remedyCall is Fettle's call for the repair of a target.
	remedyCall remedyCall
	// metal is set if Fettle's own remediator powers the hosts of nodes off and on. Such a run has phases of its own.
	metal bool
	// stands is set if the remedy is a remediation request, which stays until the node is healthy again.
	stands bool
	limits limits
	// checks is the resource of a health check's status in the audit log.
	checks string
	// check is the manifest of a health check of all targets of cluster %[3]s. It allows their nodes to be not Ready
	// for %[1]s, which are %[2]d seconds.
	check string
	// install defines the kinds of the targets, and grants Fettle the rights for them.
	install func(context.Context, *stage.Stage) error
	// populate makes the machines of a cluster, if any, and returns the size of one on the wire.
	populate func(context.Context, *stage.Stage, cluster) (int, error)
	// healthy counts the targets that are healthy by the statuses of health checks.
	healthy func(context.Context, client.Client) (int, error)
	// watch watches further objects beside nodes, as the floor does. It is nil for none.
	watch func(*rest.Config) (cache.SharedInformer, error)
}

// cluster is a cluster whose nodes are judged.
type cluster struct {
	name string
	// kubeconfig is Fettle's kubeconfig of it, or empty for the cluster in which Fettle runs.
	kubeconfig []byte
	// first is the index of the first node with a machine of this cluster.
	first, machines int
}

// manifest returns the health check of a cluster with this time-out.
func (d *dialect) manifest(cluster string, timeout time.Duration) ([]*unstructured.Unstructured, error) {
	return stage.Decode(fmt.Appendf(nil, d.check, timeout, int(timeout.Seconds()), cluster))
}

// limits are further limits of Fettle for this dialect, or empty for none.
type limits struct {
	// The processor per heartbeat, and the memory at its peak, compared with the floor.
	processor, memory string
	// The writes to the API per repair, and the calls in a pass in which only the health check's time-out has changed.
	writes, passes string
}

// remedyCall is the call by which Fettle has a target repaired.
type remedyCall struct {
	// verb, resource and subresource are the call as the audit log names it. The object has the name of the target.
	verb        string
	resource    schema.GroupVersionResource
	subresource string
	// namespace is the namespace of the objects. contentType is the type of the body, unless that is an object as JSON.
	// body returns the body for a target. now is the present object of the call, if it has the target's name already.
	namespace, contentType string
	body                   func(target string, now *unstructured.Unstructured) ([]byte, error)
	// reversed is set if a call of the same name reverses it.
	reversed bool
	// noun and participle name the target and the effect, and many names several such calls.
	noun, participle, many string
	// requested is the step at which the API server gets the call, and seen the step at which a watcher sees its
	// effect.
	requested, seen string
	// shows reports whether a watcher sees the effect of the call by this event.
	shows func(watch.EventType, *unstructured.Unstructured) bool
}

// object returns the object of the call as the audit log names it.
func (d *remedyCall) object() string {
	if d.subresource == "" {
		return d.resource.Resource
	}
	return d.resource.Resource + "/" + d.subresource
}

func dialects() map[string]dialect {
	return map[string]dialect{"openshift": openShift(), "nhc": nodeHealthCheck(), "capi": clusterAPI(), "metal": metal()}
}

// healthyIn adds up the healthy targets in the statuses of all health checks of a kind.
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
