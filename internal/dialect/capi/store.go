package capi

import (
	"maps"
	"reflect"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/fettle-io/fettle/internal/clusterapi"
	"github.com/fettle-io/fettle/internal/core"
	"github.com/fettle-io/fettle/internal/healthcheck"
	"github.com/fettle-io/fettle/internal/lenient"
	"github.com/fettle-io/fettle/internal/node"
	"github.com/fettle-io/fettle/internal/selector"
	"github.com/fettle-io/fettle/internal/specparse"
)

// store holds the objects of one workload cluster that the management cluster has: its Cluster, its health checks as
// translated, and its machines. It is safe for concurrent use.
type store struct {
	mu sync.Mutex
	// cluster is nil while there is no Cluster of that name.
	cluster *clusterapi.Cluster
	// checks are by name.
	checks map[string]*healthCheck
	// index has all machines, and the selection of each health check.
	index selector.Index[*machine]
	// nodeRefs are the nodes to which machines refer, but for machines that are being deleted. All machines are in one
	// namespace.
	nodeRefs node.References
	// conditionTypes are the types of machine conditions that health checks read.
	conditionTypes map[string]bool
	// targets is the memory of the last snapshot, which the next one reuses.
	targets []core.Target
	parts   clusterapi.PartsCache
	// wakeDue is set while a wake-up by wakeLater is due. unknownSince is the time since which it is unknown whether
	// others act on the nodes, and zero while it is known. startsBlocked is the blockage of the last observation.
	wakeDue       bool
	unknownSince  time.Time
	startsBlocked *blockage
}

// machine is one machine of the index.
type machine struct {
	*clusterapi.Machine
	selector.Member

	// onControlPlane is set once the machine or its node was seen to belong to the control plane.
	onControlPlane bool
}

// Key implements selector.Object.
func (m *machine) Key() string { return m.Name }

// Matches implements selector.Object. No health check selects a machine that a user has excluded from health checking.
// It counts neither as healthy nor as unhealthy (docs/reference/cluster-api.md#targets).
func (m *machine) Matches(_ string, s labels.Selector) bool {
	return !m.Skipped() && s.Matches(m.Labels)
}

func newStore() *store {
	return &store{checks: map[string]*healthCheck{}}
}

// empty reports whether the store has no object.
func (s *store) empty() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.cluster == nil && len(s.checks)+s.index.Len() == 0
}

// putCluster stores the Cluster, nil if it is gone, and reports whether that can change a decision.
func (s *store) putCluster(c *clusterapi.Cluster) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	old := s.cluster
	s.cluster = c
	if old == nil || c == nil {
		return old != c
	}
	return !old.Same(c)
}

// putCheck stores a health check and reports whether that can change a decision.
func (s *store) putCheck(fresh *healthCheck) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.storeCheck(fresh)
}

// storeWritten stores the health check that the API server returned for a write. It ignores a health check that the
// watch has seen deleted meanwhile, since the watch would not report that again.
func (s *store) storeWritten(u *unstructured.Unstructured) {
	lenient.Bound(u) // as the cache bounds it, so that both versions are equal
	fresh := readHealthCheck(u)
	s.mu.Lock()
	defer s.mu.Unlock()
	if old := s.checks[fresh.policy.ID.Name]; old != nil && old.policy.ID == fresh.policy.ID {
		s.storeCheck(fresh)
	}
}

func (s *store) storeCheck(fresh *healthCheck) bool {
	name := fresh.policy.ID.Name
	old := s.checks[name]
	if old != nil && old.policy.ID == fresh.policy.ID && healthcheck.IsOlder(fresh.revision, old.revision) {
		return false
	}
	s.checks[name] = fresh
	s.collectConditionTypes()
	if old == nil || !specparse.SameSelector(old.selector, fresh.selector) {
		fresh.selection = s.index.Select("", fresh.selector)
		if old != nil {
			s.index.End(old.selection)
		}
		return true
	}
	fresh.selection = old.selection
	same := samePolicy(&old.policy, &fresh.policy)
	return !same || old.labelled != fresh.labelled || !reflect.DeepEqual(old.owners, fresh.owners)
}

