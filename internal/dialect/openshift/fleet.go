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
	"github.com/fettle-io/fettle/internal/lean"
	"github.com/fettle-io/fettle/internal/legible"
	"github.com/fettle-io/fettle/internal/node"
	"github.com/fettle-io/fettle/internal/selector"
	"github.com/fettle-io/fettle/internal/setting"
)

// fleet holds the health checks and machines of a cluster as translated, and knows which selects
// which. It is safe for concurrent use.
type fleet struct {
	mu *sync.Mutex
	// checks and machines are by namespace/name. roster has the same machines, and which health check selects which.
	checks   map[string]*healthCheck
	machines map[string]*machine
	roster   selector.Index[*machine]
	// sets are the machine sets by namespace/name.
	sets map[string]machineSet
	// claims are the nodes that machines lay claim to, unless they are being deleted.
	claims node.Claims
	// targets is the last snapshot's, to be filled again for the next.
	targets []core.Target
}

func newFleet() fleet {
	return fleet{mu: &sync.Mutex{}, checks: map[string]*healthCheck{}, machines: map[string]*machine{}, sets: map[string]machineSet{}}
}

// putCheck takes in a health check and tells whether that can change a decision.
func (f *fleet) putCheck(obj any) bool {
	u, ok := obj.(*unstructured.Unstructured)
	if !ok {
		return false
	}
	key := u.GetNamespace() + "/" + u.GetName()
	if u.GetDeletionTimestamp() != nil {
		f.dropCheck(key)
		return true
	}
	fresh := readHealthCheck(u)
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.takeCheck(key, fresh)
}

// wroteCheck takes in the answer to a write. The watch may have seen the health check leave in the
// meantime, and would not tell that again.
func (f *fleet) wroteCheck(u *unstructured.Unstructured) {
	legible.Bound(u) // as in the cache, or what is known of it would change with who tells it
	key, fresh := u.GetNamespace()+"/"+u.GetName(), readHealthCheck(u)
	f.mu.Lock()
	defer f.mu.Unlock()
	if old := f.checks[key]; old != nil && old.policy.ID == fresh.policy.ID {
		f.takeCheck(key, fresh)
	}
}

func (f *fleet) takeCheck(key string, fresh *healthCheck) bool {
	old := f.checks[key]
	if old != nil && old.policy.ID == fresh.policy.ID && healthcheck.IsOlder(fresh.revision, old.revision) {
		return false
	}
	f.checks[key] = fresh
	if old == nil || !setting.SameSelector(old.selector, fresh.selector) {
		fresh.selection = f.roster.Select(fresh.policy.ID.Namespace, fresh.selector)
		if old != nil {
			f.roster.End(old.selection)
		}
		return true
	}
	same := reflect.DeepEqual(old.policy, fresh.policy)
	fresh.selection = old.selection
	return !same
}

func (f *fleet) dropCheck(key string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if old := f.checks[key]; old != nil {
		f.roster.End(old.selection)
	}
	delete(f.checks, key)
}

// putMachine takes in a machine and tells whether that can change a decision.
func (f *fleet) putMachine(obj any) bool {
	m, ok := obj.(*Machine)
	if !ok {
		return false
	}
	fresh := readMachine(m)
	key := m.Namespace + "/" + m.Name
	f.mu.Lock()
	defer f.mu.Unlock()
	old := f.machines[key]
	f.machines[key] = fresh
	f.claims.Move(m.Namespace, old.claim(), fresh.claim())
	if old != nil && old.target.ID == fresh.target.ID {
		fresh.leads = old.leads
	}
	if old == nil || !old.labels.Equal(fresh.labels) {
		f.roster.Put(fresh)
		return true
	}
	f.roster.Replace(fresh)
	before, after := old.target, fresh.target
	before.Revision, after.Revision = "", ""
	return old.node != fresh.node || !reflect.DeepEqual(before, after)
}

func (f *fleet) dropMachine(key string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if m := f.machines[key]; m != nil {
		f.claims.Move(m.target.ID.Namespace, m.claim(), "")
	}
	delete(f.machines, key)
	f.roster.Remove(key)
}

