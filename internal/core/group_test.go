package core_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/fettle-io/fettle/internal/core"
)

// TestGroupsOfTargets: targets of different kinds with one node are a group. A target without a node is
// alone, and so is each of several targets of one kind.
func TestGroupsOfTargets(t *testing.T) {
	machineOf := func(name, node string) core.Target {
		return machine(name, func(t *core.Target) { t.Node.Name = node })
	}
	for name, c := range map[string]struct {
		targets []core.Target
		want    []int
	}{
		"none":                    {nil, []int{}},
		"of one kind":             {[]core.Target{machineOf("a", "x"), machineOf("b", "x")}, []int{0, 1}},
		"a machine and its node":  {[]core.Target{machineOf("a", "x"), aNode("y"), aNode("x")}, []int{0, 1, 0}},
		"two machines of a node":  {[]core.Target{aNode("x"), machineOf("a", "x"), machineOf("b", "x")}, []int{0, 0, 0}},
		"machines without a node": {[]core.Target{aNode("x"), machineOf("a", ""), machineOf("b", "")}, []int{0, 1, 2}},
	} {
		if diff := cmp.Diff(c.want, core.Groups(c.targets)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// TestPoliciesSelecting: a policy selects a group by any of its targets.
func TestPoliciesSelecting(t *testing.T) {
	m := machine("m", func(t *core.Target) { t.Node.Name = "n" })
	f := core.Cluster{Targets: []core.Target{m, aNode("n"), aNode("other")}}
	policies := []core.Policy{policy("machines", []int{0}), policy("nodes", []int{1}), policy("others", []int{2}), policy("none", nil)}
	for name, c := range map[string]struct{ targets, want []int }{
		"no target":   {nil, nil},
		"the machine": {[]int{0}, []int{0, 1}},
		"its node":    {[]int{1}, []int{0, 1}},
		"another":     {[]int{2}, []int{2}},
		"all":         {[]int{0, 1, 2}, []int{0, 1, 2}},
	} {
		if diff := cmp.Diff(c.want, core.PoliciesSelecting(policies, &f, c.targets)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// TestSiblings: the sibling of a target has another kind and the same node, and its facts can be read.
func TestSiblings(t *testing.T) {
	m := machine("m", func(t *core.Target) { t.Node.Name = "n" })
	unread := m
	unread.Problem = "it is broken"
	for name, c := range map[string]struct {
		targets []core.Target
		want    string
	}{
		"a node and its machine":       {[]core.Target{aNode("n"), aNode("n"), m}, "m"},
		"a node of another machine":    {[]core.Target{aNode("n"), machine("m")}, ""},
		"a machine that can't be read": {[]core.Target{aNode("n"), unread}, ""},
		"machines without a node":      {[]core.Target{machine("a", awaited(noon)), aNode("", func(t *core.Target) { t.Node.Name = "" })}, ""},
	} {
		if got := core.SiblingOf(&core.Cluster{Targets: c.targets}, 0); got.Name != c.want || (c.want == "") != (got == core.ID{}) {
			t.Errorf("%s: the sibling is %v, want %q", name, got, c.want)
		}
	}
}
