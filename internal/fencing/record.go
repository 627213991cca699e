package fencing

import "time"

// Phase is how far a fencing has come. Its values are recorded.
type Phase string

// Phases of a fencing, in their order. The zero value is that of a fencing which has not begun.
const (
	Preparing   Phase = "Preparing"
	PoweringOff Phase = "PoweringOff"
	Releasing   Phase = "Releasing"
	PoweringOn  Phase = "PoweringOn"
	Booting     Phase = "Booting"
	Restoring   Phase = "Restoring"
	// Aborting takes back what was done, since the fencing is no longer wanted.
	Aborting Phase = "Aborting"
	// DeletingMachine deletes the machine, since the power did not bring the node back.
	DeletingMachine Phase = "DeletingMachine"
	// Succeeded, Failed and Aborted are final.
	Succeeded Phase = "Succeeded"
	Failed    Phase = "Failed"
	Aborted   Phase = "Aborted"
)

// Final reports whether no step follows a phase until the fencing is deleted.
func (p Phase) Final() bool { return p == Succeeded || p == Failed || p == Aborted }

// Record is what is known of a fencing after a restart. It is written before a step that relies on it.
type Record struct {
	Phase Phase
	// Since is when the phase began. The limit of the phase counts from it.
	Since time.Time
	// Attempt counts the power cycles, from 1.
	Attempt int
	// NodeUID and BootID are of the node before the first command of the attempt. Both are empty if there was no such node.
	NodeUID, BootID string
	// OffBootID is the boot ID that the node had when the power was proven off. A node that shows it is not back.
	OffBootID string
	// ForeignOutOfService is set if the node had the out-of-service taint before. Then the taint is left alone.
	ForeignOutOfService bool
	// Proof is why the node is known to have stopped. Its zero value is no proof.
	Proof Proof
	// Void counts the proofs that did not hold until the release.
	Void int
	// Released is set before the workload of the node is released by the proof.
	Released bool
	// ReleasedBefore is set once an earlier proof had the workload released. The API server may carry that release out late.
	ReleasedBefore bool
	// DeletedNode is set before the node is deleted, and MachineDeletion before its machine is.
	DeletedNode, MachineDeletion bool
	// PoweredOff is set before the power is commanded off, and cleared once the power was observed on again.
	PoweredOff bool
	// Both is set if the attempt powers the node off and revokes its promise. The workload is released once both have proven that it has stopped,
	// or by a new boot. It stays set until the attempt ends, also if the configuration needs less by then.
	Both bool
	// Revoked is set before the promise of the node is revoked. It may have been freed since.
	Revoked bool
	// Reason is why the phase began, if that needs a reason.
	Reason Reason
	Times
}

// Times are the instants of an attempt, as far as it has come, and the boot ID under which the node is back. No step depends on them.
type Times struct {
	// CommandedAt is when the BMC acknowledged the first command to power off. If the BMC did not, or if the promise is revoked, it is when
	// that was recorded. ReleasedAt is when it was recorded that the workload is released.
	CommandedAt, ReleasedAt time.Time
	// BackAt is when the node was seen to be Ready under another boot ID, and BackBootID is that ID.
	BackAt     time.Time
	BackBootID string
}

// seenBack notes that the node is back, unless that was noted before.
func (r Record) seenBack(f Facts) Record {
	if r.BackAt.IsZero() && r.back(f.Node) {
		r.BackAt, r.BackBootID = f.Node.ReadAt, f.Node.BootID
	}
	return r
}

// in returns the record of the next phase.
func (r Record) in(p Phase, now time.Time, why Reason) Record {
	r.Phase, r.Since, r.Reason = p, now, why
	return r
}

// Proof is why a node is known to have stopped.
type Proof struct {
	Kind ProofKind
	// At is when the observation began that completed the proof.
	At time.Time
	// BootID is the boot ID under which the node runs now, for NewBoot.
	BootID string
}

// ProofKind is a kind of proof. Its values are recorded.
type ProofKind string

// byPower reports whether the power was observed off for a proof.
func (k ProofKind) byPower() bool { return k == PowerOff || k == OffAndExpired }

// The proofs. Nothing else is a proof, but PromiseExpired and OffAndExpired.
const (
	// PowerOff: the power was observed off twice, by reads that began after the command was acknowledged.
	PowerOff ProofKind = "PowerOff"
	// NewBoot: the node runs under another boot ID than before the first command.
	NewBoot ProofKind = "NewBoot"
)