// snapshot gives all health checks and all machines with their nodes. The slice of targets is the
// fleet's own: it is good until the next snapshot.
func (f *fleet) snapshot(find func(string) (node.Facts, bool)) ([]core.Policy, []core.Target) {
	f.mu.Lock()
	defer f.mu.Unlock()
	machines := f.roster.Targets()
	f.targets = slices.Grow(f.targets[:0], len(machines))[:len(machines)]
	for i, m := range machines {
		t := &f.targets[i]
		f.fill(t, m, find)
	}
	f.disbelieve()
	policies := make([]core.Policy, 0, len(f.checks))
	for _, key := range slices.Sorted(maps.Keys(f.checks)) {
		p := f.checks[key].policy
		p.Members = f.roster.Members(f.checks[key].selection)
		policies = append(policies, p)
	}
	return policies, f.targets
}

// fill makes a target of a machine and its node, in the place of what was there.
func (f *fleet) fill(t *core.Target, m *machine, find func(string) (node.Facts, bool)) {
	*t = m.target
	if set := f.sets[t.Owner.Namespace+"/"+t.Owner.Name]; t.Owner.Kind == machineSetKind && set.uid == t.Owner.UID {
		t.OwnerTemplate = set.template
	}
	// A machine stays one of the control plane when its node is gone, and tells it no more.
	t.ControlPlane = t.ControlPlane || m.leads
	if m.node == "" {
		return
	}
	facts, seen := find(m.node)
	seen = seen && f.see(t, m, &facts)
	if t.Problem != "" || t.Deleting {
		return
	}
	// Of a node that does not say whose machine it is any machine counts. Otherwise those of other namespaces don't: who may
	// write machines in one must not hold back the repair of those in another.
	scope := m.target.ID.Namespace
	if seen && facts.MachineNamespace == "" {
		scope = ""
	}
	t.Problem = f.claims.Dispute(m.node, scope)
}

// see has a target take over the facts of its node, unless the node says that its machine is in another namespace. Then the
// target has nothing to do with that node, and is not judged.
func (f *fleet) see(t *core.Target, m *machine, facts *node.Facts) bool {
	if of := facts.MachineNamespace; of != "" && of != t.ID.Namespace {
		t.Node = core.Node{State: core.NodeUnseen}
		if t.Problem == "" && !t.Deleting {
			t.Problem = "status.nodeRef.name is " + m.node + ", which says by annotation " + lean.MachineAnnotation + " that its machine is in another namespace"
		}
		return false
	}
	t.Node = facts.Node
	m.leads = m.leads || facts.Node.ControlPlane
	t.ControlPlane = t.ControlPlane || m.leads
	return true
}

// disbelieve finds the machines that say by their label alone that they are of the control plane, in a namespace none of whose
// machines has such a node while machines elsewhere have. Such a machine holds back only others of its kind
// in its namespace: otherwise a user who may write machines in one namespace could have the control plane look busy for ever. It is
// itself repaired only while quorum survives, and after the control plane.
func (f *fleet) disbelieve() {
	var leading map[string]bool
	doubtful := false
	for i, m := range f.roster.Targets() {
		if m.leads {
			if leading == nil {
				leading = map[string]bool{}
			}
			leading[m.target.ID.Namespace] = true
		}
		doubtful = doubtful || (f.targets[i].ControlPlane && !m.leads)
	}
	if !doubtful || leading == nil {
		return
	}
	for i, m := range f.roster.Targets() {
		t := &f.targets[i]
		if t.ControlPlane && !m.leads && !leading[t.ID.Namespace] {
			t.ControlPlane, t.ControlPlaneByLabel = false, true
		}
	}
}

// statusOf gives the status of a health check as last seen or written.
func (f *fleet) statusOf(id core.ID) (v1beta1.MachineHealthCheckStatus, string, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	check := f.checks[id.Namespace+"/"+id.Name]
	if check == nil || check.policy.ID.UID != id.UID {
		return v1beta1.MachineHealthCheckStatus{}, "", false
	}
	return check.status, check.revision, true
}
