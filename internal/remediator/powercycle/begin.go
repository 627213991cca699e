package powercycle

import (
	"context"
	"errors"
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fettle-io/fettle/api/fettle/annotation"
	"github.com/fettle-io/fettle/api/fettle/v1alpha1"
	"github.com/fettle-io/fettle/internal/remediator/contract"
	"github.com/fettle-io/fettle/internal/remediator/fencednode"
)

// begin finds the node and the BMC of a remediation that has not begun, and claims the node.
func (c *Client) begin(ctx context.Context, l *look) (*look, error) {
	if contract.Succeeded(l.r.Status.Conditions) == metav1.ConditionFalse {
		c.Metrics.wait(l.key, refusalOf(l.r))
		return nil, c.machines.Release(ctx, l.r) // it can't start, and has said so
	}
	if contract.Stopped(l.r) {
		return nil, c.refuse(ctx, l.r, problem{reason: v1alpha1.RemediationStoppedReason, message: "the health checker has asked to stop"})
	}
	if c.sessions.isBehind(l.key, l.r.UID) {
		c.remediations.AddAfter(l.key, lookEvery)
		return nil, nil //nolint:nilnil // it has said what it waits for, and the end of that wakes it
	}
	s, found, err := c.identify(ctx, l.r)
	if can, err := c.canGoOn(ctx, l, s, found, err); !can {
		return nil, err
	}
	l.node, l.bmc, l.machine, l.cluster = s.name, s.bmc, s.machine, s.cluster
	l.s = c.sessions.of(l.key, l.r.UID, l.claims())
	if other := c.fencedBy(ctx, l); other != holderOf(l.key) {
		return nil, c.standBy(ctx, l, problem{reason: anotherRemediation, message: other.String() + " fences node " + l.node + ", and this one waits until it has ended"})
	}
	found, err = c.readMember(ctx, l, &s)
	if can, err := c.canGoOn(ctx, l, s, found, err); !can {
		return nil, err
	}
	l.nodes = s.nodes
	if can, err := c.canRevoke(ctx, l, s); !can {
		return nil, err
	}
	return c.start(ctx, l, s)
}

// refusals are the reasons of remediations that can't start.
var refusals = [...]string{
	v1alpha1.CannotStartNoBMCReason, v1alpha1.CannotStartNoBareMetalHostReason, v1alpha1.CannotStartUnsuitableBareMetalHostReason,
	v1alpha1.CannotStartOtherSystemReason, v1alpha1.CannotStartAmbiguousBMCReason, v1alpha1.CannotStartFencedMeanwhileReason,
	v1alpha1.CannotStartNodeIsNewerReason, v1alpha1.CannotStartClusterNotFoundReason, v1alpha1.CannotStartNodeNotFoundReason,
	v1alpha1.CannotStartMachineNotFoundReason, v1alpha1.CannotStartNoPromiseReason, v1alpha1.CannotStartPromiseNotTimedReason,
	v1alpha1.CannotStartPowerRequiredReason, v1alpha1.CannotStartWorkloadClusterReason, v1alpha1.RemediationStoppedReason, statusInvalid,
}

// otherRefusal is the reason of a remediation that can't start for a reason which Fettle doesn't write.
const otherRefusal = "Other"

// refusalOf returns why a remediation can't start, as it was recorded. Others may have written that.
func refusalOf(r *v1alpha1.PowerRemediation) string {
	recorded := meta.FindStatusCondition(r.Status.Conditions, v1alpha1.SucceededCondition)
	if recorded == nil || !slices.Contains(refusals[:], recorded.Reason) {
		return otherRefusal
	}
	return recorded.Reason
}

// canGoOn reports whether a remediation can begin, as far as is known of its subject. If not, the remediation is refused or waits. It keeps
// the node that it has claimed while that can't be read: no other remediation could read it either.
func (c *Client) canGoOn(ctx context.Context, l *look, s subject, found problem, err error) (bool, error) {
	switch {
	case errors.Is(err, errNoRoom):
		c.remediations.AddAfter(l.key, lookAgain)
		return false, nil
	case err != nil:
		return false, errors.Join(err, c.publish(ctx, l, notRead, "the node or the machine of this remediation could not be read "+whyUnread(s, err)))
	case found.found():
		return false, c.refuse(ctx, l.r, found)
	case s.waits.found():
		return false, c.standBy(ctx, l, s.waits)
	}
	return true, nil
}

