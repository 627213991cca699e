package machinedeletion

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fettle-io/fettle/api/fettle/annotation"
	"github.com/fettle-io/fettle/api/fettle/v1alpha1"
	"github.com/fettle-io/fettle/internal/remediator/contract"
	"github.com/fettle-io/fettle/internal/sanitize"
)

// ownerPoll is the pause before the replicas of an owner are read again.
const ownerPoll = time.Minute

// mostSteps is above the number of steps that a reconciliation takes.
const mostSteps = 20

// reconcile takes all steps of a remediation that can be taken now.
func (c *Client) reconcile(ctx context.Context, key types.NamespacedName) error {
	var r v1alpha1.MachineDeletionRemediation
	switch err := c.Cache.Get(ctx, key, &r); {
	case apierrors.IsNotFound(err):
		c.pools.forget(key)
		return nil
	case err != nil:
		return fmt.Errorf("reading it: %w", err)
	}
	// It waits before it reads the machine, so that it misses no change.
	if owner := r.Status.Owner; owner != nil {
		c.pools.await(types.UID(owner.UID), key)
	}
	f := &facts{remediation: &r, now: c.Now()}
	for range mostSteps {
		n := decide(f)
		switch n.step {
		case waitForEvent:
			if contract.Succeeded(f.remediation.Status.Conditions) == metav1.ConditionTrue {
				c.pools.forget(key)
			}
			if n.poll {
				c.queue.AddAfter(key, ownerPoll)
			}
			return nil
		case dropFinalizer:
			c.pools.forget(key)
			return c.setFinalizers(ctx, f, slices.DeleteFunc(slices.Clone(f.remediation.Finalizers), func(name string) bool { return name == annotation.MachineDeletionFinalizer }))
		case deleteMachine:
			return c.delete(ctx, f, n.machine)
		case addFinalizer, readAgain, readNode, readMachine, readCachedMachine, countPool, readOwner, record:
			if gone, err := c.runStep(ctx, f, n); gone || err != nil {
				return err
			}
		}
	}
	return fmt.Errorf("reconciling it took more than %d steps", mostSteps)
}

// runStep takes a step after which there is more to decide. It reports whether the remediation is gone.
func (c *Client) runStep(ctx context.Context, f *facts, n next) (bool, error) {
	var err error
	switch n.step {
	case addFinalizer:
		err = c.setFinalizers(ctx, f, append(slices.Clone(f.remediation.Finalizers), annotation.MachineDeletionFinalizer))
	case readAgain:
		fresh, there, err := c.getRemediation(ctx, f.remediation)
		if there {
			f.remediation, f.fresh = fresh, true
		}
		return !there, err
	case readNode:
		f.node, err = c.getNode(ctx, contract.NodeOf(f.remediation))
	case readMachine:
		f.machine, err = c.getMachine(ctx, n.machine)
	case readCachedMachine:
		f.cached, err = c.getCachedMachine(ctx, n.machine, types.UID(f.remediation.Status.Machine.UID))
	case countPool:
		err = c.countPool(ctx, f, n)
	case readOwner:
		f.owner, err = c.getOwner(ctx, f.remediation.Status.Owner)
	case record:
		err = c.record(ctx, f, n)
	case waitForEvent, dropFinalizer, deleteMachine:
	}
	return false, err
}

// countPool counts the siblings of a machine that exists, or of a deleted one.
func (c *Client) countPool(ctx context.Context, f *facts, n next) error {
	var counted pool
	var err error
	if f.remediation.Status.Machine == nil {
		counted, err = c.poolOf(ctx, n.machine.Namespace, n.owner, f.machine.uid, f.machine.node)
	} else {
		counted, err = c.pools.count(n.owner, func() (pool, error) { return c.poolOf(ctx, n.machine.Namespace, n.owner, "", "") })
	}
	f.pool = &counted
	return err
}

// +kubebuilder:rbac:groups=fettle.io,resources=machinedeletionremediations,verbs=patch

