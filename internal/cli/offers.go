package cli

import (
	"fmt"
	"slices"
	"time"

	"github.com/fettle-io/fettle/internal/core"
)

// nextOfPolicy returns the next change for a health check, or nil.
func (w *assessment) nextOfPolicy(policy int) *Next {
	var soonest *Next
	offer := func(of int, at time.Time, text string) {
		if of == policy && !at.IsZero() && (soonest == nil || at.Before(*soonest.At)) {
			soonest = &Next{At: &at, Text: text}
		}
	}
	w.offerRepairs(offer)
	if t := w.decision.Tallies[policy]; t.CoolingDown {
		offer(policy, t.ResumeAt, "repairs resume")
	}
	for _, v := range w.decision.Verdicts {
		if v.Health == core.Suspect {
			offer(v.Policy, v.Until, w.nameOfTarget(v.Target)+" becomes unhealthy")
		}
	}
	if soonest != nil {
		soonest.At = instant(*soonest.At)
	}
	return soonest
}

// offerRepairs offers what is due now, and what waits for a time.
func (w *assessment) offerRepairs(offer func(policy int, at time.Time, text string)) {
	for _, s := range w.decision.Starts {
		offer(s.Policy, w.at, w.nameOfTarget(s.Target)+" is repaired")
	}
	for repair := range w.cluster.Repairs {
		w.offerStep(repair, offer)
	}
	w.offerEnds(offer)
	for _, a := range w.decision.StepStarts {
		offer(a.Policy, w.at, "the remedy for "+w.nameOfTarget(a.Target)+" is called")
	}
	for _, r := range w.decision.Refusals {
		if r.Gate != core.StormCooldown && !r.DryRun {
			offer(r.Policy, latestUntil(w.held(r.Target)), w.nameOfTarget(r.Target)+" is tried again")
		}
	}
}

// offerEnds offers steps and requests that end now, or after a delay.
func (w *assessment) offerEnds(offer func(policy int, at time.Time, text string)) {
	for _, a := range w.decision.Escalations {
		offer(a.Policy, w.at, fmt.Sprintf("step %d of %s is given up", len(w.cluster.Repairs[a.Repair].Tried)+1, w.nameOfTarget(a.Target)))
	}
	for _, g := range w.decision.Withdrawals {
		q := &w.cluster.Requests[g.Request]
		text := q.ID.String() + " is deleted"
		if q.Answers {
			text = "the request to the owner of " + q.Target.Name + " is withdrawn"
		}
		offer(g.Policy, w.at, text)
	}
	for i := range w.reports {
		for j := range w.reports[i].Members {
			c := &w.reports[i].Members[j]
			if c.Delayed && !c.HealthySince.IsZero() {
				until := c.HealthySince.Add(w.policies[i].HealthyDelay)
				if c.StableAt.After(until) {
					until = c.StableAt
				}
				offer(i, until, "the remediation objects of "+c.Target.Name+" are deleted")
			} else if w.policies[i].HealthyDelay == 0 && w.at.Before(c.StableAt) {
				offer(i, c.StableAt, "the request for "+c.Target.Name+" is withdrawn")
			}
		}
	}
}

// offerStep offers when the step under way of a repair times out.
func (w *assessment) offerStep(repair int, offer func(policy int, at time.Time, text string)) {
	r := &w.cluster.Repairs[repair]
	if !r.Running() || len(r.Tried) >= len(r.Steps) {
		return
	}
	policy := slices.IndexFunc(w.policies, func(p core.Policy) bool { return p.ID == r.Policy })
	if step := w.stepsOf(repair)[len(r.Tried)]; step.Ends != nil {
		offer(policy, *step.Ends, fmt.Sprintf("step %d of %s times out", len(r.Tried)+1, r.Target.Name))
	}
}

func (w *assessment) nameOfTarget(i int) string { return w.cluster.Targets[i].ID.Name }
