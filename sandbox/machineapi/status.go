package machineapi

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	machinev1 "github.com/fettle-io/fettle/sandbox/api/machine/v1beta1"
)

// statusWriter is the only writer of a machine's status.
type statusWriter struct {
	client client.Client
	now    func() time.Time
}

// write applies the change. It updates LastUpdated only if the change changes anything.
func (w statusWriter) write(ctx context.Context, machine *machinev1.Machine, change func(*machinev1.MachineStatus)) error {
	before := machine.DeepCopy()
	change(&machine.Status)
	if equality.Semantic.DeepEqual(before.Status, machine.Status) {
		return nil
	}
	machine.Status.LastUpdated = new(metav1.NewTime(w.now()))
	patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	if err := w.client.Status().Patch(ctx, machine, patch); err != nil {
		return fmt.Errorf("writing the status of machine %s: %w", machine.Name, err)
	}
	return nil
}

// condition returns a change that sets a condition.
func (w statusWriter) condition(c machinev1.Condition) func(*machinev1.MachineStatus) {
	return func(status *machinev1.MachineStatus) {
		status.Conditions = machinev1.SetCondition(status.Conditions, c, w.now())
	}
}

func conditionTrue(kind string) machinev1.Condition {
	return machinev1.Condition{Type: kind, Status: corev1.ConditionTrue}
}

func conditionFalse(kind, severity, reason, message string) machinev1.Condition {
	return machinev1.Condition{Type: kind, Status: corev1.ConditionFalse, Severity: severity, Reason: reason, Message: message}
}

// settled drops errors after which another event of the same object is sure to come: it was changed, or it is gone.
func settled(err error) error {
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		return nil
	}
	return err
}
