package powercycle

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fettle-io/fettle/api/fettle/annotation"
	"github.com/fettle-io/fettle/api/fettle/v1alpha1"
	"github.com/fettle-io/fettle/internal/baremetalhost"
	"github.com/fettle-io/fettle/internal/fencing"
	"github.com/fettle-io/fettle/internal/remediator/contract"
	"github.com/fettle-io/fettle/internal/remediator/fencednode"
)

const (
	// mostConflicts is how many changes in succession may meet a node that has changed.
	mostConflicts = 5
	// mostSteps is above the number of steps that a reconcile takes.
	mostSteps = 100
	// requeueAfter is the pause after which a remediation is reconciled again while nothing wakes it.
	requeueAfter = 10 * time.Second
	// requeueReleased is the longest pause between two reads of a node of a workload cluster while its workload is released. No watch shows that it is Ready.
	requeueReleased = 5 * time.Second
	// firstRetry and mostRetry bound the pauses after a failed operation of a BMC.
	firstRetry = 2 * time.Second
	mostRetry  = 30 * time.Second
)

// reconciliation is the state of one reconcile of a remediation: the facts, and what its steps have read and written.
type reconciliation struct {
	key  types.NamespacedName
	r    *v1alpha1.PowerRemediation
	s    *session
	node string
	// cluster and nodes are those of a workload cluster. They are zero for the cluster that Fettle runs in.
	cluster fencedCluster
	nodes   *fencednode.Nodes
	bmc     *v1alpha1.BMC // nil if there is none to use, and then bmcProblem says why
	// bmcProblem is why no BMC can be used.
	bmcProblem problem
	// metal is the BareMetalHost that the BMC names, or zero. It is the recorded one, and unnamed is set, where no BMC names it any more.
	metal   baremetalhost.Identity
	unnamed bool

	config fencing.Config
	record fencing.Record
	facts  fencing.Facts
	// unread is why the node or its workload could not be read last.
	unread error
	// raw is the node as facts.Node has it, or nil, and wakes how often it had changed before that.
	raw   *corev1.Node
	wakes int
	// refused counts the changes in succession that did not come about.
	refused int
	// machine is recorded with the first record, and awaited before that if others work on the host of that machine.
	machine, awaited *v1alpha1.ObjectReference
	// slot is what lets this reconcile send requests to the API server, and notes emit the events of the reconcile.
	slot  apiSlot
	notes []func()
}

// end emits the events of a reconcile, which can wait, and frees its slot.
func (rec *reconciliation) end(ctx context.Context) {
	defer rec.slot.release()
	if len(rec.notes) == 0 {
		return
	}
	rec.slot.acquire(ctx, false) // where the context ends, they are emitted at once
	for _, note := range rec.notes {
		note()
	}
}

// reconcile takes all steps of a remediation that can be taken now.
func (c *Client) reconcile(ctx context.Context, key types.NamespacedName) error {
	begun := &reconciliation{key: key, slot: apiSlot{of: c.apiSlots}}
	defer begun.end(ctx)
	if !begun.slot.acquire(ctx, c.sessions.isUrgent(key)) {
		return fmt.Errorf("waiting for other remediations: %w", ctx.Err())
	}
	rec, err := c.open(ctx, begun)
	if rec == nil || err != nil {
		return err
	}
	for range mostSteps {
		c.refresh(ctx, rec)
		if over, err := c.take(ctx, rec, fencing.Next(rec.config, rec.s.phaseStart.Record(rec.record), rec.facts)); over || err != nil {
			return err
		}
	}
	c.remediations.AddAfter(key, firstRetry)
	return nil
}

