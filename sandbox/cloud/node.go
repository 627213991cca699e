package cloud

import (
	"context"
	"fmt"
	"maps"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	cloudv1 "github.com/fettle-io/fettle/sandbox/api/cloud/v1alpha1"
	"github.com/fettle-io/fettle/sandbox/kubelets"
	"github.com/fettle-io/fettle/sandbox/metal"
)

// StartKubelet does the work of a starting kubelet: it registers the node if there is none, and begins its heartbeats.
func StartKubelet(ctx context.Context, c client.Client, instance *cloudv1.Instance, status cloudv1.InstanceStatus) error {
	err := c.Create(ctx, newNode(instance, status))
	if err == nil {
		return nil
	}
	if !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("registering node %s: %w", instance.Spec.NodeName, err)
	}
	return labelNode(ctx, c, instance, "null")
}

// StopKubelet makes the node fall silent. A node that doesn't exist is silent already.
func StopKubelet(ctx context.Context, c client.Client, instance *cloudv1.Instance) error {
	return labelNode(ctx, c, instance, `"`+kubelets.LabelStopped+`"`)
}

// StopHost presses the button of the bare-metal host on which the node runs, and reports whether that host is off. A node
// without a host has nothing to stop.
func StopHost(ctx context.Context, c client.Client, instance *cloudv1.Instance) (bool, error) {
	node := &corev1.Node{}
	err := c.Get(ctx, client.ObjectKey{Name: instance.Spec.NodeName}, node)
	if apierrors.IsNotFound(err) {
		return true, nil
	}
	if err != nil {
		return false, fmt.Errorf("reading node %s: %w", instance.Spec.NodeName, err)
	}
	power, simulated := node.Annotations[metal.AnnotationHostPower]
	if !simulated || power == metal.PowerOff {
		return true, nil
	}
	patch := fmt.Sprintf(`{"metadata":{"annotations":{%q:%q}}}`, metal.AnnotationPower, metal.PowerOff)
	if err := c.Patch(ctx, node, client.RawPatch(types.MergePatchType, []byte(patch))); client.IgnoreNotFound(err) != nil {
		return false, fmt.Errorf("pressing the button of the host of node %s: %w", node.Name, err)
	}
	return false, nil
}

// labelNode writes without a read, since the cached node may be old. The value is JSON.
func labelNode(ctx context.Context, c client.Client, instance *cloudv1.Instance, value string) error {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: instance.Spec.NodeName}}
	patch := fmt.Sprintf(`{"metadata":{"labels":{%q:%s}}}`, kubelets.Label, value)
	err := c.Patch(ctx, node, client.RawPatch(types.MergePatchType, []byte(patch)))
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("labelling node %s: %w", node.Name, err)
	}
	return nil
}

func newNode(instance *cloudv1.Instance, status cloudv1.InstanceStatus) *corev1.Node {
	labels := map[string]string{
		corev1.LabelHostname:           instance.Spec.NodeName,
		corev1.LabelOSStable:           "linux",
		corev1.LabelArchStable:         "amd64",
		corev1.LabelTopologyZone:       instance.Spec.Zone,
		corev1.LabelInstanceTypeStable: instance.Spec.InstanceType,
	}
	maps.Copy(labels, instance.Spec.NodeLabels)
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{
			Name:        instance.Spec.NodeName,
			Labels:      labels,
			Annotations: map[string]string{kubelets.Annotation: kubelets.AnnotationValue},
		},
		Spec: corev1.NodeSpec{ProviderID: status.ProviderID},
		Status: corev1.NodeStatus{
			Addresses:   status.Addresses,
			Capacity:    resources("4", "16Gi"),
			Allocatable: resources("3500m", "15Gi"),
		},
	}
}

func resources(cpu, memory string) corev1.ResourceList {
	return corev1.ResourceList{
		corev1.ResourceCPU:              resource.MustParse(cpu),
		corev1.ResourceMemory:           resource.MustParse(memory),
		corev1.ResourceEphemeralStorage: resource.MustParse("100Gi"),
		corev1.ResourcePods:             resource.MustParse("250"),
	}
}
