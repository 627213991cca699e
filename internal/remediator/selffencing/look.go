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
	// mostSteps is above the number of steps that a look takes.
	mostSteps = 100
	// lookEvery is how often a remediation is looked at while nothing wakes it.
	lookEvery = 10 * time.Second
)

// look is one look at a remediation: what is known now, and the steps that are taken on it.
type look struct {
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

// look takes all steps of a remediation that can be taken now.
func (c *Client) look(ctx context.Context, key types.NamespacedName) error {
	l, err := c.open(ctx, key)
	if l == nil {
		return err
	}
	for range mostSteps {
		c.refresh(l)
		if over, err := c.take(ctx, l, fencing.Next(l.config, l.s.phaseStart.Record(l.record), l.facts)); over || err != nil {
			return err
		}
	}
	c.remediations.AddAfter(key, retryRead)
	return nil
}

// open reads the remediation of a look and returns the look, or nil if there is nothing to do.
func (c *Client) open(ctx context.Context, key types.NamespacedName) (*look, error) {
	r, err := c.current(ctx, key)
	if r == nil {
		return nil, err
	}
	l := &look{key: key, r: r, config: configOf(&r.Spec)}
	deleting, phase := !r.DeletionTimestamp.IsZero(), r.Status.Phase
	if known(phase) {
		c.Metrics.setPhase(r)
	}
	switch valid := known(phase) && (phase == "" || r.Status.Node != nil); {
	case !valid && deleting:
		c.emit(r, corev1.EventTypeWarning, statusInvalid, "status.phase is "+phase+", or status.node is missing, so nothing is taken back; look at the node")
		return nil, c.dropFinalizer(ctx, l)
	case !valid:
		return nil, c.refuse(ctx, r, problem{Reason: statusInvalid, Message: "status.phase is " + phase + ", or status.node is missing, which Fettle doesn't write; delete the remediation"})
	case phase == "" && deleting:
		return nil, c.dropFinalizer(ctx, l)
	case phase == "":
		return c.begin(ctx, l)
	}
	return c.resume(ctx, l)
}

// resume goes on from the record of a remediation that has begun.
func (c *Client) resume(ctx context.Context, l *look) (*look, error) {
	l.node = l.r.Status.Node.Name
	l.s = c.sessions.of(l.key, l.r.UID, l.node)
	l.record = recordOf(&l.r.Status)
	if other := c.Claims.Claim(l.node, l.holder()); other != l.holder() {
		c.remediations.AddAfter(l.key, lookEvery)
		return nil, c.publish(ctx, l, anotherRemediation, anotherMessage(other, l.node))
	}
	l.again(c.Now())
	return l, nil
}

// holder returns the remediation of a look as the holder of its node.
func (l *look) holder() fencednode.Holder { return holderOf(l.key) }

func holderOf(key types.NamespacedName) fencednode.Holder {
	return fencednode.Holder{Kind: Kind, NamespacedName: key}
}

// again begins a new look after something was written: what was read before is too old to release a node.
func (l *look) again(now time.Time) {
	l.facts, l.raw = fencing.Facts{Begun: now}, nil
}

// refresh brings the facts up to now.
func (c *Client) refresh(l *look) {
	l.facts.Now = c.Now()
	l.s.phaseStart = l.s.phaseStart.At(l.record.Since, l.facts.Now)
	l.facts.Deleting, l.facts.Stopped = !l.r.DeletionTimestamp.IsZero(), contract.Stopped(l.r)
	l.facts.Promise, l.facts.ChangeFailed = l.s.promise.Facts, l.s.changeFailed
}

// take takes one step. It reports whether the look is over.
func (c *Client) take(ctx context.Context, l *look, step fencing.Step) (bool, error) {
	switch step.Kind { //nolint:exhaustive // the others are steps of a fencing by power
	case fencing.Wait:
		return true, c.wait(ctx, l, step)
	case fencing.Finish:
		return true, c.finish(ctx, l)
	case fencing.Write:
		return false, c.write(ctx, l, step.Record)
	case fencing.ReadNode:
		c.readNode(ctx, l)
	case fencing.ReadPromise:
		c.Promises.Read(ctx, &l.s.promise)
	case fencing.CountWorkload:
		c.countWorkload(ctx, l)
	case fencing.RevokePromise, fencing.FreePromise, fencing.TaintNode, fencing.SetOutOfService, fencing.RemoveNode,
		fencing.RemoveOutOfService, fencing.RestoreNode, fencing.UntaintNode:
		return false, c.change(ctx, l, step.Kind)
	default:
		return true, fmt.Errorf("a step of kind %d is not one of a fencing by promise", step.Kind)
	}
	return false, ctx.Err()
}

// readNode reads the node of a look.
func (c *Client) readNode(ctx context.Context, l *look) {
	at := c.Now()
	n, err := c.nodes.Get(ctx, l.node)
	if err != nil {
		l.unread = err
		l.facts.Node = &fencing.Node{ReadAt: at, Failed: true, RetryAt: c.Now().Add(retryRead)}
		return
	}
	l.knows(n, at)
}

// knows has a look go on from a node that was read or written, by a call that began at an instant.
func (l *look) knows(n *corev1.Node, at time.Time) {
	l.raw, l.facts.Node = n, fencednode.Facts(l.r.UID, savedBy(l.r), n)
	l.facts.Node.ReadAt = at
}

// savedBy returns what a remediation has saved of a node that it has deleted, or nil.
func savedBy(r *v1alpha1.SelfFenceRemediation) *v1alpha1.SavedNode {
	if r.Status.Node == nil {
		return nil
	}
	return r.Status.Node.Saved
}

// countWorkload counts what is left on the node of a look.
func (c *Client) countWorkload(ctx context.Context, l *look) {
	workload, err := c.nodes.CountWorkload(ctx, l.node)
	if err != nil {
		l.unread = err
		workload = fencing.Workload{Failed: true, RetryAt: c.Now().Add(retryRead)}
	}
	l.facts.Workload = &workload
}

// change changes the node or its promise. The look begins anew.
func (c *Client) change(ctx context.Context, l *look, kind fencing.StepKind) error {
	begun, changed := c.Now(), l.raw
	err := c.changeOne(ctx, l, kind)
	l.again(c.Now())
	switch {
	case err == nil:
		l.refused, l.s.changeFailed = 0, time.Time{}
		if kind == fencing.TaintNode && l.record.Phase == fencing.Preparing {
			l.knows(changed, begun) // the answer has the node as it is now
		}
		return nil
	case (apierrors.IsNotFound(err) || apierrors.IsConflict(err)) && l.refused < mostConflicts:
		l.refused++
		return nil // it is read again
	}
	l.s.changeFailed = c.Now()
	if ctx.Err() != nil {
		return err
	}
	return errors.Join(err, c.publish(ctx, l, notChanged, "a change of node "+l.node+" has failed "+nodepromise.WhyFailed(err)))
}

func (c *Client) changeOne(ctx context.Context, l *look, kind fencing.StepKind) error {
	switch kind { //nolint:exhaustive // the others change the node
	case fencing.RevokePromise:
		return c.Promises.Revoke(ctx, &l.s.promise)
	case fencing.FreePromise:
		return c.Promises.Free(ctx, &l.s.promise)
	}
	return c.nodes.Change(ctx, kind, l.r.UID, savedBy(l.r), l.raw)
}

// wait says what the remediation waits for, and looks again in time.
func (c *Client) wait(ctx context.Context, l *look, step fencing.Step) error {
	pause := lookEvery
	if !step.Until.IsZero() {
		pause = min(pause, max(step.Until.Sub(c.Now()), 0))
	}
	c.remediations.AddAfter(l.key, pause)
	return c.publish(ctx, l, string(step.Reason), waitMessage(l, step))
}

// finish ends a remediation that is being deleted. Of another it drops what is restored: what others remove from now on stays removed.
func (c *Client) finish(ctx context.Context, l *look) error {
	if l.facts.Deleting {
		return c.dropFinalizer(ctx, l)
	}
	c.Claims.Release(l.holder())
	if err := c.machines.Release(ctx, l.r); err != nil {
		return err
	}
	if !fencednode.IsRestored(l.r.Status.Node.Saved, l.facts.Node) {
		return nil
	}
	status := l.r.Status.DeepCopy()
	status.Node.Saved = nil
	return fencednode.PatchStatus(ctx, c.Writer, l.r, status)
}
