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

// store holds the translated health checks and machines of one cluster, and which health check
// selects which machine. It is safe for concurrent use.
type store struct {
	// external is the controller's own setting.
	external ExternalBaremetal

	mu *sync.Mutex
	// checks and machines are keyed by namespace/name. index holds the same machines, and which
	// health check selects which.
	checks   map[string]*healthCheck
	machines map[string]*machine
	index    selector.Index[*machine]
	// sets are the machine sets, keyed by namespace/name.
	sets map[string]machineSet
	// nodeRefs counts the machines that refer to each node. Machines that are being deleted don't
	// count.
	nodeRefs node.References
	// targets is the slice of the last snapshot. The next snapshot overwrites it.
	targets []core.Target
}

func newStore() store {
	return store{mu: &sync.Mutex{}, checks: map[string]*healthCheck{}, machines: map[string]*machine{}, sets: map[string]machineSet{}}
}

// putCheck stores a health check and reports whether that can change a decision.
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
	fresh := translate(u, s.external)
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.storeCheck(key, fresh)
}

// storeWritten stores the answer to a write, unless the watch has seen the health check go
// meanwhile. The watch would not report that again.
func (s *store) storeWritten(u *unstructured.Unstructured) {
	lenient.Bound(u) // as the cache bounds it: the answer and the watch must agree
	key, fresh := u.GetNamespace()+"/"+u.GetName(), translate(u, s.external)
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

// putMachine stores a machine and reports whether that can change a decision.
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
	return !reflect.DeepEqual(before, after)
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

// snapshot returns all health checks, and all machines with their nodes. The store owns the slice
// of targets: it is valid until the next snapshot.
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

// fillTarget overwrites t with the target of a machine and its node.
func (s *store) fillTarget(t *core.Target, m *machine, find func(string) (node.Facts, bool)) {
	*t = m.target
	if set := s.sets[t.Owner.Namespace+"/"+t.Owner.Name]; set.uid == t.Owner.UID {
		t.OwnerTemplate = set.template
	}
	// A machine stays a member of the control plane after its node is gone.
	t.ControlPlane = t.ControlPlane || m.onControlPlane
	if m.node == "" {
		return
	}
	facts, seen := find(m.node)
	if seen {
		s.applyNode(t, m, &facts)
	}
	if t.Problem != "" || t.Deleting {
		return
	}
	// Where the node names no namespace for its machine, machines of all namespaces count. Where it
	// does, only machines of that namespace count. Otherwise a user who may write machines in one
	// namespace could hold back repairs in another.
	scope := m.target.ID.Namespace
	if seen && facts.MachineNamespace == "" {
		scope = ""
	}
	t.Problem = s.nodeRefs.Conflict(m.node, scope)
}

// applyNode copies the facts of its node to a target. Where the node says that its machine is in
// another namespace, the target gets a problem instead, and is not judged.
func (s *store) applyNode(t *core.Target, m *machine, facts *node.Facts) {
	if of := facts.MachineNamespace; of != "" && of != t.ID.Namespace {
		t.Node = core.Node{State: core.NodeUnseen}
		if t.Problem == "" && !t.Deleting {
			t.Problem = "status.nodeRef.name is " + m.node + ", which says by annotation " + slim.MachineAnnotation + " that its machine is in another namespace"
		}
		return
	}
	t.Node = facts.Node
	m.onControlPlane = m.onControlPlane || facts.Node.ControlPlane
	t.ControlPlane = t.ControlPlane || m.onControlPlane
}

// distrustLabels marks machines that only their label makes members of the control plane. It does
// so in namespaces where no machine has a control plane node, if machines elsewhere have one. A
// marked machine holds back only marked machines of its namespace. Otherwise a user who may write
// machines in one namespace could keep the control plane busy for ever. It is itself repaired only
// while quorum survives, and after the control plane.
func (s *store) distrustLabels() {
	leading := map[string]bool{}
	for _, m := range s.index.Targets() {
		if m.onControlPlane {
			leading[m.target.ID.Namespace] = true
		}
	}
	if len(leading) == 0 {
		return
	}
	for i := range s.targets {
		if t := &s.targets[i]; t.ControlPlane && !leading[t.ID.Namespace] {
			t.ControlPlane, t.ControlPlaneByLabel = false, true
		}
	}
}

// statusOf returns the status and revision of a health check as last seen or written. It returns
// false if the health check is not stored.
func (s *store) statusOf(id core.ID) (v1beta1.MachineHealthCheckStatus, string, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	check := s.checks[id.Namespace+"/"+id.Name]
	if check == nil || check.policy.ID.UID != id.UID {
		return v1beta1.MachineHealthCheckStatus{}, "", false
	}
	return check.status, check.revision, true
}
