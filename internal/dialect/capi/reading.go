package capi

import (
	"context"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/fettle-io/fettle/internal/clusterapi"
	"github.com/fettle-io/fettle/internal/core"
	"github.com/fettle-io/fettle/internal/healthcheck"
	"github.com/fettle-io/fettle/internal/node"
	"github.com/fettle-io/fettle/internal/selector"
)

// Reading is a management cluster that was read from the API server object by object. The command line calls the core
// about its workload clusters and writes nothing. The rules are those of the controller. The Put methods report whether
// the object can change a decision. A Reading is not safe for concurrent use.
//
// Put the machines before the nodes of their clusters: a node that a machine names and that was not read counts as
// gone.
type Reading struct {
	client *Client
	// woken is set if the object that was put last can change a decision.
	woken bool
	// nodes are by cluster. A cluster whose nodes were not read has no entry.
	nodes map[types.NamespacedName]*node.Store
}

// NewReading returns a reading of an empty cluster.
func NewReading() *Reading {
	r := &Reading{nodes: map[types.NamespacedName]*node.Store{}}
	r.client = NewClient(Config{Wake: func(types.NamespacedName) { r.woken = true }})
	return r
}

func (r *Reading) changes(put func()) bool {
	r.woken = false
	put()
	return r.woken
}

// PutCheck stores a health check, an *unstructured.Unstructured.
func (r *Reading) PutCheck(obj any) bool {
	u, ok := obj.(*unstructured.Unstructured)
	return ok && r.changes(func() { r.client.putCheck(nil, u) })
}

// DropCheck forgets a health check by namespace/name.
func (r *Reading) DropCheck(key string) {
	u := &unstructured.Unstructured{}
	of := parseKey(key)
	u.SetNamespace(of.Namespace)
	u.SetName(of.Name)
	r.client.dropCheck(u)
}

// PutMachine stores a machine.
func (r *Reading) PutMachine(obj any) bool {
	m, ok := obj.(*clusterapi.Machine)
	return ok && r.changes(func() { r.client.putMachine(r.machine(m.Namespace, m.Name), m) })
}

// DropMachine forgets a machine by namespace/name.
func (r *Reading) DropMachine(key string) {
	if of := parseKey(key); r.machine(of.Namespace, of.Name) != nil {
		r.client.dropMachine(r.machine(of.Namespace, of.Name))
	}
}

// PutCluster stores a Cluster.
func (r *Reading) PutCluster(obj any) bool {
	c, ok := obj.(*clusterapi.Cluster)
	return ok && r.changes(func() { r.client.putCluster(nil, c) })
}

// DropCluster forgets a Cluster by namespace/name.
func (r *Reading) DropCluster(key string) {
	gone := &clusterapi.Cluster{}
	of := parseKey(key)
	gone.Namespace, gone.Name = of.Namespace, of.Name
	r.client.dropCluster(gone)
}

func parseKey(key string) types.NamespacedName {
	namespace, name, _ := strings.Cut(key, "/")
	return types.NamespacedName{Namespace: namespace, Name: name}
}

func (r *Reading) machine(namespace, name string) *clusterapi.Machine {
	return r.client.Machine(core.ID{Namespace: namespace, Name: name})
}

// Clusters returns all clusters that have a Cluster, a health check or a machine, sorted by name.
func (r *Reading) Clusters() []types.NamespacedName {
	var clusters []types.NamespacedName
	for cluster := range r.client.stores {
		clusters = append(clusters, cluster)
	}
	sortClusters(clusters)
	return clusters
}

// HasNodes reports whether decisions about a cluster need its nodes. They need none before its control plane is
// initialized, or while the cluster is blocked.
func (r *Reading) HasNodes(cluster types.NamespacedName) bool {
	store := r.client.storeOf(cluster)
	c, _ := store.clusterAndChecks()
	if c == nil || !c.ControlPlaneInitialized.Reached {
		return false
	}
	_, halted := r.Blocked(cluster)
	return !halted
}

// Nodes returns the store for the nodes of a cluster. After the first call, a node that is not in the store counts as
// gone.
func (r *Reading) Nodes(cluster types.NamespacedName) *node.Store {
	if r.nodes[cluster] == nil {
		r.nodes[cluster] = node.NewStore()
	}
	return r.nodes[cluster]
}

// Block is why the controller does not judge a cluster: a reason, and a sentence without its full stop.
type Block struct{ Reason, Message string }

// Blocked reports whether a cluster is not judged, whatever its nodes are.
func (r *Reading) Blocked(cluster types.NamespacedName) (Block, bool) {
	dialect := r.client.Dialect(cluster, noNodes{})
	o := dialect.blockedBy(r.client.storeOf(cluster))
	switch {
	case o == nil:
		return Block{}, false
	case o.paused:
		return Block{Reason: clusterv1.PausedReason, Message: "its Cluster " + cluster.Name + " has spec.paused, so nothing of it is touched; set that to false to go on"}, true
	}
	return Block{Reason: o.reason, Message: o.message}, true
}

// noNodes are the nodes of a cluster that answers and has none.
type noNodes struct{}

