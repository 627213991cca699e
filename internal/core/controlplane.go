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
	for _, i := range d.controlPlane {
		t := &d.fleet.Targets[i]
		if t.Deleting || t.Claimed || d.repairOf[d.body(i)] != none || len(d.requestsOn[i]) > 0 {
			d.takeOut(i)
		}
	}
}

// takeOut counts the body of a target among those of the control plane that are out, once.
func (d *deliberation) takeOut(target int) {
	if !d.isOut(target) {
		d.controlPlaneOut = append(d.controlPlaneOut, d.body(target))
	}
}

func (d *deliberation) isOut(target int) bool {
	return slices.Contains(d.controlPlaneOut, d.body(target))
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
	others := len(d.controlPlaneOut)
	switch {
	case p.repair != none:
		others -= d.laterControlPlane
	case d.isOut(p.target): // by what was asked for it before, which is no hindrance to itself
		others--
	}
	if others == 0 {
		return Refusal{}, false
	}
	return Refusal{Policy: p.leader, Gate: ControlPlaneBusy, Have: others}, true
}

// takesQuorum tells whether a step may cost the control plane its quorum.
func (t *Target) takesQuorum(step *Step) bool {
	return t.ControlPlane && (step == nil || step.Nature != Delegates)
}

// quorumKnown tells whether the quorum was asked for a moment ago.
func (t *Target) quorumKnown(now time.Time) bool {
	return !t.QuorumReadAt.IsZero() && now.Sub(t.QuorumReadAt) < confirmedFor
}
