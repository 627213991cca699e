package core

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

// A repair whose target is gone goes on only while a remediator replaces the target. Until then the target has its
// place among the limits: it is in flight, and it counts as unhealthy unless its replacement has come.

// findAwaitingReplacement finds the running repairs of targets that are gone, and of these the ones that go on.
func (d *planner) findAwaitingReplacement() {
	d.awaitingReplacement = map[int]bool{}
	if d.cluster.Observed != Yes {
		return
	}
	for _, at := range d.running {
		if _, exists := d.targetOf[at]; exists || !d.goesOn(at) {
			continue
		}
		d.awaitingReplacement[at] = true
		if !d.cluster.Workers[d.cluster.Repairs[at].Target] {
			d.controlPlaneAwaited++
		}
	}
}

// findReplacing finds the requests whose remediators are at work on targets that are gone. A replacement gets no repair
// of its own meanwhile: two would work on one node (I2), and the name of the request is taken.
func (d *planner) findReplacing() {
	d.replacing = map[ID]int{}
	of, others := map[int]*Repair{}, map[int]bool{}
	for repair, requests := range d.requestsOf {
		_, exists := d.targetOf[repair]
		for _, i := range requests {
			of[i], others[i] = &d.cluster.Repairs[repair], exists
		}
	}
	for _, requests := range d.requestsAbout {
		for _, i := range requests {
			others[i] = true
		}
	}
	for i := range d.cluster.Requests {
		q := &d.cluster.Requests[i]
		if others[i] || !q.Own || q.Leaving || !d.awaitsReplacement(q, of[i]) {
			continue
		}
		gone := q.Target.withoutUID()
		if first, taken := d.replacing[gone]; !taken || d.olderRequest(i, first) < 0 {
			d.replacing[gone] = i
		}
	}
}

// replacingRequest returns the request whose remediator still replaces the former namesake of a target, or of its node.
// It returns none where there is no such request.
func (d *planner) replacingRequest(target int) int {
	t := &d.cluster.Targets[target]
	for _, former := range []ID{t.ID.withoutUID(), {Kind: nodeKind, Name: t.Node.Name}} {
		if i, found := d.replacing[former]; found {
			return i
		}
	}
	return none
}

// goesOn reports whether something is left to be done for the repair of a target that is gone.
func (d *planner) goesOn(repair int) bool {
	r := &d.cluster.Repairs[repair]
	switch lead := d.leaderAt(r); {
	case d.isDryRun(lead):
		return false
	case d.mayHaveUnlistedRequests(lead, r), d.unreadable(repair, none, false):
		return true
	}
	return slices.ContainsFunc(d.requestsOf[repair], func(i int) bool {
		q := &d.cluster.Requests[i]
		return q.Own && !q.Leaving && (q.ID.UID == "" || d.awaitsReplacement(q, r))
	})
}

// mayHaveUnlistedRequests reports whether unlisted requests may stand for a repair of a target that is gone. The record
// of the repair does not show that (I14): the policy that leads it must have that step.
func (d *planner) mayHaveUnlistedRequests(lead int, r *Repair) bool {
	if lead == none || !d.requestsUnlisted(r) {
		return false
	}
	p := &d.policies[lead]
	has := func(step *Step) bool {
		return slices.ContainsFunc(slices.Concat(p.Steps, p.FailedSteps), func(s Step) bool { return s.equal(step) })
	}
	return p.Problem != "" || slices.ContainsFunc(r.Steps, func(s Step) bool { return d.unlisted(&s) && has(&s) })
}

// awaitsReplacement reports whether a request about a target that is gone waits for the replacement. It ends when the
// remediator reports the outcome, its time is over by a clock that agrees, or the replacement appears. The repair is
// nil where the ledger has none.
func (d *planner) awaitsReplacement(q *Request, r *Repair) bool {
	if !q.Replaces || q.Succeeded != Unknown || !q.Stopped.IsZero() || d.replacementHealthy(&q.Target) {
		return false
	}
	if r == nil {
		return d.awaitsWithoutRepair(q)
	}
	at := q.stepIn(r.Steps)
	switch {
	case at < 0:
		return true
	case at < len(r.Tried):
		return false
	case at > len(r.Tried) || r.Steps[at].Limit == 0:
		return true
	}
	until := r.StepEnds(&r.Steps[at], q)
	d.wakeAt(until)
	return clockHolds(d.cluster, &r.Policy) != 0 || d.now.Before(until)
}

// awaitsWithoutRepair reports whether the time of a request is not over that belongs to no repair in the ledger. Its step
// is that of the policy that made it. Without a limit, or a policy, only the remediator or a user ends the wait.
func (d *planner) awaitsWithoutRepair(q *Request) bool {
	by := d.requester(q)
	if by == none {
		return true
	}
	p := &d.policies[by]
	steps := slices.Concat(p.Steps, p.FailedSteps)
	at := q.stepIn(steps)
	if at < 0 || steps[at].Limit == 0 {
		return true
	}
	until := q.Created.Add(steps[at].Limit)
	d.wakeAt(until)
	return clockHolds(d.cluster, &p.ID) != 0 || d.now.Before(until)
}

// replacementHealthy reports whether another target has the name of a target that is gone, and every policy that acts finds it healthy.
func (d *planner) replacementHealthy(gone *ID) bool {
	if d.healthyUIDs == nil {
		d.healthyUIDs = map[ID]string{}
		for i, sound := range d.healthyTargets(nil) {
			if sound == Yes {
				id := d.cluster.Targets[i].ID
				d.healthyUIDs[id.withoutUID()] = id.UID
			}
		}
	}
	uid := d.healthyUIDs[gone.withoutUID()]
	return uid != "" && uid != gone.UID
}

