package powercycle

import (
	"context"
	"errors"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/fettle-io/fettle/api/fettle/v1alpha1"
	"github.com/fettle-io/fettle/internal/fencing"
	"github.com/fettle-io/fettle/internal/remediator/fencednode"
)

// retryRead is the pause after a read that failed.
const retryRead = 2 * time.Second

// readNode reads the node of a look.
func (c *Client) readNode(ctx context.Context, l *look) {
	at := c.Now()
	l.wakes = c.sessions.wakesOf(l.s)
	n, err := c.nodesOf(l).Get(ctx, l.node)
	if err != nil && !c.isGone(ctx, l) {
		l.unread = err
		l.facts.Node = &fencing.Node{ReadAt: at, Failed: true, RetryAt: c.Now().Add(retryRead)}
		return
	}
	l.raw = n
	l.facts.Node = factsOf(l.r, n)
	l.facts.Node.ReadAt = at
}

// factsOf returns what the fencing of a remediation has to know of a node, which may be nil.
func factsOf(r *v1alpha1.PowerRemediation, n *corev1.Node) *fencing.Node {
	return fencednode.Facts(r.UID, savedBy(r), n)
}

// savedBy returns what a remediation has saved of a node that it has deleted, or nil.
func savedBy(r *v1alpha1.PowerRemediation) *v1alpha1.SavedNode {
	if r.Status.Node == nil {
		return nil
	}
	return r.Status.Node.Saved
}

// countWorkload counts what is left on the node of a look.
func (c *Client) countWorkload(ctx context.Context, l *look) {
	ctx, done := c.interruptible(ctx, l, l.wakes, l.releases())
	defer done()
	workload, err := c.nodesOf(l).CountWorkload(ctx, l.node)
	if errors.Is(ctx.Err(), context.Canceled) {
		l.facts.Node = nil // it has changed, and is read first
		return
	}
	if err != nil {
		l.unread = err
		l.facts.Workload = &fencing.Workload{Failed: true, RetryAt: c.Now().Add(retryRead)}
		return
	}
	l.facts.Workload = &workload
}

// changeNode changes the node of a look, its promise or its machine.
func (c *Client) changeNode(ctx context.Context, nodes *fencednode.Nodes, l *look, kind fencing.StepKind) error {
	switch kind { //nolint:exhaustive // the others change the node
	case fencing.RevokePromise:
		return c.Promises.Revoke(ctx, l.promise())
	case fencing.FreePromise:
		return c.Promises.Free(ctx, l.promise())
	case fencing.RemoveMachine:
		return c.deleteMachine(ctx, l)
	}
	return nodes.Change(ctx, kind, l.r.UID, savedBy(l.r), l.raw)
}
