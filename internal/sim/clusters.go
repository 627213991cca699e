package sim

import (
	"slices"
	"time"

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

// workloadPolicies returns the policies of the workload cluster. They are paused while it yields to the home cluster.
func (e *engine) workloadPolicies(u *Universe) []core.Policy {
	blocked := u.yields(e).BlocksStarts()
	policies := slices.Clone(u.setup.Workload)
	for i := range policies {
		p := &policies[i]
		p.Paused, p.Fingerprint = p.Paused || blocked, edition{}.fingerprint()
	}
	return policies
}

// yields returns what an engine of a workload cluster leaves to the home cluster, by the caches of their process.
func (u *Universe) yields(e *engine) core.Yield {
	if e.cluster != workloadCluster {
		return core.NoYield
	}
	var unknownFor time.Duration
	if home := u.processOf(e)[0]; !home.inStep {
		unknownFor = Ticks(u.truth.now - home.outOfStep)
	}
	return core.YieldTo(u.homeActs(e), unknownFor)
}

// homeActs reports whether the home cluster acts on the nodes of an engine, by the caches of their process. Machines of
// machine.openshift.io, the other kind of targets of a home cluster, do not exist there.
func (u *Universe) homeActs(e *engine) core.Tri {
	home := u.processOf(e)[0]
	known := func(is func() bool) core.Tri {
		switch {
		case !home.inStep:
			return core.Unknown
		case is():
			return core.Yes
		}
		return core.No
	}
	switch acts := core.HomeActs(1,
		func(int) core.Tri { return known(func() bool { return u.actsOn(home.edition, home.nodes, e.nodes) }) },
		func(int) core.Tri { return known(func() bool { return shareNode(home.nodes, e.nodes) }) }); {
	case u.setup.Faults.NoYield, acts == core.Unknown && u.setup.Faults.RashYield:
		return core.No
	default:
		return acts
	}
}

// shareNode reports whether any node is the same in both views.
func shareNode(home, workload []node) bool {
	for i := range home {
		if home[i].sameAs(&workload[i]) {
			return true
		}
	}
	return false
}

// sameAs reports whether two views show the same node.
func (n *node) sameAs(other *node) bool {
	return n.exists && other.exists && n.generation == other.generation
}

// actsOn reports whether the policies of the home cluster, in an edition, act on nodes that are the same in both views.
func (u *Universe) actsOn(v edition, home, workload []node) bool {
	if v.paused || v.removed {
		return false
	}
	for i := range u.setup.Policies {
		p := &u.setup.Policies[i]
		same := func(slot int) bool {
			return home[slot].sameAs(&workload[slot]) && !home[slot].deselected && slot < u.setup.Machines
		}
		if p.Repairs() && slices.ContainsFunc(p.Members, same) {
			return true
		}
	}
	return false
}

// othersAct reports whether policies of the home cluster act on nodes of a workload cluster. They must do so in truth, and
// in the caches of the process. It is unknown while the caches of the home cluster are not in step.
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
	if home.edition == u.truth.edition && u.actsOn(u.truth.edition, truth, truth) && u.actsOn(home.edition, home.nodes, e.nodes) {
		return core.Yes
	}
	return core.No
}

// readPolicy returns the fingerprint of a policy, read from the API server. It is empty for a policy of a workload cluster
// that is to yield by now, and was not when the pass began.
func (u *Universe) readPolicy(p *passRun, id core.ID) string {
	p.others, p.read[id] = u.othersAct(p.engine), u.editionFor(p.engine).edited
	paused := slices.ContainsFunc(p.policies, func(q core.Policy) bool { return q.ID == id && q.Paused })
	acts := func() core.Tri { return u.homeActs(p.engine) }
	if p.engine.cluster == workloadCluster && !u.setup.Faults.NoSecondYield && core.YieldsSince(paused, acts) {
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
