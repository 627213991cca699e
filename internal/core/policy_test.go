package core_test

import (
	"testing"

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
