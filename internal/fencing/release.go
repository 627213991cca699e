package fencing

// release lets the workload of a node that has stopped start elsewhere.
func release(c Config, r Record, f Facts) Step {
	n := f.Node
	if !r.sameNode(n) || r.ForeignOutOfService {
		return released(c, r, f) // there is nothing to release, or others have released it
	}
	if !n.Tainted {
		return do(TaintNode) // others have removed it
	}
	if s, ok := confirm(r, f); !ok {
		return s
	}
	limit := r.Since.Add(c.Limits.Release)
	overdue := !f.Now.Before(limit)
	switch {
	case n.Ready && r.Proof.Kind == NewBoot:
		return released(c, r, f) // its kubelet finishes what is left
	case r.Drained:
		return released(c, r, f)
	case n.OutOfService && r.Released:
		return drain(c, r, f)
	case overdue:
		return released(c, r.because(ReleaseTimedOut), f)
	case n.Ready: // the API server doesn't know yet that it has stopped
		return wait(NodeReady, f.Now.Add(poll), limit)
	case !r.Released:
		r.Released = true
		return write(r)
	case c.DeleteNode:
		return do(RemoveNode)
	}
	return do(SetOutOfService)
}

// confirm reports whether the proof holds in this look, with a read of the power that began in it and a read of the node that began
// after that. If not, it returns what to do.
func confirm(r Record, f Facts) (Step, bool) {
	if r.Proof.Kind == NewBoot {
		if _, ok := newBoot(r, f.Node); ok {
			return Step{}, true
		}
		return void(r, f), false
	}
	p := f.Power
	switch {
	case f.Now.Before(p.RetryAt):
		return wait(PowerNotRead, p.RetryAt), false
	case p.Last.Begun.Before(f.Begun):
		return do(ReadPower), false
	case p.Last.State != IsOff:
		return void(r, f), false
	case f.Node.ReadAt.Before(p.Last.Ended):
		return do(ReadNode), false
	}
	return Step{}, true
}

// void returns to the search of a proof. What was released in the meantime is taken back first.
func void(r Record, f Facts) Step {
	if r.holdsOutOfService(f.Node) {
		return do(RemoveOutOfService)
	}
	r.Proof, r.Released, r.Drained = Proof{}, false, false
	r.Void++
	return write(r.in(PoweringOff, f.Now, ProofVoid))
}

// drain waits until nothing is left on the node, and records that. Otherwise the node would be tainted again once it isn't any more.
func drain(c Config, r Record, f Facts) Step {
	limit := r.Since.Add(c.Limits.Release)
	switch w := f.Workload; {
	case !f.Now.Before(limit):
		r = r.because(ReleaseTimedOut)
	case w == nil:
		return do(CountWorkload)
	case w.Failed:
		return wait(WorkloadNotCounted, w.RetryAt, limit)
	case !w.empty():
		return wait(WorkloadLeft, f.Now.Add(poll), limit)
	}
	r.Drained = true
	return write(r)
}

// because returns the record with a reason, which the next phase has too.
func (r Record) because(why Reason) Record {
	r.Reason = why
	return r
}

// released returns the step after the release.
func released(c Config, r Record, f Facts) Step {
	switch {
	case r.holdsOutOfService(f.Node):
		return do(RemoveOutOfService)
	case r.Proof.Kind == NewBoot:
		r.PoweredOff = false
		return write(r.in(Booting, f.Now, r.Reason))
	case c.Off:
		return write(r.in(Succeeded, f.Now, r.Reason))
	}
	return write(r.in(PoweringOn, f.Now, r.Reason))
}
