package machineapi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	cloudv1 "github.com/fettle-io/fettle/sandbox/api/cloud/v1alpha1"
	machinev1 "github.com/fettle-io/fettle/sandbox/api/machine/v1beta1"
	"github.com/fettle-io/fettle/sandbox/cloud"
)

const instanceStateUnknown = "Unknown"

// provision launches the machine's instance, or follows the existing one.
func (c *machineController) provision(ctx context.Context, machine *machinev1.Machine) (ctrl.Result, error) {
	instance, err := c.cloud.Find(ctx, machine)
	if err != nil {
		unknown := machinev1.Condition{
			Type: machinev1.ConditionInstanceExists, Status: corev1.ConditionUnknown,
			Reason: "ErrorCheckingProvider", Message: err.Error(),
		}
		return ctrl.Result{}, errors.Join(err, c.status.write(ctx, machine, c.status.condition(unknown)))
	}
	// Like real clouds, this one lists a terminated instance for a while, but it doesn't count as existing.
	exists := instance != nil && instance.DeletionTimestamp.IsZero() && instance.Status.State != cloudv1.StateTerminated
	switch {
	case exists:
		return c.follow(ctx, machine, instance)
	case machine.Spec.ProviderID != nil || len(machine.Status.Addresses) > 0:
		note := "the instance that was created for this machine is gone"
		eventVanished(note).record(c.events, machine)
		return ctrl.Result{}, c.fail(ctx, machine, machinev1.ErrorUpdate, note, "InstanceMissing")
	case machine.Phase() == "":
		return ctrl.Result{}, c.status.write(ctx, machine, func(s *machinev1.MachineStatus) {
			s.Phase = ptr.To(machinev1.PhaseProvisioning)
		})
	default:
		return c.launch(ctx, machine)
	}
}

func (c *machineController) launch(ctx context.Context, machine *machinev1.Machine) (ctrl.Result, error) {
	missing := conditionFalse(machinev1.ConditionInstanceExists, machinev1.SeverityWarning, "InstanceNotCreated",
		"the instance has not been created yet")
	if err := c.status.write(ctx, machine, c.status.condition(missing)); err != nil {
		return ctrl.Result{}, err
	}
	launched, err := c.cloud.Launch(ctx, machine)
	if launched {
		eventLaunched().record(c.events, machine)
	}
	var invalid *cloud.InvalidConfigurationError
	switch {
	case err == nil:
		return ctrl.Result{RequeueAfter: c.poll}, nil
	case errors.As(err, &invalid):
		eventLaunchFailed(err).record(c.events, machine)
		return ctrl.Result{}, c.fail(ctx, machine, machinev1.ErrorInvalidConfiguration, err.Error(), "InstanceNotCreated")
	default:
		eventLaunchFailed(err).record(c.events, machine)
		return ctrl.Result{RequeueAfter: c.poll}, nil
	}
}

// follow writes the cloud's state of the instance to the machine.
func (c *machineController) follow(ctx context.Context, machine *machinev1.Machine, instance *cloudv1.Instance) (ctrl.Result, error) {
	if instance.Status.ProviderID == "" {
		return ctrl.Result{RequeueAfter: c.poll}, nil // too little is known to leave the phase
	}
	if err := c.describe(ctx, machine, instance); err != nil {
		return ctrl.Result{}, err
	}
	providerStatus, err := json.Marshal(map[string]string{
		"instanceId": instance.Name, "instanceState": string(instance.Status.State),
	})
	if err != nil {
		return ctrl.Result{}, fmt.Errorf("encoding the provider status: %w", err)
	}
	phase := machinev1.PhaseProvisioned
	if machine.Status.NodeRef != nil {
		phase = machinev1.PhaseRunning
	}
	err = c.status.write(ctx, machine, func(s *machinev1.MachineStatus) {
		s.Phase = &phase
		s.Addresses = instance.Status.Addresses
		s.ProviderStatus = &runtime.RawExtension{Raw: providerStatus}
		s.ErrorReason, s.ErrorMessage = nil, nil
		c.status.condition(conditionTrue(machinev1.ConditionInstanceExists))(s)
	})
	if err != nil || phase == machinev1.PhaseRunning {
		return ctrl.Result{}, err
	}
	return ctrl.Result{RequeueAfter: c.poll}, nil
}

// describe writes the cloud's data of the instance to where users look for it: provider ID, labels, annotation.
func (c *machineController) describe(ctx context.Context, machine *machinev1.Machine, instance *cloudv1.Instance) error {
	before := machine.DeepCopy()
	machine.Spec.ProviderID = &instance.Status.ProviderID
	setLabel(machine, machinev1.ZoneLabel, instance.Spec.Zone)
	setLabel(machine, machinev1.InstanceTypeLabel, instance.Spec.InstanceType)
	setAnnotation(machine, machinev1.InstanceStateAnnotation, string(instance.Status.State))
	return c.update(ctx, before, machine)
}

// fail is final: only deleting the machine helps.
func (c *machineController) fail(ctx context.Context, machine *machinev1.Machine, reason, message, condition string) error {
	before := machine.DeepCopy()
	setAnnotation(machine, machinev1.InstanceStateAnnotation, instanceStateUnknown)
	if err := c.update(ctx, before, machine); err != nil {
		return err
	}
	return c.status.write(ctx, machine, func(s *machinev1.MachineStatus) {
		s.Phase = ptr.To(machinev1.PhaseFailed)
		s.ErrorReason, s.ErrorMessage = &reason, &message
		c.status.condition(conditionFalse(machinev1.ConditionInstanceExists, machinev1.SeverityWarning, condition, message))(s)
	})
}

// update writes everything but the status, if it changed. The status in memory stays.
func (c *machineController) update(ctx context.Context, before, machine *machinev1.Machine) error {
	if equality.Semantic.DeepEqual(before, machine) {
		return nil
	}
	patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	if err := c.client.Patch(ctx, machine, patch); err != nil {
		return fmt.Errorf("updating machine %s: %w", machine.Name, err)
	}
	return nil
}

func setLabel(object client.Object, key, value string) {
	labels := maps.Clone(object.GetLabels())
	if labels == nil {
		labels = map[string]string{}
	}
	labels[key] = value
	object.SetLabels(labels)
}

func setAnnotation(object client.Object, key, value string) {
	annotations := maps.Clone(object.GetAnnotations())
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[key] = value
	object.SetAnnotations(annotations)
}
