package capi

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/fettle-io/fettle/internal/clusterapi"
	"github.com/fettle-io/fettle/internal/core"
	"github.com/fettle-io/fettle/internal/node"
)

// translator has what the translation of machines into targets needs.
type translator struct {
	cluster *clusterapi.Cluster
	// find returns a node of the cluster by its name.
	find func(name string) (node.Facts, bool)
	// conditionTypes are the types of machine conditions that health checks read.
	conditionTypes map[string]bool
	parts          *clusterapi.PartsCache
}

// targetOf translates a machine.
func (tr *translator) targetOf(m *clusterapi.Machine) core.Target {
	cluster := tr.cluster
	t := core.Target{
		ID:                   idOf(m),
		Created:              m.CreationTimestamp.Time,
		Deleting:             m.DeletionTimestamp != nil,
		RemediationRequested: m.RemediationRequested(),
		RepairRequest:        m.RepairRequest(),
		Skipped:              m.Skipped(),
		Premature:            premature(m, cluster),
		Conditions:           tr.conditionsOf(m),
		Failed:               m.Failure != "",
		HandedBack:           m.HandedBack(),
		StartupFrom:          startupFrom(m, cluster),
		ControlPlane:         m.ControlPlane(),
		Node:                 core.Node{State: core.NodeAwaited},
		Problem:              m.Unreadable,
		Revision:             m.ResourceVersion,
		Parts:                tr.parts.Parts(m),
	}
	if owner := m.ReplacingOwner(); owner != nil {
		t.Owner = core.ID{Kind: owner.Kind, Namespace: m.Namespace, Name: owner.Name, UID: owner.UID}
	}
	// Before the control plane is initialized, no API server can tell what nodes there are
	// (docs/reference/cluster-api.md#the-pass).
	if m.Node == "" || !cluster.ControlPlaneInitialized.Reached {
		return t
	}
	t.Node = core.Node{State: core.NodeUnseen, Name: m.Node}
	if facts, seen := tr.find(m.Node); seen {
		t.Node = facts.Node
		t.ControlPlane = t.ControlPlane || facts.Node.ControlPlane
	}
	return t
}

// refersTo returns the node to which a machine refers. A machine that is being deleted may share its host with its
// successor, so it refers to none.
func (m *machine) refersTo() string {
	if m.DeletionTimestamp != nil {
		return ""
	}
	return m.Node
}

// conditionsOf returns the conditions that health checks read.
func (tr *translator) conditionsOf(m *clusterapi.Machine) []core.Condition {
	var conditions []core.Condition
	for i := range m.Conditions {
		if c := &m.Conditions[i]; tr.conditionTypes[c.Type()] {
			conditions = append(conditions, c.Full())
		}
	}
	return conditions
}

func idOf(m *clusterapi.Machine) core.ID {
	return core.ID{Kind: machineKind, Namespace: m.Namespace, Name: m.Name, UID: string(m.UID)}
}

// premature returns what must happen before the machine is judged. A control plane machine is judged before the control
// plane is initialized, so that the first one can be replaced.
func premature(m *clusterapi.Machine, cluster *clusterapi.Cluster) string {
	switch {
	case !cluster.ControlPlaneInitialized.Reached && !m.ControlPlane():
		return "the control plane of its cluster is not initialized yet"
	case !cluster.InfrastructureReady.Reached:
		return "the infrastructure of its cluster is not ready"
	}
	return ""
}

// startupFrom returns the latest of the times before which no node could have joined
// (docs/reference/cluster-api.md#checks).
func startupFrom(m *clusterapi.Machine, cluster *clusterapi.Cluster) time.Time {
	from := m.CreationTimestamp.Time
	later := func(reached bool, at time.Time) {
		if reached && at.After(from) {
			from = at
		}
	}
	later(cluster.ControlPlaneInitialized.Reached, cluster.ControlPlaneInitialized.Since)
	later(cluster.InfrastructureReady.Reached, cluster.InfrastructureReady.Since)
	for i := range m.Conditions {
		if m.Conditions[i].Type() == clusterv1.MachineInfrastructureReadyCondition {
			c := m.Conditions[i].Full()
			later(c.Status == string(metav1.ConditionTrue), c.Since)
		}
	}
	return from
}

// requestOf returns the request of a machine to its owner, and false if there is none. A later request of the same
// machine has another ID. A request that the owner follows already can't be withdrawn. Requests on excluded machines
// stay. The condition doesn't say who wrote it, and it counts as Fettle's own, since Fettle writes it on every machine.
func requestOf(m *clusterapi.Machine) (core.Request, bool) {
	mark := m.OwnerRequest()
	if mark == nil || m.Skipped() {
		return core.Request{}, false
	}
	r := core.Request{
		ID: idOf(m), APIVersion: clusterv1.GroupVersion.String(), Remedy: MarkOwner, Target: idOf(m),
		Created: mark.Since, Own: true, Answers: true, Answer: m.Answer(), Leaving: mark.InProgress(),
	}
	r.ID.UID = mark.ID(m)
	return r, true
}
