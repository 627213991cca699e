package cli

import (
	"fmt"
	"slices"
	"strings"

	"github.com/fettle-io/fettle/internal/core"
)

// These bound the lists in the explanation of a health check.
const (
	// mostMembers, mostRunning and mostEarlier bound what is listed of a health check.
	mostMembers, mostRunning = 20, 20
	// mostNamed bounds the names in a sentence.
	mostNamed = 5
)

// explainCheck explains a health check, by its index.
func (w *assessment) explainCheck(policy int) HealthCheckExplanation {
	h := w.healthCheck(policy)
	e := HealthCheckExplanation{
		HealthCheck: h, Group: groupOf(w.dialectOf[policy]), Counts: w.counts(policy, &h),
		Gates: []GateState{}, NotHealthy: []Target{}, Running: []Repair{}, Ended: []Repair{},
	}
	w.listMembers(policy, &e)
	w.listRepairs(policy, &e)
	w.listKept(policy, &e)
	if w.blocked == nil {
		e.Gates, e.Shared = w.gatesOf(policy), w.sharedWith(policy)
	}
	e.Next = w.nextOfCheck(policy, &h)
	if e.Next.At == nil || e.Next.At.After(*instant(w.at)) {
		e.Idle = w.idle(policy, &h, e.Counts)
	}
	return e
}

// groupOf returns the API group of a dialect's health checks.
func groupOf(d Dialect) string { return d.Read().Sources()[0].Resource.Group }

// counts returns the number of verdicts of each kind. Where no target can be judged from here, it returns the numbers
// that a controller wrote last.
func (w *assessment) counts(policy int, h *HealthCheck) Counts {
	c := Counts{Healthy: h.Healthy, Behind: w.decision.Tallies[policy].AwaitingReplacement}
	if w.blocked != nil {
		return Counts{Healthy: h.Healthy, Unknown: max(0, h.Total-h.Healthy)}
	}
	if w.policies[policy].Unjudged {
		c.Unknown = h.Total
	}
	for _, v := range w.decision.Verdicts {
		if v.Policy != policy {
			continue
		}
		switch v.Health {
		case core.Unhealthy:
			c.Unhealthy++
		case core.Suspect:
			c.Suspect++
		case core.Undetermined:
			c.Unknown++
		case core.Gone:
			c.Gone++
		case core.Healthy:
		}
	}
	return c
}

// listMembers lists the most severe targets that a health check does not find healthy, with its own verdicts.
func (w *assessment) listMembers(policy int, e *HealthCheckExplanation) {
	found := slices.DeleteFunc(w.judgedBy(policy), func(a notHealthyTarget) bool { _, ails := w.isNotHealthy(a.target); return !ails })
	sortNotHealthy(found)
	e.Omitted = max(0, len(found)-mostMembers)
	for _, a := range found[:len(found)-e.Omitted] {
		t := w.target(a.target)
		if w.blocked == nil {
			t.Health, t.Reason, t.Since, t.Until = a.worst.Health.String(), a.worst.Reason.String(), instant(a.worst.Since), instant(a.worst.Until)
		}
		e.NotHealthy = append(e.NotHealthy, t)
	}
}

// judgedBy returns the targets of a policy that it does not find healthy, or that are under repair, with their
// verdicts.
func (w *assessment) judgedBy(policy int) []notHealthyTarget {
	var found []notHealthyTarget
	for _, v := range w.decision.Verdicts {
		_, repaired := w.repairOf(v.Target)
		if v.Policy == policy && (v.Health != core.Healthy || repaired) {
			found = append(found, notHealthyTarget{w, v.Target, v})
		}
	}
	return found
}

// listRepairs lists the running repairs that a policy leads, and the ended repairs that it led.
func (w *assessment) listRepairs(policy int, e *HealthCheckExplanation) {
	var running, ended []int
	for i := range w.cluster.Repairs {
		switch r := &w.cluster.Repairs[i]; {
		case r.Policy != w.policies[policy].ID:
		case r.Running():
			running = append(running, i)
		default:
			ended = append(ended, i)
		}
	}
	slices.SortStableFunc(running, func(a, b int) int { return w.cluster.Repairs[a].Started.Compare(w.cluster.Repairs[b].Started) })
	slices.SortStableFunc(ended, func(a, b int) int { return w.cluster.Repairs[b].Ended.Compare(w.cluster.Repairs[a].Ended) })
	e.RunningOmitted, e.Retained = max(0, len(running)-mostRunning), len(ended)
	for _, i := range running[:len(running)-e.RunningOmitted] {
		e.Running = append(e.Running, w.repair(i))
	}
	for _, i := range ended[:min(len(ended), mostEarlier)] {
		e.Ended = append(e.Ended, w.repair(i))
	}
}

