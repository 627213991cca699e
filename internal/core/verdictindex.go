package core

// verdictIndex are the verdicts on some bodies, by body: the indices of those on body b are
// all[from[b]:from[b+1]]. It is two slices, since a storm has a great many of them.
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

// verdictsOnGroup are the verdicts on the body of a target.
func (d *planner) verdictsOnGroup(target int) []int32 {
	return d.verdicts.on(d.groupOf(target))
}

// on are the verdicts on a body.
func (j *verdictIndex) on(group int) []int32 {
	if j.from == nil {
		return nil
	}
	return j.all[j.from[group]:j.from[group+1]]
}

// groupOf is the index of a target's body.
func (d *planner) groupOf(target int) int {
	if d.groups == nil {
		return target
	}
	return d.groups[target]
}
