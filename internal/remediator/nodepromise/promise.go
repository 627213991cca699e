package nodepromise

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
	"github.com/fettle-io/fettle/internal/remediator/fencednode"
	"github.com/fettle-io/fettle/internal/selffence"
)

// The pauses after a failed read or write of a Lease.
const (
	firstRetry = 2 * time.Second
	mostRetry  = 30 * time.Second
)

// Promises reads and writes the promises of nodes at the API server, never from a cache. It is safe for concurrent use.
type Promises struct {
	api          client.Client
	now          func() time.Time
	observations *observations
}

// New returns the promises of nodes, of which nothing was seen yet.
func New(api client.Client, now func() time.Time) *Promises {
	return &Promises{api: api, now: now, observations: newObservations()}
}

// Promise is what this process knows of the promise of one node, for the remediation that revokes it. Only the reconcile of the remediation uses it.
type Promise struct {
	Node string
	// By is the UID of the remediation.
	By types.UID
	// Facts are what a fencing knows of it.
	Facts fencing.Promise
	// Failure is why a read or write of the Lease has failed last.
	Failure error
	// Unread are the witnesses of the revoked promise that were not known to have read that last. They count while Facts.Unwitnessed is set.
	Unread []string

	// lease is the Lease as it was read or written last, or nil.
	lease *coordinationv1.Lease
	// failures counts the failures in succession, and failedToWrite is set if the last was one of a write.
	failures      int
	failedToWrite bool
}

// Observe reads the promise of a node that is not Ready, so that its clock counts from now.
func (a *Promises) Observe(ctx context.Context, node string) error {
	lease, err := a.Get(ctx, node)
	if apierrors.IsForbidden(err) {
		return nil // nodes are not set up to fence themselves
	}
	if lease == nil || err != nil {
		return err
	}
	if record, err := promiselease.Decode(lease); err == nil {
		a.observations.update(node, func(s selffence.Observation) selffence.Observation { return s.Observe(record.Lease, a.now()) })
	}
	return nil
}

// Drop forgets what was seen of a node, so that the clock of its promise counts anew.
func (a *Promises) Drop(node string) { a.observations.drop(node) }

// Get reads the Lease of a node, and returns nil if there is none.
func (a *Promises) Get(ctx context.Context, node string) (*coordinationv1.Lease, error) {
	var l coordinationv1.Lease
	err := a.api.Get(ctx, types.NamespacedName{Namespace: promiselease.Namespace, Name: node}, &l)
	if apierrors.IsNotFound(err) {
		return nil, nil //nolint:nilnil // there is none
	}
	if err != nil {
		return nil, fmt.Errorf("reading the Lease of node %s: %w", node, err)
	}
	return &l, nil
}

// Missing returns why the Lease of a node holds no promise.
func (a *Promises) Missing(ctx context.Context, node string) (fencednode.Problem, error) {
	_, found, err := a.missing(ctx, node)
	return found, err
}

// MissingTimed returns why no time proves of a node that it was reset.
func (a *Promises) MissingTimed(ctx context.Context, node string) (fencednode.Problem, error) {
	lease, found, err := a.missing(ctx, node)
	if found.Found() || err != nil || lease.Promise.Timed {
		return found, err
	}
	return fencednode.Problem{Reason: v1alpha1.CannotStartPromiseNotTimedReason, Message: "the promise of node " + node +
		" is not timed, so no time proves that the node was reset; see whether onIsolation of its FencePolicy is Reset and its agent has witnesses"}, nil
}

// missing returns what the Lease of a node says, or why it holds no promise.
func (a *Promises) missing(ctx context.Context, node string) (selffence.Lease, fencednode.Problem, error) {
	lease, err := a.Get(ctx, node)
	if err != nil {
		return selffence.Lease{}, fencednode.Problem{}, err
	}
	none := func(why string) (selffence.Lease, fencednode.Problem, error) {
		return selffence.Lease{}, fencednode.Problem{Reason: v1alpha1.CannotStartNoPromiseReason, Message: "node " + node + " has promised nothing: " + why}, nil
	}
	if lease == nil {
		return none("there is no Lease " + promiselease.Namespace + "/" + node + "; see whether a FencePolicy selects the node and its agent runs")
	}
	record, err := promiselease.Decode(lease)
	if err != nil {
		return none("Lease " + promiselease.Namespace + "/" + node + " can't be read (" + err.Error() + "); delete it, and the agent writes it anew")
	}
	if record.State == selffence.Withdrawn {
		return none("its agent has withdrawn the promise; see whether a FencePolicy selects the node and its agent runs")
	}
	return record.Lease, fencednode.Problem{}, nil
}

// Read reads a promise.
func (a *Promises) Read(ctx context.Context, p *Promise) {
	begun := a.now()
	lease, err := a.Get(ctx, p.Node)
	if err == nil {
		err = a.note(ctx, p, lease, begun)
	}
	a.noteFailure(p, err, false)
}

