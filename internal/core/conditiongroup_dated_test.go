package core

import (
	"testing"
	"time"
)

// TestDatesOfGroups: the earliest group that holds counts, by the times of conditions. A group whose
// beginning was not seen may be older than that.
func TestDatesOfGroups(t *testing.T) {
	now := time.Date(2026, time.August, 3, 12, 0, 0, 0, time.UTC)
	test := func(kind string) ConditionTest { return ConditionTest{Type: kind, Status: "True"} }
	reasoned, missing := ConditionTest{Type: "Frozen", Status: "True", Reason: "Hung"}, ConditionTest{Type: "Agent", Missing: true}
	target := func(seen ...SeenTest) Target {
		return Target{TestsSeen: seen, Node: Node{State: NodePresent, UID: "n", Conditions: []Condition{
			{Type: "Old", Status: "True", Since: now.Add(-time.Hour)}, {Type: "New", Status: "True", Since: now},
			{Type: "Frozen", Status: "True", Reason: "Hung", Since: now.Add(-time.Minute)},
			{Type: "Well", Status: "False", Since: now.Add(-2 * time.Hour)},
		}}}
	}
	seen := func(test ConditionTest, start bool) SeenTest {
		return SeenTest{Test: test, Node: "n", Since: now, StartSeen: start}
	}
	for name, c := range map[string]struct {
		groups [][]ConditionTest
		target Target
		since  time.Duration // before now; negative for an unknown time
		older  bool
	}{
		"one test":                            {[][]ConditionTest{{test("Old")}}, target(), time.Hour, false},
		"two groups":                          {[][]ConditionTest{{test("New")}, {test("Old")}}, target(), time.Hour, false},
		"two groups, the older one first":     {[][]ConditionTest{{test("Old")}, {test("New")}}, target(), time.Hour, false},
		"two tests":                           {[][]ConditionTest{{test("Old"), test("New")}}, target(), 0, false},
		"a group that does not hold":          {[][]ConditionTest{{test("Well")}, {test("New")}}, target(), 0, false},
		"a group that holds in part":          {[][]ConditionTest{{test("Old"), test("Well")}, {test("New")}}, target(), 0, false},
		"a group without tests":               {[][]ConditionTest{{}, {test("New")}}, target(), 0, false},
		"a group without a time":              {[][]ConditionTest{{missing}, {test("New")}}, target(seen(missing, true)), -1, false},
		"a reason that was not seen":          {[][]ConditionTest{{reasoned}}, target(), time.Minute, true},
		"a reason whose beginning was seen":   {[][]ConditionTest{{reasoned}}, target(seen(reasoned, true)), time.Minute, false},
		"a reason whose beginning was missed": {[][]ConditionTest{{reasoned}}, target(seen(reasoned, false)), time.Minute, true},
		"a missed group does not hold":        {[][]ConditionTest{{reasoned, test("Well")}, {test("New")}}, target(), 0, false},
	} {
		var criteria Criteria
		for _, tests := range c.groups {
			criteria.Groups = append(criteria.Groups, ConditionGroup{Tests: tests})
		}
		want := now.Add(-c.since)
		if c.since < 0 {
			want = time.Time{}
		}
		if got := criteria.datedSince(&c.target); !got.Equal(want) {
			t.Errorf("%s: since %s, want %s", name, got, want)
		}
		if got := criteria.mayBeOlder(&c.target); got != c.older {
			t.Errorf("%s: it may be older: %t", name, got)
		}
	}
	if since, holds := (&ConditionGroup{}).datedSince(&Target{}); holds || !since.IsZero() {
		t.Error("a group without tests holds")
	}
}
