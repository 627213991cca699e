package openshift

import (
	"slices"
	"strings"
)

// Matching a selector costs more than everything else that a change of the fleet does. So each
// machine knows the health checks that select it, and only what has changed is matched again: a
// machine against the health checks of its namespace, or a health check against the machines.

// place is where a machine stands in the roster, or would.
func (f *fleet) place(key string) (int, bool) {
	return slices.BinarySearchFunc(f.roster, key, func(m *machine, key string) int {
		return strings.Compare(m.key, key)
	})
}

// list puts a machine into the roster, in the place of an earlier version of it.
func (f *fleet) list(key string, m *machine) {
	m.key = key
	i, listed := f.place(key)
	if listed {
		f.roster[i] = m
		return
	}
	f.roster = slices.Insert(f.roster, i, m)
	f.arranged = false
}

// selection is what one selector selects. Machines point to it. So a health check that comes, or goes, or gets another
// selector, costs one look at each machine, however many others select it too: anyone who may write health checks could
// have that cost more than all else.
type selection struct {
	// members are the places of the machines in the roster.
	members []int
	// over is set once no health check has it any more. Machines point to it until they are swept.
	over bool
}

// assign finds the health checks that select a machine: those of its namespace whose selector
// matches (docs/reference/openshift.md#spec).
func (f *fleet) assign(m *machine) {
	m.selectedBy = nil
	for _, check := range f.checks {
		if check.selects(m) {
			m.selectedBy = append(m.selectedBy, check.selection)
		}
	}
	f.arranged = false
}

// enrol finds the machines that a new health check selects, or one with a new selector.
func (f *fleet) enrol(check *healthCheck) {
	check.selection = &selection{}
	for _, m := range f.roster {
		if check.selects(m) {
			m.selectedBy = append(m.selectedBy, check.selection)
		}
	}
	f.arranged = false
}

// dismiss ends the selection of a health check that is gone or has another, nil for none. Machines are swept once more selections are over than health checks are left.
func (f *fleet) dismiss(check *healthCheck) {
	if check == nil {
		return
	}
	check.selection.over = true
	f.arranged = false
	f.over++
	if f.over <= len(f.checks) {
		return
	}
	f.over = 0
	for _, m := range f.roster {
		m.selectedBy = slices.DeleteFunc(m.selectedBy, func(s *selection) bool { return s.over })
	}
}

func (h *healthCheck) selects(m *machine) bool {
	return h.policy.ID.Namespace == m.target.ID.Namespace && h.selector.Matches(m.labels)
}

// arrange numbers the members of each health check by their place in the roster.
func (f *fleet) arrange() {
	for _, check := range f.checks {
		check.selection.members = make([]int, 0, len(check.selection.members))
	}
	for i, m := range f.roster {
		for _, s := range m.selectedBy {
			if !s.over {
				s.members = append(s.members, i)
			}
		}
	}
	f.arranged = true
}