// open reads the remediation of a reconcile and returns the reconcile, or nil if there is nothing to do.
func (c *Client) open(ctx context.Context, rec *reconciliation) (*reconciliation, error) {
	r, err := c.current(ctx, rec.key)
	if r == nil {
		return nil, err
	}
	rec.r, rec.config = r, configOf(&r.Spec)
	deleting := !r.DeletionTimestamp.IsZero()
	phase := r.Status.Phase
	if known(phase) {
		c.Metrics.setPhase(r, c.Now())
	}
	cluster, possible := clusterOf(r)
	rec.cluster = cluster
	switch readable := known(phase) && (phase == "" || r.Status.Node != nil) && possible; {
	case !readable && deleting:
		c.emit(r, corev1.EventTypeWarning, statusInvalid, "status.phase is "+phase+", or status.node is missing, so nothing is taken back; look at the node and its host")
		return nil, c.dropFinalizer(ctx, rec)
	case !readable:
		return nil, c.refuse(ctx, r, problem{reason: statusInvalid, message: "status.phase is " + phase + ", or status.node is missing, which Fettle doesn't write; delete the remediation"})
	case phase == "" && deleting:
		return nil, c.dropFinalizer(ctx, rec)
	case phase == "":
		return c.begin(ctx, rec)
	}
	return c.resume(ctx, rec)
}

// knows has a reconcile go on from a node that was read or written before.
func (rec *reconciliation) knows(n *corev1.Node, readAt time.Time) {
	rec.raw, rec.facts.Node = n, factsOf(rec.r, n)
	rec.facts.Node.ReadAt = readAt
}

// resume goes on from the record of a remediation that has begun. After its end, with something left to take back, it waits for a remediation
// that has not.
func (c *Client) resume(ctx context.Context, rec *reconciliation) (*reconciliation, error) {
	rec.node = rec.r.Status.Node.Name
	if !rec.cluster.isHome() {
		if entered, err := c.reenter(ctx, rec); !entered {
			return nil, err
		}
	}
	rec.s = c.sessions.of(rec.key, rec.r.UID, rec.claims())
	var holder fencednode.Holder
	if fencing.Phase(rec.r.Status.Phase).Final() {
		holder = c.fencedBy(ctx, rec)
	} else {
		holder = c.sessions.claim(rec.claims(), rec.key)
	}
	if holder != holderOf(rec.key) {
		c.remediations.AddAfter(rec.key, requeueAfter)
		waits := holder.WaitProblem(rec.node)
		return nil, c.publish(ctx, rec, waits.Reason, waits.Message)
	}
	c.sessions.keep(rec.s, rec.r)
	rec.bmc, rec.bmcProblem = c.bmcs.find(rec.claims())
	if found := c.pin(ctx, rec); found.found() {
		rec.bmc, rec.bmcProblem = nil, found
	}
	rec.record = recordOf(&rec.r.Status)
	rec.resetFacts(c.Now())
	return rec, c.leaveFormerHosts(ctx, rec)
}

// resetFacts drops the facts after something was written: an earlier read is too old to release a node.
func (rec *reconciliation) resetFacts(now time.Time) {
	rec.facts = fencing.Facts{Begun: now}
	rec.raw = nil
}

// refresh brings the facts up to now.
func (c *Client) refresh(ctx context.Context, rec *reconciliation) {
	rec.facts.Now = c.Now()
	rec.s.phaseStart = rec.s.phaseStart.At(rec.record.Since, rec.facts.Now)
	rec.facts.Deleting = !rec.r.DeletionTimestamp.IsZero()
	rec.facts.Stopped = contract.Stopped(rec.r)
	rec.useRecordedHost()
	current := rec.fencingBMC()
	if rec.s.bmc != current { // what is known of the power is of another host
		rec.s.bmc, rec.s.power, rec.s.failures, rec.s.failure = current, fencing.Power{}, 0, problem{}
	}
	if rec.bmc == nil {
		rec.s.failure = rec.bmcProblem
		rec.s.power.RetryAt = rec.facts.Now.Add(requeueAfter)
	}
	recorded := rec.r.Status.BMC
	rec.facts.HostChanged = rec.bmc != nil && recorded != nil && *recorded != current
	rec.facts.Power, rec.facts.Promise = rec.s.power, rec.s.promise.Facts
	rec.config.Both = c.requiresBoth(ctx, rec)
	rec.record = recoverRecord(&rec.r.Status, rec.record, rec.config)
	if recorded == nil || recorded.HostUID == "" {
		rec.facts.Power.Left = true // nothing but an annotation of a BareMetalHost keeps a host off
	}
	if !rec.powersOn() || rec.facts.Now.Before(rec.s.power.RetryAt) {
		c.turns.drop(rec.key)
	}
	rec.facts.PowerOnTurn = rec.s.turn
	rec.facts.ChangeFailed = rec.s.changeFailed
}

