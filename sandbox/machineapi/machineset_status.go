package machineapi

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	machinev1 "github.com/fettle-io/fettle/sandbox/api/machine/v1beta1"
)

// writeStatus counts the machines. The result requeues the set when a ready machine becomes available.
func (c *machineSetController) writeStatus(
	ctx context.Context, set *machinev1.MachineSet, machines []*machinev1.Machine, now time.Time,
) (ctrl.Result, error) {
	status := machinev1.MachineSetStatus{
		ObservedGeneration: set.Generation,
		LabelSelector:      metav1.FormatLabelSelector(&set.Spec.Selector),
	}
	fully := labels.SelectorFromSet(set.Spec.Template.Labels)
	minReady := time.Duration(set.Spec.MinReadySeconds) * time.Second
	var result ctrl.Result
	for _, machine := range machines {
		status.Replicas++
		if fully.Matches(labels.Set(machine.Labels)) {
			status.FullyLabeledReplicas++
		}
		since, err := c.nodeReadySince(ctx, machine)
		if err != nil {
			return ctrl.Result{}, err
		}
		if since.IsZero() {
			continue
		}
		status.ReadyReplicas++
		if wait := since.Add(minReady).Sub(now); wait > 0 {
			result.RequeueAfter = soonest(result.RequeueAfter, wait)
			continue
		}
		status.AvailableReplicas++
	}
	if equality.Semantic.DeepEqual(status, set.Status) {
		return result, nil
	}
	before := set.DeepCopy()
	set.Status = status
	if err := c.client.Status().Patch(ctx, set, client.MergeFrom(before)); err != nil {
		return ctrl.Result{}, fmt.Errorf("writing the status of machine set %s: %w", set.Name, err)
	}
	return result, nil
}

func (c *machineSetController) nodeReadySince(ctx context.Context, machine *machinev1.Machine) (metav1.Time, error) {
	if machine.Status.NodeRef == nil {
		return metav1.Time{}, nil
	}
	node := &corev1.Node{}
	err := c.client.Get(ctx, client.ObjectKey{Name: machine.Status.NodeRef.Name}, node)
	if apierrors.IsNotFound(err) {
		return metav1.Time{}, nil
	}
	if err != nil {
		return metav1.Time{}, fmt.Errorf("reading node %s: %w", machine.Status.NodeRef.Name, err)
	}
	return readySince(node), nil
}

// soonest returns the shorter wait, where zero means none.
func soonest(a, b time.Duration) time.Duration {
	if a == 0 {
		return b
	}
	return min(a, b)
}
