package cli

import (
	"fmt"
	"slices"

	"github.com/fettle-io/fettle/api/medik8s/v1alpha1"
	"github.com/fettle-io/fettle/internal/core"
)

// planned returns a step that was not taken yet.
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

// stepsOf returns the steps of a repair: the steps that were given up, the step under way, and the following ones.
func (w *assessment) stepsOf(repair int) []Step {
	r := &w.cluster.Repairs[repair]
	steps := make([]Step, 0, len(r.Steps))
	began := r.Started
	for i := range r.Steps {
		s := planned(&r.Steps[i])
		switch {
		case i < len(r.Tried):
			record := &r.Tried[i]
			s.State, s.Began, s.Ended, s.Message = record.Outcome.String(), instant(began), instant(record.Ended), record.Text
			began = record.Ended
		case i == len(r.Tried) && r.Running():
			w.underWay(repair, &s)
		case !r.Running():
			s.close(r, i)
		case w.blocked == nil && w.targetOf(repair) < 0:
			s.State, s.Message = stepNotTaken, ""
		}
		steps = append(steps, s)
	}
	return steps
}

// close describes a step that an ended repair has not given up.
func (s *Step) close(r *core.Repair, at int) {
	s.State, s.Message = stepNotTaken, ""
	if at == len(r.Tried) && r.Outcome != core.Recovered {
		s.State, s.Began, s.Ended = stepEnded, instant(r.StepBegan()), instant(r.Ended)
	}
}

// underWay describes the step under way. It has no end while the target is not unhealthy, since no step is given up
// then.
func (w *assessment) underWay(repair int, s *Step) {
	r := &w.cluster.Repairs[repair]
	step := &r.Steps[len(r.Tried)]
	target := w.targetOf(repair)
	s.State, s.Began = stepDue, instant(r.StepBegan())
	if target < 0 {
		w.underWayOfGone(repair, s)
		return
	}
	t := &w.cluster.Targets[target]
	switch effect := step.Nature.Effect(); {
	case effect.Deletes:
		if t.Deleting {
			s.State = stepUnderWay
		}
	case effect.MarksForRemediator:
		if t.ExternallyRemediated && !r.Begun.IsZero() {
			s.State = stepUnderWay
		}
	case effect.NeedsWithdrawal:
		if why, hidden := w.unread.requests(*step); hidden {
			s.State, s.Message = stepUnknown, why
			return
		}
		ends := r.StepBegan().Add(step.Limit)
		if q, stands := w.requestOf(repair, target); stands {
			s.State, ends = stepUnderWay, r.StepEnds(step, q)
		}
		tried := s.State == stepUnderWay || r.Attempts > 0 // a step that gates hold back does not time out
		if v, _ := w.lead(target); tried && step.Limit > 0 && v.Health == core.Unhealthy {
			s.Ends = instant(ends)
		}
	}
}

// targetOf returns the target of a repair, or -1 if it is gone.
func (w *assessment) targetOf(repair int) int {
	if target, exists := w.byID[w.cluster.Repairs[repair].Target]; exists {
		return target
	}
	return -1
}

// requestOf returns the request of the step under way of a repair.
func (w *assessment) requestOf(repair, target int) (*core.Request, bool) {
	return requestUnderWay(&w.cluster.Repairs[repair], w.requestsOn(target))
}

func requestUnderWay(r *core.Repair, requests []*core.Request) (*core.Request, bool) {
	if len(r.Tried) >= len(r.Steps) {
		return nil, false
	}
	step := &r.Steps[len(r.Tried)]
	for _, q := range requests {
		if q.Remedy == step.Remedy && q.Template == step.Template && !q.Leaving {
			return q, true
		}
	}
	return nil, false
}

// requestsOn returns the remediation requests about a target, the oldest first.
func (w *assessment) requestsOn(target int) []*core.Request {
	return w.requestsAbout(w.cluster.Targets[target].ID)
}

func (w *assessment) requestsAbout(id core.ID) []*core.Request {
	var found []*core.Request
	for i := range w.cluster.Requests {
		q := &w.cluster.Requests[i]
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
		TimedOut: instant(q.Stopped), Phase: q.Phase, Leaving: q.Leaving, ReplacesNode: q.Replaces, Foreign: !q.Own,
		LeavingSince: instant(q.LeavingSince), KeptBy: q.KeptBy,
	}
}

// objectsAbout returns the objects for remediators about a target. A request to an owner is no object, and the answer
// of the owner is shown apart.
func (w *assessment) objectsAbout(id core.ID) []Request {
	var objects []Request
	for _, q := range w.requestsAbout(id) {
		if !q.Answers {
			objects = append(objects, w.requestWithFencing(q))
		}
	}
	return objects
}

