package core

import "slices"

// proposal is a repair, or a step of one, that the gates may refuse.
type proposal struct {
	target, leader int
	verdict        *Verdict
	// repair is the running repair whose remedy is to be called, none for a new one.
	repair int
	// step is the step in question, nil for the current step.
	step *Step
	// dryRun is set for the proposals of a dry run.
	dryRun bool
	// retry counts the repairs in a row before this one, all without success. relapsed is set where
	// they were repairs of the target itself.
	retry    int
	relapsed bool
}

// A policyGate belongs to one policy that selects the target. The gates of all policies that select
// it must be open, so that no limit of any of them is exceeded (I3).
type policyGate func(c *counts, policy int, p *proposal) (refusal Refusal, refuses bool)

// A targetGate is checked once for a target.
type targetGate func(c *counts, p *proposal) (refusal Refusal, refuses bool)

// The gates of a repair that has not begun, and of each step that deletes the target.
var policyGates = []policyGate{validGate, pauseGate, upgradeGate, shortCircuitGate, cooldownGate, inFlightGate, backoffGate} //nolint:gochecknoglobals // a constant

var targetGates = []targetGate{clockGate, unjudgedGate, remedyGate, templateGate, remediatorGate, ownerGate, exclusionGate, leaseGate, quorumGate, controlPlaneGate} //nolint:gochecknoglobals // a constant

// The gates of the further steps of a running repair, which has its place in the limits already.
var laterPolicyGates = []policyGate{validGate, pauseGate, upgradeGate} //nolint:gochecknoglobals // a constant

// The gates of a repair that gives up its last step. The target stays as it is then.
var lastTargetGates = []targetGate{clockGate, unjudgedGate, templateGate, exclusionGate, leaseGate} //nolint:gochecknoglobals // a constant

var laterTargetGates = []targetGate{clockGate, unjudgedGate, templateGate, remediatorGate, exclusionGate, leaseGate, quorumGate, controlPlaneGate} //nolint:gochecknoglobals // a constant

// checkStep checks the gates that the step of a proposal must pass.
func (c *counts) checkStep(p *proposal, hold func(Refusal)) {
	if c.isFurtherStep(p) {
		c.checkGates(laterPolicyGates, laterTargetGates, p, hold)
	} else {
		c.checkGates(policyGates, targetGates, p, hold)
	}
}

// checkGates checks gates for a proposal and passes on each refusal. It checks policy gates for each
// policy that acts or leads.
func (c *counts) checkGates(ofPolicies []policyGate, ofTarget []targetGate, p *proposal, hold func(Refusal)) {
	for _, i := range c.verdictsOnGroup(p.target) {
		policy := c.verdicts[i].Policy
		if c.policies[policy].DryRun && policy != p.leader {
			continue
		}
		for _, gate := range ofPolicies {
			if r, refuses := gate(c, policy, p); refuses {
				r.Target = p.target
				hold(r)
			}
		}
	}
	for _, gate := range ofTarget {
		if r, refuses := gate(c, p); refuses {
			r.Target = p.target
			hold(r)
		}
	}
}

// stepOf returns the step of a proposal; nil when there is none.
func (in *input) stepOf(p *proposal) *Step {
	if p.step != nil {
		return p.step
	}
	if p.repair != none {
		step, _ := in.cluster.Repairs[p.repair].step()
		return step
	}
	return in.firstStep(p.leader, p.target)
}

// clockGate refuses a proposal while the clock is wrong. With a clock that is ahead, every
// criterion and every step would end before its time (I5).
func clockGate(c *counts, p *proposal) (Refusal, bool) {
	gate := clockHolds(c.cluster, &c.policies[p.leader].ID)
	return Refusal{Policy: p.leader, Gate: gate}, gate != 0
}

func validGate(c *counts, policy int, _ *proposal) (Refusal, bool) {
	if problem := c.policies[policy].Problem; problem != "" {
		return Refusal{Policy: policy, Gate: PolicyInvalid, Detail: problem}, true
	}
	return Refusal{}, false
}

func pauseGate(c *counts, policy int, _ *proposal) (Refusal, bool) {
	if c.policies[policy].Paused {
		return Refusal{Policy: policy, Gate: PolicyPaused, Detail: c.policies[policy].PauseReason}, true
	}
	return Refusal{}, false
}

