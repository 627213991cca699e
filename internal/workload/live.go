package workload

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fettle-io/fettle/internal/slim"
)

// Live returns a reader of the cluster's API server that uses the present connection. Of core/v1 it decodes slim
// nodes. It knows only the kinds that guards read, and bounds each answer in size and time.
func (c *Connection) Live() client.Reader { return live{c} }

type live struct{ of *Connection }

// errKind is the error about a kind that no guard reads.
var errKind = errors.New("objects of this type are not read from workload clusters")

// Get reads one object.
func (l live) Get(ctx context.Context, key client.ObjectKey, obj client.Object, _ ...client.GetOption) error {
	api := l.of.currentAPI()
	if api == nil {
		return errNotConnected
	}
	metadata, is := obj.(*metav1.PartialObjectMetadata)
	if !is {
		return fmt.Errorf("getting a %T: %w", obj, errKind)
	}
	which := func(r *rest.Request) { at(r, key.Namespace).Name(key.Name) }
	return api.readJSON(ctx, metadata.GroupVersionKind(), which, metadata)
}

// List reads a page of objects.
func (l live) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	api := l.of.currentAPI()
	if api == nil {
		return errNotConnected
	}
	options := (&client.ListOptions{}).ApplyOptions(opts)
	which := func(r *rest.Request) { choose(at(r, options.Namespace), options.AsListOptions()) }
	switch list := list.(type) {
	case *slim.NodeList:
		return api.readNodes(ctx, which, list, l.of.Bounds.Nodes)
	case *unstructured.UnstructuredList:
		err := api.readJSON(ctx, elementOf(list.GroupVersionKind()), which, list)
		if next := list.GetContinue(); err == nil && next != "" && (len(list.Items) == 0 || len(next) > tokenBytes) {
			err = errEndless // a caller that requests the next page would never be done
		}
		return err
	}
	return fmt.Errorf("listing into a %T: %w", list, errKind)
}

// elementOf returns the kind of the elements of a list.
func elementOf(list schema.GroupVersionKind) schema.GroupVersionKind {
	list.Kind = strings.TrimSuffix(list.Kind, "List")
	return list
}

func at(r *rest.Request, namespace string) *rest.Request {
	return r.NamespaceIfScoped(namespace, namespace != "")
}

// choose adds the selectors and the page of a list to a request.
func choose(r *rest.Request, o *metav1.ListOptions) {
	for name, value := range map[string]string{"labelSelector": o.LabelSelector, "fieldSelector": o.FieldSelector, "continue": o.Continue} {
		if value != "" {
			r.Param(name, value)
		}
	}
	if o.Limit > 0 {
		r.Param("limit", strconv.FormatInt(o.Limit, 10))
	}
}

// readNodes reads a page of nodes.
func (api *apiClient) readNodes(ctx context.Context, which func(*rest.Request), into *slim.NodeList, most int) error {
	ctx, cancel := context.WithTimeout(withLimit(withoutLogging(ctx), pageBytes), readTimeout)
	defer cancel()
	request := api.RESTClient.Get().Resource("nodes")
	which(request)
	body, err := api.read(ctx, request)
	if err != nil {
		return err
	}
	found, err := decodeNodes(body, most)
	if err == nil {
		*into = *found
	}
	return err
}

// readJSON reads objects of a kind. Only one answer is decoded at a time.
func (api *apiClient) readJSON(ctx context.Context, kind schema.GroupVersionKind, which func(*rest.Request), into runtime.Object) error {
	mapping, err := mapper().RESTMapping(kind.GroupKind(), kind.Version)
	if err != nil {
		return fmt.Errorf("reading a %s: %w", kind.Kind, errKind)
	}
	ctx, cancel := context.WithTimeout(withLimit(withoutLogging(ctx), objectBytes), readTimeout)
	defer cancel()
	root := "/apis/" + kind.GroupVersion().String()
	if kind.Group == "" {
		root = "/api/" + kind.Version
	}
	request := api.RESTClient.Get().AbsPath(root).Resource(mapping.Resource.Resource).SetHeader("Accept", "application/json")
	which(request)
	result := request.MaxRetries(0).Do(ctx)
	if err := result.Error(); err != nil {
		return err //nolint:wrapcheck // the caller says what was being done
	}
	body, _ := result.Raw() // its error is the one above
	decoding.Lock()
	defer decoding.Unlock()
	wanted := into.GetObjectKind().GroupVersionKind()
	if err := json.Unmarshal(body, into); err != nil || into.GetObjectKind().GroupVersionKind() != wanted {
		return errNotObjects // the cause could quote the answer
	}
	return nil
}

// mapper returns a mapper of the kinds that guards read. Discovery would take megabytes.
func mapper() meta.RESTMapper {
	v1, m := schema.GroupVersion{Version: "v1"}, meta.NewDefaultRESTMapper(nil)
	for kind, scope := range map[schema.GroupVersionKind]meta.RESTScope{
		v1.WithKind("Node"):      meta.RESTScopeRoot,
		v1.WithKind("Namespace"): meta.RESTScopeRoot,
		v1.WithKind("Pod"):       meta.RESTScopeNamespace,
		{Group: "coordination.k8s.io", Version: "v1", Kind: "Lease"}:  meta.RESTScopeNamespace,
		{Group: "policy", Version: "v1", Kind: "PodDisruptionBudget"}: meta.RESTScopeNamespace,
	} {
		m.Add(kind, scope)
	}
	return m
}
