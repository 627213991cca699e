package core

// PolicyRefusal gives the gate that holds back every repair of a policy at once: the first that is asked
// of those which are not about one target. It tells whether there is one.
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
