package core_test

import (
	"fmt"
	"slices"
	"time"

	"github.com/fettle-io/fettle/internal/core"
)

// speech is a decision with names for indices, so that decisions about worlds in different orders
// compare. Values that have an order keep it.
type speech struct {
	Actions, Refusals, Rehearsals []string
	Verdicts, Tallies, Confirm    []string
	NextAt                        time.Time
}

func spoken(w world, d core.Decision) speech {
	s := speech{NextAt: d.NextAt}
	target := func(i int) string { return w.cluster.Targets[i].ID.UID }
	policy := func(i int) string { return w.policies[i].ID.UID }
	for _, f := range d.Finishes {
		s.Actions = append(s.Actions, fmt.Sprintf("end %s %v %s", w.cluster.Repairs[f.Repair].Name, f.Outcome, f.Text))
	}
	for _, a := range d.StepStarts {
		s.Actions = append(s.Actions, fmt.Sprintf("act %s %s %s %s", w.cluster.Repairs[a.Repair].Name, target(a.Target), policy(a.Policy), a.Verdict.Text()))
	}
	for _, x := range d.Starts {
		s.Actions = append(s.Actions, fmt.Sprintf("start %s %s %s %d %s %v", x.Name, target(x.Target), policy(x.Policy), x.Retry, x.Verdict.Text(), x.CreatedSameSecond))
	}
	for _, x := range d.DryRunStarts {
		s.Rehearsals = append(s.Rehearsals, fmt.Sprintf("%s %s %d", target(x.Target), policy(x.Policy), x.Retry))
	}
	for _, r := range d.Refusals {
		s.Refusals = append(s.Refusals, fmt.Sprintf("%s %s %v %v %v %s", target(r.Target), policy(r.Policy), r.Gate, r.Until, r.DryRun, r.Text()))
	}
	for _, v := range d.Verdicts {
		s.Verdicts = append(s.Verdicts, fmt.Sprintf("%s %s %v %v %v %s", target(v.Target), policy(v.Policy), v.Health, v.Until, v.WasUnhealthy, v.Text()))
	}
	for i, t := range d.Tallies {
		s.Tallies = append(s.Tallies, fmt.Sprintf("%s %+v", policy(i), t))
	}
	for _, t := range d.Confirm {
		s.Confirm = append(s.Confirm, target(t))
	}
	slices.Sort(s.Verdicts)
	slices.Sort(s.Tallies)
	slices.Sort(s.Confirm)
	return s
}

// shuffled is the same world in another order.
func shuffled(d dice, w world) world {
	targets, place := permuted(d, w.cluster.Targets)
	for i := range targets {
		targets[i].Node.Conditions, _ = permuted(d, targets[i].Node.Conditions)
	}
	w.cluster.Targets = targets
	w.cluster.Repairs, _ = permuted(d, w.cluster.Repairs)
	w.policies, _ = permuted(d, w.policies)
	for i := range w.policies {
		members, _ := permuted(d, w.policies[i].Members)
		for j := range members {
			members[j] = place[members[j]]
		}
		w.policies[i].Members = members
	}
	return w
}

// permuted is a copy in another order, and where each element went.
func permuted[T any](d dice, in []T) (out []T, place []int) {
	order := all(len(in))
	for i := len(order) - 1; i > 0; i-- {
		j := d(i + 1)
		order[i], order[j] = order[j], order[i]
	}
	out, place = make([]T, len(in)), make([]int, len(in))
	for to, from := range order {
		out[to], place[from] = in[from], to
	}
	return out, place
}

// acted is the world after the decision is carried out, remembered too if there is a memory.
func acted(w world, d core.Decision, m *core.Expectations) world {
	w.cluster.Targets, w.cluster.Repairs = slices.Clone(w.cluster.Targets), slices.Clone(w.cluster.Repairs)
	for _, f := range d.Finishes {
		r := &w.cluster.Repairs[f.Repair]
		r.Ended, r.Outcome = w.now, f.Outcome
		if m != nil {
			m.ExpectRepair(*r, w.now)
		}
	}
	begin := func(target int, r core.Repair) {
		w.cluster.Targets[target].Deleting = true
		if m != nil {
			m.ExpectRepair(r, w.now)
			m.ExpectDeletion(r.Target)
		}
	}
	for _, a := range d.StepStarts {
		begin(a.Target, w.cluster.Repairs[a.Repair])
	}
	for _, s := range d.Starts {
		t := &w.cluster.Targets[s.Target]
		r := core.Repair{
			Namespace: t.ID.Namespace, Name: s.Name, Target: t.ID, Policy: w.policies[s.Policy].ID, Owner: t.Owner,
			Retry: s.Retry, Started: w.now, CreatedSameSecond: s.CreatedSameSecond, Steps: s.Steps,
		}
		w.cluster.Repairs = append(w.cluster.Repairs, r)
		begin(s.Target, r)
	}
	return w
}
