package powercycle

import (
	"context"
	"errors"

	toolscache "k8s.io/client-go/tools/cache"

	"github.com/fettle-io/fettle/api/fettle/v1alpha1"
	"github.com/fettle-io/fettle/internal/remediator/nodepromise"
)

// A FencePolicy may require both power and promise of a node. Then this remediator revokes the promise of the node too. The policies, the nodes and
// their Leases are those of the cluster that Fettle runs in. The nodes of workload clusters have their agents and policies in their own cluster.

// promise returns the promise of the node of a reconcile.
func (rec *reconciliation) promise() *nodepromise.Promise {
	rec.s.promise.Node, rec.s.promise.By = rec.node, rec.r.UID
	return &rec.s.promise
}

// requiresBoth reports whether an attempt that begins now needs both power and promise. While that is not known, it does.
func (c *Client) requiresBoth(ctx context.Context, rec *reconciliation) bool {
	if !rec.cluster.isHome() || rec.raw == nil {
		return false
	}
	policy, unknown, err := nodepromise.RequiresBoth(ctx, c.Cache, rec.raw)
	return policy != "" || unknown.Found() || err != nil
}

// canRevoke reports whether a remediation can begin, as far as a FencePolicy requires the promise of its node. If not, it is refused or waits.
func (c *Client) canRevoke(ctx context.Context, rec *reconciliation, s subject) (bool, error) {
	if !s.cluster.isHome() || s.node == nil {
		return true, nil
	}
	policy, unknown, err := nodepromise.RequiresBoth(ctx, c.Cache, s.node)
	switch {
	case err != nil:
		return false, errors.Join(err, c.publish(ctx, rec, notRead, "the FencePolicies could not be read "+whyFailed(err)))
	case unknown.Found():
		return false, c.reportWaiting(ctx, rec, problemOf(unknown))
	}
	if found := nodepromise.ReadyMeanwhile(&rec.r.Status.FencingStatus, s.node); found.Found() {
		return false, c.refuse(ctx, rec.r, problemOf(found))
	}
	if policy == "" {
		return true, nil
	}
	found, err := c.Promises.MissingTimed(ctx, rec.node)
	switch {
	case err != nil:
		return false, errors.Join(err, c.publish(ctx, rec, notRead, "the Lease of node "+rec.node+" could not be read "+nodepromise.WhyFailed(err)))
	case found.Found():
		found.Message = "FencePolicy " + policy + " requires both power and promise, and " + found.Message
		return false, c.refuse(ctx, rec.r, problemOf(found))
	}
	return true, nil
}

// tidyAfter has the Lease of a node read that a remediation may have condemned which is gone.
func (c *Client) tidyAfter(obj any) {
	if last, known := obj.(toolscache.DeletedFinalStateUnknown); known {
		obj = last.Obj
	}
	if r, is := obj.(*v1alpha1.PowerRemediation); is && c.Tidy != nil && r.Status.Condemned && r.Status.Node != nil {
		c.Tidy(r.Status.Node.Name)
	}
}
