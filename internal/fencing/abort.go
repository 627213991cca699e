package fencing

import "time"

// abort takes back what was done: the out-of-service taint, the power, and what was changed on the node.
func abort(c Config, r Record, f Facts) Step {
	if r.Phase == "" || r.over(f) {
		return do(Finish)
	}
	if r.holdsOutOfService(f.Node) { // in Releasing
		return do(RemoveOutOfService)
	}
	if r.Phase == Aborted {
		return restore(c, r, f, Aborted)
	}
	if r.Phase != Aborting {
		why := Stopped
		if f.Deleting {
			why = Deleted
		}
		return write(r.in(Aborting, f.Now, why))
	}
	if n := f.Node; n.Exists && n.Ready && (n.Changed || n.Tainted) {
		return restore(c, r, f, Aborted) // a node that serves doesn't wait for its BMC
	}
	if s, ok := powerBack(c, r, f); !ok {
		return s
	}
	if s, ok := freed(c, r, f); !ok {
		return s
	}
	if limit := r.Since.Add(c.Limits.PowerOn + c.Limits.Boot); c.awaitsNode(r, f) && f.Now.Before(limit) {
		return wait(NodeNotBack, limit)
	}
	return restore(c, r, f, Aborted)
}

// awaitsNode reports whether the node was deleted and is to be restored once it is back.
func (c Config) awaitsNode(r Record, f Facts) bool {
	return r.DeletedNode && !c.Off && !f.Node.Exists
}

// over reports whether an abort has nothing left to do. A fencing that has ended keeps the taint of a host that is
// off, or that a user has to inspect. The taint stays until the fencing is deleted.
func (r Record) over(f Facts) bool {
	if n := f.Node; n.Exists && (n.Changed || n.Tainted) {
		return r.Phase.Final() && r.Phase != Aborted && !f.Deleting // after an abort the node may come back late
	}
	return r.Phase == Aborted || r.Phase == Succeeded && !r.PoweredOff || r.Phase.Final() && !f.Deleting
}

// powerBack reports whether the power is on again, as far as that is to be seen to. If not, it returns what to do. A host that can't be
// reached doesn't hold an abort for longer than the limit.
func powerBack(c Config, r Record, f Facts) (Step, bool) {
	if r.MachineDeletion {
		return handOver(r, f, powerOnLimit(c, r, f))
	}
	if !r.PoweredOff || c.Off {
		return Step{}, true
	}
	if !f.Power.On.IsZero() && f.Power.Last.State == IsOn {
		r.PoweredOff = false
		return write(r), false
	}
	limit := powerOnLimit(c, r, f)
	if !f.Now.Before(limit) && f.Power.tried() {
		return Step{}, true
	}
	return turnOn(f, limit), false
}

// handOver reports whether the host is left to the provider of a machine that was deleted. If not, it returns what to do. The deletion may be
// recorded and never requested: then the machine stands, and nothing but this fencing powers its host.
func handOver(r Record, f Facts, limit time.Time) (Step, bool) {
	switch m := f.Machine; {
	case !r.PoweredOff: // nothing is left to leave
	case m == nil:
		return do(ReadMachine), false
	case m.Failed && f.Now.Before(limit):
		return wait(MachineNotRead, m.RetryAt, limit), false
	case m.Exists && !m.Deleting:
		r.MachineDeletion = false
		return write(r), false
	}
	return leave(r, f, limit)
}

// leave reports whether the host is left to the provider of the machine that was deleted, which powers it from now on. If not, it returns
// what to do. After the limit it is given up.
func leave(r Record, f Facts, limit time.Time) (Step, bool) {
	p := f.Power
	switch over := !f.Now.Before(limit) && p.tried(); {
	case !r.PoweredOff, over:
		return Step{}, true
	case p.Left:
		r.PoweredOff = false
		return write(r), false
	case f.Now.Before(p.RetryAt):
		return wait(PowerNotRead, p.RetryAt, limit), false
	}
	return do(LeaveHost), false
}
