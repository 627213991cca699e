package main

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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
	// deed is what Fettle does to have a target repaired.
	deed deed
	// stands is set where it asks a remediator by an object that stands until the node is healthy again.
	stands bool
	// writes is what the API writes per repair are held to; empty for nothing.
	writes string
	// checks is where a health check's status is written, as the audit log names it.
	checks string
	// check is the manifest of a health check that selects every target and allows its node to be not Ready for %[1]s.
	check string
	// install defines the kinds that the fleet is made of.
	install func(context.Context, *rest.Config) error
	// populate makes the machines of the first nodes, if any, and tells how large one is on the wire.
	populate func(ctx context.Context, s *stage.Stage, machines int) (int, error)
	// healthy counts the targets that the health check's status calls healthy.
	healthy func(context.Context, client.Client) (int, error)
	// watch is what the floor watches beside nodes; nil for nothing.
	watch func(*rest.Config) (cache.SharedInformer, error)
}

// deed is the call by which Fettle has a target repaired.
type deed struct {
	// verb and resource are the call, as the audit log names it. The object has the name of the target.
	verb     string
	resource schema.GroupVersionResource
	// noun and participle say what is done to what, and many what several such calls are.
	noun, participle, many string
	// requested and seen are the steps at which the API server gets the call, and at which a watcher sees what came of it.
	requested, seen string
	// shows tells whether a watcher sees by this event what came of the call.
	shows func(watch.EventType, *metav1.PartialObjectMetadata) bool
}

func dialects() map[string]dialect {
	return map[string]dialect{"openshift": openShift(), "nhc": nodeHealthCheck()}
}
