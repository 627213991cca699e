package clusterapi

import (
	"slices"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"github.com/fettle-io/fettle/sandbox/crd"
)

// TestWebhooksOfInstalledKinds: no webhook without a server is installed, since the API server would refuse everything.
func TestWebhooksOfInstalledKinds(t *testing.T) {
	mutating, validating := &admissionv1.MutatingWebhookConfiguration{}, &admissionv1.ValidatingWebhookConfiguration{}
	if err := readWebhooks(mutating, validating); err != nil {
		t.Fatal(err)
	}
	keep(mutating, validating, endpoint{url: "https://127.0.0.1:1", ca: []byte("ca")}, resourcesOfKinds(t))

	defaults, checks := []string{}, []string{}
	for _, w := range mutating.Webhooks {
		defaults = append(defaults, w.Rules[0].Resources...)
		pointsHere(t, w.Name, w.ClientConfig)
	}
	for _, w := range validating.Webhooks {
		checks = append(checks, w.Rules[0].Resources...)
		pointsHere(t, w.Name, w.ClientConfig)
	}
	slices.Sort(defaults)
	slices.Sort(checks)
	if got, want := strings.Join(defaults, " "), "clusters kubeadmcontrolplanes machinedeployments machinehealthchecks machines machinesets"; got != want {
		t.Errorf("defaults are filled into %s, want %s", got, want)
	}
	if got, want := strings.Join(checks, " "), "clusters kubeadmcontrolplanes machinedeployments machinedrainrules machinehealthchecks machines machinesets"; got != want {
		t.Errorf("checked are %s, want %s", got, want)
	}
}

func pointsHere(t *testing.T, name string, config admissionv1.WebhookClientConfig) {
	t.Helper()
	if config.Service != nil || config.URL == nil || !strings.HasPrefix(*config.URL, "https://127.0.0.1:1/") || string(config.CABundle) != "ca" {
		t.Errorf("webhook %s is called at %+v", name, config)
	}
}

func resourcesOfKinds(t *testing.T) resources {
	t.Helper()
	kinds, err := installed()
	if err != nil {
		t.Fatal(err)
	}
	return kinds
}

// TestComplete: the additions to Cluster API's definitions decide whether its references and its old version work.
func TestComplete(t *testing.T) {
	definitions, err := crd.Definitions(crd.ClusterAPI)
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range definitions {
		complete(d, endpoint{url: "https://127.0.0.1:1"})
		versions := []string{}
		for _, v := range d.Spec.Versions {
			if v.Served {
				versions = append(versions, v.Name)
			}
			if v.Storage != (v.Name == "v1beta2") {
				t.Errorf("%s is stored in %s", d.Name, v.Name)
			}
		}
		converted := d.Spec.Conversion != nil && d.Spec.Conversion.Strategy == apiextensionsv1.WebhookConverter
		switch got := strings.Join(versions, " "); d.Spec.Names.Kind {
		case "KubeadmConfig":
			if got != "v1beta2" || converted || d.Labels[contractLabel] != "v1beta2" {
				t.Errorf("%s has the versions %s and the labels %v", d.Name, got, d.Labels)
			}
		case "KubeadmControlPlane":
			if d.Labels[contractLabel] != "v1beta2" {
				t.Errorf("%s has the labels %v", d.Name, d.Labels)
			}
			fallthrough
		default:
			if got != "v1beta1 v1beta2" || !converted {
				t.Errorf("%s has the versions %s, converted: %v", d.Name, got, converted)
			}
		}
	}
}
