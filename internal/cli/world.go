package cli

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/fettle-io/fettle/api/fettle/v1alpha1"
	"github.com/fettle-io/fettle/internal/core"
	"github.com/fettle-io/fettle/internal/ledger"
)

// world is the facts of one instant and what the core decides on them, with what belongs to a target
// within reach.
type world struct {
	at       time.Time
	policies []core.Policy
	fleet    core.Fleet
	decision core.Decision
	// repairs are those of fleet.Repairs, as written.
	repairs []*v1alpha1.Repair

	verdictsOf map[int][]core.Verdict
	refusalsOf map[int][]core.Refusal
	startOf    map[int]core.Start
	rehearsals map[int][]core.Start
	actOf      map[int]core.Act
	// finishOf is by repair, as running is its repair by target.
	finishOf map[int]core.Finish
	running  map[int]int
}

// newWorld decides on observations and the ledger.
func newWorld(observations []core.Observation, repairs map[string]*v1alpha1.Repair, at time.Time) *world {
	w := &world{at: at, fleet: core.Fleet{Observed: core.Yes}}
	kinds := map[string]bool{}
	for i := range observations {
		kinds[observations[i].Kind] = true
		w.add(&observations[i])
	}
	for _, key := range slices.Sorted(maps.Keys(repairs)) {
		if r := ledger.Read(repairs[key]); kinds[r.Target.Kind] {
			w.fleet.Repairs = append(w.fleet.Repairs, r)
			w.repairs = append(w.repairs, repairs[key])
		}
	}
	w.decision = core.Decide(w.policies, w.fleet, at)
	w.index()
	return w
}

// add appends what one dialect sees. Members are indices into its own targets.
func (w *world) add(o *core.Observation) {
	first := len(w.fleet.Targets)
	for _, p := range o.Policies {
		members := make([]int, len(p.Members))
		for i, m := range p.Members {
			members[i] = m + first
		}
		p.Members = members
		w.policies = append(w.policies, p)
	}
	w.fleet.Targets = append(w.fleet.Targets, o.Targets...)
}

func (w *world) index() {
	d := &w.decision
	w.verdictsOf, w.refusalsOf = map[int][]core.Verdict{}, map[int][]core.Refusal{}
	w.startOf, w.rehearsals, w.actOf = map[int]core.Start{}, map[int][]core.Start{}, map[int]core.Act{}
	w.finishOf, w.running = map[int]core.Finish{}, map[int]int{}
	for _, v := range d.Verdicts {
		w.verdictsOf[v.Target] = append(w.verdictsOf[v.Target], v)
	}
	for _, r := range d.Refusals {
		w.refusalsOf[r.Target] = append(w.refusalsOf[r.Target], r)
	}
	for _, s := range d.Starts {
		w.startOf[s.Target] = s
	}
	for _, s := range d.Rehearsals {
		w.rehearsals[s.Target] = append(w.rehearsals[s.Target], s)
	}
	for _, a := range d.Acts {
		w.actOf[a.Target] = a
	}
	for _, f := range d.Finishes {
		w.finishOf[f.Repair] = f
	}
	byUID := make(map[string]int, len(w.fleet.Targets))
	for i := range w.fleet.Targets {
		byUID[w.fleet.Targets[i].ID.UID] = i
	}
	for i := range w.fleet.Repairs {
		r := &w.fleet.Repairs[i]
		t, exists := byUID[r.Target.UID]
		if before, taken := w.running[t]; exists && r.Running() && (!taken || r.Started.Before(w.fleet.Repairs[before].Started)) {
			w.running[t] = i
		}
	}
}

// lead gives the policy that leads what happens to a target, and its verdict: that of the repair
// which runs, else the oldest that finds the target unhealthy. Verdicts come in the order of age.
func (w *world) lead(target int) (core.Verdict, bool) {
	repair, repaired := w.running[target]
	for _, v := range w.verdictsOf[target] {
		p := &w.policies[v.Policy]
		if p.DryRun {
			continue
		}
		if repaired && p.ID == w.fleet.Repairs[repair].Policy {
			return v, true
		}
		if !repaired && v.Health == core.Unhealthy {
			return v, true
		}
	}
	return core.Verdict{}, false
}

// worst gives the verdict that matters most on a target, of the policies that act if there are any.
func (w *world) worst(target int) (core.Verdict, bool) {
	if v, leads := w.lead(target); leads {
		return v, true
	}
	verdicts := slices.Clone(w.verdictsOf[target])
	if len(verdicts) == 0 {
		return core.Verdict{}, false
	}
	slices.SortStableFunc(verdicts, func(a, b core.Verdict) int {
		return cmp.Or(
			compareBool(w.policies[a.Policy].DryRun, w.policies[b.Policy].DryRun),
			cmp.Compare(gravity(a.Health), gravity(b.Health)),
			compareInstants(a.Until, b.Until),
		)
	})
	return verdicts[0], true
}

// gravity orders verdicts, the gravest first.
func gravity(h core.Health) int {
	switch h {
	case core.Unhealthy:
		return 0
	case core.Gone:
		return 1
	case core.Undetermined:
		return 2
	case core.Suspect:
		return 3
	case core.Healthy:
	}
	return 4
}

func compareBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	}
	return 1
}

// compareInstants orders instants, the zero instant last.
func compareInstants(a, b time.Time) int {
	if c := compareBool(a.IsZero(), b.IsZero()); c != 0 {
		return c
	}
	return a.Compare(b)
}

// asOf decides on the same facts at a later instant, as if nothing changed until then.
func (w *world) asOf(at time.Time) *world {
	then := &world{at: at, policies: slices.Clone(w.policies), fleet: w.fleet, repairs: w.repairs}
	for i := range then.policies {
		then.policies[i].Opening = w.decision.Tallies[i].Opening
	}
	then.fleet.Targets = slices.Clone(w.fleet.Targets)
	for i := range then.fleet.Targets {
		then.fleet.Targets[i].NodeReadAt = at
	}
	then.decision = core.Decide(then.policies, then.fleet, at)
	then.index()
	return then
}
