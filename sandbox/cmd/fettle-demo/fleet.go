package main

import (
	"context"
	"fmt"
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

// snapshot is the fleet at one instant.
type snapshot struct {
	machines map[string]machine
	repairs  map[string]string
	check    check
}

// check is what a health check's status says.
type check struct {
	expected, healthy int64
	allowed           string
	reason, message   string
}

// look reads the fleet.
func (s *demo) look(ctx context.Context) (snapshot, error) {
	shot := snapshot{machines: map[string]machine{}, repairs: map[string]string{}}
	var nodes corev1.NodeList
	if err := s.Client.List(ctx, &nodes); err != nil {
		return shot, fmt.Errorf("listing nodes: %w", err)
	}
	ready := map[string]string{}
	for i := range nodes.Items {
		ready[nodes.Items[i].Name] = readyText(&nodes.Items[i])
	}
	machines, err := s.list(ctx, "machine.openshift.io/v1beta1", "MachineList")
	if err != nil {
		return shot, err
	}
	for i := range machines {
		m := readMachine(&machines[i], ready)
		shot.machines[m.name] = m
	}
	repairs, err := s.list(ctx, "fettle.io/v1alpha1", "RepairList")
	if err != nil {
		return shot, err
	}
	for i := range repairs {
		shot.repairs[repairs[i].GetName()] = repairText(&repairs[i])
	}
	shot.check, err = s.readCheck(ctx)
	return shot, err
}

func (s *demo) list(ctx context.Context, apiVersion, kind string) ([]unstructured.Unstructured, error) {
	list := &unstructured.UnstructuredList{}
	list.SetAPIVersion(apiVersion)
	list.SetKind(kind)
	if err := s.Client.List(ctx, list); err != nil {
		return nil, fmt.Errorf("listing %s: %w", strings.TrimSuffix(kind, "List"), err)
	}
	return list.Items, nil
}

func readyText(n *corev1.Node) string {
	for _, c := range n.Status.Conditions {
		if c.Type == corev1.NodeReady {
			return string(c.Status)
		}
	}
	return "not reported"
}

func readMachine(u *unstructured.Unstructured, ready map[string]string) machine {
	m := machine{name: u.GetName(), uid: u.GetUID(), deleting: u.GetDeletionTimestamp() != nil, zone: u.GetLabels()["zone"]}
	m.phase, _, _ = unstructured.NestedString(u.Object, "status", "phase")
	node, _, _ := unstructured.NestedString(u.Object, "status", "nodeRef", "name")
	m.ready = ready[node]
	return m
}

func repairText(u *unstructured.Unstructured) string {
	reason, _, _ := unstructured.NestedString(u.Object, "spec", "reason")
	message, _, _ := unstructured.NestedString(u.Object, "spec", "message")
	phase, _, _ := unstructured.NestedString(u.Object, "status", "phase")
	return phase + ": " + reason + ", " + message
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
	conditions, _, _ := unstructured.NestedSlice(u.Object, "status", "conditions")
	for _, condition := range conditions {
		if fields, ok := condition.(map[string]any); ok && fields["type"] == "RemediationAllowed" {
			c.allowed, _ = fields["status"].(string)
			c.reason, _ = fields["reason"].(string)
			c.message, _ = fields["message"].(string)
		}
	}
	return c, nil
}

// inZone gives the machines of a zone, or all for "", by name.
func (s snapshot) inZone(zone string) []machine {
	var found []machine
	for _, m := range s.machines {
		if zone == "" || m.zone == zone {
			found = append(found, m)
		}
	}
	slices.SortFunc(found, func(a, b machine) int { return strings.Compare(a.name, b.name) })
	return found
}

// wellOff tells whether this many machines exist, and all run with a ready node.
func (s snapshot) wellOff(want int) bool {
	for _, m := range s.machines {
		if m.deleting || m.phase != "Running" || m.ready != "True" {
			return false
		}
	}
	return len(s.machines) == want
}

// setFault makes an instance of the simulated cloud fail, or heals it.
func (s *demo) setFault(ctx context.Context, instance, fault string) error {
	u := &unstructured.Unstructured{}
	u.SetAPIVersion("sandbox.fettle.io/v1alpha1")
	u.SetKind("Instance")
	u.SetName(instance)
	patch := client.RawPatch(types.MergePatchType, []byte(`{"spec":{"fault":"`+fault+`"}}`))
	if err := s.Client.Patch(ctx, u, patch); err != nil {
		return fmt.Errorf("setting the fault of instance %s: %w", instance, err)
	}
	return nil
}
