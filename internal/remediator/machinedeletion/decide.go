package machinedeletion

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fettle-io/fettle/api/fettle/annotation"
	"github.com/fettle-io/fettle/api/fettle/v1alpha1"
)

// step is what comes next.
type step int

const (
	// rest: nothing, until something changes.
	rest step = iota + 1
	addFinalizer
	dropFinalizer
	// readAgain reads the remediation itself live.
	readAgain
	readNode
	readMachine
	lookAtMachine
	countPool
	readOwner
	// record writes next.status, and tells next.event.
	record
	deleteMachine
)

// next is a step and what it is about.
type next struct {
	step step
	// again is set for a rest that may end without an event: owners are not watched.
	again   bool
	machine types.NamespacedName
	owner   types.UID
	status  v1alpha1.MachineDeletionRemediationStatus
	event   event
}

// decide gives the next step. Each look asks for what it needs, until there is nothing more to do. A cached
// remediation may be older than what was written here a moment ago, so nothing is written by that alone: what
// was done would be tried again, and refused.
func decide(f *facts) next {
	n := proceed(f)
	if n.step.writes() && !f.fresh {
		return next{step: readAgain}
	}
	return n
}

// writes tells whether a step changes anything in the API server.
func (s step) writes() bool {
	switch s {
	case addFinalizer, dropFinalizer, record, deleteMachine:
		return true
	case rest, readAgain, readNode, readMachine, lookAtMachine, countPool, readOwner:
	}
	return false
}

// proceed gives the next step by what is known of the remediation, be it fresh or not.
func proceed(f *facts) next {
	r := f.remediation
	if !r.DeletionTimestamp.IsZero() {
		return leave(r)
	}
	ended := succeeded(r)
	switch begun := r.Status.Machine != nil; {
	case ended == metav1.ConditionTrue, ended == metav1.ConditionFalse && !begun:
		return next{step: rest}
	case ended != metav1.ConditionFalse && timedOut(r):
		return stopped(f)
	case ended != metav1.ConditionFalse && !hasFinalizer(r):
		return next{step: addFinalizer}
	case begun:
		return goOn(f)
	}
	return begin(f)
}

// leave: a deletion that was asked for can't be taken back, and nothing else was done, so nothing is to
// be undone.
func leave(r *v1alpha1.MachineDeletionRemediation) next {
	if hasFinalizer(r) {
		return next{step: dropFinalizer}
	}
	return next{step: rest}
}

// begin finds the machine, and records it before anything is done to it.
func begin(f *facts) next {
	r := f.remediation
	key, uid, named := ownerMachine(r)
	if f.node == nil && !aboutMachine(r) {
		return next{step: readNode}
	}
	if !named {
		if !f.node.found {
			return cannotStart(f, v1alpha1.CannotStartNodeNotFoundReason, "there is no node "+nodeOf(r)+", so it is not known which machine is meant")
		}
		if key, named = machineKey(f.node.machine); !named {
			return cannotStart(f, v1alpha1.CannotStartMachineNotFoundReason, "node "+nodeOf(r)+" does not name its machine by the annotation "+machineAnnotation)
		}
	}
	if problem := elsewhere(r, key); problem != "" {
		return cannotStart(f, v1alpha1.CannotStartMachineNotFoundReason, problem)
	}
	if f.machine == nil {
		return next{step: readMachine, machine: key}
	}
	if problem := notMeant(f, key, uid); problem != "" {
		return cannotStart(f, v1alpha1.CannotStartMachineNotFoundReason, problem)
	}
	return choose(f, key)
}

