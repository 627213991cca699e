package core

import (
	"fmt"
	"testing"
	"time"
)

// remembers returns a policy of some targets with tests whose beginnings have to be remembered.
func remembers(name string, members []int, tests ...ConditionTest) Policy {
	return Policy{ID: ID{Name: name}, Created: atNoon, Members: members, Criteria: Criteria{Groups: []ConditionGroup{{Tests: tests}}}}
}

// hung returns a test that holds while the condition has a reason. gone returns a test that holds while there is no condition.
func hung(kind string) ConditionTest {
	return ConditionTest{Type: kind, Status: "True", Reason: "Hung"}
}
func gone(kind string) ConditionTest { return ConditionTest{Type: kind, Missing: true} }

func isHung(kinds ...string) func(*Target) {
	return func(t *Target) {
		for _, kind := range kinds {
			t.Node.Conditions = append(t.Node.Conditions, Condition{Type: kind, Status: "True", Reason: "Hung"})
		}
	}
}

// TestWhichTestsWereSeenToBegin: a test was, where the pass before has looked at it for the same node and it did not hold.
func TestWhichTestsWereSeenToBegin(t *testing.T) {
	n, x := nodeTarget("n", "True"), nodeTarget("x", "True")
	sick := nodeTarget("n", "True", isHung("A"))
	a, b := hung("A"), hung("B")
	dated := ConditionTest{Type: "A", Status: "True"}
	for name, c := range map[string]struct {
		before []Policy
		target Target
		want   bool
	}{
		"it was looked at":                     {[]Policy{remembers("p", []int{0}, a)}, n, true},
		"and another as well":                  {[]Policy{remembers("q", []int{0}, b), remembers("p", []int{0}, a)}, n, true},
		"nothing was":                          {nil, n, false},
		"another test was":                     {[]Policy{remembers("p", []int{0}, b)}, n, false},
		"for another target":                   {[]Policy{remembers("p", []int{1}, a)}, n, false},
		"for none, and another for the target": {[]Policy{remembers("p", nil, a), remembers("q", []int{0}, b)}, n, false},
		"for another, and another for it":      {[]Policy{remembers("p", []int{1}, a), remembers("q", []int{0}, b)}, n, false},
		"for another, and a dated one for it":  {[]Policy{remembers("p", []int{1}, a), remembers("q", []int{0}, dated)}, n, false},
		"for members that are no targets":      {[]Policy{remembers("p", []int{-1, 2}, a), remembers("q", []int{0}, b)}, n, false},
		"while there was no node":              {[]Policy{remembers("p", []int{0}, a)}, nodeTarget("n", "True", func(t *Target) { t.Node.State = NodeUnseen }), false},
		"of which a part was read":             {[]Policy{remembers("p", []int{0}, a)}, nodeTarget("n", "True", func(t *Target) { t.Node.Unread = "too many" }), false},
	} {
		var m Expectations
		m.OverlayTests(c.before, observed([]Target{c.target, x}, nil), atNoon)
		f := observed([]Target{sick, x}, nil)
		m.OverlayTests([]Policy{remembers("p", []int{0}, a)}, f, atNoon.Add(time.Minute))
		if got := f.Targets[0].TestsSeen; len(got) != 1 || got[0].StartSeen != c.want || !got[0].Since.Equal(atNoon.Add(time.Minute)) {
			t.Errorf("%s: seen are %+v, and its beginning was to be seen: %t", name, got, c.want)
		}
		m = Expectations{}
		m.OverlayTests(c.before, &Cluster{Targets: []Target{c.target, x}}, atNoon)
		m.OverlayTests([]Policy{remembers("p", []int{0}, a)}, f, atNoon.Add(time.Minute))
		if got := f.Targets[0].TestsSeen; len(got) != 1 || got[0].StartSeen {
			t.Errorf("%s: the cluster was not observed, and seen are %+v", name, got)
		}
	}
}

// TestTestsOfNodesThatAreNotRead: nothing is remembered of them, also no condition that is missing.
func TestTestsOfNodesThatAreNotRead(t *testing.T) {
	for state, want := range map[NodeState]int{NodePresent: 1, NodeUnseen: 0, NodeGone: 0, NodeAwaited: 0} {
		var m Expectations
		f := observed([]Target{nodeTarget("n", "True", func(t *Target) { t.Node.State = state })}, nil)
		m.OverlayTests([]Policy{remembers("p", []int{0}, gone("Agent"), gone("Agent"))}, f, atNoon)
		if got := f.Targets[0].TestsSeen; len(got) != want {
			t.Errorf("of a node that is %s %d tests are remembered, want %d", state, len(got), want)
		}
	}
}

// TestTestsBeyondTheBound: a test that was not looked at, since as many as are remembered held, was not seen to begin later.
func TestTestsBeyondTheBound(t *testing.T) {
	var many []ConditionTest
	for i := range maxTestsSeen {
		many = append(many, gone(fmt.Sprint("Agent-", i)))
	}
	a, b, c := hung("A"), hung("B"), hung("C")
	at := func(minute int, p Policy) Policy {
		p.Created = atNoon.Add(time.Duration(minute) * time.Minute)
		return p
	}
	for name, tc := range map[string]struct {
		many []ConditionTest
		then string
		want bool
	}{
		"it held beyond the bound":          {many, "A", false},
		"it was behind that":                {many, "B", false},
		"it did not hold, in another check": {many, "C", true},
		"it held within the bound":          {many[1:], "A", false},
		"it did not hold, within the bound": {many[1:], "B", true},
	} {
		var m Expectations
		policies := []Policy{at(0, remembers("many", []int{0}, tc.many...)), at(1, remembers("a", []int{0}, a, b)), at(2, remembers("c", []int{0}, c))}
		f := observed([]Target{nodeTarget("n", "True", isHung("A"))}, nil)
		m.OverlayTests(policies, f, atNoon)
		if got := len(f.Targets[0].TestsSeen); got != maxTestsSeen {
			t.Errorf("%s: %d tests are remembered", name, got)
		}
		f = observed([]Target{nodeTarget("n", "True", isHung(tc.then))}, nil)
		m.OverlayTests(policies[1:], f, atNoon)
		if got := f.Targets[0].TestsSeen; len(got) != 1 || got[0].StartSeen != tc.want {
			t.Errorf("%s: then seen are %+v", name, got)
		}
	}
}
