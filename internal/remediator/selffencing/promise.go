package selffencing

import (
	"context"
	"fmt"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fettle-io/fettle/api/fettle/v1alpha1"
	"github.com/fettle-io/fettle/internal/fencing"
	"github.com/fettle-io/fettle/internal/promiselease"
	"github.com/fettle-io/fettle/internal/selffence"
)

const (
	// retryRead is the pause after a read that failed, and mostRetry the longest pause after a failed read or write of a Lease.
	retryRead = 2 * time.Second
	mostRetry = 30 * time.Second
	// pageSize and maxPages bound the list of remediations.
	pageSize = 500
	maxPages = 100
)

// sight reads the promise of a node that is not Ready, so that its clock counts from now. Without a policy no node promises anything.
func (c *Client) sight(ctx context.Context, node string) error {
	var policies v1alpha1.FencePolicyList
	if err := c.Cache.List(ctx, &policies, client.UnsafeDisableDeepCopy); err != nil {
		return fmt.Errorf("listing the FencePolicies: %w", err)
	}
	if len(policies.Items) == 0 {
		return nil
	}
	lease, err := c.getLease(ctx, node)
	if apierrors.IsForbidden(err) {
		return nil // nodes are not set up to fence themselves
	}
	if lease == nil || err != nil {
		return err
	}
	if record, err := promiselease.Decode(lease); err == nil {
		c.sights.update(node, func(s selffence.Sight) selffence.Sight { return s.Observe(record.Lease, c.Now()) })
	}
	return nil
}

// getLease reads the Lease of a node, and returns nil if there is none.
func (c *Client) getLease(ctx context.Context, node string) (*coordinationv1.Lease, error) {
	var l coordinationv1.Lease
	err := c.Core.Get(ctx, types.NamespacedName{Namespace: promiselease.Namespace, Name: node}, &l)
	if apierrors.IsNotFound(err) {
		return nil, nil //nolint:nilnil // there is none
	}
	if err != nil {
		return nil, fmt.Errorf("reading the Lease of node %s: %w", node, err)
	}
	return &l, nil
}

// readPromise reads the promise of the node of a look.
func (c *Client) readPromise(ctx context.Context, l *look) {
	begun := c.Now()
	lease, err := c.getLease(ctx, l.node)
	if err == nil {
		err = c.notePromise(ctx, l, lease, begun)
	}
	c.noteFailure(l, err, false)
}

// noteFailure notes whether a read or a write of the Lease has failed. After a failure nothing is known of it. A read that succeeds does not
// make up for writes that fail.
func (c *Client) noteFailure(l *look, err error, writes bool) {
	if err == nil {
		if writes || !l.s.failedToWrite {
			l.s.failures, l.s.failedToWrite = 0, false
		}
		return
	}
	l.s.failures, l.s.failedToWrite = l.s.failures+1, writes
	l.s.failure = err
	l.s.promise = fencing.Promise{RetryAt: c.Now().Add(min(retryRead<<min(l.s.failures-1, 10), mostRetry))}
	l.s.lease = nil
}

// notePromise notes a Lease, or that there is none, as it was read or written by a call that began at an instant.
func (c *Client) notePromise(ctx context.Context, l *look, lease *coordinationv1.Lease, begun time.Time) error {
	ended := c.Now()
	p := fencing.Promise{Begun: begun, Ended: ended, State: fencing.NoPromise}
	if lease != nil {
		if record, err := promiselease.Decode(lease); err != nil {
			p.State = fencing.PromiseUnknown
		} else if p, err = c.promiseOf(ctx, l, record.Lease, p); err != nil {
			return err
		}
	}
	l.s.lease, l.s.promise = lease, p
	return nil
}

