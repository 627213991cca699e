package core

// CombinedVerdict is what all policies that act find of one target together, for those who write it on the target
// itself.
type CombinedVerdict struct {
	// Target is the index in Cluster.Targets.
	Target int
	// Policy is the index of the one whose verdict counts: of those that find the target unhealthy the one that
	// leads, else of those that don't find it healthy, else any; of those one that is not paused, if there is one.
	Policy  int
	Verdict Verdict
	// RemedyCalled is set when the remedy is called for the target in this very pass, and will say itself what it does.
	RemedyCalled bool
	// Repair is the one under way, nil when there is none.
	Repair *Repair
	// RequestsWithdrawn is set when what was asked of others about the target is taken back in this very pass, since it is
	// healthy; its remedy says so.
	RequestsWithdrawn bool
	// HasRequest is set while something stands that was asked of others about the target.
	HasRequest bool
}

// CombinedVerdicts gives one for each target that a policy selects, in the order of the targets.
func (d *Decision) CombinedVerdicts(policies []Policy, cluster *Cluster) []CombinedVerdict {
	at := make([]int, len(cluster.Targets))
	judged := make([]CombinedVerdict, 0, len(cluster.Targets))
	for i := range d.Verdicts {
		v := &d.Verdicts[i]
		if policies[v.Policy].DryRun {
			continue
		}
		if at[v.Target] == 0 {
			judged = append(judged, CombinedVerdict{Target: v.Target, Policy: v.Policy, Verdict: *v})
			at[v.Target] = len(judged)
			continue
		}
		j := &judged[at[v.Target]-1]
		speaks := v.Health != Unhealthy && v.Health == j.Verdict.Health && policies[j.Policy].Paused && !policies[v.Policy].Paused
		if speaks || graver(v, &j.Verdict) {
			j.Policy, j.Verdict = v.Policy, *v
		}
	}
	judgementOn := func(target int) *CombinedVerdict {
		if at[target] == 0 {
			return &CombinedVerdict{}
		}
		return &judged[at[target]-1]
	}
	for _, s := range d.Starts {
		judgementOn(s.Target).RemedyCalled = true
	}
	for _, a := range d.StepStarts {
		judgementOn(a.Target).RemedyCalled = true
	}
	for _, x := range d.Withdrawals {
		if x.TargetHealthy && x.Target >= 0 {
			judgementOn(x.Target).RequestsWithdrawn = true
		}
	}
	d.relateTo(cluster, judgementOn)
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
func (d *Decision) relateTo(cluster *Cluster, judgementOn func(target int) *CombinedVerdict) {
	if len(cluster.Repairs) == 0 && len(cluster.Requests) == 0 {
		return
	}
	running := map[ID]*Repair{}
	for i := range cluster.Repairs {
		if r := &cluster.Repairs[i]; r.Running() {
			running[r.Target] = r
		}
	}
	asked := map[string][]*Request{}
	for i := range cluster.Requests {
		if q := &cluster.Requests[i]; !q.Leaving {
			asked[q.Target.Name] = append(asked[q.Target.Name], q)
		}
	}
	for i := range cluster.Targets {
		id := &cluster.Targets[i].ID
		if r := running[*id]; r != nil {
			judgementOn(i).Repair = r
		}
		for _, q := range asked[id.Name] {
			if q.about(id) {
				judgementOn(i).HasRequest = true
			}
		}
	}
}
