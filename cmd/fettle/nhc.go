package main

import (
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"

	medik8s "github.com/fettle-io/fettle/api/medik8s/v1alpha1"
	"github.com/fettle-io/fettle/api/openshift/v1beta1"
	"github.com/fettle-io/fettle/internal/cli"
	"github.com/fettle-io/fettle/internal/dialect/nhc"
	"github.com/fettle-io/fettle/internal/dialect/openshift"
	nodelease "github.com/fettle-io/fettle/internal/guard/lease"
	"github.com/fettle-io/fettle/internal/servedapi"
)

const nhcName = "nhc"

// nhcDialect is medik8s' NodeHealthCheck.
func nhcDialect() dialect {
	return dialect{
		name:          nhcName,
		commands:      cli.NHC{},
		isHealthCheck: nhc.IsHealthCheck,
		wire:          (*components).wireNHC,
		parts:         (*components).nhcParts,
		home:          func(r *components) homeClient { return r.nodes },
	}
}

func (r *components) wireNHC(m controllerMetrics, o controllerOptions) error {
	metrics, err := registered(o, nhc.NewMetrics)
	r.nodes = nhc.NewClient(nhc.Config{
		Informers: r.manager.GetCache(), Live: r.manager.GetAPIReader(), Writer: r.manager.GetClient(),
		Events: r.manager.GetEventRecorder("fettle"), Now: time.Now, Wake: r.wake, Served: r.serves(nhc.Kinds),
		Metrics: metrics, Remediators: r.remediatorKinds, Writers: m.writersOf(nhc.Kinds),
	})
	return err
}

func (r *components) nhcParts() []servedapi.Part {
	readsLeases := servedapi.Read{Kind: coordinationv1.SchemeGroupVersion.WithKind("Lease"), Namespace: nodelease.Namespace}
	return []servedapi.Part{
		{
			Name: "medik8s NodeHealthCheck", Kinds: nhc.Kinds, Watch: r.nodes.Watch, HasSynced: r.nodes.HasSynced,
			Reads: append(servedapi.ReadsOf(medik8s.GroupVersion, "NodeHealthCheck"), readsNodes), Grants: ownRights,
		},
		{
			Name: machinesPart, Kinds: openshift.MachineKinds, Watch: r.machines.WatchMachines, HasSynced: r.machines.MachinesSynced, Optional: true,
			Reads: append(servedapi.ReadsOf(v1beta1.GroupVersion, "Machine"), readsNodes), Grants: ownRights, Without: withoutMachines,
		},
		{
			Name: "leases of nodes", Kinds: nhc.Kinds, Watch: r.leases.Watch, HasSynced: r.leases.HasSynced,
			Reads: []servedapi.Read{readsLeases}, Grants: ownRights,
		},
	}
}

// machinesPart is the part that reads the machines of nodes.
const machinesPart = "machines of nodes"

const withoutMachines = "requests for the remediation of a node have no Machine as their owner"

// remediatorKinds returns the kinds of remediation templates that the cluster serves.
func (r *components) remediatorKinds() []nhc.Remediator {
	kinds := r.waker.Templates()
	remediators := make([]nhc.Remediator, 0, len(kinds))
	for _, k := range kinds {
		remediators = append(remediators, nhc.Remediator{
			APIVersion: k.GroupVersion().String(), Kind: k.Kind, Resource: k.Resource, Namespaced: k.Namespaced,
		})
	}
	return remediators
}
