package cloud

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	cloudv1 "github.com/fettle-io/fettle/sandbox/api/cloud/v1alpha1"
)

const workers = 10

// hostPoll is how often the cloud asks whether a host is off.
const hostPoll = 100 * time.Millisecond

// Controller moves instances from state to state, and starts and stops their kubelets.
type Controller struct {
	client client.Client
	now    func() time.Time
}

// NewController returns a controller. It does nothing before Register.
func NewController(c client.Client, now func() time.Time) *Controller {
	return &Controller{client: c, now: now}
}

// Register adds the controller to the manager.
func (c *Controller) Register(mgr ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(mgr).
		Named("instance").
		For(&cloudv1.Instance{}).
		WithOptions(controller.Options{MaxConcurrentReconciles: workers}).
		Complete(c)
}

// Reconcile brings one instance to its state of this instant.
func (c *Controller) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	instance := &cloudv1.Instance{}
	if err := c.client.Get(ctx, req.NamespacedName, instance); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if !instance.DeletionTimestamp.IsZero() {
		return c.finish(ctx, instance)
	}
	now := c.now()
	status, wake := Advance(instance, now)
	if status.Kubelet != instance.Status.Kubelet {
		if err := c.setKubelet(ctx, instance, status); err != nil {
			return ctrl.Result{}, err
		}
	}
	if !equality.Semantic.DeepEqual(status, instance.Status) {
		before := instance.DeepCopy()
		instance.Status = status
		if err := c.client.Status().Patch(ctx, instance, client.MergeFrom(before)); client.IgnoreNotFound(err) != nil {
			return ctrl.Result{}, fmt.Errorf("writing the status of instance %s: %w", instance.Name, err)
		}
	}
	if wake.IsZero() {
		return ctrl.Result{}, nil
	}
	return ctrl.Result{RequeueAfter: wake.Sub(now)}, nil
}

// setKubelet comes before the status is written. If that write fails, a repetition is harmless.
func (c *Controller) setKubelet(ctx context.Context, instance *cloudv1.Instance, status cloudv1.InstanceStatus) error {
	switch status.Kubelet {
	case cloudv1.KubeletRunning:
		return StartKubelet(ctx, c.client, instance, status)
	case cloudv1.KubeletStopped:
		return StopKubelet(ctx, c.client, instance)
	}
	return nil
}

// finish releases a deleted instance once its node is silent and its host is off. The node itself stays.
func (c *Controller) finish(ctx context.Context, instance *cloudv1.Instance) (ctrl.Result, error) {
	if !controllerutil.ContainsFinalizer(instance, cloudv1.InstanceFinalizer) {
		return ctrl.Result{}, nil
	}
	if err := StopKubelet(ctx, c.client, instance); err != nil {
		return ctrl.Result{}, err
	}
	if off, err := StopHost(ctx, c.client, instance); err != nil || !off {
		return ctrl.Result{RequeueAfter: hostPoll}, err
	}
	before := instance.DeepCopy()
	controllerutil.RemoveFinalizer(instance, cloudv1.InstanceFinalizer)
	if err := c.client.Patch(ctx, instance, client.MergeFrom(before)); client.IgnoreNotFound(err) != nil {
		return ctrl.Result{}, fmt.Errorf("removing the finalizer of instance %s: %w", instance.Name, err)
	}
	return ctrl.Result{}, nil
}
