package node

import (
	"slices"
	"strings"
	"testing"
)

func TestReferences(t *testing.T) {
	var c References
	disputed := func(node string, want bool) {
		t.Helper()
		if got := c.Conflict(node, ""); (got != "") != want || (want && !strings.Contains(got, node)) {
			t.Errorf("of node %q it says %q, want something %t", node, got, want)
		}
	}
	c.Move("x", "", "a")
	c.Move("x", "", "b")
	c.Move("x", "", "")
	disputed("a", false)
	disputed("", false)
	c.Move("x", "b", "a")
	disputed("a", true)
	disputed("b", false)
	c.Move("x", "a", "a")
	c.Move("x", "a", "")
	disputed("a", false)
	for range 3 {
		c.Move("x", "", "d")
	}
	c.Move("x", "d", "")
	disputed("d", true)
	c.Move("x", "d", "")
	disputed("d", false)
	c.Move("x", "", "d")
	disputed("d", true)
	c.Move("x", "d", "")
	c.Move("x", "d", "")
	c.Move("x", "a", "")
	c.Move("x", "e", "e") // it refers to e as before
	c.Move("x", "", "e")
	disputed("e", false)
	c.Move("x", "e", "")
	if len(c.nodes) != 0 {
		t.Errorf("of nodes that no machine refers to is kept: %v", c.nodes)
	}
}

// TestReferencesByNamespace: machines are counted by namespace, in any order of changes.
func TestReferencesByNamespace(t *testing.T) {
	for _, order := range [][]string{{"x", "y", "y", "z"}, {"y", "x", "y", "z"}, {"z", "y", "y", "x"}} {
		var c References
		disputed := func(want ...string) {
			t.Helper()
			var got []string
			for _, namespace := range []string{"", "x", "y", "z"} {
				if c.Conflict("a", namespace) != "" {
					got = append(got, namespace)
				}
			}
			if !slices.Equal(got, want) {
				t.Errorf("%v: it is disputed in %q, want %q", order, got, want)
			}
		}
		for _, namespace := range order {
			c.Move(namespace, "", "a")
		}
		disputed("", "y")
		c.Move("y", "a", "")
		disputed("")
		c.Move("x", "a", "")
		disputed("")
		c.Move("z", "a", "")
		disputed()
		c.Move("y", "a", "")
		if len(c.nodes) != 0 {
			t.Errorf("%v: of nodes that no machine refers to is kept: %v", order, c.nodes)
		}
	}
}

// TestReferencesForgetNamespaces: a namespace without machines that refer to the node is not kept. It
// would stand for the machines of the others.
func TestReferencesForgetNamespaces(t *testing.T) {
	var c References
	for _, namespace := range []string{"x", "y", "z", "z"} {
		c.Move(namespace, "", "a")
	}
	c.Move("y", "a", "")
	if others := c.nodes["a"].others; len(others) != 1 || others["z"] != 2 {
		t.Errorf("besides the first namespace it keeps %v", others)
	}
	c.Move("x", "a", "")
	if got := c.nodes["a"]; got.namespace != "z" || got.machines != 2 || len(got.others) != 0 {
		t.Errorf("it keeps %+v", got)
	}
}
