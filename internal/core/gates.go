package core

import (
	"slices"
)

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
type policyGate func(d *planner, policy int, p *proposal) (refusal Refusal, refuses bool)

// A targetGate is checked once for a target.
type targetGate func(d *planner, p *proposal) (refusal Refusal, refuses bool)

// The gates of a repair that has not begun, and of each step that deletes the target.
var policyGates = []policyGate{validGate, pauseGate, upgradeGate, shortCircuitGate, cooldownGate, inFlightGate, backoffGate} //nolint:gochecknoglobals // a constant

var targetGates = []targetGate{clockGate, unjudgedGate, remedyGate, templateGate, remediatorGate, ownerGate, exclusionGate, leaseGate, quorumGate, controlPlaneGate} //nolint:gochecknoglobals // a constant

// The gates of the further steps of a running repair, which has its place in the limits already.
var laterPolicyGates = []policyGate{validGate, pauseGate, upgradeGate} //nolint:gochecknoglobals // a constant

// The gates of a repair that gives up its last step. The target stays as it is then.
var lastTargetGates = []targetGate{clockGate, unjudgedGate, templateGate, exclusionGate, leaseGate} //nolint:gochecknoglobals // a constant

var laterTargetGates = []targetGate{clockGate, unjudgedGate, templateGate, remediatorGate, exclusionGate, leaseGate, quorumGate, controlPlaneGate} //nolint:gochecknoglobals // a constant

// gatesOpen checks every gate and records every refusal. When all are open but the facts about the
// node are stale, it requests a live read.
func (d *planner) gatesOpen(p *proposal) bool {
	open := true
	hold := func(r Refusal) {
		open = false
		r.DryRun = p.dryRun
		d.refuse(r)
	}
	d.checkStep(p, hold)
	if open && !p.dryRun {
		if r, refuses := confirmationGate(d, p); refuses {
			r.Target = p.target
			hold(r)
		}
	}
	return open
}

// checkStep checks the gates that the step of a proposal must pass.
func (d *planner) checkStep(p *proposal, hold func(Refusal)) {
	if d.isFurtherStep(p) {
		d.checkGates(laterPolicyGates, laterTargetGates, p, hold)
	} else {
		d.checkGates(policyGates, targetGates, p, hold)
	}
}

// checkGates checks gates for a proposal and passes on each refusal. It checks policy gates for each
// policy that acts or leads.
func (d *planner) checkGates(ofPolicies []policyGate, ofTarget []targetGate, p *proposal, hold func(Refusal)) {
	for _, i := range d.verdictsOnGroup(p.target) {
		policy := d.decision.Verdicts[i].Policy
		if d.policies[policy].DryRun && policy != p.leader {
			continue
		}
		for _, gate := range ofPolicies {
			if r, refuses := gate(d, policy, p); refuses {
				r.Target = p.target
				hold(r)
			}
		}
	}
	for _, gate := range ofTarget {
		if r, refuses := gate(d, p); refuses {
			r.Target = p.target
			hold(r)
		}
	}
}

// stepOf returns the step of a proposal; nil when there is none.
func (d *planner) stepOf(p *proposal) *Step {
	if p.step != nil {
		return p.step
	}
	if p.repair != none {
		step, _ := d.cluster.Repairs[p.repair].step()
		return step
	}
	if steps := d.policies[p.leader].StepsFor(&d.cluster.Targets[p.target]); len(steps) > 0 {
		return &steps[0]
	}
	return nil
}

func (d *planner) refuse(r Refusal) {
	r.Advice = d.policies[r.Policy].Advice[r.Gate]
	d.decision.Refusals = append(d.decision.Refusals, r)
	d.wakeAt(r.Until)
}

// clockGate refuses a proposal while the clock is wrong. With a clock that is ahead, every
// criterion and every step would end before its time (I5).
func clockGate(d *planner, p *proposal) (Refusal, bool) {
	gate := clockHolds(d.cluster, &d.policies[p.leader].ID)
	return Refusal{Policy: p.leader, Gate: gate}, gate != 0
}

