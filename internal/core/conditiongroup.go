package core

import (
	"slices"
	"strings"
	"time"
)

// match is the result of comparing a test with the conditions of a node. Since is the latest time
// of the conditions that the test is about.
type match struct {
	holds, untimed bool
	since          time.Time
}

// match compares the test with conditions. The API server accepts nodes with several conditions of
// one type: the test must hold for each of them.
func (c *ConditionTest) match(have []Condition) match {
	m := match{holds: c.Missing}
	for i := range have {
		switch h := &have[i]; {
		case h.Type != c.Type:
		case c.Missing, h.Status != c.Status, !matchesPattern(c.Reason, h.Reason):
			return match{}
		default:
			m.holds, m.untimed = true, m.untimed || h.Since.IsZero()
			m.since = latest(m.since, h.Since)
		}
	}
	return m
}

// matchesPattern reports whether the whole reason matches the pattern. It takes at most as many
// steps as the product of their lengths.
func matchesPattern(pattern, reason string) bool {
	if pattern == "" {
		return true
	}
	first, rest, wild := strings.Cut(pattern, "*")
	if !wild {
		return reason == pattern
	}
	reason, begins := strings.CutPrefix(reason, first)
	if !begins {
		return false
	}
	for {
		part, after, more := strings.Cut(rest, "*")
		if !more {
			return strings.HasSuffix(reason, part)
		}
		at := strings.Index(reason, part)
		if at < 0 {
			return false
		}
		reason, rest = reason[at+len(part):], after
	}
}

// forgottenText explains that the controller doesn't know since when a test holds.
const forgottenText = "health checks ask for more conditions of its node that are missing or have a reason than the controller remembers of one node; " +
	"have them ask for fewer, or delete health checks that are not needed"

// groupsHeld returns the finding of the first group that makes the node unhealthy, or else the
// worst finding.
func groupsHeld(groups []ConditionGroup, t *Target, now time.Time) (finding, bool) {
	var worst finding
	found := false
	if t.Node.State != NodePresent { // every condition of such a node is missing
		return worst, false
	}
	for i := range groups {
		f, matches := groupHeld(&groups[i], t, now)
		switch {
		case !matches:
		case f.health == Unhealthy:
			return f, true
		case !found || worse(f, worst):
			worst, found = f, true
		}
	}
	return worst, found
}

// groupHeld returns the finding of one group. Its clock starts when the last of its tests began to
// hold.
func groupHeld(g *ConditionGroup, t *Target, now time.Time) (finding, bool) {
	f := finding{reason: ConditionsMet, limit: g.For}
	var untimed *ConditionTest
	unseen := false // a test holds that no pass has seen hold before
	for i := range g.Tests {
		test := &g.Tests[i]
		m := test.match(t.Node.Conditions)
		if !m.holds {
			return finding{}, false
		}
		f.since = latest(f.since, m.since)
		switch {
		case test.Remembered():
			seen := t.seenTest(test).Since
			unseen = unseen || seen.IsZero()
			f.since = latest(f.since, seen)
		case m.untimed && g.For > 0 && untimed == nil:
			untimed = test
		}
	}
	switch {
	case len(g.Tests) == 0:
		return finding{}, false
	case untimed != nil:
		of := &ConditionCriterion{Type: untimed.Type, Status: untimed.Status, For: g.For}
		return finding{health: Undetermined, reason: ConditionUntimed, limit: g.For, criterion: of}, true
	case unseen && t.forgotten():
		return finding{health: Undetermined, reason: TargetUnreadable, detail: forgottenText}, true
	}
	from := f.since
	if unseen {
		from, f.since = latest(from, now), time.Time{}
	}
	f.detail = g.String()
	f.health, f.until = deadline(from, g.For, now)
	return f, true
}

// mayBeOlder reports whether a group holds whose beginning no pass has seen. It may have begun to
// hold long before the time that Fettle reports.
func (c *Criteria) mayBeOlder(t *Target) bool {
	return slices.ContainsFunc(c.Groups, func(g ConditionGroup) bool {
		_, holds := g.datedSince(t)
		return holds && slices.ContainsFunc(g.Tests, func(test ConditionTest) bool { return test.Remembered() && !t.seenTest(&test).StartSeen })
	})
}

// datedSince returns the earliest time at which one of the groups may have begun to hold; zero when
// it is not known. It reads only the times of conditions. A time that a pass has seen may be long
// after the beginning, because of a restart.
func (c *Criteria) datedSince(t *Target) time.Time {
	var earliest time.Time
	for i := range c.Groups {
		since, holds := c.Groups[i].datedSince(t)
		switch {
		case !holds:
		case since.IsZero():
			return time.Time{}
		case earliest.IsZero() || since.Before(earliest):
			earliest = since
		}
	}
	return earliest
}

// datedSince returns since when a group may hold by the times of conditions, and reports whether it
// holds.
func (g *ConditionGroup) datedSince(t *Target) (since time.Time, holds bool) {
	for i := range g.Tests {
		m := g.Tests[i].match(t.Node.Conditions)
		if !m.holds {
			return time.Time{}, false
		}
		since = latest(since, m.since)
	}
	return since, len(g.Tests) > 0
}

// seenTest returns the SeenTest of a test for the target's node, or the zero SeenTest.
func (t *Target) seenTest(test *ConditionTest) SeenTest {
	for i := range t.TestsSeen {
		if s := &t.TestsSeen[i]; s.Test == *test && s.Node == t.Node.UID {
			return *s
		}
	}
	return SeenTest{}
}

// forgotten reports whether the target has as many remembered tests as it may have. The beginning
// of any further test is not known.
func (t *Target) forgotten() bool { return len(t.TestsSeen) >= maxTestsSeen }
