package machinedeletion

import (
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fettle-io/fettle/api/fettle/annotation"
	"github.com/fettle-io/fettle/api/fettle/v1alpha1"
	"github.com/fettle-io/fettle/internal/remediator/contract"
)

// step is the next step of a remediation.
type step int

const (
	// waitForEvent does nothing until an object changes.
	waitForEvent step = iota + 1
	addFinalizer
	dropFinalizer
	// readAgain reads the remediation itself live.
	readAgain
	readNode
	readMachine
	readCachedMachine
	countPool
	readOwner
	// record writes next.status, and emits next.event.
	record
	deleteMachine
)

// next is a step with its arguments.
type next struct {
	step step
	// poll is set for a wait that may end without an event, since owners are not watched.
	poll    bool
	machine types.NamespacedName
	owner   types.UID
	status  v1alpha1.MachineDeletionRemediationStatus
	event   event
}

// decide returns the next step. A reconciliation decides and acts until no step is left. A cached remediation may lack
// the last write, so decide reads it live before it writes anything.
func decide(f *facts) next {
	n := nextStep(f)
	if n.step.writes() && !f.fresh {
		return next{step: readAgain}
	}
	return n
}

// writes reports whether a step changes an object of the API server.
func (s step) writes() bool {
	switch s {
	case addFinalizer, dropFinalizer, record, deleteMachine:
		return true
	case waitForEvent, readAgain, readNode, readMachine, readCachedMachine, countPool, readOwner:
	}
	return false
}

// nextStep returns the next step by the known remediation, fresh or cached.
func nextStep(f *facts) next {
	r := f.remediation
	if !r.DeletionTimestamp.IsZero() {
		return finalize(r)
	}
	ended := contract.Succeeded(r.Status.Conditions)
	switch begun := r.Status.Machine != nil; {
	case ended == metav1.ConditionTrue, ended == metav1.ConditionFalse && !begun:
		return next{step: waitForEvent}
	case ended != metav1.ConditionFalse && contract.Stopped(r):
		return stopped(f)
	case ended != metav1.ConditionFalse && !hasFinalizer(r):
		return next{step: addFinalizer}
	case begun:
		return deleteAndWait(f)
	}
	return identifyMachine(f)
}

// finalize drops the finalizer. A requested deletion can't be taken back, and there is nothing else to undo.
func finalize(r *v1alpha1.MachineDeletionRemediation) next {
	if hasFinalizer(r) {
		return next{step: dropFinalizer}
	}
	return next{step: waitForEvent}
}

// identifyMachine finds the machine, which is recorded before anything is done to it.
func identifyMachine(f *facts) next {
	r := f.remediation
	owner, named := contract.OwnerMachine(r, machineResource.GroupKind())
	key, uid := owner.Key, owner.UID
	if f.node == nil && !contract.IsForMachine(r, machineResource.GroupKind()) {
		return next{step: readNode}
	}
	if !named {
		if !f.node.found {
			return cannotStart(f, v1alpha1.CannotStartNodeNotFoundReason, "there is no node "+contract.NodeOf(r)+", so it is not known which machine is meant")
		}
		if key, named = machineKey(f.node.machine); !named {
			return cannotStart(f, v1alpha1.CannotStartMachineNotFoundReason, "node "+contract.NodeOf(r)+" does not name its machine by the annotation "+machineAnnotation)
		}
	}
	if problem := namespaceMismatch(r, key); problem != "" {
		return cannotStart(f, v1alpha1.CannotStartMachineNotFoundReason, problem)
	}
	if f.machine == nil {
		return next{step: readMachine, machine: key}
	}
	if problem := machineMismatch(f, key, uid); problem != "" {
		return cannotStart(f, v1alpha1.CannotStartMachineNotFoundReason, problem)
	}
	return recordMachine(f, key)
}