// healthyTargets reports for each target whether every policy that acts finds it healthy. The verdict of one policy is
// not enough: it would end the back-off of another that finds the target unhealthy. Verdicts that also reports count as
// healthy too; it may be nil.
func (d *planner) healthyTargets(also func(*Verdict) bool) []Tri {
	sound := make([]Tri, len(d.cluster.Targets))
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

// withoutUID returns the ID that all namesakes of a target share.
func (id ID) withoutUID() ID {
	id.UID = ""
	return id
}

// tallyAwaitingReplacement counts the targets that are gone and whose repairs go on.
func (d *planner) tallyAwaitingReplacement() {
	of := map[int][]int{}
	for repair := range d.awaitingReplacement {
		if lead := d.leaderAt(&d.cluster.Repairs[repair]); lead != none {
			of[lead] = append(of[lead], repair)
		}
	}
	for policy, repairs := range of {
		slices.SortFunc(repairs, d.olderRepair)
		t := &d.decision.Tallies[policy]
		t.InFlight += len(repairs)
		t.AwaitingReplacement = len(repairs) - d.replacements(policy, repairs)
		t.Waits = d.waitsFor(repairs)
	}
}

// replacements counts the members of a policy that may be replacements of targets that are gone. Each such target is
// paired with a member that was created since its repair started. The latest repair chooses first, since the fewest
// members suit it.
func (d *planner) replacements(policy int, repairs []int) int {
	made := make([]time.Time, 0, len(d.policies[policy].Members))
	for _, m := range d.policies[policy].Members {
		if m >= 0 && m < len(d.cluster.Targets) {
			made = append(made, d.cluster.Targets[m].Created)
		}
	}
	latest := func(a, b time.Time) int { return b.Compare(a) }
	slices.SortFunc(made, latest)
	started := make([]time.Time, len(repairs))
	for i, r := range repairs {
		started[i] = d.cluster.Repairs[r].Started.Truncate(time.Second)
	}
	slices.SortFunc(started, latest)
	paired := 0
	for _, at := range started {
		if paired < len(made) && !made[paired].Before(at) {
			paired++
		}
	}
	return paired
}

// maxWaitsNamed bounds the repairs that a sentence names.
const maxWaitsNamed = 3

// waitsFor returns a clause with the targets that are gone, and what each waits for.
func (d *planner) waitsFor(repairs []int) string {
	var parts []string
	for _, i := range repairs[:min(len(repairs), maxWaitsNamed)] {
		r := &d.cluster.Repairs[i]
		parts = append(parts, fmt.Sprintf("%s %s is gone, and its repair goes on: %s", strings.ToLower(r.Target.Kind), r.Target.Name, d.waitsOn(i)))
	}
	if more := len(repairs) - len(parts); more > 0 {
		parts = append(parts, fmt.Sprintf("and %d more are", more))
	}
	return strings.Join(parts, "; ")
}

// waitsOn returns what keeps the repair of a target that is gone from ending.
func (d *planner) waitsOn(repair int) string {
	r := &d.cluster.Repairs[repair]
	for _, i := range d.requestsOf[repair] {
		switch q := &d.cluster.Requests[i]; {
		case !q.Own || q.Leaving:
		case q.ID.UID == "":
			return "the request to its remediator has not been seen yet"
		case d.awaitsReplacement(q, r):
			return q.ID.String() + " has not said yet that it is replaced"
		}
	}
	return "the request to its remediator can't be seen"
}

// targetGone ends the repair of a target that is gone, unless the target is yet to be replaced. Requests of the repair
// are withdrawn. Their remediators may keep them for long, but the repair doesn't wait for that, since no remediator
// works on that target any more.
func (d *planner) targetGone(repair int) {
	r := &d.cluster.Repairs[repair]
	lead := d.leaderAt(r)
	var ends EndReason
	if !d.isDryRun(lead) {
		for _, i := range d.requestsOf[repair] {
			q := &d.cluster.Requests[i]
			ends = cmp.Or(d.replaced(q, r), ends)
			if !d.awaitsReplacement(q, r) {
				d.withdraw(i, none, lead, TargetGone)
			}
		}
	}
	if d.awaitingReplacement[repair] {
		return
	}
	if lead == none {
		d.unledEnded++
		if d.unledEnded > maxUnledEnded {
			return
		}
	}
	switch {
	case ends != "":
		d.finish(repair, Succeeded, because(ends))
	case r.lastStepCreatesRequest():
		d.finish(repair, Withdrawn, because(TargetGone))
	default:
		d.finish(repair, Succeeded, because(OwnerReplaces))
	}
}

// lastStepCreatesRequest reports whether the step under way, or else the last step, creates a request. With other steps
// the owner replaces the target.
func (r *Repair) lastStepCreatesRequest() bool {
	at := min(len(r.Tried), len(r.Steps)-1)
	return at >= 0 && r.Steps[at].Nature.Effect().CreatesRequest
}

// replaced returns the effect of a request on a target that is gone, and "" without any. Either its remediator reports
// success, or the replacement that it was to bring exists. A remediator that expects no replacement, such as a fencing
// remediator, may have succeeded before a user removed the target.
func (d *planner) replaced(q *Request, r *Repair) EndReason {
	switch {
	case !q.Own || q.stepIn(r.Steps) < len(r.Tried):
		// Fettle did not make it, or has given its step up.
	case q.Replaces && (q.Succeeded == Yes || d.replacementHealthy(&q.Target)):
		return TargetReplaced
	case q.Succeeded == Yes:
		return RemediatorSucceeded
	}
	return ""
}
