package core_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/fettle-io/fettle/internal/core"
)

func ofKind(kind string) func(*core.Policy) { return func(p *core.Policy) { p.ID.Kind = kind } }

func TestLeader(t *testing.T) {
	older, younger := since(ago(2*time.Hour)), since(ago(time.Hour))
	blind := criteria()
	cases := map[string]struct {
		reason   string
		policies []core.Policy
		want     string
	}{
		"the oldest leads":         {"by creation", []core.Policy{policy("a", []int{0}, younger), policy("b", []int{0}, older)}, "b"},
		"then the first by name":   {"of one age", []core.Policy{policy("b", []int{0}), policy("a", []int{0})}, "a"},
		"whatever its kind":        {"of one age", []core.Policy{policy("b", []int{0}), policy("a", []int{0}, ofKind("Zealous"))}, "a"},
		"who finds it healthy":     {"an older one without a finding leads nothing", []core.Policy{policy("a", []int{0}, older, blind), policy("b", []int{0}, younger)}, "b"},
		"a dry run leads nothing":  {"it has no effect", []core.Policy{policy("a", []int{0}, older, dryRun), policy("b", []int{0}, younger)}, "b"},
		"who does not select it":   {"not asked", []core.Policy{policy("a", nil, older), policy("b", []int{0}, younger)}, "b"},
		"one policy leads its own": {"of course", []core.Policy{policy("a", []int{0})}, "a"},
	}
	for sentence, c := range cases {
		t.Run(sentence, func(t *testing.T) {
			d := core.Decide(c.policies, clusterOf([]core.Target{machine("m", dead)}), noon)
			if len(d.Starts) != 1 {
				t.Fatalf("%d repairs start, want 1: %v", len(d.Starts), d.Refusals)
			}
			if got := c.policies[d.Starts[0].Policy].ID.Name; got != c.want {
				t.Errorf("%s: %s leads, want %s", c.reason, got, c.want)
			}
		})
	}
}

// TestEveryPolicyMustAllow: the gates of a policy hold also where it does not lead, and where it
// finds the target healthy.
func TestEveryPolicyMustAllow(t *testing.T) {
	slow := func(p *core.Policy) { p.Backoff = core.Backoff{Base: time.Hour, Limit: time.Hour} }
	replaced := repair(machine("old"), policy("lead", nil), started(ago(time.Minute)), ended(ago(time.Minute)))
	cases := map[string]struct {
		reason string
		change func(*core.Policy)
		want   core.Gate
	}{
		"paused":         {"its pause covers its members", paused, core.PolicyPaused},
		"broken":         {"its limits are not known", problem("broken"), core.PolicyInvalid},
		"short circuit":  {"its limit", maxUnhealthy(core.Count(0)), core.TooManyUnhealthy},
		"in flight":      {"its limit", maxInFlight(core.Count(0)), core.InFlightLimit},
		"longer backoff": {"its pace", slow, core.BackingOff},
	}
	for sentence, c := range cases {
		t.Run(sentence, func(t *testing.T) {
			lead := policy("lead", all(2), since(ago(48*time.Hour)))
			other := policy("other", all(2), criteria(lost), c.change)
			targets := []core.Target{machine("m", dead, created(ago(time.Minute)), ready("False", ago(50*time.Minute))), machine("b", awaited(noon))}
			d := core.Decide([]core.Policy{other, lead}, clusterOf(targets, replaced), noon)
			if len(d.Starts) > 0 {
				t.Fatalf("%s: a repair starts", c.reason)
			}
			if diff := cmp.Diff([]core.Gate{c.want}, refusedBy(d, 0)); diff != "" {
				t.Errorf("%s (-want +got):\n%s", c.reason, diff)
			}
			if d.Refusals[0].Policy != 0 {
				t.Errorf("the refusal names policy %d, want 0, whose gate it is", d.Refusals[0].Policy)
			}
		})
	}
}

// TestInFlightIsSharedAcrossPolicies: a start takes a place from every policy that selects its target.
func TestInFlightIsSharedAcrossPolicies(t *testing.T) {
	targets := machines(3, 3, dead)
	wide := policy("wide", all(3), maxInFlight(core.Count(3)), since(ago(48*time.Hour)))
	narrow := policy("narrow", []int{1, 2}, maxInFlight(core.Count(1)), criteria())
	d := core.Decide([]core.Policy{wide, narrow}, clusterOf(targets), noon)
	if diff := cmp.Diff([]int{0, 1}, begun(d)); diff != "" {
		t.Errorf("the second member of the narrow policy must wait (-want +got):\n%s", diff)
	}
}

