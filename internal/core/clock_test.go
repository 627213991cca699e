package core_test

import (
	"strings"
	"testing"
	"time"

	"github.com/fettle-io/fettle/internal/core"
)

// TestI05ClockThatIsNotKnownToAgree: while the clock is unknown no repair begins and no step is
// given up. Recovery is not held back.
func TestI05ClockThatIsNotKnownToAgree(t *testing.T) {
	p := check("p", []int{0}, escalating)
	sick := aNode("n", dead)
	r := []core.Repair{repair(sick, p, started(ago(time.Hour)))}
	old := requestFor(p, sick, rebooting, func(q *core.Request) { q.Created = ago(time.Hour) })
	failed := requestFor(p, sick, rebooting, says(core.No))
	for agrees, gate := range map[core.Tri]core.Gate{core.Yes: 0, core.No: core.ClockSkewed, core.Unknown: core.ClockUnknown} {
		for name, c := range map[string]struct {
			world  core.Cluster
			gated  bool
			begins func(d core.Decision) int
		}{
			"a repair":               {with([]core.Target{sick}, nil), true, func(d core.Decision) int { return len(d.Starts) }},
			"its step":               {with([]core.Target{sick}, r), true, func(d core.Decision) int { return len(d.StepStarts) }},
			"the end of a step":      {with([]core.Target{sick}, r, old), true, func(d core.Decision) int { return len(d.Escalations) }},
			"a step that has failed": {with([]core.Target{sick}, r, failed), true, func(d core.Decision) int { return len(d.Escalations) }},
			"a withdrawal":           {with([]core.Target{aNode("n")}, r, old), false, func(d core.Decision) int { return len(d.Withdrawals) }},
			"the end of a repair":    {with([]core.Target{aNode("n")}, r), false, func(d core.Decision) int { return len(d.Finishes) }},
		} {
			c.world.Observed, c.world.ClockAgrees, c.world.Upgrading = core.Yes, agrees, core.No
			d := core.Decide([]core.Policy{p}, c.world, noon)
			held := c.gated && gate != 0
			if begins := c.begins(d) > 0; begins == held {
				t.Errorf("the clock agrees: %s, %s is decided on: %t", agrees, name, begins)
			}
			if gates := refusedBy(d, 0); held != (len(gates) == 1 && gates[0] == gate) {
				t.Errorf("the clock agrees: %s, %s is refused by %v", agrees, name, gates)
			}
		}
	}
	for gate, says := range map[core.Gate][]string{
		core.ClockSkewed:  {"differ by more than 5s", "correct the clock", "fettle_clock_skew_seconds"},
		core.ClockUnknown: {"not known", "Date"},
	} {
		for _, words := range says {
			if text := (core.Refusal{Gate: gate}).Text(); !strings.Contains(text, words) {
				t.Errorf("%s does not say %q: %s", gate, words, text)
			}
		}
	}
}
