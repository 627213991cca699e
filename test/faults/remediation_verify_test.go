package faults

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	medik8s "github.com/fettle-io/fettle/api/medik8s/v1alpha1"
	"github.com/fettle-io/fettle/test/cluster"
)

// onTheWay is how long a request may take until it has an effect. A node may have turned meanwhile, and Fettle may not
// know it.
const onTheWay = 2 * time.Second

func (m *monitor) knows(names []string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, name := range names {
		found := false
		for _, n := range m.nodes {
			found = found || (n.name == m.pool.node(name) && !n.last().gone && n.last().well)
		}
		if !found {
			return fmt.Errorf("node %s was not seen yet", name)
		}
	}
	return nil
}

// requested counts the objects that were ever made from a template, and how many of them were deleted.
func (m *monitor) requested(template string) (made, leaving int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, o := range m.objects {
		if o.template != template || o.foreign {
			continue
		}
		made++
		if o.leaving != 0 {
			leaving++
		}
	}
	return made, leaving
}

func (m *monitor) wantRequested(template string, atLeast int) {
	m.pool.t.Helper()
	m.pool.Eventually(m.pool.t, fmt.Sprintf("%d nodes have requests by %s", atLeast, template), func(context.Context) error {
		if made, _ := m.requested(template); made < atLeast {
			return fmt.Errorf("%d were\n%s", made, m.lastWords())
		}
		return nil
	})
}

func (m *monitor) wantLeaving(template string, atLeast int) {
	m.pool.t.Helper()
	m.pool.Eventually(m.pool.t, fmt.Sprintf("%d objects of %s are deleted", atLeast, template), func(context.Context) error {
		if _, leaving := m.requested(template); leaving < atLeast {
			return fmt.Errorf("%d were\n%s", leaving, m.lastWords())
		}
		return nil
	})
}

// keepsRequested checks for a while that no more objects are made from a template than these, and that none is deleted.
func (m *monitor) keepsRequested(template string, made, leaving int) {
	m.pool.t.Helper()
	m.pool.Never(m.pool.t, "no other request", quiet, func(context.Context) error {
		if haveMade, haveLeaving := m.requested(template); haveMade != made || haveLeaving != leaving {
			return fmt.Errorf("%d objects of %s were made and %d deleted, want %d and %d", haveMade, template, haveLeaving, made, leaving)
		}
		return nil
	})
}

func (m *monitor) lastWords() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.lastOfStory()
}

func (m *monitor) lastOfStory() string {
	const most = 40
	return strings.Join(m.story[max(0, len(m.story)-most):], "\n")
}

// unmended returns what is left of the remediation. Nothing may be, except for nodes that are no longer selected.
func (m *monitor) unmended() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	var left []string
	for _, n := range m.nodes {
		if last := n.last(); !last.gone && !last.well && last.selected && m.check.to == 0 {
			left = append(left, "node "+n.name+" is not well")
		}
	}
	for _, o := range m.objects {
		if o.to == 0 && !o.foreign {
			left = append(left, o.kind+" "+o.name+" stands")
		}
	}
	for _, e := range m.entries {
		if e.to == 0 {
			left = append(left, "repair "+e.name+" runs")
		}
	}
	for _, l := range m.leases {
		if l.to == 0 && !l.foreign {
			left = append(left, "lease "+l.name+" is there, of "+l.holder)
		}
	}
	if len(left) == 0 {
		return nil
	}
	slices.Sort(left)
	return fmt.Errorf("%d things are left: %v\n%s", len(left), left, m.lastOfStory())
}

