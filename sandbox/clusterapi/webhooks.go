package clusterapi

import (
	"context"
	"fmt"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	kubeadmadmission "sigs.k8s.io/cluster-api/controlplane/kubeadm/webhooks/admission"
	kubeadmconversion "sigs.k8s.io/cluster-api/controlplane/kubeadm/webhooks/conversion"
	coreadmission "sigs.k8s.io/cluster-api/core/webhooks/admission"
	"sigs.k8s.io/cluster-api/core/webhooks/conversion"
	"sigs.k8s.io/cluster-api/util/contract"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// contractLabel, on a definition, names the versions of the kind that keep the contract of providers.
const contractLabel = "cluster.x-k8s.io/v1beta2"

// addWebhooks registers admission and conversion of the kinds that are installed.
func addWebhooks(mgr ctrl.Manager, clusters coreadmission.ClusterCacheReader) error {
	version := func(ctx context.Context, kind schema.GroupKind) (string, error) {
		return versionOf(ctx, mgr.GetClient(), kind)
	}
	conversion.SetAPIVersionGetter(version)
	kubeadmconversion.SetAPIVersionGetter(version)
	hooks := map[string]interface {
		SetupWebhookWithManager(mgr ctrl.Manager) error
	}{
		"clusters":            &coreadmission.Cluster{Client: mgr.GetClient(), ClusterCacheReader: clusters},
		"machines":            &coreadmission.Machine{},
		"machine sets":        &coreadmission.MachineSet{},
		"machine deployments": &coreadmission.MachineDeployment{},
		"drain rules":         &coreadmission.MachineDrainRule{},
		"health checks":       &coreadmission.MachineHealthCheck{},
		"control planes":      &kubeadmadmission.KubeadmControlPlane{},
	}
	for name, hook := range hooks {
		if err := hook.SetupWebhookWithManager(mgr); err != nil {
			return fmt.Errorf("adding the webhooks of %s: %w", name, err)
		}
	}
	return nil
}

// versionOf returns the version of a provider's kind. References in v1beta1 name it, and references in v1beta2 don't.
func versionOf(ctx context.Context, c client.Reader, kind schema.GroupKind) (string, error) {
	definition := &metav1.PartialObjectMetadata{}
	definition.SetGroupVersionKind(apiextensionsv1.SchemeGroupVersion.WithKind("CustomResourceDefinition"))
	name := contract.CalculateCRDName(kind.Group, kind.Kind)
	if err := c.Get(ctx, client.ObjectKey{Name: name}, definition); err != nil {
		return "", fmt.Errorf("reading the definition of %s: %w", kind, err)
	}
	versions := strings.Split(definition.Labels[contractLabel], "_")
	version := versions[len(versions)-1]
	if version == "" {
		return "", fmt.Errorf("the definition %s has no label %s, which says the version that keeps the contract", name, contractLabel)
	}
	return schema.GroupVersion{Group: kind.Group, Version: version}.String(), nil
}