// objectsOfNamesakes returns the objects about earlier targets of the same name. They may prevent the creation of an
// object about this one.
func (w *assessment) objectsOfNamesakes(id core.ID) []Request {
	var objects []Request
	for i := range w.cluster.Requests {
		q := &w.cluster.Requests[i]
		of := q.Target
		if of.UID == "" || of.UID == id.UID || q.Answers {
			continue
		}
		if of.UID = id.UID; of == id {
			r := w.requestWithFencing(q)
			r.Earlier = true
			objects = append(objects, r)
		}
	}
	return objects
}

// fillDetails fills in the remaining facts about a target.
func (w *assessment) fillDetails(target int, e *ExplainedTarget) {
	t := &w.cluster.Targets[target]
	if w.blocked != nil {
		return
	}
	if id := core.SiblingOf(&w.cluster, target); id != (core.ID{}) {
		sibling := reference(id)
		e.Sibling = &sibling
	}
	e.Excluded, e.ConfirmedHealthy = t.Node.Excluded, t.ConfirmedHealthy
	e.RepairRequest = w.requestedRepair(target)
	e.Lease = w.leaseOf(target)
	e.Requests = append(w.objectsAbout(t.ID), w.objectsOfNamesakes(t.ID)...)
	e.Recovery = w.recoveryOf(target)
	w.fillBMCs(target, e)
	w.fillPromise(target, e)
	if repair, under := w.repairOf(target); under {
		if w.isOf(repair, target) {
			e.Steps, e.Evidence = w.stepsOf(repair), evidenceOf(w.cluster.Repairs[repair].Evidence)
		}
		return
	}
	if policy, plans := w.plannedBy(target); plans {
		steps := w.policies[policy].StepsFor(t)
		for i := range steps {
			e.Steps = append(e.Steps, planned(&steps[i]))
		}
	}
}

// plannedBy returns the policy that would repair an unhealthy or suspect target: the leading one, or the oldest
// that does not find it healthy.
func (w *assessment) plannedBy(target int) (int, bool) {
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

// leaseOf returns the lease of a target's node, or nil where no health check uses leases.
func (w *assessment) leaseOf(target int) *NodeLease {
	heeded, ours := false, false
	lease := w.cluster.Targets[target].Lease
	for _, v := range w.verdictsOf[target] {
		holder := w.policies[v.Policy].Holder
		heeded = heeded || holder != ""
		ours = ours || holder == lease.Holder
	}
	switch {
	case !heeded:
		return nil
	case w.unread.leases != "":
		return &NodeLease{Unknown: w.unread.leases}
	case lease.Holder == "":
		return &NodeLease{}
	}
	return &NodeLease{Holder: lease.Holder, Until: instant(lease.Until), Ours: ours}
}

// recoveryOf returns how long the requests of a target that is healthy again stay, or nil if they don't wait.
func (w *assessment) recoveryOf(target int) *Recovery {
	t := &w.cluster.Targets[target]
	for i := range w.reports {
		for j := range w.reports[i].Members {
			c := &w.reports[i].Members[j]
			stands := slices.ContainsFunc(c.Requests, func(q core.Request) bool { return q.Own && !q.Leaving })
			if c.Target != t.ID || !stands || t.ConfirmedHealthy || !w.recovers(i, target) {
				continue
			}
			if r := w.recoveryIn(&w.reports[i].Policy, c); r != nil {
				return r
			}
		}
	}
	return nil
}

// recoveryIn returns how long the requests of a case stay: for the delay of the policy, and until its conditions have
// settled.
func (w *assessment) recoveryIn(p *core.Policy, c *core.MemberReport) *Recovery {
	since, until := c.HealthySince, c.StableAt
	if p.HealthyDelay != 0 && c.Repair != nil && c.Repair.Recovered.IsZero() {
		since = w.at // the controller has not seen it yet
	}
	if delayed := since.Add(p.HealthyDelay); p.HealthyDelay > 0 && delayed.After(until) {
		until = delayed
	}
	if p.HealthyDelay == 0 && !w.at.Before(until) {
		return nil
	}
	r := &Recovery{Since: instant(since)}
	if c.Target.Kind == "Node" {
		r.Confirm = fmt.Sprintf("kubectl annotate node %s %s=true", c.Target.Name, v1alpha1.ConfirmedHealthyAnnotation)
	}
	if p.HealthyDelay >= 0 {
		r.Until = instant(until)
	}
	return r
}

func (w *assessment) recovers(policy, target int) bool {
	v, _ := w.verdictOf(policy, target)
	return v.Reason == core.Recovering
}

// nextOfRemediator is for a step without a limit that a remediator takes. The request is nil while it is not seen yet.
func nextOfRemediator(r *core.Repair, q *core.Request) Next {
	if q != nil {
		if until := r.RecoversUntil(q); !until.IsZero() {
			return Next{At: instant(until), Text: "It is left to people and no longer counts as under repair, if it is still unhealthy: its remediator says that it succeeded."}
		}
	}
	return Next{Text: "Fettle waits for the outside remediator, for as long as it takes. Once it is healthy, the repair ends."}
}
