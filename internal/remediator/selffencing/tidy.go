package selffencing

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fettle-io/fettle/internal/promiselease"
	"github.com/fettle-io/fettle/internal/selffence"
)

// A Lease outlives the remediation that has condemned it where the remediation was removed by force. It also does where the Lease could not be
// written at the end. The agent of its node could promise nothing then. So Fettle lists all Leases when it begins to lead, and every tidyEvery
// from then on. It reads the Lease of a node whenever a remediation of the node is gone.

const (
	tidyEvery = 10 * time.Minute
	// tidySoon is the pause after a round that has left something to do.
	tidySoon = 30 * time.Second
	// pageSize and maxPages bound the list of Leases.
	pageSize = 500
	maxPages = 100
	// mostTidied bounds the changes of one round.
	mostTidied = 100
	// allNodes is the key of a round through all Leases.
	allNodes = ""
)

// tidied is a Lease to read, and its content.
type tidied struct {
	*coordinationv1.Lease

	says selffence.Lease
}

// tidy reads the Lease of one node, or at all, and frees or deletes what belongs to no remediation.
func (c *Client) tidy(ctx context.Context, node string) error {
	if node == allNodes {
		c.tidying.AddAfter(allNodes, tidyEvery) // also where this round fails
		return c.tidyAll(ctx)
	}
	lease, err := c.Promises.Get(ctx, node)
	if lease == nil {
		return ignoreForbidden(err)
	}
	return c.tidyLeases(ctx, undertaken(nil, lease), nil)
}

// undertaken appends a Lease to a list, unless it promises something or says nothing.
func undertaken(all []tidied, l *coordinationv1.Lease) []tidied {
	record, err := promiselease.Decode(l)
	if err != nil || record.State == selffence.Promised {
		return all
	}
	return append(all, tidied{l, record.Lease})
}

// ignoreForbidden returns no error where nodes are not set up to fence themselves.
func ignoreForbidden(err error) error {
	if apierrors.IsForbidden(err) {
		return nil
	}
	return err
}

// mayList reports whether Fettle may list the Leases of nodes. Every user may ask that.
func (c *Client) mayList(ctx context.Context) (bool, error) {
	r := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &authorizationv1.ResourceAttributes{
		Group: coordinationv1.GroupName, Resource: "leases", Verb: "list", Namespace: promiselease.Namespace,
	}}}
	if err := c.Core.Create(ctx, r); err != nil {
		return false, fmt.Errorf("asking for the right to list the Leases of nodes: %w", err)
	}
	return r.Status.Allowed, nil
}

// tidyAll does nothing where nodes are not set up to fence themselves.
func (c *Client) tidyAll(ctx context.Context) error {
	if may, err := c.mayList(ctx); !may {
		return err
	}
	var all []tidied
	next := ""
	for range maxPages {
		var page coordinationv1.LeaseList
		if err := c.Core.List(ctx, &page, client.InNamespace(promiselease.Namespace), client.Limit(pageSize), client.Continue(next)); err != nil {
			return fmt.Errorf("listing the Leases of nodes: %w", err)
		}
		for i := range page.Items {
			all = undertaken(all, page.Items[i].DeepCopy())
		}
		if next = page.Continue; next == "" {
			break
		}
	}
	names := make([]string, len(all))
	for i, l := range all {
		names[i] = l.Name
	}
	return c.tidyLeases(ctx, all, c.present.goneFor(names, c.Now()))
}

// tidyLeases changes Leases that belongs to no remediation. Gone has for how long nodes have been known not to exist.
func (c *Client) tidyLeases(ctx context.Context, all []tidied, gone map[string]time.Duration) error {
	condemners, err := c.condemners(ctx, all)
	if err != nil {
		return err
	}
	changes := 0
	var failed []error
	for _, l := range all {
		facts := selffence.TidyFacts{Condemner: condemners(l.says.By), NodeGone: gone[l.Name]}
		what := l.says.Tidy(facts)
		if what == selffence.LeaveLease {
			continue
		}
		if changes == mostTidied {
			c.tidying.AddAfter(allNodes, tidySoon)
			break
		}
		changes++
		failed = append(failed, c.tidyLease(ctx, l, what))
	}
	return errors.Join(failed...)
}

// tidyLease frees or deletes a Lease, if it is as it was read.
func (c *Client) tidyLease(ctx context.Context, l tidied, what selffence.Tidying) error {
	var err error
	if what == selffence.FreeLease {
		err = c.freeLease(ctx, l)
	} else {
		err = c.deleteLease(ctx, l)
	}
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		return nil // the next round reads it again
	}
	return err
}

func (c *Client) freeLease(ctx context.Context, l tidied) error {
	freed, err := promiselease.Free(l.Lease)
	if err != nil {
		return fmt.Errorf("freeing the Lease of node %s: %w", l.Name, err)
	}
	if err := c.Core.Update(ctx, freed); err != nil {
		return fmt.Errorf("freeing the Lease of node %s: %w", l.Name, err)
	}
	c.Log.Info("a Lease was freed, since the remediation that had condemned it is gone", "node", l.Name, "remediation", l.says.By)
	return nil
}

// deleteLease deletes a Lease whose node does not exist.
func (c *Client) deleteLease(ctx context.Context, l tidied) error {
	if n, err := c.nodes.Get(ctx, l.Name); n != nil || err != nil {
		return err
	}
	uid, revision := l.UID, l.ResourceVersion
	if err := c.Core.Delete(ctx, l.Lease, client.Preconditions{UID: &uid, ResourceVersion: &revision}); err != nil {
		return fmt.Errorf("deleting the Lease of node %s: %w", l.Name, err)
	}
	c.Log.Info("a Lease was deleted, since its node is gone and it promises nothing", "node", l.Name)
	return nil
}

// condemners returns which of the remediations exist that have condemned Leases.
func (c *Client) condemners(ctx context.Context, all []tidied) (func(uid string) selffence.Existence, error) {
	condemned := false
	for _, l := range all {
		condemned = condemned || l.says.State == selffence.Condemned
	}
	if !condemned {
		return func(string) selffence.Existence { return selffence.ExistenceUnknown }, nil
	}
	exist, complete, err := c.Promises.Condemners(ctx)
	if err != nil {
		return nil, err
	}
	return func(uid string) selffence.Existence {
		switch {
		case exist[types.UID(uid)]:
			return selffence.Exists
		case !complete:
			return selffence.ExistenceUnknown
		}
		return selffence.Gone
	}, nil
}

// presence has which nodes exist, as the watch has shown it. Of nodes with a Lease that are known not to exist, it has since when. It is safe
// for concurrent use.
type presence struct {
	mu    sync.Mutex
	exist map[string]struct{}
	since map[string]time.Time
}

func newPresence() *presence { return &presence{exist: map[string]struct{}{}} }

// exists notes that a node exists.
func (p *presence) exists(node string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.exist[node] = struct{}{}
	delete(p.since, node)
}

// ends notes that a node is gone.
func (p *presence) ends(node string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.exist, node)
}

// goneFor returns for how long nodes have been known not to exist. It forgets all others.
func (p *presence) goneFor(nodes []string, now time.Time) map[string]time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	since, gone := map[string]time.Time{}, map[string]time.Duration{}
	for _, node := range nodes {
		if _, is := p.exist[node]; is {
			continue
		}
		at, known := p.since[node]
		if !known {
			at = now
		}
		since[node], gone[node] = at, now.Sub(at)
	}
	p.since = since
	return gone
}
