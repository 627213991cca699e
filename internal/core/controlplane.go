package core

import (
	"slices"
	"time"
)

// recheckQuorum is how soon a lost or unknown quorum is read again, since no watch covers what it
// depends on.
const recheckQuorum = 15 * time.Second

// countControlPlane finds the groups of the control plane that are out or about to be. They are
// under repair, have a remediation request, or are being deleted.
func (d *planner) countControlPlane() {
	for _, i := range slices.Concat(d.controlPlane, d.byLabel) {
		t := &d.cluster.Targets[i]
		if t.Deleting || t.ExternallyRemediated || d.repairOf[d.groupOf(i)] != none || len(d.requestsAbout[i]) > 0 {
			d.takeOut(i)
		}
	}
}

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

// takeOut counts the group of a target once among those of its quorum group that are out.
func (d *planner) takeOut(target int) {
	if d.isOut(target) {
		return
	}
	if d.out == nil {
		d.out = map[quorumGroup][]int{}
	}
	of := d.cluster.Targets[target].quorumGroup()
	d.out[of] = append(d.out[of], d.groupOf(target))
}

func (d *planner) isOut(target int) bool {
	return slices.Contains(d.out[d.cluster.Targets[target].quorumGroup()], d.groupOf(target))
}

// quorumGate and controlPlaneGate let one member of the control plane at a time be repaired, and
// only when quorum is known to survive (I4). A quorum that was not read lately is read when all
// other gates are open. A step that marks the target for its owner passes both gates, since the owner ensures both
// itself. It must choose among all unhealthy members: it may be able to replace one and not
// another.
func quorumGate(d *planner, p *proposal) (Refusal, bool) {
	t := &d.cluster.Targets[p.target]
	if !t.takesQuorum(d.stepOf(p)) || t.QuorumSurvives == Yes || !t.quorumKnown(d.now) {
		return Refusal{}, false
	}
	d.wakeAt(t.QuorumReadAt.Add(recheckQuorum))
	if t.QuorumSurvives == No {
		return Refusal{Policy: p.leader, Gate: QuorumLost}, true
	}
	return Refusal{Policy: p.leader, Gate: QuorumUnknown}, true
}

func controlPlaneGate(d *planner, p *proposal) (Refusal, bool) {
	if !d.cluster.Targets[p.target].takesQuorum(d.stepOf(p)) {
		return Refusal{}, false
	}
	of := d.cluster.Targets[p.target].quorumGroup()
	others := len(d.out[of]) + d.controlPlaneAwaited
	if p.repair != none {
		others -= d.laterOut[of]
	}
	if of.byLabel { // a repair of the control plane goes first even if its turn is later
		others += len(d.out[quorumGroup{}])
	}
	// Requests about the target itself don't hold it back. A repair that waits is in laterOut
	// already.
	if d.isOut(p.target) && (p.repair == none || !d.waitsForTurn(p.repair, p.target)) {
		others--
	}
	if others == 0 {
		return Refusal{}, false
	}
	return Refusal{Policy: p.leader, Gate: ControlPlaneBusy, Have: others}, true
}

// takesQuorum reports whether a step may cost the control plane its quorum.
func (t *Target) takesQuorum(step *Step) bool {
	return t.MaybeControlPlane() && (step == nil || !step.Nature.Effect().OwnerDecides)
}

// MaybeControlPlane reports whether the target may belong to the control plane.
func (t *Target) MaybeControlPlane() bool { return t.ControlPlane || t.ControlPlaneByLabel }

// quorumKnown reports whether the quorum was read a moment ago.
func (t *Target) quorumKnown(now time.Time) bool {
	return Elapsed(t.QuorumReadAt, now) < liveReadLimit
}
