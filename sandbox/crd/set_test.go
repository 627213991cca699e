package crd

import (
	"slices"
	"strings"
	"testing"
)

// TestSets: a cluster without a Machine API gets none of its kinds, and each definition is in a set.
func TestSets(t *testing.T) {
	want := map[Set]string{
		MachineAPI:  "Instance Machine MachineSet",
		Remediators: "RebootRemediation RebootRemediationTemplate ReprovisionRemediation ReprovisionRemediationTemplate",
		Metal3:      "BareMetalHost",
		Provider:    "SandboxBootstrapConfig SandboxBootstrapConfigTemplate SandboxCluster SandboxMachine SandboxMachineTemplate",
		ClusterAPI:  "Cluster KubeadmConfig KubeadmControlPlane Machine MachineDeployment MachineDrainRule MachineHealthCheck MachineSet",
	}
	for set, kinds := range want {
		definitions, err := Definitions(set)
		if err != nil {
			t.Fatal(err)
		}
		have := []string{}
		for _, d := range definitions {
			have = append(have, d.Spec.Names.Kind)
		}
		slices.Sort(have)
		if got := strings.Join(have, " "); got != kinds {
			t.Errorf("set %d has %s, want %s", set, got, kinds)
		}
	}
}
