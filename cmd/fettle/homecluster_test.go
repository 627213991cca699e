package main

import (
	"testing"

	"github.com/fettle-io/fettle/internal/core"
)

// fakeDialect acts on all nodes or on none.
type fakeDialect struct{ acts, has core.Tri }

func (n *fakeDialect) Acts() core.Tri { return n.acts }

func (n *fakeDialect) ActsOn(map[string]string) core.Tri { return n.acts }

func (n *fakeDialect) HasAny(map[string]string) core.Tri { return n.has }

// TestHomeActsWhenAnyDialectDoes. While the answer of one dialect is unknown, and no other acts, it
// is unknown.
func TestHomeActsWhenAnyDialectDoes(t *testing.T) {
	nodes := map[string]string{"a": "a-uid"}
	for _, c := range [][3]core.Tri{
		{core.No, core.No, core.No}, {core.No, core.Yes, core.Yes}, {core.Unknown, core.Yes, core.Yes}, {core.Unknown, core.No, core.Unknown},
	} {
		for _, order := range [][2]core.Tri{{c[0], c[1]}, {c[1], c[0]}} {
			h := &homeCluster{dialects: []homeDialect{&fakeDialect{acts: order[0]}, &fakeDialect{acts: order[1]}}}
			if acts, on := h.Acts(), h.ActsOn(nodes); acts != c[2] || on != c[2] {
				t.Errorf("of %v it acts: %s, on nodes: %s, want %s", order, acts, on, c[2])
			}
		}
	}
	if h := (&homeCluster{}); h.Acts() != core.No || h.ActsOn(nodes) != core.No {
		t.Error("a home without dialects acts")
	}
}

// TestHomeActsOnNoNodesThatItLacks, also while its health checks are unknown.
func TestHomeActsOnNoNodesThatItLacks(t *testing.T) {
	for _, c := range [][3]core.Tri{
		{core.Unknown, core.Unknown, core.Unknown}, {core.Unknown, core.No, core.No}, {core.Unknown, core.Yes, core.Unknown},
		{core.No, core.Yes, core.Unknown}, {core.No, core.No, core.No},
	} {
		for _, order := range [][2]core.Tri{{c[0], c[1]}, {c[1], c[0]}} {
			h := &homeCluster{dialects: []homeDialect{&fakeDialect{has: order[0]}, &fakeDialect{has: order[1]}}}
			if got := h.ActsOn(map[string]string{"a": "a-uid"}); got != c[2] {
				t.Errorf("it has the nodes: %v; it acts on them: %s, want %s", order, got, c[2])
			}
		}
	}
	h := &homeCluster{dialects: []homeDialect{&fakeDialect{}}}
	if got := h.ActsOn(nil); got != core.No {
		t.Errorf("it acts on no nodes at all: %s", got)
	}
}

// TestHomeTurns once for each change.
func TestHomeTurns(t *testing.T) {
	n := &fakeDialect{}
	h := &homeCluster{dialects: []homeDialect{n}}
	if h.actsChanged() {
		t.Error("nothing is known, as at first, and it turns")
	}
	for _, acts := range []core.Tri{core.No, core.Yes, core.No} {
		n.acts = acts
		if !h.actsChanged() || h.actsChanged() {
			t.Errorf("it acts: %s, and it does not turn once", acts)
		}
	}
}