// noteFailure notes whether a read or a write of the Lease has failed. After a failure nothing is known of it. A read that succeeds does not
// make up for writes that fail.
func (a *Promises) noteFailure(p *Promise, err error, writes bool) {
	if err == nil {
		if writes || !p.failedToWrite {
			p.failures, p.failedToWrite = 0, false
		}
		return
	}
	p.failures, p.failedToWrite = p.failures+1, writes
	p.Failure = err
	p.Facts = fencing.Promise{RetryAt: a.now().Add(min(firstRetry<<min(p.failures-1, 10), mostRetry))}
	p.lease = nil
}

// note notes a Lease, or that there is none, as it was read or written by a call that began at an instant.
func (a *Promises) note(ctx context.Context, p *Promise, lease *coordinationv1.Lease, begun time.Time) error {
	ended := a.now()
	facts := fencing.Promise{Begun: begun, Ended: ended, State: fencing.NoPromise}
	if lease != nil {
		if record, err := promiselease.Decode(lease); err != nil {
			facts.State = fencing.PromiseUnknown
		} else if facts, err = a.factsOf(ctx, p, record.Lease, facts); err != nil {
			return err
		}
	}
	p.lease, p.Facts = lease, facts
	return nil
}

// factsOf adds to the facts of a promise what a Lease says.
func (a *Promises) factsOf(ctx context.Context, p *Promise, lease selffence.Lease, facts fencing.Promise) (fencing.Promise, error) {
	seen := a.observations.update(p.Node, func(s selffence.Observation) selffence.Observation { return s.Observe(lease, facts.Ended) })
	facts.Boot = lease.Promise.Boot
	switch {
	case lease.State == selffence.Promised:
		facts.State = fencing.Promised
	case lease.State != selffence.Condemned:
	case lease.By == string(p.By):
		seen, err := a.readWitnesses(ctx, p, seen)
		if err != nil {
			return facts, err
		}
		facts.State, facts.Unwitnessed = fencing.Revoked, seen.Unwitnessed()
		facts.Expires, _ = seen.Expiry(lease.By)
		facts.Expired = seen.Expired(lease.By, lease, facts.Begun)
	default:
		exists, err := a.exists(ctx, types.UID(lease.By))
		if err != nil {
			return facts, err
		}
		facts.State = fencing.RevokedByGone
		if exists {
			facts.State = fencing.RevokedByOther
		}
	}
	return facts, nil
}

// readWitnesses returns the observation of a condemned Lease once its witnesses were read, where its clock waits for them.
func (a *Promises) readWitnesses(ctx context.Context, p *Promise, seen selffence.Observation) (selffence.Observation, error) {
	if !seen.Unwitnessed() {
		return seen, nil
	}
	read := map[string]uint64{}
	for _, name := range seen.Lease.Promise.Witnesses {
		if name == "" {
			continue
		}
		of, err := a.Get(ctx, name)
		if err != nil {
			return seen, err
		}
		if of == nil {
			continue
		}
		if record, err := promiselease.Decode(of); err == nil {
			read[name] = record.HasRead()
		}
	}
	p.Unread = seen.Lease.Unread(read)
	now := a.now()
	return a.observations.update(p.Node, func(s selffence.Observation) selffence.Observation {
		if s.Lease != seen.Lease {
			return s // it is seen anew
		}
		return s.ReadWitnesses(read, now)
	}), nil
}

// Revoke condemns the node of a promise, if its Lease is as it was read.
func (a *Promises) Revoke(ctx context.Context, p *Promise) error {
	return a.write(ctx, p, func(lease *coordinationv1.Lease) (*coordinationv1.Lease, error) {
		return promiselease.Condemn(lease, string(p.By))
	})
}

// Free takes the condemnation of the node back, if its Lease is as it was read.
func (a *Promises) Free(ctx context.Context, p *Promise) error {
	return a.write(ctx, p, promiselease.Free)
}

func (a *Promises) write(ctx context.Context, p *Promise, change func(*coordinationv1.Lease) (*coordinationv1.Lease, error)) error {
	if p.lease == nil {
		return fmt.Errorf("the Lease of node %s was not read", p.Node)
	}
	changed, err := change(p.lease)
	if err != nil {
		return fmt.Errorf("changing the Lease of node %s: %w", p.Node, err)
	}
	replaced, begun := p.lease, a.now()
	err = a.api.Update(ctx, changed)
	switch {
	case apierrors.IsConflict(err), apierrors.IsNotFound(err):
		p.Facts, p.lease = fencing.Promise{}, nil // it is read again
		return nil
	case err != nil:
		a.noteFailure(p, fmt.Errorf("changing the Lease of node %s: %w", p.Node, err), true)
		return nil
	}
	a.noteWrite(p.Node, replaced, changed)
	a.noteFailure(p, a.note(ctx, p, changed, begun), true)
	return nil
}

// noteWrite has the clock of a revoked promise go on from when the grant was seen that the write has replaced.
func (a *Promises) noteWrite(node string, replaced, written *coordinationv1.Lease) {
	before, err := promiselease.Decode(replaced)
	if err != nil {
		return
	}
	after, err := promiselease.Decode(written)
	if err != nil || after.State != selffence.Condemned {
		return
	}
	a.observations.update(node, func(s selffence.Observation) selffence.Observation {
		if s.Lease != before.Lease {
			return s // it is seen anew
		}
		return s.Condemned(after.By, after.Revision)
	})
}
