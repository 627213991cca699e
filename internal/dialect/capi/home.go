package capi

import (
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/fettle-io/fettle/internal/core"
	"github.com/fettle-io/fettle/internal/node"
)

// judgedElsewhereReason is why a fleet stands by whose nodes another fleet judges.
const (
	judgedElsewhereReason = "NodesJudgedElsewhere"
	// judgedElsewhereUnknownReason: it has not been known for a while whether another fleet judges them.
	judgedElsewhereUnknownReason = "NodesJudgedElsewhereUnknown"
)

const (
	// unsureFor is how long that may be unknown before the health checks say so: caches fill in that time.
	unsureFor = 2 * time.Minute
	// A fleet is looked at again after these times while that is unknown, and while it yields: not every change of what
	// the others act on wakes it.
	lookWhileUnsure   = 10 * time.Second
	lookWhileYielding = time.Minute
)

// Home is the cluster that Fettle runs in, as the health checks of other kinds see it. A management cluster may be its own
// workload cluster, and then both fleets have the same nodes.
type Home interface {
	// ActsOn reports whether any of those health checks may have one of these nodes repaired, or its machine. The nodes
	// are UIDs by name. It is No where that cluster is known to have none of them.
	ActsOn(nodes map[string]string) core.Tri
}

// yields tells why the fleet leaves its nodes to the health checks of the cluster that Fettle runs in, nil when it does
// not. Two fleets that judge the same nodes don't see each other's repairs, limits and control plane.
func (f *Fleet) yields(r *room) *obstacle {
	if f.client.Home == nil {
		return nil
	}
	acts := f.client.Home.ActsOn(f.nodesOf(r))
	since := r.unsure(acts == core.Unknown, f.client.Now())
	switch acts {
	case core.No:
		return nil
	case core.Unknown:
	case core.Yes:
		f.lookAgain(r, lookWhileYielding)
		return &obstacle{yields: true, reason: judgedElsewhereReason, message: fmt.Sprintf(
			nothingNew+"the nodes of cluster %s are those of the cluster that Fettle runs in, and NodeHealthChecks or MachineHealthChecks of machine.openshift.io act on them there; "+
				"delete those, pause them, give them the annotation fettle.io/dry-run, or leave their kinds out of --dialects", f.cluster.Name)}
	}
	f.lookAgain(r, lookWhileUnsure)
	if f.client.Now().Sub(since) < unsureFor {
		return &obstacle{silent: true}
	}
	return &obstacle{yields: true, reason: judgedElsewhereUnknownReason, message: fmt.Sprintf(
		nothingNew+"NodeHealthChecks or MachineHealthChecks of machine.openshift.io may act on the nodes of cluster %s, and Fettle can't read them; "+
			"grant Fettle's ClusterRole the verbs get, list and watch on their resources, or leave their kinds out of --dialects", f.cluster.Name)}
}

// lookAgain has the fleet looked at again after a time, unless that is to be done already.
func (f *Fleet) lookAgain(r *room, after time.Duration) {
	r.mu.Lock()
	due := r.lookDue
	r.lookDue = true
	r.mu.Unlock()
	if due {
		return
	}
	f.client.After(after, func() {
		r.mu.Lock()
		r.lookDue = false
		r.mu.Unlock()
		f.client.Wake(f.cluster)
	})
}

// nodesOf returns the nodes of all machines that are seen, as UIDs by name.
func (f *Fleet) nodesOf(r *room) map[string]string {
	names := r.nodeNames()
	nodes := make(map[string]string, len(names))
	f.nodes.Lookup(func(find func(string) (node.Facts, bool)) {
		for _, name := range names {
			if facts, seen := find(name); seen {
				nodes[name] = facts.Node.UID
			}
		}
	})
	return nodes
}

// unsure notes since when it has been unknown whether others act on the nodes.
func (r *room) unsure(is bool, now time.Time) (since time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case !is:
		r.unsureSince = time.Time{}
	case r.unsureSince.IsZero():
		r.unsureSince = now
	}
	return r.unsureSince
}

// yield has health checks that were observed begin nothing. What was begun is still ended or taken back.
func (r *room) yield(why *obstacle, policies []core.Policy) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.yielded = why
	if why == nil {
		return
	}
	for i := range policies {
		policies[i].Paused, policies[i].PauseReason = true, pauseReason(why.message)
	}
}

// nothingNew begins what is told while a fleet yields.
const nothingNew = "Nothing new is repaired, since "

func pauseReason(message string) string { return strings.TrimPrefix(message, nothingNew) }

// yielded returns why a health check begins nothing, as its status says, and false where the status does not say that its fleet yields.
func yielded(conditions []metav1.Condition) (string, bool) {
	c := meta.FindStatusCondition(conditions, clusterv1.MachineHealthCheckRemediationAllowedCondition)
	if c == nil || c.Status != metav1.ConditionUnknown || (c.Reason != judgedElsewhereReason && c.Reason != judgedElsewhereUnknownReason) {
		return "", false
	}
	return pauseReason(c.Message), true
}

// yieldsNow returns why the health checks that were last observed begin nothing, nil when they may.
func (r *room) yieldsNow() *obstacle {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.yielded
}

// nodeNames returns the names of the nodes of all machines.
func (r *room) nodeNames() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	names := make([]string, 0, r.roster.Len())
	for _, m := range r.roster.All() {
		if m.Node != "" {
			names = append(names, m.Node)
		}
	}
	return names
}