// samePolicy compares policies without the fields that follow from the status, which Fettle itself writes.
func samePolicy(a, b *core.Policy) bool {
	p, q := *a, *b
	p.WasStopped, q.WasStopped, p.ClockGate, q.ClockGate = false, false, 0, 0
	p.Members, q.Members = nil, nil
	return reflect.DeepEqual(p, q)
}

func (s *store) dropCheck(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if old := s.checks[name]; old != nil {
		s.index.End(old.selection)
	}
	delete(s.checks, name)
	s.collectConditionTypes()
}

// collectConditionTypes sets the types of machine conditions that the health checks read.
func (s *store) collectConditionTypes() {
	s.conditionTypes = map[string]bool{}
	for _, c := range s.checks {
		for _, criterion := range c.policy.Criteria.TargetConditions {
			s.conditionTypes[criterion.Type] = true
		}
	}
}

// putMachine stores a machine and reports whether that can change a decision.
func (s *store) putMachine(m *clusterapi.Machine) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.storeMachine(m)
}

// storeWrittenMachine stores the machine that the API server returned for a write, unless the machine is gone by now.
func (s *store) storeWrittenMachine(m *clusterapi.Machine) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if old, listed := s.index.Get(m.Name); listed && old.UID == m.UID {
		s.storeMachine(m)
	}
}

func (s *store) storeMachine(m *clusterapi.Machine) bool {
	known, listed := s.index.Get(m.Name)
	if !listed {
		fresh := &machine{Machine: m}
		s.nodeRefs.Move("", "", fresh.refersTo())
		s.index.Put(fresh)
		return true
	}
	old := known.Machine
	if old.UID == m.UID && healthcheck.IsOlder(m.ResourceVersion, old.ResourceVersion) {
		return false
	}
	before := known.refersTo()
	known.Machine, known.onControlPlane = m, known.onControlPlane && old.UID == m.UID
	s.nodeRefs.Move("", before, known.refersTo())
	if !old.Labels.Equal(m.Labels) || old.Skipped() != m.Skipped() {
		s.index.Match(known)
		return true
	}
	return !s.sameMachine(old, m)
}

// sameMachine reports whether two versions of a machine with the same labels lead to the same decisions, and to
// conditions about the same generation.
func (s *store) sameMachine(a, b *clusterapi.Machine) bool {
	return a.UID == b.UID && a.Generation == b.Generation && (a.DeletionTimestamp == nil) == (b.DeletionTimestamp == nil) &&
		a.RemediationRequested() == b.RemediationRequested() && a.RepairRequest() == b.RepairRequest() && a.Node == b.Node && a.Failure == b.Failure && a.Unreadable == b.Unreadable && a.SameParts(b) &&
		reflect.DeepEqual(a.Owner, b.Owner) && slices.EqualFunc(a.Marks, b.Marks, sameMark) && s.sameConditions(a.Conditions, b.Conditions)
}

func sameMark(a, b clusterapi.Mark) bool {
	return a.In == b.In && a.Type == b.Type && *a.ConditionContent == *b.ConditionContent && a.Since.Equal(b.Since)
}

func (s *store) reads(condition string) bool {
	return condition == clusterv1.MachineInfrastructureReadyCondition || s.conditionTypes[condition]
}

// sameConditions compares the conditions that decisions read.
func (s *store) sameConditions(a, b []clusterapi.Condition) bool {
	next := func(conditions []clusterapi.Condition, i int) int {
		for i < len(conditions) && !s.reads(conditions[i].Type()) {
			i++
		}
		return i
	}
	i, j := next(a, 0), next(b, 0)
	for i < len(a) && j < len(b) {
		if a[i].Full() != b[j].Full() {
			return false
		}
		i, j = next(a, i+1), next(b, j+1)
	}
	return i == len(a) && j == len(b)
}

