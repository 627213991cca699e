package cli

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/fettle-io/fettle/internal/core"
)

// remedyWords says what the first step does to a target.
func remedyWords(steps []core.Step, kind string) string {
	if len(steps) == 0 {
		return "is not repaired, since its health check names no remedy that Fettle knows"
	}
	switch effect := steps[0].Nature.Effect(); {
	case effect.Deletes:
		return "is deleted, and its owner makes a new " + kind
	case effect.CreatesRequest:
		text := "is left to an outside remediator, by an object that Fettle creates from " + steps[0].Template.String()
		if len(steps) > 1 && steps[1].Nature.Effect().OwnerDecides {
			text += ", and to its owner once that remediator has given it up"
		}
		return text
	case effect.OwnerDecides:
		return "is marked for its owner, which replaces it in its own time"
	}
	return "is marked for an outside remediator and left to it"
}

// does says what the first step of a target's repair does, by a policy.
func (w *assessment) does(policy, target int) string {
	t := &w.cluster.Targets[target]
	return remedyWords(w.policies[policy].StepsFor(t), kindWord(t.ID))
}

func kindWord(id core.ID) string { return strings.ToLower(id.Kind) }

// nextOf says what happens to a target next, if nothing changes.
func (w *assessment) nextOf(target int) Next {
	t := &w.cluster.Targets[target]
	repair, repaired := w.repairOf(target)
	lead, leads := w.lead(target)
	switch {
	case w.blocked != nil && !t.Deleting:
		return w.nextUnjudged()
	case repaired && !w.isOf(repair, target):
		return w.nextOfFollower(w.targetOf(repair))
	case leads && lead.Target != target:
		return w.nextOfFollower(lead.Target)
	case t.Deleting && repaired && len(w.requestsOn(target)) == 0:
		return Next{Text: "Its deletion was requested by repair " + w.cluster.Repairs[repair].Name + "; it goes once its finalizers are removed, and then the repair has succeeded."}
	case t.Deleting:
		return Next{Text: "It is being deleted, and not by Fettle; it goes once its finalizers are removed."}
	case repaired:
		return w.nextOfRunning(target, repair)
	case leads:
		return w.nextOfUnhealthy(target, lead)
	}
	if withdrawals := w.withdrawalsOf[target]; len(withdrawals) > 0 {
		return w.nextOfWithdrawal(withdrawals[0])
	}
	if dryRuns := w.dryRuns[target]; len(dryRuns) > 0 {
		return Next{Text: "Nothing: " + nameOf(w.policies[dryRuns[0].Policy].ID) + " is a dry run. Otherwise it would be repaired now."}
	}
	return w.nextOfOther(target)
}

// nextOfFollower is for a target whose node has another target that is repaired.
func (w *assessment) nextOfFollower(of int) Next {
	n := w.nextOf(of)
	n.Text += fmt.Sprintf(" That is about %s, which has the same node.", w.cluster.Targets[of].ID)
	return n
}

// nextOfRunning is for a repair that runs.
func (w *assessment) nextOfRunning(target, repair int) Next {
	name := w.cluster.Repairs[repair].Name
	if f, ends := w.finishOf[repair]; ends {
		return Next{At: instant(w.at), Text: fmt.Sprintf("Repair %s ends as %s: %s.", name, f.Outcome, f.Text)}
	}
	if withdrawals := w.withdrawalsOf[target]; len(withdrawals) > 0 {
		return w.nextOfWithdrawal(withdrawals[0])
	}
	if a, advances := w.advanceOf[target]; advances {
		return w.nextOfAdvance(repair, a)
	}
	if a, acts := w.actOf[target]; acts {
		words := remedyWords(w.cluster.Repairs[repair].Steps[a.Step:], kindWord(w.cluster.Targets[target].ID))
		return Next{At: instant(w.at), Text: fmt.Sprintf("Repair %s calls its remedy: the %s %s.", name, kindWord(w.cluster.Targets[target].ID), words)}
	}
	if r := w.recoveryOf(target); r != nil {
		return nextOfRecovery(r)
	}
	for _, v := range w.verdictsOf[target] {
		if v.RequestRemains {
			return Next{Text: "It is healthy again, and counts as not healthy as long as this remains: " + v.Detail + "."}
		}
	}
	if refusals := w.held(target); len(refusals) > 0 {
		return w.nextOfHeld(repair, refusals)
	}
	return w.nextOfStep(target, repair)
}

func (w *assessment) nextOfWithdrawal(g core.Withdrawal) Next {
	q := &w.cluster.Requests[g.Request]
	if q.Answers {
		return Next{At: instant(w.at), Text: fmt.Sprintf("The request to its owner is withdrawn, since %s.", g.Text)}
	}
	return Next{At: instant(w.at), Text: fmt.Sprintf("Its remediation object %s is deleted, since %s.", q.ID, g.Text)}
}

