package core

import (
	"slices"
	"time"
)

// recheckQuorum is how soon a quorum that would not survive, or is not known, is asked for again: nobody watches what it
// hangs on.
const recheckQuorum = 15 * time.Second

// countControlPlane finds the bodies of the control plane that are out, or are about to be: under repair,
// in the hands of a remediator, or leaving.
func (d *planner) countControlPlane() {
	for _, i := range slices.Concat(d.controlPlane, d.byLabel) {
		t := &d.cluster.Targets[i]
		if t.Deleting || t.ExternallyRemediated || d.repairOf[d.groupOf(i)] != none || len(d.requestsAbout[i]) > 0 {
			d.takeOut(i)
		}
	}
}

// quorumGroup is the targets that take turns with each other: the control plane, or the targets of one namespace that may belong to it
// by their label alone. The latter wait for the control plane too, which does not wait for them.
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

// takeOut counts the body of a target among those of its circle that are out, once.
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

// quorumGate and controlPlaneGate: one member of the control plane at a time, and only when it is
// known that quorum survives (I4). What was never asked, or long ago, is asked when all else permits. An owner
// that is asked to replace its own sees to both itself, and has to choose among all that are unhealthy: it may
// be able to replace this one and not that.
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
	if of.byLabel { // whose turn comes later goes first there
		others += len(d.out[quorumGroup{}])
	}
	// What was asked for the target itself before is no hindrance. A repair that waits is among the later ones.
	if d.isOut(p.target) && (p.repair == none || !d.waitsForTurn(p.repair, p.target)) {
		others--
	}
	if others == 0 {
		return Refusal{}, false
	}
	return Refusal{Policy: p.leader, Gate: ControlPlaneBusy, Have: others}, true
}

// takesQuorum tells whether a step may cost the control plane its quorum.
func (t *Target) takesQuorum(step *Step) bool {
	return t.MaybeControlPlane() && (step == nil || !step.Nature.Effect().OwnerDecides)
}

// MaybeControlPlane reports whether the target may be of the control plane.
func (t *Target) MaybeControlPlane() bool { return t.ControlPlane || t.ControlPlaneByLabel }

// quorumKnown tells whether the quorum was asked for a moment ago.
func (t *Target) quorumKnown(now time.Time) bool {
	return !t.QuorumReadAt.IsZero() && Elapsed(t.QuorumReadAt, now) < liveReadLimit
}
