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
	// unknownLimit is how long that may be unknown before the health checks say so: caches fill in that time.
	unknownLimit = 2 * time.Minute
	// A fleet is looked at again after these times while that is unknown, and while it yields: not every change of what
	// the others act on wakes it.
	wakeWhileUnknown = 10 * time.Second
	wakeWhileBlocked = time.Minute
)

// Home is the cluster that Fettle runs in, as the health checks of other kinds see it. A management cluster may be its own
// workload cluster, and then both fleets have the same nodes.
type Home interface {
	// ActsOn reports whether any of those health checks may have one of these nodes repaired, or its machine. The nodes
	// are UIDs by name. It is No where that cluster is known to have none of them.
	ActsOn(nodes map[string]string) core.Tri
}

// judgedElsewhere tells why the fleet leaves its nodes to the health checks of the cluster that Fettle runs in, nil when it does
// not. Two fleets that judge the same nodes don't see each other's repairs, limits and control plane.
func (d *Dialect) judgedElsewhere(s *store) *blockage {
	if d.client.Home == nil {
		return nil
	}
	acts := d.client.Home.ActsOn(d.nodesOf(s))
	since := s.trackUnknown(acts == core.Unknown, d.client.Now())
	switch acts {
	case core.No:
		return nil
	case core.Unknown:
	case core.Yes:
		d.wakeLater(s, wakeWhileBlocked)
		return &blockage{startsOnly: true, reason: judgedElsewhereReason, message: fmt.Sprintf(
			nothingNewPrefix+"the nodes of cluster %s are those of the cluster that Fettle runs in, and NodeHealthChecks or MachineHealthChecks of machine.openshift.io act on them there; "+
				"delete those, pause them, give them the annotation fettle.io/dry-run, or leave their kinds out of --dialects", d.cluster.Name)}
	}
	d.wakeLater(s, wakeWhileUnknown)
	if d.client.Now().Sub(since) < unknownLimit {
		return &blockage{pending: true}
	}
	return &blockage{startsOnly: true, reason: judgedElsewhereUnknownReason, message: fmt.Sprintf(
		nothingNewPrefix+"NodeHealthChecks or MachineHealthChecks of machine.openshift.io may act on the nodes of cluster %s, and Fettle can't read them; "+
			"grant Fettle's ClusterRole the verbs get, list and watch on their resources, or leave their kinds out of --dialects", d.cluster.Name)}
}

// wakeLater has the fleet looked at again after a time, unless that is to be done already.
func (d *Dialect) wakeLater(s *store, after time.Duration) {
	s.mu.Lock()
	due := s.wakeDue
	s.wakeDue = true
	s.mu.Unlock()
	if due {
		return
	}
	d.client.After(after, func() {
		s.mu.Lock()
		s.wakeDue = false
		s.mu.Unlock()
		d.client.Wake(d.cluster)
	})
}

// nodesOf returns the nodes of all machines that are seen, as UIDs by name.
func (d *Dialect) nodesOf(s *store) map[string]string {
	names := s.nodeNames()
	nodes := make(map[string]string, len(names))
	d.nodes.Lookup(func(find func(string) (node.Facts, bool)) {
		for _, name := range names {
			if facts, seen := find(name); seen {
				nodes[name] = facts.Node.UID
			}
		}
	})
	return nodes
}

// trackUnknown notes since when it has been unknown whether others act on the nodes.
func (s *store) trackUnknown(is bool, now time.Time) (since time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case !is:
		s.unknownSince = time.Time{}
	case s.unknownSince.IsZero():
		s.unknownSince = now
	}
	return s.unknownSince
}

// blockStarts has health checks that were observed begin nothing. What was begun is still ended or taken back.
func (s *store) blockStarts(blocked *blockage, policies []core.Policy) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.startsBlocked = blocked
	if blocked == nil {
		return
	}
	for i := range policies {
		policies[i].Paused, policies[i].PauseReason = true, pauseReason(blocked.message)
	}
}

// nothingNewPrefix begins what is told while a fleet yields.
const nothingNewPrefix = "Nothing new is repaired, since "

func pauseReason(message string) string { return strings.TrimPrefix(message, nothingNewPrefix) }

// startsBlockedBefore returns why a health check begins nothing, as its status says, and false where the status does not say that its fleet yields.
func startsBlockedBefore(conditions []metav1.Condition) (string, bool) {
	c := meta.FindStatusCondition(conditions, clusterv1.MachineHealthCheckRemediationAllowedCondition)
	if c == nil || c.Status != metav1.ConditionUnknown || (c.Reason != judgedElsewhereReason && c.Reason != judgedElsewhereUnknownReason) {
		return "", false
	}
	return pauseReason(c.Message), true
}

// startsBlockedNow returns why the health checks that were last observed begin nothing, nil when they may.
func (s *store) startsBlockedNow() *blockage {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.startsBlocked
}

// nodeNames returns the names of the nodes of all machines.
func (s *store) nodeNames() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	names := make([]string, 0, s.index.Len())
	for _, m := range s.index.All() {
		if m.Node != "" {
			names = append(names, m.Node)
		}
	}
	return names
}
