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
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fettle-io/fettle/api/fettle/annotation"
	"github.com/fettle-io/fettle/internal/core"
	"github.com/fettle-io/fettle/internal/lenient"
	"github.com/fettle-io/fettle/internal/slim"
)

// The namespaces of etcd, and of its guard pods on OpenShift.
const (
	kubeSystem    = "kube-system"
	openshiftEtcd = "openshift-etcd"
)

// Config configures a Client. Every field is required.
type Config struct {
	// Live reads from the API server. It must decode nodes as slim.Node.
	Live client.Reader
	// OpenShift reports whether the cluster serves ClusterVersion, which only OpenShift does.
	OpenShift func() core.Tri
	Now       func() time.Time
}

// Client reads the quorum. It is safe for concurrent use.
type Client struct{ Config }

// NewClient returns a client.
func NewClient(c Config) *Client { return &Client{c} }

// errPlatformUnknown is the error until the definitions of the cluster are read.
var errPlatformUnknown = errors.New("whether the cluster is an OpenShift is not known yet")

// Survives reports whether etcd keeps its quorum without the target. A failed read is an error.
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

// +kubebuilder:rbac:groups="",resources=namespaces,resourceNames=openshift-etcd;kube-system,verbs=get

// isOpenShift also looks for the namespace. If only the definition were lost, a member of etcd
// might not be counted.
func (c *Client) isOpenShift(ctx context.Context) (bool, error) {
	switch c.OpenShift() {
	case core.Yes:
		return true, nil
	case core.Unknown:
		return false, errPlatformUnknown
	case core.No:
	}
	_, err := c.namespace(ctx, openshiftEtcd)
	switch {
	case apierrors.IsNotFound(err):
		return false, nil
	case err != nil:
		return false, explain("looking for namespace "+openshiftEtcd, "ClusterRole fettle", "config/rbac", err)
	}
	return true, nil
}

// byBudget decides by the guard pods of OpenShift's etcd. The rights for that are in
// config/openshift.
func (c *Client) byBudget(ctx context.Context, node string) (core.Tri, error) {
	kind := schema.GroupVersionKind{Group: "policy", Version: "v1", Kind: "PodDisruptionBudget"}
	var budgets []unstructured.Unstructured
	err := c.listPages(ctx, kind, func(u *unstructured.Unstructured) { budgets = append(budgets, *u) }, client.InNamespace(openshiftEtcd))
	if err != nil {
		return core.Unknown, explainGuards("pod disruption budgets", err)
	}
	if len(budgets) != 1 {
		return core.Unknown, fmt.Errorf("there are %d pod disruption budgets in %s, so the budget of etcd is unknown: "+
			"there must be exactly one", len(budgets), openshiftEtcd)
	}
	b, selector, err := readBudget(&budgets[0])
	if err != nil {
		return core.Unknown, fmt.Errorf("reading pod disruption budget %s/%s: %w", openshiftEtcd, budgets[0].GetName(), err)
	}
	pods, err := c.pods(ctx, client.InNamespace(openshiftEtcd), client.MatchingLabelsSelector{Selector: selector})
	if err != nil {
		return core.Unknown, explainGuards("pods", err)
	}
	guards := make([]guardPod, 0, len(pods))
	for i := range pods {
		guards = append(guards, guardPod{node: pods[i].Node, ready: pods[i].ready()})
	}
	return byBudget(node, b, guards), nil
}

func explainGuards(what string, err error) error {
	return explain("listing "+what+" in "+openshiftEtcd, "Role fettle in namespace "+openshiftEtcd, "config/openshift", err)
}

// +kubebuilder:rbac:groups="",resources=nodes,verbs=list
// +kubebuilder:rbac:groups="",resources=pods,namespace=kube-system,verbs=list
// +kubebuilder:rbac:groups=coordination.k8s.io,resources=leases,namespace=kube-system,verbs=list

// byMembers decides by the nodes of the control plane and by what runs on them.
func (c *Client) byMembers(ctx context.Context, node string) (core.Tri, error) {
	nodes, err := c.controlPlane(ctx)
	if err != nil {
		return core.Unknown, explain("listing the nodes of the control plane", "ClusterRole fettle", "config/rbac", err)
	}
	pods, err := c.etcdPods(ctx, nodes)
	if err != nil {
		return core.Unknown, explain("listing etcd pods in "+kubeSystem, "Role fettle in namespace "+kubeSystem, "config/rbac", err)
	}
	hosts, err := c.livingHosts(ctx)
	if err != nil {
		return core.Unknown, explain("listing the leases of API servers in "+kubeSystem, "Role fettle in namespace "+kubeSystem, "config/rbac", err)
	}
	members := membersOf(nodes, pods, hosts)
	if !hasEvidence(members) {
		return c.byAnnotation(ctx)
	}
	return byMembers(node, members), nil
}

// isEtcd selects etcd pods.
var isEtcd = client.MatchingLabels{"component": "etcd"} //nolint:gochecknoglobals // a constant

// external is the annotation's value for a cluster whose nodes have no vote.
const external = "external"

