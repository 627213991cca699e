package node

import (
	"fmt"
	"slices"
	"sync"

	"github.com/fettle-io/fettle/internal/core"
	"github.com/fettle-io/fettle/internal/lean"
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

// FactsOf reads the facts of a node. They share its conditions.
func FactsOf(n *lean.Node) Facts {
	return Facts{
		Node:         core.Node{State: core.NodePresent, Name: n.Name, UID: string(n.UID), Conditions: n.Conditions},
		ControlPlane: n.Labels.Has(controlPlaneLabel) || n.Labels.Has(masterLabel),
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
	n, ok := obj.(*lean.Node)
	if !ok {
		return false, fmt.Errorf("taking in a node: got %T", obj)
	}
	fresh := FactsOf(n)
	s.mu.Lock()
	defer s.mu.Unlock()
	old, known := s.nodes[n.Name]
	// The fresh facts are kept even when they are the same, since the old ones hold on to the memory of
	// a node that the cache has dropped.
	s.nodes[n.Name] = fresh
	return !known || !same(&old, &fresh), nil
}

// same tells whether facts can't lead to different decisions. It builds nothing, since nearly every
// event is a heartbeat.
func same(a, b *Facts) bool {
	return a.ControlPlane == b.ControlPlane && a.Node.UID == b.Node.UID &&
		slices.EqualFunc(a.Node.Conditions, b.Node.Conditions, func(c, d core.Condition) bool {
			return c.Type == d.Type && c.Status == d.Status && c.Since.Equal(d.Since)
		})
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
