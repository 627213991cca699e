package openshift

import (
	"testing"

	"github.com/fettle-io/fettle/internal/core"
)

// TestOverlookedIsReported: the status of a health check that is not judged says why, and does not
// blame its spec.
func TestOverlookedIsReported(t *testing.T) {
	r := core.PolicyReport{Policy: core.Policy{Problem: "it is not judged", Unjudged: true, Unparsable: true}}
	if got := remediationAllowed(r); got.Status != "False" || got.Reason != "TooManyHealthChecks" {
		t.Errorf("it is %s, %s: %s", got.Status, got.Reason, got.Message)
	}
}
