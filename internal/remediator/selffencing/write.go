package selffencing

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fettle-io/fettle/api/fettle/annotation"
	"github.com/fettle-io/fettle/api/fettle/v1alpha1"
	"github.com/fettle-io/fettle/internal/fencing"
	"github.com/fettle-io/fettle/internal/remediator/fencednode"
	"github.com/fettle-io/fettle/internal/sanitize"
)

// Kind is the kind of remediation that this package carries out.
const Kind = "SelfFenceRemediation"

// +kubebuilder:rbac:groups=fettle.io,resources=selffenceremediations,verbs=get;patch
// +kubebuilder:rbac:groups=fettle.io,resources=selffenceremediations/status,verbs=patch
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// current returns a remediation as the API server has it, or nil if it is gone.
func (c *Client) current(ctx context.Context, key types.NamespacedName) (*v1alpha1.SelfFenceRemediation, error) {
	var r v1alpha1.SelfFenceRemediation
	switch err := c.Core.Get(ctx, key, &r); {
	case apierrors.IsNotFound(err):
		c.forget(key)
		return nil, nil //nolint:nilnil // it is gone
	case err != nil:
		return nil, fmt.Errorf("reading it: %w", err)
	}
	return &r, nil
}

// forget drops what this process knows of a remediation, and wakes the remediations of its node.
func (c *Client) forget(key types.NamespacedName) {
	node := c.sessions.forget(key)
	c.Claims.Release(holderOf(key))
	c.wakeNode(node)
}

// write writes a record. The look begins anew after it.
func (c *Client) write(ctx context.Context, l *look, record fencing.Record) error {
	status := c.statusWith(l, l.s.began.Recorded(record))
	begins := l.r.Status.Phase != status.Phase || l.r.Status.Attempt != status.Attempt
	if err := c.patchStatus(ctx, l.r, status); err != nil {
		return err
	}
	before := l.record.Phase
	l.record = recordOf(&l.r.Status)
	if begins {
		l.s.changeFailed = time.Time{}
		c.announce(l, status)
	}
	node, raw := l.facts.Node, l.raw
	l.again(c.Now())
	if before == "" || before == fencing.Preparing {
		l.facts.Node, l.raw = node, raw // nothing is released before the node is read again
	}
	return nil
}

// statusWith returns the status of a remediation with a record.
func (c *Client) statusWith(l *look, record fencing.Record) *v1alpha1.SelfFenceRemediationStatus {
	status := l.r.Status.DeepCopy()
	writeRecord(status, l.node, record)
	if record.Released && record.DeletedNode && l.raw != nil && status.Node.Saved == nil {
		status.Node.Saved = fencednode.Saved(l.r.UID, l.raw)
	}
	if record.Phase.Final() && fencednode.IsRestored(status.Node.Saved, l.facts.Node) {
		status.Node.Saved = nil // what others remove from now on stays removed
	}
	fencednode.SetConditions(&status.FencingStatus, c.Now(), conditionsOf(status)...)
	return status
}

// announce emits an event about a phase that has begun.
func (c *Client) announce(l *look, s *v1alpha1.SelfFenceRemediationStatus) {
	kind, note, phase := corev1.EventTypeNormal, phaseMessage(s), fencing.Phase(s.Phase)
	if phase == fencing.Failed || s.Reason == string(fencing.ProofVoid) {
		kind = corev1.EventTypeWarning
	}
	if phase.Final() || phase == fencing.Releasing {
		note += evidence(s)
	}
	c.emit(l.r, kind, s.Phase, note)
	c.Metrics.count(s.Phase, s.Reason)
	c.Log.Info("remediation has come further", "phase", s.Phase, "reason", s.Reason, "remediation", l.key.String(), "node", l.node, "what", note)
}

func (c *Client) emit(r *v1alpha1.SelfFenceRemediation, kind, reason, note string) {
	c.Events.Eventf(&corev1.ObjectReference{
		APIVersion: v1alpha1.GroupVersion.String(), Kind: Kind, Namespace: r.Namespace, Name: r.Name, UID: r.UID,
	}, nil, kind, reason, "Remediate", "%s", sanitize.Line(sanitize.MaxNote, "[remediation] "+note))
}

// publish writes what a remediation waits for, if that has changed.
func (c *Client) publish(ctx context.Context, l *look, reason, message string) error {
	status := l.r.Status.DeepCopy()
	if fencing.Phase(status.Phase).Final() {
		return nil
	}
	if !fencednode.SetConditions(&status.FencingStatus, c.Now(), fencednode.NewCondition(v1alpha1.ProcessingCondition, metav1.ConditionTrue, reason, message)) {
		return nil
	}
	return c.patchStatus(ctx, l.r, status)
}

