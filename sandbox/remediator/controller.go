package remediator

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	remediationv1 "github.com/fettle-io/fettle/sandbox/api/remediation/v1alpha1"
)

const workers = 10

// remediatorKind is the difference between the remediators.
type remediatorKind struct {
	name       string
	participle string
	// replaces is set if the node goes, and another registers under its name.
	replaces bool
	fresh    func() remediation
}

func remediatorKinds() []remediatorKind {
	return []remediatorKind{
		{name: "reboot", participle: "rebooted", fresh: func() remediation { return &remediationv1.RebootRemediation{} }},
		{name: "reprovision", participle: "reprovisioned", replaces: true, fresh: func() remediation { return &remediationv1.ReprovisionRemediation{} }},
	}
}

// remediator does the work of one kind of remediator.
type remediator struct {
	remediatorKind

	client client.Client
	// live reads nodes without a cache: there are many, and few are remediated.
	live client.Reader
	now  func() time.Time
}

func (r *remediator) register(mgr ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(mgr).
		Named(r.name).
		For(r.fresh()).
		WithOptions(controller.Options{MaxConcurrentReconciles: workers}).
		Complete(r)
}

// Reconcile takes the next step of one remediation.
func (r *remediator) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	object := r.fresh()
	if err := r.client.Get(ctx, req.NamespacedName, object); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	node, err := r.findNode(ctx, nodeOf(object))
	if err != nil {
		return ctrl.Result{}, err
	}
	now := r.now()
	next, wake := r.judge(object, node, now)
	if err := r.take(ctx, next, object, node); err != nil {
		return ctrl.Result{}, settled(err)
	}
	if wake.IsZero() {
		return ctrl.Result{}, nil
	}
	return ctrl.Result{RequeueAfter: wake.Sub(now)}, nil
}

// take takes a step. The node is changed before the status says so, and repeating that is harmless. The finalizer comes
// before all else. A node is removed only once its registration is recorded.
func (r *remediator) take(ctx context.Context, next step, object remediation, node *corev1.Node) error {
	switch next {
	case nothing:
		return nil
	case undo:
		return r.undo(ctx, object)
	case takeUp:
		return r.takeUp(ctx, object, node)
	case finish:
		if err := r.revive(ctx, object); err != nil {
			return err
		}
	case fail, stop, nodeMissing:
	}
	return r.tell(ctx, object, next, nil)
}

func (r *remediator) takeUp(ctx context.Context, object remediation, node *corev1.Node) error {
	if !controllerutil.ContainsFinalizer(object, remediationv1.Finalizer) {
		before := copyOf(object)
		controllerutil.AddFinalizer(object, remediationv1.Finalizer)
		if err := r.client.Patch(ctx, object, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); err != nil {
			return fmt.Errorf("adding a finalizer to %s: %w", object.GetName(), err)
		}
	}
	spec, _ := object.Parts()
	goes := r.replaces && spec.Outcome != remediationv1.OutcomeFail && spec.Outcome != remediationv1.OutcomeHang
	err := r.tell(ctx, object, takeUp, func(s *remediationv1.RemediationStatus) {
		s.StartedAt = new(metav1.NewMicroTime(r.now()))
		permanent := metav1.ConditionFalse
		if goes {
			permanent = metav1.ConditionTrue
			s.Removed = registrationOf(node)
		}
		meta.SetStatusCondition(&s.Conditions, metav1.Condition{
			Type: remediationv1.ConditionPermanentNodeDeletionExpected, Status: permanent, Reason: "RemediationStarted", LastTransitionTime: metav1.NewTime(r.now()),
		})
	})
	switch {
	case err != nil:
		return err
	case goes:
		return r.remove(ctx, node)
	case r.replaces:
		return nil
	}
	return r.cordon(ctx, node.Name, true)
}

// revive brings the node back.
func (r *remediator) revive(ctx context.Context, object remediation) error {
	if !r.replaces {
		return r.reboot(ctx, nodeOf(object))
	}
	_, status := object.Parts()
	return r.registerReplacement(ctx, nodeOf(object), status.Removed)
}

// undo ends the work at any stage, and registers a removed node again.
func (r *remediator) undo(ctx context.Context, object remediation) error {
	_, status := object.Parts()
	var err error
	switch {
	case !r.replaces:
		err = r.cordon(ctx, nodeOf(object), false)
	case status.Removed != nil && !ended(status):
		err = r.registerReplacement(ctx, nodeOf(object), status.Removed)
	}
	if err != nil {
		return err
	}
	before := copyOf(object)
	controllerutil.RemoveFinalizer(object, remediationv1.Finalizer)
	if err := r.client.Patch(ctx, object, client.MergeFrom(before)); err != nil {
		return fmt.Errorf("removing the finalizer of %s: %w", object.GetName(), err)
	}
	return nil
}

// tell writes the status that follows from a step, with a change beside it.
func (r *remediator) tell(ctx context.Context, object remediation, after step, change func(*remediationv1.RemediationStatus)) error {
	before := copyOf(object)
	_, status := object.Parts()
	if change != nil {
		change(status)
	}
	r.report(after).write(status, object.GetGeneration(), r.now())
	patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	if err := r.client.Status().Patch(ctx, object, patch); err != nil {
		return fmt.Errorf("writing the status of %s: %w", object.GetName(), err)
	}
	return nil
}

func copyOf(object remediation) client.Object {
	before, _ := object.DeepCopyObject().(client.Object) // every kind is one
	return before
}

// settled drops errors after which another event of the same object is sure to come: it was changed, or it is gone.
func settled(err error) error {
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		return nil
	}
	return err
}
