package integration

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fettle-io/fettle/test/cluster"
)

// TestPowerExamplesAreAdmitted: the API server accepts the examples of the page on PowerRemediation.
func TestPowerExamplesAreAdmitted(t *testing.T) {
	t.Parallel()
	c := cluster.Start(t, cluster.Options{Args: []string{noNodeController}})
	c.InstallFettle(t)
	c.Apply(t, "{apiVersion: v1, kind: Namespace, metadata: {name: openshift-machine-api}}")
	strict := client.WithFieldValidation(c.Client, metav1.FieldValidationStrict)
	kinds := map[string]int{}
	for _, u := range examplesOf(t, "docs/remedies/power.md") {
		kinds[u.GetKind()]++
		if err := strict.Create(cluster.Context(t), u, client.DryRunAll); err != nil {
			t.Errorf("the example of a %s: %v", u.GetKind(), err)
		}
	}
	for _, kind := range []string{"Secret", "BMC", "PowerRemediationTemplate", "NodeHealthCheck", "MachineHealthCheck"} {
		if kinds[kind] == 0 {
			t.Errorf("the page has no example of a %s", kind)
		}
	}
}
