package fencing

import "time"

// Config is how a fencing goes.
type Config struct {
	// ByPromise has the node fence itself: its promise is revoked, and nothing of its power is commanded or read.
	ByPromise bool
	// Both has each attempt that begins now need both proofs (see Record.Both).
	Both bool
	// Off leaves the host off.
	Off bool
	// DeleteNode releases the workload by deleting the node, in place of the out-of-service taint.
	DeleteNode bool
	// Retries is how many power cycles may follow the first.
	Retries int
	// DeleteMachine deletes the machine after the last power cycle.
	DeleteMachine bool
	Limits        Limits
}

// Limits are how long each phase may take.
type Limits struct {
	PowerOff, Release, PowerOn, Boot time.Duration
	// MachineDeletion is for the deletion of the machine.
	MachineDeletion time.Duration
	// Fence is for the proof of a fencing by promise.
	Fence time.Duration
}

// taintLimit returns how long it may take until the node is tainted. It is the time for the proof, which is looked for next.
func (c Config) taintLimit() time.Duration {
	if c.ByPromise {
		return c.Limits.Fence
	}
	return c.Limits.PowerOff
}

// Facts are what is known at one instant.
type Facts struct {
	Now time.Time
	// Deleting is set when the fencing is being deleted, and Stopped when the health checker requested its stop.
	Deleting, Stopped bool
	// Begun is when the current observation began, after the record was written or read. An earlier read is too old for a release.
	Begun time.Time
	// Node is the node as the API server has it, or nil until it was read in this observation.
	Node *Node
	// Workload is what is left on the node, or nil until it was counted in this observation.
	Workload *Workload
	Power    Power
	Promise  Promise
	// PowerOnAt is the first instant at which the power may be commanded on, or zero. Hosts of one domain are powered on one after
	// the other. PowerOnTurn is when this process commanded it first in the phase, or zero without a domain: the limit counts from then.
	PowerOnAt, PowerOnTurn time.Time
	// HostChanged is set if another host is powered than when the record was written. Then a proof by the power is void.
	HostChanged bool
	// Machine is the machine that is deleted after the last power cycle, or nil until it was read in this observation.
	Machine *Machine
	// ChangeFailed is when the last change of the node or of its machine failed in this phase. It is zero if none has failed since one succeeded.
	ChangeFailed time.Time
}

// failedSince reports whether a change of the node or of its machine has failed at an instant or later, and none has succeeded since.
func (f Facts) failedSince(t time.Time) bool {
	return !f.ChangeFailed.Before(t)
}

// Machine is the machine of the node.
type Machine struct {
	// Failed is set if it could not be read, and RetryAt is when to try again.
	Failed  bool
	RetryAt time.Time

	Exists, Deleting bool
	// Kept is why the machine must not be deleted, or empty.
	Kept Reason
}

// Node is a node as the API server has it.
type Node struct {
	// ReadAt is when the read began.
	ReadAt time.Time
	// Failed is set if it could not be read, and RetryAt is when to try again. Nothing else is set then.
	Failed  bool
	RetryAt time.Time

	Exists      bool
	UID, BootID string
	Ready       bool
	// Tainted is set if the node has Fettle's own taint, and OutOfService if it has the out-of-service taint.
	Tainted, OutOfService bool
	// Changed is set if anything else that was changed on the node is still to be changed back.
	Changed bool
	// Deleting is set if the node is being deleted. It may stand for long then.
	Deleting bool
}

// Workload is what is left on a node.
type Workload struct {
	Failed  bool
	RetryAt time.Time
	// Pods counts the pods that are terminating, and the pods that Fettle's own taint evicts.
	Pods int
	// Volumes counts the VolumeAttachments of the node.
	Volumes int
	// Tolerant counts the pods that the node starts in spite of Fettle's own taint, and that a release moves.
	Tolerant int
}

// empty reports whether nothing is left.
func (w *Workload) empty() bool { return w.Pods == 0 && w.Volumes == 0 }

// Power is what this process knows of the power of one host. A new process knows nothing.
type Power struct {
	// Off and On are when the last command of each kind was acknowledged, or zero. A command clears the other's.
	Off, On time.Time
	// Last is the last reading, and FirstOff the first of the unbroken readings that were Off up to it. A command clears both.
	Last, FirstOff Reading
	// RetryAt is when the next read or command may be tried after a failure, or zero.
	RetryAt time.Time
	// Left is set once nothing keeps the host off that was set since the last command.
	Left bool
}

// Reading is one read of the power.
type Reading struct {
	// Begun and Ended are when the read began and ended.
	Begun, Ended time.Time
	State        PowerState
}

// PowerState is a state of the power. Its zero value is unknown.
type PowerState int

// States of the power.
const (
	// PowerUnknown is anything else, such as PoweringOff.
	PowerUnknown PowerState = iota
	IsOn
	IsOff
)

// Observe returns the power after a reading. A reading that began before the command was acknowledged is not the first of a proof.
func (p Power) Observe(r Reading) Power {
	switch {
	case r.State != IsOff || !r.Begun.After(p.Off):
		p.FirstOff = Reading{}
	case p.FirstOff.State != IsOff:
		p.FirstOff = r
	}
	p.Last, p.RetryAt = r, time.Time{}
	return p
}

// MayBeOn returns the power before it is commanded on. Whether or not that succeeds, nothing that was read before is part of a later proof.
func (p Power) MayBeOn() Power {
	p.Off, p.FirstOff = time.Time{}, Reading{}
	return p
}

// Recorded returns the power after a record was written. Nothing that was read or commanded before the node was recorded is part of a later proof.
func (p Power) Recorded(r Record) Power {
	if r.Phase == Preparing {
		return Power{RetryAt: p.RetryAt}
	}
	return p
}

// CommandedOff returns the power after a command to turn it off was acknowledged.
func (Power) CommandedOff(at time.Time) Power { return Power{Off: at} }

// CommandedOn returns the power after a command to turn it on was acknowledged.
func (Power) CommandedOn(at time.Time) Power { return Power{On: at} }
