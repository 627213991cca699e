package core

import (
	"slices"
	"time"
)

// recheckQuorum is how soon a lost or unknown quorum is read again, since no watch covers what it
// depends on.
const recheckQuorum = 15 * time.Second

// quorumGroup identifies targets that are repaired one at a time. They are the control plane, or
// the targets of one namespace that may belong to it by their label alone. The latter wait for the
// control plane too, which does not wait for them.
type quorumGroup struct {
	byLabel   bool
	namespace string
}

func (t *Target) quorumGroup() quorumGroup {
	if t.ControlPlane {
		return quorumGroup{}
	}
	return quorumGroup{byLabel: true, namespace: t.ID.Namespace}
}

// takesQuorum reports whether a step may cost the control plane its quorum.
func (t *Target) takesQuorum(step *Step) bool {
	return t.MaybeControlPlane() && (step == nil || !step.Nature.Effect().OwnerDecides)
}

// MaybeControlPlane reports whether the target may belong to the control plane.
func (t *Target) MaybeControlPlane() bool { return t.ControlPlane || t.ControlPlaneByLabel }

// countControlPlane finds the groups of the control plane that are out or about to be. They are
// under repair, have a remediation request, or are being deleted.
func (c *counts) countControlPlane() {
	for _, i := range slices.Concat(c.controlPlane, c.byLabel) {
		t := &c.cluster.Targets[i]
		if t.Deleting || t.ExternallyRemediated || c.repairOf[c.groupOf(i)] != none || len(c.requestsAbout[i]) > 0 {
			c.takeOut(i)
		}
	}
}

// takeOut counts the group of a target once among those of its quorum group that are out.
func (c *counts) takeOut(target int) {
	if c.isOut(target) {
		return
	}
	if c.out == nil {
		c.out = map[quorumGroup][]int{}
	}
	of := c.cluster.Targets[target].quorumGroup()
	c.out[of] = append(c.out[of], c.groupOf(target))
}

func (c *counts) isOut(target int) bool {
	return slices.Contains(c.out[c.cluster.Targets[target].quorumGroup()], c.groupOf(target))
}

// quorumGate and controlPlaneGate let one member of the control plane at a time be repaired, and
// only when quorum is known to survive (I4). A quorum that was not read lately is read when all
// other gates are open. A step that marks the target for its owner passes both gates, since the owner ensures both
// itself. It must choose among all unhealthy members: it may be able to replace one and not
// another.
func quorumGate(c *counts, p *proposal) (Refusal, bool) {
	t := &c.cluster.Targets[p.target]
	if !t.takesQuorum(c.stepOf(p)) || t.QuorumSurvives == Yes || !t.quorumKnown(c.now) {
		return Refusal{}, false
	}
	c.wakeAt(t.QuorumReadAt.Add(recheckQuorum))
	if t.QuorumSurvives == No {
		return Refusal{Policy: p.leader, Gate: QuorumLost}, true
	}
	return Refusal{Policy: p.leader, Gate: QuorumUnknown}, true
}

func controlPlaneGate(c *counts, p *proposal) (Refusal, bool) {
	if !c.cluster.Targets[p.target].takesQuorum(c.stepOf(p)) {
		return Refusal{}, false
	}
	of := c.cluster.Targets[p.target].quorumGroup()
	others := len(c.out[of]) + c.controlPlaneAwaited
	if p.repair != none {
		others -= c.laterOut[of]
	}
	if of.byLabel { // a repair of the control plane goes first even if its turn is later
		others += len(c.out[quorumGroup{}])
	}
	// Requests about the target itself don't hold it back. A repair that waits is in laterOut
	// already.
	if c.isOut(p.target) && (p.repair == none || !c.waitsForTurn(p.repair, p.target)) {
		others--
	}
	if others == 0 {
		return Refusal{}, false
	}
	return Refusal{Policy: p.leader, Gate: ControlPlaneBusy, Have: others}, true
}
