package quorum

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fettle-io/fettle/internal/core"
	"github.com/fettle-io/fettle/internal/lean"
)

// The namespaces of etcd and of its guards.
const (
	kubeSystem    = "kube-system"
	openshiftEtcd = "openshift-etcd"
)

// Config is what a Client needs. Every field is required.
type Config struct {
	// Live reads from the API server itself. Of core/v1 it must decode nodes lean.
	Live client.Reader
	// OpenShift tells whether the cluster serves ClusterVersion, so that it is an OpenShift.
	OpenShift func() core.Tri
	Now       func() time.Time
}

// Client asks about quorum. It is safe for concurrent use.
type Client struct{ Config }

// NewClient makes a client.
func NewClient(c Config) *Client { return &Client{c} }

// errUnknownCluster is for the first moment of a process.
var errUnknownCluster = errors.New("whether the cluster is an OpenShift is not known yet")

// Survives tells whether quorum survives while the target is out. What can't be read is an error.
func (c *Client) Survives(ctx context.Context, t core.Target) (core.Tri, error) {
	openshift, err := c.isOpenShift(ctx)
	if err != nil {
		return core.Unknown, err
	}
	if openshift {
		return c.byBudget(ctx, t.Node.Name)
	}
	return c.byMembers(ctx, t.Node.Name)
}

// +kubebuilder:rbac:groups="",resources=namespaces,resourceNames=openshift-etcd,verbs=get

// isOpenShift asks for the namespace too, since a definition may be lost and a member of etcd not counted.
func (c *Client) isOpenShift(ctx context.Context) (bool, error) {
	switch c.OpenShift() {
	case core.Yes:
		return true, nil
	case core.Unknown:
		return false, errUnknownCluster
	case core.No:
	}
	namespace := &metav1.PartialObjectMetadata{}
	namespace.SetGroupVersionKind(schema.GroupVersionKind{Version: "v1", Kind: "Namespace"})
	err := c.Live.Get(ctx, client.ObjectKey{Name: openshiftEtcd}, namespace)
	switch {
	case apierrors.IsNotFound(err):
		return false, nil
	case err != nil:
		return false, explain("looking for namespace "+openshiftEtcd, "ClusterRole fettle", "config", err)
	}
	return true, nil
}

// byBudget asks the guards of OpenShift's etcd. The rights for it are in config/openshift.
func (c *Client) byBudget(ctx context.Context, node string) (core.Tri, error) {
	kind := schema.GroupVersionKind{Group: "policy", Version: "v1", Kind: "PodDisruptionBudget"}
	budgets, err := c.list(ctx, kind, client.InNamespace(openshiftEtcd))
	if err != nil {
		return core.Unknown, guardsUnread("pod disruption budgets", err)
	}
	if len(budgets) != 1 {
		return core.Unknown, fmt.Errorf("there are %d pod disruption budgets in %s, and the one that guards etcd is not known among them: "+
			"there must be exactly one", len(budgets), openshiftEtcd)
	}
	b, selector, err := readBudget(&budgets[0])
	if err != nil {
		return core.Unknown, fmt.Errorf("reading pod disruption budget %s/%s: %w", openshiftEtcd, budgets[0].GetName(), err)
	}
	pods, err := c.pods(ctx, client.InNamespace(openshiftEtcd), client.MatchingLabelsSelector{Selector: selector})
	if err != nil {
		return core.Unknown, guardsUnread("pods", err)
	}
	guards := make([]guardPod, 0, len(pods))
	for i := range pods {
		guards = append(guards, guardPod{node: pods[i].Node, ready: pods[i].ready()})
	}
	return byBudget(node, b, guards), nil
}

func guardsUnread(what string, err error) error {
	return explain("listing "+what+" in "+openshiftEtcd, "Role fettle in namespace "+openshiftEtcd, "config/openshift", err)
}

// +kubebuilder:rbac:groups="",resources=nodes,verbs=list
// +kubebuilder:rbac:groups="",resources=pods,namespace=kube-system,verbs=list
// +kubebuilder:rbac:groups=coordination.k8s.io,resources=leases,namespace=kube-system,verbs=list

// byMembers asks the nodes of the control plane and what runs on them.
func (c *Client) byMembers(ctx context.Context, node string) (core.Tri, error) {
	nodes, err := c.controlPlane(ctx)
	if err != nil {
		return core.Unknown, explain("listing the nodes of the control plane", "ClusterRole fettle", "config", err)
	}
	pods, err := c.pods(ctx, client.InNamespace(kubeSystem), client.MatchingLabels{"component": "etcd"})
	if err != nil {
		return core.Unknown, explain("listing etcd pods in "+kubeSystem, "Role fettle in namespace "+kubeSystem, "config", err)
	}
	hosts, err := c.livingHosts(ctx)
	if err != nil {
		return core.Unknown, explain("listing the leases of API servers in "+kubeSystem, "Role fettle in namespace "+kubeSystem, "config", err)
	}
	return byMembers(node, membersOf(nodes, pods, hosts)), nil
}

// controlPlane gives the nodes that have any of the labels, each once.
func (c *Client) controlPlane(ctx context.Context) ([]*lean.Node, error) {
	found := map[string]*lean.Node{}
	for _, label := range [...]string{controlPlaneLabel, masterLabel, etcdRoleLabel} {
		var list lean.NodeList
		if err := c.Live.List(ctx, &list, client.HasLabels{label}); err != nil {
			return nil, err //nolint:wrapcheck // byMembers says what was being done
		}
		for i := range list.Items {
			found[list.Items[i].Name] = &list.Items[i]
		}
	}
	return slices.Collect(maps.Values(found)), nil
}

func (c *Client) livingHosts(ctx context.Context) ([]string, error) {
	kind := schema.GroupVersionKind{Group: "coordination.k8s.io", Version: "v1", Kind: "Lease"}
	leases, err := c.list(ctx, kind, client.InNamespace(kubeSystem), client.MatchingLabels{"apiserver.kubernetes.io/identity": "kube-apiserver"})
	now := c.Now()
	var hosts []string
	for i := range leases {
		if host := livingHost(&leases[i], now); host != "" {
			hosts = append(hosts, host)
		}
	}
	return hosts, err
}

func (c *Client) pods(ctx context.Context, which ...client.ListOption) ([]pod, error) {
	objects, err := c.list(ctx, schema.GroupVersionKind{Version: "v1", Kind: "Pod"}, which...)
	pods := make([]pod, 0, len(objects))
	for i := range objects {
		pods = append(pods, readPod(&objects[i]))
	}
	return pods, err
}

func (c *Client) list(ctx context.Context, kind schema.GroupVersionKind, which ...client.ListOption) ([]unstructured.Unstructured, error) {
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
	err := c.Live.List(ctx, list, which...)
	return list.Items, err //nolint:wrapcheck // the callers say what was being done
}

// explain says what was being done, and by which role it would be granted.
func explain(doing, role, where string, err error) error {
	if apierrors.IsForbidden(err) {
		return fmt.Errorf("%s: %s grants it, and kubectl apply -k %s makes that: %w", doing, role, where, err)
	}
	return fmt.Errorf("%s: %w", doing, err)
}
