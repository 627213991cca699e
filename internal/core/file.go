package core

import (
	"cmp"
	"slices"
)

// file adds the cases of the policies that ask remediators to their reports.
func (d *Decision) file(reports []PolicyReport, fleet *Fleet) {
	f := filing{fleet: fleet, requests: map[string][]int{}, bodies: embody(fleet.Targets), repairs: map[int]int{}}
	if !slices.ContainsFunc(reports, func(r PolicyReport) bool { return r.Policy.petitions() }) {
		return
	}
	f.index()
	for i := range d.Verdicts {
		v := &d.Verdicts[i]
		if r := &reports[v.Policy]; v.Health != Healthy && r.Policy.petitions() {
			if c, worth := f.caseOf(&r.Policy, v); worth {
				r.Cases = append(r.Cases, c)
			}
		}
	}
	for i := range reports {
		slices.SortFunc(reports[i].Cases, func(a, b Case) int { return a.Target.Compare(b.Target) })
	}
}

// petitions tells whether the policy asks remediators, or can't say what it asks.
func (p *Policy) petitions() bool {
	return len(p.Ladder) == 0 || slices.ContainsFunc(p.Ladder, func(s Step) bool { return s.Nature.Stands() })
}

// filing finds what belongs to a target.
type filing struct {
	fleet *Fleet
	// requests are by the name of their target.
	requests map[string][]int
	bodies   []int
	// repairs are the running ones, by the body of their target.
	repairs map[int]int
}

func (f *filing) index() {
	for i := range f.fleet.Requests {
		name := f.fleet.Requests[i].Target.Name
		f.requests[name] = append(f.requests[name], i)
	}
	running := map[string]int{}
	for i := range f.fleet.Repairs {
		if r := &f.fleet.Repairs[i]; r.Running() {
			running[r.Target.UID] = i
		}
	}
	for i := range f.fleet.Targets {
		if len(running) == 0 {
			return
		}
		if r, under := running[f.fleet.Targets[i].ID.UID]; under {
			f.repairs[f.body(i)] = r
		}
	}
}

func (f *filing) body(target int) int {
	if f.bodies == nil {
		return target
	}
	return f.bodies[target]
}

// caseOf gives the case of a member that is not healthy, unless it is of no interest yet.
func (f *filing) caseOf(p *Policy, v *Verdict) (Case, bool) {
	t := &f.fleet.Targets[v.Target]
	c := Case{Target: t.ID, Health: v.Health}
	if at, under := f.repairs[f.body(v.Target)]; under {
		c.Repair = &f.fleet.Repairs[at]
		c.Lead = c.Repair.Policy
	}
	stands := false
	for _, i := range f.requests[t.ID.Name] {
		if q := &f.fleet.Requests[i]; q.about(&t.ID) && (q.askedBy(&p.ID) || q.Policy == (ID{})) {
			c.Requests = append(c.Requests, *q)
			stands = stands || !q.Leaving
		}
	}
	ladder := p.LadderFor(t)
	if c.Repair != nil {
		ladder = c.Repair.Ladder
	}
	slices.SortFunc(c.Requests, func(a, b Request) int {
		return cmp.Or(a.Created.Compare(b.Created), cmp.Compare(a.rung(ladder), b.rung(ladder)), a.ID.Compare(b.ID))
	})
	if recovers := v.Reason == Recovering; recovers {
		c.HealthySince = healthySince(&p.Criteria, t)
		if c.Repair != nil && c.Repair.Recovered.After(c.HealthySince) {
			c.HealthySince = c.Repair.Recovered
		}
		c.Delayed = p.HealthyDelay > 0 && stands
	}
	return c, v.Health == Unhealthy || c.Repair != nil || len(c.Requests) > 0
}
