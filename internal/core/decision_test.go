package core

import (
	"testing"
	"time"
)

// TestRepairsAllowed: no repair is allowed while the short circuit or its cooldown holds.
func TestRepairsAllowed(t *testing.T) {
	for want, tallies := range map[int][]Tally{
		0: {{MaxUnhealthy: 3}, {MaxUnhealthy: 3, Permitted: true, CoolingDown: true}, {Permitted: true}, {Permitted: true, Total: 2, MaxUnhealthy: 1}},
		3: {{MaxUnhealthy: 3, Permitted: true}, {MaxUnhealthy: 4, Permitted: true, Total: 2, Healthy: 1}, {MaxUnhealthy: 4, Permitted: true, AwaitingReplacement: 1}},
	} {
		for _, tally := range tallies {
			if got := tally.RepairsAllowed(); got != want {
				t.Errorf("%+v allows %d, want %d", tally, got, want)
			}
		}
	}
}

// TestYoungerTargets: the later creation counts, and within one second the first ID.
func TestYoungerTargets(t *testing.T) {
	now := time.Date(2026, time.August, 3, 12, 0, 0, 0, time.UTC)
	a, b, old := HealthyTarget{ID{Name: "a"}, now}, HealthyTarget{ID{Name: "b"}, now}, HealthyTarget{ID{Name: "a"}, now.Add(-time.Second)}
	for _, c := range []struct {
		p, other HealthyTarget
		want     bool
	}{{a, b, true}, {b, a, false}, {a, a, false}, {b, old, true}, {old, b, false}, {a, old, true}, {old, a, false}} {
		if got := c.p.younger(&c.other); got != c.want {
			t.Errorf("%v is younger than %v: %t", c.p, c.other, got)
		}
		p, other := Target{ID: c.p.Target, Created: c.p.Created}, Target{ID: c.other.Target, Created: c.other.Created}
		if got := p.younger(&other); got != c.want {
			t.Errorf("target %v is younger than %v: %t", c.p, c.other, got)
		}
	}
}
