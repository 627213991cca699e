package core_test

import (
	"errors"
	"slices"
	"time"

	"github.com/fettle-io/fettle/internal/core"
	"github.com/fettle-io/fettle/internal/pass"
)

// pass makes one pass of the engine, call by call. With crash the process ends when the repairs are recorded, and forgets all
// that was not.
func (s *scenario) pass(crash bool) {
	p := pass.New(s.config(), s.state, s.observe())
	calls := p.Calls()
	for len(calls) > 0 {
		c := calls[0]
		if crash && c.Kind == pass.StartRemedy {
			break
		}
		r := s.answer(p, &c)
		r.Clock, r.Began = s.clock(), s.now
		p.Done(c, r)
		calls = append(calls[1:], p.Calls()...)
		s.tellNews(p)
	}
	s.printf("  next pass: %s", clock(p.Decision().NextAt))
	if crash {
		s.printf("  crash")
		s.state = &pass.State{}
	}
}

// config is that of an engine with one dialect and one remedy, which deletes machines.
func (s *scenario) config() pass.Config {
	return pass.Config{Dialects: []pass.Dialect{{}}, Remedies: map[string]bool{"Delete": false}, Decide: core.Decide}
}

func (s *scenario) clock() pass.ClockReading {
	return pass.ClockReading{Now: s.now, Agrees: core.Yes, Corrected: s.now}
}

// answer makes a call.
func (s *scenario) answer(p *pass.Pass, c *pass.Call) (r pass.Result) {
	switch c.Kind { //nolint:exhaustive // the others change nothing in these stories
	case pass.ReadNode:
		r.Node = s.readLive(&c.Target)
	case pass.WriteStatuses:
		s.tell(p)
		for i, t := range p.Decision().Tallies {
			s.policies[i].WasStopped = !t.Permitted || t.CoolingDown // as the status of the health check says
		}
	case pass.ReadPolicy:
		r.Fingerprint = fingerprint
	case pass.CreateRepair:
		r.Repair, r.OK = s.record(c.NewRepair), true
	case pass.ListRunning:
		r.Repairs = slices.DeleteFunc(slices.Clone(s.ledger), func(r core.Repair) bool { return !r.Running() })
	case pass.StartRemedy:
		r.RemedyResult, r.Err = s.start(c.RemedyCall.Target.ID.Name)
	case pass.UpdateRepair:
		r.Repair, r.OK = s.amend(c.Repair), true
	}
	return r
}

func (s *scenario) readLive(t *core.Target) core.Node {
	live := s.machineNamed(t.ID.Name).live
	s.printf("  read the node of %s: %s", t.ID.Name, live.State)
	return live
}

// record adds a repair to the ledger.
func (s *scenario) record(e *core.NewRepair) core.Repair {
	r := core.Repair{
		Namespace: e.Target.ID.Namespace, Name: e.Name, Target: e.Target.ID, Policy: e.Policy.ID, Owner: e.Target.Owner,
		Retry: e.Retry, Started: e.Started.Truncate(time.Second), Steps: e.Steps,
	}
	s.ledger = append(s.ledger, r)
	return r
}

// start deletes a machine, or is refused.
func (s *scenario) start(name string) (core.RemedyResult, error) {
	if s.refusing {
		s.printf("  the deletion of %s is refused", name)
		return 0, errRefused
	}
	s.machineNamed(name).target.Deleting = true
	return core.Accepted, nil
}

var errRefused = errors.New("a webhook denied it")

// amend writes the state of a repair.
func (s *scenario) amend(r core.Repair) core.Repair {
	r.Revision++
	if i := slices.IndexFunc(s.ledger, func(e core.Repair) bool { return e.Name == r.Name }); i >= 0 {
		s.ledger[i] = r
		s.ledger[i].CreatedSameSecond = nil
	}
	return r
}

// tell prints what the pass found, and what it is about to do.
func (s *scenario) tell(p *pass.Pass) {
	policies, f, d := p.Policies(), p.Cluster(), p.Decision()
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
	s.tellActions(p)
}

func (s *scenario) tellActions(p *pass.Pass) {
	policies, f, d := p.Policies(), p.Cluster(), p.Decision()
	for _, finish := range d.Finishes {
		s.printf("  end %s: %s, %s", f.Repairs[finish.Repair].Name, finish.Outcome, finish.Text)
	}
	for _, a := range d.StepStarts {
		s.printf("  act on %s: %s", f.Targets[a.Target].ID.Name, a.Verdict.Text())
	}
	for i := range d.Starts {
		start := &d.Starts[i]
		s.printf("  start %s for %s, retry %d: %s", start.Name, policies[start.Policy].ID.Name, start.Retry, start.Verdict.Text())
	}
}

// tellNews prints the events for users.
func (s *scenario) tellNews(p *pass.Pass) {
	for _, e := range p.Events() {
		if e.Kind != pass.NewEvents {
			continue
		}
		for _, h := range e.Events {
			s.printf("  news: %s %s%s: %s", h.Kind, h.Policy.Name, orNothing(h.Target.Name), h.Text)
		}
	}
}

func orNothing(name string) string {
	if name == "" {
		return ""
	}
	return " " + name
}
