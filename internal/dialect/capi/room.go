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
	"github.com/fettle-io/fettle/internal/legible"
	"github.com/fettle-io/fettle/internal/node"
	"github.com/fettle-io/fettle/internal/selector"
	"github.com/fettle-io/fettle/internal/setting"
)

// room holds what is seen of one cluster on the management cluster: its Cluster, its health checks as translated, and
// its machines, and knows which check selects which. It is safe for concurrent use.
type room struct {
	mu sync.Mutex
	// cluster is nil while there is no Cluster of that name.
	cluster *clusterapi.Cluster
	// checks are by name.
	checks map[string]*healthCheck
	// roster has all machines, and which health check selects which.
	roster selector.Index[*machine]
	// claims are the nodes that machines lay claim to, unless they are being deleted. All are of one namespace.
	claims node.Claims
	// asked are the types of conditions of machines that health checks ask for.
	asked map[string]bool
	// targets is the last snapshot's, to be filled again for the next.
	targets []core.Target
	parts   clusterapi.PartsOfMachines
	// lookDue is set while the fleet is to be looked at again after a time. unsureSince is since when it has been unknown whether others act on the nodes, zero while it is known. yielded is
	// why the health checks that were last observed begin nothing.
	lookDue     bool
	unsureSince time.Time
	yielded     *obstacle
}

// machine is one of the roster.
type machine struct {
	*clusterapi.Machine
	selector.Member

	// leads is set once the machine or its node was seen to belong to the control plane.
	leads bool
}

// Key implements selector.Object.
func (m *machine) Key() string { return m.Name }

// Matches implements selector.Object. Machines that a user has taken out of health checking are selected by nothing: they count
// neither as healthy nor as unhealthy (docs/reference/cluster-api.md#targets).
func (m *machine) Matches(_ string, s labels.Selector) bool {
	return !m.Skipped() && s.Matches(m.Labels)
}

func newRoom() *room {
	return &room{checks: map[string]*healthCheck{}}
}

// empty tells whether nothing is known of the cluster any more.
func (r *room) empty() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.cluster == nil && len(r.checks)+r.roster.Len() == 0
}

// putCluster takes in the Cluster, nil when it is gone, and tells whether that can change a decision.
func (r *room) putCluster(c *clusterapi.Cluster) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	old := r.cluster
	r.cluster = c
	if old == nil || c == nil {
		return old != c
	}
	return !old.Same(c)
}

// putCheck takes in a health check and tells whether that can change a decision.
func (r *room) putCheck(fresh *healthCheck) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.takeCheck(fresh)
}

// wroteCheck takes in the answer to a write. The watch may have seen the health check leave in the meantime, and would
// not tell that again.
func (r *room) wroteCheck(u *unstructured.Unstructured) {
	legible.Bound(u) // as in the cache, or what is known of it would change with who tells it
	fresh := readHealthCheck(u)
	r.mu.Lock()
	defer r.mu.Unlock()
	if old := r.checks[fresh.policy.ID.Name]; old != nil && old.policy.ID == fresh.policy.ID {
		r.takeCheck(fresh)
	}
}

func (r *room) takeCheck(fresh *healthCheck) bool {
	name := fresh.policy.ID.Name
	old := r.checks[name]
	if old != nil && old.policy.ID == fresh.policy.ID && healthcheck.IsOlder(fresh.revision, old.revision) {
		return false
	}
	r.checks[name] = fresh
	r.askAgain()
	if old == nil || !setting.SameSelector(old.selector, fresh.selector) {
		fresh.selection = r.roster.Select("", fresh.selector)
		if old != nil {
			r.roster.End(old.selection)
		}
		return true
	}
	fresh.selection = old.selection
	same := samePolicy(&old.policy, &fresh.policy)
	return !same || old.labelled != fresh.labelled || !reflect.DeepEqual(old.owners, fresh.owners)
}

// samePolicy leaves out what follows from the status, which is written by whoever decides.
func samePolicy(a, b *core.Policy) bool {
	p, q := *a, *b
	p.Held, q.Held, p.ClockHeld, q.ClockHeld = false, false, 0, 0
	p.Members, q.Members = nil, nil
	return reflect.DeepEqual(p, q)
}

func (r *room) dropCheck(name string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if old := r.checks[name]; old != nil {
		r.roster.End(old.selection)
	}
	delete(r.checks, name)
	r.askAgain()
}

// askAgain notes which conditions of machines the health checks ask for.
func (r *room) askAgain() {
	r.asked = map[string]bool{}
	for _, c := range r.checks {
		for _, criterion := range c.policy.Criteria.TargetConditions {
			r.asked[criterion.Type] = true
		}
	}
}

// putMachine takes in a machine and tells whether that can change a decision.
func (r *room) putMachine(m *clusterapi.Machine) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.takeMachine(m)
}

// wroteMachine takes in the answer to a write, unless the machine is gone by now.
func (r *room) wroteMachine(m *clusterapi.Machine) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if old, listed := r.roster.Get(m.Name); listed && old.UID == m.UID {
		r.takeMachine(m)
	}
}

