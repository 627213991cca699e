package machineapi

import (
	"context"
	"fmt"
	"maps"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	machinev1 "github.com/fettle-io/fettle/sandbox/api/machine/v1beta1"
)

// byProviderID is the index of both nodes and machines.
const byProviderID = "spec.providerID"

// nodeLinkController makes a machine refer to its node. The reference is never removed, even if the node is.
type nodeLinkController struct {
	client client.Client
	status statusWriter
}

func newNodeLinkController(mgr ctrl.Manager, status statusWriter) *nodeLinkController {
	return &nodeLinkController{client: mgr.GetClient(), status: status}
}

func (c *nodeLinkController) register(ctx context.Context, mgr ctrl.Manager) error {
	indexer := mgr.GetFieldIndexer()
	if err := indexer.IndexField(ctx, &corev1.Node{}, byProviderID, providerIDs); err != nil {
		return fmt.Errorf("indexing nodes: %w", err)
	}
	if err := indexer.IndexField(ctx, &machinev1.Machine{}, byProviderID, providerIDs); err != nil {
		return fmt.Errorf("indexing machines: %w", err)
	}
	return ctrl.NewControllerManagedBy(mgr).
		Named("nodelink").
		For(&machinev1.Machine{}).
		Watches(&corev1.Node{}, handler.EnqueueRequestsFromMapFunc(c.machinesOfNode), builder.WithPredicates(linkChanged())).
		WithOptions(controller.Options{MaxConcurrentReconciles: workers}).
		Complete(c)
}

func providerIDs(object client.Object) []string {
	switch o := object.(type) {
	case *corev1.Node:
		if o.Spec.ProviderID != "" {
			return []string{o.Spec.ProviderID}
		}
	case *machinev1.Machine:
		if o.Spec.ProviderID != nil {
			return []string{*o.Spec.ProviderID}
		}
	}
	return nil
}

func (c *nodeLinkController) machinesOfNode(ctx context.Context, object client.Object) []reconcile.Request {
	var requests []reconcile.Request
	for _, id := range providerIDs(object) {
		machines := &machinev1.MachineList{}
		if err := c.client.List(ctx, machines, client.MatchingFields{byProviderID: id}); err != nil {
			ctrl.LoggerFrom(ctx).Error(err, "listing the machines of a node", "providerID", id)
			return nil
		}
		for i := range machines.Items {
			requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&machines.Items[i])})
		}
	}
	return requests
}

// linkChanged filters heartbeats out: only the fields of links matter.
func linkChanged() predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		before, ok1 := e.ObjectOld.(*corev1.Node)
		after, ok2 := e.ObjectNew.(*corev1.Node)
		return !ok1 || !ok2 ||
			!maps.Equal(before.Labels, after.Labels) ||
			!maps.Equal(before.Annotations, after.Annotations) ||
			!equality.Semantic.DeepEqual(before.Spec, after.Spec)
	}}
}

// Reconcile links one machine with the node of its instance, if that exists.
func (c *nodeLinkController) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	machine := &machinev1.Machine{}
	if err := c.client.Get(ctx, req.NamespacedName, machine); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if !machine.DeletionTimestamp.IsZero() || machine.Spec.ProviderID == nil {
		return ctrl.Result{}, nil
	}
	nodes := &corev1.NodeList{}
	if err := c.client.List(ctx, nodes, client.MatchingFields{byProviderID: *machine.Spec.ProviderID}); err != nil {
		return ctrl.Result{}, fmt.Errorf("listing the nodes of machine %s: %w", machine.Name, err)
	}
	if len(nodes.Items) == 0 {
		return ctrl.Result{}, nil
	}
	node := &nodes.Items[0]
	if err := c.dress(ctx, machine, node); err != nil {
		return ctrl.Result{}, settled(err)
	}
	err := c.status.write(ctx, machine, func(s *machinev1.MachineStatus) {
		s.NodeRef = &corev1.ObjectReference{Kind: "Node", Name: node.Name, UID: node.UID}
	})
	return ctrl.Result{}, settled(err)
}

// dress adds to the node the labels, annotations and taints of its machine, and removes nothing.
func (c *nodeLinkController) dress(ctx context.Context, machine *machinev1.Machine, node *corev1.Node) error {
	before := node.DeepCopy()
	for key, value := range machine.Spec.Labels {
		setLabel(node, key, value)
	}
	for key, value := range machine.Spec.Annotations {
		setAnnotation(node, key, value)
	}
	setAnnotation(node, machinev1.MachineAnnotation, client.ObjectKeyFromObject(machine).String())
	for _, taint := range machine.Spec.Taints {
		if !hasTaint(node, taint) {
			node.Spec.Taints = append(node.Spec.Taints, taint)
		}
	}
	if equality.Semantic.DeepEqual(before, node) {
		return nil
	}
	// A strategic patch adds taints to the present ones, and needs no lock: a change that loses a race against a
	// heartbeat would be lost, since heartbeats don't come here.
	if err := c.client.Patch(ctx, node, client.StrategicMergeFrom(before)); err != nil {
		return fmt.Errorf("updating node %s: %w", node.Name, err)
	}
	return nil
}

func hasTaint(node *corev1.Node, taint corev1.Taint) bool {
	for _, t := range node.Spec.Taints {
		if t.MatchTaint(&taint) {
			return true
		}
	}
	return false
}
