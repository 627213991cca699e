package cli

import (
	"testing"

	"github.com/fettle-io/fettle/internal/core"
)

// TestPolicyOfADraft: a draft has the policy of its own kind, namespace, name and dialect, in whatever cluster that is.
func TestPolicyOfADraft(t *testing.T) {
	check := func(dialect Dialect, kind, namespace, name string) *assessment {
		return &assessment{policies: []core.Policy{{}, {ID: core.ID{Kind: kind, Namespace: namespace, Name: name}}}, dialectOf: []Dialect{NHC{}, dialect}}
	}
	for sentence, tc := range map[string]struct {
		w     *assessment
		found bool
	}{
		"its own":           {check(ClusterAPI{}, "MachineHealthCheck", "n", "a"), true},
		"another dialect":   {check(NHC{}, "MachineHealthCheck", "n", "a"), false},
		"another kind":      {check(ClusterAPI{}, "NodeHealthCheck", "n", "a"), false},
		"another namespace": {check(ClusterAPI{}, "MachineHealthCheck", "m", "a"), false},
		"another name":      {check(ClusterAPI{}, "MachineHealthCheck", "n", "b"), false},
	} {
		d := &draft{Document: Document{Kind: "MachineHealthCheck", Namespace: "n", Name: "a"}, dialect: ClusterAPI{}}
		w, i, found := policyOf([]*assessment{{}, tc.w}, d)
		if found != tc.found || found && (w != tc.w || i != 1) {
			t.Errorf("%s: it is found: %t, at %d", sentence, found, i)
		}
	}
}
