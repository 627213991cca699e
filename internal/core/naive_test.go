package core_test

import (
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
	if t.Condemned {
		return "unhealthy"
	}
	if t.Premature != "" && t.Node.State == core.NodePresent {
		return "healthy"
	} else if t.Premature != "" {
		return "suspect"
	}
	c := &p.Criteria
	suspect, unknown := t.Claimed, false
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
	if t.Failed || t.Node.State == core.NodeGone {
		return "unhealthy"
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
	for _, want := range c.Conditions {
		switch naiveCondition(want, t.Node.Conditions, now) {
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

// naiveCondition judges by one condition: by the mildest word of those that have its type.
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
	first, last := p.Opening.First, p.Opening.Last
	if first.IsZero() {
		first, last = now, now
	} else if unhealthy < p.Opening.Unhealthy {
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
