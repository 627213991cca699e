package nhc

import (
	"maps"
	"reflect"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/fettle-io/fettle/api/medik8s/v1alpha1"
	"github.com/fettle-io/fettle/internal/core"
	"github.com/fettle-io/fettle/internal/healthcheck"
	"github.com/fettle-io/fettle/internal/lenient"
	"github.com/fettle-io/fettle/internal/node"
	"github.com/fettle-io/fettle/internal/selector"
	"github.com/fettle-io/fettle/internal/slim"
	"github.com/fettle-io/fettle/internal/specparse"
)

const nodeKind = "Node"

// store holds the health checks of a cluster as translated and its nodes as seen, and knows which selects
// which. It is safe for concurrent use.
type store struct {
	mu *sync.Mutex
	// checks and nodes are by name. roster has all nodes, and which health check selects which.
	checks map[string]*healthCheck
	nodes  map[string]*indexedNode
	index  selector.Index[*indexedNode]
	// targets are those of the last snapshot, to be filled again for the next.
	targets []core.Target
}

// indexedNode is a node in the roster.
type indexedNode struct {
	selector.Member

	view node.View
}

// Key implements selector.Object.
func (entry *indexedNode) Key() string { return entry.view.Name() }

// Matches implements selector.Object.
func (entry *indexedNode) Matches(_ string, of labels.Selector) bool {
	return of.Matches(entry.view.Labels())
}

func newStore() store {
	return store{
		mu: &sync.Mutex{}, checks: map[string]*healthCheck{}, nodes: map[string]*indexedNode{},
		index: selector.Index[*indexedNode]{SelectedOnly: true},
	}
}

// putCheck takes in a health check and tells whether that can change a decision.
func (s *store) putCheck(obj any) bool {
	u, ok := obj.(*unstructured.Unstructured)
	if !ok {
		return false
	}
	if u.GetDeletionTimestamp() != nil {
		return s.dropCheck(u.GetName())
	}
	fresh := readHealthCheck(u)
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.storeCheck(u.GetName(), fresh)
}

// storeWritten takes in the answer to a write. The watch may have seen the health check leave in the
// meantime, and would not tell that again.
func (s *store) storeWritten(u *unstructured.Unstructured) {
	lenient.Bound(u) // as in the cache, or what is known of it would change with who tells it
	fresh := readHealthCheck(u)
	s.mu.Lock()
	defer s.mu.Unlock()
	if old := s.checks[u.GetName()]; old != nil && old.policy.ID == fresh.policy.ID {
		s.storeCheck(u.GetName(), fresh)
	}
}

func (s *store) storeCheck(name string, fresh *healthCheck) bool {
	old := s.checks[name]
	known := old != nil && old.policy.ID == fresh.policy.ID
	if known && healthcheck.IsOlder(fresh.revision, old.revision) {
		return false
	}
	s.checks[name] = fresh
	if old == nil || !specparse.SameSelector(old.selector, fresh.selector) {
		fresh.selection = s.index.Select("", fresh.selector)
		if old != nil {
			s.index.End(old.selection)
		}
		return true
	}
	fresh.selection = old.selection
	return !reflect.DeepEqual(old.policy, fresh.policy)
}

// dropCheck forgets a health check and tells whether there was one.
func (s *store) dropCheck(name string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	old := s.checks[name]
	if old == nil {
		return false
	}
	delete(s.checks, name)
	s.index.End(old.selection)
	return true
}

// putNode takes in a node and tells whether that can change a decision. Nearly every time it is a
// heartbeat and can't.
func (s *store) putNode(obj any) bool {
	n, ok := obj.(*slim.Node)
	if !ok {
		return false
	}
	fresh := node.NewView(n)
	s.mu.Lock()
	defer s.mu.Unlock()
	entry := s.nodes[n.Name]
	if entry == nil {
		entry = &indexedNode{view: fresh}
		s.nodes[n.Name] = entry
		s.index.Put(entry)
		return entry.Selected()
	}
	// What was seen before is let go of, and the name with it: they hold on to the memory of a node that
	// the cache has dropped.
	s.nodes[n.Name] = entry
	old := entry.view
	entry.view = fresh
	moved := !old.Labels().Equal(fresh.Labels()) && s.index.Match(entry)
	return moved || (entry.Selected() && !old.Same(fresh))
}

// dropNode forgets a node and tells whether a health check selected it.
func (s *store) dropNode(name string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	entry := s.nodes[name]
	if entry == nil {
		return false
	}
	delete(s.nodes, name)
	s.index.Remove(name)
	return entry.Selected()
}

// snapshot gives all health checks, and the nodes that any of them selects. The slice of targets is the
// fleet's own: it is good until the next snapshot.
func (s *store) snapshot() ([]core.Policy, []core.Target) {
	s.mu.Lock()
	defer s.mu.Unlock()
	selected := s.index.Targets()
	s.targets = slices.Grow(s.targets[:0], len(selected))[:len(selected)]
	for i, entry := range selected {
		facts := entry.view.Facts()
		fillTarget(&s.targets[i], &facts)
	}
	policies := make([]core.Policy, 0, len(s.checks))
	for _, name := range slices.Sorted(maps.Keys(s.checks)) {
		c := s.checks[name]
		p := c.policy
		p.Members = s.index.Members(c.selection)
		policies = append(policies, p)
	}
	return policies, s.targets
}

// namesNoRemedy reports whether a health check says in no way what is done about its nodes.
func (s *store) namesNoRemedy(name string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.checks[name]
	return c != nil && c.noRemedy
}

// fillTarget makes a target of a node alone, in the place of what was there. Nobody would replace such a node.
func fillTarget(t *core.Target, n *node.Facts) {
	*t = core.Target{}
	t.ID.Kind, t.ID.Name, t.ID.UID = nodeKind, n.Node.Name, n.Node.UID
	t.Created, t.Revision = n.Created, n.Revision
	t.ControlPlane, t.Deleting = n.Node.ControlPlane, n.Deleting
	t.Node, t.Parts = n.Node, core.NoParts()
	t.ConfirmedHealthy, t.RepairRequest = n.ConfirmedHealthy, n.RepairRequest
}

// storedStatus is the status of a health check as last seen or written, and the revision of that.
type storedStatus struct {
	status   v1alpha1.NodeHealthCheckStatus
	revision string
}

// statusOf gives the record of a health check, and false when it is gone.
func (s *store) statusOf(id core.ID) (storedStatus, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.checks[id.Name]
	if c == nil || c.policy.ID.UID != id.UID {
		return storedStatus{}, false
	}
	return storedStatus{status: c.status, revision: c.revision}, true
}

// factsOf gives the facts of a node by its name, and false when there is no such node.
func (s *store) factsOf(name string) (node.Facts, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	entry := s.nodes[name]
	if entry == nil {
		return node.Facts{}, false
	}
	return entry.view.Facts(), true
}
