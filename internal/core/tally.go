package core

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
)

// tally counts each policy's members, and compares them with its limits. A member that is not known to be healthy counts against the
// limit, as in today's controllers.
func (x *replacementIndex) tally() []Tally {
	tallies := make([]Tally, len(x.policies))
	for i := range x.verdicts {
		v := &x.verdicts[i]
		t := &tallies[v.Policy]
		t.Total++
		switch v.Health { //nolint:exhaustive // the others are counted as the rest
		case Healthy:
			t.Healthy++
		case Unhealthy:
			t.Failed++
		}
		if x.inFlight(v) {
			t.InFlight++
		}
	}
	x.tallyAwaitingReplacement(tallies)
	for i := range x.policies {
		p, t := &x.policies[i], &tallies[i]
		if p.Unjudged { // none of its members is known to be healthy
			t.Total = p.Selected
			continue
		}
		x.compare(t, p)
	}
	return tallies
}

// compare compares the counts of a policy with its limits.
func (in *input) compare(t *Tally, p *Policy) {
	t.MaxUnhealthy = p.ShortCircuit.MaxUnhealthyOf(t.Counted())
	t.Permitted = p.ShortCircuit.Permits(t.Unhealthy(), t.Counted())
	t.MaxInFlight = mostInFlight(p.MaxInFlight, t.Total)
	if t.Permitted && p.WasStopped && !p.Paused && p.Problem == "" && t.Unhealthy() > 0 {
		t.Cooldown, t.ResumeAt = p.Cooldown.advance(p.StormCooldown, t.Unhealthy(), in.now)
		if p.FixedCooldown {
			t.ResumeAt = t.Cooldown.First.Add(p.StormCooldown)
		}
		t.CoolingDown = in.now.Before(t.ResumeAt)
		in.wakeAt(t.ResumeAt)
	}
}

// mostInFlight returns at least one for a share above zero. Otherwise a small policy would never
// repair anything.
func mostInFlight(a Amount, total int) int {
	switch {
	case a.Unlimited:
		return math.MaxInt
	case a.Number > 0:
		return max(1, a.FloorOf(total))
	}
	return a.FloorOf(total)
}

// tallyAwaitingReplacement counts the targets that are gone and whose repairs go on.
func (x *replacementIndex) tallyAwaitingReplacement(tallies []Tally) {
	of := map[int][]int{}
	for repair := range x.awaitingReplacement {
		if lead := x.leaderAt(&x.cluster.Repairs[repair]); lead != none {
			of[lead] = append(of[lead], repair)
		}
	}
	for policy, repairs := range of {
		slices.SortFunc(repairs, x.olderRepair)
		t := &tallies[policy]
		t.InFlight += len(repairs)
		t.AwaitingReplacement = len(repairs) - x.replacements(policy, repairs)
		t.Waits = x.waitsFor(repairs)
	}
}

// replacements counts the members of a policy that may be replacements of targets that are gone. Each such target is
// paired with a member that was created since its repair started. The latest repair chooses first, since the fewest
// members suit it.
func (in *input) replacements(policy int, repairs []int) int {
	made := make([]time.Time, 0, len(in.policies[policy].Members))
	for _, m := range in.policies[policy].Members {
		if m >= 0 && m < len(in.cluster.Targets) {
			made = append(made, in.cluster.Targets[m].Created)
		}
	}
	latest := func(a, b time.Time) int { return b.Compare(a) }
	slices.SortFunc(made, latest)
	started := make([]time.Time, len(repairs))
	for i, r := range repairs {
		started[i] = in.cluster.Repairs[r].Started.Truncate(time.Second)
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
func (x *verdictIndex) waitsFor(repairs []int) string {
	var parts []string
	for _, i := range repairs[:min(len(repairs), maxWaitsNamed)] {
		r := &x.cluster.Repairs[i]
		parts = append(parts, fmt.Sprintf("%s %s is gone, and its repair goes on: %s", strings.ToLower(r.Target.Kind), r.Target.Name, x.waitsOn(i)))
	}
	if more := len(repairs) - len(parts); more > 0 {
		parts = append(parts, fmt.Sprintf("and %d more are", more))
	}
	return strings.Join(parts, "; ")
}

// waitsOn returns what keeps the repair of a target that is gone from ending.
func (x *verdictIndex) waitsOn(repair int) string {
	r := &x.cluster.Repairs[repair]
	for _, i := range x.requestsOf[repair] {
		switch q := &x.cluster.Requests[i]; {
		case !q.Own || q.Leaving:
		case q.ID.UID == "":
			return "the request to its remediator has not been seen yet"
		case x.awaitsReplacement(q, r):
			return q.ID.String() + " has not said yet that it is replaced"
		default:
			return q.ID.String() + " is not withdrawn yet"
		}
	}
	return "the request to its remediator can't be seen"
}
