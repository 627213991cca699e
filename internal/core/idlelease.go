package core

import (
	"slices"
	"strings"
	"time"
)

// holderPrefix begins the names of Fettle's holders, and of no others.
const holderPrefix = "fettle.io/"

// HolderOf returns the name under which a policy holds leases. No other controller has this name
// for the same policy: medik8s' own operator uses the name that FormerHolderOf returns
// (docs/reference/medik8s.md#remediation-objects). The name depends on the policy alone, so a lease
// shows its policy even when that is gone.
func HolderOf(policy ID) string { return CurrentHolder(FormerHolderOf(policy)) }

// FormerHolderOf returns the name under which earlier versions of Fettle held the leases of a
// policy.
func FormerHolderOf(policy ID) string { return policy.Kind + "-" + policy.Name }

// CurrentHolder returns the present name of a holder. A former name gets the prefix.
func CurrentHolder(former string) string {
	if strings.HasPrefix(former, holderPrefix) {
		return former
	}
	return holderPrefix + former
}

// releaseIdleLeases releases the leases that were left behind, so that others can service the node.
// A process may have stopped before it released one, the release may have been refused, or the
// Repair was deleted. A leader renews a lease right before it calls a remedy. So a lease that was
// renewed a moment ago may belong to a request that no cache shows. By a wrong clock it is not known
// how long a lease has been unchanged.
func (d *planner) releaseIdleLeases() {
	if d.cluster.Observed != Yes || d.cluster.ClockAgrees != Yes || len(d.cluster.Leases) == 0 || len(d.cluster.UnlistedTemplates) > 0 {
		return
	}
	holders, busy, unanswered := d.holders(), d.busyNodes(), d.unansweredNodes()
	for _, l := range d.cluster.Leases {
		if !holders[l.Holder] || busy[l.Node] {
			continue
		}
		if idle := d.cluster.ShownAt(latest(l.Renewed.Add(expectationLimit), unanswered[l.Node])); d.now.Before(idle) {
			d.wakeAt(idle)
			continue
		}
		d.decision.LeaseReleases = append(d.decision.LeaseReleases, l)
	}
	slices.SortFunc(d.decision.LeaseReleases, func(a, b NodeLease) int { return strings.Compare(a.Node, b.Node) })
}

// holders returns the holders whose leases are Fettle's: of the policies, and of the repairs in the
// ledger. Leases of a dry-run policy are not released.
func (in *input) holders() map[string]bool {
	holders := map[string]bool{}
	for i := range in.policies {
		if name := in.policies[i].Holder; name != "" {
			holders[name] = true
		}
	}
	for i := range in.cluster.Repairs {
		if r := &in.cluster.Repairs[i]; r.Holder == HolderOf(r.Policy) {
			holders[r.Holder] = true
		}
	}
	for i := range in.policies {
		if in.policies[i].DryRun {
			delete(holders, in.policies[i].Holder)
		}
	}
	return holders
}

// busyNodes returns the nodes of running repairs, of requests that exist, of repairs that start, and
// of machines that are being deleted. A repair that starts may take a lease over in the same pass,
// under the same name. The repair of a machine that is being deleted may have ended before a cache
// showed the deletion.
func (d *planner) busyNodes() map[string]bool {
	busy := map[string]bool{}
	for i := range d.cluster.Repairs {
		r := &d.cluster.Repairs[i]
		if !r.Running() {
			continue
		}
		busy[r.Node] = true
		if r.Target.IsNode() { // a machine may be named like the node of another
			busy[r.Target.Name] = true
		}
	}
	for _, target := range d.targetOf {
		busy[d.cluster.Targets[target].Node.Name] = true
	}
	for i := range d.decision.Starts {
		busy[d.cluster.Targets[d.decision.Starts[i].Target].Node.Name] = true
	}
	requested := map[ID]bool{}
	for i := range d.cluster.Requests {
		q := &d.cluster.Requests[i]
		busy[q.Target.Name], requested[q.Target] = true, true
	}
	for i := range d.cluster.Repairs { // a request about a machine does not name its node
		if r := &d.cluster.Repairs[i]; requested[r.Target] {
			busy[r.Node] = true
		}
	}
	for i := range d.cluster.Targets {
		if t := &d.cluster.Targets[i]; t.Deleting {
			busy[t.Node.Name] = true
		}
	}
	for target := range d.requestsAbout { // a machine and its node may have different names
		busy[d.cluster.Targets[target].Node.Name] = true
	}
	return busy
}

// unansweredNodes returns until when the remedies of ended repairs may have done something that no
// cache shows, by node.
func (in *input) unansweredNodes() map[string]time.Time {
	until := map[string]time.Time{}
	for i := range in.cluster.Repairs {
		r := &in.cluster.Repairs[i]
		until[r.Node] = latest(until[r.Node], r.UnansweredUntil())
	}
	return until
}
