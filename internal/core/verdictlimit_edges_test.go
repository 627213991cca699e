package core_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/fettle-io/fettle/internal/core"
)

// TestLimitOfVerdicts: as many are made as are allowed, and a policy counts for one beside its members.
func TestLimitOfVerdicts(t *testing.T) {
	for most, want := range map[int][]bool{5: {false, false}, 4: {false, true}, 3: {false, true}, 2: {true, true}} {
		policies := []core.Policy{policy("old", []int{0, 1}, since(ago(time.Hour))), policy("young", []int{2}, since(ago(time.Minute)))}
		targets := machines(3, 0)
		core.LimitVerdicts(policies, targets, most)
		var got []bool
		for i, p := range policies {
			got = append(got, p.Unjudged)
			if (p.Members == nil) != p.Unjudged || p.Unjudged && p.Selected != 2-i {
				t.Errorf("%d verdicts: %s has the members %v of %d", most, p.ID, p.Members, p.Selected)
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%d verdicts: policies that are not judged (-want +got):\n%s", most, diff)
		}
	}
}

// TestFirstUnjudgedPolicyOfATarget: of several it is the first by ID, whatever their ages are, and the same for all targets of a group.
func TestFirstUnjudgedPolicyOfATarget(t *testing.T) {
	policies := []core.Policy{
		policy("a", []int{0, 3, -1}, since(ago(time.Minute))), policy("b", []int{1, 0, 2, 4}, since(ago(time.Hour))), policy("c", []int{1, 3}, since(ago(time.Second))),
	}
	targets := []core.Target{machine("m-0"), machine("m-1"), aNode("n"), machine("m-3", func(t *core.Target) { t.Node.Name = "n" })}
	core.LimitVerdicts(policies, targets, 0)
	var got []string
	for _, m := range targets {
		got = append(got, m.UnjudgedPolicy.Name)
	}
	if diff := cmp.Diff([]string{"a", "b", "a", "a"}, got); diff != "" {
		t.Errorf("policies that are not judged (-want +got):\n%s", diff)
	}
	targets = []core.Target{machine("m-0", func(t *core.Target) { t.Node.Name = "n" }), aNode("n")}
	policies = []core.Policy{policy("a", []int{0}), policy("b", []int{1})}
	core.LimitVerdicts(policies, targets, 0)
	if a, b := targets[0].UnjudgedPolicy.Name, targets[1].UnjudgedPolicy.Name; a != "a" || b != "a" {
		t.Errorf("the targets of a group are held back by %s and %s", a, b)
	}
}