// recordMachine records the machine, unless no controller owns it or another machine refers to the same node.
func recordMachine(f *facts, key types.NamespacedName) next {
	owner := f.machine.owner
	if owner == nil {
		return cannotStart(f, v1alpha1.CannotStartNoControllerOwnerReason, "no controller owns machine "+key.String()+", so nothing would replace it")
	}
	if f.pool == nil {
		return next{step: countPool, machine: key, owner: owner.UID}
	}
	if other := f.pool.sameNode; other != "" && !contract.IsForMachine(f.remediation, machineResource.GroupKind()) {
		return cannotStart(f, v1alpha1.CannotStartMachineNotFoundReason, "machine "+other+" refers to node "+f.machine.node+" too (status.nodeRef), so it is not known which of them is meant; "+
			"find out whose node it is, and have the status of the other machine corrected")
	}
	return started(f)
}

// deleteAndWait deletes the recorded machine unless it is being deleted, and waits for its replacement.
func deleteAndWait(f *facts) next {
	r := f.remediation
	key := types.NamespacedName{Namespace: r.Status.Machine.Namespace, Name: r.Status.Machine.Name}
	switch {
	case f.cached == nil:
		return next{step: readCachedMachine, machine: key}
	case !f.cached.exists:
		return awaitReplacement(f, key)
	case f.cached.deleting, contract.Succeeded(r.Status.Conditions) == metav1.ConditionFalse:
		return next{step: waitForEvent}
	case !f.fresh: // the machine is read last, right before its deletion
		return next{step: readAgain}
	case f.machine == nil:
		return next{step: readMachine, machine: key}
	case !f.machine.is(r.Status.Machine), f.machine.deleting:
		return next{step: waitForEvent} // the cache is behind, and will show it
	}
	return deleteRecorded(f, key)
}

// deleteRecorded checks once more that the machine belongs to the node. Another program may have written the status,
// and a refused deletion is retried much later.
func deleteRecorded(f *facts, key types.NamespacedName) next {
	for _, problem := range [...]string{namespaceMismatch(f.remediation, key), nodeMismatch(f.remediation, f.machine)} {
		if problem != "" {
			return cannotStart(f, v1alpha1.CannotStartMachineNotFoundReason, problem)
		}
	}
	return next{step: deleteMachine, machine: key}
}

// awaitReplacement ends the remediation once the machine is replaced. A cache may lack an object that exists, so only a
// live read proves that the machine is gone.
func awaitReplacement(f *facts, key types.NamespacedName) next {
	owner := f.remediation.Status.Owner
	switch {
	case owner == nil:
		return next{step: waitForEvent} // another program has written this status
	case f.pool == nil:
		return next{step: countPool, machine: key, owner: types.UID(owner.UID)}
	}
	enough := f.pool.joined >= int(f.remediation.Status.Machines)
	switch {
	case !enough && f.pool.coming > 0:
		return next{step: waitForEvent}
	case !enough && f.owner == nil:
		return next{step: readOwner}
	case !enough && !f.owner.satisfiedBy(f.pool.joined):
		return next{step: waitForEvent, poll: true}
	case f.machine == nil:
		return next{step: readMachine, machine: key}
	case f.machine.is(f.remediation.Status.Machine):
		return next{step: waitForEvent}
	}
	return finished(f, !enough && !f.owner.found)
}

// satisfiedBy reports whether an owner makes no more machines than have joined: it is gone, or has its replicas.
func (o *ownerFacts) satisfiedBy(joined int) bool {
	return !o.found || (o.replicas != nil && joined >= *o.replicas)
}

// is reports whether a machine is the recorded one.
func (m *machineFacts) is(recorded *v1alpha1.ObjectReference) bool {
	return m.found && string(m.uid) == recorded.UID
}

func hasFinalizer(r *v1alpha1.MachineDeletionRemediation) bool {
	return slices.Contains(r.Finalizers, annotation.MachineDeletionFinalizer)
}

// conditionTime returns an instant in the precision of conditions.
func conditionTime(now time.Time) metav1.Time { return metav1.NewTime(now.UTC().Truncate(time.Second)) }
