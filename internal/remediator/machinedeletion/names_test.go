package machinedeletion

import (
	"os"
	"testing"

	"sigs.k8s.io/yaml"
)

// TestKindsHaveNoShortNames: another operator has kinds of these names, and its short names stay its own.
func TestKindsHaveNoShortNames(t *testing.T) {
	for _, kind := range []string{"machinedeletionremediations", "machinedeletionremediationtemplates"} {
		text, err := os.ReadFile("../../../config/crd/fettle.io_" + kind + ".yaml")
		if err != nil {
			t.Fatalf("reading the definition: %v", err)
		}
		var definition struct {
			Spec struct {
				Names struct {
					Plural     string   `json:"plural"`
					ShortNames []string `json:"shortNames"`
				} `json:"names"`
			} `json:"spec"`
		}
		if err := yaml.Unmarshal(text, &definition); err != nil {
			t.Fatalf("reading the definition: %v", err)
		}
		if names := definition.Spec.Names; names.Plural != kind || len(names.ShortNames) > 0 {
			t.Errorf("the kind is called %+v", names)
		}
	}
}
