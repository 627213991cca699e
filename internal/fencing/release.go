package fencing

import "time"

// maxVoid is how many proofs of one attempt may be void.
const maxVoid = 3

// release lets the workload of a node that has stopped start elsewhere.
func release(c Config, r Record, f Facts) Step {
	n := f.Node
	limit := r.Since.Add(c.Limits.Release)
	overdue := !f.Now.Before(limit)
	switch deleted := r.MayHaveReleased() && r.DeletedNode && !n.Exists; {
	case deleted && !overdue:
		return drain(c, r, f, limit)
	case !deleted && !r.sameNode(n), r.ForeignOutOfService:
		return released(c, r, f) // there is nothing to release, or others have released it
	case overdue && c.Off && !r.Released: // nothing else of it would show that the workload is held
		return attemptFailed(c, r, f, ReleaseTimedOut)
	case overdue:
		return released(c, r.because(ReleaseTimedOut), f)
	}
	if s, ok := staysTainted(c, r, f); !ok {
		return s
	}
	if s, ok := confirm(c, r, f, limit); !ok {
		return s
	}
	if s, ok := startedNone(r, f, limit); !ok {
		return s
	}
	return releaseStopped(c, r, f, limit)
}

// startedNone reports whether no pod that the release moves may have started in a new boot. If not, it returns what to do.
func startedNone(r Record, f Facts, limit time.Time) (Step, bool) {
	switch w := f.Workload; {
	case f.Node.Ready || !r.mayRun(f.Node):
		return Step{}, true
	case w == nil:
		return do(CountWorkload), false
	case w.Failed:
		return wait(WorkloadNotCounted, w.RetryAt, limit), false
	case w.Tolerant > 0:
		return void(r, f), false
	}
	return Step{}, true
}

// staysTainted reports whether the node has the taint. If not, it returns what to do: others have removed it.
func staysTainted(c Config, r Record, f Facts) (Step, bool) {
	switch n := f.Node; {
	case r.runsUntainted(n) && n.Ready && !c.Off:
		return released(c, r, f), false // its kubelet finishes what is left
	case r.runsUntainted(n):
		return void(r, f), false
	case !n.Tainted:
		return do(TaintNode), false
	}
	return Step{}, true
}

// releaseStopped releases the workload of a node that has stopped, by a proof that holds now.
func releaseStopped(c Config, r Record, f Facts, limit time.Time) Step {
	switch n := f.Node; {
	case n.Ready && r.runsAnew(n):
		return released(c, r, f) // its kubelet finishes what is left
	case n.OutOfService && r.Released:
		return drain(c, r, f, limit)
	case n.Ready: // the API server doesn't know yet that it has stopped
		return wait(NodeReady, f.Now.Add(poll), limit)
	case !r.Released:
		r.Released, r.ReleasedAt, r.DeletedNode = true, f.Now, r.DeletedNode || r.deletes(c, n)
		return write(r)
	case r.deletes(c, n) && n.Deleting:
		return wait(NodeNotGone, f.Now.Add(pollWorkload), limit)
	case r.deletes(c, n):
		return do(RemoveNode)
	}
	return do(SetOutOfService)
}

// deletes reports whether the workload of a node is released by the deletion of the node. A node whose kubelet may run gets the taint in its
// place: a kubelet registers its node only once.
func (r Record) deletes(c Config, n *Node) bool { return c.DeleteNode && !r.mayRun(n) }

// mayRun reports whether a node shows a new boot in which the host was not proven off.
func (r Record) mayRun(n *Node) bool {
	_, booted := newBoot(r, n)
	return booted && n.BootID != r.OffBootID
}

// runsAnew reports whether a node runs under another boot ID, as far as the proof says that.
func (r Record) runsAnew(n *Node) bool {
	_, anew := newBoot(r, n)
	return r.Proof.Kind == NewBoot || (r.Proof.Kind == PromiseExpired || r.Proof.Kind == OffAndExpired) && anew
}

// confirm reports whether the proof holds in this observation. The read of the power must have begun in it, and the read of
// the node after that. If not, it returns what to do.
func confirm(c Config, r Record, f Facts, limit time.Time) (Step, bool) {
	if _, ok := newBoot(r, f.Node); ok && r.Proof.Kind == NewBoot {
		return Step{}, true
	}
	if r.Both && r.Proof.Kind != OffAndExpired {
		return void(r, f), false // found before it was known that the attempt needs both
	}
	switch r.Proof.Kind {
	case PromiseExpired:
		return confirmExpired(r, f, limit)
	case OffAndExpired:
		return confirmBoth(c, r, f, limit)
	case PowerOff:
		return confirmOff(r, f, limit)
	case NewBoot:
	}
	return void(r, f), false
}

// confirmOff reports whether a proof by the power holds in this observation. If not, it returns what to do.
func confirmOff(r Record, f Facts, limit time.Time) (Step, bool) {
	p := f.Power
	switch {
	case f.HostChanged:
		return void(r, f), false
	case f.Now.Before(p.RetryAt):
		return wait(PowerNotRead, p.RetryAt, limit), false
	case p.Last.Begun.Before(f.Begun):
		return do(ReadPower), false
	case p.Last.State != IsOff:
		return void(r, f), false
	case f.Node.ReadAt.Before(p.Last.Ended):
		return do(ReadNode), false
	}
	return Step{}, true
}

// void returns to the search of a proof. The record of that comes first, and then the out-of-service taint goes. If the taint were removed in
// this phase, one reading would release the node again.
func void(r Record, f Facts) Step {
	r.Proof = Proof{}
	r.Void++
	return write(r.searching(f.Now))
}

// searching returns the record of the phase in which the proof was found, without that proof. Without a command to power off, it was found by
// the promise alone.
func (r Record) searching(now time.Time) Record {
	if !r.PoweredOff {
		return r.in(Condemning, now, ProofVoid)
	}
	return r.in(PoweringOff, now, ProofVoid)
}

// drain waits until nothing is left on the node.
func drain(c Config, r Record, f Facts, limit time.Time) Step {
	switch w := f.Workload; {
	case w == nil:
		return do(CountWorkload)
	case w.Failed:
		return wait(WorkloadNotCounted, w.RetryAt, limit)
	case !w.empty():
		return wait(WorkloadLeft, f.Now.Add(pollWorkload), limit)
	}
	return released(c, r, f)
}

// because returns the record with a reason, which the next phase has too.
func (r Record) because(why Reason) Record {
	r.Reason = why
	return r
}

// released returns the step after the release. The out-of-service taint goes first in the next phase: were it removed in this one, a
// restart would set it again.
func released(c Config, r Record, f Facts) Step {
	if c.Off {
		return write(r.in(Succeeded, f.Now, r.Reason))
	}
	if c.ByPromise { // the reset boots it
		return write(r.in(Booting, f.Now, r.Reason))
	}
	return write(r.in(PoweringOn, f.Now, r.Reason))
}
