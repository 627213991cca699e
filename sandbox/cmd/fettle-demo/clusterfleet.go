package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
)

const (
	clusterAPI       = "cluster.x-k8s.io/v1beta2"
	clusterNameLabel = "cluster.x-k8s.io/cluster-name"
)

// clusterMachine is what the timeline shows of one machine.
type clusterMachine struct {
	name, cluster, infrastructure string
	uid                           types.UID
	controlPlane, deleting        bool
	// node, health and owner are conditions: of its node, of its health check, and its owner's answer to that.
	node, health, owner string
}

// clusterCheck is what a health check's status says.
type clusterCheck struct {
	expected, healthy int64
	// allowed and reason are from the condition that says whether machines may be repaired.
	allowed, reason, message string
}

// clusters is the state of all clusters at one instant.
type clusters struct {
	machines map[string]clusterMachine
	checks   map[string]clusterCheck
	repairs  map[string]string
}

// lookAtClusters reads the management cluster.
func (s *demo) lookAtClusters(ctx context.Context) (clusters, error) {
	shot := clusters{machines: map[string]clusterMachine{}, checks: map[string]clusterCheck{}}
	machines, err := s.list(ctx, clusterAPI, "MachineList")
	if err != nil {
		return shot, err
	}
	for i := range machines {
		shot.machines[machines[i].GetName()] = readClusterMachine(&machines[i])
	}
	checks, err := s.list(ctx, clusterAPI, "MachineHealthCheckList")
	if err != nil {
		return shot, err
	}
	for i := range checks {
		shot.checks[checks[i].GetName()] = readClusterCheck(&checks[i])
	}
	shot.repairs, err = s.repairs(ctx)
	return shot, err
}

func readClusterMachine(u *unstructured.Unstructured) clusterMachine {
	infrastructure, _, _ := unstructured.NestedString(u.Object, "spec", "infrastructureRef", "name")
	_, controlPlane := u.GetLabels()["cluster.x-k8s.io/control-plane"]
	return clusterMachine{
		name: u.GetName(), cluster: u.GetLabels()[clusterNameLabel], infrastructure: infrastructure, uid: u.GetUID(),
		controlPlane: controlPlane, deleting: u.GetDeletionTimestamp() != nil,
		node: conditionWord(u, "NodeHealthy"), health: conditionWord(u, "HealthCheckSucceeded"), owner: conditionWord(u, "OwnerRemediated"),
	}
}

// conditionWord renders a condition as "Status Reason", or as nothing without one.
func conditionWord(u *unstructured.Unstructured, kind string) string {
	status, reason, _ := conditionOf(u, kind)
	return strings.TrimSpace(status + " " + reason)
}

func readClusterCheck(u *unstructured.Unstructured) clusterCheck {
	var c clusterCheck
	c.expected, _, _ = unstructured.NestedInt64(u.Object, "status", "expectedMachines")
	c.healthy, _, _ = unstructured.NestedInt64(u.Object, "status", "currentHealthy")
	c.allowed, c.reason, c.message = conditionOf(u, "RemediationAllowed")
	return c
}

// workersOf returns the workers of a cluster by name.
func (s clusters) workersOf(cluster string) []clusterMachine {
	var found []clusterMachine
	for _, name := range slices.Sorted(maps.Keys(s.machines)) {
		if m := s.machines[name]; m.cluster == cluster && !m.controlPlane {
			found = append(found, m)
		}
	}
	return found
}

// well reports whether a health check finds all of this many machines healthy.
func (s clusters) well(check string, machines int64) bool {
	c := s.checks[check]
	return c.expected == machines && c.healthy == machines
}

// onlyMarked returns an error if any other machine is marked for its owner, or is in deletion.
func (s clusters) onlyMarked(expected ...clusterMachine) error {
	for _, name := range slices.Sorted(maps.Keys(s.machines)) {
		m := s.machines[name]
		known := slices.ContainsFunc(expected, func(e clusterMachine) bool { return e.uid == m.uid })
		if !known && (m.deleting || strings.HasPrefix(m.owner, "False")) {
			return fmt.Errorf("machine %s is marked for its owner, and none should be", name)
		}
	}
	return nil
}

// tellClusters prints what has changed.
func tellClusters(before, now clusters) {
	for _, name := range slices.Sorted(maps.Keys(now.machines)) {
		was, known := before.machines[name]
		tellClusterMachine(was, now.machines[name], known)
	}
	for _, name := range slices.Sorted(maps.Keys(before.machines)) {
		if _, exists := now.machines[name]; !exists {
			saw("machine", "%s is gone", name)
		}
	}
	tellRepairs(before.repairs, now.repairs)
	for _, name := range slices.Sorted(maps.Keys(now.checks)) {
		tellClusterCheck(name, before.checks[name], now.checks[name])
	}
}

func tellClusterMachine(before, now clusterMachine, known bool) {
	if !known {
		saw("machine", "%s is made (cluster %s)", now.name, now.cluster)
	}
	if now.deleting && !before.deleting {
		saw("machine", "%s is being deleted by its owner", now.name)
	}
	for _, c := range []struct{ kind, before, now string }{
		{"NodeHealthy", before.node, now.node}, {"HealthCheckSucceeded", before.health, now.health}, {"OwnerRemediated", before.owner, now.owner},
	} {
		if c.before != c.now && c.now != "" && !now.deleting {
			saw("machine", "%s: %s is %s", now.name, c.kind, c.now)
		}
	}
}

func tellClusterCheck(name string, before, now clusterCheck) {
	if now.expected != before.expected || now.healthy != before.healthy {
		saw("check", "%s: %d of %d machines are healthy", name, now.healthy, now.expected)
	}
	if now.allowed != before.allowed || now.reason != before.reason {
		saw("check", "%s: RemediationAllowed is %s %s", name, now.allowed, now.reason)
	}
}
