package core_test

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/fettle-io/fettle/internal/core"
)

// The promises I1 to I12 of docs/invariants.md, each on generated worlds, as far as the
// core can keep them. The simulator checks the same over time, and adapters have tests of theirs.

// always checks facts on generated worlds.
func always(t *testing.T, facts ...fact) {
	t.Helper()
	rapid.Check(t, func(r *rapid.T) {
		w := drawWorld(rapidDice(r))
		d := w.decide()
		for _, f := range facts {
			if wrong := f(w, d); wrong != "" {
				r.Fatalf("%s\nworld: %+v\ndecision: %+v", wrong, w, d)
			}
		}
	})
}

func TestI01UnknownNeverActs(t *testing.T) { always(t, unknownNeverActs) }

func TestI02OneRunningRepairPerTarget(t *testing.T) {
	always(t, oneRepairPerTarget)
	rapid.Check(t, func(r *rapid.T) {
		w := drawWorld(rapidDice(r))
		w.cluster.Observed = core.Yes
		after := acted(w, w.decide(), nil)
		for i := range after.cluster.Targets {
			if running := after.runningOf(i); len(running) > 1 {
				r.Fatalf("after acting %s has %d running repairs", after.cluster.Targets[i].ID.Name, len(running))
			}
		}
	})
}

// TestI02LeadersAgreeOnNames: two leaders that start a repair of a target after the same earlier
// ones give it the same name. So the API server lets one of them create it.
func TestI02LeadersAgreeOnNames(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		d := rapidDice(r)
		w := drawWorld(d)
		other := shuffled(d, w)
		other.now = w.now.Add(time.Duration(d(5)) * time.Second)
		names := map[string]string{}
		for _, s := range w.decide().Starts {
			names[w.cluster.Targets[s.Target].ID.UID] = s.Name
		}
		for _, s := range other.decide().Starts {
			if name, both := names[other.cluster.Targets[s.Target].ID.UID]; both && name != s.Name {
				r.Fatalf("one leader calls it %s, the other %s", name, s.Name)
			}
		}
	})
}

func TestI03NoLimitIsExceeded(t *testing.T) { always(t, limitsHold) }

func TestI04OneOfTheControlPlane(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		w := drawWorld(rapidDice(r))
		for i := range w.cluster.Targets {
			w.cluster.Targets[i].ControlPlane = true
		}
		for _, survives := range []core.Tri{core.Unknown, core.No, core.Yes} {
			quorumOf(&w.cluster, survives)
			if wrong := oneOfTheControlPlane(w, w.decide()); wrong != "" {
				r.Fatalf("%s\nworld: %+v", wrong, w)
			}
		}
	})
	targets := machines(3, 3, dead, controlPlane)
	f := clusterOf(targets)
	for survives, want := range map[core.Tri]int{core.Unknown: 0, core.No: 0, core.Yes: 1} {
		quorumOf(&f, survives)
		if got := len(core.Decide([]core.Policy{policy("p", all(3), maxInFlight(core.Unlimited()))}, f, noon).Starts); got != want {
			t.Errorf("quorum survives: %v: %d of three dead members are repaired, want %d", survives, got, want)
		}
	}
}

func TestI05CriterionHeldForItsDuration(t *testing.T) { always(t, criterionHeld) }

