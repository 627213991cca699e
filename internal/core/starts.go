package core

import (
	"cmp"
	"slices"
)

// startRepairs proposes the unhealthy targets that are not under repair, the oldest first. It starts the repairs that
// every gate lets through.
func (d *planner) startRepairs() {
	for _, c := range d.candidates(false) {
		d.propose(c, false)
	}
}

// startDryRuns does the same for dry-run policies, with counts of their own.
func (d *planner) startDryRuns() {
	for _, c := range d.candidates(true) {
		d.propose(c, true)
	}
}

type candidate struct {
	target  int
	verdict *Verdict
}

// candidates returns the unhealthy groups without a running repair. Each has the verdict of the policy that leads: the
// oldest that finds it unhealthy. Each dry-run policy leads its own.
func (x *verdictIndex) candidates(dryRun bool) []candidate {
	var found []candidate
	for _, group := range x.affected {
		if x.repairOf[group] != none {
			continue
		}
		var lead *Verdict
		for _, i := range x.verdictsOnGroup(group) {
			v := &x.verdicts[i]
			if v.Health != Unhealthy || x.policies[v.Policy].DryRun != dryRun {
				continue
			}
			if dryRun {
				found = append(found, candidate{v.Target, v})
			} else if lead == nil { // the verdicts are in the order of age of their policies
				lead = v
			}
		}
		if lead != nil {
			found = append(found, candidate{lead.Target, lead})
		}
	}
	slices.SortFunc(found, x.oldestUnhealthyFirst)
	return found
}

// oldestUnhealthyFirst orders candidates. Targets that may belong to the control plane by their label alone come last, since they
// wait for its members.
func (x *judgement) oldestUnhealthyFirst(a, b candidate) int {
	if p, q := &x.cluster.Targets[a.target], &x.cluster.Targets[b.target]; p.ControlPlaneByLabel != q.ControlPlaneByLabel {
		if q.ControlPlaneByLabel {
			return -1
		}
		return 1
	}
	if order := a.verdict.Since.Compare(b.verdict.Since); order != 0 {
		return order
	}
	if order := x.cluster.Targets[a.target].ID.Compare(x.cluster.Targets[b.target].ID); order != 0 {
		return order
	}
	return cmp.Compare(x.ageRank[a.verdict.Policy], x.ageRank[b.verdict.Policy])
}

func (d *planner) propose(c candidate, dryRun bool) {
	t := &d.cluster.Targets[c.target]
	p := &proposal{target: c.target, leader: c.verdict.Policy, verdict: c.verdict, repair: none, dryRun: dryRun}
	p.retry, p.relapsed = d.retryOf(p)
	if !d.gatesOpen(p) {
		return
	}
	start := Start{
		Target: c.target, Policy: p.leader, Verdict: *c.verdict, Retry: p.retry, Steps: d.policies[p.leader].StepsFor(t),
		Name: RepairName(t.ID, d.lastNumber[t.ID]+1), Requested: d.repairRequestedAt(c.target),
	}
	if dryRun {
		d.tallies[p.leader].InFlight += d.placesTaken(c.verdict)
		d.decision.DryRunStarts = append(d.decision.DryRunStarts, start)
		return
	}
	d.wakeForAnswer(d.stepOf(p))
	start.CreatedSameSecond = d.contemporaries(t.Owner)
	d.countStart(c.target)
	d.decision.Starts = append(d.decision.Starts, start)
}
