package openshift

import (
	"maps"
	"reflect"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/fettle-io/fettle/api/openshift/v1beta1"
	"github.com/fettle-io/fettle/internal/core"
	"github.com/fettle-io/fettle/internal/healthcheck"
	"github.com/fettle-io/fettle/internal/lenient"
	"github.com/fettle-io/fettle/internal/node"
	"github.com/fettle-io/fettle/internal/selector"
	"github.com/fettle-io/fettle/internal/slim"
	"github.com/fettle-io/fettle/internal/specparse"
)

// store holds the health checks and machines of a cluster as translated, and knows which selects
// which. It is safe for concurrent use.
type store struct {
	mu *sync.Mutex
	// checks and machines are by namespace/name. roster has the same machines, and which health check selects which.
	checks   map[string]*healthCheck
	machines map[string]*machine
	index    selector.Index[*machine]
	// sets are the machine sets by namespace/name.
	sets map[string]machineSet
	// nodeRefs are the nodes that machines lay claim to, unless they are being deleted.
	nodeRefs node.References
	// targets is the last snapshot's, to be filled again for the next.
	targets []core.Target
}

func newStore() store {
	return store{mu: &sync.Mutex{}, checks: map[string]*healthCheck{}, machines: map[string]*machine{}, sets: map[string]machineSet{}}
}

// putCheck takes in a health check and tells whether that can change a decision.
func (s *store) putCheck(obj any) bool {
	u, ok := obj.(*unstructured.Unstructured)
	if !ok {
		return false
	}
	key := u.GetNamespace() + "/" + u.GetName()
	if u.GetDeletionTimestamp() != nil {
		s.dropCheck(key)
		return true
	}
	fresh := readHealthCheck(u)
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.storeCheck(key, fresh)
}

// storeWritten takes in the answer to a write. The watch may have seen the health check leave in the
// meantime, and would not tell that again.
func (s *store) storeWritten(u *unstructured.Unstructured) {
	lenient.Bound(u) // as in the cache, or what is known of it would change with who tells it
	key, fresh := u.GetNamespace()+"/"+u.GetName(), readHealthCheck(u)
	s.mu.Lock()
	defer s.mu.Unlock()
	if old := s.checks[key]; old != nil && old.policy.ID == fresh.policy.ID {
		s.storeCheck(key, fresh)
	}
}

func (s *store) storeCheck(key string, fresh *healthCheck) bool {
	old := s.checks[key]
	if old != nil && old.policy.ID == fresh.policy.ID && healthcheck.IsOlder(fresh.revision, old.revision) {
		return false
	}
	s.checks[key] = fresh
	if old == nil || !specparse.SameSelector(old.selector, fresh.selector) {
		fresh.selection = s.index.Select(fresh.policy.ID.Namespace, fresh.selector)
		if old != nil {
			s.index.End(old.selection)
		}
		return true
	}
	same := reflect.DeepEqual(old.policy, fresh.policy)
	fresh.selection = old.selection
	return !same
}

func (s *store) dropCheck(key string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if old := s.checks[key]; old != nil {
		s.index.End(old.selection)
	}
	delete(s.checks, key)
}

// putMachine takes in a machine and tells whether that can change a decision.
func (s *store) putMachine(obj any) bool {
	m, ok := obj.(*Machine)
	if !ok {
		return false
	}
	fresh := readMachine(m)
	key := m.Namespace + "/" + m.Name
	s.mu.Lock()
	defer s.mu.Unlock()
	old := s.machines[key]
	s.machines[key] = fresh
	s.nodeRefs.Move(m.Namespace, old.refersTo(), fresh.refersTo())
	if old != nil && old.target.ID == fresh.target.ID {
		fresh.onControlPlane = old.onControlPlane
	}
	if old == nil || !old.labels.Equal(fresh.labels) {
		s.index.Put(fresh)
		return true
	}
	s.index.Replace(fresh)
	before, after := old.target, fresh.target
	before.Revision, after.Revision = "", ""
	return old.node != fresh.node || !reflect.DeepEqual(before, after)
}

func (s *store) dropMachine(key string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if m := s.machines[key]; m != nil {
		s.nodeRefs.Move(m.target.ID.Namespace, m.refersTo(), "")
	}
	delete(s.machines, key)
	s.index.Remove(key)
}

