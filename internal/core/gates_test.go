package core_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/fettle-io/fettle/internal/core"
)

// gateCase is a world in which one gate holds back target 0.
type gateCase struct {
	reason   string
	policies []core.Policy
	cluster  core.Cluster
	want     core.Refusal
	// says are words that the refusal's text must contain: its cause, and the event that opens the
	// gate.
	says []string
}

func TestEveryGateRefuses(t *testing.T) {
	for sentence, c := range gateCases() {
		t.Run(sentence, func(t *testing.T) {
			d := core.Decide(c.policies, c.cluster, noon)
			if diff := cmp.Diff([]core.Refusal{c.want}, d.Refusals); diff != "" {
				t.Errorf("%s\nrefusals (-want +got):\n%s", c.reason, diff)
			}
			if len(d.Starts) > 0 || len(d.StepStarts) > 0 {
				t.Errorf("%s: yet %d repairs start and %d go on", c.reason, len(d.Starts), len(d.StepStarts))
			}
			text := c.want.Text()
			for _, words := range c.says {
				if !strings.Contains(text, words) {
					t.Errorf("the text does not say %q:\n%s", words, text)
				}
			}
		})
	}
}

func gateCases() map[string]gateCase {
	cases := targetGateCases()
	sick := machine("m", dead)
	one := []int{0}
	add := func(sentence string, c gateCase) {
		if c.cluster.Targets == nil {
			c.cluster = clusterOf([]core.Target{sick})
		}
		cases[sentence] = c
	}
	add("a policy with a problem", gateCase{
		reason:   "what can't be followed permits nothing",
		policies: []core.Policy{policy("p", one, problem("spec.selector is wrong"))},
		want:     core.Refusal{Gate: core.PolicyInvalid, Detail: "spec.selector is wrong"},
		says:     []string{"can't be followed", "spec.selector is wrong"},
	})
	add("a paused policy", gateCase{
		reason: "paused", policies: []core.Policy{policy("p", one, paused, advice(core.PolicyPaused, "remove its pause annotation"))},
		want: core.Refusal{Gate: core.PolicyPaused, Advice: "remove its pause annotation"}, says: []string{"is paused", "remove its pause annotation"},
	})
	add("too many unhealthy", gateCase{
		reason: "3 of 4 are more than 2", policies: []core.Policy{policy("p", all(4), maxUnhealthy(core.Percent(50)))},
		cluster: clusterOf([]core.Target{sick, machine("b", deleting), machine("c", awaited(noon)), machine("d")}),
		want:    core.Refusal{Gate: core.TooManyUnhealthy, Have: 3, Max: 2, Total: 4},
		says:    []string{"3 of 4 are not healthy", "only up to 2", "resume when enough are healthy"},
	})
	add("too few unhealthy for a range", gateCase{
		reason: "1 of 4 is fewer than 2", policies: []core.Policy{policy("p", all(4), unhealthyRange(2, 3))},
		cluster: clusterOf([]core.Target{sick, machine("b"), machine("c"), machine("d")}),
		want:    core.Refusal{Gate: core.TooManyUnhealthy, Have: 1, Min: 2, Max: 3, Total: 4},
		says:    []string{"1 of 4", "from 2 to 3"},
	})
	add("a storm that has just passed", gateCase{
		reason: "nodes do not return in one instant",
		policies: []core.Policy{policy("p", one, func(p *core.Policy) {
			p.WasStopped, p.StormCooldown = true, 5*time.Second
			p.Cooldown = core.CooldownState{First: ago(3 * time.Second), Last: ago(3 * time.Second), Unhealthy: 1}
		})},
		want: core.Refusal{Gate: core.StormCooldown, Until: noon.Add(2 * time.Second)},
		says: []string{"repairs were stopped until just now", "given time"},
	})
	add("another one in flight", gateCase{
		reason: "one at a time", policies: []core.Policy{policy("p", all(2), advice(core.InFlightLimit, "annotation fettle.io/max-in-flight changes the limit"))},
		cluster: clusterOf([]core.Target{sick, machine("b", dead, deleting)}),
		want:    core.Refusal{Gate: core.InFlightLimit, Have: 1, Max: 1, Total: 2, Advice: "annotation fettle.io/max-in-flight changes the limit"},
		says:    []string{"1 under repair already", "at most 1", "follows when one of them has ended", "fettle.io/max-in-flight"},
	})
	return cases
}

