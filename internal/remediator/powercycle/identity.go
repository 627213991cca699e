package powercycle

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/fettle-io/fettle/api/fettle/v1alpha1"
	"github.com/fettle-io/fettle/internal/remediator/contract"
	"github.com/fettle-io/fettle/internal/remediator/fencednode"
)

// openshiftMachine is the kind of machines that health checks of OpenShift remediate.
var openshiftMachine = schema.GroupVersionKind{Group: "machine.openshift.io", Version: "v1beta1", Kind: "Machine"} //nolint:gochecknoglobals // a constant

// Annotations that name other objects. Kubelets may not write those of nodes.
const (
	machineAnnotation = "machine.openshift.io/machine"
	hostAnnotation    = "metal3.io/BareMetalHost"
)

// subject is what a remediation is for.
type subject struct {
	// node is nil if there is none of that name, or while that of a workload cluster was not read.
	node    *corev1.Node
	readAt  time.Time // when the read of the node began
	name    string
	bmc     *v1alpha1.BMC
	machine *v1alpha1.ObjectReference
	// cluster and nodes are those of the workload cluster that the node belongs to, if it belongs to one.
	cluster fencedCluster
	nodes   *fencednode.Nodes
	// waits is why the remediation can't start yet.
	waits problem
}

// identify finds the node of a remediation, its BMC and its machine, or returns why it can't start. A node of a workload cluster is not read.
func (c *Client) identify(ctx context.Context, r *v1alpha1.PowerRemediation) (subject, problem, error) {
	if c.isForClusterAPI(r) {
		return c.identifyMachine(ctx, r)
	}
	if found := orphanMismatch(r); found.found() {
		return subject{}, found, nil
	}
	name, found, err := c.nodeNameOf(ctx, r)
	if found.found() || err != nil {
		return subject{}, found, err
	}
	if wrong := validation.IsDNS1123Subdomain(name); len(wrong) > 0 {
		return subject{}, problem{reason: v1alpha1.CannotStartNodeNotFoundReason, message: "no node can be called " + name + ": " + strings.Join(wrong, "; ")}, nil
	}
	s := subject{name: name, readAt: c.Now()}
	if s.node, err = c.nodes.Get(ctx, name); err != nil {
		return s, problem{}, err
	}
	if s.node != nil && !s.node.CreationTimestamp.Time.Before(r.CreationTimestamp.Time) {
		return s, problem{reason: v1alpha1.CannotStartNodeIsNewerReason, message: "node " + name + " is not older than this remediation, so it was not meant"}, nil
	}
	if found := machineMismatch(r, name, s.node); found.found() {
		return s, found, nil
	}
	if s.bmc, found = c.bmcs.find(name); found.found() {
		return s, found, nil
	}
	if found := systemMismatch(s.bmc, s.node); found.found() {
		return s, found, nil
	}
	s.machine, err = c.machineOf(ctx, s.node)
	return s, problem{}, err
}

// clonedFromAnnotations are on each remediation that was made for a machine, by any health checker (docs/contract.md).
var clonedFromAnnotations = []string{"machine.openshift.io/cloned-from-name", "cluster.x-k8s.io/cloned-from-name"} //nolint:gochecknoglobals // a constant list

// orphanMismatch returns why a remediation that was made for a machine, and that no machine owns any more, is for no node. A user who may
// delete the machine may have the garbage collector remove the owner. The remediation has the name that the user gave to the machine.
func orphanMismatch(r *v1alpha1.PowerRemediation) problem {
	owned := slices.ContainsFunc(r.OwnerReferences, func(o metav1.OwnerReference) bool { return o.Kind == openshiftMachine.Kind })
	made := slices.ContainsFunc(clonedFromAnnotations, func(key string) bool { _, set := r.Annotations[key]; return set })
	if owned || !made {
		return problem{}
	}
	return problem{reason: v1alpha1.CannotStartMachineNotFoundReason, message: "this remediation was made for a machine, and no machine owns it any more"}
}