// Answers returns Yes.
func (noNodes) Answers() (core.Tri, string) { return core.Yes, "" }

// Lookup finds no node.
func (noNodes) Lookup(yield func(find func(name string) (node.Facts, bool))) {
	yield(func(string) (node.Facts, bool) { return node.Facts{}, false })
}

// ReadNode is never called.
func (noNodes) ReadNode(context.Context, string) (core.Node, error) { return core.Node{}, nil }

// Observe returns the state of a cluster at an instant at which all objects had been read. Without the nodes that
// decisions need, the observation is unknown.
func (r *Reading) Observe(cluster types.NamespacedName, at time.Time) core.Observation {
	o := core.Observation{Kind: machineKind, Observed: core.Yes}
	nodeStore := r.nodes[cluster]
	if _, halted := r.Blocked(cluster); halted || (nodeStore == nil && r.HasNodes(cluster)) {
		o.Observed = core.Unknown
	}
	lookup := noNodes{}.Lookup
	if nodeStore != nil {
		lookup = nodeStore.Lookup
	}
	store := r.client.storeOf(cluster)
	lookup(func(find func(string) (node.Facts, bool)) { store.snapshot(&o, find) })
	for i := range o.Targets {
		t := &o.Targets[i]
		t.NodeReadAt = at
		if nodeStore != nil && t.Node.State == core.NodeUnseen {
			t.Node.State = core.NodeGone
		}
	}
	for i := range o.Policies {
		p := &o.Policies[i]
		if check, known := store.checkOf(p.ID); known {
			p.Cooldown = openingOf(check.status.Conditions, p.StormCooldown, at)
			if why, is := startsBlockedBefore(check.status.Conditions); is {
				p.Paused, p.PauseReason = true, why
			}
		}
	}
	return o
}

// openingOf returns the storm that the status records.
func openingOf(conditions []metav1.Condition, cooldown time.Duration, at time.Time) core.CooldownState {
	for i := range conditions {
		c := &conditions[i]
		if c.Type != clusterv1.MachineHealthCheckRemediationAllowedCondition || c.Status != metav1.ConditionFalse || c.Reason != healthcheck.StormCooldownReason {
			continue
		}
		return core.CooldownFromStatus(c.LastTransitionTime.Time, cooldown, at)
	}
	return core.CooldownState{}
}

// Unmet returns the requirements of a health check's selector that a machine of the same cluster does not meet. It
// returns false if there is no such pair.
func (r *Reading) Unmet(check, machine core.ID) ([]string, bool) {
	if check.Namespace != machine.Namespace {
		return nil, false
	}
	store := r.client.storeOf(r.client.clusterOfCheck[types.NamespacedName{Namespace: check.Namespace, Name: check.Name}])
	c, isCheck := store.checkOf(check)
	m := store.machineOf(machine.Name)
	if !isCheck || m == nil || string(m.UID) != machine.UID {
		return nil, false
	}
	return selector.Unmet(c.selector, m.Labels)
}

// Skipped returns the annotation by which a user has excluded a machine from all health checking, and false for other
// machines.
func (r *Reading) Skipped(machine core.ID) (string, bool) {
	m := r.machine(machine.Namespace, machine.Name)
	switch {
	case m == nil || string(m.UID) != machine.UID || !m.Skipped():
		return "", false
	case m.Annotations.Has(clusterv1.MachineSkipRemediationAnnotation):
		return "annotation " + clusterv1.MachineSkipRemediationAnnotation, true
	}
	return "annotation " + clusterv1.PausedAnnotation, true
}

// Written is the state of a health check when its status was last written.
type Written struct {
	// Total and Healthy are nil if they were never written.
	Total, Healthy *int32
	// Allowed reports whether repairs were allowed. Reason and Message say why.
	Allowed         core.Tri
	Reason, Message string
}

// Written returns the state that the status of a health check records. It is empty for a health check that was not put.
func (r *Reading) Written(check core.ID) Written {
	cluster := r.client.clusterOfCheck[types.NamespacedName{Namespace: check.Namespace, Name: check.Name}]
	c, _ := r.client.storeOf(cluster).checkOf(check)
	w := Written{Total: c.status.ExpectedMachines, Healthy: c.status.CurrentHealthy}
	for i := range c.status.Conditions {
		said := &c.status.Conditions[i]
		if said.Type != clusterv1.MachineHealthCheckRemediationAllowedCondition {
			continue
		}
		w.Reason, w.Message = said.Reason, said.Message
		switch said.Status {
		case metav1.ConditionTrue:
			w.Allowed = core.Yes
		case metav1.ConditionFalse:
			w.Allowed = core.No
		case metav1.ConditionUnknown:
		}
	}
	return w
}

// Says returns the condition of a machine's health as last written, or nil if it has none.
func (r *Reading) Says(machine core.ID) *clusterapi.Mark {
	if m := r.machine(machine.Namespace, machine.Name); m != nil && string(m.UID) == machine.UID {
		return m.Mark(clusterapi.Current, healthType)
	}
	return nil
}
