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
	// mostSteps is above the number of steps that a look takes.
	mostSteps = 100
	// lookEvery is how often a remediation is looked at while nothing wakes it.
	lookEvery = 10 * time.Second
	// lookReleased is how often a node of a workload cluster is read at least while its workload is released: no watch shows that it is Ready.
	lookReleased = 5 * time.Second
	// firstRetry and mostRetry bound the pauses after a failed operation of a BMC.
	firstRetry = 2 * time.Second
	mostRetry  = 30 * time.Second
)

// look is one look at a remediation: what is known now, and the steps that are taken on it.
type look struct {
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
	// machine is recorded with the first record.
	machine *v1alpha1.ObjectReference
	// lane is what lets this look ask the API server, and notes emit the events of the look.
	lane  lane
	notes []func()
}

// end emits the events of a look, which can wait, and frees its lane.
func (l *look) end(ctx context.Context) {
	defer l.lane.leave()
	if len(l.notes) == 0 {
		return
	}
	l.lane.enter(ctx, false) // where the context ends, they are emitted at once
	for _, note := range l.notes {
		note()
	}
}

// look takes all steps of a remediation that can be taken now.
func (c *Client) look(ctx context.Context, key types.NamespacedName) error {
	begun := &look{key: key, lane: lane{of: c.lanes}}
	defer begun.end(ctx)
	if !begun.lane.enter(ctx, c.sessions.isUrgent(key)) {
		return fmt.Errorf("waiting for other remediations: %w", ctx.Err())
	}
	l, err := c.open(ctx, begun)
	if l == nil || err != nil {
		return err
	}
	for range mostSteps {
		c.refresh(ctx, l)
		if over, err := c.take(ctx, l, fencing.Next(l.config, l.s.phaseStart.Record(l.record), l.facts)); over || err != nil {
			return err
		}
	}
	c.remediations.AddAfter(key, firstRetry)
	return nil
}

// open reads the remediation of a look and returns the look, or nil if there is nothing to do.
func (c *Client) open(ctx context.Context, l *look) (*look, error) {
	r, err := c.current(ctx, l.key)
	if r == nil {
		return nil, err
	}
	l.r, l.config = r, configOf(&r.Spec)
	deleting := !r.DeletionTimestamp.IsZero()
	phase := r.Status.Phase
	if known(phase) {
		c.Metrics.setPhase(r)
	}
	cluster, possible := clusterOf(r)
	l.cluster = cluster
	switch legible := known(phase) && (phase == "" || r.Status.Node != nil) && possible; {
	case !legible && deleting:
		c.emit(r, corev1.EventTypeWarning, statusInvalid, "status.phase is "+phase+", or status.node is missing, so nothing is taken back; look at the node and its host")
		return nil, c.dropFinalizer(ctx, l)
	case !legible:
		return nil, c.refuse(ctx, r, problem{reason: statusInvalid, message: "status.phase is " + phase + ", or status.node is missing, which Fettle doesn't write; delete the remediation"})
	case phase == "" && deleting:
		return nil, c.dropFinalizer(ctx, l)
	case phase == "":
		return c.begin(ctx, l)
	}
	return c.resume(ctx, l)
}

// knows has a look go on from a node that was read or written before.
func (l *look) knows(n *corev1.Node, readAt time.Time) {
	l.raw, l.facts.Node = n, factsOf(l.r, n)
	l.facts.Node.ReadAt = readAt
}

// resume goes on from the record of a remediation that has begun. After its end, with something left to take back, it waits for a remediation
// that has not.
func (c *Client) resume(ctx context.Context, l *look) (*look, error) {
	l.node = l.r.Status.Node.Name
	if !l.cluster.isHome() {
		if entered, err := c.reenter(ctx, l); !entered {
			return nil, err
		}
	}
	l.s = c.sessions.of(l.key, l.r.UID, l.claims())
	var holder fencednode.Holder
	if fencing.Phase(l.r.Status.Phase).Final() {
		holder = c.fencedBy(ctx, l)
	} else {
		holder = c.sessions.claim(l.claims(), l.key)
	}
	if holder != holderOf(l.key) {
		c.remediations.AddAfter(l.key, lookEvery)
		return nil, c.publish(ctx, l, anotherRemediation, holder.String()+" fences node "+l.node+", and this one waits until it has ended")
	}
	c.sessions.keep(l.s, l.r)
	l.bmc, l.bmcProblem = c.bmcs.find(l.claims())
	if found := c.pin(ctx, l); found.found() {
		l.bmc, l.bmcProblem = nil, found
	}
	l.record = recordOf(&l.r.Status)
	l.again(c.Now())
	return l, c.leaveFormerHosts(ctx, l)
}

