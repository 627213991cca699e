package capi

import (
	"slices"
	"strings"
)

// Matching a selector costs more than everything else that a change of the fleet does. So each machine knows the
// health checks that select it, and only what has changed is matched again: a machine against the health checks of its
// cluster, or a health check against the machines.

// place is where a machine stands in the roster, or would.
func (r *room) place(name string) (int, bool) {
	return slices.BinarySearchFunc(r.roster, name, func(m *machine, name string) int { return strings.Compare(m.Name, name) })
}

// selection is what one selector selects. Machines point to it. So a health check that comes, or goes, or gets another
// selector, costs one look at each machine, however many others select it too: anyone who may write health checks could
// have that cost more than all else.
type selection struct {
	// members are the places of the machines among the targets.
	members []int
	// over is set once no health check has it any more. Machines point to it until they are swept.
	over bool
}

// assign finds the health checks that select a machine.
func (r *room) assign(m *machine) {
	m.selectedBy = nil
	for _, check := range r.checks {
		if check.selector.Matches(m.Labels) {
			m.selectedBy = append(m.selectedBy, check.selection)
		}
	}
	r.arranged = false
}

// enrol finds the machines that a new health check selects, or one with a new selector.
func (r *room) enrol(check *healthCheck) {
	check.selection = &selection{}
	for _, m := range r.roster {
		if check.selector.Matches(m.Labels) {
			m.selectedBy = append(m.selectedBy, check.selection)
		}
	}
	r.arranged = false
}

// dismiss ends the selection of a health check that is gone or has another, nil for none. Machines are swept once more selections are over than health checks are left.
func (r *room) dismiss(check *healthCheck) {
	if check == nil {
		return
	}
	check.selection.over = true
	r.arranged = false
	r.over++
	if r.over <= len(r.checks) {
		return
	}
	r.over = 0
	for _, m := range r.roster {
		m.selectedBy = slices.DeleteFunc(m.selectedBy, func(s *selection) bool { return s.over })
	}
}

// arrange numbers the members of each health check by their place among the targets. Machines that somebody has taken
// out of health checking are no members: they count neither as healthy nor as unhealthy (docs/reference/cluster-api.md#targets).
func (r *room) arrange() {
	for _, check := range r.checks {
		check.selection.members = make([]int, 0, len(check.selection.members))
	}
	for i, m := range r.roster {
		if m.Skipped() {
			continue
		}
		for _, s := range m.selectedBy {
			if !s.over {
				s.members = append(s.members, i)
			}
		}
	}
	r.arranged = true
}