func (w *assessment) nextOfAdvance(repair int, a core.Escalation) Next {
	r := &w.cluster.Repairs[repair]
	return Next{At: instant(w.at), Text: fmt.Sprintf("Step %d is given up, since %s; then %s.", len(r.Tried)+1, a.Text, followingStep(r))}
}

// followingStep says what comes after the step under way.
func followingStep(r *core.Repair) string {
	next := len(r.Tried) + 1
	if next >= len(r.Steps) {
		return "no step is left: its remediation objects stay until it is healthy, and a person must repair it by hand"
	}
	step := &r.Steps[next]
	if step.Template == (core.Reference{}) {
		return fmt.Sprintf("step %d follows, %s", next+1, step.Remedy)
	}
	return fmt.Sprintf("step %d follows, an object made from %s", next+1, step.Template)
}

func nextOfRecovery(r *Recovery) Next {
	switch {
	case r.Confirm == "":
		return Next{At: r.Until, Text: "Its request is withdrawn, if it is still healthy: a condition has just changed, and the agent that reports it may not have checked yet."}
	case r.Until == nil:
		return Next{Text: "It is healthy again. Its remediation objects stay until a person confirms that: " + r.Confirm}
	}
	return Next{At: r.Until, Text: "Its remediation objects are deleted, if it is still healthy; or at once when a person confirms that: " + r.Confirm}
}

// nextOfHeld is for a repair whose next step gates hold back.
func (w *assessment) nextOfHeld(repair int, refusals []core.Refusal) Next {
	name := w.cluster.Repairs[repair].Name
	until := latestUntil(refusals)
	switch {
	case !until.IsZero():
		return Next{At: instant(until), Text: "Repair " + name + " calls its remedy again, if it is still unhealthy."}
	case w.allHidden(refusals):
		return Next{Text: unknownRepairText}
	case refusals[0].Gate == core.StepsExhausted:
		return Next{Text: "Nothing by time alone: every step was tried without success. Once it is healthy, the remediation objects that Fettle made are deleted."}
	case len(w.cluster.Repairs[repair].Tried) > 0:
		return Next{Text: "Repair " + name + " takes its next step when the gates above open."}
	}
	return Next{Text: "Repair " + name + " is recorded and has not begun; it goes on when the gates above open."}
}

// nextOfStep is for a step that is under way.
func (w *assessment) nextOfStep(target, repair int) Next {
	r := &w.cluster.Repairs[repair]
	name := w.cluster.Repairs[repair].Name
	for _, q := range w.requestsOn(target) {
		if q.Leaving && q.Answers {
			return Next{Text: "Its owner has begun to replace it, and Fettle waits for that, for as long as it takes."}
		}
		if q.Leaving {
			return Next{Text: fmt.Sprintf("Its remediation object %s is being deleted; it goes once its remediator has removed its finalizers.", q.ID)}
		}
	}
	if len(r.Tried) >= len(r.Steps) {
		return Next{Text: "Repair " + name + " has no step that can be read."}
	}
	steps := w.stepsOf(repair)
	step := &steps[len(r.Tried)]
	q, stands := w.requestOf(repair, target)
	foreign := stands && !q.Own && !q.Answers
	switch {
	case step.Ends != nil:
		n := Next{At: step.Ends, Text: fmt.Sprintf("Step %d times out, if it is still unhealthy; then %s.", len(r.Tried)+1, followingStep(r))}
		if foreign {
			n.Text += " " + nextOfForeign(q)
		}
		return n
	case foreign:
		return Next{Text: nextOfForeign(q)}
	case step.State == stepUnderWay && r.Steps[len(r.Tried)].Nature.Effect().OwnerDecides:
		return Next{Text: "Its owner has the request to replace it, and Fettle waits for that, for as long as it takes. Once it is healthy, Fettle withdraws the request."}
	case step.State == stepUnderWay:
		return nextOfRemediator(r, q)
	}
	return Next{Text: "Repair " + name + " waits."}
}

func (w *assessment) nextOfUnhealthy(target int, lead core.Verdict) Next {
	does := w.does(lead.Policy, target)
	if _, starts := w.startOf[target]; starts {
		if slices.ContainsFunc(w.requestsOn(target), func(q *core.Request) bool { return q.Answers }) {
			return Next{At: instant(w.at), Text: "Its repair is recorded; its owner has the request to replace it already."}
		}
		return Next{At: instant(w.at), Text: "It " + does + "."}
	}
	refusals := w.held(target)
	until := latestUntil(refusals)
	switch {
	case !until.IsZero():
		return Next{At: instant(until), Text: "It " + does + ", if it is still unhealthy and no other gate closes."}
	case w.allHidden(refusals):
		return Next{Text: unknownRepairText}
	}
	return Next{Text: "Nothing by time alone: it is unhealthy and is not repaired until the gates above open." + w.resumption(refusals)}
}

