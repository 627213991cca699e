package quorum

import (
	"slices"

	"github.com/fettle-io/fettle/internal/core"
)

// member is what is read of one node of the control plane.
type member struct {
	name  string
	ready bool
	// labelled is set when the node says by its labels that it has a member of etcd.
	labelled bool
	// pods tells of the etcd pods on the node.
	pods podState
	// serves is set when an API server on the node is alive.
	serves bool
}

// podState tells what pods there are on a node, and how they are.
type podState int8

// The zero podState is noPods.
const (
	noPods podState = iota
	podsReady
	podsNotReady
)

// byMembers tells whether a majority of those who vote works while a target is out, which is not counted.
//
// Who votes is not written in one place, so it follows from what there is evidence of:
//   - Labels of etcd are on every node that has a member. Where any node has one, those vote that have the
//     label or an etcd pod, and no others.
//   - Etcd pods and living API servers may be missing on a node that has been out for long. Where there is no
//     better evidence, every node of the control plane votes, and only one with that evidence works.
//   - Where there is no evidence on any node, nothing is known. The quorum may be external or managed, and the
//     evidence may as well be out of sight.
//
// A target whose node is not among the members may have a vote all the same, so it counts.
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

// hasEvidence reports whether there is evidence of a member, of whatever sort, on any node.
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

// budget is what is read of a PodDisruptionBudget.
type budget struct {
	// counted is set when its status is of its present specification.
	counted bool
	// allowed is how many of its pods may be disrupted now.
	allowed int64
}

// guardPod is what is read of a pod that stands guard over a member: it is ready while the member is. Ready is
// Unknown when its condition is that, and No when it has none.
type guardPod struct {
	node  string
	ready core.Tri
}

// byBudget decides as OpenShift's own health checks do (docs/reference/medik8s.md#control-plane). A budget that
// allows a disruption allows this one. One that allows none may be used up by the target itself: then its guard is
// not ready, or gone.
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
