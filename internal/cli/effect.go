package cli

import (
	"fmt"
	"slices"
	"strings"

	"github.com/fettle-io/fettle/internal/core"
)

// mostNames bounds the names of selected targets that are shown.
const mostNames = 10

// effect describes the effect of a policy.
func (w *assessment) effect(policy int) Effect {
	p := &w.policies[policy]
	e := Effect{HealthCheck: w.healthCheck(policy), Selected: []string{}, NotHealthy: []Target{}, RepairsNow: []string{}}
	for _, m := range p.Members {
		t := &w.cluster.Targets[m]
		if len(e.Selected) < mostNames {
			e.Selected = append(e.Selected, t.ID.Name)
		}
		if t.MaybeControlPlane() {
			e.ControlPlane++
		}
	}
	for _, n := range notHealthy([]*assessment{w}) {
		v, selected := w.verdictOf(policy, n.target)
		if selected && v.Health != core.Healthy && len(e.NotHealthy) < mostNames {
			e.NotHealthy = append(e.NotHealthy, w.target(n.target))
		}
	}
	if w.blocked != nil {
		w.effectUnjudged(policy, &e)
	}
	starts := w.decision.Starts
	if p.DryRun {
		starts = w.decision.DryRunStarts
	}
	for _, s := range starts {
		if s.Policy == policy {
			e.RepairsNow = append(e.RepairsNow, w.nameOfTarget(s.Target))
		} else if w.judges(policy, s.Target) && !p.DryRun {
			e.OthersRepair = append(e.OthersRepair, w.nameOfTarget(s.Target))
		}
	}
	e.Overlaps, e.Unknown = w.overlaps(policy), w.unknowns(policy)
	return e
}

// effectUnjudged describes a policy whose targets can't be judged from here. It ignores the status of a health check
// that the draft would replace.
func (w *assessment) effectUnjudged(policy int, e *Effect) {
	h := &e.HealthCheck
	h.Total, h.Healthy = len(w.policies[policy].Members), 0
	for _, m := range w.policies[policy].Members {
		if health, says := w.writtenHealth(m); says && health.Healthy {
			h.Healthy++
		}
	}
	if !w.blocked.Halted {
		h.Repairs, h.Reason, h.Message = repairsUnknown, w.blocked.Reason, w.blocked.Message
	}
}

// overlaps returns the other policies that select some of the same targets. Verdicts are ordered by the age of their
// policies, so the first of two leads.
func (w *assessment) overlaps(policy int) []Overlap {
	shared, older := map[int]int{}, map[int]bool{}
	for _, m := range w.policies[policy].Members {
		before := true
		for _, v := range w.groupVerdicts[w.groups[m]] {
			if v.Policy == policy {
				before = false
				continue
			}
			shared[v.Policy]++
			older[v.Policy] = before
		}
	}
	var found []Overlap
	for i := range w.policies {
		if shared[i] == 0 {
			continue
		}
		o := Overlap{
			HealthCheck: nameOf(w.policies[i].ID), HealthCheckKind: w.policies[i].ID.Kind, Shared: shared[i],
			Leads: nameOf(w.policies[policy].ID), LeadsKind: w.policies[policy].ID.Kind,
		}
		if older[i] {
			o.Leads, o.LeadsKind = o.HealthCheck, o.HealthCheckKind
		}
		found = append(found, o)
	}
	return found
}

// clusterWarnings returns the warnings that need the cluster.
func (w *assessment) clusterWarnings(policy int, e Effect) []Finding {
	var doubts []Finding
	warn := func(format string, args ...any) {
		doubts = append(doubts, Finding{Field: "spec.selector", Message: fmt.Sprintf(format, args...)})
	}
	h := &e.HealthCheck
	kind := strings.ToLower(h.TargetKind)
	switch {
	case h.Total > 0:
		doubts = append(doubts, limitWarnings(&w.policies[policy].ShortCircuit, h)...)
	case h.Namespace == "":
		warn("it selects nothing in the cluster as that is now")
	default:
		warn("it selects nothing in namespace %s as the cluster is now", h.Namespace)
	}
	needsQuorum := func(s core.Step) bool { return !s.Nature.Effect().OwnerDecides }
	if e.ControlPlane > 0 && slices.ContainsFunc(w.policies[policy].Steps, needsQuorum) {
		warn("it selects %s of the control plane, of which one at a time is repaired in the whole cluster, and only while quorum is known to survive", count(e.ControlPlane, kind))
	}
	doubts = append(doubts, w.templateWarnings(policy)...)
	for _, o := range e.Overlaps {
		other, leads := "health check "+o.HealthCheck, o.Leads
		if o.HealthCheckKind != h.Kind {
			other, leads = o.HealthCheckKind+" "+o.HealthCheck, o.LeadsKind+" "+o.Leads
		}
		warn("%s %s selected by %s too: both must allow a repair, and %s, the older, leads it", count(o.Shared, kind), are(o.Shared), other, leads)
	}
	return doubts
}

// limitWarnings warns of a percentage that is so small, or so large, that nothing is ever repaired.
func limitWarnings(s *core.ShortCircuit, h *HealthCheck) []Finding {
	kind := strings.ToLower(h.TargetKind)
	most, least := s.MaxUnhealthy, s.MinHealthy
	switch {
	case h.MostUnhealthy > 0:
	case least != nil:
		return []Finding{{
			Field:   "spec.minHealthy",
			Message: fmt.Sprintf("%s of %s is all of them, so nothing is repaired: one unhealthy %s is too many already", least, count(h.Total, kind), kind),
		}}
	case most.Percent && most.Number > 0:
		return []Finding{{
			Field:   "spec.maxUnhealthy",
			Message: fmt.Sprintf("%s of %s is 0, so nothing is repaired: one unhealthy %s is too many already", most, count(h.Total, kind), kind),
		}}
	}
	return nil
}

// templateWarnings returns the steps that can't be taken now. It leaves out steps whose templates the user may not
// read, which are among the unknown facts.
func (w *assessment) templateWarnings(policy int) []Finding {
	var doubts []Finding
	steps := w.policies[policy].Steps
	field := fieldOfSteps(steps)
	for _, step := range steps {
		if _, hidden := w.unread.requests(step); step.Problem != "" && !hidden {
			doubts = append(doubts, Finding{Field: field, Message: step.Problem})
		}
	}
	return doubts
}

// unknowns returns the reasons why facts are unknown that the effect depends on.
func (w *assessment) unknowns(policy int) []string {
	p := &w.policies[policy]
	var whys []string
	if w.blocked != nil && !w.blocked.Halted {
		whys = append(whys, w.blocked.Message)
	}
	for _, step := range p.Steps {
		if why, hidden := w.unread.requests(step); hidden && !slices.Contains(whys, why) {
			whys = append(whys, why)
		}
	}
	if p.Holder != "" && w.unread.leases != "" {
		whys = append(whys, w.unread.leases)
	}
	if p.WaitsForUpgrades && w.unread.upgrade != "" {
		whys = append(whys, w.unread.upgrade)
	}
	return whys
}