// promiseOf adds to a promise what a Lease says.
func (c *Client) promiseOf(ctx context.Context, l *look, lease selffence.Lease, p fencing.Promise) (fencing.Promise, error) {
	seen := c.sights.update(l.node, func(s selffence.Sight) selffence.Sight { return s.Observe(lease, p.Ended) })
	p.Boot = lease.Promise.Boot
	switch {
	case lease.State == selffence.Promised:
		p.State = fencing.Promised
	case lease.State != selffence.Condemned:
	case lease.By == string(l.r.UID):
		acknowledged, err := c.acknowledged(ctx, l.s, lease)
		if err != nil {
			return p, err
		}
		p.State = fencing.Revoked
		p.Expires, _ = seen.Expiry(lease.By, acknowledged)
		p.Unwitnessed = lease.Promise.Timed && lease.Promise.Witnesses.Majority() > 0 && acknowledged.IsZero()
	default:
		exists, err := c.exists(ctx, types.UID(lease.By))
		if err != nil {
			return p, err
		}
		p.State = fencing.RevokedByGone
		if exists {
			p.State = fencing.RevokedByOther
		}
	}
	return p, nil
}

// acknowledged returns when a majority of the witnesses of a condemned Lease was first known to have read it, or zero.
func (c *Client) acknowledged(ctx context.Context, s *session, lease selffence.Lease) (time.Time, error) {
	if s.acknowledgedRevision == lease.Revision || lease.Promise.Witnesses.Majority() == 0 {
		return s.acknowledged, nil
	}
	read := map[string]uint64{}
	for _, name := range lease.Promise.Witnesses {
		if name == "" {
			continue
		}
		of, err := c.getLease(ctx, name)
		if err != nil {
			return time.Time{}, err
		}
		if of == nil {
			continue
		}
		if record, err := promiselease.Decode(of); err == nil {
			read[name] = record.HasRead()
		}
	}
	if !lease.Acknowledged(read) {
		return time.Time{}, nil
	}
	s.acknowledged, s.acknowledgedRevision = c.Now(), lease.Revision
	return s.acknowledged, nil
}

// exists reports whether a remediation with a UID exists. The promise that a remediation without a trace has revoked would stay so.
func (c *Client) exists(ctx context.Context, uid types.UID) (bool, error) {
	exist, complete, err := c.remediationUIDs(ctx)
	return exist[uid] || !complete, err // unknown counts as existing
}

// writePromise revokes the promise of a node, or frees it, if the Lease is as it was read.
func (c *Client) writePromise(ctx context.Context, l *look, kind fencing.StepKind) error {
	change := promiselease.Free
	if kind == fencing.RevokePromise {
		change = func(lease *coordinationv1.Lease) (*coordinationv1.Lease, error) {
			return promiselease.Condemn(lease, string(l.r.UID))
		}
	}
	if l.s.lease == nil {
		return fmt.Errorf("the Lease of node %s was not read", l.node)
	}
	changed, err := change(l.s.lease)
	if err != nil {
		return fmt.Errorf("changing the Lease of node %s: %w", l.node, err)
	}
	replaced, begun := l.s.lease, c.Now()
	err = c.Core.Update(ctx, changed)
	switch {
	case apierrors.IsConflict(err), apierrors.IsNotFound(err):
		l.s.promise, l.s.lease = fencing.Promise{}, nil // it is read again
		return nil
	case err != nil:
		c.noteFailure(l, fmt.Errorf("changing the Lease of node %s: %w", l.node, err), true)
		return nil
	}
	c.noteWrite(l.node, replaced, changed)
	c.noteFailure(l, c.notePromise(ctx, l, changed, begun), true)
	return nil
}

// noteWrite has the clock of a revoked promise go on from when the grant was seen that the write has replaced.
func (c *Client) noteWrite(node string, replaced, written *coordinationv1.Lease) {
	before, err := promiselease.Decode(replaced)
	if err != nil {
		return
	}
	after, err := promiselease.Decode(written)
	if err != nil || after.State != selffence.Condemned {
		return
	}
	c.sights.update(node, func(s selffence.Sight) selffence.Sight {
		if s.Lease.Revision != before.Revision {
			return s // it is seen anew
		}
		return s.Condemned(after.By, after.Revision)
	})
}
