package core_test

import (
	"slices"
	"time"

	"github.com/fettle-io/fettle/internal/core"
)

// The naive twin of the verdicts: slow, obvious, and written from the promises and not from the code.

// naiveHealth judges one target.
func naiveHealth(p *core.Policy, t *core.Target, now time.Time) string {
	if t.Deleting {
		return "gone"
	}
	return naiveState(p, t, now)
}

func naiveUnsound(p *core.Policy, t *core.Target, now time.Time) bool {
	return naiveState(p, t, now) != "healthy"
}

func naiveState(p *core.Policy, t *core.Target, now time.Time) string {
	if t.Problem != "" {
		return "unknown"
	}
	if t.RemediationRequested {
		return "unhealthy"
	}
	if t.Premature != "" && t.Node.State == core.NodePresent {
		return "healthy"
	} else if t.Premature != "" {
		return "suspect"
	}
	c := &p.Criteria
	suspect, unknown := t.ExternallyRemediated, false
	if t.Failed {
		return "unhealthy"
	}
	for _, want := range c.TargetConditions {
		switch naiveCondition(want, t.Conditions, now) {
		case "unhealthy":
			return "unhealthy"
		case "unknown":
			unknown = true
		case "suspect":
			suspect = true
		}
	}
	if unknown {
		return "unknown"
	}
	if t.Node.State == core.NodeGone {
		gone := t.NodeGoneSince
		if gone.IsZero() {
			gone = now
		}
		if now.Sub(gone) >= c.NodeGoneDelay {
			return "unhealthy"
		}
		return "suspect"
	}
	if t.Node.State == core.NodeUnseen {
		return "unknown"
	}
	if t.Node.State == core.NodeAwaited {
		if c.NodeStartup > 0 && !t.StartupFrom.IsZero() && now.Sub(t.StartupFrom) >= c.NodeStartup {
			return "unhealthy"
		}
		return "suspect"
	}
	if t.Node.Unread != "" && (len(c.Conditions) > 0 || len(c.Groups) > 0) {
		return "unknown"
	}
	words := []string{}
	for _, want := range c.Conditions {
		words = append(words, naiveCondition(want, t.Node.Conditions, now))
	}
	for _, group := range c.Groups {
		words = append(words, naiveGroup(group, t, now))
	}
	for _, word := range words {
		switch word {
		case "unhealthy":
			return "unhealthy"
		case "unknown":
			unknown = true
		case "suspect":
			suspect = true
		}
	}
	switch {
	case unknown:
		return "unknown"
	case suspect:
		return "suspect"
	}
	return "healthy"
}

// heeded returns the world as it is when each person's request that counts is a mark without a time.
func (w world) heeded() world {
	w.cluster.Targets = slices.Clone(w.cluster.Targets)
	for i := range w.cluster.Targets {
		w.cluster.Targets[i].RemediationRequested = w.cluster.Targets[i].RemediationRequested || w.naiveRequest(i)
	}
	return w
}

// naiveRequest reports whether a person's request for the repair of a target counts, where every repair deletes its target.
func (w world) naiveRequest(target int) bool {
	t := &w.cluster.Targets[target]
	q := t.RepairRequest
	if q.At.IsZero() || q.Unreadable || q.Ahead || t.Created.Sub(q.At) > time.Minute {
		return false
	}
	since := w.now
	var oldest *core.Repair
	for i := range w.cluster.Repairs {
		r := &w.cluster.Repairs[i]
		sharesNode := r.Target.Kind != t.ID.Kind && r.Node != "" && r.Node == t.Node.Name
		switch {
		case r.Target != t.ID && !sharesNode:
		case !r.Ended.IsZero():
			if !r.Ended.Before(q.At) || !r.Requested.Before(q.At) {
				return false
			}
		case oldest == nil || r.Started.Before(oldest.Started) || r.Started.Equal(oldest.Started) && r.Name < oldest.Name:
			oldest = r
		}
	}
	if oldest != nil {
		if !oldest.Recovered.IsZero() || len(oldest.Tried) >= len(oldest.Steps) {
			return false
		}
		if !oldest.Started.Before(q.At) || !oldest.Requested.Before(q.At) {
			since = oldest.Started
		}
	}
	return since.Sub(q.At) < time.Hour
}

