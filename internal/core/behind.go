package core

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

// A repair whose target is gone goes on only while a remediator has the target replaced. Until then the target has its
// place among the limits: it is in flight, and it counts as unhealthy unless its replacement has come.

// findBehind finds the running repairs of targets that are gone, and of these the ones that go on.
func (d *deliberation) findBehind() {
	d.behind = map[int]bool{}
	if d.fleet.Observed != Yes {
		return
	}
	for _, at := range d.running {
		if _, exists := d.targetOf[at]; exists || !d.goesOn(at) {
			continue
		}
		d.behind[at] = true
		if !d.fleet.Workers[d.fleet.Repairs[at].Target] {
			d.membersBehind++
		}
	}
}

// goesOn reports whether something is left to be done for the repair of a target that is gone.
func (d *deliberation) goesOn(repair int) bool {
	r := &d.fleet.Repairs[repair]
	switch lead := d.leaderAt(r); {
	case d.rehearses(lead):
		return false
	case d.blindFor(lead, r), d.unreadable(repair, none, false):
		return true
	}
	return slices.ContainsFunc(d.petitions[repair], func(i int) bool {
		q := &d.fleet.Requests[i]
		return q.Own && !q.Leaving && (q.ID.UID == "" || d.awaited(q, r))
	})
}

// blindFor reports whether requests that can't be seen may stand for a repair of a target that is gone. The record of the repair
// does not show that (I14): the policy that leads it must have that step.
func (d *deliberation) blindFor(lead int, r *Repair) bool {
	if lead == none || !d.blind(r) {
		return false
	}
	p := &d.policies[lead]
	has := func(step *Step) bool {
		return slices.ContainsFunc(slices.Concat(p.Ladder, p.FailedLadder), func(s Step) bool { return s.same(step) })
	}
	return p.Problem != "" || slices.ContainsFunc(r.Ladder, func(s Step) bool { return d.hidden(&s) && has(&s) })
}

// awaited reports whether a request about a target that is gone stands for its replacement, which has yet to come. The
// remediator says how that ended, or its time is over by a clock that agrees, or the replacement shows by itself. The repair is
// nil where the ledger has none.
func (d *deliberation) awaited(q *Request, r *Repair) bool {
	if !q.Replaces || q.Succeeded != Unknown || !q.Stopped.IsZero() || d.returned(&q.Target) {
		return false
	}
	if r == nil {
		return true
	}
	at := q.rung(r.Ladder)
	switch {
	case at < 0:
		return true
	case at < len(r.Rungs):
		return false
	case at > len(r.Rungs) || r.Ladder[at].Limit == 0:
		return true
	}
	until := r.StepEnds(&r.Ladder[at], q)
	d.wakeAt(until)
	return clockHolds(d.fleet, &r.Policy) != 0 || d.now.Before(until)
}

// returned reports whether another target has the name of a target that is gone, and every policy that acts finds it healthy.
func (d *deliberation) returned(gone *ID) bool {
	if d.sound == nil {
		d.sound = map[ID]string{}
		for i, sound := range d.soundTargets(nil) {
			if sound == Yes {
				id := d.fleet.Targets[i].ID
				d.sound[id.nameless()] = id.UID
			}
		}
	}
	uid := d.sound[gone.nameless()]
	return uid != "" && uid != gone.UID
}

// soundTargets tells of each target whether every policy that acts finds it healthy. One policy's word is not enough: it
// would end the back-off of another that finds the target unhealthy. What also reports counts as healthy too; it may be nil.
func (d *deliberation) soundTargets(also func(*Verdict) bool) []Tri {
	sound := make([]Tri, len(d.fleet.Targets))
	for i := range d.decision.Verdicts {
		v := &d.decision.Verdicts[i]
		switch {
		case d.policies[v.Policy].DryRun:
		case v.Reason == Premature, v.Health != Healthy && (also == nil || !also(v)):
			sound[v.Target] = No
		case sound[v.Target] == Unknown:
			sound[v.Target] = Yes
		}
	}
	return sound
}

// nameless is the ID that all namesakes of a target share.
func (id ID) nameless() ID {
	id.UID = ""
	return id
}

// tallyBehind counts the targets that are gone and whose repairs go on.
func (d *deliberation) tallyBehind() {
	of := map[int][]int{}
	for repair := range d.behind {
		if lead := d.leaderAt(&d.fleet.Repairs[repair]); lead != none {
			of[lead] = append(of[lead], repair)
		}
	}
	for policy, repairs := range of {
		slices.SortFunc(repairs, d.olderRepair)
		t := &d.decision.Tallies[policy]
		t.InFlight += len(repairs)
		t.Behind = len(repairs) - d.replacements(policy, repairs)
		t.Waits = d.waitsFor(repairs)
	}
}

