package powercycle

import (
	"context"
	"errors"
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fettle-io/fettle/api/fettle/annotation"
	"github.com/fettle-io/fettle/api/fettle/v1alpha1"
	"github.com/fettle-io/fettle/internal/fencing"
	"github.com/fettle-io/fettle/internal/remediator/contract"
	"github.com/fettle-io/fettle/internal/remediator/fencednode"
)

// begin finds the node and the BMC of a remediation that has not begun, and claims the node.
func (c *Client) begin(ctx context.Context, rec *reconciliation) (*reconciliation, error) {
	if contract.Succeeded(rec.r.Status.Conditions) == metav1.ConditionFalse {
		c.Metrics.wait(rec.key, refusalOf(rec.r))
		return nil, c.machines.Release(ctx, rec.r) // it can't start, and has said so
	}
	if contract.Stopped(rec.r) {
		return nil, c.refuse(ctx, rec.r, problem{reason: v1alpha1.RemediationStoppedReason, message: "the health checker has requested a stop"})
	}
	if c.sessions.isBehind(rec.key, rec.r.UID) {
		c.remediations.AddAfter(rec.key, requeueAfter)
		return nil, nil //nolint:nilnil // it has said what it waits for, and the end of that wakes it
	}
	s, found, err := c.identify(ctx, rec.r)
	if can, err := c.canGoOn(ctx, rec, s, found, err); !can {
		return nil, err
	}
	rec.node, rec.bmc, rec.machine, rec.cluster = s.name, s.bmc, s.machine, s.cluster
	rec.s = c.sessions.of(rec.key, rec.r.UID, rec.claims())
	if other := c.fencedBy(ctx, rec); other != holderOf(rec.key) {
		return nil, c.reportWaiting(ctx, rec, problemOf(other.WaitProblem(rec.node)))
	}
	found, err = c.readMember(ctx, rec, &s)
	if can, err := c.canGoOn(ctx, rec, s, found, err); !can {
		return nil, err
	}
	rec.nodes = s.nodes
	if can, err := c.canRevoke(ctx, rec, s); !can {
		return nil, err
	}
	return c.start(ctx, rec, s)
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
func (c *Client) canGoOn(ctx context.Context, rec *reconciliation, s subject, found problem, err error) (bool, error) {
	switch {
	case errors.Is(err, errNoRoom):
		c.remediations.AddAfter(rec.key, requeueAtLimit)
		return false, nil
	case err != nil:
		return false, errors.Join(err, c.publish(ctx, rec, notRead, "the node or the machine of this remediation could not be read "+whyUnread(s, err)))
	case found.found():
		return false, c.refuse(ctx, rec.r, found)
	case s.waits.found():
		return false, c.reportWaiting(ctx, rec, s.waits)
	}
	return true, nil
}

// start claims the machine of a remediation that can begin and has claimed its node, or waits for others that work on the host.
func (c *Client) start(ctx context.Context, rec *reconciliation, s subject) (*reconciliation, error) {
	machine, gone, err := c.machineToClaim(ctx, rec, s.node)
	switch {
	case err != nil:
		return nil, errors.Join(err, c.publish(ctx, rec, notRead, "the machine of this remediation could not be read "+whyFailed(err)))
	case gone.found():
		return nil, c.refuse(ctx, rec.r, gone)
	}
	if found := c.machines.TakenBy(ctx, rec.r, machine, c.Works, c.OtherWorks); found.Found() {
		rec.awaited = &v1alpha1.ObjectReference{Kind: fencednode.OpenShiftMachine.Kind, Namespace: machine.GetNamespace(), Name: machine.GetName(), UID: string(machine.GetUID())}
		return nil, c.reportWaiting(ctx, rec, problemOf(found))
	}
	if found := fencednode.ReadyWhileTaken(&rec.r.Status.FencingStatus, s.node); found.Found() {
		return nil, c.refuse(ctx, rec.r, problemOf(found))
	}
	if found := c.pin(ctx, rec); found.found() {
		return nil, c.refuseOrWait(ctx, rec, found)
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
	c.sessions.keep(rec.s, rec.r)
	rec.record = recordOf(&rec.r.Status)
	rec.resetFacts(c.Now())
	rec.knows(s.node, s.readAt)
	return rec, nil
}

// reportWaiting has a remediation that has done nothing wait. It holds neither the node nor the machine meanwhile. If the cache
// shows it as it was before it began, the API server refuses the wait, and the remediation keeps its machine.
func (c *Client) reportWaiting(ctx context.Context, rec *reconciliation, why problem) error {
	c.wake(c.sessions.end(rec.key))
	c.remediations.AddAfter(rec.key, requeueAfter)
	read := rec.r.ResourceVersion
	if err := c.publish(ctx, rec, why.reason, why.message); err != nil {
		return err
	}
	if rec.r.ResourceVersion == read && rec.r.Annotations[annotation.ClaimedMachine] != "" { // it says so already, also if it has begun since
		if err := c.replaceStatus(ctx, rec, &rec.r.Status); err != nil {
			return err
		}
	}
	return c.machines.Release(ctx, rec.r)
}

// setFinalizer sets the finalizer of a remediation, with the name of the machine that it is about to claim.
func (c *Client) setFinalizer(ctx context.Context, rec *reconciliation, machine *unstructured.Unstructured) error {
	annotations := fencednode.ClaimOn(machine)
	if slices.Contains(rec.r.Finalizers, annotation.PowerFinalizer) && rec.r.Annotations[annotation.ClaimedMachine] == annotations[annotation.ClaimedMachine] {
		return nil
	}
	return c.setMetadata(ctx, rec, fencednode.WithFinalizer(rec.r, annotation.PowerFinalizer), annotations)
}

// fencedBy returns which remediation fences the node: the remediation that has begun and not ended, or the first to claim the node.
func (c *Client) fencedBy(ctx context.Context, rec *reconciliation) fencednode.Holder {
	if holder, held := c.sessions.waitFor(rec.claims(), rec.key); held {
		return holder
	}
	var all v1alpha1.PowerRemediationList
	if err := c.Cache.List(ctx, &all, client.UnsafeDisableDeepCopy); err != nil {
		return fencednode.Holder{}
	}
	for i := range all.Items {
		r := &all.Items[i]
		if r.UID != rec.r.UID && fencednode.Underway(&r.Status.FencingStatus) && claimOf(r) == rec.claims() {
			c.sessions.wait(rec.key)
			return holderOf(client.ObjectKeyFromObject(r))
		}
	}
	if c.OtherFences != nil && rec.cluster.isHome() {
		if other, fences := c.OtherFences(ctx, rec.node); fences {
			c.sessions.wait(rec.key)
			return other
		}
	}
	return c.sessions.claim(rec.claims(), rec.key)
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

// Keeps reports whether a remediation has ended and keeps the taint on a node, by its key, until it is deleted. The remediation with a UID doesn't
// count. Where the remediations can't be read, one of them may.
func (c *Client) Keeps(ctx context.Context, node string, but types.UID) bool {
	var all v1alpha1.PowerRemediationList
	if err := c.Cache.List(ctx, &all, client.UnsafeDisableDeepCopy); err != nil {
		return fencednode.MayExist(err)
	}
	for i := range all.Items {
		if r := &all.Items[i]; r.UID != but && claimOf(r) == node && keepsTaint(&r.Status) {
			return true
		}
	}
	return false
}

// keepsTaint reports whether a remediation has ended and keeps its taint: a user has to inspect the host, or the host is to stay off.
func keepsTaint(s *v1alpha1.PowerRemediationStatus) bool {
	phase := fencing.Phase(s.Phase)
	return phase == fencing.Failed || phase == fencing.Succeeded && s.PoweredOff
}

// claims returns the key of the node of a reconcile. One remediation fences it at a time.
func (rec *reconciliation) claims() string { return nodeKey(rec.cluster.NamespacedName, rec.node) }

// claimOf returns the key of the recorded node of a remediation, or an empty text.
func claimOf(r *v1alpha1.PowerRemediation) string {
	cluster, possible := clusterOf(r)
	if r.Status.Node == nil || !possible {
		return ""
	}
	return nodeKey(cluster.NamespacedName, r.Status.Node.Name)
}