// clockHolds returns the gate of the clock that holds back the repairs of a policy, 0 for none.
func clockHolds(f *Cluster, policy *ID) Gate {
	switch {
	case f.Observed != Yes:
		return 0
	case f.ClockAgrees == Yes:
		return f.ClockGates[*policy]
	case f.ClockAgrees == No:
		return ClockSkewed
	}
	return ClockUnknown
}

// IsOfClock reports whether a condition's reason is that the clock holds back all repairs. A status
// has it only where no other gate does.
func IsOfClock(reason string) bool { return GateOfClock(reason) != 0 }

// GateOfClock returns the clock gate that a condition's reason names, 0 for any other reason.
func GateOfClock(reason string) Gate {
	for _, gate := range []Gate{ClockSkewed, ClockUnknown} {
		if reason == gate.String() {
			return gate
		}
	}
	return 0
}

func validGate(d *planner, policy int, _ *proposal) (Refusal, bool) {
	if problem := d.policies[policy].Problem; problem != "" {
		return Refusal{Policy: policy, Gate: PolicyInvalid, Detail: problem}, true
	}
	return Refusal{}, false
}

func pauseGate(d *planner, policy int, _ *proposal) (Refusal, bool) {
	if d.policies[policy].Paused {
		return Refusal{Policy: policy, Gate: PolicyPaused, Detail: d.policies[policy].PauseReason}, true
	}
	return Refusal{}, false
}

