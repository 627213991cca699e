package integration

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fettle-io/fettle/api/medik8s/v1alpha1"
)

const (
	// medik8sManager is the field manager of medik8s' operator: the name of its program.
	medik8sManager = "manager"
	// medik8sLasts is how long the operator holds a lease for a health check without escalation.
	medik8sLasts = 11 * time.Minute
)

// operator plays medik8s' operator for one health check with one template: its remediation objects, its leases and its
// status (docs/reference/medik8s.md#remediation-objects, docs/reference/medik8s.md#lease). It works as an
// administrator.
type operator struct {
	p      *pool
	stop   func()
	passes atomic.Int64 // that have ended
}

// startOperator makes the operator read the pool's health check several times a second, until it is stopped or the test
// ends.
func (p *pool) startOperator() *operator {
	p.t.Helper()
	p.Namespace(p.t, v1alpha1.LeaseNamespace)
	ctx, cancel := context.WithCancel(p.t.Context()) // for as long as the test lasts
	op := &operator{p: p}
	var running sync.WaitGroup
	op.stop = sync.OnceFunc(func() {
		cancel()
		running.Wait()
	})
	p.t.Cleanup(op.stop)
	running.Go(func() {
		tick := time.NewTicker(200 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
				op.say(ctx, op.pass(ctx))
				op.passes.Add(1)
			}
		}
	})
	return op
}

// reads waits until the operator has ended a pass that began after the call.
func (op *operator) reads() {
	op.p.t.Helper()
	ended := op.passes.Load()
	op.p.Eventually(op.p.t, "a pass of medik8s' operator", func(context.Context) error {
		if op.passes.Load() < ended+2 {
			return errors.New("it is in an earlier pass")
		}
		return nil
	})
}

// say logs an error. The operator retries in its next pass.
func (op *operator) say(ctx context.Context, err error) {
	if err != nil && ctx.Err() == nil {
		op.p.t.Logf("medik8s' operator: %v", err)
	}
}

// pass reads the health check once. While it is paused, the operator only says so, with counts of zero.
func (op *operator) pass(ctx context.Context) error {
	check := &v1alpha1.NodeHealthCheck{}
	if err := op.p.Get(ctx, types.NamespacedName{Name: op.p.namespace}, check); err != nil {
		return fmt.Errorf("reading the health check: %w", err)
	}
	fresh := check.DeepCopy()
	s := &fresh.Status
	s.ObservedNodes, s.HealthyNodes = new(0), new(0)
	s.Phase, s.Reason = v1alpha1.PhasePaused, "NHC is paused: handover"
	meta.SetStatusCondition(&s.Conditions, metav1.Condition{
		Type: v1alpha1.DisabledCondition, Status: metav1.ConditionFalse, Reason: v1alpha1.EnabledReason, Message: "No issues found, NodeHealthCheck is enabled.",
	})
	if len(check.Spec.PauseRequests) == 0 {
		if err := op.remediate(ctx, check, s); err != nil {
			return err
		}
	}
	return op.writeStatus(ctx, check, fresh)
}

// remediate deletes the objects of healthy nodes, creates those of unhealthy nodes, and writes the status.
func (op *operator) remediate(ctx context.Context, check *v1alpha1.NodeHealthCheck, s *v1alpha1.NodeHealthCheckStatus) error {
	nodes := &corev1.NodeList{}
	if err := op.p.List(ctx, nodes, client.MatchingLabels{"pool": op.p.namespace}); err != nil {
		return fmt.Errorf("listing nodes: %w", err)
	}
	s.UnhealthyNodes, s.Phase, s.Reason = nil, v1alpha1.PhaseEnabled, "NHC is enabled, no ongoing remediation"
	*s.ObservedNodes = len(nodes.Items)
	for i := range nodes.Items {
		n := &nodes.Items[i]
		own, err := op.objectOf(ctx, check, n.Name)
		if err != nil {
			return err
		}
		if !isBroken(n) {
			if err := op.recovered(ctx, n.Name, own); err != nil {
				return err
			}
			*s.HealthyNodes++
			continue
		}
		entry, err := op.treat(ctx, check, n.Name, own)
		if err != nil {
			return err
		}
		s.UnhealthyNodes = append(s.UnhealthyNodes, entry)
		if len(entry.Remediations) > 0 {
			s.Phase, s.Reason = v1alpha1.PhaseRemediating, "NHC is remediating 1 nodes"
		}
	}
	return nil
}

// isBroken reports whether a node has not been ready for as long as the pool's health check requires.
func isBroken(n *corev1.Node) bool {
	after, err := time.ParseDuration(short)
	return err == nil && slices.ContainsFunc(n.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status != corev1.ConditionTrue && time.Since(c.LastTransitionTime.Time) > after
	})
}

// objectOf returns the remediation object of a node that the health check owns, whichever client made it, or nil.
func (op *operator) objectOf(ctx context.Context, check *v1alpha1.NodeHealthCheck, node string) (*unstructured.Unstructured, error) {
	u := object(remediators, rebooting, op.p.namespace, node)
	err := op.p.Get(ctx, client.ObjectKeyFromObject(u), u)
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("reading a remediation object: %w", err)
	}
	for _, o := range u.GetOwnerReferences() {
		if o.Kind == "NodeHealthCheck" && o.Name == check.Name {
			return u, nil
		}
	}
	return nil, nil
}

func (op *operator) recovered(ctx context.Context, node string, own *unstructured.Unstructured) error {
	if own != nil {
		if err := op.p.Delete(ctx, own); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("deleting a remediation object: %w", err)
		}
	}
	return op.giveLeaseBack(ctx, node)
}

