package crd

import (
	"context"
	"fmt"
	"strings"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
)

const (
	establishPoll    = 50 * time.Millisecond
	establishTimeout = 30 * time.Second
)

// Install creates the definitions of a set, or updates those of an older sandbox, and returns when the API server serves them.
func Install(ctx context.Context, config *rest.Config, set Set) error {
	definitions, err := Definitions(set)
	if err != nil {
		return err
	}
	return Apply(ctx, config, definitions)
}

// Apply does so for any definitions.
func Apply(ctx context.Context, config *rest.Config, definitions []*apiextensionsv1.CustomResourceDefinition) error {
	client, err := clientset.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("making a client: %w", err)
	}
	for _, definition := range definitions {
		if err := apply(ctx, client, definition); err != nil {
			return fmt.Errorf("installing %s: %w", definition.Name, err)
		}
	}
	for _, definition := range definitions {
		if err := waitUntilEstablished(ctx, client, definition.Name); err != nil {
			return fmt.Errorf("waiting for the API server to serve %s: %w", definition.Name, err)
		}
	}
	return waitUntilDiscovered(ctx, client.Discovery(), definitions)
}

func apply(ctx context.Context, client clientset.Interface, definition *apiextensionsv1.CustomResourceDefinition) error {
	definitions := client.ApiextensionsV1().CustomResourceDefinitions()
	_, err := definitions.Create(ctx, definition, metav1.CreateOptions{})
	if !apierrors.IsAlreadyExists(err) {
		return err
	}
	existing, err := definitions.Get(ctx, definition.Name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	existing.Labels = definition.Labels
	existing.Spec = definition.Spec
	_, err = definitions.Update(ctx, existing, metav1.UpdateOptions{})
	return err
}

func waitUntilEstablished(ctx context.Context, client clientset.Interface, name string) error {
	return wait.PollUntilContextTimeout(ctx, establishPoll, establishTimeout, true, func(ctx context.Context) (bool, error) {
		definition, err := client.ApiextensionsV1().CustomResourceDefinitions().Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return false, err
		}
		for _, c := range definition.Status.Conditions {
			if c.Type == apiextensionsv1.Established && c.Status == apiextensionsv1.ConditionTrue {
				return true, nil
			}
		}
		return false, nil
	})
}

// waitUntilDiscovered waits until discovery lists all versions that definitions serve. It may lag behind their conditions, and
// a client that looks up a kind meanwhile does not find it.
func waitUntilDiscovered(ctx context.Context, api discovery.DiscoveryInterface, definitions []*apiextensionsv1.CustomResourceDefinition) error {
	var missing []string
	err := wait.PollUntilContextTimeout(ctx, establishPoll, establishTimeout, true, func(context.Context) (bool, error) {
		found, err := discovered(api)
		if err != nil {
			missing = []string{err.Error()}
			return false, nil //nolint:nilerr // a group may have no resources yet
		}
		missing = nil
		for _, definition := range definitions {
			for _, version := range definition.Spec.Versions {
				resource := schema.GroupVersionResource{Group: definition.Spec.Group, Version: version.Name, Resource: definition.Spec.Names.Plural}
				if version.Served && !found[resource] {
					missing = append(missing, resource.String())
				}
			}
		}
		return len(missing) == 0, nil
	})
	if err != nil {
		return fmt.Errorf("waiting for discovery to list %s: %w", strings.Join(missing, "; "), err)
	}
	return nil
}

// discovered returns the resources that discovery lists, by group and by version.
func discovered(api discovery.DiscoveryInterface) (map[schema.GroupVersionResource]bool, error) {
	_, lists, err := api.ServerGroupsAndResources()
	if err != nil {
		return nil, err
	}
	found := map[schema.GroupVersionResource]bool{}
	for _, list := range lists {
		of, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			return nil, err
		}
		for _, resource := range list.APIResources {
			found[of.WithResource(resource.Name)] = true
		}
	}
	return found, nil
}
