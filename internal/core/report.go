package core

// mostConcerns are as many as a report names.
const mostConcerns = 5

// Reports gives what was found for each policy, in their order.
func (d *Decision) Reports(policies []Policy, fleet *Fleet) []PolicyReport {
	reports := make([]PolicyReport, len(policies))
	for i := range policies {
		reports[i] = PolicyReport{Policy: policies[i], Tally: d.Tallies[i]}
	}
	standing := d.standing(fleet)
	unhealthy := func(v *Verdict) bool { return v.Health == Unhealthy }
	others := func(v *Verdict) bool { return v.Health != Unhealthy }
	for _, some := range []func(*Verdict) bool{unhealthy, others} {
		for i := range d.Verdicts {
			v := &d.Verdicts[i]
			r := &reports[v.Policy]
			if v.Health != Healthy && len(r.Concerns) < mostConcerns && some(v) {
				r.Concerns = append(r.Concerns, Concern{Target: fleet.Targets[v.Target].ID, Text: standing.of(v, fleet)})
			}
		}
	}
	return reports
}

// standing tells of targets whether they are under repair, or which gate holds them back first.
type standing struct {
	repairing map[string]bool
	held      map[int]Gate
}

func (d *Decision) standing(fleet *Fleet) standing {
	s := standing{repairing: map[string]bool{}, held: map[int]Gate{}}
	for _, start := range d.Starts {
		s.repairing[fleet.Targets[start.Target].ID.UID] = true
	}
	for i := range fleet.Repairs {
		if r := &fleet.Repairs[i]; r.Running() {
			s.repairing[r.Target.UID] = true
		}
	}
	for i := range d.Refusals {
		r := &d.Refusals[i]
		if _, known := s.held[r.Target]; !known && !r.Rehearsed {
			s.held[r.Target] = r.Gate
		}
	}
	return s
}

func (s standing) of(v *Verdict, fleet *Fleet) string {
	reason := " (" + v.Reason.String() + ")"
	switch {
	case s.repairing[fleet.Targets[v.Target].ID.UID]:
		return "is being repaired"
	case v.Health == Gone:
		return "is being deleted"
	case v.Health == Undetermined:
		return "can't be judged" + reason
	case v.Health == Suspect:
		return "may become unhealthy" + reason
	case s.held[v.Target] != 0:
		return "is unhealthy" + reason + " and held back by " + s.held[v.Target].String()
	}
	return "is unhealthy" + reason
}
