package machineapi

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	machinev1 "github.com/fettle-io/fettle/sandbox/api/machine/v1beta1"
)

// delete takes the next step of a deletion: phase, drain, hooks, instance, node, finalizer.
func (c *machineController) delete(ctx context.Context, machine *machinev1.Machine) (ctrl.Result, error) {
	if !controllerutil.ContainsFinalizer(machine, machinev1.MachineFinalizer) {
		return ctrl.Result{}, nil // this part is done; other finalizers are left
	}
	if err := c.status.write(ctx, machine, c.deleting(machine)); err != nil {
		return ctrl.Result{}, err
	}
	if !machinev1.IsTrue(machine.Status.Conditions, machinev1.ConditionDrained) {
		return ctrl.Result{}, nil // the drain controller's turn
	}
	if len(machine.Spec.LifecycleHooks.PreTerminate) > 0 {
		return ctrl.Result{}, nil // until they are removed
	}
	instance, err := c.cloud.Find(ctx, machine)
	if err != nil {
		return ctrl.Result{}, err
	}
	if instance != nil {
		if instance.DeletionTimestamp.IsZero() {
			eventTerminating().record(c.events, machine)
			if err := c.cloud.Terminate(ctx, instance); err != nil {
				return ctrl.Result{}, err
			}
		}
		return ctrl.Result{RequeueAfter: c.poll}, nil
	}
	if err := c.deleteNode(ctx, machine); err != nil {
		return ctrl.Result{}, err
	}
	before := machine.DeepCopy()
	controllerutil.RemoveFinalizer(machine, machinev1.MachineFinalizer)
	return ctrl.Result{}, c.update(ctx, before, machine)
}

func (c *machineController) deleting(machine *machinev1.Machine) func(*machinev1.MachineStatus) {
	return func(s *machinev1.MachineStatus) {
		s.Phase = ptr.To(machinev1.PhaseDeleting)
		hooks := machine.Spec.LifecycleHooks
		c.status.condition(hookCondition(machinev1.ConditionDrainable, hooks.PreDrain))(s)
		c.status.condition(hookCondition(machinev1.ConditionTerminable, hooks.PreTerminate))(s)
	}
}

func hookCondition(kind string, hooks []machinev1.LifecycleHook) machinev1.Condition {
	if len(hooks) == 0 {
		return conditionTrue(kind)
	}
	message := fmt.Sprintf("waiting for hook %s of %s", hooks[0].Name, hooks[0].Owner)
	return conditionFalse(kind, machinev1.SeverityWarning, "HookPresent", message)
}

func (c *machineController) deleteNode(ctx context.Context, machine *machinev1.Machine) error {
	if machine.Status.NodeRef == nil {
		return nil
	}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: machine.Status.NodeRef.Name}}
	if err := c.client.Delete(ctx, node); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("deleting node %s: %w", node.Name, err)
	}
	return nil
}
