package machineapi

import (
	"context"
	"errors"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	machinev1 "github.com/fettle-io/fettle/sandbox/api/machine/v1beta1"
)

// machineSetController keeps each set at its number of machines.
type machineSetController struct {
	client       client.Client
	events       events.EventRecorder
	expectations *expectations
	now          func() time.Time
}

func newMachineSetController(mgr ctrl.Manager, now func() time.Time) *machineSetController {
	return &machineSetController{
		client:       mgr.GetClient(),
		events:       mgr.GetEventRecorder("machineset-controller"),
		expectations: newExpectations(),
		now:          now,
	}
}

// Reconcile brings one set to its number, and writes its status. A single worker handles all sets.
func (c *machineSetController) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	set := &machinev1.MachineSet{}
	if err := c.client.Get(ctx, req.NamespacedName, set); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if !set.DeletionTimestamp.IsZero() {
		return ctrl.Result{}, nil // the garbage collector deletes its machines
	}
	machines, err := c.machinesOf(ctx, set)
	if err != nil {
		return ctrl.Result{}, settled(err)
	}
	now := c.now()
	if wait := c.expectations.unseen(set.UID, machines, now); wait > 0 {
		return ctrl.Result{RequeueAfter: wait}, nil // the cache is behind; its next event leads here
	}
	counted := notDeleting(machines)
	if err := c.scale(ctx, set, counted, now); err != nil {
		return ctrl.Result{}, err
	}
	result, err := c.writeStatus(ctx, set, counted, now)
	return result, settled(err)
}

// machinesOf returns the machines that the set controls, after it has adopted orphans.
func (c *machineSetController) machinesOf(ctx context.Context, set *machinev1.MachineSet) ([]*machinev1.Machine, error) {
	selector, err := metav1.LabelSelectorAsSelector(&set.Spec.Selector)
	if err != nil {
		return nil, fmt.Errorf("reading the selector of machine set %s: %w", set.Name, err)
	}
	list := &machinev1.MachineList{}
	if err := c.client.List(ctx, list, client.InNamespace(set.Namespace)); err != nil {
		return nil, fmt.Errorf("listing machines: %w", err)
	}
	var owned []*machinev1.Machine
	for i := range list.Items {
		machine := &list.Items[i]
		mine, err := c.claim(ctx, set, selector, machine)
		if err != nil {
			return nil, err
		}
		if mine {
			owned = append(owned, machine)
		}
	}
	return owned, nil
}

func (c *machineSetController) claim(ctx context.Context, set *machinev1.MachineSet, selector labels.Selector, machine *machinev1.Machine) (bool, error) {
	if selector.Empty() || !selector.Matches(labels.Set(machine.Labels)) {
		return false, nil
	}
	if owner := metav1.GetControllerOf(machine); owner != nil {
		return owner.UID == set.UID, nil
	}
	if !machine.DeletionTimestamp.IsZero() {
		return false, nil
	}
	before := machine.DeepCopy()
	if err := controllerutil.SetControllerReference(set, machine, c.client.Scheme()); err != nil {
		return false, fmt.Errorf("adopting machine %s: %w", machine.Name, err)
	}
	patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	if err := c.client.Patch(ctx, machine, patch); err != nil {
		return false, fmt.Errorf("adopting machine %s: %w", machine.Name, err)
	}
	return true, nil
}

// scale creates missing machines and deletes surplus ones, all at once.
func (c *machineSetController) scale(ctx context.Context, set *machinev1.MachineSet, machines []*machinev1.Machine, now time.Time) error {
	missing := int(ptr.Deref(set.Spec.Replicas, 1)) - len(machines)
	var errs []error
	for range max(missing, 0) {
		errs = append(errs, c.create(ctx, set, now))
	}
	if missing < 0 {
		for _, machine := range victims(set.Spec.DeletePolicy, machines, -missing, now) {
			errs = append(errs, c.deleteMachine(ctx, set, machine, now))
		}
	}
	return errors.Join(errs...)
}

func (c *machineSetController) create(ctx context.Context, set *machinev1.MachineSet, now time.Time) error {
	template := set.Spec.Template.DeepCopy()
	machine := &machinev1.Machine{
		ObjectMeta: metav1.ObjectMeta{
			GenerateName: set.Name + "-",
			Namespace:    set.Namespace,
			Labels:       template.Labels,
			Annotations:  template.Annotations,
		},
		Spec: template.Spec,
	}
	if err := controllerutil.SetControllerReference(set, machine, c.client.Scheme()); err != nil {
		return fmt.Errorf("creating a machine for set %s: %w", set.Name, err)
	}
	if err := c.client.Create(ctx, machine); err != nil {
		return fmt.Errorf("creating a machine for set %s: %w", set.Name, err)
	}
	c.expectations.created(set.UID, machine, now)
	eventMachineCreated(machine.Name).record(c.events, set)
	return nil
}

func (c *machineSetController) deleteMachine(ctx context.Context, set *machinev1.MachineSet, machine *machinev1.Machine, now time.Time) error {
	err := c.client.Delete(ctx, machine, client.Preconditions{UID: &machine.UID})
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("deleting machine %s: %w", machine.Name, err)
	}
	c.expectations.deleted(set.UID, machine, now)
	eventMachineDeleted(machine.Name).record(c.events, set)
	return nil
}

func notDeleting(machines []*machinev1.Machine) []*machinev1.Machine {
	var rest []*machinev1.Machine
	for _, machine := range machines {
		if machine.DeletionTimestamp.IsZero() {
			rest = append(rest, machine)
		}
	}
	return rest
}
