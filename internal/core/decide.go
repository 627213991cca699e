package core

import "time"

// Decide returns the decision that follows from the facts at an instant. It is total and
// deterministic, and the order of its input changes nothing (I7, I8).
func Decide(policies []Policy, cluster Cluster, now time.Time) Decision {
	d := newPlanner(policies, &cluster, now)
	d.decide()
	return d.decision
}

// planner is the working state of one decision.
type planner struct {
	counts
	// decision shares its verdicts and tallies with the layers below.
	decision Decision
	// unledEnded counts the repairs without a target and without a policy that end in this pass.
	unledEnded int
	// confirming are the targets to be read live, and whether the quorum of each is to be read too.
	confirming map[int]bool
	reservations
}

// decide continues the running repairs before it starts others, which compete with them for places.
func (d *planner) decide() {
	d.continueRepairs()
	d.noteEvidence()
	d.withdrawOrphans()
	d.findStuck()
	d.startRepairs()
	d.releaseIdleLeases()
	d.startDryRuns()
	d.decision.NextAt = d.next
}

// newPlanner returns a planner that has judged all targets and counted what is under way. It has
// decided about no repair yet.
func newPlanner(policies []Policy, cluster *Cluster, now time.Time) *planner {
	targets := newTargetIndex(newInput(policies, cluster, now))
	repairs := newRepairIndex(targets)
	requests := newRequestIndex(repairs)
	userRequests := newUserRequestIndex(requests)
	verdicts := newVerdictIndex(newJudgement(userRequests))
	d := &planner{counts: *newCounts(newReplacementIndex(verdicts))}
	d.decision = Decision{
		Verdicts: d.verdicts, Tallies: d.tallies, RepairRequests: d.requestStatuses, YoungestHealthy: d.youngestHealthy,
	}
	for _, i := range d.unconfirmed {
		v := &d.verdicts[i]
		d.confirm(v.Target, d.firstStep(v.Policy, v.Target))
	}
	return d
}

// refuse records that a gate holds a target back.
func (d *planner) refuse(r Refusal) {
	r.Advice = d.policies[r.Policy].Advice[r.Gate]
	d.decision.Refusals = append(d.decision.Refusals, r)
	d.wakeAt(r.Until)
}
