package core

// CombinedVerdict combines the verdicts of all acting policies on one target, for APIs with
// conditions on targets.
type CombinedVerdict struct {
	// Target is the index in Cluster.Targets.
	Target int
	// Policy is the index of the policy whose verdict counts. A policy that finds the target
	// unhealthy comes first, then a policy that doesn't find it healthy. Among equals a policy that
	// is not paused comes first, then the oldest.
	Policy  int
	Verdict Verdict
	// RemedyCalled is set when this pass calls the remedy for the target. The remedy reports that
	// itself.
	RemedyCalled bool
	// Repair is the running repair of the target, nil when there is none.
	Repair *Repair
	// RequestsWithdrawn is set when this pass withdraws the requests about the target because it is
	// healthy. The remedy reports that itself.
	RequestsWithdrawn bool
	// HasRequest is set while a remediation request about the target exists.
	HasRequest bool
}

// CombinedVerdicts returns one for each target that an acting policy selects, in the order of their
// first verdicts.
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

// graver reports whether a verdict outweighs that of an older policy.
func graver(v, than *Verdict) bool {
	if than.Health == Unhealthy {
		return false
	}
	return v.Health == Unhealthy || (than.Health == Healthy && v.Health != Healthy)
}

// relateTo adds the running repairs and the remediation requests.
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
	about := map[string][]*Request{}
	for i := range cluster.Requests {
		if q := &cluster.Requests[i]; !q.Leaving {
			about[q.Target.Name] = append(about[q.Target.Name], q)
		}
	}
	for i := range cluster.Targets {
		id := &cluster.Targets[i].ID
		if r := running[*id]; r != nil {
			judgementOn(i).Repair = r
		}
		for _, q := range about[id.Name] {
			if q.about(id) {
				judgementOn(i).HasRequest = true
			}
		}
	}
}
