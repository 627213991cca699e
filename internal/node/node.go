package node

import (
	"fmt"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fettle-io/fettle/internal/core"
)

// The labels by which a node says that it belongs to the control plane.
const (
	controlPlaneLabel = "node-role.kubernetes.io/control-plane"
	masterLabel       = "node-role.kubernetes.io/master"
)

// Facts are what decisions read of one node.
type Facts struct {
	Node         core.Node
	ControlPlane bool
}

// Trim reduces a Node to what decisions read, before a cache keeps it. It is an informer transform.
func Trim(obj any) (any, error) {
	n, ok := obj.(*corev1.Node)
	if !ok {
		return obj, nil
	}
	conditions := make([]corev1.NodeCondition, len(n.Status.Conditions))
	for i := range n.Status.Conditions {
		c := &n.Status.Conditions[i]
		conditions[i] = corev1.NodeCondition{Type: c.Type, Status: c.Status, LastTransitionTime: c.LastTransitionTime}
	}
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{
			Name: n.Name, UID: n.UID, ResourceVersion: n.ResourceVersion, Labels: n.Labels,
			CreationTimestamp: n.CreationTimestamp, DeletionTimestamp: n.DeletionTimestamp,
		},
		Status: corev1.NodeStatus{Conditions: conditions},
	}, nil
}

// FactsOf reads the facts of a node.
func FactsOf(n *corev1.Node) Facts {
	conditions := make([]core.Condition, len(n.Status.Conditions))
	for i := range n.Status.Conditions {
		c := &n.Status.Conditions[i]
		conditions[i] = core.Condition{Type: string(c.Type), Status: string(c.Status), Since: c.LastTransitionTime.Time}
	}
	_, controlPlane := n.Labels[controlPlaneLabel]
	_, master := n.Labels[masterLabel]
	return Facts{
		Node:         core.Node{State: core.NodePresent, Name: n.Name, UID: string(n.UID), Conditions: conditions},
		ControlPlane: controlPlane || master,
	}
}

// Store holds the facts of all nodes of a cluster. It is safe for concurrent use.
type Store struct {
	mu    sync.RWMutex
	nodes map[string]Facts
}

// NewStore makes an empty store.
func NewStore() *Store { return &Store{nodes: map[string]Facts{}} }

// Put takes in a node and tells whether that changed a fact.
func (s *Store) Put(obj any) (bool, error) {
	n, ok := obj.(*corev1.Node)
	if !ok {
		return false, fmt.Errorf("taking in a node: got %T", obj)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	old, known := s.nodes[n.Name]
	if known && unchanged(old, n) {
		return false, nil
	}
	s.nodes[n.Name] = FactsOf(n)
	return true, nil
}

// unchanged tells whether a node can't lead to a different decision than what was read of it before.
// It builds nothing, since nearly every event is a heartbeat.
func unchanged(old Facts, n *corev1.Node) bool {
	if old.Node.UID != string(n.UID) || len(old.Node.Conditions) != len(n.Status.Conditions) {
		return false
	}
	for i := range n.Status.Conditions {
		c, o := &n.Status.Conditions[i], &old.Node.Conditions[i]
		if o.Type != string(c.Type) || o.Status != string(c.Status) || !o.Since.Equal(c.LastTransitionTime.Time) {
			return false
		}
	}
	_, controlPlane := n.Labels[controlPlaneLabel]
	_, master := n.Labels[masterLabel]
	return old.ControlPlane == (controlPlane || master)
}

// Remove forgets a node.
func (s *Store) Remove(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.nodes, name)
}

// Lookup gives the facts of a node. It calls yield with a function that finds nodes by name, and
// holds the store still until yield returns.
func (s *Store) Lookup(yield func(find func(name string) (Facts, bool))) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	yield(func(name string) (Facts, bool) {
		f, ok := s.nodes[name]
		return f, ok
	})
}
