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

// store holds the translated health checks and the nodes of a cluster. It is safe for concurrent use.
type store struct {
	mu *sync.Mutex
	// checks and nodes are by name. index has all nodes, and the selection of each health check.
	checks map[string]*healthCheck
	nodes  map[string]*indexedNode
	index  selector.Index[*indexedNode]
	// targets is the memory of the last snapshot, which the next one reuses.
	targets []core.Target
}

// indexedNode is a node in the index.
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

// putCheck stores a health check and reports whether that can change a decision.
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

// storeWritten stores the health check that the API server returned for a write. It ignores a health check that the
// watch has seen deleted meanwhile, since the watch would not report that again.
func (s *store) storeWritten(u *unstructured.Unstructured) {
	lenient.Bound(u) // as the cache bounds it, so that both versions are equal
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

// dropCheck forgets a health check and reports whether there was one.
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

// putNode stores a node and reports whether that can change a decision. Most updates are heartbeats and can't.
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
	// Keep neither the old view nor its name: they hold on to the memory of a node that the cache has dropped.
	s.nodes[n.Name] = entry
	old := entry.view
	entry.view = fresh
	moved := !old.Labels().Equal(fresh.Labels()) && s.index.Match(entry)
	return moved || (entry.Selected() && !old.Same(fresh))
}

// dropNode forgets a node and reports whether a health check selected it.
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

// snapshot returns all health checks and the nodes that any of them selects. The slice of targets belongs to the store
// and is valid until the next snapshot.
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

// namesNoRemedy reports whether a health check has neither a template nor an escalation.
func (s *store) namesNoRemedy(name string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.checks[name]
	return c != nil && c.noRemedy
}

// fillTarget overwrites a target with the facts of a node. It sets no owner, since nothing would replace such a node.
func fillTarget(t *core.Target, n *node.Facts) {
	*t = core.Target{}
	t.ID.Kind, t.ID.Name, t.ID.UID = nodeKind, n.Node.Name, n.Node.UID
	t.Created, t.Revision = n.Created, n.Revision
	t.ControlPlane, t.Deleting = n.Node.ControlPlane, n.Deleting
	t.Node, t.Parts = n.Node, core.NoParts()
	t.ConfirmedHealthy, t.RepairRequest = n.ConfirmedHealthy, n.RepairRequest
}

// storedStatus is the status of a health check as last seen or written, with its revision.
type storedStatus struct {
	status   v1alpha1.NodeHealthCheckStatus
	revision string
}

// statusOf returns the status of a health check, and false if the health check is gone.
func (s *store) statusOf(id core.ID) (storedStatus, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.checks[id.Name]
	if c == nil || c.policy.ID.UID != id.UID {
		return storedStatus{}, false
	}
	return storedStatus{status: c.status, revision: c.revision}, true
}

// factsOf returns the facts of a node by its name, and false if there is no such node.
func (s *store) factsOf(name string) (node.Facts, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	entry := s.nodes[name]
	if entry == nil {
		return node.Facts{}, false
	}
	return entry.view.Facts(), true
}
