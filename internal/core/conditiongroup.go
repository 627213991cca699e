package core

import (
	"slices"
	"strings"
	"time"
)

// match is how a test compares with the conditions of a node. Since is the last of the times of the conditions that it is about.
type match struct {
	holds, untimed bool
	since          time.Time
}

// match compares the test with conditions. The API server takes nodes with several conditions of one type: the test must hold for
// each of them.
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

// matchesPattern reports whether all of a reason matches the pattern. It takes at most as many steps as the product of their lengths.
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

// forgottenText says why it is not known since when a test holds.
const forgottenText = "health checks ask for more conditions of its node that are missing or have a reason than the controller remembers of one node; " +
	"have them ask for fewer, or delete health checks that are not needed"

// groupsHeld judges by the groups: the first that makes the node unhealthy, or else the worst.
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

// groupHeld judges by one group. Its clock runs since the last of its tests has held.
func groupHeld(g *ConditionGroup, t *Target, now time.Time) (finding, bool) {
	f := finding{reason: ConditionsMet, limit: g.For}
	var untimed *ConditionTest
	unseen := false // a test holds that has not been seen to
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

// mayBeOlder reports whether a group holds of which Fettle has not seen the beginning, so that it may have begun long before Fettle
// says so.
func (c *Criteria) mayBeOlder(t *Target) bool {
	return slices.ContainsFunc(c.Groups, func(g ConditionGroup) bool {
		_, holds := g.datedSince(t)
		return holds && slices.ContainsFunc(g.Tests, func(test ConditionTest) bool { return test.Remembered() && !t.seenTest(&test).StartSeen })
	})
}

// datedSince returns the earliest time at which one of the groups may have begun to hold, by the times of the node's conditions alone;
// zero where these don't tell. What Fettle has seen itself may have begun long before a restart.
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

// datedSince returns since when a group may hold by the times of conditions, and reports whether it holds.
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

// seenTest returns what has been seen of a test for the target's node; the zero SeenTest when it was not seen to hold.
func (t *Target) seenTest(test *ConditionTest) SeenTest {
	for i := range t.TestsSeen {
		if s := &t.TestsSeen[i]; s.Test == *test && s.Node == t.Node.UID {
			return *s
		}
	}
	return SeenTest{}
}

// forgotten reports whether no more tests are remembered of the target, so that it will not be known since when another holds.
func (t *Target) forgotten() bool { return len(t.TestsSeen) >= maxTestsSeen }
