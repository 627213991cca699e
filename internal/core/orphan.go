package core

// orphanIndex holds the lookups for requests without a running repair. There may be as many of them as targets, so none
// may cost a look at all verdicts or policies.
type orphanIndex struct {
	// verdicts has the verdicts on the groups that have requests.
	verdicts verdictIndex
	// unparsable is set when there is a policy that can't be read.
	unparsable bool
}

// indexOrphans fills the index. The verdicts must exist by then.
func (d *planner) indexOrphans() {
	requested := make([]bool, len(d.cluster.Targets))
	for target := range d.requestsAbout {
		requested[d.groupOf(target)] = true
	}
	index := orphanIndex{verdicts: d.verdictsByGroup(requested)}
	for i := range d.policies {
		index.unparsable = index.unparsable || d.policies[i].Unparsable
	}
	d.orphans = index
}

// policiesNamed returns the policies with the kind, namespace and name of an ID. It needs no phase before it.
func (d *planner) policiesNamed(id *ID) []int {
	if d.byName == nil {
		d.byName = make(map[qualifiedName][]int, len(d.policies))
		for i := range d.policies {
			name := d.policies[i].ID.qualified()
			d.byName[name] = append(d.byName[name], i)
		}
	}
	return d.byName[id.qualified()]
}