// allHidden reports whether every gate that may hold back a repair needs facts that the user may not read.
func (w *assessment) allHidden(refusals []core.Refusal) bool {
	return len(refusals) > 0 && !slices.ContainsFunc(refusals, func(r core.Refusal) bool {
		_, hidden := w.hidden(r)
		return !hidden
	})
}

// whys returns the reasons why facts are unknown.
func (w *assessment) whys(refusals []core.Refusal) string {
	var whys []string
	for _, r := range refusals {
		if why, _ := w.hidden(r); !slices.Contains(whys, why) {
			whys = append(whys, why)
		}
	}
	return strings.Join(whys, "; ")
}

// unknownRepairText refers to unknown facts that the answer has named before.
const unknownRepairText = "It is not known whether it is repaired, since the facts named above can't be read."

// held returns the refusals that hold back a target, dry runs apart.
func (w *assessment) held(target int) []core.Refusal {
	return slices.DeleteFunc(slices.Clone(w.refusalsOf[target]), func(r core.Refusal) bool { return r.DryRun })
}

// latestUntil returns when time alone has opened all gates. It is zero if there are none, or if time alone does not open
// each of them.
func latestUntil(refusals []core.Refusal) time.Time {
	var latest time.Time
	for _, r := range refusals {
		if r.Until.IsZero() {
			return time.Time{}
		}
		if r.Until.After(latest) {
			latest = r.Until
		}
	}
	return latest
}

// nextOfOther is for targets that no policy finds unhealthy, dry runs apart.
func (w *assessment) nextOfOther(target int) Next {
	v, judged := w.worst(target)
	switch {
	case !judged:
		return Next{Text: "Nothing: no health check selects it."}
	case v.Health == core.Suspect && !v.Until.IsZero():
		return w.nextOfSuspect(target, v)
	case v.Reason == core.Recovering:
		return w.nextOfRecovering(target)
	case v.Health == core.Suspect && v.Reason == core.ExternalRemediation:
		return Next{Text: "Fettle waits for the external remediator."}
	case v.Health == core.Suspect:
		return Next{Text: "Nothing by time alone: Fettle waits for its node to join."}
	case v.Health == core.Undetermined:
		return Next{Text: "Nothing until what is missing is known."}
	case v.Health == core.Unhealthy:
		return Next{Text: "Nothing: " + nameOf(w.policies[v.Policy].ID) + " is a dry run. Otherwise it would be held back as well, see above."}
	}
	return w.nextOfHealthy(target)
}

// nextOfRecovering is for a target that is healthy again, and whose repair has ended.
func (w *assessment) nextOfRecovering(target int) Next {
	if r := w.recoveryOf(target); r != nil {
		return nextOfRecovery(r)
	}
	for _, v := range w.verdictsOf[target] {
		if v.RequestRemains {
			return Next{Text: "It is healthy again, and counts as not healthy as long as this remains: " + v.Detail + "."}
		}
	}
	return Next{Text: "It is healthy again, and its remediation objects are being deleted; they go once their finalizers are removed."}
}

// nextOfSuspect looks ahead to the deadline, as if nothing changed until then.
func (w *assessment) nextOfSuspect(target int, v core.Verdict) Next {
	n := Next{At: instant(v.Until)}
	still := "if " + v.PremiseText()
	if v.Since.IsZero() {
		still += " (it may be earlier: the controller alone knows since when that is so)"
	}
	then := w.asOf(v.Until)
	if w.policies[v.Policy].DryRun {
		n.Text = fmt.Sprintf("It is unhealthy %s. Nothing is done then, since %s is a dry run.", still, nameOf(w.policies[v.Policy].ID))
		return n
	}
	if s, starts := then.startOf[target]; starts {
		n.Text = fmt.Sprintf("It %s, %s.", then.does(s.Policy, target), still)
		return n
	}
	if refusals := then.held(target); then.allHidden(refusals) {
		n.Text = fmt.Sprintf("It is unhealthy %s. It is not known whether it is repaired then: %s.", still, then.whys(refusals))
		return n
	}
	gates := gateNames(then.held(target))
	if len(gates) == 0 {
		n.Text = "It is unhealthy " + still + "."
		return n
	}
	n.Text = fmt.Sprintf("It is unhealthy %s. By the present state it is not repaired then, since %s would hold it back: %s.", still, strings.Join(gates, ", "), then.held(target)[0].Text())
	return n
}
