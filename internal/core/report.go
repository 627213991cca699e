package core

// maxConcerns is how many concerns a report names.
const maxConcerns = 5

// Reports returns a report on each policy, in their order.
func (d *Decision) Reports(policies []Policy, cluster *Cluster) []PolicyReport {
	reports := make([]PolicyReport, len(policies))
	for i := range policies {
		reports[i] = PolicyReport{Policy: policies[i], Tally: d.Tallies[i], Clock: clockHolds(cluster, &policies[i].ID)}
	}
	states := d.repairStates(policies, cluster)
	unhealthy := func(v *Verdict) bool { return v.Health == Unhealthy }
	others := func(v *Verdict) bool { return v.Health != Unhealthy }
	for _, some := range []func(*Verdict) bool{unhealthy, others} {
		for i := range d.Verdicts {
			v := &d.Verdicts[i]
			r := &reports[v.Policy]
			if v.Health != Healthy && len(r.Concerns) < maxConcerns && some(v) {
				r.Concerns = append(r.Concerns, Concern{Target: cluster.Targets[v.Target].ID, Text: states.of(v, policies)})
			}
		}
	}
	d.addGivenUp(reports, cluster)
	d.addMembers(reports, cluster)
	return reports
}

// repairStates holds which policy leads the repair of each group, and which gate holds back each target first.
type repairStates struct {
	// groups are those of the targets, nil when each is its own.
	groups []int
	// lead has the policy that leads the repair of each group.
	lead map[int]ID
	held map[int]*Refusal
}

func (s *repairStates) groupOf(target int) int {
	if s.groups == nil {
		return target
	}
	return s.groups[target]
}

func (d *Decision) repairStates(policies []Policy, cluster *Cluster) repairStates {
	s := repairStates{groups: groupsOf(cluster.Targets), lead: map[int]ID{}, held: map[int]*Refusal{}}
	running := map[ID]ID{}
	for i := range cluster.Repairs {
		if r := &cluster.Repairs[i]; r.Running() {
			running[r.Target] = r.Policy
		}
	}
	for i := range cluster.Targets {
		if len(running) == 0 {
			break
		}
		if lead, under := running[cluster.Targets[i].ID]; under {
			s.lead[s.groupOf(i)] = lead
		}
	}
	for _, start := range d.Starts {
		s.lead[s.groupOf(start.Target)] = policies[start.Policy].ID
	}
	for i := range d.Refusals {
		r := &d.Refusals[i]
		if _, known := s.held[r.Target]; !known && !r.DryRun {
			s.held[r.Target] = r
		}
	}
	return s
}

func (s *repairStates) of(v *Verdict, policies []Policy) string {
	lead, led := s.lead[s.groupOf(v.Target)]
	reason := " (" + v.Reason.String() + ")"
	switch {
	case v.RequestRemains:
		return "is healthy again, and the request to the remediator still stands: " + v.Detail
	case v.Reason == Recovering:
		return "is healthy again, and the request to the remediator is not withdrawn yet"
	case led && lead != policies[v.Policy].ID:
		return "is being repaired, which " + lead.String() + " leads"
	case led && !s.isHeldBy(v.Target, StepsExhausted):
		return "is being repaired"
	case v.Health == Gone:
		return "is being deleted"
	case v.Health == Undetermined:
		return "can't be judged" + reason
	case v.Health == Suspect:
		return "may become unhealthy" + reason
	}
	return "is unhealthy" + reason + s.heldBy(v.Target)
}

func (s *repairStates) isHeldBy(target int, g Gate) bool {
	r, held := s.held[target]
	return held && r.Gate == g
}

// heldBy names the gate that holds a target back, and why where the gate alone does not say it. It is empty when none
// does.
func (s *repairStates) heldBy(target int) string {
	r, held := s.held[target]
	switch {
	case !held:
		return ""
	case r.Why != "":
		return " and held back by " + r.Gate.String() + " (" + r.Why + ")"
	}
	return " and held back by " + r.Gate.String()
}
