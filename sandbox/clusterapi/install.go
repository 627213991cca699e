package clusterapi

import (
	"bytes"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"slices"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/rest"
	bootstrapv1 "sigs.k8s.io/cluster-api/api/bootstrap/kubeadm/v1beta2"
	controlplanev1 "sigs.k8s.io/cluster-api/api/controlplane/kubeadm/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fettle-io/fettle/sandbox/crd"
)

//go:embed webhooks.yaml
var webhooks []byte

// controlPlanes are the KubeadmControlPlanes, as an entry of resources.
const controlPlanes = "controlplane.cluster.x-k8s.io/kubeadmcontrolplanes"

// endpoint is the address of the webhooks, and the authority that has signed its certificate.
type endpoint struct {
	url string
	ca  []byte
}

func (e endpoint) admission(path string) admissionv1.WebhookClientConfig {
	return admissionv1.WebhookClientConfig{URL: new(e.url + path), CABundle: e.ca}
}

// installKinds installs the definitions of Cluster API and of the providers. The endpoint converts kinds with two
// versions.
func installKinds(config *rest.Config, served endpoint) error {
	if err := crd.Install(config, crd.Provider); err != nil {
		return err
	}
	definitions, err := crd.Definitions(crd.ClusterAPI)
	if err != nil {
		return err
	}
	for _, definition := range definitions {
		complete(definition, served)
	}
	return crd.Apply(config, definitions)
}

// complete adds to the definitions what Cluster API adds to them after they are generated.
func complete(definition *apiextensionsv1.CustomResourceDefinition, served endpoint) {
	switch definition.Spec.Group {
	case controlplanev1.GroupVersion.Group, bootstrapv1.GroupVersion.Group:
		definition.Labels = map[string]string{contractLabel: controlplanev1.GroupVersion.Version}
	}
	if len(definition.Spec.Versions) < 2 {
		return
	}
	definition.Spec.Conversion = &apiextensionsv1.CustomResourceConversion{
		Strategy: apiextensionsv1.WebhookConverter,
		Webhook: &apiextensionsv1.WebhookConversion{
			ClientConfig:             &apiextensionsv1.WebhookClientConfig{URL: new(served.url + "/convert"), CABundle: served.ca},
			ConversionReviewVersions: []string{"v1"},
		},
	}
}

// installWebhooks makes the API server call the endpoint for the installed kinds, and for control planes only where
// their reconciler runs. It replaces the webhooks of an earlier run, whose port is closed.
func installWebhooks(ctx context.Context, cfg Config, served endpoint) error {
	c, err := client.New(cfg.Client, client.Options{})
	if err != nil {
		return fmt.Errorf("making a client: %w", err)
	}
	mutating, validating := &admissionv1.MutatingWebhookConfiguration{}, &admissionv1.ValidatingWebhookConfiguration{}
	if err := readWebhooks(mutating, validating); err != nil {
		return err
	}
	kinds, err := installed()
	if err != nil {
		return err
	}
	if !cfg.ControlPlanes {
		delete(kinds, controlPlanes)
	}
	keep(mutating, validating, served, kinds)
	if err := replace(ctx, c, mutating, &admissionv1.MutatingWebhookConfiguration{}); err != nil {
		return err
	}
	return replace(ctx, c, validating, &admissionv1.ValidatingWebhookConfiguration{})
}

// keep drops the webhooks of other kinds, and sets the address of the rest.
func keep(mutating *admissionv1.MutatingWebhookConfiguration, validating *admissionv1.ValidatingWebhookConfiguration,
	served endpoint, kinds resources,
) {
	mutating.Name, validating.Name = component+"-cluster-api", component+"-cluster-api"
	mutating.Webhooks = slices.DeleteFunc(mutating.Webhooks, func(w admissionv1.MutatingWebhook) bool { return !kinds.has(w.Rules) })
	for i := range mutating.Webhooks {
		hook := &mutating.Webhooks[i]
		hook.ClientConfig = served.admission(*hook.ClientConfig.Service.Path)
	}
	validating.Webhooks = slices.DeleteFunc(validating.Webhooks, func(w admissionv1.ValidatingWebhook) bool { return !kinds.has(w.Rules) })
	for i := range validating.Webhooks {
		hook := &validating.Webhooks[i]
		hook.ClientConfig = served.admission(*hook.ClientConfig.Service.Path)
	}
}

// readWebhooks reads the embedded documents, one of each kind, in this order.
func readWebhooks(configurations ...any) error {
	decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(webhooks), len(webhooks))
	for _, configuration := range configurations {
		if err := decoder.Decode(configuration); err != nil {
			return fmt.Errorf("parsing the embedded webhooks: %w", err)
		}
	}
	if err := decoder.Decode(&struct{}{}); !errors.Is(err, io.EOF) {
		return errors.New("parsing the embedded webhooks: there are more kinds than expected")
	}
	return nil
}

// resources are Cluster API's installed kinds.
type resources map[string]bool

func installed() (resources, error) {
	definitions, err := crd.Definitions(crd.ClusterAPI)
	if err != nil {
		return nil, err
	}
	names := resources{}
	for _, definition := range definitions {
		names[definition.Spec.Group+"/"+definition.Spec.Names.Plural] = true
	}
	return names, nil
}

// has reports whether all rules are about installed kinds.
func (r resources) has(rules []admissionv1.RuleWithOperations) bool {
	for _, rule := range rules {
		for _, group := range rule.APIGroups {
			for _, resource := range rule.Resources {
				if !r[group+"/"+resource] {
					return false
				}
			}
		}
	}
	return true
}

func replace(ctx context.Context, c client.Client, wanted, existing client.Object) error {
	err := c.Get(ctx, client.ObjectKeyFromObject(wanted), existing)
	if apierrors.IsNotFound(err) {
		err = c.Create(ctx, wanted)
	} else if err == nil {
		wanted.SetResourceVersion(existing.GetResourceVersion())
		err = c.Update(ctx, wanted)
	}
	if err != nil {
		return fmt.Errorf("installing the webhooks: %w", err)
	}
	return nil
}
