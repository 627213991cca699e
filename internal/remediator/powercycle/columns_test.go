package powercycle

import (
	"os"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"
)

// TestTheEndOfAHoldIsShown: a column of type date has how long ago a time was, and <invalid> for one in the future.
func TestTheEndOfAHoldIsShown(t *testing.T) {
	text, err := os.ReadFile("../../../config/crd/fettle.io_bmcs.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var definition apiextensionsv1.CustomResourceDefinition
	if err := yaml.Unmarshal(text, &definition); err != nil {
		t.Fatal(err)
	}
	for _, column := range definition.Spec.Versions[0].AdditionalPrinterColumns {
		if column.JSONPath == ".status.authenticationHeldUntil" {
			if column.Type != "string" {
				t.Errorf("column %s is of type %s", column.Name, column.Type)
			}
			return
		}
	}
	t.Error("there is no such column")
}
