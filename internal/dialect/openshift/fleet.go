package openshift

import (
	"maps"
	"reflect"
	"slices"
	"strconv"
	"sync"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/fettle-io/fettle/api/openshift/v1beta1"
	"github.com/fettle-io/fettle/internal/core"
	"github.com/fettle-io/fettle/internal/node"
)

// fleet holds the health checks and machines of a cluster as translated, by namespace/name, and
// knows which selects which. It is safe for concurrent use.
type fleet struct {
	mu       *sync.Mutex
	checks   map[string]*healthCheck
	machines map[string]*machine
	// order and members say which machine has which index, and which are whose. They are kept until
	// a machine comes, goes or changes its labels, or a health check does.
	order   []string
	members map[string][]int
}

func newFleet() fleet {
	return fleet{mu: &sync.Mutex{}, checks: map[string]*healthCheck{}, machines: map[string]*machine{}}
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
	key, fresh := u.GetNamespace()+"/"+u.GetName(), readHealthCheck(u)
	f.mu.Lock()
	defer f.mu.Unlock()
	if old := f.checks[key]; old != nil && old.policy.ID == fresh.policy.ID {
		f.takeCheck(key, fresh)
	}
}

func (f *fleet) takeCheck(key string, fresh *healthCheck) bool {
	old := f.checks[key]
	if old != nil && old.policy.ID == fresh.policy.ID && olderRevision(fresh.revision, old.revision) {
		return false
	}
	f.checks[key] = fresh
	if old != nil && reflect.DeepEqual(old.policy, fresh.policy) && old.selector.String() == fresh.selector.String() {
		return false
	}
	f.members = nil
	return true
}

// olderRevision compares resource versions, which are numbers that grow; others are never older.
func olderRevision(a, b string) bool {
	m, err1 := strconv.ParseUint(a, 10, 64)
	n, err2 := strconv.ParseUint(b, 10, 64)
	return err1 == nil && err2 == nil && m < n
}

func (f *fleet) dropCheck(key string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.checks, key)
	f.members = nil
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
	if old != nil && old.target.ID == fresh.target.ID {
		fresh.target.ControlPlane = fresh.target.ControlPlane || old.target.ControlPlane
	}
	if old == nil || !maps.Equal(old.labels, fresh.labels) {
		f.members = nil
		return true
	}
	before, after := old.target, fresh.target
	before.Revision, after.Revision = "", ""
	return old.node != fresh.node || !reflect.DeepEqual(before, after)
}

func (f *fleet) dropMachine(key string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.machines, key)
	f.members = nil
}

// snapshot gives all health checks and all machines with their nodes.
func (f *fleet) snapshot(find func(string) (node.Facts, bool)) ([]core.Policy, []core.Target) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.members == nil {
		f.arrange()
	}
	targets := make([]core.Target, len(f.order))
	for i, key := range f.order {
		m := f.machines[key]
		targets[i] = m.target
		if facts, seen := find(m.node); m.node != "" && seen {
			targets[i].Node = facts.Node
			// A machine stays one of the control plane when its node is gone, and tells it no more.
			m.target.ControlPlane = m.target.ControlPlane || facts.ControlPlane
			targets[i].ControlPlane = m.target.ControlPlane
		}
	}
	policies := make([]core.Policy, 0, len(f.checks))
	for _, key := range slices.Sorted(maps.Keys(f.checks)) {
		p := f.checks[key].policy
		p.Members = f.members[key]
		policies = append(policies, p)
	}
	return policies, targets
}

// arrange gives the machines their indices and the health checks their members: the machines of
// their own namespace that their selector matches (reference openshift 1.1).
func (f *fleet) arrange() {
	f.order = slices.Sorted(maps.Keys(f.machines))
	f.members = make(map[string][]int, len(f.checks))
	for key, check := range f.checks {
		members := []int{}
		for i, name := range f.order {
			m := f.machines[name]
			if m.target.ID.Namespace == check.policy.ID.Namespace && check.selector.Matches(m.labels) {
				members = append(members, i)
			}
		}
		f.members[key] = members
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