// start claims the machine of a remediation that can begin and has claimed its node, or waits for others that work on the host.
func (c *Client) start(ctx context.Context, l *look, s subject) (*look, error) {
	machine, err := c.machineNamedBy(ctx, l, s.node)
	if err != nil {
		return nil, errors.Join(err, c.publish(ctx, l, notRead, "the machine of this remediation could not be read "+whyFailed(err)))
	}
	if found := c.machines.TakenBy(ctx, l.r, machine, c.Works, c.OtherWorks); found.Found() {
		return nil, c.standBy(ctx, l, problemOf(found))
	}
	if (fencednode.HasWaited(&l.r.Status.FencingStatus, anotherRemediation) || fencednode.HasWaited(&l.r.Status.FencingStatus, fencednode.MachineMarked)) && s.node != nil && fencednode.IsReady(s.node) {
		return nil, c.refuse(ctx, l.r, problem{reason: v1alpha1.CannotStartFencedMeanwhileReason, message: "node " + l.node + " has become Ready while this remediation waited for another controller or remediation, so nothing is left to do"})
	}
	if found := c.pin(ctx, l); found.found() {
		return nil, c.refuseOrWait(ctx, l, found)
	}
	if err := c.machines.ReleaseOthers(ctx, l.r, machine); err != nil {
		return nil, err
	}
	if err := c.setFinalizer(ctx, l, machine); err != nil {
		return nil, err
	}
	if err := c.machines.Claim(ctx, l.r, machine); err != nil {
		return nil, err
	}
	c.sessions.keep(l.s, l.r)
	l.record = recordOf(&l.r.Status)
	l.again(c.Now())
	l.knows(s.node, s.readAt)
	return l, nil
}

// standBy has a remediation that has done nothing wait. It holds neither the node nor the machine meanwhile.
func (c *Client) standBy(ctx context.Context, l *look, why problem) error {
	c.wake(c.sessions.end(l.key))
	c.remediations.AddAfter(l.key, lookEvery)
	return errors.Join(c.machines.Release(ctx, l.r), c.publish(ctx, l, why.reason, why.message))
}

// setFinalizer sets the finalizer of a remediation, with the name of the machine that it is about to claim.
func (c *Client) setFinalizer(ctx context.Context, l *look, machine *unstructured.Unstructured) error {
	annotations := fencednode.ClaimOn(machine)
	if slices.Contains(l.r.Finalizers, annotation.PowerFinalizer) && l.r.Annotations[annotation.ClaimedMachine] == annotations[annotation.ClaimedMachine] {
		return nil
	}
	return c.setMetadata(ctx, l, fencednode.WithFinalizer(l.r, annotation.PowerFinalizer), annotations)
}

// fencedBy returns which remediation fences the node: the remediation that has begun and not ended, or the first to claim the node.
func (c *Client) fencedBy(ctx context.Context, l *look) fencednode.Holder {
	if holder, held := c.sessions.waitFor(l.claims(), l.key); held {
		return holder
	}
	var all v1alpha1.PowerRemediationList
	if err := c.Cache.List(ctx, &all, client.UnsafeDisableDeepCopy); err != nil {
		return fencednode.Holder{}
	}
	for i := range all.Items {
		r := &all.Items[i]
		if r.UID != l.r.UID && fencednode.Underway(&r.Status.FencingStatus) && claimOf(r) == l.claims() {
			c.sessions.wait(l.key)
			return holderOf(client.ObjectKeyFromObject(r))
		}
	}
	if c.OtherFences != nil && l.cluster.isHome() {
		if other, fences := c.OtherFences(ctx, l.node); fences {
			c.sessions.wait(l.key)
			return other
		}
	}
	return c.sessions.claim(l.claims(), l.key)
}

// Fences returns the remediation that has begun to fence a node of the cluster that Fettle runs in, and has not ended. Where the remediations
// can't be read, any of them may.
func (c *Client) Fences(ctx context.Context, node string) (fencednode.Holder, bool) {
	var all v1alpha1.PowerRemediationList
	if err := c.Cache.List(ctx, &all, client.UnsafeDisableDeepCopy); err != nil {
		return fencednode.Holder{Kind: Kind}, fencednode.MayExist(err)
	}
	for i := range all.Items {
		r := &all.Items[i]
		if fencednode.Underway(&r.Status.FencingStatus) && claimOf(r) == node {
			return holderOf(client.ObjectKeyFromObject(r)), true
		}
	}
	return fencednode.Holder{}, false
}

// claims returns the key of the node of a look. One remediation fences it at a time.
func (l *look) claims() string { return nodeKey(l.cluster.NamespacedName, l.node) }

// claimOf returns the key of the recorded node of a remediation, or an empty text.
func claimOf(r *v1alpha1.PowerRemediation) string {
	cluster, possible := clusterOf(r)
	if r.Status.Node == nil || !possible {
		return ""
	}
	return nodeKey(cluster.NamespacedName, r.Status.Node.Name)
}
