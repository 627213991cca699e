package capi

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fettle-io/fettle/internal/core"
)

// TestOverlookedIsReported: the status of a health check that is not judged gives that reason, and does not call its spec
// wrong.
func TestOverlookedIsReported(t *testing.T) {
	r := core.PolicyReport{Policy: core.Policy{Problem: "it is not judged", Unjudged: true, Unparsable: true}}
	if got := remediationAllowed(&r); got.Status != metav1.ConditionFalse || got.Reason != "TooManyHealthChecks" {
		t.Errorf("it is %s, %s: %s", got.Status, got.Reason, got.Message)
	}
}
