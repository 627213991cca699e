package core

import (
	"slices"
	"strings"
	"time"
)

// idleFor is how long a lease must have been left alone before it counts as left behind. It is taken after its
// repair was recorded, so a repair that explains it is known by then, also to another leader.
const idleFor = 10 * time.Second

// holderPrefix begins the names of all holders that are Fettle's, and of no other.
const holderPrefix = "fettle.io/"

// HolderOf returns the name under which a policy that holds leases does so. It is no name that another controller has
// for the same policy: medik8s' own operator holds leases as FormerHolderOf says
// (docs/reference/medik8s.md#remediation-objects). It follows from the policy alone, so that a lease says whose it
// was when the policy is gone.
func HolderOf(policy ID) string { return HolderNow(FormerHolderOf(policy)) }

// FormerHolderOf returns the name under which earlier versions of Fettle held the leases of a policy.
func FormerHolderOf(policy ID) string { return policy.Kind + "-" + policy.Name }

// HolderNow returns the name of a holder whose former name is given. A present name is its own.
func HolderNow(former string) string {
	if strings.HasPrefix(former, holderPrefix) {
		return former
	}
	return holderPrefix + former
}

// releaseIdle gives back the leases that were left behind: whoever held one was stopped between the end of the
// repair and that, was refused, or lost the repair from the ledger. Nobody else could service the node.
func (d *deliberation) releaseIdle() {
	if d.fleet.Observed != Yes || len(d.fleet.Leases) == 0 || len(d.fleet.Unseen) > 0 {
		return
	}
	holders, busy := d.holders(), d.busyNodes()
	for _, l := range d.fleet.Leases {
		if !holders[l.Holder] || busy[l.Node] {
			continue
		}
		if idle := l.Renewed.Add(idleFor); d.now.Before(idle) {
			d.wakeAt(idle)
			continue
		}
		d.decision.Releases = append(d.decision.Releases, l)
	}
	slices.SortFunc(d.decision.Releases, func(a, b NodeLease) int { return strings.Compare(a.Node, b.Node) })
}

// holders are the names of those whose leases are Fettle's: of the policies there are, and of those that the
// ledger remembers. A policy that only rehearses gives nothing back.
func (d *deliberation) holders() map[string]bool {
	holders := map[string]bool{}
	for i := range d.policies {
		if name := d.policies[i].Holder; name != "" {
			holders[name] = true
		}
	}
	for i := range d.fleet.Repairs {
		if r := &d.fleet.Repairs[i]; r.Holder != "" && r.Holder == HolderOf(r.Policy) {
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
func (d *deliberation) busyNodes() map[string]bool {
	busy := map[string]bool{}
	for i := range d.fleet.Repairs {
		if r := &d.fleet.Repairs[i]; r.Running() {
			busy[r.Node], busy[r.Target.Name] = true, true
		}
	}
	for _, target := range d.targetOf {
		busy[d.fleet.Targets[target].Node.Name] = true
	}
	for i := range d.decision.Starts {
		busy[d.fleet.Targets[d.decision.Starts[i].Target].Node.Name] = true
	}
	for i := range d.fleet.Requests {
		busy[d.fleet.Requests[i].Target.Name] = true
	}
	for target := range d.requestsOn { // a machine and its node may have names of their own
		busy[d.fleet.Targets[target].Node.Name] = true
	}
	return busy
}
