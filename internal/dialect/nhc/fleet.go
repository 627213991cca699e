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
	"github.com/fettle-io/fettle/internal/lean"
	"github.com/fettle-io/fettle/internal/legible"
	"github.com/fettle-io/fettle/internal/node"
	"github.com/fettle-io/fettle/internal/selector"
	"github.com/fettle-io/fettle/internal/setting"
)

const nodeKind = "Node"

// fleet holds the health checks of a cluster as translated and its nodes as seen, and knows which selects
// which. It is safe for concurrent use.
type fleet struct {
	mu *sync.Mutex
	// checks and nodes are by name. roster has all nodes, and which health check selects which.
	checks map[string]*healthCheck
	nodes  map[string]*seat
	roster selector.Index[*seat]
	// targets are those of the last snapshot, to be filled again for the next.
	targets []core.Target
}

// seat is a node in the roster.
type seat struct {
	selector.Member

	seen node.Sighting
}

// Key implements selector.Object.
func (s *seat) Key() string { return s.seen.Name() }

// Matches implements selector.Object.
func (s *seat) Matches(_ string, of labels.Selector) bool { return of.Matches(s.seen.Labels()) }

func newFleet() fleet {
	return fleet{
		mu: &sync.Mutex{}, checks: map[string]*healthCheck{}, nodes: map[string]*seat{},
		roster: selector.Index[*seat]{SelectedOnly: true},
	}
}

// putCheck takes in a health check and tells whether that can change a decision.
func (f *fleet) putCheck(obj any) bool {
	u, ok := obj.(*unstructured.Unstructured)
	if !ok {
		return false
	}
	if u.GetDeletionTimestamp() != nil {
		return f.dropCheck(u.GetName())
	}
	fresh := readHealthCheck(u)
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.takeCheck(u.GetName(), fresh)
}

// wroteCheck takes in the answer to a write. The watch may have seen the health check leave in the
// meantime, and would not tell that again.
func (f *fleet) wroteCheck(u *unstructured.Unstructured) {
	legible.Bound(u) // as in the cache, or what is known of it would change with who tells it
	fresh := readHealthCheck(u)
	f.mu.Lock()
	defer f.mu.Unlock()
	if old := f.checks[u.GetName()]; old != nil && old.policy.ID == fresh.policy.ID {
		f.takeCheck(u.GetName(), fresh)
	}
}

func (f *fleet) takeCheck(name string, fresh *healthCheck) bool {
	old := f.checks[name]
	known := old != nil && old.policy.ID == fresh.policy.ID
	if known && healthcheck.IsOlder(fresh.revision, old.revision) {
		return false
	}
	f.checks[name] = fresh
	if old == nil || !setting.SameSelector(old.selector, fresh.selector) {
		fresh.selection = f.roster.Select("", fresh.selector)
		if old != nil {
			f.roster.End(old.selection)
		}
		return true
	}
	fresh.selection = old.selection
	return !reflect.DeepEqual(old.policy, fresh.policy)
}

// dropCheck forgets a health check and tells whether there was one.
func (f *fleet) dropCheck(name string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	old := f.checks[name]
	if old == nil {
		return false
	}
	delete(f.checks, name)
	f.roster.End(old.selection)
	return true
}

// putNode takes in a node and tells whether that can change a decision. Nearly every time it is a
// heartbeat and can't.
func (f *fleet) putNode(obj any) bool {
	n, ok := obj.(*lean.Node)
	if !ok {
		return false
	}
	fresh := node.See(n)
	f.mu.Lock()
	defer f.mu.Unlock()
	s := f.nodes[n.Name]
	if s == nil {
		s = &seat{seen: fresh}
		f.nodes[n.Name] = s
		f.roster.Put(s)
		return s.Selected()
	}
	// What was seen before is let go of, and the name with it: they hold on to the memory of a node that
	// the cache has dropped.
	f.nodes[n.Name] = s
	old := s.seen
	s.seen = fresh
	moved := !old.Labels().Equal(fresh.Labels()) && f.roster.Match(s)
	return moved || (s.Selected() && !old.Same(fresh))
}

// dropNode forgets a node and tells whether a health check selected it.
func (f *fleet) dropNode(name string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	s := f.nodes[name]
	if s == nil {
		return false
	}
	delete(f.nodes, name)
	f.roster.Remove(name)
	return s.Selected()
}

// snapshot gives all health checks, and the nodes that any of them selects. The slice of targets is the
// fleet's own: it is good until the next snapshot.
func (f *fleet) snapshot() ([]core.Policy, []core.Target) {
	f.mu.Lock()
	defer f.mu.Unlock()
	selected := f.roster.Targets()
	f.targets = slices.Grow(f.targets[:0], len(selected))[:len(selected)]
	for i, s := range selected {
		facts := s.seen.Facts()
		fill(&f.targets[i], &facts)
	}
	policies := make([]core.Policy, 0, len(f.checks))
	for _, name := range slices.Sorted(maps.Keys(f.checks)) {
		c := f.checks[name]
		p := c.policy
		p.Members = f.roster.Members(c.selection)
		policies = append(policies, p)
	}
	return policies, f.targets
}

// namesNoRemedy reports whether a health check says in no way what is done about its nodes.
func (f *fleet) namesNoRemedy(name string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	c := f.checks[name]
	return c != nil && c.bare
}

// fill makes a target of a node alone, in the place of what was there. Nobody would replace such a node.
func fill(t *core.Target, n *node.Facts) {
	*t = core.Target{}
	t.ID.Kind, t.ID.Name, t.ID.UID = nodeKind, n.Node.Name, n.Node.UID
	t.Created, t.Revision = n.Created, n.Revision
	t.ControlPlane, t.Deleting = n.Node.ControlPlane, n.Deleting
	t.Node, t.Parts = n.Node, core.Whole()
	t.Vouched, t.RepairRequest = n.Vouched, n.RepairRequest
}

// record is the status of a health check as last seen or written, and the revision of that.
type record struct {
	status   v1alpha1.NodeHealthCheckStatus
	revision string
}

// recordOf gives the record of a health check, and false when it is gone.
func (f *fleet) recordOf(id core.ID) (record, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	c := f.checks[id.Name]
	if c == nil || c.policy.ID.UID != id.UID {
		return record{}, false
	}
	return record{status: c.status, revision: c.revision}, true
}

// factsOf gives the facts of a node by its name, and false when there is no such node.
func (f *fleet) factsOf(name string) (node.Facts, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	s := f.nodes[name]
	if s == nil {
		return node.Facts{}, false
	}
	return s.seen.Facts(), true
}
