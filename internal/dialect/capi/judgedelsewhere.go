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

// judgedElsewhereReason is the reason while health checks of another kind judge the same nodes.
const (
	judgedElsewhereReason = "NodesJudgedElsewhere"
	// judgedElsewhereUnknownReason is the reason when Fettle could not learn for core.YieldPendingFor whether others judge
	// the nodes.
	judgedElsewhereUnknownReason = "NodesJudgedElsewhereUnknown"
)

const (
	// These are the pauses after which the cluster is observed again. Some changes that decide whether others act on
	// the nodes don't wake it.
	wakeWhileUnknown = 10 * time.Second
	wakeWhileBlocked = time.Minute
)

// Home has the health checks of other kinds, in the cluster that Fettle runs in. A management cluster may be its own
// workload cluster, and then both have the same nodes.
type Home interface {
	// ActsOn reports whether any of those health checks may repair one of these nodes or its machine. The nodes are
	// UIDs by name. It returns No if that cluster has none of them.
	ActsOn(nodes map[string]string) core.Tri
}

// judgedElsewhere returns a blockage if health checks of the cluster that Fettle runs in act on the same nodes. Two
// loops that judge the same nodes would not see each other's repairs, limits and control plane.
func (d *Dialect) judgedElsewhere(s *store) *blockage {
	if d.client.Home == nil {
		return nil
	}
	acts, now := d.client.Home.ActsOn(d.nodesOf(s)), d.client.Now()
	since := s.trackUnknown(acts == core.Unknown, now)
	switch yield := core.YieldTo(acts, now.Sub(since)); yield { //nolint:exhaustive // the default is core.YieldUnknown
	case core.NoYield:
		return nil
	case core.YieldToHome:
		d.wakeLater(s, wakeWhileBlocked)
		return &blockage{startsOnly: yield.BlocksStarts(), reason: judgedElsewhereReason, message: fmt.Sprintf(
			nothingNewPrefix+"the nodes of cluster %s are those of the cluster that Fettle runs in, and NodeHealthChecks or MachineHealthChecks of machine.openshift.io act on them there; "+
				"delete those, pause them, give them the annotation fettle.io/dry-run, or leave their kinds out of --dialects", d.cluster.Name)}
	case core.YieldPending:
		d.wakeLater(s, wakeWhileUnknown)
		return &blockage{pending: true}
	default: // core.YieldUnknown
		d.wakeLater(s, wakeWhileUnknown)
		return &blockage{startsOnly: yield.BlocksStarts(), reason: judgedElsewhereUnknownReason, message: fmt.Sprintf(
			nothingNewPrefix+"NodeHealthChecks or MachineHealthChecks of machine.openshift.io may act on the nodes of cluster %s, and Fettle can't read them; "+
				"grant Fettle's ClusterRole the verbs get, list and watch on their resources, or leave their kinds out of --dialects", d.cluster.Name)}
	}
}

// othersBeganToAct reports whether other health checks act on the nodes, or may do so, and did not by the last observation.
func (d *Dialect) othersBeganToAct(s *store) bool {
	return d.client.Home != nil && core.YieldsSince(s.startsBlockedNow() != nil, func() core.Tri { return d.client.Home.ActsOn(d.nodesOf(s)) })
}

// wakeLater wakes the cluster after a pause, unless a wake-up is due already.
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

// nodesOf returns the UIDs of the nodes of all machines, by name.
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

// trackUnknown records whether it is unknown if others act on the nodes. It returns the time since which it is unknown.
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

// blockStarts pauses observed health checks while a blockage lasts. Repairs that have started still end, and requests
// are still withdrawn.
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

// nothingNewPrefix begins the messages about blocked starts.
const nothingNewPrefix = "Nothing new is repaired, since "

func pauseReason(message string) string { return strings.TrimPrefix(message, nothingNewPrefix) }

// startsBlockedBefore returns the reason for blocked starts that a status records, and false if it records none.
func startsBlockedBefore(conditions []metav1.Condition) (string, bool) {
	c := meta.FindStatusCondition(conditions, clusterv1.MachineHealthCheckRemediationAllowedCondition)
	if c == nil || c.Status != metav1.ConditionUnknown || (c.Reason != judgedElsewhereReason && c.Reason != judgedElsewhereUnknownReason) {
		return "", false
	}
	return pauseReason(c.Message), true
}

// startsBlockedNow returns the blockage of the last observation, or nil if repairs may start.
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
