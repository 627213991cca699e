package powercycle

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fettle-io/fettle/api/fettle/annotation"
	"github.com/fettle-io/fettle/api/fettle/v1alpha1"
	"github.com/fettle-io/fettle/api/openshift/v1beta1"
	"github.com/fettle-io/fettle/internal/fencing"
)

// A machine may be marked for the machine controller of its platform, which powers the same host off and on
// (docs/reference/openshift.md#deletion-and-annotation). So a remediation waits while the machine of its node is marked. Before its first
// effect it claims the machine by an annotation. The patch has the revision at which there was no mark. A mark that Fettle sets has the
// revision of the machine too, so the API server refuses the later one of both.

// externalMark on a machine requests its remediation from the machine controller. Only its presence counts.
const externalMark = v1beta1.ExternalRemediationAnnotation

// machineMarked is the reason of a remediation that waits until the machine of its node is not marked any more.
const machineMarked = "MachineMarked"

// claimantOf returns how a remediation is named by the annotation of the machine that it claims.
func claimantOf(r *v1alpha1.PowerRemediation) string {
	return r.Namespace + "/" + r.Name + "/" + string(r.UID)
}

// machineNamedBy returns the machine that the node of a look names, or nil. The machine may have another node. A node of a workload
// cluster names none: its annotations are those of another administrator.
func (c *Client) machineNamedBy(ctx context.Context, l *look, node *corev1.Node) (*unstructured.Unstructured, error) {
	if node == nil || !l.cluster.isHome() {
		return nil, nil //nolint:nilnil // there is none
	}
	namespace, name, found := strings.Cut(node.Annotations[machineAnnotation], "/")
	if !found || namespace == "" || name == "" {
		return nil, nil //nolint:nilnil // there is none
	}
	return c.getMachine(ctx, types.NamespacedName{Namespace: namespace, Name: name})
}

// marked says for whom a machine, which may be nil, is marked. It is empty if it is not.
func marked(m *unstructured.Unstructured) string {
	if m == nil {
		return ""
	}
	if _, is := m.GetAnnotations()[externalMark]; !is {
		return ""
	}
	return "machine " + m.GetNamespace() + "/" + m.GetName() + " has the annotation " + externalMark + ", so another controller powers its host, and this remediation waits until the annotation is gone; " +
		"remove it where no other controller acts on it"
}

// takenBy returns why a remediation has to wait for a machine, which may be nil: it is marked for another controller, or the remediation of
// another node that names it is under way.
func (c *Client) takenBy(ctx context.Context, r *v1alpha1.PowerRemediation, m *unstructured.Unstructured) problem {
	if why := marked(m); why != "" {
		return problem{reason: machineMarked, message: why}
	}
	if m == nil {
		return problem{}
	}
	by := strings.Split(m.GetAnnotations()[annotation.ClaimedBy], "/")
	if len(by) != 3 || by[2] == string(r.UID) {
		return problem{}
	}
	var holder v1alpha1.PowerRemediation
	if err := c.Cache.Get(ctx, types.NamespacedName{Namespace: by[0], Name: by[1]}, &holder); err != nil {
		return problem{} // it is gone
	}
	if phase := fencing.Phase(holder.Status.Phase); string(holder.UID) != by[2] || phase == "" || phase.Final() || holder.Status.Node == nil {
		return problem{}
	}
	return problem{reason: anotherRemediation, message: "PowerRemediation " + by[0] + "/" + by[1] + " has claimed machine " + m.GetNamespace() + "/" + m.GetName() +
		", which node " + holder.Status.Node.Name + " names too, and this one waits until it has ended; correct the annotation " + machineAnnotation + " of one of the nodes"}
}

// claim claims a machine, which may be nil, as it was read. The remediation names the machine before, so that the claim can be taken back.
func (c *Client) claim(ctx context.Context, r *v1alpha1.PowerRemediation, m *unstructured.Unstructured) error {
	by := claimantOf(r)
	if m == nil || m.GetAnnotations()[annotation.ClaimedBy] == by {
		return nil
	}
	return c.setClaim(ctx, m, &by)
}

// release takes the claim of a remediation back, if the machine still has it.
func (c *Client) release(ctx context.Context, r *v1alpha1.PowerRemediation) error {
	namespace, name, found := strings.Cut(r.Annotations[annotation.ClaimedMachine], "/")
	if !found || namespace == "" || name == "" {
		return nil
	}
	m, err := c.getMachine(ctx, types.NamespacedName{Namespace: namespace, Name: name})
	if err != nil || m == nil || m.GetAnnotations()[annotation.ClaimedBy] != claimantOf(r) {
		return err
	}
	return c.setClaim(ctx, m, nil)
}

// releaseOthers takes the claim of a remediation back unless it is on a machine, which may be nil.
func (c *Client) releaseOthers(ctx context.Context, r *v1alpha1.PowerRemediation, m *unstructured.Unstructured) error {
	if m != nil && r.Annotations[annotation.ClaimedMachine] == m.GetNamespace()+"/"+m.GetName() {
		return nil
	}
	return c.release(ctx, r)
}

// isDone reports whether a remediation has ended, and commands the power of the host no more. A failed remediation keeps its claim,
// since a user has to look at the host. It gives the claim back if it has failed before it did anything.
func isDone(s *v1alpha1.PowerRemediationStatus) bool {
	switch fencing.Phase(s.Phase) { //nolint:exhaustive // the others don't end a remediation
	case fencing.Succeeded, fencing.Aborted:
		return !s.PoweredOff
	case fencing.Failed:
		return s.Reason == string(fencing.NodeReplaced)
	}
	return false
}

// +kubebuilder:rbac:groups=machine.openshift.io,resources=machines,verbs=patch

// setClaim sets or removes the claim on a machine as it was read.
func (c *Client) setClaim(ctx context.Context, m *unstructured.Unstructured, by *string) error {
	body, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"uid": m.GetUID(), "resourceVersion": m.GetResourceVersion(), "annotations": map[string]*string{annotation.ClaimedBy: by},
	}})
	if err != nil {
		return fmt.Errorf("encoding a patch: %w", err)
	}
	target := &metav1.PartialObjectMetadata{}
	target.SetGroupVersionKind(openshiftMachine)
	target.SetNamespace(m.GetNamespace())
	target.SetName(m.GetName())
	if err := c.Writer.Patch(ctx, target, client.RawPatch(types.MergePatchType, body)); err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("claiming machine %s/%s: %w", m.GetNamespace(), m.GetName(), err)
	}
	return nil
}
