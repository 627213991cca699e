package core_test

import (
	"fmt"
	"time"

	"github.com/fettle-io/fettle/internal/core"
)

// fact checks a promise in one world and its decision. It returns what is wrong, or "".
type fact func(w world, d core.Decision) string

// action is a repair that a decision starts or goes on with.
type action struct {
	target, policy int
	starts         bool
}

func actions(d core.Decision) []action {
	var all []action
	for _, a := range d.StepStarts {
		all = append(all, action{a.Target, a.Policy, false})
	}
	for _, s := range d.Starts {
		all = append(all, action{s.Target, s.Policy, true})
	}
	return all
}

// acting returns the policies that select a target and are no dry run.
func (w world) acting(target int) []int {
	var of []int
	for i := range w.policies {
		for _, m := range w.policies[i].Members {
			if m == target && !w.policies[i].DryRun {
				of = append(of, i)
				break
			}
		}
	}
	return of
}

// runningOf returns the running repairs of a target.
func (w world) runningOf(target int) []int {
	var running []int
	for i, r := range w.cluster.Repairs {
		if r.Ended.IsZero() && r.Target.UID == w.cluster.Targets[target].ID.UID {
			running = append(running, i)
		}
	}
	return running
}

func unknownNeverActs(w world, d core.Decision) string {
	if w.cluster.Observed != core.Yes && len(d.Starts)+len(d.StepStarts)+len(d.Finishes)+len(d.DryRunStarts)+len(d.Confirm) > 0 {
		return "something is done though the cluster was not observed"
	}
	if w.cluster.ClockAgrees != core.Yes && len(d.Starts)+len(d.StepStarts)+len(d.Escalations)+len(d.DryRunStarts) > 0 {
		return "something begins though it is not known how long anything has lasted"
	}
	for _, do := range actions(d) {
		t := &w.cluster.Targets[do.target]
		switch {
		case t.Problem != "":
			return t.ID.Name + " is repaired though it can't be read"
		case t.Node.State == core.NodeUnseen:
			return t.ID.Name + " is repaired though its node is unknown"
		case t.Node.State != core.NodeAwaited && w.now.Sub(t.NodeReadAt) >= 10*time.Second:
			return t.ID.Name + " is repaired though its node was not read live"
		case t.MaybeControlPlane() && t.QuorumSurvives != core.Yes:
			return t.ID.Name + " is repaired though the quorum is unknown"
		}
	}
	return ""
}

func oneRepairPerTarget(w world, d core.Decision) string {
	seen := map[string]bool{}
	for _, do := range actions(d) {
		t := w.cluster.Targets[do.target].ID
		if seen[t.UID] {
			return t.Name + " is repaired twice"
		}
		seen[t.UID] = true
		if do.starts && len(w.runningOf(do.target)) > 0 {
			return t.Name + " has a running repair, and another starts"
		}
	}
	for _, s := range d.Starts {
		for _, r := range w.cluster.Repairs {
			if r.Name == s.Name && r.Namespace == w.cluster.Targets[s.Target].ID.Namespace {
				return s.Name + " is the name of an earlier repair"
			}
		}
	}
	return ""
}

// limitsHold counts the members in flight on its own: under repair, being deleted while not
// healthy, or added by the decision.
func limitsHold(w world, d core.Decision) string {
	w = w.heeded()
	for i := range w.policies {
		p := &w.policies[i]
		if p.DryRun {
			continue
		}
		recorded, begun, unhealthy := 0, 0, 0
		for _, m := range p.Members {
			health := naiveHealth(p, &w.cluster.Targets[m], w.now)
			if health != "healthy" {
				unhealthy++
			}
			leaving := w.cluster.Targets[m].Deleting && (naiveUnsound(p, &w.cluster.Targets[m], w.now) || len(w.runningOf(m)) > 0)
			if leaving {
				begun++
			}
			if leaving || len(w.runningOf(m)) > 0 {
				recorded++
			}
		}
		starts, acts := added(w, d, i)
		most := naiveMost(p.MaxInFlight, len(p.Members))
		switch {
		case starts+acts == 0:
		case p.Paused || p.Problem != "":
			return p.ID.Name + " permits nothing, yet a member is repaired"
		case !naivePermits(p, unhealthy, len(p.Members)):
			return fmt.Sprintf("%s has %d unhealthy, yet a member is repaired", p.ID.Name, unhealthy)
		case begun+acts > most && acts > 0, recorded+starts > most && starts > 0:
			return fmt.Sprintf("%s has %d begun and %d recorded; %d go on and %d start, more than %d", p.ID.Name, begun, recorded, acts, starts, most)
		}
	}
	return ""
}

func added(w world, d core.Decision, policy int) (starts, acts int) {
	for _, do := range actions(d) {
		for _, p := range w.acting(do.target) {
			switch {
			case p != policy:
			case do.starts:
				starts++
			default:
				acts++
			}
		}
	}
	return starts, acts
}

