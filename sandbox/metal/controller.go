package metal

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/source"
)

const workers = 10

// keeper keeps hosts and their Nodes in step.
type keeper struct {
	client client.Client
	// live reads Nodes without a cache, which may lack what metal has just written.
	live  client.Reader
	fleet *fleet
	// metal3 stands in for the operator of Metal3.
	metal3 *operator
}

func (c *keeper) register(mgr ctrl.Manager) error {
	concerned := predicate.NewPredicateFuncs(func(o client.Object) bool {
		return hasHost(o.GetLabels()) || c.fleet.host(o.GetName()) != nil
	})
	err := ctrl.NewControllerManagedBy(mgr).
		Named("metal").
		For(&corev1.Node{}).
		WithEventFilter(concerned).
		WatchesRawSource(source.Channel(c.fleet.changes, &handler.EnqueueRequestForObject{})).
		WithOptions(controller.Options{MaxConcurrentReconciles: workers}).
		Complete(c)
	if err != nil {
		return fmt.Errorf("registering the controller of hosts: %w", err)
	}
	return nil
}

// Reconcile does what a Node says to its host, ends a boot, and shows the host on the Node.
func (c *keeper) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	node, err := c.read(ctx, req.Name)
	if err != nil {
		return ctrl.Result{}, err
	}
	h, err := c.hostOf(ctx, req.Name, node)
	if h == nil || err != nil {
		return ctrl.Result{}, err
	}
	if node != nil {
		obey(h, node)
	}
	left := h.finishBoot()
	f := h.facts()
	switch {
	case node != nil:
		err = c.follow(ctx, h, node, f)
	case f.up && !f.shown:
		err = c.create(ctx, h, f)
	}
	if err != nil {
		return ctrl.Result{}, err
	}
	return ctrl.Result{RequeueAfter: left}, nil
}

// follow shows the host on the Node, and runs or stops its kubelet as the label says.
func (c *keeper) follow(ctx context.Context, h *host, node *corev1.Node, f facts) error {
	alive := stoppedIn(node, f) == ""
	if !alive {
		c.fleet.setAlive(h, f.boot, false)
	}
	if err := c.show(ctx, node, f); err != nil {
		return err
	}
	if !cutOff(node, f) {
		c.fleet.setShown(h, f.boot, node.Spec.Taints)
	}
	if !alive {
		return nil
	}
	c.fleet.setAlive(h, f.boot, true)
	return c.end(ctx, h)
}

// end ends the pods that are to end and do not run on the host. KWOK sees no boot that takes less than a renewal of the node's lease, and
// does not end the pods of such a one.
func (c *keeper) end(ctx context.Context, h *host) error {
	for _, p := range c.fleet.leftovers(h) {
		object := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: p.namespace, Name: p.name}}
		err := c.client.Delete(ctx, object, client.GracePeriodSeconds(0), client.Preconditions{UID: &p.uid})
		if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
			return fmt.Errorf("ending pod %s on node %s: %w", p.name, h.name, err)
		}
	}
	return nil
}

// read returns the Node, or nil.
func (c *keeper) read(ctx context.Context, name string) (*corev1.Node, error) {
	node := &corev1.Node{}
	err := c.live.Get(ctx, client.ObjectKey{Name: name}, node)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading node %s: %w", name, err)
	}
	return node, nil
}

// hostOf returns the host of that name. It makes one for a Node with the label. It returns nil if there is none.
func (c *keeper) hostOf(ctx context.Context, name string, node *corev1.Node) (*host, error) {
	if h := c.fleet.host(name); h != nil {
		return h, nil
	}
	if node == nil || !hasHost(node.Labels) {
		return nil, nil
	}
	if node.Labels[Label] == LabelBareMetalHost {
		if err := c.metal3.adopt(ctx, name); err != nil {
			return nil, err
		}
	}
	return c.fleet.add(node)
}

// obey does what the annotations of the Node say.
func obey(h *host, node *corev1.Node) {
	h.setBootTime(bootTime(node))
	h.setRecordAge(duration(node.Annotations[AnnotationRecordAge]))
	h.orderFaults(node.Annotations[AnnotationFaults])
	switch node.Annotations[AnnotationPower] {
	case PowerOff:
		h.turnOff()
	case PowerOn:
		h.turnOn()
	}
}

// create registers the Node, as a kubelet does at its start.
func (c *keeper) create(ctx context.Context, h *host, f facts) error {
	if err := c.client.Create(ctx, newNode(h.name, f)); err != nil {
		return fmt.Errorf("registering node %s: %w", h.name, err)
	}
	c.fleet.setShown(h, f.boot, nil)
	c.fleet.setAlive(h, f.boot, true)
	return nil
}

// hasHost reports whether the labels of a Node give it a host.
func hasHost(labels map[string]string) bool {
	return labels[Label] == LabelRedfish || labels[Label] == LabelBareMetalHost
}