// treat takes the lease of a node and creates its remediation object, unless another holder has the lease. If the
// object exists, it renews the lease.
func (op *operator) treat(ctx context.Context, check *v1alpha1.NodeHealthCheck, node string, own *unstructured.Unstructured) (v1alpha1.UnhealthyNode, error) {
	entry := v1alpha1.UnhealthyNode{Name: node}
	held, err := op.takeLease(ctx, node)
	if err != nil {
		return entry, err
	}
	if own == nil && held {
		own = op.render(check, node)
		if err := op.p.Create(ctx, own, client.FieldOwner(medik8sManager)); client.IgnoreAlreadyExists(err) != nil {
			return entry, fmt.Errorf("creating a remediation object: %w", err)
		}
	}
	if own != nil {
		entry.Remediations = []v1alpha1.Remediation{{
			Resource: corev1.ObjectReference{
				APIVersion: remediators, Kind: rebooting, Namespace: own.GetNamespace(), Name: own.GetName(), UID: own.GetUID(),
			},
			Started: own.GetCreationTimestamp(), TemplateName: op.p.templateName("reboot"),
		}}
	}
	return entry, nil
}

func (op *operator) render(check *v1alpha1.NodeHealthCheck, node string) *unstructured.Unstructured {
	u := object(remediators, rebooting, op.p.namespace, node)
	u.SetAnnotations(map[string]string{v1alpha1.NodeNameAnnotation: node, v1alpha1.TemplateNameAnnotation: op.p.templateName("reboot")})
	u.SetLabels(map[string]string{v1alpha1.PartOfLabel: v1alpha1.PartOf})
	u.SetOwnerReferences([]metav1.OwnerReference{{
		APIVersion: v1alpha1.GroupVersion.String(), Kind: "NodeHealthCheck", Name: check.Name, UID: check.UID, Controller: new(false),
	}})
	u.Object["spec"] = map[string]any{"outcome": "Ignore", "takes": "7s"}
	return u
}

// takeLease takes the lease of a node, or renews it. It reports false while another validly holds the lease.
func (op *operator) takeLease(ctx context.Context, node string) (bool, error) {
	now, holder, seconds := time.Now(), medik8sHolder(op.p.namespace), int32(medik8sLasts/time.Second)
	stamp := metav1.NewMicroTime(now)
	l := &coordinationv1.Lease{}
	err := op.p.Get(ctx, types.NamespacedName{Namespace: v1alpha1.LeaseNamespace, Name: v1alpha1.LeasePrefix + node}, l)
	if apierrors.IsNotFound(err) {
		l.Namespace, l.Name = v1alpha1.LeaseNamespace, v1alpha1.LeasePrefix+node
		l.Spec = coordinationv1.LeaseSpec{HolderIdentity: &holder, LeaseDurationSeconds: &seconds, AcquireTime: &stamp, RenewTime: &stamp, LeaseTransitions: new(int32(0))}
		err = op.p.Create(ctx, l, client.FieldOwner(medik8sManager))
		return err == nil, client.IgnoreAlreadyExists(err)
	}
	if err != nil {
		return false, fmt.Errorf("reading a lease: %w", err)
	}
	var ends time.Time
	if l.Spec.RenewTime != nil && l.Spec.LeaseDurationSeconds != nil {
		ends = l.Spec.RenewTime.Add(time.Duration(*l.Spec.LeaseDurationSeconds) * time.Second)
	}
	if l.Spec.LeaseTransitions == nil {
		l.Spec.LeaseTransitions = new(int32(0))
	}
	switch mine := isHeldBy(l, holder); {
	case !mine && now.Before(ends):
		return false, nil
	case mine && now.Add(medik8sLasts-time.Minute).Before(ends):
		return true, nil
	case !mine:
		l.Spec.AcquireTime, l.Spec.LeaseTransitions = &stamp, new(*l.Spec.LeaseTransitions+1)
	}
	l.Spec.HolderIdentity, l.Spec.LeaseDurationSeconds, l.Spec.RenewTime = &holder, &seconds, &stamp
	if err := op.p.Update(ctx, l, client.FieldOwner(medik8sManager)); err != nil {
		return false, fmt.Errorf("renewing a lease: %w", err)
	}
	return true, nil
}

// giveLeaseBack deletes the lease of a node, unless another holds it.
func (op *operator) giveLeaseBack(ctx context.Context, node string) error {
	l := &coordinationv1.Lease{}
	err := op.p.Get(ctx, types.NamespacedName{Namespace: v1alpha1.LeaseNamespace, Name: v1alpha1.LeasePrefix + node}, l)
	if err != nil || !isHeldBy(l, medik8sHolder(op.p.namespace)) {
		return client.IgnoreNotFound(err)
	}
	return client.IgnoreNotFound(op.p.Delete(ctx, l))
}

// isHeldBy reports whether a lease has a holder. A lease that a test has just made has none yet.
func isHeldBy(l *coordinationv1.Lease, holder string) bool {
	return l.Spec.HolderIdentity != nil && *l.Spec.HolderIdentity == holder
}

// writeStatus merges what differs into the status.
func (op *operator) writeStatus(ctx context.Context, old, fresh *v1alpha1.NodeHealthCheck) error {
	if reflect.DeepEqual(old.Status, fresh.Status) {
		return nil
	}
	fresh.Status.LastUpdateTime = &metav1.Time{Time: time.Now()}
	body, err := json.Marshal(map[string]any{"status": fresh.Status})
	if err != nil {
		return fmt.Errorf("encoding a status: %w", err)
	}
	if err := op.p.Status().Patch(ctx, op.p.own(), client.RawPatch(types.MergePatchType, body), client.FieldOwner(medik8sManager)); err != nil {
		return fmt.Errorf("writing the status: %w", err)
	}
	return nil
}