func targetGateCases() map[string]gateCase {
	one := []int{0}
	cp := func(t core.Tri, targets ...core.Target) core.Cluster {
		f := clusterOf(targets)
		quorumOf(&f, t)
		return f
	}
	young := machine("young", failed(noon), created(ago(time.Minute)))
	before := policy("p", one)
	held := gateCase{
		reason: "the replacement of a repair has failed too, a minute after the repair started",
		policies: []core.Policy{policy("p", one, func(p *core.Policy) {
			p.Backoff = core.Backoff{Base: 2 * time.Minute, Limit: time.Hour}
		})},
		cluster: clusterOf([]core.Target{young}, repair(machine("old"), before, started(ago(time.Minute)), ended(ago(time.Minute)))),
		want:    core.Refusal{Gate: core.BackingOff, Until: noon.Add(2 * time.Minute), Have: 1},
		says:    []string{"replacement of a repaired one has failed too", "waits", "look at why"},
	}
	sick := machine("m", dead)
	return map[string]gateCase{
		"a policy without a remedy": {
			reason: "nothing to do", policies: []core.Policy{policy("p", one, noSteps)}, cluster: clusterOf([]core.Target{sick}),
			want: core.Refusal{Gate: core.NoRemedy, Detail: "it has no step by which to repair"},
			says: []string{"names no remedy", "no step"},
		},
		"a machine without an owner": {
			reason: "no owner would replace it", policies: []core.Policy{policy("p", one)},
			cluster: clusterOf([]core.Target{machine("m", dead, ownedBy(core.ID{}))}),
			want:    core.Refusal{Gate: core.NoOwner}, says: []string{"no controller owns it", "repair it by hand", "machine set"},
		},
		"control plane, quorum unknown": {
			reason: "I4", policies: []core.Policy{policy("p", one)}, cluster: cp(core.Unknown, machine("m", dead, controlPlane)),
			want: core.Refusal{Gate: core.QuorumUnknown}, says: []string{"control plane", "quorum", "by hand"},
		},
		"control plane, quorum would be lost": {
			reason: "I4", policies: []core.Policy{policy("p", one)}, cluster: cp(core.No, machine("m", dead, controlPlane)),
			want: core.Refusal{Gate: core.QuorumLost}, says: []string{"would not survive", "by hand"},
		},
		"another member of the control plane is out": {
			reason: "I4: one at a time, whichever client deletes it", policies: []core.Policy{policy("p", one)},
			cluster: cp(core.Yes, machine("m", dead, controlPlane), machine("b", controlPlane, deleting)),
			want:    core.Refusal{Gate: core.ControlPlaneBusy, Have: 1}, says: []string{"another member", "one at a time"},
		},
		"a pool that backs off": held,
		"a remedy that was refused a moment ago": {
			reason: "the first pause is a second", policies: []core.Policy{policy("p", one)},
			cluster: clusterOf([]core.Target{sick}, repair(sick, before, attempts(2, ago(time.Second)))),
			want:    core.Refusal{Gate: core.AttemptPause, Until: noon.Add(time.Second), Have: 2},
			says:    []string{"2 calls of the remedy were refused", "tried again after a pause"},
		},
		"a node that was not read live": {
			reason: "nothing is destroyed on a cached word", policies: []core.Policy{policy("p", one)},
			cluster: clusterOf([]core.Target{machine("m", dead, readAt(time.Time{}))}),
			want:    core.Refusal{Gate: core.Unconfirmed}, says: []string{"read once more from the API server"},
		},
	}
}

