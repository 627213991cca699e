package core

// orphanIndex holds the lookups for requests without a running repair. There may be as many of them as targets, so none
// may cost a look at all verdicts or policies.
type orphanIndex struct {
	// verdicts has the verdicts on the groups that have requests.
	verdicts verdictIndex
	// policies have their own order under each name.
	policies map[qualifiedName][]int
	// unparsable is set when there is a policy that can't be read.
	unparsable bool
}

// indexOrphans fills the index. The verdicts must exist by then.
func (d *planner) indexOrphans() {
	requested := make([]bool, len(d.cluster.Targets))
	for target := range d.requestsAbout {
		requested[d.groupOf(target)] = true
	}
	index := orphanIndex{verdicts: d.verdictsByGroup(requested), policies: make(map[qualifiedName][]int, len(d.policies))}
	for i := range d.policies {
		name := d.policies[i].ID.qualified()
		index.policies[name] = append(index.policies[name], i)
		index.unparsable = index.unparsable || d.policies[i].Unparsable
	}
	d.orphans = index
}