// listKept lists the oldest requests of a policy that finalizers keep, and whose targets are gone.
func (w *assessment) listKept(policy int, e *HealthCheckExplanation) {
	var kept []*core.Request
	for i := range w.cluster.Requests {
		q := &w.cluster.Requests[i]
		_, exists := w.byID[q.Target]
		if q.Own && q.KeptBy != "" && !exists && q.RequestedBy(&w.policies[policy].ID) {
			kept = append(kept, q)
		}
	}
	slices.SortStableFunc(kept, func(a, b *core.Request) int { return a.LeavingSince.Compare(b.LeavingSince) })
	e.KeptOmitted = max(0, len(kept)-mostRunning)
	for _, q := range kept[:len(kept)-e.KeptOmitted] {
		e.Kept = append(e.Kept, requestOf(q))
	}
}

// sharedWith returns the other policies that select some of the same nodes or machines.
func (w *assessment) sharedWith(policy int) []Sharing {
	var shared []Sharing
	at := map[int]int{}
	for _, group := range w.groupsOf(policy) {
		verdicts := w.groupVerdicts[group]
		here := slices.IndexFunc(verdicts, func(v core.Verdict) bool { return v.Policy == policy })
		lead, leads := w.lead(verdicts[here].Target)
		counted := map[int]bool{policy: true}
		for i, v := range verdicts {
			if counted[v.Policy] {
				continue
			}
			counted[v.Policy] = true
			if _, known := at[v.Policy]; !known {
				at[v.Policy] = len(shared)
				p := &w.policies[v.Policy]
				shared = append(shared, Sharing{HealthCheck: reference(p.ID), DryRun: p.DryRun, Older: i < here})
			}
			shared[at[v.Policy]].add(w.nameOfTarget(verdicts[here].Target), leads && lead.Policy == v.Policy, leads && lead.Policy == policy)
		}
	}
	return shared
}

func (s *Sharing) add(name string, ledByIt, ledHere bool) {
	s.Count++
	if len(s.Names) < mostNamed {
		s.Names = append(s.Names, name)
	}
	if ledByIt {
		s.LedByIt++
	}
	if ledHere {
		s.LedHere++
	}
}

// groupsOf returns the groups of a policy's targets, each once, in the order of its verdicts.
func (w *assessment) groupsOf(policy int) []int {
	var groups []int
	seen := map[int]bool{}
	for _, v := range w.decision.Verdicts {
		if group := w.groups[v.Target]; v.Policy == policy && !seen[group] {
			seen[group] = true
			groups = append(groups, group)
		}
	}
	return groups
}

// nextOfCheck says what happens next for a health check.
func (w *assessment) nextOfCheck(policy int, h *HealthCheck) Next {
	switch {
	case w.blocked != nil:
		return w.nextUnjudged()
	case h.Next != nil:
		return *h.Next
	case w.policies[policy].DryRun:
		return Next{Text: "Nothing: it is a dry run, which repairs nothing."}
	}
	return Next{Text: "Nothing by time alone." + w.resumption(w.refusalsBy(policy))}
}

// idle says why nothing happens now for a health check.
func (w *assessment) idle(policy int, h *HealthCheck, c Counts) string {
	switch {
	case w.blocked != nil && h.Repairs == repairsAllowed:
		return w.nextUnjudged().Text
	case h.Repairs != repairsAllowed:
		return sentence(h.Message)
	case h.Total == 0:
		return "It selects nothing."
	case c.Unhealthy == 0 && c.Behind > 0:
		return "It selects nothing that is unhealthy, and it waits: " + w.decision.Tallies[policy].Waits + "."
	case c.Unhealthy == 0 && c.Suspect+c.Unknown+c.Gone == 0:
		return "Everything that it selects is healthy."
	case c.Unhealthy == 0:
		return "It selects nothing that is unhealthy yet."
	}
	parts := w.holdReasons(policy)
	if h.DryRun {
		parts = append(parts, "it is a dry run, which repairs nothing")
	}
	return fmt.Sprintf("Of its %s %d %s unhealthy: %s.", count(h.Total, strings.ToLower(h.TargetKind)), c.Unhealthy, are(c.Unhealthy), strings.Join(parts, "; "))
}

// holdReasons counts the reasons why unhealthy targets of a policy are not being repaired now.
func (w *assessment) holdReasons(policy int) []string {
	var words []string
	counts := map[string]int{}
	for _, v := range w.decision.Verdicts {
		if v.Policy != policy || v.Health != core.Unhealthy {
			continue
		}
		word := w.holdReason(policy, v.Target)
		counts[word]++
		if counts[word] == 1 {
			words = append(words, word)
		}
	}
	for i, word := range words {
		words[i] = fmt.Sprintf("%d %s", counts[word], word)
	}
	return words
}

func (w *assessment) holdReason(policy, target int) string {
	refusals := w.refusalsOf[target]
	lead, leads := w.lead(target)
	_, repaired := w.repairOf(target)
	dryRun := slices.ContainsFunc(w.dryRuns[target], func(s core.Start) bool { return s.Policy == policy })
	switch {
	case dryRun:
		return "would be repaired now"
	case leads && lead.Policy != policy:
		return "left to " + w.policies[lead.Policy].ID.String() + ", which leads"
	case len(refusals) > 0:
		return "held back by " + strings.Join(gateNames(refusals), ", ")
	case repaired:
		return "under repair"
	}
	return "not held back by any gate"
}