func (s *store) dropMachine(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if m, listed := s.index.Get(name); listed {
		s.nodeRefs.Move("", m.refersTo(), "")
		s.index.Remove(name)
	}
}

// machineOf returns a machine as last seen, or nil if there is none of that name.
func (s *store) machineOf(name string) *clusterapi.Machine {
	s.mu.Lock()
	defer s.mu.Unlock()
	if m, listed := s.index.Get(name); listed {
		return m.Machine
	}
	return nil
}

// machinesOf returns the machines of targets, nil for machines that are gone.
func (s *store) machinesOf(targets []core.Target) []*clusterapi.Machine {
	s.mu.Lock()
	defer s.mu.Unlock()
	machines := make([]*clusterapi.Machine, len(targets))
	for t := range targets {
		if m, listed := s.index.Get(targets[t].ID.Name); listed && string(m.UID) == targets[t].ID.UID {
			machines[t] = m.Machine
		}
	}
	return machines
}

// snapshot adds all health checks, all machines with their nodes, and the requests of machines to their owners. The
// slice of targets belongs to the store and is valid until the next snapshot.
func (s *store) snapshot(o *core.Observation, find func(string) (node.Facts, bool)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	machines := s.index.Targets()
	s.targets = slices.Grow(s.targets[:0], len(machines))[:len(machines)]
	tr := translator{cluster: s.cluster, find: find, conditionTypes: s.conditionTypes, parts: &s.parts}
	if tr.cluster == nil {
		tr.cluster = &clusterapi.Cluster{}
	}
	o.Upgrading, o.UpgradingWhy = tr.cluster.Upgrade.Is, tr.cluster.Upgrade.Why
	for i, m := range machines {
		t := &s.targets[i]
		*t = tr.targetOf(m.Machine)
		m.onControlPlane = m.onControlPlane || t.ControlPlane
		t.ControlPlane = m.onControlPlane
		if t.Problem == "" && !t.Deleting {
			t.Problem = s.nodeRefs.Conflict(m.Node, "")
		}
		if request, requests := requestOf(m.Machine); requests {
			o.Requests = append(o.Requests, request)
		}
	}
	o.Targets = s.targets
	for _, name := range slices.Sorted(maps.Keys(s.checks)) {
		p := s.checks[name].policy
		p.Members = s.index.Members(s.checks[name].selection)
		o.Policies = append(o.Policies, p)
	}
}

// checksNow returns the health checks as last seen or written, sorted by name.
func (s *store) checksNow() []healthCheck {
	s.mu.Lock()
	defer s.mu.Unlock()
	checks := make([]healthCheck, 0, len(s.checks))
	for _, name := range slices.Sorted(maps.Keys(s.checks)) {
		checks = append(checks, *s.checks[name])
	}
	return checks
}

// checkOf returns a health check as last seen or written.
func (s *store) checkOf(id core.ID) (healthCheck, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	check := s.checks[id.Name]
	if check == nil || check.policy.ID.UID != id.UID {
		return healthCheck{}, false
	}
	return *check, true
}

// clusterAndChecks returns the Cluster, nil if there is none, and whether there is a health check for it.
func (s *store) clusterAndChecks() (cluster *clusterapi.Cluster, checked bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.cluster, len(s.checks) > 0
}

// namesOf returns the names of the targets that a health check selects, in the order of the index.
func (s *store) namesOf(check core.ID) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.checks[check.Name]
	if c == nil {
		return nil
	}
	var names []string
	machines := s.index.Targets()
	for _, at := range s.index.Members(c.selection) {
		names = append(names, machines[at].Name)
	}
	return names
}

// clusterNow returns the Cluster, or nil if there is none.
func (s *store) clusterNow() *clusterapi.Cluster {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.cluster
}