// TestI06LosingExpectationsNeverHastens: without memory no target counts fewer failures before it, and no
// pool has more repairs start. (Another of its targets may start one.)
func TestI06LosingExpectationsNeverHastens(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		w := drawWorld(rapidDice(r))
		for i := range w.policies {
			w.policies[i].MaxInFlight = core.Unlimited()
		}
		for i := range w.cluster.Targets {
			w.cluster.Targets[i].ControlPlane = false
		}
		var m core.Expectations
		m.Overlay(&core.Cluster{Observed: core.Yes, ClockAgrees: core.Yes, Repairs: slices.Clone(w.cluster.Repairs)}, w.now)
		remembering, forgetting := w, w
		remembering.cluster = laidOver(&m, w.cluster, w.now)
		forgetting.cluster.Repairs = slices.Clone(w.cluster.Repairs)
		for i := range forgetting.cluster.Repairs {
			forgetting.cluster.Repairs[i].CreatedSameSecond = nil
		}
		forgetting.cluster = laidOver(&core.Expectations{}, forgetting.cluster, w.now) // a new process counts future times from now, too
		forgetting.policies = slices.Clone(w.policies)
		for i := range forgetting.policies {
			forgetting.policies[i].Cooldown = core.CooldownState{}
		}
		with, without := remembering.decide(), forgetting.decide()
		before := retries(with)
		for target, retry := range retries(without) {
			if known, both := before[target]; both && retry < known {
				r.Fatalf("%s is retry %d without memory and %d with it", w.cluster.Targets[target].ID.Name, retry, known)
			}
		}
		paced := startsByPool(w, with)
		for owner, n := range startsByPool(w, without) {
			if n > paced[owner] {
				r.Fatalf("%d repairs of pool %q start without memory and %d with it", n, owner, paced[owner])
			}
		}
	})
}

// TestI06LosingTheLedgerNeverHastens: repairs that a user deleted are remembered, so the back-off
// of their pool is what it was. Only the place of a repair that has not begun is given up.
func TestI06LosingTheLedgerNeverHastens(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		w := drawWorld(rapidDice(r))
		for i := range w.cluster.Targets {
			w.cluster.Targets[i].RepairRequest = core.RepairRequest{} // only Repairs say which requests were served (docs/repairs.md)
		}
		for i := range w.cluster.Repairs {
			if rep := &w.cluster.Repairs[i]; rep.Running() {
				ended(w.now)(rep)
			}
		}
		var m core.Expectations
		full := w
		full.cluster = laidOver(&m, w.cluster, w.now)
		lost := w
		lost.cluster.Repairs = nil
		lost.cluster = laidOver(&m, lost.cluster, w.now)
		if diff := cmp.Diff(spoken(full, full.decide()), spoken(lost, lost.decide())); diff != "" {
			r.Fatalf("the ledger's loss changes the decision (-before +after):\n%s", diff)
		}
	})
}

// TestI06WithoutAnyExpectations: with neither ledger nor memory the limits and criteria still hold, since
// they are read off the world.
func TestI06WithoutAnyExpectations(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		w := drawWorld(rapidDice(r))
		w.cluster.Repairs = nil
		d := w.decide()
		for _, f := range []fact{limitsHold, criterionHeld, unknownNeverActs, oneOfTheControlPlane} {
			if wrong := f(w, d); wrong != "" {
				r.Fatal(wrong)
			}
		}
	})
}

// retries returns how many failures were counted before each target that starts or backs off.
func retries(d core.Decision) map[int]int {
	of := map[int]int{}
	for _, s := range d.Starts {
		of[s.Target] = s.Retry
	}
	for _, r := range d.Refusals {
		if r.Gate == core.BackingOff && !r.DryRun {
			of[r.Target] = r.Have
		}
	}
	return of
}

func startsByPool(w world, d core.Decision) map[string]int {
	of := map[string]int{}
	for _, s := range d.Starts {
		of[w.cluster.Targets[s.Target].Owner.UID]++
	}
	return of
}

func laidOver(m *core.Expectations, f core.Cluster, now time.Time) core.Cluster {
	f.Targets, f.Repairs = slices.Clone(f.Targets), slices.Clone(f.Repairs)
	m.Overlay(&f, now)
	return f
}

func TestI07OrderOfInputChangesNothing(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		d := rapidDice(r)
		w := drawWorld(d)
		other := shuffled(d, w)
		if diff := cmp.Diff(spoken(w, w.decide()), spoken(other, other.decide())); diff != "" {
			r.Fatalf("another order of input gives another decision (-one +other):\n%s", diff)
		}
	})
}

