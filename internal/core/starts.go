package core

import (
	"cmp"
	"slices"
	"time"
)

// startRepairs proposes the unhealthy targets that are not under repair, the oldest first, and
// starts those that every gate lets through.
func (d *deliberation) startRepairs() {
	for _, c := range d.candidates(false) {
		d.propose(c, false)
	}
}

// rehearse does the same for dry-run policies, on counts of their own.
func (d *deliberation) rehearse() {
	for _, c := range d.candidates(true) {
		d.propose(c, true)
	}
}

type candidate struct {
	target  int
	verdict *Verdict
}

// candidates are the unhealthy bodies without a running repair, each with the verdict of the
// policy that leads: the oldest that finds it unhealthy. Each dry-run policy leads its own.
func (d *deliberation) candidates(dryRun bool) []candidate {
	var found []candidate
	for _, body := range d.troubled {
		if d.repairOf[body] != none {
			continue
		}
		var lead *Verdict
		for _, i := range d.judgementsOf(body) {
			v := &d.decision.Verdicts[i]
			if v.Health != Unhealthy || d.policies[v.Policy].DryRun != dryRun {
				continue
			}
			if dryRun {
				found = append(found, candidate{v.Target, v})
			} else if lead == nil || d.seniority[v.Policy] < d.seniority[lead.Policy] {
				lead = v
			}
		}
		if lead != nil {
			found = append(found, candidate{lead.Target, lead})
		}
	}
	slices.SortFunc(found, d.oldestUnhealthyFirst)
	return found
}

// oldestUnhealthyFirst orders candidates. Targets that may belong to the control plane by their label alone come last, since they
// wait for its members.
func (d *deliberation) oldestUnhealthyFirst(a, b candidate) int {
	if p, q := &d.fleet.Targets[a.target], &d.fleet.Targets[b.target]; p.ControlPlaneByLabel != q.ControlPlaneByLabel {
		if q.ControlPlaneByLabel {
			return -1
		}
		return 1
	}
	if order := a.verdict.Since.Compare(b.verdict.Since); order != 0 {
		return order
	}
	if order := d.fleet.Targets[a.target].ID.Compare(d.fleet.Targets[b.target].ID); order != 0 {
		return order
	}
	return cmp.Compare(d.seniority[a.verdict.Policy], d.seniority[b.verdict.Policy])
}

func (d *deliberation) propose(c candidate, rehearsal bool) {
	t := &d.fleet.Targets[c.target]
	p := &proposal{target: c.target, leader: c.verdict.Policy, verdict: c.verdict, repair: none, rehearsal: rehearsal}
	p.retry, p.relapsed = d.retryOf(p)
	if !d.gatesOpen(p) {
		return
	}
	start := Start{
		Target: c.target, Policy: p.leader, Verdict: *c.verdict, Retry: p.retry, Ladder: d.policies[p.leader].LadderFor(t),
		Name: RepairName(t.ID, d.lastNumber[t.ID]+1), Requested: d.requestOn(c.target),
	}
	if rehearsal {
		d.decision.Tallies[p.leader].InFlight += d.takes(c.verdict)
		d.decision.Rehearsals = append(d.decision.Rehearsals, start)
		return
	}
	d.awaitAnswer(d.stepOf(p))
	start.Contemporaries = d.contemporaries(t.Owner)
	d.takeRoom(c.target)
	d.decision.Starts = append(d.decision.Starts, start)
}

// takeRoom counts a start against every limit that the next candidate is held to.
func (d *deliberation) takeRoom(target int) {
	t := &d.fleet.Targets[target]
	for _, i := range d.judgementsOf(target) {
		v := &d.decision.Verdicts[i]
		d.decision.Tallies[v.Policy].InFlight += d.takes(v)
	}
	if t.MaybeControlPlane() {
		d.takeOut(target)
	}
	if p := d.pools[t.Owner]; p != nil {
		p.lastStart = d.now
	}
}

// contemporaries are the targets of the same owner that exist already and were created in this
// very second, which creation times alone could not tell from a replacement.
func (d *deliberation) contemporaries(owner ID) []string {
	if d.young == nil {
		d.young = d.createdThisSecond()
	}
	var uids []string
	for _, i := range d.young {
		if t := &d.fleet.Targets[i]; owner.UID != "" && t.Owner == owner {
			uids = append(uids, t.ID.UID)
		}
	}
	slices.Sort(uids)
	return uids
}

func (d *deliberation) createdThisSecond() []int {
	young := []int{}
	second := d.now.Truncate(time.Second)
	for i := range d.fleet.Targets {
		if !d.fleet.Targets[i].Created.Before(second) {
			young = append(young, i)
		}
	}
	return young
}
