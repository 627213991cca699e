package core_test

import (
	"testing"

	"github.com/fettle-io/fettle/internal/core"
)

func TestPremiseText(t *testing.T) {
	ready := core.ConditionCriterion{Type: "Ready", Status: "Unknown"}
	for reason, want := range map[core.Reason]string{
		core.ConditionMet:       "Ready is still Unknown",
		core.TargetConditionMet: "Ready is still Unknown",
		core.ConditionsMet:      "its conditions are still so",
		core.NodeNotFound:       "its node has not come back by then",
		core.NodeStartupTimeout: "no node has joined by then",
		core.Recovering:         "nothing has changed by then",
	} {
		if got := (core.Verdict{Reason: reason, Criterion: ready}).PremiseText(); got != want {
			t.Errorf("%s: it lasts if %q, want %q", reason, got, want)
		}
	}
}
