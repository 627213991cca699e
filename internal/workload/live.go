package workload

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Live reads from the cluster's API server itself, over the connection of the moment. Of core/v1 it decodes nodes lean, and
// it knows no kinds but those that guards read.
func (c *Connection) Live() client.Reader { return live{c} }

// live makes a client for each call, since they are rare, and hundreds of clusters would each hold on to one.
type live struct{ of *Connection }

// Get reads one object.
func (l live) Get(ctx context.Context, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
	c, err := l.client()
	if err != nil {
		return err
	}
	return c.Get(ctx, key, obj, opts...) //nolint:wrapcheck // the caller says what was being done
}

// List reads some.
func (l live) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	c, err := l.client()
	if err != nil {
		return err
	}
	return c.List(ctx, list, opts...) //nolint:wrapcheck // the caller says what was being done
}

func (l live) client() (client.Client, error) {
	line := l.of.openLine()
	if line == nil {
		return nil, errNoLine
	}
	// The HTTP client has the credentials already.
	c, err := client.New(&rest.Config{Host: line.host, QPS: -1, WarningHandler: rest.NoWarnings{}}, client.Options{
		HTTPClient: line.Client, Scheme: l.of.scheme, Mapper: mapper(),
	})
	if err != nil {
		return nil, fmt.Errorf("preparing to read from a workload cluster: %w", err)
	}
	return c, nil
}

// mapper spares discovery, which takes megabytes.
func mapper() meta.RESTMapper {
	m := meta.NewDefaultRESTMapper(nil)
	core := schema.GroupVersion{Version: "v1"}
	m.Add(core.WithKind("Node"), meta.RESTScopeRoot)
	m.Add(core.WithKind("Namespace"), meta.RESTScopeRoot)
	m.Add(core.WithKind("Pod"), meta.RESTScopeNamespace)
	m.Add(schema.GroupVersionKind{Group: "coordination.k8s.io", Version: "v1", Kind: "Lease"}, meta.RESTScopeNamespace)
	m.Add(schema.GroupVersionKind{Group: "policy", Version: "v1", Kind: "PodDisruptionBudget"}, meta.RESTScopeNamespace)
	return m
}
