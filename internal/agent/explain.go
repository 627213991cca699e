package agent

import (
	"context"
	"net/http"
	"path"
	"slices"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/fettle-io/fettle/internal/promiselease"
	"github.com/fettle-io/fettle/internal/selffence"
)

// Explainer states why a node has no promise, where others can read it.
type Explainer interface {
	// Explain states the reason of a boot. A promise of this boot and a condemnation stay as they are.
	Explain(ctx context.Context, boot string, why promiselease.NoPromise) error
}

// explained is what an agent has stated last.
type explained struct {
	why promiselease.NoPromise
	at  time.Duration
	// failed is set if that has failed.
	failed bool
}

// How often a reason is stated again, since its Lease may have been deleted, and after a failure.
const (
	explainEvery = 10 * time.Minute
	explainAgain = time.Minute
)

// explain states why the node has no promise. The agent calls it while no promise may stand and the watchdog is disarmed. So a request that is
// carried out late withdraws nothing, since it fails if the Lease has changed.
func (n *node) explain(ctx context.Context) {
	why, now := n.whyNoPromise(), n.Boottime()
	every := explainEvery
	if n.explained.failed {
		every = explainAgain
	}
	if n.Explainer == nil || n.creates || why == "" || why == n.explained.why && now < n.explained.at+every {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, n.requestTime())
	defer cancel()
	err := n.Explainer.Explain(ctx, n.Boot, why)
	if err != nil && !n.explained.failed {
		n.Tell(Note{Reason: NoAnswer, Err: err})
	}
	n.explained = explained{why: why, at: now, failed: err != nil}
	if err != nil {
		n.learn(selffence.Agent.Failed)
		return
	}
	n.learn(selffence.Agent.Conflicts) // the Lease may have another revision, so it is read before it is written
}

// whyNoPromise returns why the node has no promise. It is empty if it is to have none, or if nothing is in its way.
func (n *node) whyNoPromise() promiselease.NoPromise {
	n.mu.Lock()
	defer n.mu.Unlock()
	switch {
	case n.used != (Settings{}) && n.unusable:
		return statable(n.refusal)
	case n.found == nil && n.unfound:
		return promiselease.PolicyUnreadable
	}
	return ""
}

// statable returns a reason of a watchdog as the Lease states it.
func statable(r Reason) promiselease.NoPromise {
	if why := promiselease.NoPromise(r); slices.Contains(promiselease.AllNoPromises(), why) {
		return why
	}
	return promiselease.WatchdogFailed
}

// Explain implements Explainer.
func (l *Leases) Explain(ctx context.Context, boot string, why promiselease.NoPromise) error {
	var stored coordinationv1.Lease
	var record promiselease.Record
	err := l.server.do(ctx, call{method: http.MethodGet, path: path.Join(leases, l.node)}, &stored)
	switch {
	case apierrors.IsNotFound(err):
	case err != nil:
		return err
	default:
		if record, err = promiselease.Decode(&stored); err != nil {
			return err
		}
	}
	own := record.Promise.Boot == boot
	shown := own && record.Why == why && record.Address == l.Address // a text of texts
	if record.State == selffence.Condemned || own && record.State == selffence.Promised || shown {
		return nil
	}
	wanted, err := promiselease.Encode(l.node, promiselease.Record{
		Lease: selffence.Lease{Revision: record.Revision, State: selffence.Withdrawn, Promise: selffence.Promise{Boot: boot}}, Why: why, Address: l.Address,
	}, l.now())
	if err != nil {
		return err
	}
	c := call{method: http.MethodPost, path: leases, body: wanted}
	if record.Revision > 0 {
		wanted.UID = stored.UID // without it, the API server would create a Lease that was deleted
		c.method, c.path = http.MethodPut, path.Join(leases, l.node)
	}
	return l.server.do(ctx, c, nil)
}