func (r *room) takeMachine(m *clusterapi.Machine) bool {
	known, listed := r.roster.Get(m.Name)
	if !listed {
		fresh := &machine{Machine: m}
		r.claims.Move("", "", fresh.claim())
		r.roster.Put(fresh)
		return true
	}
	old := known.Machine
	if old.UID == m.UID && healthcheck.IsOlder(m.ResourceVersion, old.ResourceVersion) {
		return false
	}
	before := known.claim()
	known.Machine, known.leads = m, known.leads && old.UID == m.UID
	r.claims.Move("", before, known.claim())
	if !old.Labels.Equal(m.Labels) || old.Skipped() != m.Skipped() {
		r.roster.Match(known)
		return true
	}
	return !r.sameMachine(old, m)
}

// sameMachine tells whether two versions of a machine can't lead to different decisions, as long as their labels don't,
// nor to conditions about another generation.
func (r *room) sameMachine(a, b *clusterapi.Machine) bool {
	return a.UID == b.UID && a.Generation == b.Generation && (a.DeletionTimestamp == nil) == (b.DeletionTimestamp == nil) &&
		a.Condemned() == b.Condemned() && a.RepairRequest() == b.RepairRequest() && a.Node == b.Node && a.Failure == b.Failure && a.Unreadable == b.Unreadable && a.SameParts(b) &&
		reflect.DeepEqual(a.Owner, b.Owner) && slices.EqualFunc(a.Marks, b.Marks, sameMark) && r.sameConditions(a.Conditions, b.Conditions)
}

func sameMark(a, b clusterapi.Mark) bool {
	return a.In == b.In && a.Type == b.Type && *a.Words == *b.Words && a.Since.Equal(b.Since)
}

func (r *room) reads(condition string) bool {
	return condition == clusterv1.MachineInfrastructureReadyCondition || r.asked[condition]
}

// sameConditions compares those conditions that decisions read.
func (r *room) sameConditions(a, b []clusterapi.Condition) bool {
	next := func(conditions []clusterapi.Condition, i int) int {
		for i < len(conditions) && !r.reads(conditions[i].Type()) {
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

func (r *room) dropMachine(name string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if m, listed := r.roster.Get(name); listed {
		r.claims.Move("", m.claim(), "")
		r.roster.Remove(name)
	}
}

// machineOf gives a machine as it was last seen, nil when there is none of that name.
func (r *room) machineOf(name string) *clusterapi.Machine {
	r.mu.Lock()
	defer r.mu.Unlock()
	if m, listed := r.roster.Get(name); listed {
		return m.Machine
	}
	return nil
}

// machinesOf gives the machines of targets, nil for machines that are gone.
func (r *room) machinesOf(targets []core.Target) []*clusterapi.Machine {
	r.mu.Lock()
	defer r.mu.Unlock()
	machines := make([]*clusterapi.Machine, len(targets))
	for t := range targets {
		if m, listed := r.roster.Get(targets[t].ID.Name); listed && string(m.UID) == targets[t].ID.UID {
			machines[t] = m.Machine
		}
	}
	return machines
}

// snapshot adds all health checks, all machines with their nodes, and what those ask of their owners. The slice of
// targets is the room's own: it is good until the next snapshot.
func (r *room) snapshot(o *core.Observation, find func(string) (node.Facts, bool)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	machines := r.roster.Targets()
	r.targets = slices.Grow(r.targets[:0], len(machines))[:len(machines)]
	s := sight{cluster: r.cluster, find: find, asked: r.asked, parts: &r.parts}
	if s.cluster == nil {
		s.cluster = &clusterapi.Cluster{}
	}
	o.Upgrading, o.UpgradingWhy = s.cluster.Upgrade.Is, s.cluster.Upgrade.Why
	for i, m := range machines {
		t := &r.targets[i]
		*t = s.targetOf(m.Machine)
		m.leads = m.leads || t.ControlPlane
		t.ControlPlane = m.leads
		if t.Problem == "" && !t.Deleting {
			t.Problem = r.claims.Dispute(m.Node, "")
		}
		if request, asks := requestOf(m.Machine); asks {
			o.Requests = append(o.Requests, request)
		}
	}
	o.Targets = r.targets
	for _, name := range slices.Sorted(maps.Keys(r.checks)) {
		p := r.checks[name].policy
		p.Members = r.roster.Members(r.checks[name].selection)
		o.Policies = append(o.Policies, p)
	}
}

// checksNow gives the health checks as last seen or written, in the order of names.
func (r *room) checksNow() []healthCheck {
	r.mu.Lock()
	defer r.mu.Unlock()
	checks := make([]healthCheck, 0, len(r.checks))
	for _, name := range slices.Sorted(maps.Keys(r.checks)) {
		checks = append(checks, *r.checks[name])
	}
	return checks
}

// checkOf gives a health check as last seen or written.
func (r *room) checkOf(id core.ID) (healthCheck, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	check := r.checks[id.Name]
	if check == nil || check.policy.ID.UID != id.UID {
		return healthCheck{}, false
	}
	return *check, true
}

// standing gives the Cluster, nil when there is none, and tells whether there is a health check for it.
func (r *room) standing() (cluster *clusterapi.Cluster, checked bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.cluster, len(r.checks) > 0
}

// namesOf gives the names of the targets that a health check selects, in their order.
func (r *room) namesOf(check core.ID) []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	c := r.checks[check.Name]
	if c == nil {
		return nil
	}
	var names []string
	machines := r.roster.Targets()
	for _, at := range r.roster.Members(c.selection) {
		names = append(names, machines[at].Name)
	}
	return names
}

// clusterNow gives the Cluster, nil when there is none.
func (r *room) clusterNow() *clusterapi.Cluster {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.cluster
}
