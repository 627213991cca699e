package fencing

import "time"

const (
	// poll is how often the power, the node and its workload are read while something is awaited.
	poll = 2 * time.Second
	// pollWorkload is how often the pods and volumes of a node are listed while they are awaited.
	pollWorkload = 5 * time.Second
	// repeatCommand is how long a command may have no effect before it is sent again.
	repeatCommand = 30 * time.Second
	// pollMachine is how often a machine that is being deleted is read.
	pollMachine = 10 * time.Second
)

// Next returns the next step of a fencing. It reads no clock and changes nothing.
func Next(c Config, r Record, f Facts) Step {
	if f.Node == nil {
		return do(ReadNode)
	}
	if f.Node.Failed {
		return wait(NodeNotRead, f.Node.RetryAt)
	}
	if r.mustServeAgain(f.Node) || r.Released && r.Phase != Releasing && r.holdsOutOfService(f.Node) {
		return do(RemoveOutOfService)
	}
	if (f.Deleting || f.Stopped || r.Phase == Aborted) && !r.ends(f.Node) {
		return abort(c, r, f)
	}
	return inPhase(c, r, f)
}

// inPhase returns the next step of a fencing that goes on, by its phase.
func inPhase(c Config, r Record, f Facts) Step {
	switch r.Phase {
	case "":
		return begin(c, f)
	case Preparing:
		return prepare(c, r, f)
	case PoweringOff:
		return powerOff(c, r, f)
	case Condemning:
		return condemn(c, r, f)
	case Releasing:
		return release(c, r, f)
	case PoweringOn:
		return powerOn(c, r, f)
	case Booting:
		return boot(c, r, f)
	case Restoring:
		return restore(c, r, f, Succeeded)
	case DeletingMachine:
		return deleteMachine(c, r, f)
	case Aborting:
		return abort(c, r, f)
	case Aborted, Succeeded, Failed:
	}
	return do(Finish)
}

// ends reports whether the node is back, so that what was changed on it is changed back in any case.
func (r Record) ends(n *Node) bool {
	return r.Phase == Restoring || r.Phase == Booting && r.back(n)
}

// mustServeAgain reports whether the out-of-service taint has to go at once: the node is Ready, and the taint may be Fettle's
// (promise I12).
func (r Record) mustServeAgain(n *Node) bool {
	return n.Ready && r.holdsOutOfService(n)
}

// holdsOutOfService reports whether the node has the out-of-service taint, and it may be Fettle's.
func (r Record) holdsOutOfService(n *Node) bool {
	return n.OutOfService && r.MayHaveReleased() && !r.ForeignOutOfService && r.sameNode(n)
}

// MayHaveReleased reports whether the workload of the node was released, or may still be. A release that got no answer may arrive late, also once
// its proof is void.
func (r Record) MayHaveReleased() bool { return r.Released || r.ReleasedBefore }

// begin records the node as it is before anything is done. The same record allows the command to power off, so that nothing has to be
// written between the taint and the command.
func begin(c Config, f Facts) Step {
	return write(Record{Attempt: 1, Both: c.Both, PoweredOff: !c.ByPromise}.of(f.Node).in(Preparing, f.Now, ""))
}

// of returns the record of an attempt that fences a node as it is now. The out-of-service taint that it has is not Fettle's, unless Fettle may have
// released that node before. No release of an earlier node of that name reaches another one.
func (r Record) of(n *Node) Record {
	foreign := n.OutOfService && !r.holdsOutOfService(n)
	if n.Exists && !r.sameNode(n) {
		r.Released, r.ReleasedBefore = false, false
	}
	r.NodeUID, r.BootID, r.OffBootID, r.ForeignOutOfService = "", "", "", false
	if n.Exists {
		r.NodeUID, r.BootID, r.ForeignOutOfService = n.UID, n.BootID, foreign
	}
	return r
}

// needing returns the record of an attempt that has recorded no command yet. It may come to need both proofs, and not to need less. The
// configuration for a node that was gone counts once the node has registered again.
func (r Record) needing(c Config) Record {
	r.Both = r.Both || c.Both
	return r
}

// prepare taints the node, and then begins to stop it. A node that returns early then doesn't start the pods again that are about to move.
func prepare(c Config, r Record, f Facts) Step {
	n := f.Node
	switch replaced := n.Exists && !r.sameNode(n); {
	case replaced && (r.Attempt > 1 || r.Void > 0):
		return write(r.needing(c).of(n).in(Preparing, r.Since, r.Reason)) // it has registered again
	case replaced && f.Power.Off.IsZero():
		return write(r.in(Failed, f.Now, NodeReplaced))
	case n.Exists && !replaced && !n.Tainted:
		return taint(c, r, f)
	case c.ByPromise:
		r.Revoked, r.CommandedAt = true, f.Now
		return write(r.in(Condemning, f.Now, r.Reason))
	}
	return firstOff(c, r, f)
}

