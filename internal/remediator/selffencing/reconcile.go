package selffencing

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fettle-io/fettle/api/fettle/v1alpha1"
	"github.com/fettle-io/fettle/internal/fencing"
	"github.com/fettle-io/fettle/internal/remediator/contract"
	"github.com/fettle-io/fettle/internal/remediator/fencednode"
	"github.com/fettle-io/fettle/internal/remediator/nodepromise"
)

const (
	// mostConflicts is how many changes in succession may meet a node that has changed.
	mostConflicts = 5
	// mostSteps is above the number of steps that a reconcile takes.
	mostSteps = 100
	// requeueAfter is the pause after which a remediation is reconciled again while nothing wakes it.
	requeueAfter = 10 * time.Second
)

// reconciliation is the state of one reconcile of a remediation: the facts, and what its steps have read and written.
type reconciliation struct {
	key    types.NamespacedName
	r      *v1alpha1.SelfFenceRemediation
	s      *session
	node   string
	config fencing.Config
	record fencing.Record
	facts  fencing.Facts
	// raw is the node as facts.Node has it, or nil.
	raw *corev1.Node
	// unread is why the node or its workload could not be read last.
	unread error
	// refused counts the changes in succession that did not come about.
	refused int
}

// reconcile takes all steps of a remediation that can be taken now.
func (c *Client) reconcile(ctx context.Context, key types.NamespacedName) error {
	rec, err := c.open(ctx, key)
	if rec == nil {
		return err
	}
	for range mostSteps {
		c.refresh(rec)
		if over, err := c.take(ctx, rec, fencing.Next(rec.config, rec.s.phaseStart.Record(rec.record), rec.facts)); over || err != nil {
			return err
		}
	}
	c.remediations.AddAfter(key, retryRead)
	return nil
}

// open reads the remediation of a reconcile and returns the reconcile, or nil if there is nothing to do.
func (c *Client) open(ctx context.Context, key types.NamespacedName) (*reconciliation, error) {
	r, err := c.current(ctx, key)
	if r == nil {
		return nil, err
	}
	rec := &reconciliation{key: key, r: r, config: configOf(&r.Spec)}
	deleting, phase := !r.DeletionTimestamp.IsZero(), r.Status.Phase
	if known(phase) {
		c.Metrics.setPhase(r, c.Now())
	}
	switch valid := known(phase) && (phase == "" || r.Status.Node != nil); {
	case !valid && deleting:
		c.emit(r, corev1.EventTypeWarning, statusInvalid, "status.phase is "+phase+", or status.node is missing, so nothing is taken back; look at the node")
		return nil, c.dropFinalizer(ctx, rec)
	case !valid:
		return nil, c.refuse(ctx, r, problem{Reason: statusInvalid, Message: "status.phase is " + phase + ", or status.node is missing, which Fettle doesn't write; delete the remediation"})
	case phase == "" && deleting:
		return nil, c.dropFinalizer(ctx, rec)
	case phase == "":
		return c.begin(ctx, rec)
	}
	return c.resume(ctx, rec)
}

// resume goes on from the record of a remediation that has begun. After its end, with something left to take back, it waits for a remediation
// that has not.
func (c *Client) resume(ctx context.Context, rec *reconciliation) (*reconciliation, error) {
	rec.node = rec.r.Status.Node.Name
	rec.s = c.sessions.of(rec.key, rec.r.UID, rec.node)
	rec.record = recordOf(&rec.r.Status)
	if other, held := c.heldBy(ctx, rec); held {
		c.remediations.AddAfter(rec.key, requeueAfter)
		waits := other.WaitProblem(rec.node)
		return nil, c.publish(ctx, rec, waits.Reason, waits.Message)
	}
	rec.resetFacts(c.Now())
	return rec, nil
}

// heldBy returns which other remediation has the node of a reconcile that has begun. A process that has just started has no claims, so that a
// remediation which has ended looks for another that has not.
func (c *Client) heldBy(ctx context.Context, rec *reconciliation) (fencednode.Holder, bool) {
	if fencing.Phase(rec.r.Status.Phase).Final() {
		return c.fencedBy(ctx, rec)
	}
	holder := c.Claims.Claim(rec.node, rec.holder())
	return holder, holder != rec.holder()
}

// holder returns the remediation of a reconcile as the holder of its node.
func (rec *reconciliation) holder() fencednode.Holder { return holderOf(rec.key) }

func holderOf(key types.NamespacedName) fencednode.Holder {
	return fencednode.Holder{Kind: Kind, NamespacedName: key}
}

// resetFacts drops the facts after something was written: an earlier read is too old to release a node.
func (rec *reconciliation) resetFacts(now time.Time) {
	rec.facts, rec.raw = fencing.Facts{Begun: now}, nil
}

// refresh brings the facts up to now.
func (c *Client) refresh(rec *reconciliation) {
	rec.facts.Now = c.Now()
	rec.s.phaseStart = rec.s.phaseStart.At(rec.record.Since, rec.facts.Now)
	rec.facts.Deleting, rec.facts.Stopped = !rec.r.DeletionTimestamp.IsZero(), contract.Stopped(rec.r)
	rec.facts.Promise, rec.facts.ChangeFailed = rec.s.promise.Facts, rec.s.changeFailed
}

