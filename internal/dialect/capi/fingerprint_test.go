package capi

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/fettle-io/fettle/internal/core"
)

// asTranslated ignores the fingerprints of policies, which follow from the rest.
func asTranslated() cmp.Option { return cmpopts.IgnoreFields(core.Policy{}, "Fingerprint") }

// TestFingerprintMindsTheLabelsThatAreRead: a health check of another cluster, or with another watch filter, is another
// policy.
func TestFingerprintMindsTheLabelsThatAreRead(t *testing.T) {
	of := func(change string) string {
		return readHealthCheck(edited(t, aCheck(t, "check"), change)).policy.Fingerprint
	}
	plain := of("metadata: {}")
	for change, same := range map[string]bool{
		"metadata: {labels: {cluster.x-k8s.io/watch-filter: others}}": false,
		"spec: {clusterName: another}":                                false,
		"metadata: {labels: {others.example/label: x}}":               true,
		"metadata: {resourceVersion: '99'}":                           true,
	} {
		if got := of(change); (got == plain) != same {
			t.Errorf("%s: the fingerprint is %s, and was %s", change, got, plain)
		}
	}
}