// taint taints the recorded node. It gives up once a try has failed at the limit or later.
func taint(c Config, r Record, f Facts) Step {
	switch {
	case f.Node.BootID != r.BootID:
		return write(r.needing(c).of(f.Node).in(Preparing, r.Since, r.Reason)) // it has booted, and its pods have started without the taint
	case f.failedSince(r.Since.Add(c.taintLimit())):
		return attemptFailed(c, r, f, TaintTimedOut)
	}
	return do(TaintNode)
}

// firstOff commands the power off for the first time in an attempt. An earlier process may have sent that command already: a node that has
// booted since needs no other.
func firstOff(c Config, r Record, f Facts) Step {
	p := f.Power
	_, rebooted := newBoot(r, f.Node)
	switch {
	case !r.PoweredOff:
		r.PoweredOff = true
		return write(r)
	case p.Off.IsZero() && !f.Now.Before(p.RetryAt) && (c.Off || !rebooted):
		return do(CommandOff)
	}
	r.CommandedAt, r.Revoked = f.Now, r.Revoked || r.Both
	if p.Off.After(r.Since) {
		r.CommandedAt = p.Off
	}
	return write(r.in(PoweringOff, f.Now, r.Reason))
}

// powerOff waits for a proof.
func powerOff(c Config, r Record, f Facts) Step {
	if r.voidTooOften() {
		return attemptFailed(c, r, f, PoweredOnByOthers)
	}
	if r.runsUntainted(f.Node) && (c.Off || !f.Node.Ready) {
		return anew(c, r, f)
	}
	if s, ok := byBoot(r, f); ok && !c.Off {
		return s
	}
	if r.Both {
		return stopByBoth(c, r, f)
	}
	return stop(c, r, f)
}

// byBoot returns the step after a proof by a new boot, or the step to find out whether it is a proof. There is no such step where it is none: a pod
// that tolerates the taint may have started in that boot, or that is not known.
func byBoot(r Record, f Facts) (Step, bool) {
	proof, ok := newBoot(r, f.Node)
	switch w := f.Workload; {
	case !ok:
		return Step{}, false
	case f.Node.Ready: // nothing is released
	case w == nil:
		return do(CountWorkload), true
	case w.Failed || w.Tolerant > 0:
		return Step{}, false
	}
	return proven(r, f, proof), true
}

// anew records the node as it is now. It has booted, and its pods may have started, since others have removed the taint.
func anew(c Config, r Record, f Facts) Step {
	if r.Reason != ProofVoid { // else it was counted
		r.Void++
	}
	if r.Void%maxVoid == 0 {
		return attemptFailed(c, r, f, BootedUntainted)
	}
	return write(r.needing(c).of(f.Node).in(Preparing, f.Now, BootedUntainted))
}

// voidTooOften reports whether an attempt ends, since a proof has just been void as often as that may be.
func (r Record) voidTooOften() bool { return r.Reason == ProofVoid && r.Void%maxVoid == 0 }

// stop has the power commanded off and read until that is a proof.
func stop(c Config, r Record, f Facts) Step {
	if proof, ok := provenOff(f.Power); ok {
		return proven(r, f, proof)
	}
	limit := r.Since.Add(c.Limits.PowerOff)
	if !f.Now.Before(limit) {
		return attemptFailed(c, r, f, PowerOffTimedOut)
	}
	p := f.Power
	switch {
	case f.Now.Before(p.RetryAt):
		return wait(PowerNotRead, p.RetryAt, limit)
	case p.Off.IsZero():
		return do(CommandOff)
	case p.FirstOff.State == IsOff:
		return readAt(f, p.FirstOff.Begun.Add(readingsApart), PowerOffOnce, limit)
	case p.Last.State == IsOn && !f.Now.Before(p.Off.Add(repeatCommand)):
		return do(CommandOff)
	}
	return readAt(f, p.next(), PowerNotOff, limit)
}

// next returns when the power is to be read again. Before the first reading, that time is over.
func (p Power) next() time.Time { return p.Last.Ended.Add(poll) }

// readAt returns a step that reads the power, or waits until then.
func readAt(f Facts, at time.Time, why Reason, limit time.Time) Step {
	if f.Now.Before(at) {
		return wait(why, at, limit)
	}
	return do(ReadPower)
}

// proven returns the step after a proof.
func proven(r Record, f Facts, p Proof) Step {
	r.ReleasedBefore = r.MayHaveReleased()
	r.Proof, r.Released, r.ReleasedAt = p, false, time.Time{}
	switch {
	case p.Kind.byPower() && f.Node.Exists:
		r.OffBootID = f.Node.BootID
	case p.Kind == NewBoot:
		r.OffBootID = "" // that boot runs, also if the power was read off in it
	}
	return write(r.in(Releasing, f.Now, ""))
}

