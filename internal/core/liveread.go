package core

import "time"

// liveReadLimit is how long a live read of a node can justify a destructive step.
const liveReadLimit = 10 * time.Second

// Confirmed reports whether the facts about the target's node justify a step at an instant. The
// node was read live a moment ago, or there is no node yet. The quorum of a control plane must be
// as fresh.
func (t *Target) Confirmed(step *Step, now time.Time) bool {
	if t.takesQuorum(step) && !t.quorumKnown(now) {
		return false
	}
	if t.Node.State == NodeAwaited {
		return true
	}
	return t.Node.State != NodeUnseen && Elapsed(t.NodeReadAt, now) < liveReadLimit
}

// quorumKnown reports whether the quorum was read a moment ago.
func (t *Target) quorumKnown(now time.Time) bool {
	return Elapsed(t.QuorumReadAt, now) < liveReadLimit
}