func TestDryRunHasNoEffectOnOthers(t *testing.T) {
	targets := []core.Target{machine("m", dead), machine("n", dead), machine("o")}
	acting := policy("acting", all(3))
	for name, dry := range map[string]core.Policy{
		"older":       policy("dry", all(3), dryRun, since(ago(48*time.Hour))),
		"paused":      policy("dry", all(3), dryRun, paused),
		"broken":      policy("dry", all(3), dryRun, problem("broken")),
		"restricting": policy("dry", all(3), dryRun, maxUnhealthy(core.Count(0)), maxInFlight(core.Count(0))),
	} {
		t.Run(name, func(t *testing.T) {
			with := core.Decide([]core.Policy{acting, dry}, clusterOf(targets), noon)
			without := core.Decide([]core.Policy{acting}, clusterOf(targets), noon)
			if diff := cmp.Diff(without.Starts, with.Starts); diff != "" {
				t.Errorf("starts without and with the dry run (-without +with):\n%s", diff)
			}
			if diff := cmp.Diff(without.Tallies[0], with.Tallies[0]); diff != "" {
				t.Errorf("tally without and with the dry run (-without +with):\n%s", diff)
			}
		})
	}
}

// TestDryRunProvesNothing: a dry run that finds a target healthy must not end the back-off of the
// policy that finds it unhealthy.
func TestDryRunProvesNothing(t *testing.T) {
	m := machine("young", dead, created(ago(10*time.Minute)), ready("False", ago(6*time.Minute)))
	past := repair(machine("old"), policy("acting", nil), started(ago(11*time.Minute)), ended(ago(11*time.Minute)))
	acting := policy("acting", []int{0})
	without := core.Decide([]core.Policy{acting}, clusterOf([]core.Target{m}, past), noon)
	for name, other := range map[string]core.Policy{
		"a dry run":      policy("other", []int{0}, criteria(), dryRun),
		"another policy": policy("other", []int{0}, criteria()),
	} {
		d := core.Decide([]core.Policy{acting, other}, clusterOf([]core.Target{m}, past), noon)
		if len(without.Starts) != 1 || len(d.Starts) != 1 || d.Starts[0].Retry != without.Starts[0].Retry {
			t.Errorf("%s that finds the failed replacement healthy changes the retry from %v to %v", name, without.Starts, d.Starts)
		}
	}
}

func TestRehearsal(t *testing.T) {
	targets := []core.Target{machine("a", dead, readAt(time.Time{})), machine("b", dead, readAt(time.Time{})), machine("c")}
	d := core.Decide([]core.Policy{policy("dry", all(3), dryRun)}, clusterOf(targets), noon)
	if len(d.Starts) > 0 || len(d.Confirm) > 0 {
		t.Errorf("a dry run starts %d repairs and reads %d nodes, want none", len(d.Starts), len(d.Confirm))
	}
	if len(d.DryRunStarts) != 1 || d.DryRunStarts[0].Target != 0 {
		t.Errorf("rehearsals %v, want one of target 0", d.DryRunStarts)
	}
	want := []core.Refusal{{Target: 1, Gate: core.InFlightLimit, Have: 1, Max: 1, Total: 3, DryRun: true}}
	if diff := cmp.Diff(want, d.Refusals); diff != "" {
		t.Errorf("refusals (-want +got):\n%s", diff)
	}
}

// TestRehearsalRespectsTheOthers: a dry run is decided as if, so the limits of acting policies count.
func TestRehearsalRespectsTheOthers(t *testing.T) {
	dry, acting := policy("dry", []int{0}, dryRun), policy("acting", []int{0}, criteria(), paused)
	d := core.Decide([]core.Policy{dry, acting}, clusterOf([]core.Target{machine("m", dead)}), noon)
	want := []core.Refusal{{Policy: 1, Gate: core.PolicyPaused, DryRun: true}}
	if diff := cmp.Diff(want, d.Refusals); diff != "" || len(d.DryRunStarts) > 0 {
		t.Errorf("%d rehearsals, refusals (-want +got):\n%s", len(d.DryRunStarts), diff)
	}
}
