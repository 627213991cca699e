package quorum

import (
	"slices"

	"github.com/fettle-io/fettle/internal/core"
)

// member has the facts of one node of the control plane.
type member struct {
	name  string
	ready bool
	// labelled is set if the labels of the node say that it has a member of etcd.
	labelled bool
	// pods is the state of the etcd pods on the node.
	pods podState
	// serves is set if an API server on the node is alive.
	serves bool
}

// podState is the state of the etcd pods on one node.
type podState int8

// The zero podState is noPods.
const (
	noPods podState = iota
	podsReady
	podsNotReady
)

// byMembers reports whether a majority of the voters works without the target.
//
// No object lists the voters, so they follow from evidence:
//   - Each node with a member has an etcd label. If any node has that label, the voters are the
//     nodes with the label or an etcd pod.
//   - Otherwise all nodes of the control plane vote. Only a node with an etcd pod works, or,
//     where no node has an etcd pod, only a node with a living API server. A node that has been
//     out for long may have lost both.
//   - Without evidence on any node, the quorum is unknown. It may be external or managed, or the
//     evidence may be hidden.
//
// A target that is not among the members may still have a vote, so it counts as a voter.
func byMembers(target string, members []member) core.Tri {
	var votes, works func(*member) bool
	always := func(*member) bool { return true }
	hasPods := func(m *member) bool { return m.pods != noPods }
	switch {
	case anyOf(members, func(m *member) bool { return m.labelled }):
		votes = func(m *member) bool { return m.labelled || hasPods(m) }
		works = func(m *member) bool { return m.pods != podsNotReady }
	case anyOf(members, hasPods):
		votes, works = always, func(m *member) bool { return m.pods == podsReady }
	case anyOf(members, func(m *member) bool { return m.serves }):
		votes, works = always, func(m *member) bool { return m.serves }
	default:
		return core.Unknown
	}
	return majority(target, members, votes, works)
}

// hasEvidence reports whether any node has any evidence of a member.
func hasEvidence(members []member) bool {
	return anyOf(members, func(m *member) bool { return m.labelled || m.pods != noPods || m.serves })
}

func majority(target string, members []member, votes, works func(*member) bool) core.Tri {
	voters, working, found := 0, 0, false
	for i := range members {
		m := &members[i]
		switch {
		case m.name == target && !votes(m):
			return core.Yes
		case !votes(m):
			continue
		case m.name == target:
			found = true
		case m.ready && works(m):
			working++
		}
		voters++
	}
	if !found {
		voters++
	}
	if working >= voters/2+1 {
		return core.Yes
	}
	return core.No
}

func anyOf(members []member, is func(*member) bool) bool {
	return slices.ContainsFunc(members, func(m member) bool { return is(&m) })
}

// budget has the facts of a PodDisruptionBudget.
type budget struct {
	// counted is set if the status belongs to the present spec.
	counted bool
	// allowed is the number of pods that may be disrupted now.
	allowed int64
}

// guardPod has the facts of a pod that is ready while the member on its node is. Without a
// condition Ready, ready is No.
type guardPod struct {
	node  string
	ready core.Tri
}

// byBudget decides as OpenShift's own health checks do (docs/reference/medik8s.md#control-plane).
// If the budget allows no disruption, the target itself may have used it up. Then its guard pod is
// not ready, or missing.
func byBudget(target string, b budget, guards []guardPod) core.Tri {
	switch {
	case !b.counted:
		return core.Unknown
	case b.allowed >= 1:
		return core.Yes
	}
	for _, g := range guards {
		if g.node == target && g.ready != core.No {
			return core.No
		}
	}
	return core.Yes
}