func shortCircuitGate(d *planner, policy int, _ *proposal) (Refusal, bool) {
	t := &d.decision.Tallies[policy]
	if t.Permitted {
		return Refusal{}, false
	}
	r := shortCircuitRefusal(&d.policies[policy], *t)
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

func cooldownGate(d *planner, policy int, _ *proposal) (Refusal, bool) {
	t := &d.decision.Tallies[policy]
	if !t.CoolingDown {
		return Refusal{}, false
	}
	return Refusal{Policy: policy, Gate: StormCooldown, Until: t.ResumeAt}, true
}

// inFlightGate bounds the repairs in flight. A repair in the ledger has its place before all
// younger ones. A target with a remediation request has its place too.
func inFlightGate(d *planner, policy int, p *proposal) (Refusal, bool) {
	if d.passesInFlight(policy, p) {
		return Refusal{}, false
	}
	t := &d.decision.Tallies[policy]
	others := t.InFlight
	switch {
	case p.repair == none:
		others -= d.placesOf(policy, p.target)
	case d.waitsForTurn(p.repair, p.target):
		others -= d.later[policy]
	default:
		others -= d.later[policy] + d.verdictsOf(policy, p.target)
	}
	if others < t.MaxInFlight {
		return Refusal{}, false
	}
	return Refusal{Policy: policy, Gate: InFlightLimit, Have: others, Max: t.MaxInFlight, Total: t.Total, Detail: t.Waits}, true
}

// passesInFlight reports whether a proposal passes the limit of repairs in flight.
func (d *planner) passesInFlight(policy int, p *proposal) bool {
	return d.policies[policy].ReclaimsBypassMaxInFlight && p.verdict.reclaimed()
}

// placesOf counts the places that a target without a repair already has in a policy.
func (d *planner) placesOf(policy, target int) int {
	places := 0
	for _, i := range d.verdictsOnGroup(target) {
		if v := &d.decision.Verdicts[i]; v.Policy == policy {
			places += 1 - d.placesTaken(v)
		}
	}
	return places
}

// upgradeGate holds back repairs during upgrades. A node that is being upgraded restarts, so its
// state says little about its health.
func upgradeGate(d *planner, policy int, p *proposal) (Refusal, bool) {
	if !d.policies[policy].WaitsForUpgrades {
		return Refusal{}, false
	}
	switch {
	case d.cluster.Upgrading != No:
		return Refusal{Policy: policy, Gate: ClusterUpgrading, Fact: d.cluster.Upgrading, Why: d.cluster.UpgradingWhy}, true
	case d.cluster.Targets[p.target].Node.Upgrading:
		return Refusal{Policy: policy, Gate: TargetUpgrading}, true
	}
	return Refusal{}, false
}

func remedyGate(d *planner, p *proposal) (Refusal, bool) {
	if d.stepOf(p) != nil {
		return Refusal{}, false
	}
	return Refusal{Policy: p.leader, Gate: NoRemedy, Detail: "it has no step by which to repair"}, true
}

// templateGate refuses a repair while any of its steps is unusable. A repair must not end for want
// of a step that was never checked.
func templateGate(d *planner, p *proposal) (Refusal, bool) {
	t := &d.cluster.Targets[p.target]
	unusable := UnusableStep(d.policies[p.leader].StepsFor(t), t)
	if step := d.stepOf(p); unusable == nil && step != nil && step.problemFor(t) != "" {
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
// target is claimed, and a request waits for the end of the mark where its policy says so. Each step waits while the
// remediator of a former namesake is at work.
func remediatorGate(d *planner, p *proposal) (Refusal, bool) {
	if i := d.replacingRequest(p.target); i != none {
		q := &d.cluster.Requests[i]
		return Refusal{Policy: p.leader, Gate: AnotherRemediator, Detail: q.ID.String() + " still replaces " + q.Target.Kind + " " + q.Target.Name}, true
	}
	step := d.stepOf(p)
	if step == nil {
		return Refusal{}, false
	}
	t, effect := &d.cluster.Targets[p.target], step.Nature.Effect()
	switch {
	case effect.MarksForRemediator && t.Claimed:
		return Refusal{Policy: p.leader, Gate: AnotherRemediator, Detail: t.Claimant}, true
	case effect.CreatesRequest && t.ExternallyRemediated && d.policies[p.leader].RequestsAwaitMarks:
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

func ownerGate(d *planner, p *proposal) (Refusal, bool) {
	step := d.stepOf(p)
	if step == nil || !step.Nature.Effect().OwnerReplaces || d.cluster.Targets[p.target].Owner.UID != "" {
		return Refusal{}, false
	}
	return Refusal{Policy: p.leader, Gate: NoOwner}, true
}

func exclusionGate(d *planner, p *proposal) (Refusal, bool) {
	return Refusal{Policy: p.leader, Gate: Excluded}, d.cluster.Targets[p.target].Node.Excluded
}

// leaseGate refuses a target whose node's lease has another holder, where any acting policy heeds
// leases.
func leaseGate(d *planner, p *proposal) (Refusal, bool) {
	lease := d.cluster.Targets[p.target].Lease
	if !d.heedsLeases(p) || !lease.heldByOther(d.policies[p.leader].Holder, d.now) {
		return Refusal{}, false
	}
	return Refusal{Policy: p.leader, Gate: LeaseHeld, Until: lease.Until, Detail: lease.Holder}, true
}

func (d *planner) heedsLeases(p *proposal) bool {
	if d.policies[p.leader].Holder != "" {
		return true
	}
	return slices.ContainsFunc(d.verdictsOnGroup(p.target), func(i int32) bool {
		policy := &d.policies[d.decision.Verdicts[i].Policy]
		return policy.Holder != "" && !policy.DryRun
	})
}

// backoffGate paces a pool whose replacements fail too: one repair per pause, however many of its
// targets have failed. The longest pause of the policies that select the target applies. A pool
// that is given up is left to users.
func backoffGate(d *planner, policy int, p *proposal) (Refusal, bool) {
	if p.repair != none {
		return Refusal{}, false
	}
	if failed, relapsed := d.givenUp(policy, p); failed > 0 {
		return Refusal{Policy: policy, Gate: PoolGivenUp, Have: failed, Relapsed: relapsed}, true
	}
	if p.retry == 0 {
		return Refusal{}, false
	}
	until := d.paceFrom(p).Add(d.policies[policy].Backoff.Delay(p.retry))
	if !d.now.Before(until) {
		return Refusal{}, false
	}
	return Refusal{Policy: policy, Gate: BackingOff, Until: until, Have: p.retry, Relapsed: p.relapsed}, true
}
