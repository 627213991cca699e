package core

import (
	"slices"
	"time"
)

// Two leaders at once must not exceed a limit together. Each of them keeps the limits by its own
// caches. So each records its repairs first, then reads the running repairs from the API server. It
// begins only the repairs that the limits allow with all of those:
//
//	leader A   record x ─── read {x}    ─── begin x
//	leader B     record y ─── read {x, y} ─── y waits
//
// The leader of the later repair always sees the other one, since it reads after that was recorded.
// The order in the ledger says which repair is the later, so both leaders agree.

// NeedsFencing reports whether repairs of another leader might leave no place in flight for these targets.
// They can't where no policy limits their number, and each target has a node of its own.
func NeedsFencing(policies []Policy, cluster *Cluster, d Decision, targets []int) bool {
	marked := make([]bool, len(cluster.Targets))
	for _, t := range targets {
		if cluster.Targets[t].MaybeControlPlane() {
			return true
		}
		marked[t] = true
	}
	if sharesGroup(cluster.Targets, marked) {
		return true
	}
	for i := range d.Verdicts {
		p := &policies[d.Verdicts[i].Policy]
		if marked[d.Verdicts[i].Target] && !p.DryRun && !p.MaxInFlight.Unlimited {
			return true
		}
	}
	return false
}

// Fenced returns the policies and the cluster to decide on again before a remedy is called. A
// recorded repair may begin if it is among the StepStarts of that decision. Running must be read
// from the API server after the repairs were recorded.
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

// withUnseenTargets adds the targets of repairs that another leader has recorded and the cluster
// does not show yet. They take a place in the policy that leads their repair. A target that was
// never seen counts as a member of the control plane, which it may be. A target that was decided on
// as gone is not added. The cluster shows a request about it, or a repair whose requests can't be
// listed.
func withUnseenTargets(policies []Policy, cluster *Cluster, running []Repair) ([]Policy, []Target) {
	known := make(map[ID]bool, len(cluster.Targets))
	for i := range cluster.Requests {
		if q := &cluster.Requests[i]; q.Own {
			known[q.Target] = true
		}
	}
	before := newInput(policies, cluster, time.Time{})
	for i := range cluster.Repairs {
		if r := &cluster.Repairs[i]; r.Running() && (before.requestsUnlisted(r) || before.unreadableGone(r)) {
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