func TestLiveReadOfTheNode(t *testing.T) {
	cases := map[string]struct {
		reason string
		target core.Target
		starts bool
	}{
		"a fresh read":                           {"it is what Decide asks for", machine("m", dead, readAt(ago(9*time.Second))), true},
		"a read of ten seconds ago":              {"too old", machine("m", dead, readAt(ago(10*time.Second))), false},
		"no read":                                {"a cache may lag", machine("m", dead, readAt(time.Time{})), false},
		"a gone node that was remembered":        {"memory is no live read", machine("m", nodeIs(core.NodeGone), readAt(time.Time{})), false},
		"a gone node just read":                  {"confirmed", machine("m", nodeIs(core.NodeGone), readAt(noon)), true},
		"a target without a node needs none":     {"the call insists on the target's revision", machine("m", awaited(ago(time.Hour))), true},
		"a Failed machine with a node needs one": {"its node might live", machine("m", failed(noon), readAt(time.Time{})), false},
	}
	for sentence, c := range cases {
		t.Run(sentence, func(t *testing.T) {
			d := core.Decide([]core.Policy{policy("p", []int{0})}, clusterOf([]core.Target{c.target}), noon)
			if started := len(d.Starts) == 1; started != c.starts {
				t.Errorf("%s: starts %v", c.reason, started)
			}
			if confirms := len(d.Confirm) == 1; confirms == c.starts {
				t.Errorf("%s: the decision reads the node again: %v", c.reason, confirms)
			}
		})
	}
}

// TestOnlyWhatOtherwiseMayStartIsReadLive: a failed zone must not cause a read of each of its
// nodes.
func TestOnlyWhatOtherwiseMayStartIsReadLive(t *testing.T) {
	targets := machines(50, 30, dead, readAt(time.Time{}))
	d := core.Decide([]core.Policy{policy("p", all(50), maxUnhealthy(core.Percent(40)))}, clusterOf(targets), noon)
	if len(d.Confirm) > 0 {
		t.Errorf("%d nodes are to be read while the short circuit holds, want none", len(d.Confirm))
	}
	d = core.Decide([]core.Policy{policy("p", all(50), maxUnhealthy(core.Percent(100)))}, clusterOf(targets), noon)
	for _, r := range d.Refusals {
		if r.Gate != core.Unconfirmed {
			t.Errorf("target %d is refused by %v, want by Unconfirmed alone", r.Target, r.Gate)
		}
	}
}

func TestOldestUnhealthyFirst(t *testing.T) {
	targets := []core.Target{
		machine("c", ready("False", ago(20*time.Minute))), machine("a", ready("False", ago(10*time.Minute))),
		machine("b", ready("False", ago(20*time.Minute))), machine("d", nodeIs(core.NodeGone)),
	}
	d := core.Decide([]core.Policy{policy("p", all(4), maxInFlight(core.Count(3)))}, clusterOf(targets), noon)
	if diff := cmp.Diff([]int{3, 2, 0}, begun(d)); diff != "" {
		t.Errorf("a gone node has no known beginning and goes first, then by age, then by name (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]core.Gate{core.InFlightLimit}, refusedBy(d, 1)); diff != "" {
		t.Errorf("the fourth must wait (-want +got):\n%s", diff)
	}
}

// TestRefusedTargetIsNotInFlight: a gate of one target does not hold back the next one.
func TestRefusedTargetIsNotInFlight(t *testing.T) {
	targets := []core.Target{
		machine("a", ready("False", ago(20*time.Minute)), ownedBy(core.ID{})), machine("b", ready("False", ago(10*time.Minute))),
	}
	d := core.Decide([]core.Policy{policy("p", all(2))}, clusterOf(targets), noon)
	if diff := cmp.Diff([]int{1}, begun(d)); diff != "" {
		t.Errorf("starts (-want +got):\n%s", diff)
	}
}
