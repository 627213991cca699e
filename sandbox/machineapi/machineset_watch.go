package machineapi

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	machinev1 "github.com/fettle-io/fettle/sandbox/api/machine/v1beta1"
)

func (c *machineSetController) register(_ context.Context, mgr ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(mgr).
		Named("machineset").
		For(&machinev1.MachineSet{}).
		Watches(&machinev1.Machine{}, handler.EnqueueRequestsFromMapFunc(c.setsOfMachine)).
		Watches(&corev1.Node{}, handler.EnqueueRequestsFromMapFunc(c.setsOfNode), builder.WithPredicates(readyChanged())).
		Complete(c)
}

// setsOfMachine returns the set that controls the machine. For an orphan it returns the sets that could adopt it.
func (c *machineSetController) setsOfMachine(ctx context.Context, object client.Object) []reconcile.Request {
	if owner := metav1.GetControllerOf(object); owner != nil {
		if owner.Kind != "MachineSet" {
			return nil
		}
		return []reconcile.Request{{NamespacedName: client.ObjectKey{Namespace: object.GetNamespace(), Name: owner.Name}}}
	}
	sets := &machinev1.MachineSetList{}
	if err := c.client.List(ctx, sets, client.InNamespace(object.GetNamespace())); err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "listing the sets that could adopt a machine", "machine", object.GetName())
		return nil
	}
	var requests []reconcile.Request
	for i := range sets.Items {
		set := &sets.Items[i]
		selector, err := metav1.LabelSelectorAsSelector(&set.Spec.Selector)
		if err == nil && selector.Matches(labels.Set(object.GetLabels())) {
			requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(set)})
		}
	}
	return requests
}

func (c *machineSetController) setsOfNode(ctx context.Context, object client.Object) []reconcile.Request {
	var requests []reconcile.Request
	for _, id := range providerIDs(object) {
		machines := &machinev1.MachineList{}
		if err := c.client.List(ctx, machines, client.MatchingFields{byProviderID: id}); err != nil {
			ctrl.LoggerFrom(ctx).Error(err, "listing the machines of a node", "node", object.GetName())
			return nil
		}
		for i := range machines.Items {
			requests = append(requests, c.setsOfMachine(ctx, &machines.Items[i])...)
		}
	}
	return requests
}

// readyChanged filters heartbeats out.
func readyChanged() predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		before, ok1 := e.ObjectOld.(*corev1.Node)
		after, ok2 := e.ObjectNew.(*corev1.Node)
		return !ok1 || !ok2 || readySince(before) != readySince(after)
	}}
}

// readySince returns when the node became ready, or the zero value if it is not.
func readySince(node *corev1.Node) metav1.Time {
	for _, c := range node.Status.Conditions {
		if c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue {
			return c.LastTransitionTime
		}
	}
	return metav1.Time{}
}
