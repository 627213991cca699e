package sim

import (
	"slices"

	"github.com/fettle-io/fettle/internal/core"
)

// clusterKey says over what an engine passes.
type clusterKey int

const (
	// onlyCluster has machines and nodes.
	onlyCluster clusterKey = iota
	// homeCluster has the nodes, and workloadCluster has machines with the same nodes. One process has an engine for each.
	homeCluster
	workloadCluster
)

// clusters returns the clusters for which each process has an engine.
func (s *Setup) clusters() []clusterKey {
	if len(s.Workload) == 0 {
		return []clusterKey{onlyCluster}
	}
	return []clusterKey{homeCluster, workloadCluster}
}

// has reports whether targets of a kind belong to a cluster.
func (k clusterKey) has(kind string) bool {
	return k == onlyCluster || (k == homeCluster) == (kind == "Node")
}

// own returns the repairs of a cluster. One API server has the repairs of all.
func (k clusterKey) own(repairs []core.Repair) []core.Repair {
	return slices.DeleteFunc(slices.Clone(repairs), func(r core.Repair) bool { return !k.has(r.Target.Kind) })
}

// processOf returns the engines of the process of an engine.
func (u *Universe) processOf(e *engine) []*engine {
	n := len(u.setup.clusters())
	first := e.place - e.place%n
	return u.engines[first : first+n]
}

// workloadPolicies returns the policies of the workload cluster. They are paused while policies of the home cluster act on
// the same nodes.
func (e *engine) workloadPolicies(u *Universe) []core.Policy {
	yields := u.yieldsTo(e) == core.Yes
	policies := slices.Clone(u.setup.Workload)
	for i := range policies {
		p := &policies[i]
		p.Paused, p.Fingerprint = p.Paused || yields, edition{}.fingerprint()
		p.Members = e.selected(p.Members)
	}
	return policies
}

// yieldsTo reports whether an engine of a workload cluster yields to the policies of the home cluster, by the caches of
// their process.
func (u *Universe) yieldsTo(e *engine) core.Tri {
	if e.cluster != workloadCluster || u.setup.Faults.NoYield {
		return core.No
	}
	home := u.processOf(e)[0]
	if !home.inStep {
		if u.setup.Faults.RashYield {
			return core.No
		}
		return core.Unknown
	}
	return u.actsOn(home.edition, home.nodes, e.nodes)
}

// actsOn reports whether the policies of the home cluster, in an edition, act on nodes that are the same in both views.
func (u *Universe) actsOn(v edition, home, workload []node) core.Tri {
	if v.paused || v.removed {
		return core.No
	}
	for i := range u.setup.Policies {
		p := &u.setup.Policies[i]
		same := func(slot int) bool {
			a, b := home[slot], workload[slot]
			return a.exists && b.exists && a.generation == b.generation && !a.deselected && slot < u.setup.Machines
		}
		if p.Repairs() && slices.ContainsFunc(p.Members, same) {
			return core.Yes
		}
	}
	return core.No
}

// othersAct reports whether policies of the home cluster act on nodes of a workload cluster, in truth and as far as the
// caches of the process show. It is unknown while the caches of the home cluster are not in step.
func (u *Universe) othersAct(e *engine) core.Tri {
	if e.cluster != workloadCluster {
		return core.No
	}
	home := u.processOf(e)[0]
	if !home.inStep {
		return core.Unknown
	}
	truth := make([]node, len(u.truth.machines))
	for i := range truth {
		truth[i] = u.truth.machines[i].node
	}
	if home.edition != u.truth.edition || u.actsOn(u.truth.edition, truth, truth) == core.No {
		return core.No
	}
	return u.actsOn(home.edition, home.nodes, e.nodes)
}

// readPolicy returns the fingerprint of a policy, read from the API server. It is empty for a policy of a workload cluster
// that is to yield by now, and was not when the pass began.
func (u *Universe) readPolicy(p *passRun, id core.ID) string {
	p.others = u.othersAct(p.engine)
	knew := slices.ContainsFunc(p.policies, func(q core.Policy) bool { return q.ID == id && q.Paused })
	if !knew && !u.setup.Faults.NoSecondYield && u.yieldsTo(p.engine) != core.No {
		return ""
	}
	return u.editionFor(p.engine).fingerprint()
}

// steady reports whether the policies of the home cluster act on the same nodes all the time. Then the home cluster
// alone repairs them. Otherwise each cluster goes on with the repairs that it has begun, which the other does not see.
func (u *Universe) steady() bool {
	s := u.setup
	return s.Pauses+s.Removals+s.Deselections+s.Vanishings == 0
}

// sees reports whether an engine is to respect repairs of a kind of targets.
func (u *Universe) sees(e *engine, kind string) bool { return e.cluster.has(kind) || u.steady() }

// checkYield checks a step of a workload cluster: no policy of the home cluster acts on the same nodes.
func (u *Universe) checkYield(p *passRun, b remedyStart) {
	switch {
	case p.engine.cluster != workloadCluster:
	case p.others == core.Unknown:
		u.complain("I1: a step of %s is taken, and it is not known whether policies of the home cluster act on the same nodes", b.repair.Name)
	case p.others == core.Yes:
		u.complain("I3: two clusters act on the same nodes: a step of %s is taken, and policies of the home cluster act", b.repair.Name)
	}
}

// checkOneRepairPerNode checks I2: two clusters don't repair one node.
func (u *Universe) checkOneRepairPerNode() {
	if len(u.setup.Workload) == 0 || !u.steady() {
		return
	}
	for i, m := range u.truth.machines {
		if m.mark.requested && m.mark.ours && u.truth.hasRequest(i) {
			u.complain("I2: %s is marked while a remediator is at work on its node", m.id().UID)
		}
	}
}

// editionFor returns the edition of the policies of the cluster of an engine.
func (u *Universe) editionFor(e *engine) edition {
	if e.cluster == workloadCluster {
		return edition{}
	}
	return u.truth.edition
}
