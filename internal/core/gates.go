package core

import (
	"slices"
	"time"
)

// proposal is a repair that somebody asks for and that the gates may refuse.
type proposal struct {
	target, leader int
	verdict        *Verdict
	// repair is the running repair whose remedy is to begin, none for a new one.
	repair int
	// rehearsal is set for what a dry run would do.
	rehearsal bool
	retry     int
}

// A policyGate belongs to one policy that selects the target. All policies that select it are
// asked, so that no limit of any of them is exceeded (I3).
type policyGate func(d *deliberation, policy int, p *proposal) (refusal Refusal, refuses bool)

// A targetGate is asked once.
type targetGate func(d *deliberation, p *proposal) (refusal Refusal, refuses bool)

// The gates of a repair that has not begun.
var policyGates = [...]policyGate{validGate, pauseGate, upgradeGate, shortCircuitGate, cooldownGate, inFlightGate, backoffGate}

var targetGates = [...]targetGate{remedyGate, templateGate, ownerGate, exclusionGate, leaseGate, quorumGate, controlPlaneGate}

// The gates of the further steps of a repair: it has its place among the limits already.
var laterPolicyGates = [...]policyGate{validGate, pauseGate, upgradeGate}

var laterTargetGates = [...]targetGate{templateGate, exclusionGate, leaseGate}

// gatesOpen asks every gate and records every refusal. When all are open but the facts about the
// node are not fresh from the API server, it asks for those instead.
func (d *deliberation) gatesOpen(p *proposal) bool {
	open := true
	hold := func(r Refusal) {
		open = false
		r.Rehearsed = p.rehearsal
		d.refuse(r)
	}
	if d.further(p) {
		d.ask(laterPolicyGates[:], laterTargetGates[:], p, hold)
	} else {
		d.ask(policyGates[:], targetGates[:], p, hold)
	}
	if open && !p.rehearsal {
		if r, refuses := confirmationGate(d, p); refuses {
			r.Target = p.target
			hold(r)
		}
	}
	return open
}

// heldBack gives what would hold back a further step of a repair.
func (d *deliberation) heldBack(p *proposal) []Refusal {
	var held []Refusal
	d.ask(laterPolicyGates[:], laterTargetGates[:], p, func(r Refusal) { held = append(held, r) })
	return held
}

