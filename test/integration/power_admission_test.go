package integration

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fettle-io/fettle/api/fettle/v1alpha1"
	"github.com/fettle-io/fettle/test/cluster"
)

// TestPowerExamplesAreAdmitted: the API server accepts the examples of the page on PowerRemediation.
func TestPowerExamplesAreAdmitted(t *testing.T) {
	t.Parallel()
	c := cluster.Start(t, clusterAPIOnly())
	c.InstallFettle(t)
	c.Namespace(t, "openshift-machine-api")
	c.Namespace(t, "fleet")
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

// TestPowerObjectsAreChecked: an invalid BMC or PowerRemediation is refused with a reason, and the limits of a remediation
// can be changed, also by a typed client.
func TestPowerObjectsAreChecked(t *testing.T) {
	t.Parallel()
	c := cluster.Start(t, cluster.Options{Args: []string{noNodeController}})
	c.InstallFettle(t)
	ctx := cluster.Context(t)
	bmc := v1alpha1.BMCSpec{NodeName: "n", Address: "redfish://192.0.2.1", CredentialsName: "c"}
	for want, change := range map[string]func(*v1alpha1.BMCSpec){
		"must be redfish://":             func(s *v1alpha1.BMCSpec) { s.Address = "https://192.0.2.1" },
		"must have no user name":         func(s *v1alpha1.BMCSpec) { s.Address = "redfish://admin:secret@192.0.2.1" },
		"tls is for Redfish":             func(s *v1alpha1.BMCSpec) { s.Address = "ipmi://192.0.2.1"; s.TLS = &v1alpha1.BMCTLS{CABundle: "x"} },
		"either caBundle or fingerprint": func(s *v1alpha1.BMCSpec) { s.TLS = &v1alpha1.BMCTLS{} },
		"without a path":                 func(s *v1alpha1.BMCSpec) { s.Address += "/redfish/v1/Systems/1"; s.System = "1" },
		"spec.cluster.name":              func(s *v1alpha1.BMCSpec) { s.Cluster = &v1alpha1.BMCCluster{Namespace: "fleet"} },
		"spec.cluster.namespace":         func(s *v1alpha1.BMCSpec) { s.Cluster = &v1alpha1.BMCCluster{Name: "east"} },
		"give either address": func(s *v1alpha1.BMCSpec) {
			s.BareMetalHost = &v1alpha1.BareMetalHostReference{Namespace: "n", Name: "h"}
			s.CredentialsName = ""
		},
		"credentialsName is missing": func(s *v1alpha1.BMCSpec) { s.CredentialsName = "" },
		"either address with":        func(s *v1alpha1.BMCSpec) { s.Address = "" },
		"leave them out with": func(s *v1alpha1.BMCSpec) {
			s.Address = ""
			s.BareMetalHost = &v1alpha1.BareMetalHostReference{Namespace: "n", Name: "h"}
		},
		"whose BMC Metal3 speaks to": func(s *v1alpha1.BMCSpec) {
			*s = v1alpha1.BMCSpec{NodeName: "n", BareMetalHost: &v1alpha1.BareMetalHostReference{Namespace: "n", Name: "h"}, TLS: &v1alpha1.BMCTLS{CABundle: "x"}}
		},
		"spec.bareMetalHost.name": func(s *v1alpha1.BMCSpec) {
			*s = v1alpha1.BMCSpec{NodeName: "n", BareMetalHost: &v1alpha1.BareMetalHostReference{Namespace: "n"}}
		},
		"spec.system": func(s *v1alpha1.BMCSpec) { s.System = "../1" },
	} {
		o := &v1alpha1.BMC{ObjectMeta: metav1.ObjectMeta{Namespace: "fettle-system", Name: "b"}, Spec: bmc}
		change(&o.Spec)
		if err := c.Create(ctx, o, client.DryRunAll); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("BMC %+v: %v, want a refusal with %q", o.Spec, err, want)
		}
	}
	r := &v1alpha1.PowerRemediation{ObjectMeta: metav1.ObjectMeta{Namespace: "fettle-system", Name: "r"}}
	r.Spec.BootTimeout = &metav1.Duration{Duration: time.Second}
	if err := c.Create(ctx, r); err == nil || !strings.Contains(err.Error(), "bootTimeout must be from 15s to 24h") {
		t.Errorf("a limit of a second: %v", err)
	}
	r.Spec.BootTimeout, r.Spec.FenceTimeout = nil, &metav1.Duration{Duration: time.Second}
	if err := c.Create(ctx, r); err == nil || !strings.Contains(err.Error(), "fenceTimeout must be from 15s to 24h") {
		t.Errorf("a limit of a second: %v", err)
	}
	r.Spec.FenceTimeout = nil
	if err := c.Create(ctx, r); err != nil {
		t.Fatalf("creating a remediation: %v", err)
	}
	r.Spec.BootTimeout.Duration = 90 * time.Second
	if err := c.Update(ctx, r); err != nil {
		t.Errorf("changing a limit: %v", err)
	}
	r.Spec.Release = v1alpha1.DeleteNodeRelease
	if err := c.Update(ctx, r); err == nil || !strings.Contains(err.Error(), "can't be changed") {
		t.Errorf("changing the release: %v", err)
	}
}
