package fencing

import "time"

// OffAndExpired is a proof: the power was observed off as for PowerOff, and a promise has expired as for PromiseExpired.
const OffAndExpired ProofKind = "PowerOffAndPromiseExpired"

// stopByBoth stops a node by its power and by its promise at the same time, until both are proofs. Neither waits for the other.
func stopByBoth(c Config, r Record, f Facts) Step {
	if !r.Revoked {
		r.Revoked = true // it has come to need both since its first command
		return write(r)
	}
	off, isOff := provenOff(f.Power)
	expired, hasExpired := provenExpired(r, f.Node, f.Promise)
	switch {
	case isOff && hasExpired:
		return proven(r, f, Proof{Kind: OffAndExpired, At: later(off.At, expired.At)})
	case isOff:
		return expire(c, r, f)
	case hasExpired:
		return stop(c, r, f)
	}
	byPromise, byPower := expire(c, r, f), stop(c, r, f)
	switch {
	case byPower.Kind != Wait:
		return byPower // it may take long until a BMC acts
	case byPromise.Kind != Wait:
		return byPromise
	}
	return wait(byPower.Reason, byPower.Until, byPromise.Until)
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// confirmBoth reports whether a proof by the power and by a promise holds in this observation. If not, it returns what to do.
func confirmBoth(c Config, r Record, f Facts, limit time.Time) (Step, bool) {
	if _, ok := newBoot(r, f.Node); ok && !c.Off {
		return Step{}, true
	}
	if s, ok := confirmOff(r, f, limit); !ok {
		return s, false
	}
	return confirmExpired(r, f, limit)
}
