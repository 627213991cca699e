package core_test

import (
	"testing"
	"time"

	"github.com/fettle-io/fettle/internal/core"
)

// TestStepsFor: the failed steps apply only to a target that can't recover, and only if the policy has them.
func TestStepsFor(t *testing.T) {
	wake, replace := []core.Step{{Remedy: "Wake"}}, []core.Step{{Remedy: "Replace"}}
	cases := map[string]struct {
		policy core.Policy
		failed bool
		want   string
	}{
		"it may recover":                      {core.Policy{Steps: wake, FailedSteps: replace}, false, "Wake"},
		"it can't recover":                    {core.Policy{Steps: wake, FailedSteps: replace}, true, "Replace"},
		"it can't, and nothing is said of it": {core.Policy{Steps: wake}, true, "Wake"},
	}
	for sentence, tc := range cases {
		if got := tc.policy.StepsFor(&core.Target{Failed: tc.failed}); len(got) != 1 || got[0].Remedy != tc.want {
			t.Errorf("%s: got %v, want %s", sentence, got, tc.want)
		}
	}
	none := core.Policy{Steps: wake, FailedSteps: []core.Step{}}
	if got := none.StepsFor(&core.Target{Failed: true}); len(got) != 0 {
		t.Errorf("a ladder without steps is meant, got %v", got)
	}
}

// TestSharesRoundedUp: a share is at most all, and a number is no share.
func TestSharesRoundedUp(t *testing.T) {
	for _, c := range []struct {
		amount      core.Amount
		total, want int
	}{
		{core.Percent(50), 3, 2}, {core.Percent(99), 1, 1}, {core.Percent(100), 3, 3}, {core.Percent(200), 300, 300}, {core.Percent(-50), 3, 0},
		{core.Percent(1<<62 - 1), 3, 3}, {core.Count(100), 200, 100}, {core.Count(200), 100, 100}, {core.Count(-1), 3, 0}, {core.Unlimited(), 3, 3},
	} {
		if got := c.amount.CeilOf(c.total); got != c.want {
			t.Errorf("%s of %d is %d, want %d", c.amount, c.total, got, c.want)
		}
	}
}

// TestPolicyThatRepairs: it can be followed, and is neither paused nor a dry run.
func TestPolicyThatRepairs(t *testing.T) {
	for name, c := range map[string]struct {
		policy core.Policy
		want   bool
	}{
		"any":               {policy("p", nil), true},
		"with a problem":    {policy("p", nil, problem("it is nonsense")), false},
		"paused":            {policy("p", nil, paused), false},
		"that is a dry run": {policy("p", nil, dryRun), false},
	} {
		if got := c.policy.Repairs(); got != c.want {
			t.Errorf("a policy %s repairs: %t", name, got)
		}
	}
}

// TestDefaultBackoff: the documentation of the health checks names these.
func TestDefaultBackoff(t *testing.T) {
	if got, want := core.DefaultBackoff(), (core.Backoff{Base: 5 * time.Second, Limit: 20 * time.Minute, GiveUpAfter: 10}); got != want {
		t.Errorf("the default is %+v, want %+v", got, want)
	}
}