// Reason is why a fencing waits, goes back or ends. Its values are recorded, and texts are made from them elsewhere.
type Reason string

// Reasons to wait.
const (
	// NodeNotRead: the node could not be read.
	NodeNotRead Reason = "NodeNotRead"
	// PowerNotRead: the power can't be read or commanded for now.
	PowerNotRead Reason = "PowerNotRead"
	// PowerNotOff: the power has been commanded off and is not observed off.
	PowerNotOff Reason = "PowerNotOff"
	// PowerOffOnce: the power was observed off once.
	PowerOffOnce Reason = "PowerOffOnce"
	// NodeReady: the node is still Ready, so that nothing is released.
	NodeReady Reason = "NodeReady"
	// WorkloadLeft: pods or volumes are still on the node.
	WorkloadLeft Reason = "WorkloadLeft"
	// WorkloadNotCounted: the pods and volumes could not be counted.
	WorkloadNotCounted Reason = "WorkloadNotCounted"
	// NodeNotGone: the node is being deleted, and a finalizer keeps it.
	NodeNotGone Reason = "NodeNotGone"
	// PowerNotOn: the power has been commanded on and is not observed on.
	PowerNotOn Reason = "PowerNotOn"
	// PowerOnNotDue: other hosts of the domain are powered on first.
	PowerOnNotDue Reason = "PowerOnNotDue"
	// MachineNotRead: the machine could not be read.
	MachineNotRead Reason = "MachineNotRead"
	// MachineNotGone: the machine is being deleted.
	MachineNotGone Reason = "MachineNotGone"
	// NodeNotBack: the node is not Ready under another boot ID yet.
	NodeNotBack Reason = "NodeNotBack"
)

// Reasons of a phase.
const (
	// ProofVoid: just before the release the power was not observed off any more, or the promise was not revoked any more. Or a pod that tolerates
	// Fettle's taint may have started in a new boot.
	ProofVoid Reason = "ProofVoid"
	// BootedUntainted: the node has booted, and others had removed the taint that keeps its pods from starting.
	BootedUntainted Reason = "BootedUntainted"
	// PoweredOnByOthers: the power was on again just before the release, or the node had booted again with a pod that tolerates the taint, several
	// times.
	PoweredOnByOthers Reason = "PoweredOnByOthers"
	// TaintTimedOut: the node could not be tainted within the limit, so that nothing was commanded in this attempt.
	TaintTimedOut Reason = "TaintTimedOut"
	// PowerOffTimedOut: there was no proof within the limit.
	PowerOffTimedOut Reason = "PowerOffTimedOut"
	// PowerOnTimedOut: the power was not observed on within the limit.
	PowerOnTimedOut Reason = "PowerOnTimedOut"
	// BootTimedOut: the node did not come back within the limit.
	BootTimedOut Reason = "BootTimedOut"
	// ReleaseTimedOut: pods or volumes were still on the node at the limit.
	ReleaseTimedOut Reason = "ReleaseTimedOut"
	// MachineGone: the machine was deleted.
	MachineGone Reason = "MachineGone"
	// MachineDeletionTimedOut: the machine was not gone within the limit, or could not be deleted.
	MachineDeletionTimedOut Reason = "MachineDeletionTimedOut"
	// HostNotLeft: the machine was deleted, and what keeps its host off could not be taken back within the limit.
	HostNotLeft Reason = "HostNotLeft"
	// NodeReplaced: the node was replaced by another of its name before anything was done.
	NodeReplaced Reason = "NodeReplaced"
	// Stopped: the health checker requested that the fencing stops.
	Stopped Reason = "Stopped"
	// Deleted: the fencing is being deleted.
	Deleted Reason = "Deleted"
)

// Reasons why the machine is kept after the last power cycle.
const (
	// KeptControlPlane: the machine or its node is of the control plane.
	KeptControlPlane Reason = "MachineKeptControlPlane"
	// KeptNoController: no controller would replace the machine.
	KeptNoController Reason = "MachineKeptNoController"
	// KeptOtherNode: the machine has another node by now.
	KeptOtherNode Reason = "MachineKeptOtherNode"
	// KeptExternallyProvisioned: the host of the machine was provisioned by another system.
	KeptExternallyProvisioned Reason = "MachineKeptExternallyProvisioned"
	// KeptHostUnknown: the host of the machine does not exist, so it is not known how it was provisioned.
	KeptHostUnknown Reason = "MachineKeptHostUnknown"
	// NoMachine: the node had no machine when the fencing began.
	NoMachine Reason = "NoMachine"
)
