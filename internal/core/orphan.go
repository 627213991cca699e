package core

// orphanIndex holds what is looked up for each request that no running repair accounts for. There may be as many of them as
// targets, so that none may cost a look at all verdicts or policies.
type orphanIndex struct {
	// verdicts are those on the bodies that have requests.
	verdicts judgements
	// policies have their own order under each name.
	policies map[qualifiedName][]int
	// illegible is set when there is a policy that can't be read.
	illegible bool
}

// indexOrphans must follow the verdicts.
func (d *deliberation) indexOrphans() {
	petitioned := make([]bool, len(d.fleet.Targets))
	for target := range d.requestsOn {
		petitioned[d.body(target)] = true
	}
	index := orphanIndex{verdicts: d.judgementsOn(petitioned), policies: make(map[qualifiedName][]int, len(d.policies))}
	for i := range d.policies {
		name := d.policies[i].ID.qualified()
		index.policies[name] = append(index.policies[name], i)
		index.illegible = index.illegible || d.policies[i].Illegible
	}
	d.orphans = index
}
