package main

import (
	"slices"
	"strings"
	"testing"

	"github.com/fettle-io/fettle/internal/dialect/nhc"
	"github.com/fettle-io/fettle/internal/dialect/openshift"
	"github.com/fettle-io/fettle/internal/servedapi"
)

// TestPartsAskForWhatTheyWatch: each part checks whether it may list its kinds, and names the
// manifests that grant the rights.
func TestPartsAskForWhatTheyWatch(t *testing.T) {
	r := &components{clusters: &workloadClusters{}}
	parts := r.parts(controllerOptions{dialects: dialectNames(), remediators: allRemediators()})
	for _, p := range parts {
		for _, kind := range p.Kinds {
			reads := slices.ContainsFunc(p.Reads, func(r servedapi.Read) bool {
				plural := strings.Replace(strings.ToLower(r.Kind.Kind)+"s", "ys", "ies", 1)
				return plural+"."+r.Kind.Group == kind
			})
			if !reads && p.Name != "leases of nodes" {
				t.Errorf("%s does not ask for %s", p.Name, kind)
			}
		}
		if len(p.Reads) == 0 || p.Grants == "" {
			t.Errorf("%s requires %v, which %q grants", p.Name, p.Reads, p.Grants)
		}
	}
	if len(parts) != 13 {
		t.Errorf("there are %d parts", len(parts))
	}
}

// TestPartsOfDialects: a flag can turn off each dialect and remediator. NodeHealthChecks read
// machines, which own remediation requests for their nodes. They wait neither for
// MachineHealthChecks nor for machines.
func TestPartsOfDialects(t *testing.T) {
	r := &components{clusters: &workloadClusters{}, machines: &openshift.Client{}, nodes: &nhc.Client{}}
	of := map[string]string{
		"MachineDeletionRemediation": machineDeletionRemediator, "PowerRemediation": powerCycleRemediator, "SelfFenceRemediation": selfFenceRemediator, "FencePolicy": selfFenceRemediator, "certificates of agents": selfFenceRemediator, "Cluster API MachineHealthCheck": clusterAPIName,
		"OpenShift MachineHealthCheck": openshiftName, "medik8s NodeHealthCheck": nhcName, machinesPart: nhcName, "leases of nodes": nhcName,
	}
	for _, o := range []controllerOptions{
		{dialects: []string{openshiftName}}, {dialects: []string{clusterAPIName}}, {dialects: []string{nhcName}},
		{remediators: allRemediators()}, {dialects: dialectNames(), remediators: allRemediators()},
	} {
		runs := slices.Concat(o.dialects, o.remediators)
		for _, p := range r.parts(o) {
			if dialect, belongs := of[p.Name]; belongs && !slices.Contains(runs, dialect) {
				t.Errorf("%v has the part %s", runs, p.Name)
			}
			if p.Name == machinesPart && (!p.Optional || slices.Contains(p.Kinds, "machinehealthchecks.machine.openshift.io")) {
				t.Errorf("machines are optional: %t, and wait for %v", p.Optional, p.Kinds)
			}
		}
		home := 0
		for _, d := range []string{openshiftName, nhcName} {
			if slices.Contains(runs, d) {
				home++
			}
		}
		if clients := len(r.homeClients(o)); clients != home {
			t.Errorf("%v has %d clients of the home cluster, want %d", runs, clients, home)
		}
	}
}