// powersOn reports whether the host of a reconcile waits for turns of its domain.
func (rec *reconciliation) powersOn() bool {
	powersOn := rec.record.Phase == fencing.PoweringOn || rec.record.Phase == fencing.Aborting && rec.record.PoweredOff
	return powersOn && rec.bmc != nil && rec.bmc.Spec.Domain != ""
}

// isElsewhere reports whether a step sends requests to a BMC or a workload cluster. Neither may answer for long, so that such a step keeps no slot.
// The same is true of a BareMetalHost, since the API server may call a webhook of Metal3 first.
func (rec *reconciliation) isElsewhere(kind fencing.StepKind) bool {
	switch kind {
	case fencing.ReadPower, fencing.CommandOff, fencing.CommandOn, fencing.LeaveHost:
		return true
	case fencing.ReadNode, fencing.CountWorkload, fencing.TaintNode, fencing.SetOutOfService, fencing.RemoveNode,
		fencing.RemoveOutOfService, fencing.RestoreNode, fencing.UntaintNode:
		return !rec.cluster.isHome()
	case fencing.Wait, fencing.Write, fencing.ReadMachine, fencing.RemoveMachine, fencing.ReadPromise, fencing.RevokePromise, fencing.FreePromise, fencing.Finish:
	}
	return false
}

// take takes one step. It reports whether the reconcile is over.
func (c *Client) take(ctx context.Context, rec *reconciliation, step fencing.Step) (bool, error) {
	urgent := step.Kind != fencing.Wait && isUrgent(&rec.r.Status, rec.s) // what a remediation waits for can be written later
	if rec.isElsewhere(step.Kind) {
		rec.slot.release()
	} else if !rec.slot.acquire(ctx, urgent) {
		return true, ctx.Err()
	}
	switch step.Kind {
	case fencing.Wait:
		return true, c.wait(ctx, rec, step)
	case fencing.Finish:
		return true, c.finish(ctx, rec)
	case fencing.Write:
		return false, c.write(ctx, rec, step.Record)
	case fencing.ReadNode:
		c.readNode(ctx, rec)
	case fencing.CountWorkload:
		c.countWorkload(ctx, rec)
	case fencing.ReadMachine:
		rec.facts.Machine = c.readMachine(ctx, rec)
	case fencing.ReadPromise:
		c.Promises.Read(ctx, rec.promise())
	case fencing.ReadPower, fencing.CommandOff, fencing.CommandOn, fencing.LeaveHost:
		if step.Kind == fencing.CommandOff && rec.facts.HostChanged {
			return false, c.write(ctx, rec, rec.record) // it is recorded which host is commanded
		}
		c.operateHost(ctx, rec, step.Kind)
	case fencing.TaintNode, fencing.SetOutOfService, fencing.RemoveNode, fencing.RemoveOutOfService, fencing.RestoreNode,
		fencing.UntaintNode, fencing.RemoveMachine, fencing.RevokePromise, fencing.FreePromise:
		return false, c.change(ctx, rec, step.Kind)
	}
	return false, ctx.Err()
}

