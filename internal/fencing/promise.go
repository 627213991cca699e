package fencing

import "time"

// Promise is what this process knows of the promise that the node itself has made: to be reset unless it renews the promise in time. A new
// process knows nothing.
type Promise struct {
	// Begun and Ended are when the last read began and ended, or zero. State and Boot are what it showed.
	Begun, Ended time.Time
	State        PromiseState
	// Boot is the boot ID that the promise is about.
	Boot string
	// Expires is when a revoked promise has expired, or zero if no time proves anything.
	Expires time.Time
	// Expired is set if the read that began then shows that the promise was revoked until it had expired. Package selffence decides that.
	Expired bool
	// Unwitnessed is set if a revoked promise doesn't expire before more witnesses of the node are known to have read that it was revoked.
	Unwitnessed bool
	// RetryAt is when the next read or write may be tried after a failure, or zero.
	RetryAt time.Time
}

// PromiseState is how a promise stands. Its zero value is unknown.
type PromiseState int

// States of a promise.
const (
	PromiseUnknown PromiseState = iota
	// NoPromise: the node has made none, or has withdrawn it.
	NoPromise
	// Promised: the promise stands.
	Promised
	// Revoked: this fencing has revoked the promise, so that the node can't renew it.
	Revoked
	// RevokedByOther: another fencing has.
	RevokedByOther
	// RevokedByGone: a fencing that doesn't exist any more has.
	RevokedByGone
)

// Condemning is the phase in place of PoweringOff where the node fences itself.
const Condemning Phase = "Condemning"

// PromiseExpired is a proof: a promise of the node to be reset has expired, and it was revoked all the time.
const PromiseExpired ProofKind = "PromiseExpired"

// Reasons of a fencing by promise to wait.
const (
	// PromiseNotRead: the promise of the node can't be read or written for now.
	PromiseNotRead Reason = "PromiseNotRead"
	// PromiseStands: the promise was revoked and has not expired.
	PromiseStands Reason = "PromiseStands"
	// PromiseNotTimed: the promise was revoked, and no time proves that the node was reset.
	PromiseNotTimed Reason = "PromiseNotTimed"
	// WitnessesNotAcknowledged: the promise was revoked, and its time has not begun: too few witnesses are known to have read that.
	WitnessesNotAcknowledged Reason = "WitnessesNotAcknowledged"
	// PromiseOfOther: another fencing has revoked the promise.
	PromiseOfOther Reason = "PromiseOfOther"
	// PromiseOfOtherBoot: the promise is about another boot than the node shows.
	PromiseOfOtherBoot Reason = "PromiseOfOtherBoot"
	// NothingPromised: the node has made no promise.
	NothingPromised Reason = "NothingPromised"
)

// Reasons of a phase of a fencing by promise.
const (
	// FenceTimedOut: there was no proof by promise within the limit.
	FenceTimedOut Reason = "FenceTimedOut"
	// FreedByOthers: the promise was not revoked any more just before the release, several times.
	FreedByOthers Reason = "FreedByOthers"
)

// about reports whether a promise is about the recorded boot of a node.
func (p Promise) about(r Record) bool { return r.BootID != "" && p.Boot == r.BootID }

// stale reports whether a promise is revoked without use: for another boot than the recorded one, or by a fencing that is gone. It keeps the
// node from making another.
func (p Promise) stale(r Record) bool {
	return p.State == Revoked && !p.about(r) || p.State == RevokedByGone
}

// next returns when the promise is to be read again. Before the first reading, that time is over.
func (p Promise) next() time.Time { return p.Ended.Add(poll) }

// provenExpired returns the proof by an expired promise, if there is one. The node shows no later boot than the promise is about.
func provenExpired(r Record, n *Node, p Promise) (Proof, bool) {
	if p.State != Revoked || !p.Expired || !p.about(r) || !r.sameNode(n) || n.BootID != r.BootID {
		return Proof{}, false
	}
	return Proof{Kind: PromiseExpired, At: p.Begun}, true
}

// condemn revokes the promise of the node and waits for a proof.
func condemn(c Config, r Record, f Facts) Step {
	if r.voidTooOften() {
		return attemptFailed(c, r, f, FreedByOthers)
	}
	if r.runsUntainted(f.Node) && !f.Node.Ready {
		return anew(c, r, f)
	}
	if s, ok := byBoot(r, f); ok {
		return s
	}
	return expire(c, r, f)
}

// expire has the promise of the node revoked and read until that is a proof.
func expire(c Config, r Record, f Facts) Step {
	if proof, ok := provenExpired(r, f.Node, f.Promise); ok {
		return proven(r, f, proof)
	}
	limit := r.Since.Add(c.Limits.Fence)
	if !f.Now.Before(limit) {
		return attemptFailed(c, r, f, FenceTimedOut)
	}
	p := f.Promise
	switch {
	case f.Now.Before(p.RetryAt):
		return wait(PromiseNotRead, p.RetryAt, limit)
	case p.stale(r):
		return do(FreePromise)
	case p.State == Promised && p.about(r):
		return do(RevokePromise)
	case f.Now.Before(p.Expires):
		return wait(PromiseStands, p.Expires, limit)
	case f.Now.Before(p.next()):
		return wait(p.lacks(), p.next(), limit)
	}
	return do(ReadPromise)
}

// lacks returns why a promise proves nothing.
func (p Promise) lacks() Reason {
	switch {
	case p.State == Revoked && p.Expires.IsZero() && p.Unwitnessed:
		return WitnessesNotAcknowledged
	case p.State == Revoked && p.Expires.IsZero():
		return PromiseNotTimed
	case p.State == RevokedByOther:
		return PromiseOfOther
	case p.State == Promised, p.State == Revoked:
		return PromiseOfOtherBoot
	}
	return NothingPromised
}

// confirmExpired reports whether a proof by an expired promise holds in this observation: the promise is still revoked, and the node was read after
// that. If not, it returns what to do.
func confirmExpired(r Record, f Facts, limit time.Time) (Step, bool) {
	if _, ok := newBoot(r, f.Node); ok {
		return Step{}, true
	}
	p := f.Promise
	switch {
	case f.Now.Before(p.RetryAt):
		return wait(PromiseNotRead, p.RetryAt, limit), false
	case p.Begun.Before(f.Begun):
		return do(ReadPromise), false
	case p.State != Revoked || !p.about(r):
		return void(r, f), false
	case f.Node.ReadAt.Before(p.Ended):
		return do(ReadNode), false
	}
	return Step{}, true
}

// freed reports whether this fencing holds no promise revoked. If not, it returns what to do. A promise that can't be read or written doesn't
// hold up the end of a fencing for longer than the limit.
func freed(c Config, r Record, f Facts) (Step, bool) {
	if !r.Revoked {
		return Step{}, true
	}
	p, limit := f.Promise, r.Since.Add(c.Limits.Fence)
	failing := f.Now.Before(p.RetryAt)
	switch {
	case failing && f.Now.Before(limit):
		return wait(PromiseNotRead, p.RetryAt, limit), false
	case !failing && p.Begun.Before(f.Begun):
		return do(ReadPromise), false
	case !failing && p.State == Revoked:
		return do(FreePromise), false
	}
	return Step{}, true
}
