package core_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/fettle-io/fettle/internal/core"
)

// TestReclaimedInstancesDoNotWait: a target whose instance the cloud takes back does not wait for the end of another
// repair. It does if its health check sets the number in flight.
func TestReclaimedInstancesDoNotWait(t *testing.T) {
	t.Parallel()
	terminating := core.ConditionCriterion{Type: "Terminating", Status: "True", Reclaims: true}
	reclaimed := condition("Terminating", "True", ago(time.Hour))
	passes := func(p *core.Policy) { p.ReclaimsBypassMaxInFlight = true }
	watches := func(p *core.Policy) { p.Criteria.Conditions = append(p.Criteria.Conditions, terminating) }
	three := []core.Target{machine("a", reclaimed), machine("b", reclaimed), machine("c", reclaimed)}
	cases := map[string]struct {
		reason   string
		policies []core.Policy
		targets  []core.Target
		want     []int
	}{
		"all go":     {"they go away in any case", []core.Policy{policy("p", all(3), watches, passes)}, three, []int{0, 1, 2}},
		"a limit":    {"it was set for this health check", []core.Policy{policy("p", all(3), watches)}, three, []int{0}},
		"of another": {"another policy's limit was set for it", []core.Policy{policy("p", all(3), watches, passes), policy("q", all(3))}, three, []int{0}},
		"too many": {
			"the short circuit does not ask why", []core.Policy{policy("p", all(3), watches, passes, maxUnhealthy(core.Count(2)))}, three, nil,
		},
		"a dead one waits": {
			"the others are in flight", []core.Policy{policy("p", all(3), watches, passes)},
			[]core.Target{machine("a", reclaimed), machine("b", reclaimed), machine("c", ready("False", ago(30*time.Minute)))}, []int{0, 1},
		},
		"dead ones": {"they may recover", []core.Policy{policy("p", all(3), watches, passes)}, machines(3, 3, dead), []int{0}},
		"by another condition": {
			"the criterion is not of a reclaim", []core.Policy{policy("p", all(3), passes, criteria(core.ConditionCriterion{Type: "Terminating", Status: "True"}))},
			three, []int{0},
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := core.Decide(c.policies, clusterOf(c.targets), noon)
			if diff := cmp.Diff(c.want, begun(d)); diff != "" {
				t.Errorf("%s, so these begin (-want +got):\n%s", c.reason, diff)
			}
		})
	}
}

// TestReclaimedInstancesAreReadAtOnce: the nodes of all of them are read, and not of as many as may be in flight.
func TestReclaimedInstancesAreReadAtOnce(t *testing.T) {
	t.Parallel()
	unread := machines(3, 3, condition("Terminating", "True", ago(time.Hour)), readAt(time.Time{}))
	for limited, want := range map[bool]int{false: 3, true: 1} {
		p := policy("p", all(3), criteria(core.ConditionCriterion{Type: "Terminating", Status: "True", Reclaims: true}))
		p.ReclaimsBypassMaxInFlight = !limited
		if d := core.Decide([]core.Policy{p}, clusterOf(unread), noon); len(d.Confirm) != want {
			t.Errorf("limited is %t: %d nodes are to be read, want %d", limited, len(d.Confirm), want)
		}
	}
}