// change changes the node or the machine. The facts are read anew after it.
func (c *Client) change(ctx context.Context, rec *reconciliation, kind fencing.StepKind) error {
	begun, changed := c.Now(), rec.raw
	err := c.changeNode(ctx, c.nodesOf(rec), rec, kind)
	rec.resetFacts(c.Now())
	switch {
	case err == nil:
		rec.refused, rec.s.changeFailed = 0, time.Time{}
		if kind == fencing.TaintNode && rec.record.Phase == fencing.Preparing {
			rec.knows(changed, begun) // the answer has the node as it is now
		}
		return nil
	case (apierrors.IsNotFound(err) || apierrors.IsConflict(err)) && rec.refused < mostConflicts:
		rec.refused++
		return nil // it is read again
	}
	rec.s.changeFailed = c.Now()
	if ctx.Err() != nil {
		return err
	}
	if !rec.cluster.isHome() {
		if !rec.slot.acquire(ctx, false) {
			return err
		}
		return errors.Join(err, c.publish(ctx, rec, notChanged, "a change of node "+named(rec.claims())+" or of its machine has failed; it is tried again: "+err.Error()))
	}
	return errors.Join(err, c.publish(ctx, rec, notChanged, "a change of node "+rec.node+" or of its machine has failed "+whyFailed(err)))
}

// wait publishes the reason to wait, and requeues the remediation in time.
func (c *Client) wait(ctx context.Context, rec *reconciliation, step fencing.Step) error {
	pause := requeueAfter
	if !rec.cluster.isHome() && rec.releases() {
		pause = requeueReleased
	}
	if !step.Until.IsZero() {
		pause = min(pause, max(step.Until.Sub(c.Now()), 0))
	}
	c.remediations.AddAfter(rec.key, pause)
	message := cmp.Or(rec.promise().WaitMessage(step), waitMessage(rec.node, step, rec.s.failure))
	if notRead := step.Reason == fencing.NodeNotRead || step.Reason == fencing.WorkloadNotCounted; notRead && rec.unread != nil && !rec.cluster.isHome() {
		message += ": " + rec.unread.Error()
	}
	return c.publish(ctx, rec, string(step.Reason), message+rec.metalNote(step.Reason))
}

// finish ends a remediation that is being deleted. Of another it drops the record of restored fields: a field that others remove from now on stays removed.
func (c *Client) finish(ctx context.Context, rec *reconciliation) error {
	if rec.facts.Deleting && c.awaitsFormerHosts(rec) {
		return nil
	}
	if rec.facts.Deleting {
		return c.dropFinalizer(ctx, rec)
	}
	c.wake(c.sessions.end(rec.key))
	if isDone(&rec.r.Status) {
		if err := c.machines.Release(ctx, rec.r); err != nil {
			return err
		}
	}
	if !fencednode.IsRestored(rec.r.Status.Node.Saved, rec.facts.Node) {
		if rec.record.Phase == fencing.Aborted && rec.r.Status.Node.Saved != nil && !rec.cluster.isHome() {
			c.remediations.AddAfter(rec.key, requeueAfter) // no watch shows that the node is back
		}
		return nil
	}
	status := rec.r.Status.DeepCopy()
	status.Node.Saved = nil
	return c.replaceStatus(ctx, rec, status)
}

func (c *Client) dropFinalizer(ctx context.Context, rec *reconciliation) error {
	without := fencednode.WithoutFinalizer(rec.r, annotation.PowerFinalizer)
	if len(without) != len(rec.r.Finalizers) {
		if err := c.machines.Release(ctx, rec.r); err != nil {
			return err
		}
		if err := c.setMetadata(ctx, rec, without, nil); err != nil && !apierrors.IsNotFound(err) {
			return err
		}
	}
	c.forget(rec.key)
	return nil
}

// forget drops what this process knows of a remediation, and wakes the remediations that waited for it.
func (c *Client) forget(key types.NamespacedName) {
	c.turns.drop(key)
	c.Metrics.drop(key)
	c.wake(c.sessions.forget(key))
}

func (c *Client) wake(keys []types.NamespacedName) {
	for _, key := range keys {
		c.remediations.Add(key)
	}
}
