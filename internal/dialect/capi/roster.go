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

// assign finds the health checks that select a machine.
func (r *room) assign(m *machine) {
	m.selectedBy = nil
	for name, check := range r.checks {
		if check.selector.Matches(m.Labels) {
			m.selectedBy = append(m.selectedBy, name)
		}
	}
	r.arranged = false
}

// enrol finds the machines that a new health check selects, or one with a new selector.
func (r *room) enrol(name string, check *healthCheck) {
	r.dismiss(name)
	for _, m := range r.roster {
		if check.selector.Matches(m.Labels) {
			m.selectedBy = append(slices.Clip(m.selectedBy), name)
		}
	}
}

// dismiss tells all machines that a health check does not select them any more.
func (r *room) dismiss(name string) {
	for _, m := range r.roster {
		if i := slices.Index(m.selectedBy, name); i >= 0 {
			m.selectedBy = slices.Concat(m.selectedBy[:i], m.selectedBy[i+1:])
		}
	}
	r.arranged = false
}

// arrange numbers the members of each health check by their place among the targets. Machines that somebody has taken
// out of health checking are no members: they count neither as healthy nor as unhealthy (reference cluster-api 2.2).
func (r *room) arrange() {
	for _, check := range r.checks {
		check.members = []int{}
	}
	for i, m := range r.roster {
		if m.Skipped() {
			continue
		}
		for _, name := range m.selectedBy {
			if check := r.checks[name]; check != nil {
				check.members = append(check.members, i)
			}
		}
	}
	r.arranged = true
}