func shortCircuitGate(c *counts, policy int, _ *proposal) (Refusal, bool) {
	t := &c.tallies[policy]
	if t.Permitted {
		return Refusal{}, false
	}
	r := shortCircuitRefusal(&c.policies[policy], *t)
	r.Policy = policy
	return r, true
}

// shortCircuitRefusal returns the refusal of a policy's short circuit.
func shortCircuitRefusal(p *Policy, t Tally) Refusal {
	r := Refusal{Gate: TooManyUnhealthy, Have: t.Unhealthy(), Max: t.MaxUnhealthy, Total: t.Counted()}
	if t.AwaitingReplacement > 0 {
		r.Detail = t.Waits
	}
	if p.ShortCircuit.Range != nil {
		r.Min = p.ShortCircuit.Range.From
	}
	return r
}

func cooldownGate(c *counts, policy int, _ *proposal) (Refusal, bool) {
	t := &c.tallies[policy]
	if !t.CoolingDown {
		return Refusal{}, false
	}
	return Refusal{Policy: policy, Gate: StormCooldown, Until: t.ResumeAt}, true
}

// inFlightGate bounds the repairs in flight. A repair in the ledger has its place before all
// younger ones. A target with a remediation request has its place too.
func inFlightGate(c *counts, policy int, p *proposal) (Refusal, bool) {
	if c.passesInFlight(policy, p) {
		return Refusal{}, false
	}
	t := &c.tallies[policy]
	others := t.InFlight
	switch {
	case p.repair == none:
		others -= c.placesOf(policy, p.target)
	case c.waitsForTurn(p.repair, p.target):
		others -= c.later[policy]
	default:
		others -= c.later[policy] + c.verdictsOf(policy, p.target)
	}
	if others < t.MaxInFlight {
		return Refusal{}, false
	}
	return Refusal{Policy: policy, Gate: InFlightLimit, Have: others, Max: t.MaxInFlight, Total: t.Total, Detail: t.Waits}, true
}

// passesInFlight reports whether a proposal passes the limit of repairs in flight.
func (in *input) passesInFlight(policy int, p *proposal) bool {
	return in.policies[policy].ReclaimsBypassMaxInFlight && p.verdict.reclaimed()
}

// upgradeGate holds back repairs during upgrades. A node that is being upgraded restarts, so its
// state says little about its health.
func upgradeGate(c *counts, policy int, p *proposal) (Refusal, bool) {
	if !c.policies[policy].WaitsForUpgrades {
		return Refusal{}, false
	}
	switch {
	case c.cluster.Upgrading != No:
		return Refusal{Policy: policy, Gate: ClusterUpgrading, Fact: c.cluster.Upgrading, Why: c.cluster.UpgradingWhy}, true
	case c.cluster.Targets[p.target].Node.Upgrading:
		return Refusal{Policy: policy, Gate: TargetUpgrading}, true
	}
	return Refusal{}, false
}

func remedyGate(c *counts, p *proposal) (Refusal, bool) {
	if c.stepOf(p) != nil {
		return Refusal{}, false
	}
	return Refusal{Policy: p.leader, Gate: NoRemedy, Detail: "it has no step by which to repair"}, true
}

// templateGate refuses a repair while any of its steps is unusable. A repair must not end for want
// of a step that was never checked.
func templateGate(c *counts, p *proposal) (Refusal, bool) {
	t := &c.cluster.Targets[p.target]
	unusable := UnusableStep(c.policies[p.leader].StepsFor(t), t)
	if step := c.stepOf(p); unusable == nil && step != nil && step.problemFor(t) != "" {
		unusable = step
	}
	if unusable == nil {
		return Refusal{}, false
	}
	return Refusal{Policy: p.leader, Gate: TemplateUnusable, Detail: unusable.problemFor(t)}, true
}

// UnusableStep returns the first of some steps that can't be taken for a target, or nil.
func UnusableStep(steps []Step, t *Target) *Step {
	for i := range steps {
		if steps[i].problemFor(t) != "" {
			return &steps[i]
		}
	}
	return nil
}

