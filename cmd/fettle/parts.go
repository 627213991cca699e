package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/fettle-io/fettle/api/fettle/v1alpha1"
	medik8s "github.com/fettle-io/fettle/api/medik8s/v1alpha1"
	"github.com/fettle-io/fettle/api/openshift/v1beta1"
	"github.com/fettle-io/fettle/internal/core"
	"github.com/fettle-io/fettle/internal/dialect/nhc"
	"github.com/fettle-io/fettle/internal/dialect/openshift"
	"github.com/fettle-io/fettle/internal/engine"
	nodelease "github.com/fettle-io/fettle/internal/guard/lease"
	"github.com/fettle-io/fettle/internal/guard/upgrade"
	"github.com/fettle-io/fettle/internal/ledger"
	"github.com/fettle-io/fettle/internal/servedapi"
)

// The names of dialects and remediators in flags.
const (
	openshiftDialect  = "openshift"
	clusterAPIDialect = "cluster-api"
	nhcDialect        = "nhc"

	machineDeletionRemediator = "machine-deletion"
)

func allDialects() []string { return []string{openshiftDialect, clusterAPIDialect, nhcDialect} }

func allRemediators() []string { return []string{machineDeletionRemediator} }

// serves reports whether Fettle follows the health checks of a dialect. It doesn't watch others.
func (o *controllerOptions) serves(dialect string) bool { return slices.Contains(o.dialects, dialect) }

// remediates reports whether one of Fettle's own remediators runs.
func (o *controllerOptions) remediates(remediator string) bool {
	return slices.Contains(o.remediators, remediator)
}

func (o *controllerOptions) checkParts() error {
	problems := []error{
		checkNames("dialects", o.dialects, allDialects()), checkNames("remediators", o.remediators, allRemediators()),
	}
	if len(o.dialects)+len(o.remediators) == 0 {
		problems = append(problems, errors.New("--dialects and --remediators are both empty, so there is nothing to run; name at least one"))
	}
	return errors.Join(problems...)
}

func checkNames(flag string, given, known []string) error {
	for _, name := range given {
		if !slices.Contains(known, name) {
			return fmt.Errorf("--%s has %q; it takes a list of %s", flag, name, strings.Join(known, ", "))
		}
	}
	return nil
}

// ownRights names the manifests that grant the rights of every installation.
const ownRights = "config, or the chart, of this version"

// parts returns the parts that start once the cluster serves their kinds.
func (r *components) parts(o controllerOptions) []servedapi.Part {
	parts := []servedapi.Part{
		{
			Name: "the ledger of repairs", Kinds: []string{ledger.Kind}, Watch: r.repairs.Watch, HasSynced: r.repairs.HasSynced,
			Reads: servedapi.ReadsOf(v1alpha1.GroupVersion, "Repair"), Grants: ownRights,
		},
		{
			Name: "upgrades of the cluster", Kinds: upgrade.Kinds, Watch: r.upgrades.Watch, HasSynced: r.upgrades.HasSynced,
			Reads: []servedapi.Read{{Kind: upgrade.VersionKind}}, Grants: ownRights,
		},
	}
	if o.remediates(machineDeletionRemediator) {
		parts = append(parts, deletionPart(r.deletion))
	}
	if o.serves(clusterAPIDialect) {
		parts = append(parts, r.clusters.part())
	}
	for _, d := range r.homeDialects(o) {
		parts = append(parts, d.parts()...)
	}
	return parts
}

//nolint:gochecknoglobals // constants
var (
	readsNodes  = servedapi.Read{Kind: corev1.SchemeGroupVersion.WithKind("Node")}
	readsLeases = servedapi.Read{Kind: coordinationv1.SchemeGroupVersion.WithKind("Lease"), Namespace: nodelease.Namespace}
)

// machineParts returns the parts for OpenShift's health checks.
func (r *components) machineParts() []servedapi.Part {
	return []servedapi.Part{
		{
			Name: "OpenShift MachineHealthCheck", Kinds: openshift.Kinds, Watch: r.machines.Watch, HasSynced: r.machines.HasSynced,
			Reads: append(servedapi.ReadsOf(v1beta1.GroupVersion, "MachineHealthCheck", "Machine"), readsNodes), Grants: ownRights,
		},
		{
			Name: "templates of machine sets", Kinds: openshift.MachineSetKinds, Watch: r.machines.WatchMachineSets, HasSynced: r.machines.MachineSetsSynced, Optional: true,
			Reads: servedapi.ReadsOf(v1beta1.GroupVersion, "MachineSet"), Grants: ownRights, Without: withoutMachineSets,
		},
	}
}

// nodeParts returns the parts for health checks of nodes.
func (r *components) nodeParts() []servedapi.Part {
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

// dialectParts is an API of health checks in the cluster that Fettle runs in.
type dialectParts struct {
	name   string
	client interface {
		engine.Dialect
		homeDialect
	}
	parts func() []servedapi.Part
}

// homeDialects returns those APIs, without the ones that a flag turns off. A new dialect has its
// entry here.
func (r *components) homeDialects(o controllerOptions) []dialectParts {
	all := []dialectParts{
		{openshiftDialect, r.machines, r.machineParts},
		{nhcDialect, r.nodes, r.nodeParts},
	}
	return slices.DeleteFunc(all, func(d dialectParts) bool { return !o.serves(d.name) })
}

// engineDialects returns their clients as ports of the engine.
func (r *components) engineDialects(o controllerOptions) []engine.Dialect {
	var dialects []engine.Dialect
	for _, d := range r.homeDialects(o) {
		dialects = append(dialects, d.client)
	}
	return dialects
}

// homeClients returns their clients for workload clusters, whose nodes the same health checks may
// judge.
func (r *components) homeClients(o controllerOptions) []homeDialect {
	var neighbors []homeDialect
	for _, d := range r.homeDialects(o) {
		neighbors = append(neighbors, d.client)
	}
	return neighbors
}

// machinesPart is the part that reads the machines of nodes.
const machinesPart = "machines of nodes"

const withoutMachineSets = "a machine set that is given up is not resumed when its template changes"

const withoutMachines = "requests for the remediation of a node have no Machine as their owner"

// machinesServed reports whether the cluster serves machines and Fettle may read them.
func (r *components) machinesServed() core.Tri {
	if r.waker.Unreadable(machinesPart) {
		return core.No
	}
	return r.waker.Served(openshift.MachineKinds)
}