func TestI08SameInputSameDecision(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		seed := rapid.SliceOfN(rapid.Byte(), 0, 400).Draw(r, "world")
		w, untouched := drawWorld(byteDice(seed)), drawWorld(byteDice(seed))
		first := w.decide()
		if diff := cmp.Diff(untouched, w, cmp.AllowUnexported(world{})); diff != "" {
			r.Fatalf("deciding has changed its input:\n%s", diff)
		}
		if diff := cmp.Diff(first, w.decide()); diff != "" {
			r.Fatalf("deciding again gives another decision:\n%s", diff)
		}
	})
}

// TestI08UnchangedWorldYieldsNoNewAction: once the decision is carried out there is nothing left to
// do, whether the caches show it already or only expectations do. Where repairs end, their places are free
// in the next pass, so there it takes a pass or two more.
func TestI08UnchangedWorldYieldsNoNewAction(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		w := drawWorld(rapidDice(r))
		var m core.Expectations
		w.cluster = laidOver(&m, w.cluster, w.now)
		first := w.decide()
		after := acted(w, first, &m)
		lagging := w
		lagging.cluster = laidOver(&m, w.cluster, w.now)
		for name, next := range map[string]world{"the caches show it": after, "memory shows it": lagging} {
			d := next.decide()
			if len(first.Finishes) == 0 && len(d.Starts)+len(d.StepStarts)+len(d.Finishes) > 0 {
				r.Fatalf("%s: yet there are %d starts, %d acts and %d ends\nworld: %+v", name, len(d.Starts), len(d.StepStarts), len(d.Finishes), w)
			}
		}
		for range 2 * (1 + len(w.cluster.Targets) + len(w.cluster.Repairs)) {
			after = acted(after, after.decide(), nil)
		}
		if d := after.decide(); len(d.Starts)+len(d.StepStarts)+len(d.Finishes) > 0 {
			r.Fatalf("it does not come to rest: %+v", d)
		}
	})
}

func TestI09EverythingHasAReason(t *testing.T) { always(t, everythingHasAReason) }

func TestI10OnlyItsOwn(t *testing.T) {
	always(t, onlyItsOwn)
	rapid.Check(t, func(r *rapid.T) {
		d := rapidDice(r)
		w := drawWorld(d)
		keep := core.Retention{For: time.Duration(d(3)) * time.Hour, Max: d(3)}
		expired, _ := keep.Expired(&w.cluster, w.decide().Verdicts, w.now)
		for _, i := range expired {
			if w.cluster.Repairs[i].Running() {
				r.Fatalf("%s is deleted while it runs", w.cluster.Repairs[i].Name)
			}
		}
	})
}

func TestI11NeverANamesake(t *testing.T) { always(t, neverANamesake) }

func TestI12RecoveryIsNotHeldBack(t *testing.T) {
	always(t, recoveryIsNotHeldBack)
	rapid.Check(t, func(r *rapid.T) {
		w := drawWorld(rapidDice(r))
		for i := range w.policies {
			w.policies[i].Paused, w.policies[i].ShortCircuit, w.policies[i].MaxInFlight = true, core.ShortCircuit{}, core.Amount{}
		}
		if wrong := recoveryIsNotHeldBack(w, w.decide()); wrong != "" {
			r.Fatal(wrong)
		}
	})
}

// TestDryRunChangesNothing: without the dry runs, the decision about the rest is the same. The rest is what they did not
// begin before they were dry runs.
func TestDryRunChangesNothing(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		w := drawWorld(rapidDice(r))
		w.cluster.Repairs = slices.DeleteFunc(slices.Clone(w.cluster.Repairs), func(r core.Repair) bool {
			return slices.ContainsFunc(w.policies, func(p core.Policy) bool { return p.DryRun && p.ID == r.Policy })
		})
		without := w
		without.policies = slices.DeleteFunc(slices.Clone(w.policies), func(p core.Policy) bool { return p.DryRun })
		a, b := spoken(w, w.decide()), spoken(without, without.decide())
		if diff := cmp.Diff(b.Actions, a.Actions); diff != "" {
			r.Fatalf("a dry run has an effect (-without +with):\n%s", diff)
		}
	})
}