// byAnnotation decides by an administrator's annotation. It counts only if no node shows a member.
func (c *Client) byAnnotation(ctx context.Context) (core.Tri, error) {
	namespace, err := c.namespace(ctx, kubeSystem)
	if err != nil {
		return core.Unknown, explain("reading namespace "+kubeSystem, "ClusterRole fettle", "config", err)
	}
	switch word, said := namespace.Annotations[annotation.ControlPlaneQuorum]; {
	case !said:
		return core.Unknown, nil
	case word != external:
		return core.Unknown, fmt.Errorf("annotation %s of namespace %s is %s; give %q where no node has a vote, or remove it",
			annotation.ControlPlaneQuorum, kubeSystem, lenient.Quote(word), external)
	}
	return core.Yes, nil
}

func (c *Client) namespace(ctx context.Context, name string) (*metav1.PartialObjectMetadata, error) {
	namespace := &metav1.PartialObjectMetadata{}
	namespace.SetGroupVersionKind(schema.GroupVersionKind{Version: "v1", Kind: "Namespace"})
	return namespace, c.Live.Get(ctx, client.ObjectKey{Name: name}, namespace) //nolint:wrapcheck // the callers add the operation
}

// controlPlane returns the nodes with any label of the control plane, each once.
func (c *Client) controlPlane(ctx context.Context) ([]*slim.Node, error) {
	found := map[string]*slim.Node{}
	for _, label := range slim.ControlPlaneLabels() {
		var list slim.NodeList
		if err := c.Live.List(ctx, &list, client.HasLabels{label}); err != nil {
			return nil, err //nolint:wrapcheck // byMembers adds the operation
		}
		for i := range list.Items {
			found[list.Items[i].Name] = &list.Items[i]
		}
	}
	return slices.Collect(maps.Values(found)), nil
}

func (c *Client) livingHosts(ctx context.Context) ([]string, error) {
	kind := schema.GroupVersionKind{Group: "coordination.k8s.io", Version: "v1", Kind: "Lease"}
	now := c.Now()
	var hosts []string
	err := c.listPages(ctx, kind, func(lease *unstructured.Unstructured) {
		if host := livingHost(lease, now); host != "" {
			hosts = append(hosts, host)
		}
	}, client.InNamespace(kubeSystem), client.MatchingLabels{"apiserver.kubernetes.io/identity": "kube-apiserver"})
	return hosts, err
}

// etcdPods returns the etcd pods on nodes of the control plane, and those anywhere that no kubelet
// can have made. A kubelet makes pods only on its own node, and without a service account. So the
// guard doesn't read the pods that the kubelets of workers make, however many there are.
func (c *Client) etcdPods(ctx context.Context, nodes []*slim.Node) ([]pod, error) {
	if len(nodes) > maxNodes {
		return nil, fmt.Errorf("there are %d nodes of the control plane, and no more than %d are read; "+
			"take its labels from the nodes that do not belong to it", len(nodes), maxNodes)
	}
	found, err := c.pods(ctx, isEtcd, client.InNamespace(kubeSystem), client.MatchingFieldsSelector{Selector: fields.OneTermNotEqualSelector("spec.serviceAccountName", "")})
	if err != nil {
		return nil, err
	}
	found = slices.DeleteFunc(found, func(p pod) bool { return hasNode(nodes, p.Node) })
	for _, n := range nodes {
		there, err := c.pods(ctx, isEtcd, client.InNamespace(kubeSystem), client.MatchingFields{"spec.nodeName": n.Name})
		if err != nil {
			return nil, err
		}
		found = append(found, there...)
	}
	return found, nil
}

func hasNode(nodes []*slim.Node, name string) bool {
	return slices.ContainsFunc(nodes, func(n *slim.Node) bool { return n.Name == name })
}

func (c *Client) pods(ctx context.Context, which ...client.ListOption) ([]pod, error) {
	var pods []pod
	err := c.listPages(ctx, schema.GroupVersionKind{Version: "v1", Kind: "Pod"}, func(u *unstructured.Unstructured) {
		pods = append(pods, readPod(u))
	}, which...)
	return pods, err
}

// The bounds of reading one kind. A page of the largest possible objects has 30 MiB.
const (
	pageSize   = 20
	maxObjects = 1000
	// maxNodes bounds the nodes of the control plane, since each needs a list of its pods.
	maxNodes = 100
)

// listPages visits objects, page by page. It fails beyond maxObjects, since a kubelet can make any
// number of pods.
func (c *Client) listPages(ctx context.Context, kind schema.GroupVersionKind, visit func(*unstructured.Unstructured), which ...client.ListOption) error {
	which = append(which, client.Limit(pageSize))
	for seen, next := 0, ""; ; {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
		if err := c.Live.List(ctx, list, append(which, client.Continue(next))...); err != nil {
			return err //nolint:wrapcheck // the callers add the operation
		}
		for i := range list.Items {
			visit(&list.Items[i])
		}
		seen += len(list.Items)
		switch next = list.GetContinue(); {
		case next == "":
			return nil
		case seen >= maxObjects:
			return fmt.Errorf("there are more than the %d that are read; delete those without a use", maxObjects)
		}
	}
}

// explain wraps an error with the operation. If the call was forbidden, the error names the role
// that grants it.
func explain(doing, role, where string, err error) error {
	if apierrors.IsForbidden(err) {
		return fmt.Errorf("%s: %s grants it, and kubectl apply -k %s makes that: %w", doing, role, where, err)
	}
	return fmt.Errorf("%s: %w", doing, err)
}
