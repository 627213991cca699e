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
func (d *deliberation) countControlPlane() {
	for _, i := range slices.Concat(d.controlPlane, d.byLabel) {
		t := &d.fleet.Targets[i]
		if t.Deleting || t.Claimed || d.repairOf[d.body(i)] != none || len(d.requestsOn[i]) > 0 {
			d.takeOut(i)
		}
	}
}

// circle is the targets that take turns with each other: the control plane, or the targets of one namespace that may belong to it
// by their label alone. The latter wait for the control plane too, which does not wait for them.
type circle struct {
	byLabel   bool
	namespace string
}

func (t *Target) circle() circle {
	if t.ControlPlane {
		return circle{}
	}
	return circle{byLabel: true, namespace: t.ID.Namespace}
}

// takeOut counts the body of a target among those of its circle that are out, once.
func (d *deliberation) takeOut(target int) {
	if d.isOut(target) {
		return
	}
	if d.out == nil {
		d.out = map[circle][]int{}
	}
	of := d.fleet.Targets[target].circle()
	d.out[of] = append(d.out[of], d.body(target))
}

func (d *deliberation) isOut(target int) bool {
	return slices.Contains(d.out[d.fleet.Targets[target].circle()], d.body(target))
}

// quorumGate and controlPlaneGate: one member of the control plane at a time, and only when it is
// known that quorum survives (I4). What was never asked, or long ago, is asked when all else permits. An owner
// that is asked to replace its own sees to both itself, and has to choose among all that are unhealthy: it may
// be able to replace this one and not that.
func quorumGate(d *deliberation, p *proposal) (Refusal, bool) {
	t := &d.fleet.Targets[p.target]
	if !t.takesQuorum(d.stepOf(p)) || t.QuorumSurvives == Yes || !t.quorumKnown(d.now) {
		return Refusal{}, false
	}
	d.wakeAt(t.QuorumReadAt.Add(recheckQuorum))
	if t.QuorumSurvives == No {
		return Refusal{Policy: p.leader, Gate: QuorumLost}, true
	}
	return Refusal{Policy: p.leader, Gate: QuorumUnknown}, true
}

func controlPlaneGate(d *deliberation, p *proposal) (Refusal, bool) {
	if !d.fleet.Targets[p.target].takesQuorum(d.stepOf(p)) {
		return Refusal{}, false
	}
	of := d.fleet.Targets[p.target].circle()
	others := len(d.out[of]) + d.membersBehind
	if p.repair != none {
		others -= d.laterOut[of]
	}
	if of.byLabel { // whose turn comes later goes first there
		others += len(d.out[circle{}])
	}
	// What was asked for the target itself before is no hindrance. A repair that waits is among the later ones.
	if d.isOut(p.target) && (p.repair == none || !d.waits(p.repair, p.target)) {
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
	return !t.QuorumReadAt.IsZero() && Passed(t.QuorumReadAt, now) < confirmedFor
}
