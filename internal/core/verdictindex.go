package core

// verdictIndex are verdicts by group: all[from[g]:from[g+1]] are the indices of the verdicts on group g. It has two
// slices, since an outage has very many verdicts.
type verdictIndex struct{ from, all []int32 }

func (d *planner) verdictsByGroup(troubled []bool) verdictIndex {
	verdicts := d.decision.Verdicts
	from := make([]int32, len(troubled)+2)
	for i := range verdicts {
		if b := d.groupOf(verdicts[i].Target); troubled[b] {
			from[b+2]++
		}
	}
	for t := range len(troubled) + 1 {
		from[t+1] += from[t]
	}
	all := make([]int32, from[len(troubled)+1])
	for i := range verdicts {
		if b := d.groupOf(verdicts[i].Target); troubled[b] {
			all[from[b+1]] = int32(i)
			from[b+1]++
		}
	}
	return verdictIndex{from, all}
}

// verdictsOnGroup returns the indices of the verdicts on the group of a target.
func (d *planner) verdictsOnGroup(target int) []int32 {
	return d.verdicts.on(d.groupOf(target))
}

// on returns the indices of the verdicts on a group.
func (j *verdictIndex) on(group int) []int32 {
	if j.from == nil {
		return nil
	}
	return j.all[j.from[group]:j.from[group+1]]
}

// groupOf returns the index of a target's group.
func (d *planner) groupOf(target int) int {
	if d.groups == nil {
		return target
	}
	return d.groups[target]
}