// again begins a new look after something was written: what was read before is too old to release a node.
func (l *look) again(now time.Time) {
	l.facts = fencing.Facts{Begun: now}
	l.raw = nil
}

// refresh brings the facts up to now.
func (c *Client) refresh(ctx context.Context, l *look) {
	l.facts.Now = c.Now()
	l.s.phaseStart = l.s.phaseStart.At(l.record.Since, l.facts.Now)
	l.facts.Deleting = !l.r.DeletionTimestamp.IsZero()
	l.facts.Stopped = contract.Stopped(l.r)
	l.useRecordedHost()
	current := l.fencingBMC()
	if l.s.bmc != current { // what is known of the power is of another host
		l.s.bmc, l.s.power, l.s.failures, l.s.failure = current, fencing.Power{}, 0, problem{}
	}
	if l.bmc == nil {
		l.s.failure = l.bmcProblem
		l.s.power.RetryAt = l.facts.Now.Add(lookEvery)
	}
	recorded := l.r.Status.BMC
	l.facts.HostChanged = l.bmc != nil && recorded != nil && *recorded != current
	l.facts.Power, l.facts.Promise = l.s.power, l.s.promise.Facts
	l.config.Both = c.requiresBoth(ctx, l)
	l.record = recoverRecord(&l.r.Status, l.record, l.config)
	if recorded == nil || recorded.HostUID == "" {
		l.facts.Power.Left = true // nothing but an annotation of a BareMetalHost keeps a host off
	}
	if !l.powersOn() || l.facts.Now.Before(l.s.power.RetryAt) {
		c.turns.drop(l.key)
	}
	l.facts.PowerOnTurn = l.s.turn
	l.facts.ChangeFailed = l.s.changeFailed
}

// powersOn reports whether the host of a look waits for turns of its domain.
func (l *look) powersOn() bool {
	powersOn := l.record.Phase == fencing.PoweringOn || l.record.Phase == fencing.Aborting && l.record.PoweredOff
	return powersOn && l.bmc != nil && l.bmc.Spec.Domain != ""
}

// isElsewhere reports whether a step asks a BMC or a workload cluster. Neither may answer for long, so that such a step keeps no lane.
// The same is true of a BareMetalHost, since a webhook of Metal3 may be asked first.
func (l *look) isElsewhere(kind fencing.StepKind) bool {
	switch kind {
	case fencing.ReadPower, fencing.CommandOff, fencing.CommandOn, fencing.LeaveHost:
		return true
	case fencing.ReadNode, fencing.CountWorkload, fencing.TaintNode, fencing.SetOutOfService, fencing.RemoveNode,
		fencing.RemoveOutOfService, fencing.RestoreNode, fencing.UntaintNode:
		return !l.cluster.isHome()
	case fencing.Wait, fencing.Write, fencing.ReadMachine, fencing.RemoveMachine, fencing.ReadPromise, fencing.RevokePromise, fencing.FreePromise, fencing.Finish:
	}
	return false
}

// take takes one step. It reports whether the look is over.
func (c *Client) take(ctx context.Context, l *look, step fencing.Step) (bool, error) {
	urgent := step.Kind != fencing.Wait && isUrgent(&l.r.Status, l.s) // what a remediation waits for can be written later
	if l.isElsewhere(step.Kind) {
		l.lane.leave()
	} else if !l.lane.enter(ctx, urgent) {
		return true, ctx.Err()
	}
	switch step.Kind {
	case fencing.Wait:
		return true, c.wait(ctx, l, step)
	case fencing.Finish:
		return true, c.finish(ctx, l)
	case fencing.Write:
		return false, c.write(ctx, l, step.Record)
	case fencing.ReadNode:
		c.readNode(ctx, l)
	case fencing.CountWorkload:
		c.countWorkload(ctx, l)
	case fencing.ReadMachine:
		l.facts.Machine = c.readMachine(ctx, l)
	case fencing.ReadPromise:
		c.Promises.Read(ctx, l.promise())
	case fencing.ReadPower, fencing.CommandOff, fencing.CommandOn, fencing.LeaveHost:
		if step.Kind == fencing.CommandOff && l.facts.HostChanged {
			return false, c.write(ctx, l, l.record) // it is recorded which host is commanded
		}
		c.operateHost(ctx, l, step.Kind)
	case fencing.TaintNode, fencing.SetOutOfService, fencing.RemoveNode, fencing.RemoveOutOfService, fencing.RestoreNode,
		fencing.UntaintNode, fencing.RemoveMachine, fencing.RevokePromise, fencing.FreePromise:
		return false, c.change(ctx, l, step.Kind)
	}
	return false, ctx.Err()
}

