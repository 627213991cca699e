package main

import (
	"context"
	"encoding/json"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// machinesOfSet is how many machines one set owns at most.
const machinesOfSet = 100

func setsFor(machines int) int { return (machines + machinesOfSet - 1) / machinesOfSet }

func machineName(i int) string { return fmt.Sprintf("bench-worker-%05d", i) }

// makeMachine makes a machine of any API, as two controllers do: one writes its spec, and the other its status.
func makeMachine(ctx context.Context, c client.Client, m client.Object, status any) error {
	body, err := json.Marshal(map[string]any{"status": status})
	if err != nil {
		return fmt.Errorf("encoding the status of machine %s: %w", m.GetName(), err)
	}
	err = patiently(func() error {
		return client.IgnoreAlreadyExists(c.Create(ctx, m, client.FieldOwner("machineset-controller")))
	})
	if err != nil {
		return fmt.Errorf("creating machine %s: %w", m.GetName(), err)
	}
	patch := client.RawPatch(types.MergePatchType, body)
	err = patiently(func() error { return c.Status().Patch(ctx, m, patch, client.FieldOwner("machine-controller")) })
	if err != nil {
		return fmt.Errorf("writing the status of machine %s: %w", m.GetName(), err)
	}
	return nil
}

// sizeOf returns the size of a machine on the wire for its watchers.
func sizeOf(ctx context.Context, c client.Client, key client.ObjectKey, machine client.Object) (int, error) {
	if err := c.Get(ctx, key, machine); err != nil {
		return 0, fmt.Errorf("reading a machine: %w", err)
	}
	body, err := json.Marshal(machine)
	if err != nil {
		return 0, fmt.Errorf("encoding a machine: %w", err)
	}
	return len(body), nil
}

// watchMachines watches machines as typed objects, and keeps their trimmed form.
func watchMachines(base *rest.Config, scheme *runtime.Scheme, version schema.GroupVersion, of runtime.Object, trim cache.TransformFunc) (cache.SharedInformer, error) {
	config := rest.CopyConfig(base)
	config.APIPath = "/apis"
	config.GroupVersion = &version
	config.NegotiatedSerializer = serializer.NewCodecFactory(scheme).WithoutConversion()
	config.ContentType, config.AcceptContentTypes = runtime.ContentTypeJSON, runtime.ContentTypeJSON
	c, err := rest.RESTClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("making a client for machines: %w", err)
	}
	informer := cache.NewSharedInformer(cache.NewListWatchFromClient(c, "machines", metav1.NamespaceAll, fields.Everything()), of, 0)
	return informer, informer.SetTransform(trim)
}
