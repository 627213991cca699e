package nhc

import (
	"slices"
	"strings"

	"github.com/fettle-io/fettle/internal/core"
	"github.com/fettle-io/fettle/internal/node"
)

// Matching a selector costs more than everything else that a change of the fleet does. So each node
// knows the health checks that select it, and only what has changed is matched again: a relabelled node
// against the health checks, or a new health check against the nodes.

// seat is the place of a node in the roster.
type seat struct {
	seen node.Sighting
	// selectedBy are the names of the health checks that select it, in order.
	selectedBy []string
}

// place is where a node stands in the roster, or would.
func (f *fleet) place(name string) (int, bool) {
	return slices.BinarySearchFunc(f.roster, name, func(s *seat, name string) int {
		return strings.Compare(s.seen.Name(), name)
	})
}

// list puts a node into the roster that is not there.
func (f *fleet) list(s *seat) {
	i, _ := f.place(s.seen.Name())
	f.roster = slices.Insert(f.roster, i, s)
}

// strike takes a node out of the roster.
func (f *fleet) strike(name string) {
	if i, listed := f.place(name); listed {
		f.roster = slices.Delete(f.roster, i, i+1)
	}
}

// assign finds the health checks that select a node, and tells whether those are others than before.
func (f *fleet) assign(s *seat) bool {
	var by []string
	for name, c := range f.checks {
		if c.selector.Matches(s.seen.Labels()) {
			by = append(by, name)
		}
	}
	slices.Sort(by)
	if slices.Equal(by, s.selectedBy) {
		return false
	}
	s.selectedBy, f.arranged = by, false
	return true
}

// enrol finds the nodes that a new health check selects, or one with a new selector.
func (f *fleet) enrol(name string, c *healthCheck) {
	f.dismiss(name)
	for _, s := range f.roster {
		if c.selector.Matches(s.seen.Labels()) {
			i, _ := slices.BinarySearch(s.selectedBy, name)
			s.selectedBy = slices.Insert(slices.Clip(s.selectedBy), i, name)
		}
	}
}

// dismiss tells all nodes that a health check does not select them any more.
func (f *fleet) dismiss(name string) {
	for _, s := range f.roster {
		if i, found := slices.BinarySearch(s.selectedBy, name); found {
			s.selectedBy = slices.Concat(s.selectedBy[:i], s.selectedBy[i+1:])
		}
	}
	f.arranged = false
}

// arrange numbers the nodes that are selected, and the members of each health check by that.
func (f *fleet) arrange() {
	for _, c := range f.checks {
		c.members = []int{}
	}
	f.selected = nil
	for _, s := range f.roster {
		if len(s.selectedBy) == 0 {
			continue
		}
		for _, name := range s.selectedBy {
			c := f.checks[name]
			c.members = append(c.members, len(f.selected))
		}
		f.selected = append(f.selected, s)
	}
	f.targets = make([]core.Target, len(f.selected))
	f.arranged = true
}
