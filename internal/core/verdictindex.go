package core

import "slices"

// verdictIndex has the verdicts on the groups that are unhealthy or under repair, and the targets
// that all policies find healthy.
type verdictIndex struct {
	judgement
	// affected are these groups, each once, and byGroup has the verdicts on them.
	affected []int
	byGroup  groupVerdicts
	// poolHealth has the health of each pool with repairs, and youngestHealthy its youngest healthy
	// target.
	poolHealth      map[ID]*poolHealth
	youngestHealthy map[ID]HealthyTarget
	// healthyUIDs returns the UIDs of healthy targets, by their IDs without UID.
	healthyUIDs func() map[ID]string
}

func newVerdictIndex(judged *judgement) *verdictIndex {
	x := &verdictIndex{judgement: *judged}
	affected := make([]bool, len(x.cluster.Targets))
	for i := range x.verdicts {
		v := &x.verdicts[i]
		if b := x.groupOf(v.Target); !affected[b] && (v.Health == Unhealthy || x.repairOf[b] != none) {
			affected[b] = true
			x.affected = append(x.affected, b)
		}
	}
	if len(x.affected) > 0 {
		x.byGroup = x.verdictsByGroup(affected)
	}
	if len(x.pools) > 0 {
		x.findPoolHealth()
	}
	x.healthyUIDs = onceValue(x.findHealthyUIDs)
	return x
}

// groupVerdicts are verdicts by group: all[from[g]:from[g+1]] are the indices of the verdicts on
// group g. It has two slices, since an outage has very many verdicts.
type groupVerdicts struct{ from, all []int32 }

// on returns the indices of the verdicts on a group.
func (g *groupVerdicts) on(group int) []int32 {
	if g.from == nil {
		return nil
	}
	return g.all[g.from[group]:g.from[group+1]]
}

// verdictsByGroup returns the verdicts on the groups that are marked.
func (x *judgement) verdictsByGroup(marked []bool) groupVerdicts {
	verdicts := x.verdicts
	from := make([]int32, len(marked)+2)
	for i := range verdicts {
		if b := x.groupOf(verdicts[i].Target); marked[b] {
			from[b+2]++
		}
	}
	for t := range len(marked) + 1 {
		from[t+1] += from[t]
	}
	all := make([]int32, from[len(marked)+1])
	for i := range verdicts {
		if b := x.groupOf(verdicts[i].Target); marked[b] {
			all[from[b+1]] = int32(i)
			from[b+1]++
		}
	}
	return groupVerdicts{from, all}
}

// verdictsOnGroup returns the indices of the verdicts on the group of a target.
func (x *verdictIndex) verdictsOnGroup(target int) []int32 {
	return x.byGroup.on(x.groupOf(target))
}

// leaderOf returns the policy that leads a repair and its verdict on the target.
func (x *verdictIndex) leaderOf(r *Repair, target int) (int, *Verdict) {
	for _, i := range x.verdictsOnGroup(target) {
		v := &x.verdicts[i]
		if p := &x.policies[v.Policy]; v.Target == target && p.ID == r.Policy && !p.DryRun {
			return v.Policy, v
		}
	}
	return none, nil
}

// disputed reports whether any policy that acts finds a target unhealthy.
func (x *verdictIndex) disputed(target int) bool {
	return slices.ContainsFunc(x.verdictsOnGroup(target), func(i int32) bool {
		v := &x.verdicts[i]
		return v.Target == target && v.Health == Unhealthy && !x.policies[v.Policy].DryRun
	})
}

// unreadable reports whether the target of a repair can't be judged since its policy is unparsable.
// The target may seem healthy or not selected for that reason alone.
func (x *verdictIndex) unreadable(repair, target int) bool {
	r := &x.cluster.Repairs[repair]
	lead := x.leaderAt(r)
	if lead == none || !x.policies[lead].Unparsable || !x.leads(repair, target) {
		return false
	}
	if !x.policies[lead].Unjudged && !r.needsWithdrawal() {
		return false
	}
	_, v := x.leaderOf(r, target)
	return v == nil || v.Health != Unhealthy
}
