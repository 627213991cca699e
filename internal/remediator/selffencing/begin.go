package selffencing

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fettle-io/fettle/api/fettle/v1alpha1"
	"github.com/fettle-io/fettle/internal/fencing"
	"github.com/fettle-io/fettle/internal/remediator/contract"
	"github.com/fettle-io/fettle/internal/remediator/fencednode"
	"github.com/fettle-io/fettle/internal/remediator/nodepromise"
)

// begin finds the node of a remediation that has not begun, its promise and its machine, and claims both.
func (c *Client) begin(ctx context.Context, rec *reconciliation) (*reconciliation, error) {
	if contract.Succeeded(rec.r.Status.Conditions) == metav1.ConditionFalse {
		return nil, c.machines.Release(ctx, rec.r) // it can't start, and has said so
	}
	if contract.Stopped(rec.r) {
		return nil, c.refuse(ctx, rec.r, problem{Reason: v1alpha1.RemediationStoppedReason, Message: "the health checker has requested a stop"})
	}
	begun := c.Now()
	n, found, err := c.identify(ctx, rec)
	switch {
	case err != nil:
		return nil, errors.Join(err, c.publish(ctx, rec, notRead, "the node of this remediation, its machine or its Lease could not be read "+nodepromise.WhyFailed(err)))
	case found.Found():
		return nil, c.refuse(ctx, rec.r, found)
	}
	if may, err := c.mayFence(ctx, rec, n); !may {
		return nil, err
	}
	rec.s = c.sessions.of(rec.key, rec.r.UID, rec.node)
	if other, held := c.fencedBy(ctx, rec); held {
		return nil, c.reportWaiting(ctx, rec, other.WaitProblem(rec.node))
	}
	return c.start(ctx, rec, n, begun)
}

// mayFence reports whether the promise of a node suffices to fence it, by its FencePolicy. If not, the remediation is refused or waits.
func (c *Client) mayFence(ctx context.Context, rec *reconciliation, n *corev1.Node) (bool, error) {
	policy, unknown, err := nodepromise.RequiresBoth(ctx, c.Cache, n)
	switch {
	case err != nil:
		return false, errors.Join(err, c.publish(ctx, rec, notRead, "the FencePolicies could not be read "+nodepromise.WhyFailed(err)))
	case unknown.Found():
		return false, c.reportWaiting(ctx, rec, unknown)
	case policy != "":
		return false, c.refuse(ctx, rec.r, problem{Reason: v1alpha1.CannotStartPowerRequiredReason, Message: "FencePolicy " + policy + " requires both power and promise of node " + rec.node + ", and only a PowerRemediation proves both"})
	}
	if found := nodepromise.ReadyMeanwhile(&rec.r.Status.FencingStatus, n); found.Found() {
		return false, c.refuse(ctx, rec.r, found)
	}
	return true, nil
}

// start claims the machine of a remediation that can begin and has claimed its node, or waits for others that work on the host.
func (c *Client) start(ctx context.Context, rec *reconciliation, n *corev1.Node, begun time.Time) (*reconciliation, error) {
	machine, err := c.machines.NamedBy(ctx, n)
	if err != nil {
		return nil, errors.Join(err, c.publish(ctx, rec, notRead, "the machine of node "+rec.node+" could not be read "+nodepromise.WhyFailed(err)))
	}
	if found := c.machines.TakenBy(ctx, rec.r, machine, c.Works, c.OtherWorks); found.Found() {
		return nil, c.reportWaiting(ctx, rec, found)
	}
	if found := fencednode.ReadyWhileTaken(&rec.r.Status.FencingStatus, n); found.Found() {
		return nil, c.refuse(ctx, rec.r, found)
	}
	if err := c.machines.ReleaseOthers(ctx, rec.r, machine); err != nil {
		return nil, err
	}
	if err := c.setFinalizer(ctx, rec, machine); err != nil {
		return nil, err
	}
	if err := c.machines.Claim(ctx, rec.r, machine); err != nil {
		return nil, err
	}
	rec.record = recordOf(&rec.r.Status)
	rec.resetFacts(c.Now())
	rec.knows(n, begun)
	return rec, nil
}

// reportWaiting has a remediation that has done nothing wait. It holds neither the node nor the machine meanwhile.
func (c *Client) reportWaiting(ctx context.Context, rec *reconciliation, why problem) error {
	c.Claims.Release(rec.holder())
	c.remediations.AddAfter(rec.key, requeueAfter)
	return errors.Join(c.machines.Release(ctx, rec.r), c.publish(ctx, rec, why.Reason, why.Message))
}

