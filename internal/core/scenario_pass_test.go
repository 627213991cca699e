package core_test

import (
	"slices"
	"time"

	"github.com/fettle-io/fettle/internal/core"
)

// pass is one pass of the engine. With crash it ends when the repairs are recorded, and all that
// was not recorded is forgotten.
func (s *scenario) pass(crash bool) {
	policies, f := s.observe()
	d := core.Decide(policies, f, s.now)
	if len(d.Confirm) > 0 {
		for _, t := range d.Confirm {
			s.readLive(&f.Targets[t])
		}
		d = core.Decide(policies, f, s.now)
	}
	s.expectations.KeepCooldowns(policies, d.Tallies)
	for i, t := range d.Tallies {
		s.policies[i].WasStopped = !t.Permitted || t.CoolingDown // as the status of the health check says
	}
	s.tell(policies, &f, d)
	for _, finish := range d.Finishes {
		r := f.Repairs[finish.Repair]
		r.Ended, r.Outcome = s.now, finish.Outcome
		s.printf("  end %s: %s, %s", r.Name, r.Outcome, finish.Text)
		s.amend(r)
	}
	for _, a := range d.StepStarts {
		s.printf("  act on %s: %s", f.Targets[a.Target].ID.Name, a.Verdict.Text())
		s.begin(f.Repairs[a.Repair])
	}
	for i := range d.Starts {
		start := &d.Starts[i]
		t := &f.Targets[start.Target]
		s.printf("  start %s for %s, retry %d: %s", start.Name, policies[start.Policy].ID.Name, start.Retry, start.Verdict.Text())
		r := core.Repair{
			Namespace: t.ID.Namespace, Name: start.Name, Target: t.ID, Policy: policies[start.Policy].ID, Owner: t.Owner,
			Retry: start.Retry, Started: s.now.Truncate(time.Second), Steps: start.Steps,
		}
		s.ledger = append(s.ledger, r)
		r.CreatedSameSecond = start.CreatedSameSecond
		if !crash {
			s.begin(r)
		}
	}
	s.printf("  next pass: %s", clock(d.NextAt))
	if crash {
		s.printf("  crash")
		s.expectations, s.deduplicator = core.Expectations{}, core.Deduplicator{}
	}
}

func (s *scenario) readLive(t *core.Target) {
	t.Node, t.NodeReadAt = s.actor(t.ID.Name).live, s.now
	s.printf("  read the node of %s: %s", t.ID.Name, t.Node.State)
	if t.Node.State == core.NodeGone {
		t.NodeGoneSince = s.expectations.KeepNodeGone(t.ID, t.Node.Name, s.now)
	}
}

// tell prints what the pass found.
func (s *scenario) tell(policies []core.Policy, f *core.Cluster, d core.Decision) {
	for i, t := range d.Tallies {
		s.printf("%s %s: %d of %d not healthy, at most %d; %d in flight, at most %d", clock(s.now),
			policies[i].ID.Name, t.Unhealthy(), t.Total, t.MaxUnhealthy, t.InFlight, t.MaxInFlight)
	}
	for _, v := range d.Verdicts {
		if v.Health != core.Healthy {
			s.printf("  %s is %s for %s: %s", f.Targets[v.Target].ID.Name, v.Health, policies[v.Policy].ID.Name, v.Reason)
		}
	}
	for i := range d.Refusals {
		r := &d.Refusals[i]
		dryRun := ""
		if r.DryRun {
			dryRun = " (dry run)"
		}
		s.printf("  held %s by %s%s until %s: %s: %s", f.Targets[r.Target].ID.Name, policies[r.Policy].ID.Name, dryRun, clock(r.Until), r.Gate, r.Text())
	}
	for _, h := range s.deduplicator.NewEvents(policies, f, d) {
		s.printf("  news: %s %s%s: %s", h.Kind, h.Policy.Name, orNothing(h.Target.Name), h.Text)
	}
}

func orNothing(name string) string {
	if name == "" {
		return ""
	}
	return " " + name
}

// begin deletes the machine, or is refused.
func (s *scenario) begin(r core.Repair) {
	if s.refusing {
		r.Attempts++
		r.LastAttempt = s.now
		s.printf("  the deletion of %s is refused", r.Target.Name)
	} else {
		s.actor(r.Target.Name).target.Deleting = true
		s.expectations.ExpectDeletion(r.Target)
	}
	s.amend(r)
}

func (s *scenario) amend(r core.Repair) {
	i := slices.IndexFunc(s.ledger, func(e core.Repair) bool { return e.Name == r.Name })
	if i >= 0 {
		s.ledger[i] = r
		s.ledger[i].CreatedSameSecond = nil
	}
	s.expectations.ExpectRepair(r, s.now)
}
