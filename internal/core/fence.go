package core

import "slices"

// Two leaders at once must not together exceed a limit, which each of them keeps by what its caches
// show. So each records its repairs first, then reads from the API server itself what runs, and
// begins only what the limits allow with all of that:
//
//	leader A   record x ─── read {x}    ─── begin x
//	leader B     record y ─── read {x, y} ─── y waits
//
// Of two repairs the later recorded is in no way overlooked: whoever recorded it has read the other
// one after that. The ledger's own order says which is the later, so that both leaders agree.

// NeedsFencing tells whether another leader might start repairs that leave no room for these targets'.
// It might not where nothing limits their number, and each has a node of its own.
func NeedsFencing(policies []Policy, cluster *Cluster, d Decision, targets []int) bool {
	asked := make([]bool, len(cluster.Targets))
	for _, t := range targets {
		if cluster.Targets[t].MaybeControlPlane() {
			return true
		}
		asked[t] = true
	}
	if sharesGroup(cluster.Targets, asked) {
		return true
	}
	for i := range d.Verdicts {
		p := &policies[d.Verdicts[i].Policy]
		if asked[d.Verdicts[i].Target] && !p.DryRun && !p.MaxInFlight.Unlimited {
			return true
		}
	}
	return false
}

// Fenced is the world to decide in anew before a remedy begins: those of the recorded repairs may
// that are among the acts of this decision. Running must be what the API server itself had, after
// the repairs in question were recorded.
func Fenced(policies []Policy, cluster Cluster, running []Repair) ([]Policy, Cluster) {
	repairs := slices.Clone(running)
	for i := range cluster.Repairs {
		if !cluster.Repairs[i].Running() {
			repairs = append(repairs, cluster.Repairs[i])
		}
	}
	policies, cluster.Targets = withUnseenTargets(policies, &cluster, running)
	cluster.Repairs = repairs
	return policies, cluster
}

// withUnseenTargets adds the targets of repairs that others have recorded meanwhile and that the fleet does not show yet: they
// take their room all the same, in the policy that leads their repair. A target that was never seen may belong to the
// control plane, and counts as if it did. A target about which requests are seen is gone, and was decided on as such, and so
// was one whose repair this fleet shows and whose requests can't be seen.
func withUnseenTargets(policies []Policy, cluster *Cluster, running []Repair) ([]Policy, []Target) {
	known := make(map[ID]bool, len(cluster.Targets))
	for i := range cluster.Requests {
		if q := &cluster.Requests[i]; q.Own {
			known[q.Target] = true
		}
	}
	before := &planner{policies: policies, cluster: cluster}
	for i := range cluster.Repairs {
		if r := &cluster.Repairs[i]; r.Running() && (before.requestsUnlisted(r) || before.unreadable(i, none, false)) {
			known[r.Target] = true
		}
	}
	for i := range cluster.Targets {
		known[cluster.Targets[i].ID] = true
	}
	policies, targets := slices.Clone(policies), slices.Clip(cluster.Targets)
	for i := range running {
		r := &running[i]
		if known[r.Target] {
			continue
		}
		known[r.Target] = true
		targets = append(targets, Target{
			ID: r.Target, Owner: r.Owner, Deleting: true, Failed: true, ControlPlane: !cluster.Workers[r.Target],
		})
		for j := range policies {
			if policies[j].ID == r.Policy {
				policies[j].Members = append(slices.Clip(policies[j].Members), len(targets)-1)
			}
		}
	}
	return policies, targets
}