// remediatorGate refuses a step while another remediator works on the target. A mark for a remediator waits while the
// target is claimed. A request waits for the end of the mark where its policy says so. Each step waits while the
// remediator of a former namesake is at work.
func remediatorGate(c *counts, p *proposal) (Refusal, bool) {
	if i := c.replacingRequest(p.target); i != none {
		q := &c.cluster.Requests[i]
		return Refusal{Policy: p.leader, Gate: AnotherRemediator, Detail: q.ID.String() + " still replaces " + q.Target.Kind + " " + q.Target.Name}, true
	}
	step := c.stepOf(p)
	if step == nil {
		return Refusal{}, false
	}
	t, effect := &c.cluster.Targets[p.target], step.Nature.Effect()
	switch {
	case effect.MarksForRemediator && t.Claimed:
		return Refusal{Policy: p.leader, Gate: AnotherRemediator, Detail: t.Claimant}, true
	case effect.CreatesRequest && t.ExternallyRemediated && c.policies[p.leader].RequestsAwaitMarks:
		return Refusal{Policy: p.leader, Gate: AnotherRemediator, Detail: "it is marked for an outside remediator"}, true
	}
	return Refusal{}, false
}

// problemFor returns why a step can't be taken for a target, and "" if it can.
func (s *Step) problemFor(t *Target) string {
	if s.Problem != "" {
		return s.Problem
	}
	return s.Unfit(t)
}

func ownerGate(c *counts, p *proposal) (Refusal, bool) {
	step := c.stepOf(p)
	if step == nil || !step.Nature.Effect().OwnerReplaces || c.cluster.Targets[p.target].Owner.UID != "" {
		return Refusal{}, false
	}
	return Refusal{Policy: p.leader, Gate: NoOwner}, true
}

func exclusionGate(c *counts, p *proposal) (Refusal, bool) {
	return Refusal{Policy: p.leader, Gate: Excluded}, c.cluster.Targets[p.target].Node.Excluded
}

// leaseGate refuses a target whose node's lease has another holder, where any acting policy heeds
// leases.
func leaseGate(c *counts, p *proposal) (Refusal, bool) {
	lease := c.cluster.Targets[p.target].Lease
	if !c.heedsLeases(p) || !lease.heldByOther(c.policies[p.leader].Holder, c.now) {
		return Refusal{}, false
	}
	return Refusal{Policy: p.leader, Gate: LeaseHeld, Until: lease.Until, Detail: lease.Holder}, true
}

func (x *verdictIndex) heedsLeases(p *proposal) bool {
	if x.policies[p.leader].Holder != "" {
		return true
	}
	return slices.ContainsFunc(x.verdictsOnGroup(p.target), func(i int32) bool {
		policy := &x.policies[x.verdicts[i].Policy]
		return policy.Holder != "" && !policy.DryRun
	})
}

// backoffGate paces a pool whose replacements fail too: one repair per pause, however many of its
// targets have failed. The longest pause of the policies that select the target applies. A pool
// that is given up is left to users.
func backoffGate(c *counts, policy int, p *proposal) (Refusal, bool) {
	if p.repair != none {
		return Refusal{}, false
	}
	if failed, relapsed := c.givenUp(policy, p); failed > 0 {
		return Refusal{Policy: policy, Gate: PoolGivenUp, Have: failed, Relapsed: relapsed}, true
	}
	if p.retry == 0 {
		return Refusal{}, false
	}
	until := c.paceFrom(p).Add(c.policies[policy].Backoff.Delay(p.retry))
	if !c.now.Before(until) {
		return Refusal{}, false
	}
	return Refusal{Policy: policy, Gate: BackingOff, Until: until, Have: p.retry, Relapsed: p.relapsed}, true
}

// unjudgedGate refuses targets of a policy that is not judged, since a repair might exceed its limits.
func unjudgedGate(c *counts, p *proposal) (Refusal, bool) {
	by := c.cluster.Targets[p.target].UnjudgedPolicy
	if by == nil {
		return Refusal{}, false
	}
	r := Refusal{Policy: p.leader, Gate: PolicyInvalid, Detail: by.String() + ": " + unjudgedText}
	for i := range c.policies {
		if c.policies[i].ID == *by {
			r.Policy, r.Detail = i, c.policies[i].Problem
		}
	}
	return r, true
}