// replacements counts the members of a policy that may be the replacements of targets that are gone: each of these is
// paired with a member that was made since its repair started.
func (d *deliberation) replacements(policy int, repairs []int) int {
	made := make([]time.Time, 0, len(d.policies[policy].Members))
	for _, m := range d.policies[policy].Members {
		if m >= 0 && m < len(d.fleet.Targets) {
			made = append(made, d.fleet.Targets[m].Created)
		}
	}
	latest := func(a, b time.Time) int { return b.Compare(a) }
	slices.SortFunc(made, latest)
	started := make([]time.Time, len(repairs))
	for i, r := range repairs {
		started[i] = d.fleet.Repairs[r].Started.Truncate(time.Second)
	}
	slices.SortFunc(started, latest)
	paired := 0
	for _, at := range started {
		if paired == len(made) || made[paired].Before(at) {
			break
		}
		paired++
	}
	return paired
}

// mostWaits bounds the repairs that a sentence names.
const mostWaits = 3

// waitsFor names the targets that are gone, and what each waits for.
func (d *deliberation) waitsFor(repairs []int) string {
	var parts []string
	for _, i := range repairs[:min(len(repairs), mostWaits)] {
		r := &d.fleet.Repairs[i]
		parts = append(parts, fmt.Sprintf("%s %s is gone, and its repair goes on: %s", strings.ToLower(r.Target.Kind), r.Target.Name, d.waitsOn(i)))
	}
	if more := len(repairs) - len(parts); more > 0 {
		parts = append(parts, fmt.Sprintf("and %d more are", more))
	}
	return strings.Join(parts, "; ")
}

// waitsOn says what keeps the repair of a target that is gone from ending.
func (d *deliberation) waitsOn(repair int) string {
	r := &d.fleet.Repairs[repair]
	for _, i := range d.petitions[repair] {
		switch q := &d.fleet.Requests[i]; {
		case !q.Own || q.Leaving:
		case q.ID.UID == "":
			return "what was asked of its remediator has not been seen yet"
		case d.awaited(q, r):
			return q.ID.String() + " has not said yet that it is replaced"
		}
	}
	return "what was asked of its remediator can't be seen"
}

// targetGone ends the repair of a target that is gone, unless that is to be replaced yet. What its remediators were asked
// is withdrawn. They may not let go of it for long, which is no reason to wait: no remediator has that target any more.
func (d *deliberation) targetGone(repair int) {
	r := &d.fleet.Repairs[repair]
	lead := d.leaderAt(r)
	var ends EndReason
	if !d.rehearses(lead) {
		for _, i := range d.petitions[repair] {
			q := &d.fleet.Requests[i]
			ends = cmp.Or(d.replaced(q, r), ends)
			if !d.awaited(q, r) {
				d.withdraw(i, none, lead, TargetGone)
			}
		}
	}
	if d.behind[repair] {
		return
	}
	if lead == none {
		d.unled++
		if d.unled > mostUnled {
			return
		}
	}
	switch {
	case ends != "":
		d.finish(repair, Succeeded, because(ends))
	case r.lastStepRequests():
		d.finish(repair, Withdrawn, because(TargetGone))
	default:
		d.finish(repair, Succeeded, because(OwnerReplaces))
	}
}

// lastStepRequests reports whether the step under way, or else the last one, asks a remediator. Any other has the owner replace
// the target.
func (r *Repair) lastStepRequests() bool {
	at := min(len(r.Rungs), len(r.Ladder)-1)
	return at >= 0 && r.Ladder[at].Nature.Effect().AsksRemediator
}

// replaced returns what a request has had for an effect on a target that is gone, and "" without any. Either its remediator
// says that it succeeded, or a replacement that it was to bring about stands. A remediator that expects no replacement, such
// as a fencing remediator, may have succeeded before a person removed the target.
func (d *deliberation) replaced(q *Request, r *Repair) EndReason {
	switch {
	case !q.Own || q.rung(r.Ladder) < len(r.Rungs):
		return ""
	case q.Replaces && (q.Succeeded == Yes || d.returned(&q.Target)):
		return TargetReplaced
	case q.Succeeded == Yes:
		return RemediatorSucceeded
	}
	return ""
}
