package core

import (
	"cmp"
	"maps"
	"slices"
)

// addMembers adds the members' reports of policies with remediators.
func (d *Decision) addMembers(reports []PolicyReport, cluster *Cluster) {
	f := memberIndex{cluster: cluster, requests: map[string][]int{}, groups: groupsOf(cluster.Targets), repairs: map[int]int{}, running: map[ID]*Repair{}, own: map[qualifiedName][]int{}}
	if !slices.ContainsFunc(reports, func(r PolicyReport) bool { return r.Policy.createsRequests() }) {
		return
	}
	f.index()
	for i := range d.Verdicts {
		v := &d.Verdicts[i]
		if r := &reports[v.Policy]; v.Health != Healthy && r.Policy.createsRequests() {
			if c, worth := f.memberReport(&r.Policy, v); worth {
				r.Members = append(r.Members, c)
			}
		}
	}
	for i := range reports {
		if r := &reports[i]; r.Policy.createsRequests() {
			r.Members = append(r.Members, f.formerMembers(&r.Policy)...)
		}
		slices.SortFunc(reports[i].Members, func(a, b MemberReport) int { return a.Target.Compare(b.Target) })
	}
}

// createsRequests reports whether the policy creates requests, or may do so by steps that can't be read.
func (p *Policy) createsRequests() bool {
	return len(p.Steps) == 0 || slices.ContainsFunc(p.Steps, func(s Step) bool { return s.Nature.Effect().NeedsWithdrawal })
}

// memberIndex finds what belongs to a target.
type memberIndex struct {
	cluster *Cluster
	// requests has the requests by the name of their target.
	requests map[string][]int
	groups   []int
	// repairs has the running repairs by the group of their target, and running the same by the target itself.
	repairs map[int]int
	running map[ID]*Repair
	// own has the requests that Fettle made, by their policy.
	own map[qualifiedName][]int
}

func (f *memberIndex) index() {
	for i := range f.cluster.Requests {
		q := &f.cluster.Requests[i]
		f.requests[q.Target.Name] = append(f.requests[q.Target.Name], i)
		if requester := q.Policy.qualified(); q.Own {
			f.own[requester] = append(f.own[requester], i)
		}
	}
	running := map[ID]int{}
	for i := range f.cluster.Repairs {
		if r := &f.cluster.Repairs[i]; r.Running() {
			running[r.Target] = i
			f.running[r.Target] = r
		}
	}
	for i := range f.cluster.Targets {
		if len(running) == 0 {
			return
		}
		if r, under := running[f.cluster.Targets[i].ID]; under {
			f.repairs[f.groupOf(i)] = r
		}
	}
}

// formerMembers returns reports on targets that are no members of a policy, gone or not, while requests of the policy
// about them stand. Only requests that Fettle made count, since others may name targets that never existed.
func (f *memberIndex) formerMembers(p *Policy) []MemberReport {
	var cases []MemberReport
	at := map[ID]int{}
	for _, i := range f.requestsOfFormerMembers(p) {
		q := &f.cluster.Requests[i]
		c, known := at[q.Target]
		if !known {
			c = len(cases)
			at[q.Target] = c
			cases = append(cases, MemberReport{Target: q.Target, Health: Gone, Repair: f.running[q.Target]})
			if r := cases[c].Repair; r != nil {
				cases[c].Lead = r.Policy
			}
		}
		cases[c].Requests = append(cases[c].Requests, *q)
	}
	for i := range cases {
		var steps []Step
		if cases[i].Repair != nil {
			steps = cases[i].Repair.Steps
		}
		sortRequests(cases[i].Requests, steps)
	}
	return cases
}

// sortRequests orders requests by age, and requests of one second by their steps.
func sortRequests(requests []Request, steps []Step) {
	slices.SortFunc(requests, func(a, b Request) int {
		return cmp.Or(a.Created.Compare(b.Created), cmp.Compare(a.stepIn(steps), b.stepIn(steps)), a.ID.Compare(b.ID))
	})
}

// requestsOfFormerMembers returns Fettle's own requests of a policy about targets that are no members of it.
func (f *memberIndex) requestsOfFormerMembers(p *Policy) []int {
	left := map[int]bool{}
	about := map[string][]int{}
	for _, i := range f.own[p.ID.qualified()] {
		if q := &f.cluster.Requests[i]; q.RequestedBy(&p.ID) {
			left[i] = true
			about[q.Target.Name] = append(about[q.Target.Name], i)
		}
	}
	if len(left) == 0 {
		return nil
	}
	for _, m := range p.Members {
		t := &f.cluster.Targets[m].ID
		for _, i := range about[t.Name] {
			if f.cluster.Requests[i].about(t) {
				delete(left, i)
			}
		}
	}
	return slices.Sorted(maps.Keys(left))
}

func (f *memberIndex) groupOf(target int) int {
	if f.groups == nil {
		return target
	}
	return f.groups[target]
}

// memberReport returns the report on a member that is not healthy, unless it is of no interest yet.
func (f *memberIndex) memberReport(p *Policy, v *Verdict) (MemberReport, bool) {
	t := &f.cluster.Targets[v.Target]
	c := MemberReport{Target: t.ID, Health: v.Health}
	if at, under := f.repairs[f.groupOf(v.Target)]; under {
		c.Repair = &f.cluster.Repairs[at]
		c.Lead = c.Repair.Policy
	}
	stands := false
	for _, i := range f.requests[t.ID.Name] {
		if q := &f.cluster.Requests[i]; q.about(&t.ID) && (q.RequestedBy(&p.ID) || q.Policy == (ID{})) {
			c.Requests = append(c.Requests, *q)
			stands = stands || !q.Leaving
		}
	}
	steps := p.StepsFor(t)
	if c.Repair != nil {
		steps = c.Repair.Steps
	}
	sortRequests(c.Requests, steps)
	if recovers := v.Reason == Recovering; recovers {
		c.HealthySince = healthySince(&p.Criteria, t)
		if c.Repair != nil && c.Repair.Recovered.After(c.HealthySince) {
			c.HealthySince = c.Repair.Recovered
		}
		c.Delayed = p.HealthyDelay > 0 && stands
		if stands {
			c.StableAt = stableAt(&p.Criteria, t)
		}
	}
	return c, v.Health == Unhealthy || c.Repair != nil || len(c.Requests) > 0
}
