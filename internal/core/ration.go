package core

import (
	"cmp"
	"slices"
	"strings"
)

// The judgements that one pass makes are bounded, since anyone who may write health checks adds to them: leastJudgements
// for a small fleet, and judgementsPerTarget for each target of a large one.
const (
	leastJudgements     = 100_000
	judgementsPerTarget = 8
)

// MostJudgements returns how many judgements one pass over a fleet makes at most. A policy counts for one, and for each of its
// members.
func MostJudgements(targets int) int { return max(leastJudgements, judgementsPerTarget*targets) }

// Ration keeps a pass to a number of judgements. Of each namespace the oldest policy comes first, then the second oldest of
// each, and so on: the policies of one namespace can't keep those of another from being judged. From the first policy that
// does not fit, policies are not judged, which their Problem says. What is under way for them stays as it is, and nothing
// begins for targets that one of them selects, since its limits are not known (I1, I3).
func Ration(policies []Policy, targets []Target, most int) {
	need := 0
	for i := range policies {
		need += 1 + len(policies[i].Members)
	}
	if need <= most {
		return
	}
	order := ByRank(policies)
	judged, spent := 0, 0
	for judged < len(order) {
		if spent += 1 + len(policies[order[judged]].Members); spent > most {
			break
		}
		judged++
	}
	for _, i := range order[judged:] {
		policies[i].overlook(targets)
	}
	shareOverlooked(targets)
}

// ByRank orders policies by their place in their namespace, and policies of one place by age. What is done in this order is
// done for each namespace, however many policies another has.
func ByRank(policies []Policy) []int {
	order := make([]int, len(policies))
	for i := range order {
		order[i] = i
	}
	older := func(a, b int) int {
		p, q := &policies[a], &policies[b]
		return cmp.Or(p.Created.Compare(q.Created), p.ID.Compare(q.ID))
	}
	slices.SortFunc(order, older)
	rank, inNamespace := make([]int, len(policies)), map[string]int{}
	for _, i := range order {
		namespace := policies[i].ID.Namespace
		rank[i] = inNamespace[namespace]
		inNamespace[namespace]++
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(rank[a], rank[b]) })
	return order
}

// OverlookedReason is the reason that conditions give for a policy that is not judged.
const OverlookedReason = "TooManyHealthChecks"

// overlookedText does not tell numbers. They change with each policy and each target, and with them would the statuses of
// all policies that are not judged.
const overlookedText = "it is not judged, since the health checks of this cluster select too many targets in all; " +
	"the oldest health checks of each namespace are judged; delete health checks that are not needed, or have each select fewer"

// overlook has a policy not judged. A policy that only rehearses holds nothing back.
func (p *Policy) overlook(targets []Target) {
	if !p.DryRun {
		id := p.ID
		for _, m := range p.Members {
			if m >= 0 && m < len(targets) && (targets[m].OverlookedBy == nil || id.Compare(*targets[m].OverlookedBy) < 0) {
				targets[m].OverlookedBy = &id
			}
		}
	}
	p.Overlooked, p.Selected, p.Members = true, len(p.Members), nil
	p.Illegible = true
	p.Problem = strings.TrimPrefix(p.Problem+"; "+overlookedText, "; ")
}

// shareOverlooked has what holds back a target hold back all of its body.
func shareOverlooked(targets []Target) {
	of := embody(targets)
	if of == nil {
		return
	}
	by := map[int]*ID{}
	for i := range targets {
		id := targets[i].OverlookedBy
		if known := by[of[i]]; id != nil && (known == nil || id.Compare(*known) < 0) {
			by[of[i]] = id
		}
	}
	for i := range targets {
		targets[i].OverlookedBy = by[of[i]]
	}
}

// overlookedGate: the limits of a policy that is not judged may be exceeded by whatever begins.
func overlookedGate(d *deliberation, p *proposal) (Refusal, bool) {
	by := d.fleet.Targets[p.target].OverlookedBy
	if by == nil {
		return Refusal{}, false
	}
	r := Refusal{Policy: p.leader, Gate: PolicyInvalid, Detail: by.String() + ": " + overlookedText}
	for i := range d.policies {
		if d.policies[i].ID == *by {
			r.Policy, r.Detail = i, d.policies[i].Problem
		}
	}
	return r, true
}
