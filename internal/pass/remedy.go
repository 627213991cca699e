package pass

import (
	"errors"
	"fmt"
	"time"

	"github.com/fettle-io/fettle/internal/core"
)

// The texts of a Repair after a remedy was called.
const (
	refusedText    = "the remedy was refused and is tried again after a pause"
	handedOverText = "the target is handed over, and its remediator removes the mark"
)

// The errors of a step that is not taken, since calls before it took too long.
var (
	errNodeStale = errors.New("the node or the quorum was read too long ago for this step, since calls to the API server took long, " +
		"or this computer was suspended; it is tried again after a pause; check why the API server or its admission webhooks answer slowly")
	errPolicyStale = errors.New("reading the health checks took too long for this step; " +
		"it is tried again after a pause; check why the API server or its conversion webhooks answer slowly")
)

// findSibling prepares the call of the remedy. It looks up the sibling of the target in a cache where the remedy needs
// it.
func (p *Pass) findSibling(t *task, i int) []Call {
	s := &p.starts[i]
	if !p.starting.contested {
		s.admitted = s.recorded
	}
	target := &p.cluster.Targets[s.target]
	switch {
	case !s.admitted:
		t.end(nil)
		return nil
	case s.step == nil:
		t.end(fmt.Errorf("repairing %s: Repair %s has no step left that can be read; delete it to have the target repaired anew", target.ID, s.repair.Name))
		return nil
	}
	if _, known := p.config.Remedies[s.step.Remedy]; !known {
		t.end(fmt.Errorf("repairing %s: no remedy is called %q", target.ID, s.step.Remedy))
		return nil
	}
	s.remedyCall = &core.RemedyCall{Target: *target, Policy: p.policies[s.policy].ID, Step: *s.step, Repair: s.repair.Name}
	switch effect := s.step.Nature.Effect(); {
	case effect.CreatesRequest: // a request may need the machine of the node, which no other kind of step does
		s.remedyCall.Sibling = core.SiblingOf(&p.cluster, s.target)
		if s.remedyCall.Sibling == (core.ID{}) && p.config.Siblings {
			return []Call{{Kind: FindSibling, Target: *target}}
		}
	case effect.OwnerDecides: // an owner is told all findings
		s.remedyCall.Findings = p.policies[s.policy].Criteria.FindingsBy(&s.verdict, target, p.now)
	}
	return nil
}

func (p *Pass) siblingFound(t *task, c *Call, r *Result) {
	switch {
	case r.Skipped:
		t.end(r.Err)
	case r.Err != nil:
		t.end(fmt.Errorf("repairing %s: looking for its machine: %w", c.Target.ID, r.Err))
	case !r.OK:
		t.end(fmt.Errorf("repairing %s: the machines of this cluster are being read, and one may be an owner of the request; it is tried again", c.Target.ID))
	default:
		p.starts[c.Task].remedyCall.Sibling = r.ID
	}
}

// acquireLease takes the lease of the target's node, where the policy holds leases. Without a remedy to call, other
// tools may need the lease.
func (p *Pass) acquireLease(_ *task, i int) []Call {
	s := &p.starts[i]
	holder := p.policies[s.policy].Holder
	if !p.config.Leases || holder == "" {
		return nil
	}
	return []Call{{Kind: AcquireLease, Target: p.cluster.Targets[s.target], Holder: holder, For: s.step.LeaseDuration()}}
}

func (p *Pass) leaseAcquired(t *task, c *Call, r *Result) {
	switch {
	case r.Skipped:
		t.end(r.Err)
	case r.Err != nil:
		t.end(fmt.Errorf("taking the lease of the node of %s: %w", c.Target.ID, r.Err))
	case !r.OK:
		p.starts[c.Task].result = core.Busy
		t.end(nil)
	}
}

// readClock reads the clock right before the step. Each answer of the API server shows the time of its clock. The last
// answer was to the creation of this repair, or to its lease.
func (*Pass) readClock(*task, int) []Call { return []Call{{Kind: ReadClock}} }

func (*Pass) clockRead(t *task, _ *Call, r *Result) {
	if r.Err != nil {
		t.end(r.Err)
	}
}

// startRemedy calls the remedy, unless the node or the policies were read too long ago. That is reported as a refusal.
func (p *Pass) startRemedy(t *task, i int) []Call {
	s := &p.starts[i]
	target, now := &p.cluster.Targets[s.target], t.clock.Now
	switch {
	case s.needsFreshNode(target) && !target.Confirmed(s.step, now):
		s.refused, s.answered = errNodeStale, now
	case core.Elapsed(s.policiesReadAt, now) >= policiesFreshFor:
		s.refused, s.answered = errPolicyStale, now
	default:
		return []Call{{Kind: StartRemedy, RemedyCall: s.remedyCall}}
	}
	return nil
}

// needsFreshNode reports whether the step needs a live read of the node. The first step of a repair needs it. So does
// each step after which the owner replaces the target, or that may cost the control plane its quorum. The targets of
// other steps are in repair already.
func (s *pendingStart) needsFreshNode(t *core.Target) bool {
	return s.step.Nature.Effect().OwnerReplaces || len(s.repair.Tried) == 0 || t.MaybeControlPlane()
}

func (p *Pass) remedyAnswered(t *task, c *Call, r *Result) {
	s := &p.starts[c.Task]
	switch {
	case r.Skipped, r.Panicked:
		t.end(r.Err)
	case r.CutOff:
		t.end(fmt.Errorf("repairing %s was cut off, and the next leader goes on with it: %w", c.RemedyCall.Target.ID, r.Err))
	default:
		s.result, s.refused, s.answered = r.RemedyResult, r.Err, r.Clock.Now
	}
}

