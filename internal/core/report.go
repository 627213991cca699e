package core

// mostConcerns are as many as a report names.
const mostConcerns = 5

// Reports gives what was found for each policy, in their order.
func (d *Decision) Reports(policies []Policy, fleet *Fleet) []PolicyReport {
	reports := make([]PolicyReport, len(policies))
	for i := range policies {
		reports[i] = PolicyReport{Policy: policies[i], Tally: d.Tallies[i], Clock: clockHolds(fleet, &policies[i].ID)}
	}
	standing := d.standing(policies, fleet)
	unhealthy := func(v *Verdict) bool { return v.Health == Unhealthy }
	others := func(v *Verdict) bool { return v.Health != Unhealthy }
	for _, some := range []func(*Verdict) bool{unhealthy, others} {
		for i := range d.Verdicts {
			v := &d.Verdicts[i]
			r := &reports[v.Policy]
			if v.Health != Healthy && len(r.Concerns) < mostConcerns && some(v) {
				r.Concerns = append(r.Concerns, Concern{Target: fleet.Targets[v.Target].ID, Text: standing.of(v, policies)})
			}
		}
	}
	d.fileGivenUp(reports, fleet)
	d.file(reports, fleet)
	return reports
}

// standing tells of targets whether they are under repair, or which gate holds them back first.
type standing struct {
	// bodies are those of the targets, nil when each is its own.
	bodies []int
	// lead is the policy that leads the repair of a body.
	lead map[int]ID
	held map[int]*Refusal
}

func (s *standing) body(target int) int {
	if s.bodies == nil {
		return target
	}
	return s.bodies[target]
}

func (d *Decision) standing(policies []Policy, fleet *Fleet) standing {
	s := standing{bodies: embody(fleet.Targets), lead: map[int]ID{}, held: map[int]*Refusal{}}
	running := map[ID]ID{}
	for i := range fleet.Repairs {
		if r := &fleet.Repairs[i]; r.Running() {
			running[r.Target] = r.Policy
		}
	}
	for i := range fleet.Targets {
		if len(running) == 0 {
			break
		}
		if lead, under := running[fleet.Targets[i].ID]; under {
			s.lead[s.body(i)] = lead
		}
	}
	for _, start := range d.Starts {
		s.lead[s.body(start.Target)] = policies[start.Policy].ID
	}
	for i := range d.Refusals {
		r := &d.Refusals[i]
		if _, known := s.held[r.Target]; !known && !r.Rehearsed {
			s.held[r.Target] = r
		}
	}
	return s
}

func (s *standing) of(v *Verdict, policies []Policy) string {
	lead, led := s.lead[s.body(v.Target)]
	reason := " (" + v.Reason.String() + ")"
	switch {
	case v.Reason == Recovering && v.Detail != "":
		return "is healthy again, and what was asked of its remediator stands: " + v.Detail
	case v.Reason == Recovering:
		return "is healthy again, and what was asked of its remediator is not taken back yet"
	case led && lead != policies[v.Policy].ID:
		return "is being repaired, which " + lead.String() + " leads"
	case led && s.isHeldBy(v.Target, LadderExhausted):
		return "is unhealthy" + reason + " and held back by " + LadderExhausted.String()
	case led:
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

func (s *standing) isHeldBy(target int, g Gate) bool {
	r, held := s.held[target]
	return held && r.Gate == g
}

// heldBy names the gate that holds a target back, and why it does where the gate alone does not tell. It is empty when none does.
func (s *standing) heldBy(target int) string {
	r, held := s.held[target]
	switch {
	case !held:
		return ""
	case r.Why != "":
		return " and held back by " + r.Gate.String() + " (" + r.Why + ")"
	}
	return " and held back by " + r.Gate.String()
}