// problem is why a remediation can't start or has to wait.
type problem = fencednode.Problem

// refuse ends a remediation that has done nothing, so that the health checker takes its next step. The machine is free for that.
func (c *Client) refuse(ctx context.Context, r *v1alpha1.SelfFenceRemediation, why problem) error {
	status := r.Status.DeepCopy()
	message := "nothing was done: " + why.Message
	changed := fencednode.SetConditions(&status.FencingStatus, c.Now(),
		fencednode.NewCondition(v1alpha1.ProcessingCondition, metav1.ConditionFalse, why.Reason, message),
		fencednode.NewCondition(v1alpha1.SucceededCondition, metav1.ConditionFalse, why.Reason, message),
		fencednode.NewCondition(v1alpha1.PermanentNodeDeletionExpectedCondition, metav1.ConditionFalse, v1alpha1.HostIsReusedReason, message),
	)
	if changed {
		if err := c.patchStatus(ctx, r, status); err != nil {
			return err
		}
		c.emit(r, corev1.EventTypeWarning, "RemediationCannotStart", message)
		c.Metrics.count(cannotStart, why.Reason)
		c.forget(client.ObjectKeyFromObject(r))
	}
	return c.machines.Release(ctx, r)
}

// patchStatus writes a status, unless the remediation has changed since it was read.
func (c *Client) patchStatus(ctx context.Context, r *v1alpha1.SelfFenceRemediation, status *v1alpha1.SelfFenceRemediationStatus) error {
	body, err := json.Marshal([]map[string]any{
		{"op": "replace", "path": "/metadata/resourceVersion", "value": r.ResourceVersion},
		{"op": "add", "path": "/status", "value": status},
	})
	if err != nil {
		return fmt.Errorf("encoding a status: %w", err)
	}
	updated := emptyRemediation(client.ObjectKeyFromObject(r))
	if err := c.Writer.Status().Patch(ctx, updated, client.RawPatch(types.JSONPatchType, body)); err != nil {
		return fmt.Errorf("writing its status: %w", err)
	}
	*r = *updated
	return nil
}

func emptyRemediation(key types.NamespacedName) *v1alpha1.SelfFenceRemediation {
	return &v1alpha1.SelfFenceRemediation{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}}
}

// setFinalizer sets the finalizer of a remediation, with the name of the machine, which may be nil, that it is about to claim.
func (c *Client) setFinalizer(ctx context.Context, l *look, machine *unstructured.Unstructured) error {
	annotations := fencednode.ClaimOn(machine)
	if slices.Contains(l.r.Finalizers, annotation.SelfFenceFinalizer) && l.r.Annotations[annotation.ClaimedMachine] == annotations[annotation.ClaimedMachine] {
		return nil
	}
	return c.setMetadata(ctx, l, append(slices.DeleteFunc(slices.Clone(l.r.Finalizers), isFinalizer), annotation.SelfFenceFinalizer), annotations)
}

func isFinalizer(name string) bool { return name == annotation.SelfFenceFinalizer }

// dropFinalizer removes the finalizer of a remediation, which ends it.
func (c *Client) dropFinalizer(ctx context.Context, l *look) error {
	without := slices.DeleteFunc(slices.Clone(l.r.Finalizers), isFinalizer)
	if len(without) != len(l.r.Finalizers) {
		if err := c.machines.Release(ctx, l.r); err != nil {
			return err
		}
		if err := c.setMetadata(ctx, l, without, nil); err != nil && !apierrors.IsNotFound(err) {
			return err
		}
	}
	c.forget(l.key)
	return nil
}

// setMetadata replaces the finalizers and adds annotations. It has the revision as its precondition, since other controllers change
// finalizers too.
func (c *Client) setMetadata(ctx context.Context, l *look, finalizers []string, annotations map[string]string) error {
	metadata := map[string]any{"resourceVersion": l.r.ResourceVersion, "finalizers": finalizers}
	if len(annotations) > 0 {
		metadata["annotations"] = annotations
	}
	body, err := json.Marshal(map[string]any{"metadata": metadata})
	if err != nil {
		return fmt.Errorf("encoding a patch: %w", err)
	}
	updated := emptyRemediation(l.key)
	if err := c.Writer.Patch(ctx, updated, client.RawPatch(types.MergePatchType, body)); err != nil {
		return fmt.Errorf("changing its finalizers: %w", err)
	}
	*l.r = *updated
	return nil
}
