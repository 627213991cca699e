package core

// PolicyRefusal returns the first gate that holds back every repair of a policy at once, and reports whether there is
// one. Gates about one target don't count.
func PolicyRefusal(p *Policy, t Tally) (Refusal, bool) {
	switch {
	case p.Problem != "":
		return Refusal{Gate: PolicyInvalid, Detail: p.Problem}, true
	case p.Paused:
		return Refusal{Gate: PolicyPaused, Detail: p.PauseReason, Advice: p.Advice[PolicyPaused]}, true
	case !t.Permitted:
		return shortCircuitRefusal(p, t), true
	case t.CoolingDown:
		return Refusal{Gate: StormCooldown, Until: t.ResumeAt}, true
	}
	return Refusal{}, false
}
