package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const namespace = "openshift-machine-api"

// machine is what the timeline shows of one machine and its node.
type machine struct {
	name, zone, phase string
	uid               types.UID
	ready             string
	deleting          bool
}

// machines is the state of all machines at one instant.
type machines struct {
	byName  map[string]machine
	repairs map[string]string
	check   check
}

// check is what a health check's status says.
type check struct {
	expected, healthy int64
	allowed           string
	reason, message   string
}

// lookAtMachines reads the state.
func (s *demo) lookAtMachines(ctx context.Context) (machines, error) {
	shot := machines{byName: map[string]machine{}}
	var nodes corev1.NodeList
	if err := s.Client.List(ctx, &nodes); err != nil {
		return shot, fmt.Errorf("listing nodes: %w", err)
	}
	ready := map[string]string{}
	for i := range nodes.Items {
		ready[nodes.Items[i].Name] = readyText(&nodes.Items[i])
	}
	listed, err := s.list(ctx, "machine.openshift.io/v1beta1", "MachineList")
	if err != nil {
		return shot, err
	}
	for i := range listed {
		m := readMachine(&listed[i], ready)
		shot.byName[m.name] = m
	}
	if shot.repairs, err = s.repairs(ctx); err != nil {
		return shot, err
	}
	shot.check, err = s.readCheck(ctx)
	return shot, err
}

func readMachine(u *unstructured.Unstructured, ready map[string]string) machine {
	m := machine{name: u.GetName(), uid: u.GetUID(), deleting: u.GetDeletionTimestamp() != nil, zone: u.GetLabels()["zone"]}
	m.phase, _, _ = unstructured.NestedString(u.Object, "status", "phase")
	node, _, _ := unstructured.NestedString(u.Object, "status", "nodeRef", "name")
	m.ready = ready[node]
	return m
}

func (s *demo) readCheck(ctx context.Context) (check, error) {
	u := &unstructured.Unstructured{}
	u.SetAPIVersion("machine.openshift.io/v1beta1")
	u.SetKind("MachineHealthCheck")
	err := s.Client.Get(ctx, types.NamespacedName{Namespace: namespace, Name: "example"}, u)
	if client.IgnoreNotFound(err) != nil {
		return check{}, fmt.Errorf("reading the health check: %w", err)
	}
	var c check
	c.expected, _, _ = unstructured.NestedInt64(u.Object, "status", "expectedMachines")
	c.healthy, _, _ = unstructured.NestedInt64(u.Object, "status", "currentHealthy")
	c.allowed, c.reason, c.message = conditionOf(u, "RemediationAllowed")
	return c, nil
}

// inZone returns the machines of a zone, or all for "", by name.
func (s machines) inZone(zone string) []machine {
	var found []machine
	for _, m := range s.byName {
		if zone == "" || m.zone == zone {
			found = append(found, m)
		}
	}
	slices.SortFunc(found, func(a, b machine) int { return strings.Compare(a.name, b.name) })
	return found
}

// wellOff reports whether this many machines exist, and all run with a ready node.
func (s machines) wellOff(want int) bool {
	for _, m := range s.byName {
		if m.deleting || m.phase != "Running" || m.ready != "True" {
			return false
		}
	}
	return len(s.byName) == want
}

// setFault makes an instance of the simulated cloud fail, or mends it.
func (s *demo) setFault(ctx context.Context, instance, fault string) error {
	return s.patch(ctx, "sandbox.fettle.io/v1alpha1", "Instance", instance, `{"spec":{"fault":"`+fault+`"}}`)
}

// tellMachines prints what has changed.
func tellMachines(before, now machines) {
	for _, name := range slices.Sorted(maps.Keys(now.byName)) {
		was, known := before.byName[name]
		tellMachine(was, now.byName[name], known)
	}
	for _, name := range slices.Sorted(maps.Keys(before.byName)) {
		if _, exists := now.byName[name]; !exists {
			saw("machine", "%s is gone", name)
		}
	}
	tellRepairs(before.repairs, now.repairs)
	tellCheck(before.check, now.check)
}

func tellMachine(before, now machine, known bool) {
	if !known {
		saw("machine", "%s is made (%s)", now.name, now.zone)
		return
	}
	if now.phase != before.phase && before.phase != "" {
		saw("machine", "%s is %s", now.name, now.phase)
	}
	if now.ready != before.ready && now.ready != "" {
		saw("node", "%s: Ready is %s", now.name, now.ready)
	}
}

func tellCheck(before, now check) {
	if now.expected != before.expected || now.healthy != before.healthy {
		saw("check", "example: %d of %d machines are healthy", now.healthy, now.expected)
	}
	if now.allowed != before.allowed || now.reason != before.reason {
		saw("check", "example: RemediationAllowed is %s %s", now.allowed, now.reason)
	}
}
