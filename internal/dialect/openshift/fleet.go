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
	"github.com/fettle-io/fettle/internal/setting"
)

// fleet holds the health checks and machines of a cluster as translated, and knows which selects
// which. It is safe for concurrent use.
type fleet struct {
	mu *sync.Mutex
	// checks and machines are by namespace/name. roster has the machines in the order of that.
	checks   map[string]*healthCheck
	machines map[string]*machine
	roster   []*machine
	// arranged is false when a machine has come or gone, or another health check selects it, and the
	// members of the health checks are to be numbered anew.
	arranged bool
	// targets is the last snapshot's, to be filled again for the next.
	targets []core.Target
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
	if old == nil || !setting.SameSelector(old.selector, fresh.selector) {
		f.enrol(key, fresh)
		return true
	}
	same := reflect.DeepEqual(old.policy, fresh.policy)
	fresh.members = old.members
	return !same
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
	f.dismiss(key)
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
	f.list(key, fresh)
	if old == nil || !old.labels.Equal(fresh.labels) {
		f.assign(fresh)
		return true
	}
	fresh.selectedBy = old.selectedBy
	before, after := old.target, fresh.target
	before.Revision, after.Revision = "", ""
	return old.node != fresh.node || !reflect.DeepEqual(before, after)
}

func (f *fleet) dropMachine(key string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.machines, key)
	if i, listed := f.place(key); listed {
		f.roster = slices.Delete(f.roster, i, i+1)
		f.arranged = false
	}
}

// snapshot gives all health checks and all machines with their nodes. The slice of targets is the
// fleet's own: it is good until the next snapshot.
func (f *fleet) snapshot(find func(string) (node.Facts, bool)) ([]core.Policy, []core.Target) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.arranged {
		f.arrange()
	}
	f.targets = slices.Grow(f.targets[:0], len(f.roster))[:len(f.roster)]
	for i, m := range f.roster {
		t := &f.targets[i]
		*t = m.target
		if facts, seen := find(m.node); m.node != "" && seen {
			t.Node, t.Excluded, t.Upgrading = facts.Node, facts.Excluded, facts.Upgrading
			// A machine stays one of the control plane when its node is gone, and tells it no more.
			m.target.ControlPlane = m.target.ControlPlane || facts.ControlPlane
			t.ControlPlane = m.target.ControlPlane
		}
	}
	policies := make([]core.Policy, 0, len(f.checks))
	for _, key := range slices.Sorted(maps.Keys(f.checks)) {
		p := f.checks[key].policy
		p.Members = f.checks[key].members
		policies = append(policies, p)
	}
	return policies, f.targets
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
