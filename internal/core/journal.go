package core

// Journal remembers what has been told, so that a state is announced when it begins and not again
// while it lasts. Losing it repeats an announcement.
type Journal struct {
	told map[line]bool
}

type line struct {
	kind           HappeningKind
	gate           Gate
	policy, target string
	// about is what else tells apart what is told: the problem of a policy, or the UID of a request.
	about string
}

// News returns the states that have begun since the last pass. A target that boots is no news: a fleet that grows would have
// an event for each machine.
func (j *Journal) News(policies []Policy, fleet *Fleet, d Decision) []Happening {
	page := page{policies: policies, targets: fleet.Targets, running: runningOn(fleet.Repairs), before: j.told, now: map[line]bool{}}
	for i := range policies {
		page.policy(i, d.Tallies[i])
	}
	for i := range d.Verdicts {
		switch v := &d.Verdicts[i]; {
		case v.Health == Suspect && !v.Until.IsZero() && v.Reason != NodeStartupTimeout:
			page.target(Suspected, v.Policy, v.Target, v.Text())
		case v.Health == Unhealthy && policies[v.Policy].TellsUnhealthy:
			page.unhealthy(v)
		case v.Health == Undetermined && v.Reason == TargetUnreadable:
			page.target(Unreadable, v.Policy, v.Target, v.Text())
		}
	}
	for i := range d.Refusals {
		if r := &d.Refusals[i]; telling(&policies[r.Policy], r.Gate) {
			page.held(r)
		}
	}
	for i := range d.Rehearsals {
		s := &d.Rehearsals[i]
		page.rehearsed(s)
	}
	for i := range d.Stuck {
		page.lingering(&d.Stuck[i], fleet)
	}
	j.told = page.now
	return page.news
}

// telling gates are told. Whether a template can be used is not, before that is known.
func telling(p *Policy, g Gate) bool {
	return lasting(g) && (g != TemplateUnusable || p.Settled())
}

// lasting gates hold back one target until somebody does something about it. The others are told
// for the policy as a whole, or open by themselves.
func lasting(g Gate) bool {
	switch g {
	case NoOwner, NoRemedy, QuorumUnknown, BackingOff, PoolGivenUp, QuorumLost, Excluded, LeaseHeld, RequestsUnseen, LadderExhausted,
		ClusterUpgrading, TargetUpgrading, ControlPlaneBusy, TemplateUnusable, ClockSkewed, ClockUnknown:
		return true
	case PolicyInvalid, PolicyPaused, TooManyUnhealthy, StormCooldown, InFlightLimit, AttemptPause, Unconfirmed:
	}
	return false
}

// runningOn are the UIDs of the targets that are under repair.
func runningOn(repairs []Repair) map[string]bool {
	running := map[string]bool{}
	for i := range repairs {
		if r := &repairs[i]; r.Running() {
			running[r.Target.UID] = true
		}
	}
	return running
}

type page struct {
	policies    []Policy
	targets     []Target
	running     map[string]bool
	before, now map[line]bool
	news        []Happening
}

func (p *page) policy(i int, t Tally) {
	policy := &p.policies[i]
	h := Happening{Policy: policy.ID}
	if policy.Problem != "" {
		h.Kind, h.Text = Misconfigured, policy.Problem
		p.write(line{kind: h.Kind, policy: policy.ID.UID, about: h.Text}, h)
		return
	}
	if !policy.Paused && holdsBack(policy, t) {
		h.Kind, h.Text = Restricted, restriction(policy, t).Text()
		p.write(line{kind: h.Kind, policy: policy.ID.UID}, h)
	}
}

// holdsBack tells whether a policy's short circuit holds somebody back who is worth telling of.
func holdsBack(p *Policy, t Tally) bool {
	someone := t.Unhealthy()
	if p.QuietWhileNoneFails {
		someone = t.Failed
	}
	return !t.Permitted && someone > 0
}

func (p *page) target(kind HappeningKind, policy, target int, text string) {
	t := &p.targets[target]
	h := Happening{Kind: kind, Policy: p.policies[policy].ID, Target: t.ID, Node: t.Node.Name, Text: text}
	p.write(line{kind: kind, policy: h.Policy.UID, target: t.ID.UID}, h)
}

// unhealthy tells of a target, unless that was told when it was suspected. Once its repair runs, it is no news any more.
func (p *page) unhealthy(v *Verdict) {
	uid := p.targets[v.Target].ID.UID
	if p.running[uid] {
		p.now[line{kind: Suspected, policy: p.policies[v.Policy].ID.UID, target: uid}] = true
		return
	}
	p.target(Suspected, v.Policy, v.Target, v.Text())
}

func (p *page) rehearsed(s *Start) {
	t := &p.targets[s.Target]
	h := Happening{Kind: Rehearsed, Policy: p.policies[s.Policy].ID, Target: t.ID, Node: t.Node.Name, Text: s.Verdict.Text()}
	if len(s.Ladder) > 0 {
		h.Remedy = s.Ladder[0].Remedy
	}
	p.write(line{kind: Rehearsed, policy: h.Policy.UID, target: t.ID.UID}, h)
}

// lingering tells of a request, once while that stands. Where the policy is gone there is nothing to tell it about.
func (p *page) lingering(s *Stuck, fleet *Fleet) {
	if s.Policy == none {
		return
	}
	q := &fleet.Requests[s.Request]
	h := Happening{Kind: Lingering, Policy: p.policies[s.Policy].ID, Target: q.Target, Text: q.stuckText()}
	if q.Target.Kind == nodeKind {
		h.Node = q.Target.Name
	}
	p.write(line{kind: h.Kind, policy: h.Policy.UID, target: q.Target.UID, about: q.ID.UID}, h)
}

func (p *page) held(r *Refusal) {
	t := &p.targets[r.Target]
	h := Happening{
		Kind: Held, Policy: p.policies[r.Policy].ID, Target: t.ID, Node: t.Node.Name, Gate: r.Gate, Text: r.Text(),
	}
	p.write(line{kind: Held, gate: r.Gate, policy: h.Policy.UID, target: t.ID.UID}, h)
}

// write keeps a state on the page, and makes it news when it was not on the one before.
func (p *page) write(l line, h Happening) {
	if !p.before[l] && !p.now[l] {
		p.news = append(p.news, h)
	}
	p.now[l] = true
}