// naiveCondition judges by one condition: by the mildest of the conditions of its type.
func naiveCondition(want core.ConditionCriterion, conditions []core.Condition, now time.Time) string {
	said := map[string]bool{}
	for _, have := range conditions {
		switch {
		case have.Type != want.Type:
		case have.Status != want.Status:
			said["healthy"] = true
		case want.For == 0 && !have.Since.After(now):
			said["unhealthy"] = true
		case have.Since.IsZero():
			said["unknown"] = true
		case now.Sub(have.Since) >= want.For:
			said["unhealthy"] = true
		default:
			said["suspect"] = true
		}
	}
	for _, word := range []string{"healthy", "unknown", "suspect", "unhealthy"} {
		if said[word] {
			return word
		}
	}
	return "healthy"
}

// naiveGroup judges by several conditions: at every instant of the whole time all of them must have held.
func naiveGroup(group core.ConditionGroup, t *core.Target, now time.Time) string {
	if len(group.Tests) == 0 {
		return "healthy"
	}
	known := true
	turned := time.Time{}
	for _, test := range group.Tests {
		var alike []core.Condition
		for _, have := range t.Node.Conditions {
			if have.Type == test.Type {
				alike = append(alike, have)
			}
		}
		if test.Missing != (len(alike) == 0) {
			return "healthy"
		}
		seen := now
		for _, s := range t.TestsSeen {
			if s.Test == test && s.Node == t.Node.UID && !s.Since.IsZero() {
				seen = s.Since
			}
		}
		if test.Missing {
			alike = []core.Condition{{Since: seen}}
		}
		for _, have := range alike {
			if !test.Missing && (have.Status != test.Status || !naiveGlob(test.Reason, have.Reason)) {
				return "healthy"
			}
			if test.Reason != "" && have.Since.Before(seen) {
				have.Since = seen
			}
			known = known && (group.For == 0 || !have.Since.IsZero())
			if have.Since.After(turned) {
				turned = have.Since
			}
		}
	}
	switch {
	case !known:
		return "unknown"
	case now.Sub(turned) >= group.For:
		return "unhealthy"
	}
	return "suspect"
}

// naiveGlob matches by trying every length of text for every *.
func naiveGlob(pattern, text string) bool {
	if pattern == "" {
		return true
	}
	var try func(p, s string) bool
	try = func(p, s string) bool {
		switch {
		case p == "":
			return s == ""
		case p[0] == '*':
			return try(p[1:], s) || s != "" && try(p, s[1:])
		}
		return s != "" && s[0] == p[0] && try(p[1:], s[1:])
	}
	return try(pattern, text)
}

// naiveFloor finds the largest number that does not exceed the amount, by counting.
func naiveFloor(a core.Amount, total int) int {
	if a.Unlimited {
		return total
	}
	if !a.Percent {
		return max(a.Number, 0)
	}
	n := 0
	for (n+1)*100 <= a.Number*total {
		n++
	}
	return n
}

// naiveMost is the most in flight: a share that is not zero allows at least one.
func naiveMost(a core.Amount, total int) int {
	n := naiveFloor(a, total)
	if a.Percent && a.Number > 0 && n == 0 {
		return 1
	}
	return n
}

// naiveResume is when the cooldown after a short circuit is over.
func naiveResume(p *core.Policy, unhealthy int, now time.Time) time.Time {
	first, last := p.Cooldown.First, p.Cooldown.Last
	if first.IsZero() {
		first, last = now, now
	} else if unhealthy < p.Cooldown.Unhealthy {
		last = now
	}
	resume, latest := last.Add(p.StormCooldown), first.Add(12*p.StormCooldown)
	if resume.After(latest) {
		return latest
	}
	return resume
}

// naivePermits is the short circuit.
func naivePermits(p *core.Policy, unhealthy, total int) bool {
	if r := p.ShortCircuit.Range; r != nil {
		return r.From <= unhealthy && unhealthy <= r.To
	}
	if least := p.ShortCircuit.MinHealthy; least != nil && least.Percent {
		return unhealthy == 0 || (total-unhealthy)*100 >= least.Number*total
	} else if least != nil {
		return unhealthy == 0 || total-unhealthy >= least.Number
	}
	return unhealthy <= naiveFloor(p.ShortCircuit.MaxUnhealthy, total)
}
