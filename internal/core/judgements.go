package core

// judgements are the verdicts on some bodies, by body: the indices of those on body b are
// all[from[b]:from[b+1]]. It is two slices, since a storm has a great many of them.
type judgements struct{ from, all []int32 }

func (d *deliberation) judgementsOn(troubled []bool) judgements {
	verdicts := d.decision.Verdicts
	from := make([]int32, len(troubled)+2)
	for i := range verdicts {
		if b := d.body(verdicts[i].Target); troubled[b] {
			from[b+2]++
		}
	}
	for t := range len(troubled) + 1 {
		from[t+1] += from[t]
	}
	all := make([]int32, from[len(troubled)+1])
	for i := range verdicts {
		if b := d.body(verdicts[i].Target); troubled[b] {
			all[from[b+1]] = int32(i)
			from[b+1]++
		}
	}
	return judgements{from, all}
}

// judgementsOf are the verdicts on the body of a target.
func (d *deliberation) judgementsOf(target int) []int32 {
	return d.judgements.on(d.body(target))
}

// on are the verdicts on a body.
func (j *judgements) on(body int) []int32 {
	if j.from == nil {
		return nil
	}
	return j.all[j.from[body]:j.from[body+1]]
}

// body is the index of a target's body.
func (d *deliberation) body(target int) int {
	if d.bodies == nil {
		return target
	}
	return d.bodies[target]
}
