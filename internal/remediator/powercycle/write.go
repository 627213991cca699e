package powercycle

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fettle-io/fettle/api/fettle/v1alpha1"
	"github.com/fettle-io/fettle/internal/fencing"
	"github.com/fettle-io/fettle/internal/remediator/fencednode"
)

// +kubebuilder:rbac:groups=fettle.io,resources=powerremediations,verbs=get;patch
// +kubebuilder:rbac:groups=fettle.io,resources=powerremediations/status,verbs=patch
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// current returns a remediation as it is now, or nil if it is gone. The cache may be older than what this process has written, so it
// counts only if it has the same revision.
func (c *Client) current(ctx context.Context, key types.NamespacedName) (*v1alpha1.PowerRemediation, error) {
	var cached v1alpha1.PowerRemediation
	switch err := c.Cache.Get(ctx, key, &cached); {
	case apierrors.IsNotFound(err):
		c.forget(key)
		return nil, nil //nolint:nilnil // it is gone
	case err != nil:
		return nil, fmt.Errorf("reading it: %w", err)
	}
	written := c.sessions.written(key)
	if written == nil && cached.Status.Phase == "" {
		return &cached, nil // each write has its revision as a precondition, and nothing is done before the first
	}
	if written != nil && written.UID == cached.UID && written.ResourceVersion == cached.ResourceVersion {
		return &cached, nil
	}
	r := &v1alpha1.PowerRemediation{}
	switch err := c.Live.Get(ctx, key, r); {
	case apierrors.IsNotFound(err):
		return nil, nil //nolint:nilnil // it is gone, and the cache will show that
	case err != nil:
		return nil, fmt.Errorf("reading it again: %w", err)
	}
	return r, nil
}

