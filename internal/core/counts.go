package core

// counts has the numbers that the gates compare with limits. The planner adds each repair that
// starts, and removes a waiting repair from later once it has had its turn.
type counts struct {
	replacementIndex
	// tallies has one for each policy, in their order.
	tallies []Tally
	// out are the groups of each quorum group that are under repair, have a request, or are being
	// deleted.
	out map[quorumGroup][]int
	// later counts, by policy, the running repairs that have not begun and whose turn is still to
	// come. laterOut counts those of each quorum group.
	later    []int
	laterOut map[quorumGroup]int
	// startedPools are the owners of targets whose repairs start in this pass.
	startedPools map[ID]bool
}

func newCounts(replacements *replacementIndex) *counts {
	c := &counts{
		replacementIndex: *replacements, tallies: replacements.tally(),
		later: make([]int, len(replacements.policies)), laterOut: map[quorumGroup]int{}, startedPools: map[ID]bool{},
	}
	c.countControlPlane()
	if c.cluster.Observed == Yes {
		for repair, target := range c.targetOf {
			c.queue(repair, target, 1)
		}
	}
	return c
}

// inFlight reports whether the target of a verdict is in flight. It is under repair, has a request,
// or is being deleted while not healthy. All but the first show in the cluster, so a lost ledger
// frees no place for another repair (I6). A repair without a step left frees the place of its own
// target alone. Another target of the group may have a request to its owner.
func (x *requestIndex) inFlight(v *Verdict) bool {
	if at := x.repairOf[x.groupOf(v.Target)]; at != none && x.outOfSteps(at) {
		t := &x.cluster.Targets[v.Target]
		return t.ExternallyRemediated || t.Deleting || (v.Target != x.targetOf[at] && x.underRemediation(v))
	}
	return x.repairOf[x.groupOf(v.Target)] != none || v.WasUnhealthy || x.underRemediation(v)
}

// placesOf counts the places that a target without a repair already has in a policy.
func (x *verdictIndex) placesOf(policy, target int) int {
	places := 0
	for _, i := range x.verdictsOnGroup(target) {
		if v := &x.verdicts[i]; v.Policy == policy {
			places += 1 - x.placesTaken(v)
		}
	}
	return places
}

// verdictsOf counts the members of a policy in the group of a target. Each has a place while it is repaired.
func (x *verdictIndex) verdictsOf(policy, target int) int {
	n := 0
	for _, i := range x.verdictsOnGroup(target) {
		if x.verdicts[i].Policy == policy {
			n++
		}
	}
	return n
}

// queue adds a repair that waits for its turn to the later repairs of its policies, or removes it.
// The oldest of several comes first, and they don't wait for each other.
func (c *counts) queue(repair, target, by int) {
	if !c.waitsForTurn(repair, target) || c.outOfSteps(repair) || !c.leads(repair, target) {
		return
	}
	for _, i := range c.verdictsOnGroup(target) {
		c.later[c.verdicts[i].Policy] += by
	}
	if t := &c.cluster.Targets[target]; t.MaybeControlPlane() {
		c.laterOut[t.quorumGroup()] += by
	}
}

// countStart counts a start against every limit that the next candidate is held to.
func (c *counts) countStart(target int) {
	t := &c.cluster.Targets[target]
	for _, i := range c.verdictsOnGroup(target) {
		v := &c.verdicts[i]
		c.tallies[v.Policy].InFlight += c.placesTaken(v)
	}
	if t.MaybeControlPlane() {
		c.takeOut(target)
	}
	c.startedPools[t.Owner] = true
}
