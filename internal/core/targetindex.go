package core

import (
	"slices"
	"time"
)

// targetIndex has the groups of targets, the control plane, and the targets of users' requests.
type targetIndex struct {
	input
	// groups maps targets to their groups, nil when each target is a group of its own.
	groups []int
	// controlPlane are its targets, and byLabel the targets that may belong to it by their label
	// alone.
	controlPlane, byLabel []int
	// requestedTargets are the targets with a user's repair request.
	requestedTargets []int
	// newest returns the targets that were created in the second of the decision.
	newest func() []int
}

// newTargetIndex makes one pass over all targets, of which there may be very many.
func newTargetIndex(in *input) *targetIndex {
	x := &targetIndex{input: *in}
	mixed := false
	for i := range x.cluster.Targets {
		t := &x.cluster.Targets[i]
		if t.RepairRequest != (RepairRequest{}) {
			x.requestedTargets = append(x.requestedTargets, i)
		}
		mixed = mixed || t.ID.Kind != x.cluster.Targets[0].ID.Kind
		switch {
		case t.ControlPlane:
			x.controlPlane = append(x.controlPlane, i)
		case t.ControlPlaneByLabel:
			x.byLabel = append(x.byLabel, i)
		}
	}
	if mixed {
		x.groups = groupsByNode(x.cluster.Targets)
	}
	x.newest = onceValue(x.createdThisSecond)
	return x
}

// groupOf returns the index of a target's group.
func (x *targetIndex) groupOf(target int) int {
	if x.groups == nil {
		return target
	}
	return x.groups[target]
}

// repairRequestedAt returns when users last requested the repair of a target, or of another target of its group; zero
// when none has.
func (x *targetIndex) repairRequestedAt(target int) time.Time {
	var at time.Time
	for _, i := range x.requestedTargets {
		if q := &x.cluster.Targets[i].RepairRequest; x.groupOf(i) == x.groupOf(target) && !q.Ahead {
			at = latest(at, q.At)
		}
	}
	return at
}

// contemporaries returns the UIDs of existing targets of the same owner that were created in this very second. Creation
// times alone could not tell them from a replacement.
func (x *targetIndex) contemporaries(owner ID) []string {
	var uids []string
	for _, i := range x.newest() {
		if t := &x.cluster.Targets[i]; owner.UID != "" && t.Owner == owner {
			uids = append(uids, t.ID.UID)
		}
	}
	slices.Sort(uids)
	return uids
}

func (x *targetIndex) createdThisSecond() []int {
	var young []int
	second := x.now.Truncate(time.Second)
	for i := range x.cluster.Targets {
		if !x.cluster.Targets[i].Created.Before(second) {
			young = append(young, i)
		}
	}
	return young
}
