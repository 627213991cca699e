package node

import (
	"slices"
	"sync"
	"time"

	"github.com/fettle-io/fettle/api/fettle/annotation"
	"github.com/fettle-io/fettle/internal/core"
	"github.com/fettle-io/fettle/internal/slim"
)

// Facts are the fields of one node that decisions read. They share the memory of the object that
// they were read from.
type Facts struct {
	Node core.Node
	// Mislabelled is set when the label that excludes a node is present and empty. Then it is
	// unknown what its author meant.
	Mislabelled bool
	// ConfirmedHealthy is set when a user has confirmed that the node is healthy.
	ConfirmedHealthy bool
	// RepairRequest is a user's request to repair the node.
	RepairRequest core.RepairRequest
	Deleting      bool
	// MachineNamespace is the namespace of the node's machine as an annotation names it, or empty.
	// Kubelets may not write that annotation.
	MachineNamespace string
	// Labels are for selectors. Changes of other labels than those above change no fact.
	Labels   slim.Labels
	Created  time.Time
	Revision string
}

// FactsOf returns the facts of a node.
func FactsOf(n *slim.Node) Facts { return NewView(n).Facts() }

// View is a node as it was last seen. It refers to the object, which a cache holds too, and holds
// in a few bytes the facts of its labels and annotations. The zero View is of no node, and only its
// Facts may be called.
type View struct {
	object *slim.Node
	marks  marks
}

// marks are the facts from labels and annotations.
type marks struct {
	facts                         core.NodeFacts
	mislabelled, confirmedHealthy bool
	machines, repairRequested     string
}

// NewView returns the view of a node.
func NewView(n *slim.Node) View {
	exclude, labelled := n.Labels.Lookup(slim.ExcludeLabel)
	desired := n.Annotations.Get(slim.DesiredConfigAnnotation)
	return View{object: n, marks: marks{
		facts: core.NodeFacts{
			ControlPlane: n.Labels.OfControlPlane(),
			Excluded:     exclude == "true",
			Upgrading:    desired != "" && desired != n.Annotations.Get(slim.CurrentConfigAnnotation),
		},
		mislabelled:      labelled && exclude == "",
		confirmedHealthy: n.Annotations.Has(slim.ConfirmedHealthyAnnotation),
		machines:         n.Annotations.Get(slim.MachineAnnotation),

		repairRequested: repairRequestKey(n),
	}}
}

// repairRequestKey returns a value that differs between two requests for a repair.
func repairRequestKey(n *slim.Node) string {
	at, set := n.Annotations.Lookup(annotation.RepairRequestedAt)
	if set && at == "" {
		return "-" // as unreadable as "", and not absent
	}
	return at
}

// Facts returns the facts of the node, and zero facts for no node.
func (s View) Facts() Facts {
	n := s.object
	if n == nil {
		return Facts{}
	}
	return Facts{
		Node: core.Node{
			State: core.NodePresent, Name: n.Name, UID: string(n.UID), Conditions: n.Conditions, Unread: n.Unread,
			NodeFacts: s.marks.facts,
		},
		Mislabelled:      s.marks.mislabelled,
		ConfirmedHealthy: s.marks.confirmedHealthy,
		Deleting:         n.DeletionTimestamp != nil,

		MachineNamespace: s.marks.machines,
		RepairRequest:    n.RepairRequest(),

		Labels:   n.Labels,
		Created:  n.CreationTimestamp.Time,
		Revision: n.ResourceVersion,
	}
}

// Name returns the name of the node.
func (s View) Name() string { return s.object.Name }

// Labels returns the labels of the node.
func (s View) Labels() slim.Labels { return s.object.Labels }

// Same reports whether two views lead to the same decisions, as long as no selector reads their
// labels. It allocates nothing, since nearly every event is a heartbeat.
func (s View) Same(other View) bool {
	a, b := s.object, other.object
	if a == nil || b == nil {
		return a == b
	}
	return s.marks == other.marks && a.UID == b.UID && a.Unread == b.Unread && (a.DeletionTimestamp == nil) == (b.DeletionTimestamp == nil) &&
		slices.EqualFunc(a.Conditions, b.Conditions, func(c, d core.Condition) bool {
			return c.Same(&d)
		})
}

// Store holds the views of all nodes of a cluster. It is safe for concurrent use.
type Store struct {
	mu    sync.RWMutex
	nodes map[string]View
}

// NewStore returns an empty store.
func NewStore() *Store { return &Store{nodes: map[string]View{}} }

// Put stores a node and reports whether that changed a fact. It ignores other objects.
func (s *Store) Put(obj any) bool {
	n, ok := obj.(*slim.Node)
	if !ok {
		return false
	}
	fresh := NewView(n)
	s.mu.Lock()
	defer s.mu.Unlock()
	old := s.nodes[n.Name]
	// The fresh view is stored even if it is the same. The old one would keep alive the memory of an
	// object that the cache has dropped.
	s.nodes[n.Name] = fresh
	return !old.Same(fresh)
}

// Replace replaces all nodes and reports whether that changed a fact.
func (s *Store) Replace(all []*slim.Node) bool {
	fresh := make(map[string]View, len(all))
	for _, n := range all {
		fresh[n.Name] = NewView(n)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	changed := len(fresh) != len(s.nodes)
	for name, seen := range fresh {
		changed = changed || !s.nodes[name].Same(seen)
	}
	s.nodes = fresh
	return changed
}

// Remove deletes a node.
func (s *Store) Remove(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.nodes, name)
}

// Lookup calls yield with a function that finds the facts of a node by its name. It locks the store
// until yield returns.
func (s *Store) Lookup(yield func(find func(name string) (Facts, bool))) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	yield(func(name string) (Facts, bool) {
		seen, ok := s.nodes[name]
		return seen.Facts(), ok
	})
}
