package core

// Deduplicator remembers the states that events were emitted for. An event is emitted when a state
// begins, and not again while it lasts. Losing a Deduplicator repeats events.
type Deduplicator struct {
	emitted map[stateKey]bool
}

type stateKey struct {
	kind           EventKind
	gate           Gate
	policy, target string
	// about separates states further: the problem of a policy, or the UID of a request.
	about string
}

// NewEvents returns an event for each state that has begun since the last pass. A target that boots
// is no such state. A cluster that grows would have an event for each machine.
func (j *Deduplicator) NewEvents(policies []Policy, cluster *Cluster, d Decision) []Event {
	page := eventCollector{policies: policies, targets: cluster.Targets, running: runningOn(cluster.Repairs), before: j.emitted, now: map[stateKey]bool{}}
	for i := range policies {
		page.policy(i, d.Tallies[i])
	}
	for i := range d.Verdicts {
		switch v := &d.Verdicts[i]; {
		case !v.Until.IsZero() && v.Reason != NodeStartupTimeout:
			page.target(EventSuspected, v.Policy, v.Target, v.Text())
		case v.Health == Unhealthy && policies[v.Policy].EmitsUnhealthyEvents:
			page.unhealthy(v)
		case v.Health == Undetermined && v.Reason == TargetUnreadable:
			page.target(EventUnreadable, v.Policy, v.Target, v.Text())
		}
	}
	for i := range d.Refusals {
		if r := &d.Refusals[i]; emitted(&policies[r.Policy], r.Gate) {
			page.held(r)
		}
	}
	for i := range d.DryRunStarts {
		s := &d.DryRunStarts[i]
		page.dryRun(s)
	}
	for i := range d.Stuck {
		page.stuck(&d.Stuck[i], cluster)
	}
	j.emitted = page.now
	return page.events
}

// emitted reports whether an event is emitted for the gate. There is none for a template that may
// still turn out to be usable.
func emitted(p *Policy, g Gate) bool {
	return lastingGate(g) && (g != TemplateUnusable || p.StepsKnown())
}

// lastingGate reports whether the gate holds back one target until a user acts. The other gates
// open by themselves, or have an event for the policy as a whole.
func lastingGate(g Gate) bool {
	switch g {
	case NoOwner, NoRemedy, QuorumUnknown, BackingOff, PoolGivenUp, QuorumLost, Excluded, LeaseHeld, AnotherRemediator, RequestsUnseen, StepsExhausted,
		ClusterUpgrading, TargetUpgrading, ControlPlaneBusy, TemplateUnusable, ClockSkewed, ClockUnknown:
		return true
	case PolicyInvalid, PolicyPaused, TooManyUnhealthy, StormCooldown, InFlightLimit, AttemptPause, Unconfirmed:
	}
	return false
}

// runningOn returns the UIDs of the targets under repair.
func runningOn(repairs []Repair) map[string]bool {
	running := map[string]bool{}
	for i := range repairs {
		if r := &repairs[i]; r.Running() {
			running[r.Target.UID] = true
		}
	}
	return running
}

type eventCollector struct {
	policies    []Policy
	targets     []Target
	running     map[string]bool
	before, now map[stateKey]bool
	events      []Event
}

func (p *eventCollector) policy(i int, t Tally) {
	policy := &p.policies[i]
	h := Event{Policy: policy.ID}
	if policy.Problem != "" {
		h.Kind, h.Text = EventMisconfigured, policy.Problem
		p.add(stateKey{kind: h.Kind, policy: policy.ID.UID, about: h.Text}, h)
		return
	}
	if !policy.Paused && holdsBack(policy, t) {
		h.Kind, h.Text = EventShortCircuited, shortCircuitRefusal(policy, t).Text()
		p.add(stateKey{kind: h.Kind, policy: policy.ID.UID}, h)
	}
}

// holdsBack reports whether a policy's short circuit holds back a member that is worth an event.
func holdsBack(p *Policy, t Tally) bool {
	someone := t.Unhealthy()
	if p.QuietWhileNoneFails {
		someone = t.Failed
	}
	return !t.Permitted && someone > 0
}

func (p *eventCollector) target(kind EventKind, policy, target int, text string) {
	t := &p.targets[target]
	h := Event{Kind: kind, Policy: p.policies[policy].ID, Target: t.ID, Node: t.Node.Name, Text: text}
	p.add(stateKey{kind: kind, policy: h.Policy.UID, target: t.ID.UID}, h)
}

// unhealthy adds an unhealthy target, unless its suspicion has had an event. A target under repair
// has no event any more.
func (p *eventCollector) unhealthy(v *Verdict) {
	uid := p.targets[v.Target].ID.UID
	if p.running[uid] {
		p.now[stateKey{kind: EventSuspected, policy: p.policies[v.Policy].ID.UID, target: uid}] = true
		return
	}
	p.target(EventSuspected, v.Policy, v.Target, v.Text())
}

func (p *eventCollector) dryRun(s *Start) {
	t := &p.targets[s.Target]
	h := Event{Kind: EventDryRun, Policy: p.policies[s.Policy].ID, Target: t.ID, Node: t.Node.Name, Text: s.Verdict.Text()}
	if len(s.Steps) > 0 {
		h.Remedy = s.Steps[0].Remedy
	}
	p.add(stateKey{kind: EventDryRun, policy: h.Policy.UID, target: t.ID.UID}, h)
}

// stuck adds a stuck request, once while it exists. Without its policy there is no object for an
// event.
func (p *eventCollector) stuck(s *Stuck, cluster *Cluster) {
	if s.Policy == none {
		return
	}
	q := &cluster.Requests[s.Request]
	h := Event{Kind: EventStuck, Policy: p.policies[s.Policy].ID, Target: q.Target, Text: q.stuckText()}
	if q.Target.IsNode() {
		h.Node = q.Target.Name
	}
	p.add(stateKey{kind: h.Kind, policy: h.Policy.UID, target: q.Target.UID, about: q.ID.UID}, h)
}

func (p *eventCollector) held(r *Refusal) {
	t := &p.targets[r.Target]
	h := Event{
		Kind: EventHeldBack, Policy: p.policies[r.Policy].ID, Target: t.ID, Node: t.Node.Name, Gate: r.Gate, Text: r.Text(),
	}
	p.add(stateKey{kind: EventHeldBack, gate: r.Gate, policy: h.Policy.UID, target: t.ID.UID}, h)
}

// add notes a state, and adds its event if the last pass did not note it.
func (p *eventCollector) add(l stateKey, h Event) {
	if !p.before[l] && !p.now[l] {
		p.events = append(p.events, h)
	}
	p.now[l] = true
}
