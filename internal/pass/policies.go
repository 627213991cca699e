package pass

import (
	"fmt"
	"slices"
	"time"

	"github.com/fettle-io/fettle/internal/core"
)

// policiesFreshFor is how long a live read of the policies can justify a step.
const policiesFreshFor = 10 * time.Second

// policyCheck reads policies from the API server. A watch that lags shows an earlier version of a policy that is
// deleted, paused or changed. So does a status that needs no write.
type policyCheck struct {
	// policies has the policies that select one of the targets, or another target of its group.
	policies []int
	// unchanged reports of each whether it is as the decision was based on.
	unchanged []bool
	// changed is set when a policy was deleted or changed, and failed when a read has failed.
	changed, failed bool
	// at is when the check began.
	at time.Time
}

func (p *Pass) checkOf(targets []int, at time.Time) policyCheck {
	policies := core.PoliciesSelecting(p.policies, &p.cluster, targets)
	return policyCheck{policies: policies, unchanged: make([]bool, len(policies)), at: at}
}

func (p *Pass) readPolicy(c *policyCheck, i int) Call {
	id := p.policies[c.policies[i]].ID
	return Call{Kind: ReadPolicy, Dialect: p.policyDialect[id], Policy: id}
}

func (p *Pass) policyRead(t *task, check *policyCheck, i int, r *Result) {
	policy := &p.policies[check.policies[i]]
	switch {
	case r.Err != nil:
		check.failed = true
		err := r.Err
		if !r.Skipped {
			err = fmt.Errorf("reading %s again: %w", policy.ID, r.Err)
		}
		t.errs = append(t.errs, err)
	case r.Fingerprint != "" && r.Fingerprint == policy.Fingerprint:
		check.unchanged[i] = true
	default:
		check.changed = true
		p.report(Event{Kind: PolicyChanged, Policy: policy})
	}
}

// blockedGroups returns the groups of all targets, and which groups are selected by a policy that has changed or is
// unread.
func (p *Pass) blockedGroups(c *policyCheck) (groups []int, blocked map[int]bool) {
	groups, blocked = core.Groups(p.cluster.Targets), map[int]bool{}
	for i, policy := range c.policies {
		if c.unchanged[i] {
			continue
		}
		for _, m := range p.policies[policy].Members {
			blocked[groups[m]] = true
		}
	}
	return groups, blocked
}

// policiesOfStarts returns how many policies the starts of repairs depend on.
func (p *Pass) policiesOfStarts() int {
	p.starting.check = p.checkOf(p.startTargets(), p.clock.Now)
	return len(p.starting.check.policies)
}

func (p *Pass) readPolicyOfStart(_ *task, i int) []Call {
	return []Call{p.readPolicy(&p.starting.check, i)}
}

func (p *Pass) policyOfStartRead(t *task, c *Call, r *Result) {
	p.policyRead(t, &p.starting.check, c.Task, r)
}

// dropBlockedStarts leaves out the repairs of groups that are selected by a policy which has changed or is unread.
func (p *Pass) dropBlockedStarts() bool {
	check := &p.starting.check
	if len(check.policies) > 0 {
		groups, blocked := p.blockedGroups(check)
		p.starts = slices.DeleteFunc(p.starts, func(s pendingStart) bool { return blocked[groups[s.target]] })
	}
	for i := range p.starts {
		p.starts[i].policiesReadAt = check.at
	}
	p.starting.repeat = check.changed
	return false
}

// recheckPolicies reads the policies again when they were read too long ago for the step. Calls may have hung since,
// and the process or its computer may have been suspended.
func (p *Pass) recheckPolicies(t *task, i int) []Call {
	s := &p.starts[i]
	if t.clock.Agrees != core.Yes {
		t.end(nil)
		return nil
	}
	if core.Elapsed(s.policiesReadAt, t.clock.Now) < policiesFreshFor {
		return nil
	}
	s.check = p.checkOf([]int{s.target}, t.clock.Now)
	calls := make([]Call, len(s.check.policies))
	for i := range calls {
		calls[i] = p.readPolicy(&s.check, i)
	}
	return calls
}

func (p *Pass) policyRechecked(t *task, c *Call, r *Result) {
	s := &p.starts[c.Task]
	p.policyRead(t, &s.check, c.place, r)
	if t.waiting > 0 {
		return
	}
	if groups, blocked := p.blockedGroups(&s.check); t.clock.Agrees != core.Yes || blocked[groups[s.target]] {
		t.end(nil)
	} else {
		s.policiesReadAt = s.check.at
	}
}

// policiesOfSteps returns how many policies the repairs depend on whose step is given up. A policy that has changed
// would hold back the next step, and no remediator would be at work.
func (p *Pass) policiesOfSteps() int {
	var targets []int
	for i := range p.running.changes {
		if a := p.running.changes[i].advance; a != nil {
			targets = append(targets, a.Target)
		}
	}
	if p.running.check = (policyCheck{}); len(targets) > 0 {
		p.running.check = p.checkOf(targets, p.clock.Now)
	}
	return len(p.running.check.policies)
}

func (p *Pass) readPolicyOfStep(_ *task, i int) []Call {
	return []Call{p.readPolicy(&p.running.check, i)}
}

func (p *Pass) policyOfStepRead(t *task, c *Call, r *Result) {
	p.policyRead(t, &p.running.check, c.Task, r)
}

// holdSteps holds back, for this pass, changes that give up a step while a policy has changed or is unread, or the
// clock is wrong.
func (p *Pass) holdSteps() bool {
	u := &p.running
	groups, blocked := p.blockedGroups(&u.check)
	for i := range u.changes {
		if a := u.changes[i].advance; a != nil && (p.clock.Agrees != core.Yes || blocked[groups[a.Target]]) {
			u.changes[i].held = true
		}
	}
	return false
}
