package fencednode

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fettle-io/fettle/api/fettle/annotation"
	"github.com/fettle-io/fettle/api/fettle/v1alpha1"
	"github.com/fettle-io/fettle/api/openshift/v1beta1"
	"github.com/fettle-io/fettle/internal/remediator/contract"
)

// A machine may be marked for the machine controller of its platform, which powers the same host off and on
// (docs/reference/openshift.md#deletion-and-annotation). So a remediation waits while the machine of its node is marked. Before its first
// effect it claims the machine by an annotation. The patch has the revision at which there was no mark. A mark that Fettle sets has the
// revision of the machine too, so the API server refuses the later one of both.

// OpenShiftMachine is the kind of machines that health checks of OpenShift remediate.
var OpenShiftMachine = schema.GroupVersionKind{Group: "machine.openshift.io", Version: "v1beta1", Kind: "Machine"} //nolint:gochecknoglobals // a constant

const (
	// MachineAnnotation of a node names its machine. Kubelets may not write it.
	MachineAnnotation = "machine.openshift.io/machine"
	// ClusterAPIMachineAnnotation of a node names its machine of Cluster API, and the other one the namespace of that.
	ClusterAPIMachineAnnotation   = "cluster.x-k8s.io/machine"
	clusterAPINamespaceAnnotation = "cluster.x-k8s.io/cluster-namespace"
	clusterAPIGroup               = "cluster.x-k8s.io"
	// ExternalMark on a machine requests its remediation from the machine controller. Only its presence counts.
	ExternalMark = v1beta1.ExternalRemediationAnnotation
)

// Reasons of a remediation that waits.
const (
	// MachineMarked: the machine of its node is marked for another controller.
	MachineMarked = "MachineMarked"
	// AnotherRemediation: another remediation fences the node, or has claimed its machine.
	AnotherRemediation = "AnotherRemediation"
)

// clonedFromAnnotations are on each remediation that was made for a machine, by any health checker (docs/contract.md).
var clonedFromAnnotations = []string{"machine.openshift.io/cloned-from-name", "cluster.x-k8s.io/cloned-from-name"} //nolint:gochecknoglobals // a constant list

// Problem is why a remediation can't start or has to wait, with a reason for its conditions.
type Problem struct{ Reason, Message string }

// Found reports whether there is a problem.
func (p Problem) Found() bool { return p.Reason != "" }

// Machines reads the machines of OpenShift, and claims them for remediations. Live reads at the API server.
type Machines struct {
	Live   client.Reader
	Writer client.Writer
}

// +kubebuilder:rbac:groups=machine.openshift.io,resources=machines,verbs=get;patch

// Get reads a machine, and returns nil if there is none, or if the cluster has no machines.
func (m Machines) Get(ctx context.Context, key types.NamespacedName) (*unstructured.Unstructured, error) {
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(OpenShiftMachine)
	err := m.Live.Get(ctx, key, u)
	if apierrors.IsNotFound(err) || meta.IsNoMatchError(err) {
		return nil, nil //nolint:nilnil // there is none
	}
	if err != nil {
		return nil, fmt.Errorf("reading %s %s: %w", OpenShiftMachine.Kind, key, err)
	}
	return u, nil
}

// NodeRefOf returns the name of the node that a machine has by its status.
func NodeRefOf(m *unstructured.Unstructured) string {
	name, _, _ := unstructured.NestedString(m.Object, "status", "nodeRef", "name")
	return name
}

// NodeNameOf returns the name of the node that a remediation is for. A machine names it in its status.
func (m Machines) NodeNameOf(ctx context.Context, r metav1.Object) (string, Problem, error) {
	if !contract.IsForMachine(r, OpenShiftMachine.GroupKind()) {
		return contract.NodeOf(r), Problem{}, nil
	}
	owner, _ := contract.OwnerMachine(r, OpenShiftMachine.GroupKind())
	of, err := m.Get(ctx, owner.Key)
	if err != nil {
		return "", Problem{}, err
	}
	if of == nil || of.GetUID() != owner.UID {
		return "", Problem{Reason: v1alpha1.CannotStartMachineNotFoundReason, Message: "machine " + owner.Key.String() + ", which owns this remediation, does not exist"}, nil
	}
	name := NodeRefOf(of)
	if name == "" {
		return "", Problem{Reason: v1alpha1.CannotStartNodeNotFoundReason, Message: "machine " + owner.Key.String() + " has no node (status.nodeRef)"}, nil
	}
	return name, Problem{}, nil
}