func oneOfTheControlPlane(w world, d core.Decision) string {
	out := 0
	for _, t := range w.cluster.Targets {
		if t.ControlPlane && t.Deleting {
			out++
		}
	}
	repaired := 0
	for _, do := range actions(d) {
		if t := &w.cluster.Targets[do.target]; t.ControlPlane {
			repaired++
			if t.QuorumSurvives != core.Yes {
				return fmt.Sprintf("%s is repaired though it is not known that quorum survives: %v", t.ID, t.QuorumSurvives)
			}
		}
	}
	if repaired > 0 && out+repaired > 1 {
		return fmt.Sprintf("%d of the control plane are out and %d are repaired", out, repaired)
	}
	return ""
}

func criterionHeld(w world, d core.Decision) string {
	w = w.heeded()
	for _, do := range actions(d) {
		t, p := &w.cluster.Targets[do.target], &w.policies[do.policy]
		if got := naiveHealth(p, t, w.now); got != "unhealthy" {
			return fmt.Sprintf("%s is repaired for %s, for which it is %s", t.ID.Name, p.ID.Name, got)
		}
	}
	return ""
}

func everythingHasAReason(w world, d core.Decision) string {
	if want := membersOf(w); len(d.Verdicts) != want || len(d.Tallies) != len(w.policies) {
		return fmt.Sprintf("%d verdicts for %d members, %d tallies for %d policies", len(d.Verdicts), want, len(d.Tallies), len(w.policies))
	}
	answered := map[[2]int]bool{}
	for _, do := range actions(d) {
		answered[[2]int{do.target, none}] = true
	}
	for _, s := range d.DryRunStarts {
		answered[[2]int{s.Target, s.Policy}] = true
	}
	rehearsedRefusals := map[int]bool{}
	for _, r := range d.Refusals {
		if r.Text() == "" || r.Text() == "refused" || r.Gate.String() == "Unnamed" {
			return fmt.Sprintf("a refusal without a reason: %+v", r)
		}
		if r.DryRun {
			rehearsedRefusals[r.Target] = true
			continue
		}
		answered[[2]int{r.Target, none}] = true
	}
	for _, v := range d.Verdicts {
		if v.Text() == "not judged" || v.Health == 0 || v.Reason == 0 {
			return fmt.Sprintf("a verdict without a reason: %+v", v)
		}
		if v.Health != core.Unhealthy || len(w.runningOf(v.Target)) > 0 {
			continue
		}
		dry := w.policies[v.Policy].DryRun
		if !dry && !answered[[2]int{v.Target, none}] || dry && !answered[[2]int{v.Target, v.Policy}] && !rehearsedRefusals[v.Target] {
			return w.cluster.Targets[v.Target].ID.Name + " is unhealthy, and there is neither a repair nor a refusal"
		}
	}
	return ""
}

const none = -1

func membersOf(w world) int {
	n := 0
	for i := range w.policies {
		n += len(w.policies[i].Members)
	}
	return n
}

// onlyItsOwn checks that only running repairs end, each once, and that only recorded repairs go on.
func onlyItsOwn(w world, d core.Decision) string {
	ended := map[int]bool{}
	for _, f := range d.Finishes {
		if ended[f.Repair] || !w.cluster.Repairs[f.Repair].Running() || f.Text == "" {
			return fmt.Sprintf("%s is ended and was not running, or is ended twice", w.cluster.Repairs[f.Repair].Name)
		}
		ended[f.Repair] = true
	}
	for _, a := range d.StepStarts {
		if r := &w.cluster.Repairs[a.Repair]; ended[a.Repair] || !r.Running() || r.Policy != w.policies[a.Policy].ID {
			return r.Name + " goes on and is not running, or is led by another policy"
		}
	}
	return ""
}

// neverANamesake checks that a repaired target is the judged one, by UID, and still exists.
func neverANamesake(w world, d core.Decision) string {
	for _, a := range d.StepStarts {
		if w.cluster.Repairs[a.Repair].Target.UID != w.cluster.Targets[a.Target].ID.UID {
			return w.cluster.Targets[a.Target].ID.Name + " is destroyed for a repair of a namesake"
		}
	}
	for _, do := range actions(d) {
		if w.cluster.Targets[do.target].Deleting {
			return w.cluster.Targets[do.target].ID.Name + " is destroyed though it is being deleted"
		}
	}
	return ""
}

// recoveryIsNotHeldBack checks that a repair that has not begun ends when its policy finds the
// target healthy.
func recoveryIsNotHeldBack(w world, d core.Decision) string {
	w = w.heeded()
	ended := map[int]bool{}
	for _, f := range d.Finishes {
		ended[f.Repair] = true
	}
	for i := range w.cluster.Repairs {
		r := &w.cluster.Repairs[i]
		for j := range w.cluster.Targets {
			t := &w.cluster.Targets[j]
			if !r.Running() || r.Target.UID != t.ID.UID || t.Deleting || w.cluster.Observed != core.Yes {
				continue
			}
			for _, p := range w.acting(j) {
				health := naiveHealth(&w.policies[p], t, w.now)
				if w.policies[p].ID == r.Policy && (health == "healthy" || health == "suspect") && !ended[i] {
					return fmt.Sprintf("%s is %s and its repair %s does not end", t.ID.Name, health, r.Name)
				}
			}
		}
	}
	return ""
}
