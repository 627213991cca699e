package core

import (
	"slices"
	"time"
)

// testCoverage has the tests that a pass has looked at, by the UID of the target.
type testCoverage map[string]nodeTests

// nodeTests are the tests that a pass has looked at for a node: those of each policy.
type nodeTests struct {
	node  string
	tests [][]ConditionTest
}

// has reports whether the pass has looked at a test for the node of a target.
func (c testCoverage) has(t *Target, test *ConditionTest) bool {
	of := c[t.ID.UID]
	return of.node == t.Node.UID && slices.ContainsFunc(of.tests, func(tests []ConditionTest) bool { return slices.Contains(tests, *test) })
}

// OverlayTests sets since when the tests of its policies have been seen to hold for each target, and forgets tests that
// hold no more. It remembers neither tests nor absent nodes across a cluster that was not observed, for they may have
// come and gone meanwhile (I5). Without memory they count anew (I6).
func (m *Expectations) OverlayTests(policies []Policy, f *Cluster, now time.Time) {
	known, before := m.tests, m.coverage
	m.tests, m.coverage = nil, nil
	if f.Observed != Yes {
		m.goneNodes = nil
		return
	}
	for _, i := range ByRank(policies) { // so the tests of an older policy of a namespace are remembered first
		tests := policies[i].Criteria.rememberedTests()
		if len(tests) == 0 {
			continue
		}
		for _, member := range policies[i].Members {
			if member >= 0 && member < len(f.Targets) {
				m.seeTests(&f.Targets[member], tests, known, before, now)
			}
		}
	}
	if m.tests == nil {
		return
	}
	for i := range f.Targets {
		f.Targets[i].TestsSeen = m.tests[f.Targets[i].ID.UID]
	}
}

// rememberedTests returns the tests whose beginning no time of a node tells.
func (c *Criteria) rememberedTests() []ConditionTest {
	var tests []ConditionTest
	for i := range c.Groups {
		for _, test := range c.Groups[i].Tests {
			if test.Remembered() {
				tests = append(tests, test)
			}
		}
	}
	return tests
}

// seeTests notes which tests hold for a target's node, since the time that was known, or else since now. It notes none beyond the bound, and
// looks at no test from there on.
func (m *Expectations) seeTests(t *Target, tests []ConditionTest, known map[string][]SeenTest, before testCoverage, now time.Time) {
	if !t.Node.readWhole() {
		return
	}
	looked := len(tests)
	for i := range tests {
		test := &tests[i]
		about := func(s SeenTest) bool { return s.Test == *test && s.Node == t.Node.UID }
		if !test.match(t.Node.Conditions).holds || slices.ContainsFunc(m.tests[t.ID.UID], about) {
			continue
		}
		if len(m.tests[t.ID.UID]) >= maxTestsSeen {
			looked = i
			break
		}
		seen := SeenTest{*test, t.Node.UID, now, false}
		had := known[t.ID.UID]
		if at := slices.IndexFunc(had, about); at >= 0 {
			seen.Since, seen.StartSeen = seenBy(had[at].Since, now), had[at].StartSeen
		} else {
			seen.StartSeen = before.has(t, test)
		}
		if m.tests == nil {
			m.tests = make(map[string][]SeenTest, len(known))
		}
		m.tests[t.ID.UID] = append(m.tests[t.ID.UID], seen)
	}
	if m.coverage == nil {
		m.coverage = make(testCoverage, len(before))
	}
	m.coverage[t.ID.UID] = nodeTests{t.Node.UID, append(m.coverage[t.ID.UID].tests, tests[:looked])}
}

// readWhole reports whether all conditions of the node are known.
func (n *Node) readWhole() bool { return n.State == NodePresent && n.Unread == "" }

// dropTests forgets the tests that a live read of the target's node has shown not to hold.
func (m *Expectations) dropTests(t *Target) {
	had := m.tests[t.ID.UID]
	if len(had) == 0 {
		return
	}
	m.tests[t.ID.UID] = slices.DeleteFunc(slices.Clone(had), func(s SeenTest) bool {
		return !t.Node.readWhole() || s.Node != t.Node.UID || !s.Test.match(t.Node.Conditions).holds
	})
}