// ask asks gates about a proposal, those of policies for each that acts or leads, and hands over what they refuse.
func (d *deliberation) ask(ofPolicies []policyGate, ofTarget []targetGate, p *proposal, hold func(Refusal)) {
	for _, i := range d.judgementsOf(p.target) {
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

// further tells whether the proposal is one more step of a repair that has begun.
func (d *deliberation) further(p *proposal) bool {
	return p.repair != none && d.begun(p.repair, p.target)
}

// stepOf is the step that a proposal is about; nil when there is none.
func (d *deliberation) stepOf(p *proposal) *Step {
	if p.repair != none {
		step, _ := d.fleet.Repairs[p.repair].step()
		return step
	}
	if ladder := d.policies[p.leader].LadderFor(&d.fleet.Targets[p.target]); len(ladder) > 0 {
		return &ladder[0]
	}
	return nil
}

func (d *deliberation) refuse(r Refusal) {
	d.decision.Refusals = append(d.decision.Refusals, r)
	d.wakeAt(r.Until)
}

func validGate(d *deliberation, policy int, _ *proposal) (Refusal, bool) {
	if problem := d.policies[policy].Problem; problem != "" {
		return Refusal{Policy: policy, Gate: PolicyInvalid, Detail: problem}, true
	}
	return Refusal{}, false
}

func pauseGate(d *deliberation, policy int, _ *proposal) (Refusal, bool) {
	if d.policies[policy].Paused {
		return Refusal{Policy: policy, Gate: PolicyPaused}, true
	}
	return Refusal{}, false
}

func shortCircuitGate(d *deliberation, policy int, _ *proposal) (Refusal, bool) {
	t := &d.decision.Tallies[policy]
	if t.Permitted {
		return Refusal{}, false
	}
	r := restriction(&d.policies[policy], *t)
	r.Policy = policy
	return r, true
}

// restriction says how a policy's short circuit holds.
func restriction(p *Policy, t Tally) Refusal {
	r := Refusal{Gate: TooManyUnhealthy, Have: t.Unhealthy(), Most: t.MostUnhealthy, Total: t.Total}
	if p.ShortCircuit.Range != nil {
		r.Least = p.ShortCircuit.Range.From
	}
	return r
}

func cooldownGate(d *deliberation, policy int, _ *proposal) (Refusal, bool) {
	t := &d.decision.Tallies[policy]
	if !t.CoolingDown {
		return Refusal{}, false
	}
	return Refusal{Policy: policy, Gate: StormCooldown, Until: t.ResumeAt}, true
}

// inFlightGate: a repair that is in the ledger already has its place, before all younger ones, and so has one for which
// somebody was asked.
func inFlightGate(d *deliberation, policy int, p *proposal) (Refusal, bool) {
	t := &d.decision.Tallies[policy]
	others := t.InFlight
	if p.repair != none {
		others -= d.later[policy]
	} else {
		others -= d.placesOf(policy, p.target)
	}
	if others < t.MostInFlight {
		return Refusal{}, false
	}
	return Refusal{Policy: policy, Gate: InFlightLimit, Have: others, Most: t.MostInFlight, Total: t.Total}, true
}

// placesOf counts the places that a target without a repair has in a policy all the same.
func (d *deliberation) placesOf(policy, target int) int {
	places := 0
	for _, i := range d.judgementsOf(target) {
		if v := &d.decision.Verdicts[i]; v.Policy == policy {
			places += 1 - d.takes(v)
		}
	}
	return places
}

// upgradeGate: what is being upgraded restarts, and says little about its health meanwhile.
func upgradeGate(d *deliberation, policy int, p *proposal) (Refusal, bool) {
	switch {
	case !d.policies[policy].WaitsForUpgrades:
		return Refusal{}, false
	case d.fleet.Upgrading != No:
		return Refusal{Policy: policy, Gate: ClusterUpgrading, Detail: d.fleet.Upgrading.String()}, true
	case d.fleet.Targets[p.target].Upgrading:
		return Refusal{Policy: policy, Gate: TargetUpgrading}, true
	}
	return Refusal{}, false
}

func remedyGate(d *deliberation, p *proposal) (Refusal, bool) {
	if d.stepOf(p) != nil {
		return Refusal{}, false
	}
	return Refusal{Policy: p.leader, Gate: NoRemedy, Detail: "it has no step by which to repair"}, true
}

// templateGate: a ladder is followed when all of its steps can be, so that a repair never ends for want of
// one that nobody looked at.
func templateGate(d *deliberation, p *proposal) (Refusal, bool) {
	ladder := d.policies[p.leader].LadderFor(&d.fleet.Targets[p.target])
	for i := range ladder {
		if ladder[i].Problem != "" {
			return Refusal{Policy: p.leader, Gate: TemplateUnusable, Detail: ladder[i].Problem}, true
		}
	}
	if step := d.stepOf(p); step != nil && step.Problem != "" {
		return Refusal{Policy: p.leader, Gate: TemplateUnusable, Detail: step.Problem}, true
	}
	return Refusal{}, false
}

func ownerGate(d *deliberation, p *proposal) (Refusal, bool) {
	step := d.stepOf(p)
	if step == nil || (step.Nature != Destroys && step.Nature != Delegates) || d.fleet.Targets[p.target].Owner.UID != "" {
		return Refusal{}, false
	}
	return Refusal{Policy: p.leader, Gate: NoOwner}, true
}

func exclusionGate(d *deliberation, p *proposal) (Refusal, bool) {
	return Refusal{Policy: p.leader, Gate: Excluded}, d.fleet.Targets[p.target].Excluded
}

// leaseGate: whoever else has the lease of the node is let be, where any policy that acts heeds leases.
func leaseGate(d *deliberation, p *proposal) (Refusal, bool) {
	lease := d.fleet.Targets[p.target].Lease
	if !d.heedsLeases(p) || !lease.heldFrom(d.policies[p.leader].Holder, d.now) {
		return Refusal{}, false
	}
	return Refusal{Policy: p.leader, Gate: LeaseHeld, Until: lease.Until, Detail: lease.Holder}, true
}

func (d *deliberation) heedsLeases(p *proposal) bool {
	if d.policies[p.leader].Holder != "" {
		return true
	}
	return slices.ContainsFunc(d.judgementsOf(p.target), func(i int32) bool {
		policy := &d.policies[d.decision.Verdicts[i].Policy]
		return policy.Holder != "" && !policy.DryRun
	})
}

// backoffGate paces a pool whose replacements fail too: one repair per pause, however many of its
// targets have failed. The longest pause among the policies that select the target holds.
func backoffGate(d *deliberation, policy int, p *proposal) (Refusal, bool) {
	if p.repair != none || p.retry == 0 {
		return Refusal{}, false
	}
	until := d.paceFrom(&d.fleet.Targets[p.target]).Add(d.policies[policy].Backoff.Delay(p.retry))
	if !d.now.Before(until) {
		return Refusal{}, false
	}
	return Refusal{Policy: policy, Gate: BackingOff, Until: until, Have: p.retry}, true
}

// confirmationGate: nothing is destroyed on a cached word about its node. Facts about the machine
// itself need no second reading, since the destructive call insists on their revision (I11).
func confirmationGate(d *deliberation, p *proposal) (Refusal, bool) {
	t := &d.fleet.Targets[p.target]
	step := d.stepOf(p)
	if t.Confirmed(step, d.now) {
		return Refusal{}, false
	}
	if !t.NodeUnreadable && d.reserve(p) {
		d.confirm(p.target, step)
	}
	return Refusal{Policy: p.leader, Gate: Unconfirmed}, true
}

// reserve keeps the reads to as many as may be repaired: it takes room for one among the targets
// whose nodes are to be read. A repair in the ledger has its place already.
func (d *deliberation) reserve(p *proposal) bool {
	if p.repair != none {
		return true
	}
	if d.reserved == nil {
		d.reserved = make([]int, len(d.policies))
	}
	for _, i := range d.judgementsOf(p.target) {
		v := &d.decision.Verdicts[i]
		t := &d.decision.Tallies[v.Policy]
		if !d.policies[v.Policy].DryRun && d.takes(v) > 0 && t.MostInFlight-t.InFlight <= d.reserved[v.Policy] {
			return false
		}
	}
	for _, i := range d.judgementsOf(p.target) {
		v := &d.decision.Verdicts[i]
		d.reserved[v.Policy] += d.takes(v)
	}
	return true
}

// Confirmed tells whether what is known of the target's node justifies a step at an instant: it was read
// live a moment ago, or there is no node yet, and so was the quorum of a control plane.
func (t *Target) Confirmed(step *Step, now time.Time) bool {
	if t.takesQuorum(step) && !t.quorumKnown(now) {
		return false
	}
	if t.Node.State == NodeAwaited {
		return true
	}
	return t.Node.State != NodeUnseen && !t.NodeReadAt.IsZero() && now.Sub(t.NodeReadAt) < confirmedFor
}
