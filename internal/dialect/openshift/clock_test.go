package openshift

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/fettle-io/fettle/internal/core"
)

// TestI09ClockThatHoldsRepairs: the condition names a clock that holds back repairs, and a reader
// finds it there.
func TestI09ClockThatHoldsRepairs(t *testing.T) {
	tally := core.Tally{Total: 3, Healthy: 2, Permitted: true}
	for gate, reason := range map[core.Gate]string{core.ClockSkewed: "ClockSkewed", core.ClockUnknown: "ClockUnknown"} {
		got := remediationAllowed(core.PolicyReport{Policy: core.Policy{Steps: []core.Step{{}}}, Tally: tally, Clock: gate})
		if got.Status != "False" || got.Reason != reason || !strings.Contains(got.Message, "clocks of Fettle") {
			t.Errorf("the condition is %+v", got)
		}
		for status, want := range map[string]core.Gate{"False": gate, "True": 0, "Unknown": 0} {
			h := &healthCheck{}
			h.readStatus(&unstructured.Unstructured{Object: map[string]any{"status": map[string]any{"conditions": []any{
				map[string]any{"type": "RemediationAllowed", "status": status, "reason": reason},
				map[string]any{"type": "Other", "status": "False", "reason": "ClockOfOthers"},
			}}}})
			if h.policy.ClockGate != want {
				t.Errorf("of %s with status %s a reader finds the gate %v, want %v", reason, status, h.policy.ClockGate, want)
			}
		}
	}
}
