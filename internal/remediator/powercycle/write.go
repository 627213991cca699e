package powercycle

import (
	"context"
	"encoding/json"
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
	"github.com/fettle-io/fettle/internal/sanitize"
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
	r := emptyRemediation(key)
	switch err := c.Live.Get(ctx, key, r); {
	case apierrors.IsNotFound(err):
		return nil, nil //nolint:nilnil // it is gone, and the cache will show that
	case err != nil:
		return nil, fmt.Errorf("reading it again: %w", err)
	}
	return r, nil
}

func emptyRemediation(key types.NamespacedName) *v1alpha1.PowerRemediation {
	return &v1alpha1.PowerRemediation{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}}
}

// write writes a record. The look begins anew after it.
func (c *Client) write(ctx context.Context, l *look, record fencing.Record) error {
	status := c.statusWith(l, l.s.began.Recorded(record))
	last := l.r.Status
	begins := last.Phase != status.Phase || last.Attempt != status.Attempt
	if err := c.replaceStatus(ctx, l, status); err != nil {
		return err
	}
	if !isKept(&l.r.Status, record) && !record.Phase.Final() {
		record.Phase, record.Since, record.Reason = fencing.Failed, c.Now(), statusNotKept
		return c.write(ctx, l, record)
	}
	c.warnOfOldAddress(l, &last)
	if len(l.r.Status.FormerHosts) > 0 {
		c.remediations.Add(l.key) // the next look removes Fettle's annotation from them
	}
	before := l.record.Phase
	l.record = recordOf(&l.r.Status)
	if begins {
		c.Metrics.wait(l.key, "")
		l.s.turn, l.s.changeFailed = time.Time{}, time.Time{}
		if before != fencing.Preparing || l.record.Phase != fencing.PoweringOff { // both command the same
			l.s.power.RetryAt, l.s.failures = time.Time{}, 0 // a phase must not end by a failure of an earlier one
		}
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
func (c *Client) statusWith(l *look, record fencing.Record) *v1alpha1.PowerRemediationStatus {
	status := l.r.Status.DeepCopy()
	if status.Phase == "" {
		status.Machine = l.machine
	}
	writeRecord(status, l.node, record)
	status.Node.Cluster = l.cluster.status()
	if l.bmc != nil {
		l.recordBMC(status)
	}
	if record.Released && record.DeletedNode && l.raw != nil && status.Node.Saved == nil {
		status.Node.Saved = fencednode.Saved(l.r.UID, l.raw)
	}
	if record.Phase.Final() && fencednode.IsRestored(status.Node.Saved, l.facts.Node) {
		status.Node.Saved = nil // what others remove from now on stays removed
	}
	fencednode.SetConditions(&status.FencingStatus, c.Now(), conditionsOf(status)...)
	return status
}

// announce emits an event about a phase that has begun, once the look is over: its steps come first.
func (c *Client) announce(l *look, s *v1alpha1.PowerRemediationStatus) {
	kind := corev1.EventTypeNormal
	note := phaseMessage(s)
	phase := fencing.Phase(s.Phase)
	if phase == fencing.Failed || phase == fencing.Aborted && s.PoweredOff || phase == fencing.DeletingMachine || s.Reason == string(fencing.ProofVoid) {
		kind = corev1.EventTypeWarning
	}
	if phase.Final() || phase == fencing.Releasing {
		note += evidence(s)
	}
	c.Metrics.count(s.Phase, s.Reason)
	about := l.r.DeepCopy()
	l.notes = append(l.notes, func() { c.emit(about, kind, s.Phase, note) })
	c.Log.Info("remediation has come further", "phase", s.Phase, "reason", s.Reason, "remediation", l.key.String(), "node", l.node, "what", note)
}

func (c *Client) emit(r *v1alpha1.PowerRemediation, kind, reason, note string) {
	c.Events.Eventf(&corev1.ObjectReference{
		APIVersion: v1alpha1.GroupVersion.String(), Kind: "PowerRemediation", Namespace: r.Namespace, Name: r.Name, UID: r.UID,
	}, nil, kind, reason, "Remediate", "%s", sanitize.Line(sanitize.MaxNote, "[remediation] "+note))
}

// publish writes what a remediation waits for, if that has changed.
func (c *Client) publish(ctx context.Context, l *look, reason, message string) error {
	status := l.r.Status.DeepCopy()
	if fencing.Phase(status.Phase).Final() {
		return nil
	}
	if status.Phase == "" {
		c.Metrics.wait(l.key, reason)
	}
	if !fencednode.SetConditions(&status.FencingStatus, c.Now(), fencednode.NewCondition(v1alpha1.ProcessingCondition, metav1.ConditionTrue, reason, message)) {
		return nil
	}
	return c.replaceStatus(ctx, l, status)
}

// refuse ends a remediation that has done nothing, so that the health checker takes its next step. The machine is free for that.
func (c *Client) refuse(ctx context.Context, r *v1alpha1.PowerRemediation, why problem) error {
	status := r.Status.DeepCopy()
	message := "nothing was done: " + why.message
	changed := fencednode.SetConditions(&status.FencingStatus, c.Now(),
		fencednode.NewCondition(v1alpha1.ProcessingCondition, metav1.ConditionFalse, why.reason, message),
		fencednode.NewCondition(v1alpha1.SucceededCondition, metav1.ConditionFalse, why.reason, message),
		fencednode.NewCondition(v1alpha1.PermanentNodeDeletionExpectedCondition, metav1.ConditionFalse, v1alpha1.HostIsReusedReason, message),
	)
	if changed {
		if err := c.patchStatus(ctx, r, status); err != nil {
			return err
		}
		c.emit(r, corev1.EventTypeWarning, "RemediationCannotStart", message)
		c.forget(client.ObjectKeyFromObject(r))
	}
	c.Metrics.wait(client.ObjectKeyFromObject(r), why.reason)
	return c.machines.Release(ctx, r)
}

// replaceStatus writes the status of the remediation of a look, and keeps the answer.
func (c *Client) replaceStatus(ctx context.Context, l *look, status *v1alpha1.PowerRemediationStatus) error {
	if err := c.patchStatus(ctx, l.r, status); err != nil {
		return err
	}
	if l.s != nil {
		c.sessions.keep(l.s, l.r)
		c.sessions.keepRevision(l.s, l.r.ResourceVersion)
	}
	return nil
}

// patchStatus writes a status, unless the remediation has changed since it was read.
func (c *Client) patchStatus(ctx context.Context, r *v1alpha1.PowerRemediation, status *v1alpha1.PowerRemediationStatus) error {
	change, err := replaceStatus(r, status)
	if err != nil {
		return err
	}
	updated := emptyRemediation(client.ObjectKeyFromObject(r))
	if err := c.Writer.Status().Patch(ctx, updated, change); err != nil {
		return fmt.Errorf("writing its status: %w", err)
	}
	*r = *updated
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
	if l.s != nil {
		c.sessions.keep(l.s, l.r)
		c.sessions.keepRevision(l.s, l.r.ResourceVersion)
	}
	return nil
}