// OrphanMismatch returns why a remediation that was made for a machine, and that no machine owns any more, is for no node. A user who may
// delete the machine may have the garbage collector remove the owner. The remediation has the name that the user gave to the machine.
func OrphanMismatch(r metav1.Object) Problem {
	owned := slices.ContainsFunc(r.GetOwnerReferences(), func(o metav1.OwnerReference) bool { return o.Kind == OpenShiftMachine.Kind })
	made := slices.ContainsFunc(clonedFromAnnotations, func(key string) bool { _, set := r.GetAnnotations()[key]; return set })
	if owned || !made {
		return Problem{}
	}
	return Problem{Reason: v1alpha1.CannotStartMachineNotFoundReason, Message: "this remediation was made for a machine, and no machine owns it any more"}
}

// MachineMismatch returns why a remediation that a machine owns is not for a node, which may be nil. A health check may belong to a tenant,
// and so may the machine and its name. So the node must name that very machine, by annotations that only administrators and controllers may write.
func MachineMismatch(r metav1.Object, name string, node *corev1.Node) Problem {
	for _, o := range r.GetOwnerReferences() {
		if o.Kind != OpenShiftMachine.Kind {
			continue
		}
		if node == nil {
			return Problem{Reason: v1alpha1.CannotStartNodeNotFoundReason, Message: "there is no node " + name + " in this cluster that names machine " + r.GetNamespace() + "/" + o.Name + " as its own"}
		}
		if !names(node, schema.FromAPIVersionAndKind(o.APIVersion, o.Kind).Group, r.GetNamespace(), o.Name) {
			return Problem{Reason: v1alpha1.CannotStartMachineNotFoundReason, Message: "node " + name + " does not name machine " + r.GetNamespace() + "/" + o.Name + " by its annotations, so it is not known to be its node"}
		}
	}
	return Problem{}
}

// names reports whether a node names a machine.
func names(node *corev1.Node, group, namespace, machine string) bool {
	switch group {
	case OpenShiftMachine.Group:
		return node.Annotations[MachineAnnotation] == namespace+"/"+machine
	case clusterAPIGroup:
		return node.Annotations[ClusterAPIMachineAnnotation] == machine && node.Annotations[clusterAPINamespaceAnnotation] == namespace
	}
	return false
}

// NamedBy returns the machine that a node names, or nil. The node may be nil, and the machine may have another node.
func (m Machines) NamedBy(ctx context.Context, node *corev1.Node) (*unstructured.Unstructured, error) {
	if node == nil {
		return nil, nil //nolint:nilnil // there is none
	}
	key, found := keyOf(node.Annotations[MachineAnnotation])
	if !found {
		return nil, nil //nolint:nilnil // there is none
	}
	return m.Get(ctx, key)
}

// keyOf returns the namespace and the name that an annotation has.
func keyOf(key string) (types.NamespacedName, bool) {
	namespace, name, found := strings.Cut(key, "/")
	return types.NamespacedName{Namespace: namespace, Name: name}, found && namespace != "" && name != ""
}

// marked says for whom a machine is marked. It is empty if it is not.
func marked(m *unstructured.Unstructured) string {
	if _, is := m.GetAnnotations()[ExternalMark]; !is {
		return ""
	}
	return "machine " + m.GetNamespace() + "/" + m.GetName() + " has the annotation " + ExternalMark + ", so another controller powers its host, and this remediation waits until the annotation is gone; " +
		"remove it where no other controller acts on it"
}

// Works returns the node on which a remediation with a name and a UID works: it has begun and not ended. It has no node if it can't be read:
// it may work then. There is one for each kind.
type Works func(ctx context.Context, key types.NamespacedName, uid types.UID) (Holder, string, bool)

// Keeps reports whether a remediation has ended and keeps the taint on a node until it is deleted. The remediation with a UID doesn't count. There is
// one for each kind.
type Keeps func(ctx context.Context, node string, but types.UID) bool

// MayExist reports whether an object of which a read has failed may exist. It does not if there is no such object, or no such kind.
func MayExist(err error) bool { return !apierrors.IsNotFound(err) && !meta.IsNoMatchError(err) }

// WorksOn returns the node on which a remediation works, if it has that UID.
func WorksOn(r metav1.Object, s *v1alpha1.FencingStatus, uid types.UID) (string, bool) {
	if r.GetUID() != uid || s.Node == nil || !Underway(s) {
		return "", false
	}
	return s.Node.Name, true
}