// recordAnswer records that the call of a remedy was refused, or that the target was handed over. A deletion or a
// request shows in the cluster itself.
func (p *Pass) recordAnswer(_ *task, i int) []Call {
	s := &p.starts[i]
	switch {
	case s.refused != nil:
		s.repair.Attempts++
		s.repair.LastAttempt, s.expected = s.answered, true
		return []Call{{Kind: UpdateRepair, Repair: s.repair.ToWrite(), Text: refusedText, Refused: s.refused}}
	case s.result == core.Accepted && s.step.Nature.Effect().MarksForRemediator:
		s.repair.Begun, s.expected = s.answered, true
		return []Call{{Kind: UpdateRepair, Repair: s.repair.ToWrite(), Text: handedOverText}}
	}
	return nil
}

func (p *Pass) answerRecorded(t *task, c *Call, r *Result) {
	s := &p.starts[c.Task]
	written := p.repairUpdated(&s.repair, r)
	switch {
	case r.Err != nil && s.refused != nil:
		t.end(fmt.Errorf("recording an attempt of repair %s: %w", s.repair.Name, r.Err))
	case r.Err != nil:
		t.end(fmt.Errorf("recording that the target of repair %s is handed over: %w", s.repair.Name, r.Err))
	case s.refused == nil:
		s.conflict = !written
	}
}

// repairUpdated takes in a repair as it was written. It returns false when the repair was not written.
func (p *Pass) repairUpdated(r *core.Repair, result *Result) bool {
	switch {
	case result.Err != nil:
		return false
	case !result.OK:
		p.report(Event{Kind: RepairConflict, Repair: *r})
		return false
	}
	*r = result.Repair
	return true
}

// finishStarts records what was started until the caches show it, and reports it.
func (p *Pass) finishStarts() bool {
	if len(p.starts) == 0 {
		return false
	}
	var events []core.Event
	for i := range p.starts {
		s := &p.starts[i]
		failed := s.failed || len(p.progress[StartingRemedies].tasks[i].errs) > 0
		h, soon := p.finishStart(s)
		// A pass that fails is repeated after pauses that grow, which looking again would cut short.
		p.starting.repeat = p.starting.repeat || (soon && !failed && !p.starting.unread)
		events = append(events, h...)
	}
	p.emit(events)
	return false
}

// finishStart records what was started for one repair. It returns the events, and whether another pass should look at
// the target soon.
func (p *Pass) finishStart(s *pendingStart) ([]core.Event, bool) {
	if !s.recorded {
		return nil, true
	}
	// A record that is only looked at once more may be gone, and must not be believed in anew each time.
	if s.expected {
		p.state.Expectations.ExpectRepair(s.repair, p.answeredAt())
	}
	target, policy := &p.cluster.Targets[s.target], &p.policies[s.policy]
	p.reportRecorded(s)
	h := core.Event{
		Policy: policy.ID, Target: target.ID, Node: target.Node.Name, Text: s.verdict.Text(), Repair: keyOf(&s.repair), Step: len(s.repair.Tried) + 1,
	}
	e := Event{Policy: policy, Target: target.ID, Repair: s.repair, RemedyResult: s.result}
	if s.step != nil {
		h.Remedy, e.Remedy, e.RequestCreated = s.step.Remedy, s.step.Remedy, s.step.Nature.Effect().NeedsWithdrawal
	}
	switch {
	case s.result == 0 && s.refused == nil: // the call was cut off, or not made
		return nil, true
	case s.refused != nil:
		h.Kind, h.Text = core.EventRefused, s.refused.Error()
		e.Kind, e.Err = RemedyRefused, s.refused
		p.report(e)
		return []core.Event{h}, true
	case s.result == core.Accepted:
		h.Kind, e.Kind = core.EventStarted, RemedyAccepted
		e.First, e.Took = len(s.repair.Tried) == 0, s.answered.Sub(s.startedAt())
		p.expectEffect(s)
		p.report(e)
		if s.step.Nature.Effect().MarksForRemediator && target.ExternallyRemediated { // it was marked already, by another writer
			return nil, s.conflict
		}
		return []core.Event{h}, s.conflict
	case s.result == core.Busy: // a watch tells when that changes
		e.Kind = LeaseBusy
		p.report(e)
		return nil, false
	}
	e.Kind = TargetChanged
	p.report(e)
	return nil, true
}

func (p *Pass) reportRecorded(s *pendingStart) {
	if s.newRepair == nil {
		return
	}
	e := Event{Kind: RepairRecorded, Policy: &p.policies[s.policy], Repair: s.repair, Ladder: s.newRepair.Steps}
	if p.config.Samples {
		if sample, measured := p.state.latencies.Started(e.Policy.ID, s.newRepair.Target.ID, s.newRepair.Started); measured {
			e.Samples = []core.LatencySample{sample}
		}
	}
	p.report(e)
}

// expectEffect records what a remedy has done until a cache shows it.
func (p *Pass) expectEffect(s *pendingStart) {
	target := p.cluster.Targets[s.target].ID
	switch effect := s.step.Nature.Effect(); {
	case effect.Deletes:
		p.state.Expectations.ExpectDeletion(target)
	case effect.CreatesRequest:
		p.state.Expectations.ExpectRequest(core.Request{
			Remedy: s.step.Remedy, Template: s.step.Template, Target: target, Policy: p.policies[s.policy].ID, Created: s.answered, Own: true,
		}, p.answeredAt())
	}
	// The effects of other remedies show on the target, or the repair says so.
}

// startedAt returns when the repair started.
func (s *pendingStart) startedAt() time.Time {
	if s.newRepair != nil {
		return s.newRepair.Started
	}
	return s.repair.Started
}