// verify checks what must hold at the end of every test.
func (m *monitor) verify(limit int) {
	t := m.pool.t
	t.Helper()
	requests := m.pool.Requests(t)[m.pool.before:]
	m.mu.Lock()
	defer m.mu.Unlock()
	problems := slices.Clone(m.wrong)
	if m.most > limit {
		problems = append(problems, fmt.Errorf("%d nodes were under remediation at a time, and the limit is %d", m.most, limit))
	}
	if m.mostPlane > 1 {
		problems = append(problems, fmt.Errorf("%d nodes of the control plane were under remediation at a time", m.mostPlane))
	}
	problems = append(problems, m.creations(requests)...)
	problems = append(problems, m.withdrawals()...)
	problems = append(problems, m.calls(requests)...)
	problems = append(problems, m.records()...)
	problems = append(problems, hotLoops(requests)...)
	if err := errors.Join(problems...); err != nil {
		t.Errorf("%v\nwhat happened:\n%s", err, strings.Join(m.story, "\n"))
	}
	repeats, what := repeated(requests)
	t.Logf("%d requests, at most %d in a second, and %d times %s; at most %d nodes under remediation, %d of the control plane",
		len(requests), peak(requests), repeats, what, m.most, m.mostPlane)
}

// during returns the states of a node from onTheWay before an instant until a revision.
func (n *nodeSeen) during(seen time.Time, until uint64) []nodeState {
	var states []nodeState
	for i, s := range n.states {
		over := i+1 < len(n.states) && n.states[i+1].from <= until && seen.Sub(n.states[i+1].seen) > onTheWay
		if s.from <= until && !over {
			states = append(states, s)
		}
	}
	return states
}

// failures counts how often a node had failed by a revision.
func (n *nodeSeen) failures(until uint64) int {
	failed, well := 0, true
	for _, s := range n.states {
		if s.from > until {
			break
		}
		if well && !s.well {
			failed++
		}
		well = s.well
	}
	return failed
}

// creations: each object is for an unhealthy node, whose repair is recorded and whose lease is taken. It is the only
// object of its step since the node failed.
func (m *monitor) creations(requests []cluster.Request) []error {
	type step struct {
		target, template string
		failure          int
	}
	var problems []error
	steps := map[step]int{}
	for _, o := range m.objects {
		if o.foreign {
			continue
		}
		n := m.nodeAt(o.node, o.from)
		if n == nil {
			problems = append(problems, fmt.Errorf("%s %s was made for a node that the watch has not shown", o.kind, o.name))
			continue
		}
		if !slices.ContainsFunc(n.during(o.made, o.from), func(s nodeState) bool { return !s.well && s.selected && !s.gone }) {
			problems = append(problems, fmt.Errorf("%s %s was made for a node that is well", o.kind, o.name))
		}
		if !m.recordedBefore(o, requests) {
			problems = append(problems, fmt.Errorf("%s %s was made before a repair was recorded, or after it had ended", o.kind, o.name))
		}
		if o.kind == rebooting && n.uid != o.target && m.check.from != 0 {
			problems = append(problems, fmt.Errorf("%s %s was made for a namesake of its node", o.kind, o.name))
		}
		if !m.leasedBefore(o, requests) {
			problems = append(problems, fmt.Errorf("%s %s was made without the lease of its node", o.kind, o.name))
		}
		if !o.taken {
			steps[step{o.target, o.template, n.failures(o.from)}]++
		}
	}
	for s, n := range steps {
		if n > 1 {
			problems = append(problems, fmt.Errorf("%d objects of %s were made for the target %s and one failure", n, s.template, s.target))
		}
	}
	return problems
}

// recordedBefore compares revisions. A monitor may have missed a creation, since the API server was killed then. It
// then reads the audit log.
func (m *monitor) recordedBefore(o *objectSeen, requests []cluster.Request) bool {
	for _, e := range m.entries {
		if e.target != o.target {
			continue
		}
		if e.has(o.from) || (e.taken && e.from < o.from) {
			return true
		}
		if e.from >= o.from && cameBefore(requests, "repairs", e.name, o) {
			return true
		}
	}
	return false
}