// snapshot gives all health checks and all machines with their nodes. The slice of targets is the
// fleet's own: it is good until the next snapshot.
func (s *store) snapshot(find func(string) (node.Facts, bool)) ([]core.Policy, []core.Target) {
	s.mu.Lock()
	defer s.mu.Unlock()
	machines := s.index.Targets()
	s.targets = slices.Grow(s.targets[:0], len(machines))[:len(machines)]
	for i, m := range machines {
		t := &s.targets[i]
		s.fillTarget(t, m, find)
	}
	s.distrustLabels()
	policies := make([]core.Policy, 0, len(s.checks))
	for _, key := range slices.Sorted(maps.Keys(s.checks)) {
		p := s.checks[key].policy
		p.Members = s.index.Members(s.checks[key].selection)
		policies = append(policies, p)
	}
	return policies, s.targets
}

// fillTarget makes a target of a machine and its node, in the place of what was there.
func (s *store) fillTarget(t *core.Target, m *machine, find func(string) (node.Facts, bool)) {
	*t = m.target
	if set := s.sets[t.Owner.Namespace+"/"+t.Owner.Name]; t.Owner.Kind == machineSetKind && set.uid == t.Owner.UID {
		t.OwnerTemplate = set.template
	}
	// A machine stays one of the control plane when its node is gone, and tells it no more.
	t.ControlPlane = t.ControlPlane || m.onControlPlane
	if m.node == "" {
		return
	}
	facts, seen := find(m.node)
	seen = seen && s.applyNode(t, m, &facts)
	if t.Problem != "" || t.Deleting {
		return
	}
	// Of a node that does not say whose machine it is any machine counts. Otherwise those of other namespaces don't: who may
	// write machines in one must not hold back the repair of those in another.
	scope := m.target.ID.Namespace
	if seen && facts.MachineNamespace == "" {
		scope = ""
	}
	t.Problem = s.nodeRefs.Conflict(m.node, scope)
}

// applyNode has a target take over the facts of its node, unless the node says that its machine is in another namespace. Then the
// target has nothing to do with that node, and is not judged.
func (s *store) applyNode(t *core.Target, m *machine, facts *node.Facts) bool {
	if of := facts.MachineNamespace; of != "" && of != t.ID.Namespace {
		t.Node = core.Node{State: core.NodeUnseen}
		if t.Problem == "" && !t.Deleting {
			t.Problem = "status.nodeRef.name is " + m.node + ", which says by annotation " + slim.MachineAnnotation + " that its machine is in another namespace"
		}
		return false
	}
	t.Node = facts.Node
	m.onControlPlane = m.onControlPlane || facts.Node.ControlPlane
	t.ControlPlane = t.ControlPlane || m.onControlPlane
	return true
}

// distrustLabels finds the machines that say by their label alone that they are of the control plane, in a namespace none of whose
// machines has such a node while machines elsewhere have. Such a machine holds back only others of its kind
// in its namespace: otherwise a user who may write machines in one namespace could have the control plane look busy for ever. It is
// itself repaired only while quorum survives, and after the control plane.
func (s *store) distrustLabels() {
	var leading map[string]bool
	doubtful := false
	for i, m := range s.index.Targets() {
		if m.onControlPlane {
			if leading == nil {
				leading = map[string]bool{}
			}
			leading[m.target.ID.Namespace] = true
		}
		doubtful = doubtful || (s.targets[i].ControlPlane && !m.onControlPlane)
	}
	if !doubtful || leading == nil {
		return
	}
	for i, m := range s.index.Targets() {
		t := &s.targets[i]
		if t.ControlPlane && !m.onControlPlane && !leading[t.ID.Namespace] {
			t.ControlPlane, t.ControlPlaneByLabel = false, true
		}
	}
}

// statusOf gives the status of a health check as last seen or written.
func (s *store) statusOf(id core.ID) (v1beta1.MachineHealthCheckStatus, string, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	check := s.checks[id.Namespace+"/"+id.Name]
	if check == nil || check.policy.ID.UID != id.UID {
		return v1beta1.MachineHealthCheckStatus{}, "", false
	}
	return check.status, check.revision, true
}
