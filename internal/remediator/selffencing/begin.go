package selffencing

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fettle-io/fettle/api/fettle/v1alpha1"
	"github.com/fettle-io/fettle/internal/fencing"
	"github.com/fettle-io/fettle/internal/promiselease"
	"github.com/fettle-io/fettle/internal/remediator/contract"
	"github.com/fettle-io/fettle/internal/remediator/fencednode"
	"github.com/fettle-io/fettle/internal/selffence"
)

// begin finds the node of a remediation that has not begun, and its promise.
func (c *Client) begin(ctx context.Context, l *look) (*look, error) {
	if contract.Succeeded(l.r.Status.Conditions) == metav1.ConditionFalse {
		return nil, nil //nolint:nilnil // it can't start, and has said so
	}
	if contract.Stopped(l.r) {
		return nil, c.refuse(ctx, l.r, problem{v1alpha1.RemediationStoppedReason, "the health checker has asked to stop"})
	}
	if found := notForNode(l.r); found.found() {
		return nil, c.refuse(ctx, l.r, found)
	}
	l.node = contract.NodeOf(l.r)
	begun := c.Now()
	n, found, err := c.identify(ctx, l)
	switch {
	case err != nil:
		return nil, errors.Join(err, c.publish(ctx, l, notRead, "node "+l.node+" or its Lease could not be read "+whyFailed(err)))
	case found.found():
		return nil, c.refuse(ctx, l.r, found)
	}
	l.s = c.sessions.of(l.key, l.r.UID, l.node)
	if other, held := c.fencedBy(ctx, l); held {
		c.remediations.AddAfter(l.key, lookEvery)
		return nil, c.publish(ctx, l, anotherRemediation, anotherMessage(other, l.node))
	}
	if err := c.setFinalizer(ctx, l); err != nil {
		return nil, err
	}
	l.record = recordOf(&l.r.Status)
	l.again(c.Now())
	l.knows(n, begun)
	return l, nil
}

// machineGroups are the API groups of machines.
var machineGroups = []string{"machine.openshift.io", "cluster.x-k8s.io"} //nolint:gochecknoglobals // a constant list

// clonedFromAnnotations are on each remediation that was made for a machine, by any health checker (docs/contract.md).
var clonedFromAnnotations = []string{"machine.openshift.io/cloned-from-name", "cluster.x-k8s.io/cloned-from-name"} //nolint:gochecknoglobals // a constant list

// notForNode returns why a remediation is for no node: it was made for a machine. The machine has the name that a user of its namespace has
// given to it, which may be that of any node.
func notForNode(r *v1alpha1.SelfFenceRemediation) problem {
	owned := slices.ContainsFunc(r.OwnerReferences, func(o metav1.OwnerReference) bool {
		return slices.Contains(machineGroups, schema.FromAPIVersionAndKind(o.APIVersion, o.Kind).Group) && o.Kind == "Machine"
	})
	made := slices.ContainsFunc(clonedFromAnnotations, func(key string) bool { _, set := r.Annotations[key]; return set })
	if !owned && !made {
		return problem{}
	}
	return problem{v1alpha1.CannotStartNodeNotFoundReason, "a SelfFenceRemediation is for a node, and this one was made for a machine; name its template in a NodeHealthCheck"}
}

// identify reads the node and the Lease of a remediation, or returns why it can't start.
func (c *Client) identify(ctx context.Context, l *look) (*corev1.Node, problem, error) {
	if wrong := validation.IsDNS1123Subdomain(l.node); len(wrong) > 0 {
		return nil, problem{v1alpha1.CannotStartNodeNotFoundReason, "no node can be called " + l.node + ": " + strings.Join(wrong, "; ")}, nil
	}
	n, err := c.nodes.Get(ctx, l.node)
	switch {
	case err != nil:
		return nil, problem{}, fmt.Errorf("finding its node: %w", err)
	case n == nil:
		return nil, problem{v1alpha1.CannotStartNodeNotFoundReason, "there is no node " + l.node}, nil
	case !n.CreationTimestamp.Time.Before(l.r.CreationTimestamp.Time):
		return nil, problem{v1alpha1.CannotStartNodeIsNewerReason, "node " + l.node + " is not older than this remediation, so it was not meant"}, nil
	}
	found, err := c.promiseProblem(ctx, l.node)
	return n, found, err
}

// promiseProblem returns why the Lease of a node holds no promise.
func (c *Client) promiseProblem(ctx context.Context, node string) (problem, error) {
	lease, err := c.getLease(ctx, node)
	if err != nil {
		return problem{}, err
	}
	none := func(why string) (problem, error) {
		return problem{v1alpha1.CannotStartNoPromiseReason, "node " + node + " has promised nothing: " + why}, nil
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
	return problem{}, nil
}

// fencedBy returns which other remediation fences the node of a look. It has begun and not ended, or it has claimed the node first.
func (c *Client) fencedBy(ctx context.Context, l *look) (fencednode.Holder, bool) {
	if other, fences := c.Fences(ctx, l.node); fences && other != l.holder() {
		return other, true
	}
	if c.OtherFences != nil {
		if other, fences := c.OtherFences(ctx, l.node); fences {
			return other, true
		}
	}
	holder := c.Claims.Claim(l.node, l.holder())
	return holder, holder != l.holder()
}

// Fences returns the remediation that has begun to fence a node and has not ended.
func (c *Client) Fences(ctx context.Context, node string) (fencednode.Holder, bool) {
	var all v1alpha1.SelfFenceRemediationList
	if err := c.Cache.List(ctx, &all, client.UnsafeDisableDeepCopy); err != nil {
		return fencednode.Holder{}, false
	}
	for i := range all.Items {
		r := &all.Items[i]
		phase := fencing.Phase(r.Status.Phase)
		if phase != "" && !phase.Final() && r.Status.Node != nil && r.Status.Node.Name == node {
			return holderOf(client.ObjectKeyFromObject(r)), true
		}
	}
	return fencednode.Holder{}, false
}
