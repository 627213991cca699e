package core

import (
	"cmp"
	"slices"
	"strings"
)

// The verdicts of one pass are bounded, since every author of health checks adds to them. The bound is minVerdicts
// for a small cluster, and verdictsPerTarget for each target of a large one.
const (
	minVerdicts       = 100_000
	verdictsPerTarget = 8
)

// MaxVerdicts returns how many verdicts one pass over a cluster makes at most. A policy counts for one, and for each of
// its members.
func MaxVerdicts(targets int) int { return max(minVerdicts, verdictsPerTarget*targets) }

// LimitVerdicts limits the number of verdicts of a pass. Of each namespace the oldest policy comes first, then the
// second oldest of each, and so on. So the policies of one namespace can't prevent verdicts of another's. From the
// first policy that does not fit, policies are not judged, and their Problem says so. Their running repairs stay as
// they are. Nothing begins for targets that one of them selects, since its limits are not known (I1, I3).
func LimitVerdicts(policies []Policy, targets []Target, most int) {
	order := ByRank(policies)
	judged, spent := 0, 0
	for judged < len(order) {
		if spent += 1 + len(policies[order[judged]].Members); spent > most {
			break
		}
		judged++
	}
	if judged == len(order) {
		return
	}
	for _, i := range order[judged:] {
		policies[i].markUnjudged(targets)
	}
	shareUnjudged(targets)
}

// ByRank orders policies by their place in their namespace, and policies of one place by age. Work in this order
// reaches each namespace, however many policies another has.
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

// UnjudgedReason is the reason that conditions give for a policy that is not judged.
const UnjudgedReason = "TooManyHealthChecks"

// unjudgedText has no numbers. They change with each policy and each target, and with them would the statuses of all
// policies that are not judged.
const unjudgedText = "it is not judged, since the health checks of this cluster select too many targets in all; " +
	"the oldest health checks of each namespace are judged; delete health checks that are not needed, or have each select fewer"

// markUnjudged excludes a policy from judgement. A dry-run policy holds nothing back.
func (p *Policy) markUnjudged(targets []Target) {
	if !p.DryRun {
		id := p.ID
		for _, m := range p.Members {
			if m >= 0 && m < len(targets) && (targets[m].UnjudgedPolicy == nil || id.Compare(*targets[m].UnjudgedPolicy) < 0) {
				targets[m].UnjudgedPolicy = &id
			}
		}
	}
	p.Unjudged, p.Selected, p.Members = true, len(p.Members), nil
	p.Unparsable = true
	p.Problem = strings.TrimPrefix(p.Problem+"; "+unjudgedText, "; ")
}

// shareUnjudged extends what holds back a target to its whole group.
func shareUnjudged(targets []Target) {
	of := groupsOf(targets)
	if of == nil {
		return
	}
	by := map[int]*ID{}
	for i := range targets {
		id := targets[i].UnjudgedPolicy
		if known := by[of[i]]; id != nil && (known == nil || id.Compare(*known) < 0) {
			by[of[i]] = id
		}
	}
	for i := range targets {
		targets[i].UnjudgedPolicy = by[of[i]]
	}
}