// ReadyWhileTaken returns a problem if a fencing has waited as TakenBy had it wait, and its node, which may be nil, has become Ready since.
func ReadyWhileTaken(s *v1alpha1.FencingStatus, n *corev1.Node) Problem {
	return ReadyMeanwhile(s, n, "this remediation waited for another controller or remediation", AnotherRemediation, MachineMarked)
}

// TakenBy returns why a remediation has to wait for a machine, which may be nil. The machine is marked for another controller, or the
// remediation of another node that names it is under way.
func (Machines) TakenBy(ctx context.Context, r metav1.Object, m *unstructured.Unstructured, kinds ...Works) Problem {
	if m == nil {
		return Problem{}
	}
	if why := marked(m); why != "" {
		return Problem{Reason: MachineMarked, Message: why}
	}
	by := strings.Split(m.GetAnnotations()[annotation.ClaimedBy], "/")
	if len(by) != 3 || by[2] == string(r.GetUID()) {
		return Problem{}
	}
	for _, works := range kinds {
		if works == nil {
			continue
		}
		if holder, node, is := works(ctx, types.NamespacedName{Namespace: by[0], Name: by[1]}, types.UID(by[2])); is {
			return Problem{Reason: AnotherRemediation, Message: claimedBy(holder, node, m)}
		}
	}
	return Problem{} // it has ended, or is gone
}

// claimedBy returns what to say of the remediation of a node that has claimed a machine. It has no node if it can't be read.
func claimedBy(by Holder, node string, m *unstructured.Unstructured) string {
	claim := by.String() + " has claimed machine " + m.GetNamespace() + "/" + m.GetName()
	if node == "" {
		return claim + " and can't be read, and this one waits until it can"
	}
	return claim + ", which node " + node + " names too, and this one waits until it has ended; correct the annotation " + MachineAnnotation + " of one of the nodes"
}

// claimantOf returns how a remediation is named by the annotation of the machine that it claims.
func claimantOf(r metav1.Object) string {
	return r.GetNamespace() + "/" + r.GetName() + "/" + string(r.GetUID())
}

// ClaimOn returns the annotation by which a remediation names the machine, which may be nil, that it is about to claim.
func ClaimOn(m *unstructured.Unstructured) map[string]string {
	if m == nil {
		return nil
	}
	return map[string]string{annotation.ClaimedMachine: m.GetNamespace() + "/" + m.GetName()}
}

// Claim claims a machine, which may be nil, as it was read. The remediation names the machine before, so that the claim can be taken back.
func (m Machines) Claim(ctx context.Context, r metav1.Object, of *unstructured.Unstructured) error {
	by := claimantOf(r)
	if of == nil || of.GetAnnotations()[annotation.ClaimedBy] == by {
		return nil
	}
	return m.set(ctx, of, &by)
}

// Release takes the claim of a remediation back, if the machine still has it.
func (m Machines) Release(ctx context.Context, r metav1.Object) error {
	key, found := keyOf(r.GetAnnotations()[annotation.ClaimedMachine])
	if !found {
		return nil
	}
	of, err := m.Get(ctx, key)
	if err != nil || of == nil || of.GetAnnotations()[annotation.ClaimedBy] != claimantOf(r) {
		return err
	}
	return m.set(ctx, of, nil)
}

// ReleaseOthers takes the claim of a remediation back unless it is on a machine, which may be nil.
func (m Machines) ReleaseOthers(ctx context.Context, r metav1.Object, of *unstructured.Unstructured) error {
	if of != nil && r.GetAnnotations()[annotation.ClaimedMachine] == of.GetNamespace()+"/"+of.GetName() {
		return nil
	}
	return m.Release(ctx, r)
}

// set sets or removes the claim on a machine as it was read.
func (m Machines) set(ctx context.Context, of *unstructured.Unstructured, by *string) error {
	body, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"uid": of.GetUID(), "resourceVersion": of.GetResourceVersion(), "annotations": map[string]*string{annotation.ClaimedBy: by},
	}})
	if err != nil {
		return fmt.Errorf("encoding a patch: %w", err)
	}
	target := &metav1.PartialObjectMetadata{}
	target.SetGroupVersionKind(OpenShiftMachine)
	target.SetNamespace(of.GetNamespace())
	target.SetName(of.GetName())
	if err := m.Writer.Patch(ctx, target, client.RawPatch(types.MergePatchType, body)); err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("claiming machine %s/%s: %w", of.GetNamespace(), of.GetName(), err)
	}
	return nil
}