// take takes one step. It reports whether the reconcile is over.
func (c *Client) take(ctx context.Context, rec *reconciliation, step fencing.Step) (bool, error) {
	switch step.Kind { //nolint:exhaustive // the others are steps of a fencing by power
	case fencing.Wait:
		return true, c.wait(ctx, rec, step)
	case fencing.Finish:
		return true, c.finish(ctx, rec)
	case fencing.Write:
		return false, c.write(ctx, rec, step.Record)
	case fencing.ReadNode:
		c.readNode(ctx, rec)
	case fencing.ReadPromise:
		c.Promises.Read(ctx, &rec.s.promise)
	case fencing.CountWorkload:
		c.countWorkload(ctx, rec)
	case fencing.RevokePromise, fencing.FreePromise, fencing.TaintNode, fencing.SetOutOfService, fencing.RemoveNode,
		fencing.RemoveOutOfService, fencing.RestoreNode, fencing.UntaintNode:
		return false, c.change(ctx, rec, step.Kind)
	default:
		return true, fmt.Errorf("a step of kind %d is not one of a fencing by promise", step.Kind)
	}
	return false, ctx.Err()
}

// readNode reads the node of a reconcile.
func (c *Client) readNode(ctx context.Context, rec *reconciliation) {
	at := c.Now()
	n, err := c.nodes.Get(ctx, rec.node)
	if err != nil {
		rec.unread = err
		rec.facts.Node = &fencing.Node{ReadAt: at, Failed: true, RetryAt: c.Now().Add(retryRead)}
		return
	}
	rec.knows(n, at)
	if rec.facts.Node.Tainted && rec.record.Phase == fencing.Aborted && c.isKeptByOther(ctx, rec) {
		rec.facts.Node.Tainted = false // the taint is not that of this remediation, which has removed its own
	}
}

// isKeptByOther reports whether another remediation keeps the taint on the node of a reconcile.
func (c *Client) isKeptByOther(ctx context.Context, rec *reconciliation) bool {
	other := c.OtherKeeps != nil && c.OtherKeeps(ctx, rec.node, rec.r.UID)
	return other || c.Keeps(ctx, rec.node, rec.r.UID)
}

// knows has a reconcile go on from a node that was read or written, by a call that began at an instant.
func (rec *reconciliation) knows(n *corev1.Node, at time.Time) {
	rec.raw, rec.facts.Node = n, fencednode.Facts(rec.r.UID, fencednode.SavedOf(&rec.r.Status.FencingStatus), n)
	rec.facts.Node.ReadAt = at
}

// countWorkload counts what is left on the node of a reconcile.
func (c *Client) countWorkload(ctx context.Context, rec *reconciliation) {
	workload, err := c.nodes.CountWorkload(ctx, rec.node)
	if err != nil {
		rec.unread = err
		workload = fencing.Workload{Failed: true, RetryAt: c.Now().Add(retryRead)}
	}
	rec.facts.Workload = &workload
}

// change changes the node or its promise. The facts are read anew after it.
func (c *Client) change(ctx context.Context, rec *reconciliation, kind fencing.StepKind) error {
	begun, changed := c.Now(), rec.raw
	err := c.changeOne(ctx, rec, kind)
	rec.resetFacts(c.Now())
	switch {
	case err == nil:
		rec.refused, rec.s.changeFailed = 0, time.Time{}
		if kind == fencing.TaintNode && rec.record.Phase == fencing.Preparing {
			rec.knows(changed, begun) // the answer has the node as it is now
		}
		return nil
	case (apierrors.IsNotFound(err) || apierrors.IsConflict(err)) && rec.refused < mostConflicts:
		rec.refused++
		return nil // it is read again
	}
	rec.s.changeFailed = c.Now()
	if ctx.Err() != nil {
		return err
	}
	return errors.Join(err, c.publish(ctx, rec, notChanged, "a change of node "+rec.node+" has failed "+nodepromise.WhyFailed(err)))
}

func (c *Client) changeOne(ctx context.Context, rec *reconciliation, kind fencing.StepKind) error {
	switch kind { //nolint:exhaustive // the others change the node
	case fencing.RevokePromise:
		return c.Promises.Revoke(ctx, &rec.s.promise)
	case fencing.FreePromise:
		return c.Promises.Free(ctx, &rec.s.promise)
	}
	return c.nodes.Change(ctx, kind, rec.r.UID, fencednode.SavedOf(&rec.r.Status.FencingStatus), rec.raw)
}

// wait publishes the reason to wait, and requeues the remediation in time.
func (c *Client) wait(ctx context.Context, rec *reconciliation, step fencing.Step) error {
	pause := requeueAfter
	if !step.Until.IsZero() {
		pause = min(pause, max(step.Until.Sub(c.Now()), 0))
	}
	c.remediations.AddAfter(rec.key, pause)
	return c.publish(ctx, rec, string(step.Reason), waitMessage(rec, step))
}

// finish ends a remediation that is being deleted. Of another it drops the record of restored fields: a field that others remove from now on stays removed.
func (c *Client) finish(ctx context.Context, rec *reconciliation) error {
	if rec.facts.Deleting {
		return c.dropFinalizer(ctx, rec)
	}
	c.Claims.Release(rec.holder())
	if err := c.machines.Release(ctx, rec.r); err != nil {
		return err
	}
	if !fencednode.IsRestored(rec.r.Status.Node.Saved, rec.facts.Node) {
		return nil
	}
	status := rec.r.Status.DeepCopy()
	status.Node.Saved = nil
	return fencednode.PatchStatus(ctx, c.Writer, rec.r, status)
}
