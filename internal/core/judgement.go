package core

// Judgement is what all policies that act find of one target together, for those who write it on the target
// itself.
type Judgement struct {
	// Target is the index in Fleet.Targets.
	Target int
	// Policy is the index of the one whose verdict counts: of those that find the target unhealthy the one that
	// leads, else of those that don't find it healthy, else any; of those one that is not paused, if there is one.
	Policy  int
	Verdict Verdict
	// Begins is set when the remedy is called for the target in this very pass, and will say itself what it does.
	Begins bool
	// Repair is the one under way, nil when there is none.
	Repair *Repair
	// Settles is set when what was asked of others about the target is taken back in this very pass, since it is
	// healthy; its remedy says so.
	Settles bool
	// Asked is set while something stands that was asked of others about the target.
	Asked bool
}

// Judgements gives one for each target that a policy selects, in the order of the targets.
func (d *Decision) Judgements(policies []Policy, fleet *Fleet) []Judgement {
	at := make([]int, len(fleet.Targets))
	judged := make([]Judgement, 0, len(fleet.Targets))
	for i := range d.Verdicts {
		v := &d.Verdicts[i]
		if policies[v.Policy].DryRun {
			continue
		}
		if at[v.Target] == 0 {
			judged = append(judged, Judgement{Target: v.Target, Policy: v.Policy, Verdict: *v})
			at[v.Target] = len(judged)
			continue
		}
		j := &judged[at[v.Target]-1]
		speaks := v.Health != Unhealthy && v.Health == j.Verdict.Health && policies[j.Policy].Paused && !policies[v.Policy].Paused
		if speaks || graver(v, &j.Verdict) {
			j.Policy, j.Verdict = v.Policy, *v
		}
	}
	judgementOn := func(target int) *Judgement {
		if at[target] == 0 {
			return &Judgement{}
		}
		return &judged[at[target]-1]
	}
	for _, s := range d.Starts {
		judgementOn(s.Target).Begins = true
	}
	for _, a := range d.Acts {
		judgementOn(a.Target).Begins = true
	}
	for _, x := range d.Withdrawals {
		if x.Settled && x.Target >= 0 {
			judgementOn(x.Target).Settles = true
		}
	}
	d.relateTo(fleet, judgementOn)
	return judged
}

// graver tells whether a verdict outweighs that of an older policy.
func graver(v, than *Verdict) bool {
	if than.Health == Unhealthy {
		return false
	}
	return v.Health == Unhealthy || (than.Health == Healthy && v.Health != Healthy)
}

// relateTo adds repairs under way and what was asked of others.
func (d *Decision) relateTo(fleet *Fleet, judgementOn func(target int) *Judgement) {
	if len(fleet.Repairs) == 0 && len(fleet.Requests) == 0 {
		return
	}
	running := map[ID]*Repair{}
	for i := range fleet.Repairs {
		if r := &fleet.Repairs[i]; r.Running() {
			running[r.Target] = r
		}
	}
	asked := map[string][]*Request{}
	for i := range fleet.Requests {
		if q := &fleet.Requests[i]; !q.Leaving {
			asked[q.Target.Name] = append(asked[q.Target.Name], q)
		}
	}
	for i := range fleet.Targets {
		id := &fleet.Targets[i].ID
		if r := running[*id]; r != nil {
			judgementOn(i).Repair = r
		}
		for _, q := range asked[id.Name] {
			if q.about(id) {
				judgementOn(i).Asked = true
			}
		}
	}
}
