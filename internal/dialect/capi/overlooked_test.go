package capi

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fettle-io/fettle/internal/core"
)

// TestOverlookedIsTold: a health check that is not judged says why, and not that its spec is wrong.
func TestOverlookedIsTold(t *testing.T) {
	r := core.PolicyReport{Policy: core.Policy{Problem: "it is not judged", Unjudged: true, Unparsable: true}}
	if got := remediationAllowed(&r); got.Status != metav1.ConditionFalse || got.Reason != "TooManyHealthChecks" {
		t.Errorf("it is %s, %s: %s", got.Status, got.Reason, got.Message)
	}
}
