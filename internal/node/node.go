package node

import (
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/fettle-io/fettle/api/fettle/annotation"
	"github.com/fettle-io/fettle/internal/core"
	"github.com/fettle-io/fettle/internal/slim"
)

// Facts are what decisions read of one node. They share the memory of the object that they were read from.
type Facts struct {
	Node core.Node
	// Mislabelled is set when the label that excludes a node is there and empty, so that it is not known what was meant.
	Mislabelled bool
	// ConfirmedHealthy is set when a person has confirmed that the node is healthy.
	ConfirmedHealthy bool
	// RepairRequest is what a person has asked for.
	RepairRequest core.RepairRequest
	Deleting      bool
	// MachineNamespace is that of the node's machine, as an annotation says it. Kubelets may not write that; it is empty
	// where no annotation says it.
	MachineNamespace string
	// Labels are for selectors. A change of other labels than those above changes no fact.
	Labels   slim.Labels
	Created  time.Time
	Revision string
}

// FactsOf reads the facts of a node.
func FactsOf(n *slim.Node) Facts { return NewView(n).Facts() }

// View is a node as it was last seen. It keeps the object itself, which a cache keeps too, and in a
// few bytes what its labels and annotations say. The zero View is of no node, and has facts alone.
type View struct {
	object *slim.Node
	marks  marks
}

// marks are the facts that labels and annotations tell.
type marks struct {
	facts                         core.NodeFacts
	mislabelled, confirmedHealthy bool
	machines, repairRequested     string
}

// NewView takes a look at a node.
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

// repairRequestKey returns what tells one request for a repair from another.
func repairRequestKey(n *slim.Node) string {
	at, set := n.Annotations.Lookup(annotation.RepairRequestedAt)
	if set && at == "" {
		return "-" // which can be read no better
	}
	return at
}

// Facts gives the facts of the node that was seen, and none of no node.
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

// Name is the name of the node that was seen.
func (s View) Name() string { return s.object.Name }

// Labels are those of the node that was seen.
func (s View) Labels() slim.Labels { return s.object.Labels }

// Same tells whether two sightings can't lead to different decisions, as long as their labels don't
// matter to a selector. It builds nothing, since nearly every event is a heartbeat.
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

// Store holds the facts of all nodes of a cluster. It is safe for concurrent use.
type Store struct {
	mu    sync.RWMutex
	nodes map[string]View
}

// NewStore makes an empty store.
func NewStore() *Store { return &Store{nodes: map[string]View{}} }

// Put takes in a node and tells whether that changed a fact.
func (s *Store) Put(obj any) (bool, error) {
	n, ok := obj.(*slim.Node)
	if !ok {
		return false, fmt.Errorf("taking in a node: got %T", obj)
	}
	fresh := NewView(n)
	s.mu.Lock()
	defer s.mu.Unlock()
	old := s.nodes[n.Name]
	// The fresh one is kept even when it is the same, since the old one holds on to the memory of a node
	// that the cache has dropped.
	s.nodes[n.Name] = fresh
	return !old.Same(fresh), nil
}

// Replace takes in all nodes that there are, forgets the others, and tells whether that changed a fact.
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
		seen, ok := s.nodes[name]
		return seen.Facts(), ok
	})
}
