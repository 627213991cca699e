package crd

import (
	"slices"
	"strings"
	"testing"
)

// TestSets: a cluster without a Machine API gets none of its kinds, and no definition is in no set.
func TestSets(t *testing.T) {
	definitions, err := read()
	if err != nil {
		t.Fatal(err)
	}
	have := map[Set][]string{}
	for _, d := range definitions {
		for _, set := range []Set{MachineAPI, Remediators} {
			if set.has(d) {
				have[set] = append(have[set], d.Spec.Names.Kind)
			}
		}
	}
	want := map[Set]string{
		MachineAPI:  "Instance Machine MachineSet",
		Remediators: "RebootRemediation RebootRemediationTemplate ReprovisionRemediation ReprovisionRemediationTemplate",
	}
	for set, kinds := range want {
		slices.Sort(have[set])
		if got := strings.Join(have[set], " "); got != kinds {
			t.Errorf("set %d has %s, want %s", set, got, kinds)
		}
	}
}
