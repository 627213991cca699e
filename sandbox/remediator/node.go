package remediator

import (
	"context"
	"fmt"
	"maps"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	cloudv1 "github.com/fettle-io/fettle/sandbox/api/cloud/v1alpha1"
	remediationv1 "github.com/fettle-io/fettle/sandbox/api/remediation/v1alpha1"
	"github.com/fettle-io/fettle/sandbox/kubelets"
)

// findNode returns the node as it is now, or nil.
func (r *remediator) findNode(ctx context.Context, name string) (*corev1.Node, error) {
	node := &corev1.Node{}
	err := r.live.Get(ctx, client.ObjectKey{Name: name}, node)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading node %s: %w", name, err)
	}
	return node, nil
}

// cordon makes the node unschedulable, or schedulable again. A node that is gone needs neither.
func (r *remediator) cordon(ctx context.Context, name string, on bool) error {
	return r.patchNode(ctx, name, fmt.Sprintf(`{"spec":{"unschedulable":%t}}`, on))
}

// reboot revives the node's kubelet and its health. For a simulated machine, it revives the instance.
func (r *remediator) reboot(ctx context.Context, name string) error {
	instance := &cloudv1.Instance{ObjectMeta: metav1.ObjectMeta{Name: name}}
	err := r.client.Patch(ctx, instance, client.RawPatch(types.MergePatchType, []byte(`{"spec":{"fault":""}}`)))
	if client.IgnoreNotFound(err) != nil && !meta.IsNoMatchError(err) {
		return fmt.Errorf("rebooting instance %s: %w", name, err)
	}
	if err == nil {
		return nil
	}
	return r.patchNode(ctx, name, fmt.Sprintf(`{"metadata":{"labels":{%q:null},"annotations":{%q:null}}}`, kubelets.Label, kubelets.AnnotationReady))
}

func (r *remediator) patchNode(ctx context.Context, name, patch string) error {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
	err := r.client.Patch(ctx, node, client.RawPatch(types.MergePatchType, []byte(patch)))
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("patching node %s: %w", name, err)
	}
	return nil
}

// remove removes this very node, and not a newer one of its name.
func (r *remediator) remove(ctx context.Context, node *corev1.Node) error {
	err := r.client.Delete(ctx, node, client.Preconditions{UID: &node.UID})
	if client.IgnoreNotFound(err) != nil && !apierrors.IsConflict(err) {
		return fmt.Errorf("removing node %s: %w", node.Name, err)
	}
	return nil
}

// registerReplacement registers a node in place of a removed one.
func (r *remediator) registerReplacement(ctx context.Context, name string, removed *remediationv1.Registration) error {
	if removed == nil {
		return nil
	}
	old := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, UID: removed.UID}}
	if err := r.remove(ctx, old); err != nil {
		return err
	}
	node := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: removed.Labels, Annotations: removed.Annotations},
		Spec:       corev1.NodeSpec{ProviderID: removed.ProviderID},
	}
	if err := r.client.Create(ctx, node); client.IgnoreAlreadyExists(err) != nil {
		return fmt.Errorf("registering node %s: %w", name, err)
	}
	return nil
}

// registrationOf returns the registration of a reinstalled node: without its faults.
func registrationOf(node *corev1.Node) *remediationv1.Registration {
	labels, annotations := maps.Clone(node.Labels), maps.Clone(node.Annotations)
	delete(labels, kubelets.Label)
	for _, fault := range []string{kubelets.AnnotationReady, rebootAnnotation} {
		delete(annotations, fault)
	}
	return &remediationv1.Registration{UID: node.UID, Labels: labels, Annotations: annotations, ProviderID: node.Spec.ProviderID}
}
