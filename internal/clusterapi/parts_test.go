package clusterapi

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/fettle-io/fettle/internal/core"
)

// TestPartsOfMachines: the kinds are read in both versions of references, and what can't be read is not known.
func TestPartsOfMachines(t *testing.T) {
	kinds := func(kinds ...core.Kind) *core.Parts { return &core.Parts{Kinds: kinds} }
	docker := core.Kind{Group: "infrastructure.cluster.x-k8s.io", Kind: "DockerMachine"}
	config := core.Kind{Group: "bootstrap.cluster.x-k8s.io", Kind: "KubeadmConfig"}
	const ref, oldRef = "{apiGroup: infrastructure.cluster.x-k8s.io, kind: DockerMachine, name: m}", "{apiVersion: infrastructure.cluster.x-k8s.io/v1beta1, kind: DockerMachine, name: m}"
	const bootstrap = "{configRef: {apiGroup: bootstrap.cluster.x-k8s.io, kind: KubeadmConfig, name: m}}"
	for sentence, tc := range map[string]struct {
		rest string
		want *core.Parts
	}{
		"both references":              {"spec: {infrastructureRef: " + ref + ", bootstrap: " + bootstrap + "}", kinds(docker, config)},
		"a data secret":                {"spec: {infrastructureRef: " + ref + ", bootstrap: {dataSecretName: s}}", kinds(docker)},
		"of v1beta1":                   {"spec: {infrastructureRef: " + oldRef + "}", kinds(docker)},
		"nothing":                      {"", nil},
		"no kind":                      {"spec: {infrastructureRef: {apiGroup: g.example}}", nil},
		"no group":                     {"spec: {infrastructureRef: {apiVersion: v1, kind: Secret}}", nil},
		"a bootstrap without a kind":   {"spec: {infrastructureRef: " + ref + ", bootstrap: {configRef: {name: m}}}", nil},
		"references that are words":    {"spec: {infrastructureRef: yes}", nil},
		"a spec that is a word":        {"spec: well", nil},
		"a status that is a word":      {"spec: {infrastructureRef: " + ref + "}\nstatus: well", kinds(docker)},
		"references beside a nonsense": {"spec: {infrastructureRef: " + ref + ", bootstrap: 7}", nil},
	} {
		t.Run(sentence, func(t *testing.T) {
			var p PartsCache
			m := read(t, plainMeta+tc.rest)
			got := p.Parts(m)
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("parts (-want +got):\n%s", diff)
			}
			if p.Parts(read(t, plainMeta+tc.rest)) != got {
				t.Error("two machines of the same kinds do not share them")
			}
			if !m.SameParts(read(t, plainMeta+tc.rest)) || m.SameParts(read(t, plainMeta+"spec: {infrastructureRef: {apiGroup: g.example, kind: X}}")) {
				t.Error("what is the same differs, or what differs is the same")
			}
		})
	}
}

// TestPartsAreBounded: machines of ever new kinds fill nothing.
func TestPartsAreBounded(t *testing.T) {
	var p PartsCache
	for i := range 10 * maxKnown {
		kind := "Kind" + string(rune('a'+i%26)) + string(rune('a'+i/26))
		if got := p.Parts(read(t, plainMeta+"spec: {infrastructureRef: {apiGroup: g.example, kind: "+kind+"}}")); got.Has(core.Kind{Group: "g.example", Kind: kind}) != core.Yes {
			t.Fatalf("%s is not known: %+v", kind, got)
		}
	}
	if len(p.known) > maxKnown {
		t.Errorf("%d combinations are kept", len(p.known))
	}
}
