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

// readNode reads the node of a reconcile.
func (c *Client) readNode(ctx context.Context, rec *reconciliation) {
	at := c.Now()
	rec.wakes = c.sessions.wakesOf(rec.s)
	n, err := c.nodesOf(rec).Get(ctx, rec.node)
	if err != nil && !c.isGone(ctx, rec) {
		rec.unread = err
		rec.facts.Node = &fencing.Node{ReadAt: at, Failed: true, RetryAt: c.Now().Add(retryRead)}
		return
	}
	rec.raw = n
	rec.facts.Node = factsOf(rec.r, n)
	rec.facts.Node.ReadAt = at
	if rec.facts.Node.Tainted && rec.record.Phase == fencing.Aborted && c.isKeptByOther(ctx, rec) {
		rec.facts.Node.Tainted = false // the taint is not that of this remediation, which has removed its own
	}
}

// isKeptByOther reports whether another remediation keeps the taint on the node of a reconcile.
func (c *Client) isKeptByOther(ctx context.Context, rec *reconciliation) bool {
	other := c.OtherKeeps != nil && rec.cluster.isHome() && c.OtherKeeps(ctx, rec.node, rec.r.UID)
	return other || c.Keeps(ctx, rec.claims(), rec.r.UID)
}

// factsOf returns what the fencing of a remediation has to know of a node, which may be nil.
func factsOf(r *v1alpha1.PowerRemediation, n *corev1.Node) *fencing.Node {
	return fencednode.Facts(r.UID, fencednode.SavedOf(&r.Status.FencingStatus), n)
}

// countWorkload counts what is left on the node of a reconcile.
func (c *Client) countWorkload(ctx context.Context, rec *reconciliation) {
	ctx, done := c.interruptible(ctx, rec, rec.wakes, rec.releases())
	defer done()
	workload, err := c.nodesOf(rec).CountWorkload(ctx, rec.node)
	if errors.Is(ctx.Err(), context.Canceled) {
		rec.facts.Node = nil // it has changed, and is read first
		return
	}
	if err != nil {
		rec.unread = err
		rec.facts.Workload = &fencing.Workload{Failed: true, RetryAt: c.Now().Add(retryRead)}
		return
	}
	rec.facts.Workload = &workload
}

// changeNode changes the node of a reconcile, its promise or its machine.
func (c *Client) changeNode(ctx context.Context, nodes *fencednode.Nodes, rec *reconciliation, kind fencing.StepKind) error {
	switch kind { //nolint:exhaustive // the others change the node
	case fencing.RevokePromise:
		return c.Promises.Revoke(ctx, rec.promise())
	case fencing.FreePromise:
		return c.Promises.Free(ctx, rec.promise())
	case fencing.RemoveMachine:
		return c.deleteMachine(ctx, rec)
	}
	return nodes.Change(ctx, kind, rec.r.UID, fencednode.SavedOf(&rec.r.Status.FencingStatus), rec.raw)
}
