package main

import (
	"context"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fettle-io/fettle/sandbox/stage"
)

// dialect is what a run must know of one API of health checks. Nodes are the same for all.
type dialect struct {
	// machines is what a repair deletes.
	machines schema.GroupVersionResource
	// checks is where a health check's status is written, as the audit log names it.
	checks string
	// check is the manifest of a health check that selects every machine and allows its node to be not Ready for %[1]s.
	check string
	// install defines the kinds that the fleet is made of.
	install func(context.Context, *rest.Config) error
	// populate makes the machines of the first nodes, and tells how large one is on the wire.
	populate func(ctx context.Context, s *stage.Stage, machines int) (int, error)
	// healthy counts the machines that the health check's status calls healthy.
	healthy func(context.Context, client.Client) (int, error)
	// watch is what the floor watches beside nodes.
	watch func(*rest.Config) (cache.SharedInformer, error)
}

func dialects() map[string]dialect {
	return map[string]dialect{"openshift": openShift()}
}