// clusterAPIMachine is the kind of machines whose nodes are in workload clusters.
var clusterAPIMachine = schema.GroupKind{Group: "cluster.x-k8s.io", Kind: "Machine"} //nolint:gochecknoglobals // a constant

// identify finds the node of a remediation and reads it and its Lease, or returns why the remediation can't start.
func (c *Client) identify(ctx context.Context, rec *reconciliation) (*corev1.Node, problem, error) {
	if contract.IsForMachine(rec.r, clusterAPIMachine) {
		return nil, problem{
			Reason:  v1alpha1.CannotStartWorkloadClusterReason,
			Message: "this remediation was made for a machine of Cluster API, whose node promises something to the Fettle of its own cluster alone; install Fettle there, with a NodeHealthCheck",
		}, nil
	}
	if found := fencednode.OrphanMismatch(rec.r); found.Found() {
		return nil, found, nil
	}
	name, found, err := c.machines.NodeNameOf(ctx, rec.r)
	if err != nil || found.Found() {
		return nil, found, err
	}
	rec.node = name
	if wrong := validation.IsDNS1123Subdomain(name); len(wrong) > 0 {
		return nil, problem{Reason: v1alpha1.CannotStartNodeNotFoundReason, Message: "no node can be called " + name + ": " + strings.Join(wrong, "; ")}, nil
	}
	n, err := c.nodes.Get(ctx, name)
	switch {
	case err != nil:
		return nil, problem{}, fmt.Errorf("finding its node: %w", err)
	case n == nil:
		return nil, problem{Reason: v1alpha1.CannotStartNodeNotFoundReason, Message: "there is no node " + name}, nil
	case !n.CreationTimestamp.Time.Before(rec.r.CreationTimestamp.Time):
		return nil, problem{Reason: v1alpha1.CannotStartNodeIsNewerReason, Message: "node " + name + " is not older than this remediation, so it was not meant"}, nil
	}
	if found := fencednode.MachineMismatch(rec.r, name, n); found.Found() {
		return nil, found, nil
	}
	found, err = c.Promises.Missing(ctx, name)
	return n, found, err
}

// fencedBy returns which other remediation fences the node of a reconcile. It has begun and not ended, or it has claimed the node first.
func (c *Client) fencedBy(ctx context.Context, rec *reconciliation) (fencednode.Holder, bool) {
	if other, fences := c.Fences(ctx, rec.node); fences && other != rec.holder() {
		return other, true
	}
	if c.OtherFences != nil {
		if other, fences := c.OtherFences(ctx, rec.node); fences {
			return other, true
		}
	}
	holder := c.Claims.Claim(rec.node, rec.holder())
	return holder, holder != rec.holder()
}

// Fences returns the remediation that has begun to fence a node and has not ended. While remediations can't be read, one of them may.
func (c *Client) Fences(ctx context.Context, node string) (fencednode.Holder, bool) {
	var all v1alpha1.SelfFenceRemediationList
	if err := c.Cache.List(ctx, &all, client.UnsafeDisableDeepCopy); err != nil {
		return fencednode.Holder{Kind: Kind}, fencednode.MayExist(err)
	}
	for i := range all.Items {
		r := &all.Items[i]
		if fencednode.Underway(&r.Status.FencingStatus) && r.Status.Node != nil && r.Status.Node.Name == node {
			return holderOf(client.ObjectKeyFromObject(r)), true
		}
	}
	return fencednode.Holder{}, false
}

// Keeps reports whether a remediation has failed and keeps the taint on a node until it is deleted. The remediation with a UID doesn't count. While
// remediations can't be read, one of them may.
func (c *Client) Keeps(ctx context.Context, node string, but types.UID) bool {
	var all v1alpha1.SelfFenceRemediationList
	if err := c.Cache.List(ctx, &all, client.UnsafeDisableDeepCopy); err != nil {
		return fencednode.MayExist(err)
	}
	for i := range all.Items {
		r := &all.Items[i]
		if failed := fencing.Phase(r.Status.Phase) == fencing.Failed; failed && r.UID != but && r.Status.Node != nil && r.Status.Node.Name == node {
			return true
		}
	}
	return false
}

// Works returns the node on which the remediation with a name and a UID works, if it has begun and not ended.
func (c *Client) Works(ctx context.Context, key types.NamespacedName, uid types.UID) (fencednode.Holder, string, bool) {
	var r v1alpha1.SelfFenceRemediation
	if err := c.Cache.Get(ctx, key, &r); err != nil {
		return holderOf(key), "", fencednode.MayExist(err)
	}
	node, works := fencednode.WorksOn(&r, &r.Status.FencingStatus, uid)
	return holderOf(key), node, works
}
