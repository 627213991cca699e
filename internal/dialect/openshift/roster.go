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

// assign finds the health checks that select a machine: those of its namespace whose selector
// matches (reference openshift 1.1).
func (f *fleet) assign(m *machine) {
	m.selectedBy = nil
	for key, check := range f.checks {
		if check.selects(m) {
			m.selectedBy = append(m.selectedBy, key)
		}
	}
	f.arranged = false
}

// enrol finds the machines that a new health check selects, or one with a new selector.
func (f *fleet) enrol(key string, check *healthCheck) {
	f.dismiss(key)
	for _, m := range f.roster {
		if check.selects(m) {
			m.selectedBy = append(slices.Clip(m.selectedBy), key)
		}
	}
}

// dismiss tells all machines that a health check does not select them any more.
func (f *fleet) dismiss(key string) {
	for _, m := range f.roster {
		if i := slices.Index(m.selectedBy, key); i >= 0 {
			m.selectedBy = slices.Concat(m.selectedBy[:i], m.selectedBy[i+1:])
		}
	}
	f.arranged = false
}

func (h *healthCheck) selects(m *machine) bool {
	return h.policy.ID.Namespace == m.target.ID.Namespace && h.selector.Matches(m.labels)
}

// arrange numbers the members of each health check by their place in the roster.
func (f *fleet) arrange() {
	for _, check := range f.checks {
		check.members = []int{}
	}
	for i, m := range f.roster {
		for _, key := range m.selectedBy {
			if check := f.checks[key]; check != nil {
				check.members = append(check.members, i)
			}
		}
	}
	f.arranged = true
}