// setFinalizers has the revision as its precondition, since other controllers change finalizers too.
func (c *Client) setFinalizers(ctx context.Context, f *facts, finalizers []string) error {
	change, err := encode(map[string]any{"metadata": map[string]any{
		"resourceVersion": f.remediation.ResourceVersion, "finalizers": finalizers,
	}})
	if err != nil {
		return err
	}
	updated := emptyCopy(f.remediation)
	if err := c.Writer.Patch(ctx, updated, change); err != nil {
		return fmt.Errorf("changing its finalizers: %w", err)
	}
	f.remediation, f.fresh = updated, true
	return nil
}

// +kubebuilder:rbac:groups=fettle.io,resources=machinedeletionremediations/status,verbs=patch
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// record writes the status, unless the remediation has changed since the decision, and emits an event. The answer to
// the write is the remediation as it is now.
func (c *Client) record(ctx context.Context, f *facts, n next) error {
	change, err := encode(map[string]any{
		"metadata": map[string]any{"resourceVersion": f.remediation.ResourceVersion},
		"status":   n.status,
	})
	if err != nil {
		return err
	}
	updated := emptyCopy(f.remediation)
	if err := c.Writer.Status().Patch(ctx, updated, change); err != nil {
		return fmt.Errorf("writing its status: %w", err)
	}
	f.remediation, f.fresh = updated, true
	if owner := updated.Status.Owner; owner != nil {
		c.pools.await(types.UID(owner.UID), client.ObjectKeyFromObject(updated))
	}
	c.emit(updated, n.event)
	c.Log.Info("remediation has come further", "reason", n.event.reason, "remediation", client.ObjectKeyFromObject(updated).String(), "what", n.event.note)
	return nil
}

// emit emits an event about a remediation, in the background.
func (c *Client) emit(r *v1alpha1.MachineDeletionRemediation, e event) {
	c.Events.Eventf(&corev1.ObjectReference{
		APIVersion: v1alpha1.GroupVersion.String(), Kind: "MachineDeletionRemediation", Namespace: r.Namespace, Name: r.Name, UID: r.UID,
	}, nil, e.kind, e.reason, "Remediate", "%s", sanitize.Line(sanitize.MaxNote, e.note))
}

// +kubebuilder:rbac:groups=machine.openshift.io,resources=machines,verbs=delete

// delete requests the machine's deletion. The UID protects a replacement of its name (I11).
func (c *Client) delete(ctx context.Context, f *facts, key types.NamespacedName) error {
	m := &metav1.PartialObjectMetadata{}
	m.SetGroupVersionKind(machineResource)
	m.SetNamespace(key.Namespace)
	m.SetName(key.Name)
	uid := types.UID(f.remediation.Status.Machine.UID)
	err := c.Writer.Delete(ctx, m, client.Preconditions{UID: &uid})
	if err == nil || apierrors.IsNotFound(err) {
		return nil // it is being deleted, or gone, as the cache will show
	}
	if ctx.Err() == nil && !apierrors.IsConflict(err) {
		c.emit(f.remediation, warning("MachineDeletionRefused", fmt.Sprintf("machine %s was not deleted, since that was refused; it is tried again after a pause: %v", key, err)))
	}
	return fmt.Errorf("deleting machine %s: %w", key, err)
}

// emptyCopy returns an empty remediation of the same name, to decode an answer into.
func emptyCopy(r *v1alpha1.MachineDeletionRemediation) *v1alpha1.MachineDeletionRemediation {
	return &v1alpha1.MachineDeletionRemediation{ObjectMeta: metav1.ObjectMeta{Namespace: r.Namespace, Name: r.Name}}
}

func encode(patch map[string]any) (client.Patch, error) {
	body, err := json.Marshal(patch)
	if err != nil {
		return nil, fmt.Errorf("encoding a patch: %w", err)
	}
	return client.RawPatch(types.MergePatchType, body), nil
}
