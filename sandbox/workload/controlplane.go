package workload

import (
	"context"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	controlplanev1 "sigs.k8s.io/cluster-api/api/controlplane/kubeadm/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	providerv1 "github.com/fettle-io/fettle/sandbox/api/provider/v1alpha1"
)

// ensureControlPlane returns the reference by which machines belong to the control plane. Without a reconciler, it
// writes the status here, once. Machine sets make no machine before that.
func ensureControlPlane(ctx context.Context, c client.Client, cluster Cluster) (metav1.OwnerReference, error) {
	template := &providerv1.SandboxMachineTemplate{ObjectMeta: cluster.meta(cluster.Name + "-control-plane")}
	wanted := newControlPlane(cluster, template.Name)
	if err := create(ctx, c, template, wanted); err != nil {
		return metav1.OwnerReference{}, err
	}
	plane := &controlplanev1.KubeadmControlPlane{}
	if err := c.Get(ctx, client.ObjectKeyFromObject(wanted), plane); err != nil {
		return metav1.OwnerReference{}, fmt.Errorf("reading the control plane of cluster %s: %w", cluster.Name, err)
	}
	if !cluster.Kubeadm && plane.Status.Initialization.ControlPlaneInitialized == nil {
		before := plane.DeepCopy()
		plane.Status = statusOf(cluster, plane.Generation, time.Now())
		if err := c.Status().Patch(ctx, plane, client.MergeFrom(before)); err != nil {
			return metav1.OwnerReference{}, fmt.Errorf("writing the status of the control plane of cluster %s: %w", cluster.Name, err)
		}
	}
	return *metav1.NewControllerRef(plane, controlplanev1.GroupVersion.WithKind(controlPlaneKind)), nil
}

// newControlPlane makes a control plane whose machines are deleted before it, as a real one does: Cluster API needs the
// Cluster to delete a machine, and the Cluster waits for its control plane.
func newControlPlane(cluster Cluster, template string) *controlplanev1.KubeadmControlPlane {
	plane := &controlplanev1.KubeadmControlPlane{
		ObjectMeta: cluster.meta(cluster.Name),
		Spec: controlplanev1.KubeadmControlPlaneSpec{
			Replicas: new(cluster.ControlPlaneMachines),
			Version:  Version,
			MachineTemplate: controlplanev1.KubeadmControlPlaneMachineTemplate{
				Spec: controlplanev1.KubeadmControlPlaneMachineTemplateSpec{
					InfrastructureRef: provided(machineTemplateKind, template),
				},
			},
		},
	}
	if !cluster.Kubeadm {
		plane.Finalizers = []string{metav1.FinalizerDeleteDependents}
	}
	return plane
}

// statusOf returns the status of a healthy control plane.
func statusOf(cluster Cluster, generation int64, now time.Time) controlplanev1.KubeadmControlPlaneStatus {
	n := cluster.ControlPlaneMachines
	return controlplanev1.KubeadmControlPlaneStatus{
		ObservedGeneration: generation,
		Initialization:     controlplanev1.KubeadmControlPlaneInitializationStatus{ControlPlaneInitialized: new(true)},
		Replicas:           new(n),
		ReadyReplicas:      new(n),
		AvailableReplicas:  new(n),
		UpToDateReplicas:   new(n),
		Versions:           []clusterv1.StatusVersion{{Version: Version, Replicas: n}},
		Conditions: []metav1.Condition{{
			Type:               controlplanev1.KubeadmControlPlaneAvailableCondition,
			Status:             metav1.ConditionTrue,
			Reason:             clusterv1.AvailableReason,
			LastTransitionTime: metav1.NewTime(now),
		}},
	}
}
