package cli

import (
	"fmt"
	"slices"

	"github.com/fettle-io/fettle/api/medik8s/v1alpha1"
	"github.com/fettle-io/fettle/internal/core"
)

// planned tells of a step that nobody has taken yet.
func planned(s *core.Step) Step {
	out := Step{Remedy: s.Remedy, State: stepPlanned, Message: s.Problem}
	if s.Template != (core.Reference{}) {
		out.Template = &Template{APIVersion: s.Template.APIVersion, Kind: s.Template.Kind, Namespace: s.Template.Namespace, Name: s.Template.Name}
	}
	if s.Limit > 0 {
		out.Timeout = s.Limit.String()
	}
	return out
}

// stepsOf tells of the steps of a repair: those that were given up, the one under way, and those that follow.
func (w *world) stepsOf(repair int) []Step {
	r := &w.fleet.Repairs[repair]
	steps := make([]Step, 0, len(r.Ladder))
	began := r.Started
	for i := range r.Ladder {
		s := planned(&r.Ladder[i])
		switch {
		case i < len(r.Rungs):
			rung := &r.Rungs[i]
			s.State, s.Began, s.Ended, s.Message = rung.Outcome.String(), instant(began), instant(rung.Ended), rung.Text
			began = rung.Ended
		case i == len(r.Rungs) && r.Running():
			w.underWay(repair, &s)
		}
		steps = append(steps, s)
	}
	return steps
}

// underWay tells of the step under way. It has no end while the target is not unhealthy: then nothing is given up.
func (w *world) underWay(repair int, s *Step) {
	r := &w.fleet.Repairs[repair]
	step := &r.Ladder[len(r.Rungs)]
	target := w.targetOf(repair)
	s.State, s.Began = stepDue, instant(r.StepBegan())
	if target < 0 {
		return
	}
	t := &w.fleet.Targets[target]
	switch step.Nature {
	case core.Destroys:
		if t.Deleting {
			s.State = stepUnderWay
		}
	case core.HandsOver:
		if t.Claimed && !r.Begun.IsZero() {
			s.State = stepUnderWay
		}
	case core.Requests, core.Delegates:
		if why, hidden := w.unread.requests(*step); hidden {
			s.State, s.Message = stepUnknown, why
			return
		}
		ends := r.StepBegan().Add(step.Limit)
		if q, stands := w.requestOf(repair, target); stands {
			s.State, ends = stepUnderWay, r.StepEnds(step, q)
		}
		tried := s.State == stepUnderWay || r.Attempts > 0 // a step that gates hold back has no end
		if v, leads := w.lead(target); tried && step.Limit > 0 && leads && v.Health == core.Unhealthy {
			s.Ends = instant(ends)
		}
	}
}

// targetOf gives the target of a repair, -1 when that is gone.
func (w *world) targetOf(repair int) int {
	if target, exists := w.byUID[w.fleet.Repairs[repair].Target.UID]; exists {
		return target
	}
	return -1
}

// requestOf gives the request of the step under way of a repair.
func (w *world) requestOf(repair, target int) (*core.Request, bool) {
	r := &w.fleet.Repairs[repair]
	if len(r.Rungs) >= len(r.Ladder) {
		return nil, false
	}
	step := &r.Ladder[len(r.Rungs)]
	for _, q := range w.requestsOn(target) {
		if q.Remedy == step.Remedy && q.Template == step.Template && !q.Leaving {
			return q, true
		}
	}
	return nil, false
}

// requestsOn gives what remediators have been asked for a target, the oldest first.
func (w *world) requestsOn(target int) []*core.Request {
	var found []*core.Request
	id := w.fleet.Targets[target].ID
	for i := range w.fleet.Requests {
		q := &w.fleet.Requests[i]
		of := q.Target
		if of.UID == "" {
			of.UID = id.UID
		}
		if of == id {
			found = append(found, q)
		}
	}
	slices.SortStableFunc(found, func(a, b *core.Request) int { return a.Created.Compare(b.Created) })
	return found
}