// attemptFailed returns the step after a power cycle that came to nothing.
func attemptFailed(c Config, r Record, f Facts, why Reason) Step {
	switch {
	case r.Attempt <= c.Retries:
		r.Attempt++
		r.Both, r.Proof, r.Times = c.Both, Proof{}, Times{}
		return write(r.of(f.Node).in(Preparing, f.Now, why))
	case c.DeleteMachine:
		return write(r.in(DeletingMachine, f.Now, why))
	}
	return write(r.in(Failed, f.Now, why))
}

// powerOn waits until the power is observed on after a command. A node that seems to be back is no reason to leave the command out. The
// host may have been powered off after the node reported.
func powerOn(c Config, r Record, f Facts) Step {
	if !f.Power.On.IsZero() && f.Power.Last.State == IsOn {
		r.PoweredOff = false
		return write(r.in(Booting, f.Now, r.Reason))
	}
	limit := powerOnLimit(c, r, f)
	switch over := !f.Now.Before(limit) && f.Power.tried(); {
	case over && r.back(f.Node):
		return write(r.in(Booting, f.Now, PowerOnTimedOut)) // others have powered it on
	case over:
		return attemptFailed(c, r, f, PowerOnTimedOut)
	}
	return turnOn(f, limit)
}

// tried reports whether this process has tried to power the host on and has seen the outcome. Without that the limit doesn't count: the
// process may have been away for longer.
func (p Power) tried() bool {
	return !p.RetryAt.IsZero() || !p.On.IsZero() && !p.Last.Ended.IsZero()
}

// powerOnLimit returns when the power must be observed on at the latest. The phase starts with the first turn of the host.
func powerOnLimit(c Config, r Record, f Facts) time.Time {
	if f.PowerOnTurn.After(r.Since) {
		return f.PowerOnTurn.Add(c.Limits.PowerOn)
	}
	return r.Since.Add(c.Limits.PowerOn)
}

// turnOn commands the power on, and reads it.
func turnOn(f Facts, limit time.Time) Step {
	p := f.Power
	due := !f.Now.Before(f.PowerOnAt)
	switch {
	case f.Now.Before(p.RetryAt):
		return wait(PowerNotRead, p.RetryAt, limit)
	case p.On.IsZero() && !due:
		return wait(PowerOnNotDue, f.PowerOnAt)
	case p.On.IsZero(), due && p.Last.State == IsOff && !f.Now.Before(p.On.Add(repeatCommand)):
		return do(CommandOn)
	}
	return readAt(f, p.next(), PowerNotOn, limit)
}

// deleteMachine deletes the machine and waits until it is gone.
func deleteMachine(c Config, r Record, f Facts) Step {
	limit := r.Since.Add(c.Limits.MachineDeletion)
	overdue := !f.Now.Before(limit)
	switch m := f.Machine; {
	case m == nil:
		return do(ReadMachine)
	case overdue && (m.Failed || m.Deleting):
		return write(r.in(Failed, f.Now, MachineDeletionTimedOut))
	case m.Failed:
		return wait(MachineNotRead, m.RetryAt, limit)
	case !m.Exists:
		return machineGone(c, r, f, limit)
	case m.Deleting:
		return wait(MachineNotGone, f.Now.Add(pollMachine), limit)
	case m.Kept != "":
		return write(r.in(Failed, f.Now, m.Kept))
	case f.failedSince(limit):
		r.MachineDeletion = false // its provider does not power the host
		return write(r.in(Failed, f.Now, MachineDeletionTimedOut))
	case !r.MachineDeletion:
		r.MachineDeletion = true
		return write(r)
	}
	return do(RemoveMachine)
}

// machineGone ends a fencing whose machine was deleted. Its provider powers the host from now on, unless that is kept off.
func machineGone(c Config, r Record, f Facts, limit time.Time) Step {
	if s, ok := leave(r, f, limit); !ok {
		return s
	}
	if r.PoweredOff {
		return write(r.in(Failed, f.Now, HostNotLeft))
	}
	if s, ok := freed(c, r, f); !ok {
		return s
	}
	return write(r.in(Succeeded, f.Now, MachineGone))
}

// boot waits until the node is Ready under another boot ID.
func boot(c Config, r Record, f Facts) Step {
	if r.back(f.Node) {
		return write(r.seenBack(f).in(Restoring, f.Now, r.Reason))
	}
	limit := r.Since.Add(c.Limits.Boot)
	if !f.Now.Before(limit) {
		return attemptFailed(c, r, f, BootTimedOut)
	}
	return wait(NodeNotBack, limit)
}

// restore changes the node back, and ends the fencing.
func restore(c Config, r Record, f Facts, end Phase) Step {
	switch n := f.Node; {
	case n.Exists && n.Changed:
		return do(RestoreNode)
	case n.Exists && n.Tainted:
		return do(UntaintNode)
	}
	if s, ok := freed(c, r, f); !ok {
		return s
	}
	return write(r.seenBack(f).in(end, f.Now, r.Reason)) // an abort may find the node back
}
