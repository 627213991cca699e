package powercycle

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fettle-io/fettle/api/fettle/v1alpha1"
	"github.com/fettle-io/fettle/internal/fencing"
	"github.com/fettle-io/fettle/internal/remediator/fencednode"
)

// machineNamedBy returns the machine that the node of a reconcile names, or nil. The machine may have another node. A node of a workload
// cluster names none: its annotations are those of another administrator.
func (c *Client) machineNamedBy(ctx context.Context, rec *reconciliation, node *corev1.Node) (*unstructured.Unstructured, error) {
	if !rec.cluster.isHome() {
		return nil, nil //nolint:nilnil // there is none
	}
	return c.machines.NamedBy(ctx, node)
}

// machineToClaim returns the machine that the node of a reconcile names, or nil. Where the node is gone, it is the machine that the remediation has
// waited for: the machine controller of the platform deletes the node while the host is off, and goes on with the host.
func (c *Client) machineToClaim(ctx context.Context, rec *reconciliation, node *corev1.Node) (*unstructured.Unstructured, problem, error) {
	awaited := rec.r.Status.Machine
	if node != nil || awaited == nil {
		m, err := c.machineNamedBy(ctx, rec, node)
		return m, problem{}, err
	}
	key := types.NamespacedName{Namespace: awaited.Namespace, Name: awaited.Name}
	m, err := c.machines.Get(ctx, key)
	if err == nil && (m == nil || string(m.GetUID()) != awaited.UID) {
		return nil, problem{reason: v1alpha1.CannotStartMachineNotFoundReason, message: "machine " + key.String() + ", for which this remediation has waited, is gone, and so is its node"}, nil
	}
	return m, problem{}, err
}

// Works returns the node on which the remediation with a name and a UID works, if it has begun and not ended.
func (c *Client) Works(ctx context.Context, key types.NamespacedName, uid types.UID) (fencednode.Holder, string, bool) {
	var r v1alpha1.PowerRemediation
	if err := c.Cache.Get(ctx, key, &r); err != nil {
		return holderOf(key), "", fencednode.MayExist(err)
	}
	node, works := fencednode.WorksOn(&r, &r.Status.FencingStatus, uid)
	return holderOf(key), node, works
}

// isDone reports whether a remediation has ended, and commands the power of the host no more. A failed remediation keeps its claim,
// since a user has to inspect the host. It gives the claim back if it has failed before it did anything.
func isDone(s *v1alpha1.PowerRemediationStatus) bool {
	switch fencing.Phase(s.Phase) { //nolint:exhaustive // the others don't end a remediation
	case fencing.Succeeded, fencing.Aborted:
		return !s.PoweredOff
	case fencing.Failed:
		return s.Reason == string(fencing.NodeReplaced)
	}
	return false
}