func requestOf(q *core.Request) Request {
	return Request{
		Reference: reference(q.ID), APIVersion: q.APIVersion, Template: q.Template.Name, HealthCheck: q.Policy.Name,
		Created: instant(q.Created), Processing: q.Processing.String(), Succeeded: q.Succeeded.String(),
		TimedOut: instant(q.Stopped), Leaving: q.Leaving, ReplacesNode: q.Replaces,
	}
}

// circumstances fills in what else there is to know of a target.
func (w *world) circumstances(target int, e *ExplainedTarget) {
	t := &w.fleet.Targets[target]
	if w.blind != nil {
		return
	}
	if id := core.SiblingOf(&w.fleet, target); id != (core.ID{}) {
		sibling := reference(id)
		e.Sibling = &sibling
	}
	e.Excluded, e.Vouched = t.Excluded, t.Vouched
	e.Lease = w.leaseOf(target)
	for _, q := range w.requestsOn(target) {
		if q.Answers {
			continue // it is no object, and how the owner answers is told apart
		}
		e.Requests = append(e.Requests, requestOf(q))
	}
	e.Recovery = w.recoveryOf(target)
	if repair, under := w.repairOf(target); under {
		if w.isOf(repair, target) {
			e.Steps = w.stepsOf(repair)
		}
		return
	}
	if policy, plans := w.plannerOf(target); plans {
		ladder := w.policies[policy].LadderFor(t)
		for i := range ladder {
			e.Steps = append(e.Steps, planned(&ladder[i]))
		}
	}
}

// plannerOf gives the policy by whose ladder a target that is not well would be repaired: the one that leads, or the
// oldest that doubts it.
func (w *world) plannerOf(target int) (int, bool) {
	if v, leads := w.lead(target); leads {
		return v.Policy, v.Target == target
	}
	for _, v := range w.verdictsOf[target] {
		if v.Health != core.Healthy && v.Health != core.Gone && v.Reason != core.Recovering {
			return v.Policy, true
		}
	}
	return 0, false
}

// leaseOf tells who may take a target's node out of service, nil where no health check heeds that.
func (w *world) leaseOf(target int) *NodeLease {
	heeded, ours := false, false
	lease := w.fleet.Targets[target].Lease
	for _, v := range w.verdictsOf[target] {
		holder := w.policies[v.Policy].Holder
		heeded = heeded || holder != ""
		ours = ours || holder == lease.Holder
	}
	switch {
	case !heeded:
		return nil
	case lease.Holder == hiddenHolder:
		return &NodeLease{Unknown: w.unread.leases}
	case lease.Holder == "":
		return &NodeLease{}
	}
	return &NodeLease{Holder: lease.Holder, Until: instant(lease.Until), Ours: ours}
}

// recoveryOf tells until when the requests of a target that is healthy again stay, nil for those that don't wait.
func (w *world) recoveryOf(target int) *Recovery {
	t := &w.fleet.Targets[target]
	for i := range w.reports {
		p := &w.reports[i].Policy
		for j := range w.reports[i].Cases {
			c := &w.reports[i].Cases[j]
			lasts := p.HealthyDelay != 0 && !t.Vouched && slices.ContainsFunc(c.Requests, func(q core.Request) bool { return !q.Leaving })
			if c.Target != t.ID || !lasts || c.Health != core.Suspect || !w.recovers(i, target) {
				continue
			}
			since := c.HealthySince
			if c.Repair != nil && c.Repair.Recovered.IsZero() {
				since = w.at // the controller has not seen it yet
			}
			r := &Recovery{
				Since: instant(since), Confirm: fmt.Sprintf("kubectl annotate node %s %s=true", t.Node.Name, v1alpha1.ConfirmedHealthyAnnotation),
			}
			if p.HealthyDelay > 0 {
				r.Until = instant(since.Add(p.HealthyDelay))
			}
			return r
		}
	}
	return nil
}

func (w *world) recovers(policy, target int) bool {
	v, judged := w.verdictOf(policy, target)
	return judged && v.Reason == core.Recovering
}