// leasedBefore does the same for leases. Only controllers of nodes have leases.
func (m *monitor) leasedBefore(o *objectSeen, requests []cluster.Request) bool {
	if m.check.from == 0 {
		return true
	}
	name := medik8s.LeasePrefix + o.node
	for _, l := range m.leases {
		if l.name == name && (l.has(o.from) || (l.from >= o.from && cameBefore(requests, "leases", name, o))) {
			return true
		}
	}
	return false
}

// cameBefore reports whether something was created before an object, by the audit log.
func cameBefore(requests []cluster.Request, resource, name string, o *objectSeen) bool {
	for _, q := range requests {
		if q.Verb != "create" || q.Code != 201 {
			continue
		}
		if q.Resource == resource && q.Name == name {
			return true
		}
		if q.Resource == resourceOf(o.kind) && q.Name == o.name {
			return false
		}
	}
	return false
}

func resourceOf(kind string) string { return strings.ToLower(kind) + "s" }

// withdrawals: no object is deleted while its node is unhealthy and still selected.
func (m *monitor) withdrawals() []error {
	var problems []error
	for _, o := range m.objects {
		n := m.nodeAt(o.node, o.from)
		if o.foreign || o.taken || o.leaving == 0 || n == nil {
			continue
		}
		requested := m.check.from == 0 || m.check.has(o.leaving)
		may := slices.ContainsFunc(n.during(o.leavingSeen, o.leaving), func(s nodeState) bool { return s.well || s.gone || !s.selected })
		if requested && !may {
			problems = append(problems, fmt.Errorf("%s %s was deleted while its node was not healthy", o.kind, o.name))
		}
	}
	return problems
}

// calls: the monitor saw every object that was made. Each deletion has preconditions, and Fettle writes to no foreign
// object.
func (m *monitor) calls(requests []cluster.Request) []error {
	var problems []error
	type key struct{ resource, namespace, name string }
	seen, created, others := map[key]int{}, map[key]int{}, map[key]bool{}
	for _, o := range m.objects {
		at := key{resourceOf(o.kind), o.namespace, o.name}
		seen[at]++
		others[at] = others[at] || o.foreign
	}
	for _, l := range m.leases {
		others[key{"leases", medik8s.LeaseNamespace, l.name}] = l.foreign
	}
	for _, r := range requests {
		at := key{r.Resource, r.Namespace, r.Name}
		isRemediation := r.Resource == resourceOf(rebooting) || r.Resource == resourceOf(reinstall)
		switch {
		case !m.ours(strings.TrimPrefix(r.Name, medik8s.LeasePrefix)):
		case others[at] && !slices.Contains([]string{"get", "list", "watch"}, r.Verb):
			problems = append(problems, fmt.Errorf("a foreign object was written to: %+v", r))
		case isRemediation && r.Verb == "create" && r.Code == 201:
			created[at]++
		case isRemediation && r.Verb == "delete" && r.UID == "" && !r.Unread:
			problems = append(problems, fmt.Errorf("a deletion insists on no UID: %+v", r))
		case isRemediation && r.Verb == "deletecollection":
			problems = append(problems, fmt.Errorf("many were deleted at once: %+v", r))
		}
	}
	for at, n := range created {
		if n > seen[at] {
			problems = append(problems, fmt.Errorf("%s %s was created %d times, and seen %d times", at.resource, at.name, n, seen[at]))
		}
	}
	return problems
}

// records: every ended repair says when and why it ended, and its words about requests are true.
func (m *monitor) records() []error {
	var problems []error
	for _, e := range m.entries {
		if e.taken {
			continue
		}
		requested := 0
		for _, o := range m.objects {
			if o.target == e.target && e.has(o.from) {
				requested++
			}
		}
		s := &e.last.Status
		switch {
		case s.FinishedAt == nil || s.Message == "":
			problems = append(problems, fmt.Errorf("repair %s does not say when and why it ended: %+v", e.name, s))
		case strings.Contains(s.Message, "nothing was done") && requested > 0:
			problems = append(problems, fmt.Errorf("repair %s says that nothing was done, and %d requests were made: %+v", e.name, requested, s))
		}
	}
	return problems
}
