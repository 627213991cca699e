package openshift

import (
	"testing"

	"github.com/fettle-io/fettle/internal/core"
)

// TestOverlookedIsTold: a health check that is not judged says why, and not that its spec is wrong.
func TestOverlookedIsTold(t *testing.T) {
	r := core.PolicyReport{Policy: core.Policy{Problem: "it is not judged", Unjudged: true, Unparsable: true}}
	if got := remediationAllowed(r); got.Status != "False" || got.Reason != "TooManyHealthChecks" {
		t.Errorf("it is %s, %s: %s", got.Status, got.Reason, got.Message)
	}
}