// change changes the node or the machine. The look begins anew.
func (c *Client) change(ctx context.Context, l *look, kind fencing.StepKind) error {
	begun, changed := c.Now(), l.raw
	err := c.changeNode(ctx, c.nodesOf(l), l, kind)
	l.again(c.Now())
	switch {
	case err == nil:
		l.refused, l.s.changeFailed = 0, time.Time{}
		if kind == fencing.TaintNode && l.record.Phase == fencing.Preparing {
			l.knows(changed, begun) // the answer has the node as it is now
		}
		return nil
	case (apierrors.IsNotFound(err) || apierrors.IsConflict(err)) && l.refused < mostConflicts:
		l.refused++
		return nil // it is read again
	}
	l.s.changeFailed = c.Now()
	if ctx.Err() != nil {
		return err
	}
	if !l.cluster.isHome() {
		if !l.lane.enter(ctx, false) {
			return err
		}
		return errors.Join(err, c.publish(ctx, l, notChanged, "a change of node "+named(l.claims())+" or of its machine has failed; it is tried again: "+err.Error()))
	}
	return errors.Join(err, c.publish(ctx, l, notChanged, "a change of node "+l.node+" or of its machine has failed "+whyFailed(err)))
}

// wait says what the remediation waits for, and looks again in time.
func (c *Client) wait(ctx context.Context, l *look, step fencing.Step) error {
	pause := lookEvery
	if !l.cluster.isHome() && l.releases() {
		pause = lookReleased
	}
	if !step.Until.IsZero() {
		pause = min(pause, max(step.Until.Sub(c.Now()), 0))
	}
	c.remediations.AddAfter(l.key, pause)
	message := cmp.Or(l.promise().WaitMessage(step), waitMessage(l.node, step, l.s.failure))
	if notRead := step.Reason == fencing.NodeNotRead || step.Reason == fencing.WorkloadNotCounted; notRead && l.unread != nil && !l.cluster.isHome() {
		message += ": " + l.unread.Error()
	}
	return c.publish(ctx, l, string(step.Reason), message+l.metalNote(step.Reason))
}

// finish ends a remediation that is being deleted. Of another it drops what is restored: what others remove from now on stays removed.
func (c *Client) finish(ctx context.Context, l *look) error {
	if l.facts.Deleting && c.awaitsFormerHosts(l) {
		return nil
	}
	if l.facts.Deleting {
		return c.dropFinalizer(ctx, l)
	}
	c.wake(c.sessions.end(l.key))
	if isDone(&l.r.Status) {
		if err := c.machines.Release(ctx, l.r); err != nil {
			return err
		}
	}
	if !fencednode.IsRestored(l.r.Status.Node.Saved, l.facts.Node) {
		if l.record.Phase == fencing.Aborted && l.r.Status.Node.Saved != nil && !l.cluster.isHome() {
			c.remediations.AddAfter(l.key, lookEvery) // no watch shows that the node is back
		}
		return nil
	}
	status := l.r.Status.DeepCopy()
	status.Node.Saved = nil
	return c.replaceStatus(ctx, l, status)
}

func (c *Client) dropFinalizer(ctx context.Context, l *look) error {
	without := fencednode.WithoutFinalizer(l.r, annotation.PowerFinalizer)
	if len(without) != len(l.r.Finalizers) {
		if err := c.machines.Release(ctx, l.r); err != nil {
			return err
		}
		if err := c.setMetadata(ctx, l, without, nil); err != nil && !apierrors.IsNotFound(err) {
			return err
		}
	}
	c.forget(l.key)
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
