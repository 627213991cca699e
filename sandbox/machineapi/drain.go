package machineapi

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	machinev1 "github.com/fettle-io/fettle/sandbox/api/machine/v1beta1"
)

// A failing drain is retried for ever, with pauses of this many polls at most.
const maxDrainBackoffPolls = 200

// drainController empties the nodes of machines in deletion.
type drainController struct {
	client  client.Client
	clients kubernetes.Interface
	status  statusWriter
	events  events.EventRecorder
	poll    time.Duration
}

func newDrainController(mgr ctrl.Manager, clients kubernetes.Interface, status statusWriter, poll time.Duration) *drainController {
	return &drainController{
		client:  mgr.GetClient(),
		clients: clients,
		status:  status,
		events:  mgr.GetEventRecorder("machine-drain-controller"),
		poll:    poll,
	}
}

func (c *drainController) register(_ context.Context, mgr ctrl.Manager) error {
	backoff := workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](c.poll, maxDrainBackoffPolls*c.poll)
	return ctrl.NewControllerManagedBy(mgr).
		Named("machine-drain").
		For(&machinev1.Machine{}).
		WithOptions(controller.Options{MaxConcurrentReconciles: workers, RateLimiter: backoff}).
		Complete(c)
}

// Reconcile drains the node of one machine in phase Deleting.
func (c *drainController) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	machine := &machinev1.Machine{}
	if err := c.client.Get(ctx, req.NamespacedName, machine); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	drained := machinev1.IsTrue(machine.Status.Conditions, machinev1.ConditionDrained)
	if machine.Phase() != machinev1.PhaseDeleting || drained {
		return ctrl.Result{}, nil
	}
	result, err := c.step(ctx, machine)
	return result, settled(err)
}

func (c *drainController) step(ctx context.Context, machine *machinev1.Machine) (ctrl.Result, error) {
	_, excluded := machine.Annotations[machinev1.ExcludeDrainingAnnotation]
	switch {
	case excluded:
		return ctrl.Result{}, c.skip(ctx, machine, "the machine is excluded from draining")
	case machine.Status.NodeRef == nil:
		return ctrl.Result{}, c.skip(ctx, machine, "the machine has no node")
	case len(machine.Spec.LifecycleHooks.PreDrain) > 0:
		eventDrainBlocked().record(c.events, machine)
		return ctrl.Result{}, nil
	}
	node, err := c.clients.CoreV1().Nodes().Get(ctx, machine.Status.NodeRef.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return ctrl.Result{}, c.finish(ctx, machine)
	}
	if err != nil {
		return ctrl.Result{}, fmt.Errorf("reading node %s: %w", machine.Status.NodeRef.Name, err)
	}
	wait, err := c.mustWait(ctx, node)
	if err != nil {
		return ctrl.Result{}, err
	}
	if wait {
		return ctrl.Result{RequeueAfter: c.poll}, nil
	}
	eventDrainProceeds().record(c.events, machine)
	if err := drainNode(ctx, c.clients, node, c.poll); err != nil {
		eventDrainRequeued(err).record(c.events, machine)
		return ctrl.Result{}, err
	}
	eventDrained(node.Name).record(c.events, machine)
	return ctrl.Result{}, c.finish(ctx, machine)
}

// mustWait reports whether another control-plane node is being drained before this one.
func (c *drainController) mustWait(ctx context.Context, node *corev1.Node) (bool, error) {
	if node.Spec.Unschedulable || !isControlPlane(node) {
		return false, nil
	}
	nodes := &corev1.NodeList{}
	if err := c.client.List(ctx, nodes); err != nil {
		return false, fmt.Errorf("listing nodes: %w", err)
	}
	for i := range nodes.Items {
		other := &nodes.Items[i]
		if other.Name != node.Name && other.Spec.Unschedulable && isControlPlane(other) {
			return true, nil
		}
	}
	return false, nil
}

func (c *drainController) skip(ctx context.Context, machine *machinev1.Machine, why string) error {
	eventDrainSkipped(why).record(c.events, machine)
	drained := conditionTrue(machinev1.ConditionDrained)
	drained.Reason, drained.Message = "DrainSkipped", why
	return c.status.write(ctx, machine, c.status.condition(drained))
}

func (c *drainController) finish(ctx context.Context, machine *machinev1.Machine) error {
	eventDrainSucceeded().record(c.events, machine)
	return c.status.write(ctx, machine, c.status.condition(conditionTrue(machinev1.ConditionDrained)))
}

func isControlPlane(node *corev1.Node) bool {
	for _, role := range []string{"node-role.kubernetes.io/control-plane", "node-role.kubernetes.io/master"} {
		if _, ok := node.Labels[role]; ok {
			return true
		}
	}
	return false
}
