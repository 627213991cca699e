package core_test

import (
	"slices"
	"testing"
	"time"

	"github.com/fettle-io/fettle/internal/core"
)

// TestPauseRunsFromTheFailure: a machine that never joins fails by a timeout that is longer than any pause. The pause before its
// repair runs from there, and not from the start of the repair that brought it about.
func TestPauseRunsFromTheFailure(t *testing.T) {
	p := policy("p", []int{0}, func(p *core.Policy) {
		p.Criteria.NodeStartup, p.Backoff = 10*time.Minute, core.Backoff{Base: 2 * time.Minute, Limit: 10 * time.Minute}
	})
	joined := func(failed time.Duration) core.Target {
		of := ago(failed + 10*time.Minute)
		return machine("m", created(of), awaited(of))
	}
	for name, c := range map[string]struct {
		target core.Target
		repair core.Repair
		until  time.Time
	}{
		"failed just now":             {joined(0), past("a", ago(11*time.Minute)), noon.Add(2 * time.Minute)},
		"failed a minute ago":         {joined(time.Minute), past("a", ago(12*time.Minute)), noon.Add(time.Minute)},
		"failed after four others":    {joined(0), past("a", ago(11*time.Minute), retry(3)), noon.Add(10 * time.Minute)},
		"failed two minutes ago":      {joined(2 * time.Minute), past("a", ago(13*time.Minute)), time.Time{}},
		"failed by a clock ahead":     {machine("m", created(ago(time.Minute)), failed(noon.Add(time.Minute))), past("a", ago(time.Minute)), noon.Add(2 * time.Minute)},
		"another was repaired since":  {joined(9 * time.Minute), past("a", ago(time.Minute)), time.Time{}},
		"its own pause is not longer": {machine("m", created(ago(time.Minute)), failed(ago(30*time.Second))), past("a", ago(time.Minute)), noon.Add(90 * time.Second)},
	} {
		t.Run(name, func(t *testing.T) {
			d := core.Decide([]core.Policy{p}, clusterOf([]core.Target{c.target}, c.repair), noon)
			var until time.Time
			for _, r := range d.Refusals {
				if r.Gate == core.BackingOff {
					until = r.Until
				}
			}
			if !until.Equal(c.until) || (len(d.Starts) > 0) != c.until.IsZero() {
				t.Errorf("it waits until %s and %d begin, want %s: %v", until, len(d.Starts), c.until, d.Refusals)
			}
		})
	}
}

// TestNodeKeepsItsHistory: a node goes by its name, since a node that registers anew is the same computer. A machine of the same name
// is another one.
func TestNodeKeepsItsHistory(t *testing.T) {
	paced := func(p *core.Policy) { p.Backoff = core.Backoff{Base: time.Minute, Limit: time.Hour} }
	anew := func(target *core.Target) { target.ID.UID, target.Created = "another", ago(10*time.Minute) }
	asks := core.Step{Remedy: "Ask", Nature: core.CreateRequest}
	sick, heir := aNode("n", ready("False", ago(6*time.Minute)), anew), machine("n", ready("False", ago(6*time.Minute)), anew, ownedBy(core.ID{}))
	for name, c := range map[string]struct {
		reason  string
		target  core.Target
		before  core.Target
		outcome core.Outcome
		retry   int
		until   time.Time
	}{
		"a node":         {"third failure, four minutes since the last repair's end", sick, aNode("n"), core.Succeeded, 2, noon.Add(-7*time.Minute + 4*time.Minute)},
		"another node":   {"another name", sick, aNode("m"), core.Succeeded, 2, time.Time{}},
		"without effect": {"nothing was done", sick, aNode("n"), core.Recovered, 2, time.Time{}},
		"many times":     {"the pause is over in 25 minutes", sick, aNode("n"), core.Succeeded, 4, noon.Add(-7*time.Minute + 16*time.Minute)},
		"a machine":      {"its namesake is another machine", heir, machine("n", ownedBy(core.ID{})), core.Succeeded, 4, time.Time{}},
	} {
		t.Run(name, func(t *testing.T) {
			p := policy("p", []int{0}, paced, needsNoOwner)
			r := repair(c.before, p, started(ago(8*time.Minute)), ended(ago(7*time.Minute)), retry(c.retry), withSteps(asks))
			r.Outcome = c.outcome
			f := clusterOf([]core.Target{c.target}, r)
			d := core.Decide([]core.Policy{p}, f, noon)
			if held := c.until.After(noon); held != slices.Contains(refusedBy(d, 0), core.BackingOff) || held == (len(d.Starts) > 0) || (held && !d.NextAt.Equal(c.until)) {
				t.Errorf("%s: refused by %v, next at %s, want until %s", c.reason, refusedBy(d, 0), d.NextAt, c.until)
			}
			if len(d.Starts) > 0 && (d.Starts[0].Retry == c.retry+1) == c.until.IsZero() {
				t.Errorf("%s: it begins as retry %d", c.reason, d.Starts[0].Retry)
			}
			expired, _ := core.Retention{}.Expired(&f, d.Verdicts, noon.Add(24*time.Hour))
			if counts := !c.until.IsZero(); counts == (len(expired) > 0) {
				t.Errorf("%s: a day later expired %v", c.reason, expired)
			}
		})
	}
}