// choose records a machine that is meant, unless it can't be replaced or another has the same node.
func choose(f *facts, key types.NamespacedName) next {
	owner := f.machine.owner
	if owner == nil {
		return cannotStart(f, v1alpha1.CannotStartNoControllerOwnerReason, "no controller owns machine "+key.String()+", so nothing would replace it")
	}
	if f.pool == nil {
		return next{step: countPool, machine: key, owner: owner.UID}
	}
	if other := f.pool.rival; other != "" && !aboutMachine(f.remediation) {
		return cannotStart(f, v1alpha1.CannotStartMachineNotFoundReason, "machine "+other+" refers to node "+f.machine.node+" too (status.nodeRef), so it is not known which of them is meant; "+
			"find out whose node it is, and have the status of the other machine corrected")
	}
	return started(f)
}

// goOn is for a machine that is recorded: it is deleted unless that was asked for, and waited for.
func goOn(f *facts) next {
	r := f.remediation
	key := types.NamespacedName{Namespace: r.Status.Machine.Namespace, Name: r.Status.Machine.Name}
	switch {
	case f.seen == nil:
		return next{step: lookAtMachine, machine: key}
	case !f.seen.there:
		return whenGone(f, key)
	case f.seen.deleting, succeeded(r) == metav1.ConditionFalse:
		return next{step: rest}
	case !f.fresh: // before the machine, which is read last before it is deleted
		return next{step: readAgain}
	case f.machine == nil:
		return next{step: readMachine, machine: key}
	case !f.machine.is(r.Status.Machine), f.machine.deleting:
		return next{step: rest} // the cache is behind, and will show it
	}
	return deleteRecorded(f, key)
}

// deleteRecorded looks once more whether the machine is that of the node: the status may not be Fettle's own word,
// and a deletion that was refused is tried again much later.
func deleteRecorded(f *facts, key types.NamespacedName) next {
	for _, problem := range [...]string{elsewhere(f.remediation, key), ofAnotherNode(f.remediation, f.machine)} {
		if problem != "" {
			return cannotStart(f, v1alpha1.CannotStartMachineNotFoundReason, problem)
		}
	}
	return next{step: deleteMachine, machine: key}
}

// whenGone: what a cache does not have may not have come yet, so the end is believed only of the API
// server itself.
func whenGone(f *facts, key types.NamespacedName) next {
	owner := f.remediation.Status.Owner
	switch {
	case owner == nil:
		return next{step: rest} // somebody else has written this status
	case f.pool == nil:
		return next{step: countPool, machine: key, owner: types.UID(owner.UID)}
	}
	enough := f.pool.joined >= int(f.remediation.Status.Machines)
	switch {
	case !enough && f.pool.coming > 0:
		return next{step: rest}
	case !enough && f.owner == nil:
		return next{step: readOwner}
	case !enough && !f.owner.content(f.pool.joined):
		return next{step: rest, again: true}
	case f.machine == nil:
		return next{step: readMachine, machine: key}
	case f.machine.is(f.remediation.Status.Machine):
		return next{step: rest}
	}
	return finished(f, !enough && !f.owner.found)
}

// content tells whether an owner makes no more machines than have joined: it is gone, or wants no more.
func (o *ownerFacts) content(joined int) bool {
	return !o.found || (o.replicas != nil && joined >= *o.replicas)
}

// is tells whether a machine is the recorded one.
func (m *machineFacts) is(recorded *v1alpha1.ObjectReference) bool {
	return m.found && string(m.uid) == recorded.UID
}

func succeeded(r *v1alpha1.MachineDeletionRemediation) metav1.ConditionStatus {
	if c := meta.FindStatusCondition(r.Status.Conditions, v1alpha1.SucceededCondition); c != nil {
		return c.Status
	}
	return metav1.ConditionUnknown
}

func timedOut(r *v1alpha1.MachineDeletionRemediation) bool {
	_, set := r.Annotations[v1alpha1.TimedOutAnnotation]
	return set
}

func hasFinalizer(r *v1alpha1.MachineDeletionRemediation) bool {
	return slices.Contains(r.Finalizers, annotation.MachineDeletionFinalizer)
}

// at is an instant as conditions have it.
func at(now time.Time) metav1.Time { return metav1.NewTime(now.UTC().Truncate(time.Second)) }
