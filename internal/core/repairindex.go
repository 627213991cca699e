package core

// repairIndex relates repairs to targets, groups and pools.
type repairIndex struct {
	targetIndex
	repairHistory
	// running is the oldest running repair of each target. targetOf maps such a repair to its
	// target, and repairOf a group to its oldest running repair. Targets are identified by their whole ID:
	// an author who knows the UID of one may write it into a Repair of another.
	running  map[ID]int
	targetOf map[int]int
	repairOf []int
	// lastNumber is the highest number among the earlier repairs of each target.
	lastNumber map[ID]int
}

func newRepairIndex(targets *targetIndex) *repairIndex {
	x := &repairIndex{
		targetIndex: *targets, repairHistory: newRepairHistory(targets.cluster.Repairs),
		running: map[ID]int{}, targetOf: map[int]int{}, repairOf: make([]int, len(targets.cluster.Targets)), lastNumber: map[ID]int{},
	}
	for i := range x.cluster.Repairs {
		r := &x.cluster.Repairs[i]
		x.lastNumber[r.Target] = max(x.lastNumber[r.Target], r.number())
		if first, taken := x.running[r.Target]; r.Running() && (!taken || x.olderRepair(i, first) < 0) {
			x.running[r.Target] = i
		}
	}
	x.relateToGroups()
	return x
}

// relateToGroups finds the running repair of each group: the oldest.
func (x *repairIndex) relateToGroups() {
	for i := range x.repairOf {
		x.repairOf[i] = none
	}
	if len(x.running) == 0 {
		return
	}
	for i := range x.cluster.Targets {
		at, under := x.running[x.cluster.Targets[i].ID]
		if !under {
			continue
		}
		x.targetOf[at] = i
		if of := &x.repairOf[x.groupOf(i)]; *of == none || x.olderRepair(at, *of) < 0 {
			*of = at
		}
	}
}

// leads reports whether a repair is the running repair of the group of its target.
func (x *repairIndex) leads(repair, target int) bool {
	return x.repairOf[x.groupOf(target)] == repair
}
