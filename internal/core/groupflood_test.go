package core_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/fettle-io/fettle/internal/core"
)

// askingMissing returns policies that select one node. Each has as many tests for missing
// conditions as an annotation may have.
func askingMissing(number int) []core.Policy {
	policies := make([]core.Policy, number)
	for i := range policies {
		var missing []core.ConditionTest
		for j := range 8 {
			missing = append(missing, core.ConditionTest{Type: fmt.Sprintf("Agent-%d-%d", i, j), Missing: true})
		}
		policies[i] = policy(fmt.Sprintf("p%04d", i), []int{0}, groups(missing))
	}
	return policies
}

// TestI15TestsOfANodeAreBounded: authors of health checks can have a bounded number of tests
// remembered of a node. A forgotten test is reported, and never makes the node unhealthy.
func TestI15TestsOfANodeAreBounded(t *testing.T) {
	policies := askingMissing(500)
	m := &core.Expectations{}
	var f core.Cluster
	for _, at := range []time.Time{noon, noon.Add(patience)} {
		f = laid(m, at, []core.Target{machine("x")})
		m.OverlayTests(policies, &f, at)
	}
	if n := len(f.Targets[0].TestsSeen); n > 64 {
		t.Fatalf("%d tests are remembered of one node", n)
	}
	d := core.Decide(policies, f, noon.Add(patience))
	for i := range d.Verdicts {
		v := &d.Verdicts[i]
		remembered := i < 8
		switch {
		case remembered && v.Health != core.Unhealthy:
			t.Errorf("%s, which asks among the first, finds %s", policies[v.Policy].ID, v.Health)
		case !remembered && (v.Health != core.Undetermined || v.Reason != core.TargetUnreadable || !strings.Contains(v.Text(), "have them ask for fewer")):
			t.Errorf("%s finds %s: %s", policies[v.Policy].ID, v.Health, v.Text())
		}
	}
}