// machineMismatch returns why a remediation that a machine owns is not for its node. A health check may belong to a tenant, and so may
// the machine and its name: the node must name that very machine, by annotations that only administrators and controllers may write.
func machineMismatch(r *v1alpha1.PowerRemediation, name string, node *corev1.Node) problem {
	for _, o := range r.OwnerReferences {
		if o.Kind != openshiftMachine.Kind {
			continue
		}
		if node == nil {
			return problem{reason: v1alpha1.CannotStartNodeNotFoundReason, message: "there is no node " + name + " in this cluster that names machine " + r.Namespace + "/" + o.Name + " as its own"}
		}
		if !names(node, schema.FromAPIVersionAndKind(o.APIVersion, o.Kind).Group, r.Namespace, o.Name) {
			return problem{reason: v1alpha1.CannotStartMachineNotFoundReason, message: "node " + name + " does not name machine " + r.Namespace + "/" + o.Name + " by its annotations, so it is not known to be its node"}
		}
	}
	return problem{}
}

// names reports whether a node names a machine.
func names(node *corev1.Node, group, namespace, machine string) bool {
	switch group {
	case openshiftMachine.Group:
		return node.Annotations[machineAnnotation] == namespace+"/"+machine
	case "cluster.x-k8s.io":
		return node.Annotations[clusterAPIMachineAnnotation] == machine && node.Annotations["cluster.x-k8s.io/cluster-namespace"] == namespace
	}
	return false
}

// nodeNameOf returns the name of the node that a remediation is for. A machine names it in its status.
func (c *Client) nodeNameOf(ctx context.Context, r *v1alpha1.PowerRemediation) (string, problem, error) {
	owner, _ := contract.OwnerMachine(r, openshiftMachine.GroupKind())
	if !contract.IsForMachine(r, openshiftMachine.GroupKind()) {
		return contract.NodeOf(r), problem{}, nil
	}
	m, err := c.getMachine(ctx, owner.Key)
	if err != nil {
		return "", problem{}, err
	}
	if m == nil || m.GetUID() != owner.UID {
		return "", problem{reason: v1alpha1.CannotStartMachineNotFoundReason, message: "machine " + owner.Key.String() + ", which owns this remediation, does not exist"}, nil
	}
	name := nodeRefOf(m)
	if name == "" {
		return "", problem{reason: v1alpha1.CannotStartNodeNotFoundReason, message: "machine " + owner.Key.String() + " has no node (status.nodeRef), so its BMC is not known"}, nil
	}
	return name, problem{}, nil
}

func nodeRefOf(m *unstructured.Unstructured) string {
	name, _, _ := unstructured.NestedString(m.Object, "status", "nodeRef", "name")
	return name
}

// +kubebuilder:rbac:groups=machine.openshift.io,resources=machines,verbs=get

// getMachine reads a machine, and returns nil if there is none, or if the cluster has no machines.
func (c *Client) getMachine(ctx context.Context, key types.NamespacedName) (*unstructured.Unstructured, error) {
	return c.get(ctx, openshiftMachine, key)
}

func (c *Client) get(ctx context.Context, kind schema.GroupVersionKind, key types.NamespacedName) (*unstructured.Unstructured, error) {
	u, err := c.getServed(ctx, kind, key)
	if apierrors.IsNotFound(err) || isNotServed(err) {
		return nil, nil //nolint:nilnil // there is none
	}
	return u, err
}

// getServed reads an object of a kind that the cluster has to serve.
func (c *Client) getServed(ctx context.Context, kind schema.GroupVersionKind, key types.NamespacedName) (*unstructured.Unstructured, error) {
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(kind)
	if err := c.Live.Get(ctx, key, u); err != nil {
		return nil, fmt.Errorf("reading %s %s: %w", kind.Kind, key, err)
	}
	return u, nil
}