// write writes a record. The facts are read anew after it.
func (c *Client) write(ctx context.Context, rec *reconciliation, record fencing.Record) error {
	status := c.statusWith(rec, rec.s.phaseStart.Recorded(record))
	last := rec.r.Status
	begins := last.Phase != status.Phase || last.Attempt != status.Attempt
	if err := c.replaceStatus(ctx, rec, status); err != nil {
		return err
	}
	if !isKept(&rec.r.Status, record) && !record.Phase.Final() {
		record.Phase, record.Since, record.Reason = fencing.Failed, c.Now(), statusNotKept
		return c.write(ctx, rec, record)
	}
	c.warnOfOldAddress(rec, &last)
	if len(rec.r.Status.FormerHosts) > 0 {
		c.remediations.Add(rec.key) // the next reconcile removes Fettle's annotation from them
	}
	before := rec.record.Phase
	rec.record = recordOf(&rec.r.Status)
	rec.s.power = rec.s.power.Recorded(rec.record)
	if begins {
		c.Metrics.wait(rec.key, "")
		c.Metrics.setPhase(rec.r, c.Now())
		rec.s.turn, rec.s.changeFailed = time.Time{}, time.Time{}
		if before != fencing.Preparing || rec.record.Phase != fencing.PoweringOff { // both command the same
			rec.s.power.RetryAt, rec.s.failures = time.Time{}, 0 // a phase must not end by a failure of an earlier one
		}
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
func (c *Client) statusWith(rec *reconciliation, record fencing.Record) *v1alpha1.PowerRemediationStatus {
	status := rec.r.Status.DeepCopy()
	if status.Phase == "" {
		status.Machine = rec.machine
	}
	writeRecord(status, rec.node, record)
	status.Node.Cluster = rec.cluster.status()
	if rec.bmc != nil {
		rec.recordBMC(status)
	}
	fencednode.KeepSaved(&status.FencingStatus, rec.r.UID, record, rec.raw, rec.facts.Node)
	fencednode.SetConditions(&status.FencingStatus, c.Now(), conditionsOf(status)...)
	return status
}

// announce emits an event about a phase that has begun, once the reconcile is over: its steps come first.
func (c *Client) announce(rec *reconciliation, s *v1alpha1.PowerRemediationStatus) {
	kind := corev1.EventTypeNormal
	note := phaseMessage(s)
	phase := fencing.Phase(s.Phase)
	if phase == fencing.Failed || phase == fencing.Aborted && s.PoweredOff || phase == fencing.DeletingMachine || s.Reason == string(fencing.ProofVoid) || s.Reason == string(fencing.BootedUntainted) {
		kind = corev1.EventTypeWarning
	}
	if phase.Final() || phase == fencing.Releasing {
		note += evidence(s)
	}
	c.Metrics.count(s.Phase, s.Reason)
	about := rec.r.DeepCopy()
	rec.notes = append(rec.notes, func() { c.emit(about, kind, s.Phase, note) })
	c.Log.Info("remediation has come further", "phase", s.Phase, "reason", s.Reason, "remediation", rec.key.String(), "node", rec.node, "what", note)
}

func (c *Client) emit(r *v1alpha1.PowerRemediation, kind, reason, note string) {
	fencednode.Emit(c.Events, Kind, r, fencednode.Event{Type: kind, Reason: reason, Note: note})
}

// publish writes what a remediation waits for, if that has changed.
func (c *Client) publish(ctx context.Context, rec *reconciliation, reason, message string) error {
	status := rec.r.Status.DeepCopy()
	if fencing.Phase(status.Phase).Final() {
		return nil
	}
	if status.Phase == "" {
		c.Metrics.wait(rec.key, reason)
	}
	changed := fencednode.SetConditions(&status.FencingStatus, c.Now(), fencednode.NewCondition(v1alpha1.ProcessingCondition, metav1.ConditionTrue, reason, message))
	if rec.awaited != nil && (status.Machine == nil || *status.Machine != *rec.awaited) {
		status.Machine, changed = rec.awaited, true
	}
	if !changed {
		return nil
	}
	return c.replaceStatus(ctx, rec, status)
}

// refuse ends a remediation that has done nothing, so that the health checker takes its next step. The machine is free for that.
func (c *Client) refuse(ctx context.Context, r *v1alpha1.PowerRemediation, why problem) error {
	status := r.Status.DeepCopy()
	message := "nothing was done: " + why.message
	changed := fencednode.SetConditions(&status.FencingStatus, c.Now(), fencednode.RefusalConditions(why.reason, message)...)
	if changed {
		if err := fencednode.PatchStatus(ctx, c.Writer, r, status); err != nil {
			return err
		}
		c.emit(r, corev1.EventTypeWarning, "RemediationCannotStart", message)
		c.forget(client.ObjectKeyFromObject(r))
	}
	c.Metrics.wait(client.ObjectKeyFromObject(r), why.reason)
	return c.machines.Release(ctx, r)
}

// replaceStatus writes the status of the remediation of a reconcile, and keeps the answer.
func (c *Client) replaceStatus(ctx context.Context, rec *reconciliation, status *v1alpha1.PowerRemediationStatus) error {
	if err := fencednode.PatchStatus(ctx, c.Writer, rec.r, status); err != nil {
		return err
	}
	c.keepWritten(rec)
	return nil
}

// setMetadata replaces the finalizers of the remediation of a reconcile, adds annotations, and keeps the answer.
func (c *Client) setMetadata(ctx context.Context, rec *reconciliation, finalizers []string, annotations map[string]string) error {
	if err := fencednode.PatchMetadata(ctx, c.Writer, rec.r, finalizers, annotations); err != nil {
		return err
	}
	c.keepWritten(rec)
	return nil
}

// keepWritten stores the remediation of a reconcile as this process has just written it.
func (c *Client) keepWritten(rec *reconciliation) {
	if rec.s != nil {
		c.sessions.keep(rec.s, rec.r)
		c.sessions.keepRevision(rec.s, rec.r.ResourceVersion)
	}
}
