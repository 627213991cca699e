package selffencing

import (
	"context"
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
	c.Metrics.drop(key)
	c.Claims.Release(holderOf(key))
	c.wakeNode(node)
}

// write writes a record. The facts are read anew after it.
func (c *Client) write(ctx context.Context, rec *reconciliation, record fencing.Record) error {
	status := c.statusWith(rec, rec.s.phaseStart.Recorded(record))
	begins := rec.r.Status.Phase != status.Phase || rec.r.Status.Attempt != status.Attempt
	if err := fencednode.PatchStatus(ctx, c.Writer, rec.r, status); err != nil {
		return err
	}
	before := rec.record.Phase
	rec.record = recordOf(&rec.r.Status)
	if begins {
		rec.s.changeFailed = time.Time{}
		c.Metrics.setPhase(rec.r, c.Now())
		c.announce(rec, status)
	}
	node, raw := rec.facts.Node, rec.raw
	rec.resetFacts(c.Now())
	if before == "" || before == fencing.Preparing {
		rec.facts.Node, rec.raw = node, raw // nothing is released before the node is read again
	}
	return nil
}

// statusWith returns the status of a remediation with a record.
func (c *Client) statusWith(rec *reconciliation, record fencing.Record) *v1alpha1.SelfFenceRemediationStatus {
	status := rec.r.Status.DeepCopy()
	writeRecord(status, rec.node, record)
	fencednode.KeepSaved(&status.FencingStatus, rec.r.UID, record, rec.raw, rec.facts.Node)
	fencednode.SetConditions(&status.FencingStatus, c.Now(), conditionsOf(status)...)
	return status
}

// announce emits an event about a phase that has begun.
func (c *Client) announce(rec *reconciliation, s *v1alpha1.SelfFenceRemediationStatus) {
	kind, note, phase := corev1.EventTypeNormal, phaseMessage(s), fencing.Phase(s.Phase)
	if phase == fencing.Failed || s.Reason == string(fencing.ProofVoid) || s.Reason == string(fencing.BootedUntainted) {
		kind = corev1.EventTypeWarning
	}
	if phase.Final() || phase == fencing.Releasing {
		note += evidence(s)
	}
	c.emit(rec.r, kind, s.Phase, note)
	c.Metrics.count(s.Phase, s.Reason)
	c.Log.Info("remediation has come further", "phase", s.Phase, "reason", s.Reason, "remediation", rec.key.String(), "node", rec.node, "what", note)
}

func (c *Client) emit(r *v1alpha1.SelfFenceRemediation, kind, reason, note string) {
	fencednode.Emit(c.Events, Kind, r, fencednode.Event{Type: kind, Reason: reason, Note: note})
}

// publish writes what a remediation waits for, if that has changed.
func (c *Client) publish(ctx context.Context, rec *reconciliation, reason, message string) error {
	status := rec.r.Status.DeepCopy()
	if fencing.Phase(status.Phase).Final() {
		return nil
	}
	if !fencednode.SetConditions(&status.FencingStatus, c.Now(), fencednode.NewCondition(v1alpha1.ProcessingCondition, metav1.ConditionTrue, reason, message)) {
		return nil
	}
	return fencednode.PatchStatus(ctx, c.Writer, rec.r, status)
}

// problem is why a remediation can't start or has to wait.
type problem = fencednode.Problem

// refuse ends a remediation that has done nothing, so that the health checker takes its next step. The machine is free for that.
func (c *Client) refuse(ctx context.Context, r *v1alpha1.SelfFenceRemediation, why problem) error {
	status := r.Status.DeepCopy()
	message := "nothing was done: " + why.Message
	changed := fencednode.SetConditions(&status.FencingStatus, c.Now(), fencednode.RefusalConditions(why.Reason, message)...)
	if changed {
		if err := fencednode.PatchStatus(ctx, c.Writer, r, status); err != nil {
			return err
		}
		c.emit(r, corev1.EventTypeWarning, "RemediationCannotStart", message)
		c.Metrics.count(cannotStart, why.Reason)
		c.forget(client.ObjectKeyFromObject(r))
	}
	return c.machines.Release(ctx, r)
}

// setFinalizer sets the finalizer of a remediation, with the name of the machine, which may be nil, that it is about to claim.
func (c *Client) setFinalizer(ctx context.Context, rec *reconciliation, machine *unstructured.Unstructured) error {
	annotations := fencednode.ClaimOn(machine)
	if slices.Contains(rec.r.Finalizers, annotation.SelfFenceFinalizer) && rec.r.Annotations[annotation.ClaimedMachine] == annotations[annotation.ClaimedMachine] {
		return nil
	}
	return fencednode.PatchMetadata(ctx, c.Writer, rec.r, fencednode.WithFinalizer(rec.r, annotation.SelfFenceFinalizer), annotations)
}

// dropFinalizer removes the finalizer of a remediation, which ends it.
func (c *Client) dropFinalizer(ctx context.Context, rec *reconciliation) error {
	without := fencednode.WithoutFinalizer(rec.r, annotation.SelfFenceFinalizer)
	if len(without) != len(rec.r.Finalizers) {
		if err := c.machines.Release(ctx, rec.r); err != nil {
			return err
		}
		if err := fencednode.PatchMetadata(ctx, c.Writer, rec.r, without, nil); err != nil && !apierrors.IsNotFound(err) {
			return err
		}
	}
	c.forget(rec.key)
	return nil
}
