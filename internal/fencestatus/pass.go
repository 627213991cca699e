package fencestatus

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fettle-io/fettle/api/fettle/v1alpha1"
	"github.com/fettle-io/fettle/internal/fencepolicy"
	"github.com/fettle-io/fettle/internal/promiselease"
	"github.com/fettle-io/fettle/internal/slim"
)

const (
	// pageSize and maxPages bound the list of Leases.
	pageSize = 500
	maxPages = 100
	// withoutPolicies is the time from a pass to the next one while there is no policy. A new one wakes the client.
	withoutPolicies = 10 * time.Minute
)

// pass writes the status of each policy that has changed, and returns the time until the next pass. Without a policy it reads nothing.
func (c *Client) pass(ctx context.Context) (time.Duration, error) {
	var policies v1alpha1.FencePolicyList
	if err := c.Cache.List(ctx, &policies); err != nil {
		return 0, fmt.Errorf("listing FencePolicies: %w", err)
	}
	if len(policies.Items) == 0 {
		c.Metrics.report(nil, nil)
		return withoutPolicies, nil
	}
	facts, err := c.facts(ctx, policies.Items)
	if err != nil {
		return 0, err
	}
	verdicts, now := fencepolicy.Judge(facts), c.Now()
	c.Metrics.report(verdicts, condemned(facts.Leases))
	var errs []error
	for i := range policies.Items {
		p := &policies.Items[i]
		errs = append(errs, c.write(ctx, p, verdicts[p.Name].Status(p, now)))
	}
	return pause(len(facts.Leases)), errors.Join(errs...)
}

// facts reads the nodes and their Leases.
func (c *Client) facts(ctx context.Context, policies []v1alpha1.FencePolicy) (fencepolicy.Facts, error) {
	var list slim.NodeList
	if err := c.Cache.List(ctx, &list, client.UnsafeDisableDeepCopy); err != nil {
		return fencepolicy.Facts{}, fmt.Errorf("listing nodes: %w", err)
	}
	nodes := make([]fencepolicy.Node, 0, len(list.Items))
	for i := range list.Items {
		n := &list.Items[i]
		nodes = append(nodes, fencepolicy.Node{Name: n.Name, Labels: n.Meta.Labels, Boot: n.BootID.String()})
	}
	leases, err := c.leases(ctx)
	f := fencepolicy.Facts{Policies: policies, Nodes: nodes, Leases: leases}
	if apierrors.IsForbidden(err) {
		f.Unread, err = err, nil // nodes are not set up to fence themselves
	}
	return f, err
}

var errTooMany = errors.New("there are more Leases than are read")

// leases reads what the Leases of all nodes say.
func (c *Client) leases(ctx context.Context) (map[string]*fencepolicy.Lease, error) {
	leases := map[string]*fencepolicy.Lease{}
	next := ""
	for range maxPages {
		var page coordinationv1.LeaseList
		err := c.Leases.List(ctx, &page, client.InNamespace(promiselease.Namespace), client.Limit(pageSize), client.Continue(next))
		if err != nil {
			return nil, fmt.Errorf("listing the Leases of nodes: %w", err)
		}
		for i := range page.Items {
			leases[page.Items[i].Name] = fencepolicy.Read(&page.Items[i])
		}
		if next = page.Continue; next == "" {
			return leases, nil
		}
	}
	return nil, errTooMany
}

// condemned returns the nodes that are condemned, in order.
func condemned(leases map[string]*fencepolicy.Lease) []string {
	var nodes []string
	for name, l := range leases {
		if l.Condemns() {
			nodes = append(nodes, name)
		}
	}
	slices.Sort(nodes)
	return nodes
}

// write writes the status of a policy, if it has changed.
func (c *Client) write(ctx context.Context, p *v1alpha1.FencePolicy, status v1alpha1.FencePolicyStatus) error {
	if equality.Semantic.DeepEqual(p.Status, status) {
		return nil
	}
	changed := p.DeepCopy()
	changed.Status = status
	err := c.Writer.Status().Patch(ctx, changed, client.MergeFrom(p))
	if err = client.IgnoreNotFound(err); err != nil {
		return fmt.Errorf("writing the status of FencePolicy %s: %w", p.Name, err)
	}
	return nil
}
