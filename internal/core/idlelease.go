package core

import (
	"slices"
	"strings"
	"time"
)

// leaseIdleTime is how long a lease must have been left alone before it counts as left behind. It is taken after its
// repair was recorded, so a repair that explains it is known by then, also to another leader.
const leaseIdleTime = 10 * time.Second

// holderPrefix begins the names of all holders that are Fettle's, and of no other.
const holderPrefix = "fettle.io/"

// HolderOf returns the name under which a policy that holds leases does so. It is no name that another controller has
// for the same policy: medik8s' own operator holds leases as FormerHolderOf says
// (docs/reference/medik8s.md#remediation-objects). It follows from the policy alone, so that a lease says whose it
// was when the policy is gone.
func HolderOf(policy ID) string { return CurrentHolder(FormerHolderOf(policy)) }

// FormerHolderOf returns the name under which earlier versions of Fettle held the leases of a policy.
func FormerHolderOf(policy ID) string { return policy.Kind + "-" + policy.Name }

// CurrentHolder returns the name of a holder whose former name is given. A present name is its own.
func CurrentHolder(former string) string {
	if strings.HasPrefix(former, holderPrefix) {
		return former
	}
	return holderPrefix + former
}

// releaseIdleLeases gives back the leases that were left behind: whoever held one was stopped between the end of the
// repair and that, was refused, or lost the repair from the ledger. Nobody else could service the node.
func (d *planner) releaseIdleLeases() {
	if d.cluster.Observed != Yes || len(d.cluster.Leases) == 0 || len(d.cluster.UnlistedTemplates) > 0 {
		return
	}
	holders, busy := d.holders(), d.busyNodes()
	for _, l := range d.cluster.Leases {
		if !holders[l.Holder] || busy[l.Node] {
			continue
		}
		if idle := l.Renewed.Add(leaseIdleTime); d.now.Before(idle) {
			d.wakeAt(idle)
			continue
		}
		d.decision.LeaseReleases = append(d.decision.LeaseReleases, l)
	}
	slices.SortFunc(d.decision.LeaseReleases, func(a, b NodeLease) int { return strings.Compare(a.Node, b.Node) })
}

// holders are the names of those whose leases are Fettle's: of the policies there are, and of those that the
// ledger remembers. A policy that only rehearses gives nothing back.
func (d *planner) holders() map[string]bool {
	holders := map[string]bool{}
	for i := range d.policies {
		if name := d.policies[i].Holder; name != "" {
			holders[name] = true
		}
	}
	for i := range d.cluster.Repairs {
		if r := &d.cluster.Repairs[i]; r.Holder != "" && r.Holder == HolderOf(r.Policy) {
			holders[r.Holder] = true
		}
	}
	for i := range d.policies {
		if d.policies[i].DryRun {
			delete(holders, d.policies[i].Holder)
		}
	}
	return holders
}

// busyNodes are the nodes of running repairs, of requests that stand, and of repairs that start. A repair that starts takes the lease
// over in the same pass that gives others back, under the same name.
func (d *planner) busyNodes() map[string]bool {
	busy := map[string]bool{}
	for i := range d.cluster.Repairs {
		if r := &d.cluster.Repairs[i]; r.Running() {
			busy[r.Node], busy[r.Target.Name] = true, true
		}
	}
	for _, target := range d.targetOf {
		busy[d.cluster.Targets[target].Node.Name] = true
	}
	for i := range d.decision.Starts {
		busy[d.cluster.Targets[d.decision.Starts[i].Target].Node.Name] = true
	}
	for i := range d.cluster.Requests {
		busy[d.cluster.Requests[i].Target.Name] = true
	}
	for target := range d.requestsAbout { // a machine and its node may have names of their own
		busy[d.cluster.Targets[target].Node.Name] = true
	}
	return busy
}
