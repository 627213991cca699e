package machineapi

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	cloudv1 "github.com/fettle-io/fettle/sandbox/api/cloud/v1alpha1"
	machinev1 "github.com/fettle-io/fettle/sandbox/api/machine/v1beta1"
	"github.com/fettle-io/fettle/sandbox/cloud"
)

var errNoClusterLabel = errors.New("the machine has no label " + machinev1.ClusterLabel)

// machineController takes a machine from its creation to its end.
type machineController struct {
	client client.Client
	cloud  *cloud.Cloud
	status statusWriter
	events events.EventRecorder
	poll   time.Duration
}

func newMachineController(mgr ctrl.Manager, simulated *cloud.Cloud, status statusWriter, poll time.Duration) *machineController {
	return &machineController{
		client: mgr.GetClient(),
		cloud:  simulated,
		status: status,
		events: mgr.GetEventRecorder("machine-controller"),
		poll:   poll,
	}
}

func (c *machineController) register(_ context.Context, mgr ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(mgr).
		Named("machine").
		For(&machinev1.Machine{}).
		Watches(&cloudv1.Instance{}, handler.EnqueueRequestsFromMapFunc(machineOfInstance)).
		WithOptions(controller.Options{MaxConcurrentReconciles: workers}).
		Complete(c)
}

func machineOfInstance(_ context.Context, object client.Object) []reconcile.Request {
	instance, ok := object.(*cloudv1.Instance)
	if !ok {
		return nil
	}
	of := instance.Spec.Machine
	return []reconcile.Request{{NamespacedName: types.NamespacedName{Namespace: of.Namespace, Name: of.Name}}}
}

// Reconcile takes the next step for one machine.
func (c *machineController) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	machine := &machinev1.Machine{}
	if err := c.client.Get(ctx, req.NamespacedName, machine); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	result, err := c.step(ctx, machine)
	return result, settled(err)
}

func (c *machineController) step(ctx context.Context, machine *machinev1.Machine) (ctrl.Result, error) {
	deleting := !machine.DeletionTimestamp.IsZero()
	if !deleting && !controllerutil.ContainsFinalizer(machine, machinev1.MachineFinalizer) {
		return ctrl.Result{}, c.addFinalizer(ctx, machine)
	}
	if machine.Labels[machinev1.ClusterLabel] == "" {
		eventInvalid(errNoClusterLabel.Error()).record(c.events, machine)
		return ctrl.Result{}, errNoClusterLabel
	}
	if deleting {
		return c.delete(ctx, machine)
	}
	if machine.Phase() == machinev1.PhaseFailed {
		return ctrl.Result{}, nil // until it is deleted
	}
	return c.provision(ctx, machine)
}

func (c *machineController) addFinalizer(ctx context.Context, machine *machinev1.Machine) error {
	before := machine.DeepCopy()
	controllerutil.AddFinalizer(machine, machinev1.MachineFinalizer)
	patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	if err := c.client.Patch(ctx, machine, patch); err != nil {
		return fmt.Errorf("adding the finalizer to machine %s: %w", machine.Name, err)
	}
	return nil
}
