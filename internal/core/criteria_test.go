package core_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/fettle-io/fettle/internal/core"
)

var (
	notReady = core.ConditionCriterion{Type: "Ready", Status: "False", For: patience}
	lost     = core.ConditionCriterion{Type: "Ready", Status: "Unknown", For: patience}
	pressure = core.ConditionCriterion{Type: "DiskPressure", Status: "True", For: time.Minute}
	atOnce   = core.ConditionCriterion{Type: "Terminating", Status: "True"}
)

type verdictCase struct {
	reason string
	target core.Target
	policy func(*core.Policy)
	want   core.Verdict
}

func healthy() core.Verdict { return core.Verdict{Health: core.Healthy, Reason: core.NoCriterionMet} }

// met returns the verdict on a node that has matched a condition since an instant.
func met(h core.Health, c core.ConditionCriterion, since time.Time) core.Verdict {
	v := core.Verdict{Health: h, Reason: core.ConditionMet, Since: since, Limit: c.For, Criterion: c}
	if h == core.Suspect {
		v.Until = since.Add(c.For)
	}
	return v
}

func starting(h core.Health, from time.Time) core.Verdict {
	v := core.Verdict{Health: h, Reason: core.NodeStartupTimeout, Since: from, Limit: 10 * time.Minute}
	if h == core.Suspect && !from.IsZero() {
		v.Until = from.Add(v.Limit)
	}
	return v
}

func TestCriteria(t *testing.T) {
	for name, cases := range map[string]map[string]verdictCase{
		"machine": machineCases(), "node": nodeCases(), "conditions": conditionCases(), "deleting": deletingCases(),
	} {
		for sentence, c := range cases {
			t.Run(name+"/"+sentence, func(t *testing.T) {
				p := policy("p", []int{0}, criteria(notReady, lost, pressure, atOnce))
				if c.policy != nil {
					c.policy(&p)
				}
				got := core.Decide([]core.Policy{p}, clusterOf([]core.Target{c.target}), noon).Verdicts
				if diff := cmp.Diff([]core.Verdict{c.want}, got); diff != "" {
					t.Errorf("%s\nverdict (-want +got):\n%s", c.reason, diff)
				}
			})
		}
	}
}

func noStartup(p *core.Policy) { p.Criteria.NodeStartup = 0 }

// machineCases returns the cases of machines. Rows are those of
// docs/reference/openshift.md#what-needs-remediation.
func machineCases() map[string]verdictCase {
	startup := 10 * time.Minute
	return map[string]verdictCase{
		"a machine with a Ready node is healthy": {
			reason: "row 5: none matched", target: machine("m"), want: healthy(),
		},
		"a Failed machine is unhealthy at once": {
			reason: "row 1: no grace", target: machine("m", failed(noon)),
			want: core.Verdict{Health: core.Unhealthy, Reason: core.TargetFailed, Since: noon},
		},
		"Failed comes before everything else": {
			reason: "row 1 comes first, also of a machine that waits for its node",
			target: machine("m", awaited(noon), failed(ago(time.Minute))),
			want:   core.Verdict{Health: core.Unhealthy, Reason: core.TargetFailed, Since: ago(time.Minute)},
		},
		"Failed since an unknown time is unhealthy too": {
			reason: "Failed has no duration to hold", target: machine("m", failed(time.Time{})),
			want: core.Verdict{Health: core.Unhealthy, Reason: core.TargetFailed},
		},
		"a machine that can't be read is not judged by what can": {
			reason: "I1: what is readable may be as wrong", target: machine("m", failed(noon), unreadable("phase")),
			want: core.Verdict{Health: core.Undetermined, Reason: core.TargetUnreadable, Detail: "phase"},
		},
		"a machine that can't be read and is being deleted is gone": {
			reason: "its health is unknown", target: machine("m", unreadable("phase"), deleting),
			want: core.Verdict{Health: core.Gone, Reason: core.TargetUnreadable, Detail: "phase", WasUnhealthy: true},
		},
		"a machine without a node may take its startup time": {
			reason: "row 2d", target: machine("m", awaited(ago(startup-time.Nanosecond))),
			want: starting(core.Suspect, ago(startup-time.Nanosecond)),
		},
		"at the startup deadline it is unhealthy": {
			reason: "row 2c, but at the deadline and not a second after it",
			target: machine("m", awaited(ago(startup))), want: starting(core.Unhealthy, ago(startup)),
		},
		"a startup clock in the future only waits longer": {
			reason: "clocks differ", target: machine("m", awaited(noon.Add(time.Hour))),
			want: starting(core.Suspect, noon.Add(time.Hour)),
		},
		"no startup clock means no deadline": {
			reason: "row 2b: its beginning is unknown", target: machine("m", awaited(time.Time{})),
			want: starting(core.Suspect, time.Time{}),
		},
		"startup timeout 0 waits for ever": {
			reason: "row 2a: but a machine without a node is not healthy", policy: noStartup,
			target: machine("m", awaited(ago(48*time.Hour))),
			want:   core.Verdict{Health: core.Suspect, Reason: core.NodeStartupTimeout, Since: ago(48 * time.Hour)},
		},
		"a machine with an outside remediator is not healthy and not unhealthy": {
			reason: "2.4: it counts against the limit, and another remediator has it", target: machine("m", externallyRemediated),
			want: core.Verdict{Health: core.Suspect, Reason: core.ExternalRemediation},
		},
		"an outside remediator does not hide a criterion that is met": {
			reason: "rows 1 to 4 know no outside remediator", target: machine("m", dead, externallyRemediated),
			want: met(core.Unhealthy, notReady, ago(time.Hour)),
		},
		"an outside remediator does not hide when a suspicion ends": {
			reason: "the suspicion that ends decides", target: machine("m", ready("False", noon), externallyRemediated),
			want: met(core.Suspect, notReady, noon),
		},
	}
}

func nodeCases() map[string]verdictCase {
	return map[string]verdictCase{
		"a node confirmed gone makes its machine unhealthy at once": {
			reason: "row 3", target: machine("m", nodeIs(core.NodeGone)),
			want: core.Verdict{Health: core.Unhealthy, Reason: core.NodeNotFound},
		},
		"a node gone is not affected by startup timeout 0": {
			reason: "row 3", policy: noStartup, target: machine("m", nodeIs(core.NodeGone)),
			want: core.Verdict{Health: core.Unhealthy, Reason: core.NodeNotFound},
		},
		"a node that the cache lacks decides nothing": {
			reason: "row 3 with a live read first: a lagging cache must not condemn a machine that just joined",
			target: machine("m", nodeIs(core.NodeUnseen)),
			want:   core.Verdict{Health: core.Undetermined, Reason: core.NodeUnconfirmed},
		},
		"the zero node decides nothing": {
			reason: "no condition is about it", target: machine("m", func(t *core.Target) { t.Node = core.Node{} }),
			want: core.Verdict{Health: core.Undetermined, Reason: core.NodeUnconfirmed},
		},
	}
}

func cut(t *core.Target) { t.Node.Unread = "it has too many conditions" }

func conditionCases() map[string]verdictCase {
	return map[string]verdictCase{
		"a node that was not read as a whole is not judged": {
			reason: "I15: what was skipped may be another Ready, or contradict this one", target: machine("m", ready("False", ago(time.Hour)), cut),
			want: core.Verdict{Health: core.Undetermined, Reason: core.TargetUnreadable, Detail: "its node can't be read as a whole: it has too many conditions"},
		},
		"a node hides its machine from no other criterion": {
			reason: "I15: its kubelet may have written all that", target: machine("m", ready("True", ago(time.Hour)), cut, func(t *core.Target) { t.Failed, t.FailedSince = true, noon }),
			want: core.Verdict{Health: core.Unhealthy, Reason: core.TargetFailed, Since: noon},
		},
		"nor from a health check that asks for no condition of nodes": {
			reason: "I15", target: machine("m", cut), policy: criteria(), want: healthy(),
		},
		"nor from a person": {
			reason: "I15", target: machine("m", cut, func(t *core.Target) { t.RemediationRequested = true }),
			want: core.Verdict{Health: core.Unhealthy, Reason: core.RemediationRequested},
		},
		"a missing condition never matches": {
			reason: "row 4", want: healthy(),
			target: machine("m", func(t *core.Target) { t.Node.Conditions = nil }),
		},
		"another status never matches": {
			reason: "row 4", target: machine("m", condition("DiskPressure", "Unknown", ago(time.Hour))), want: healthy(),
		},
		"a condition just before its deadline is a suspicion": {
			reason: "row 4b", target: machine("m", ready("False", ago(patience-1))),
			want: met(core.Suspect, notReady, ago(patience-1)),
		},
		"a condition at its deadline is unhealthy": {
			reason: "row 4a, at the deadline and not after it", target: machine("m", ready("False", ago(patience))),
			want: met(core.Unhealthy, notReady, ago(patience)),
		},
		"each condition has a clock of its own": {
			reason: "False for long and then Unknown for a moment is Unknown for a moment",
			target: machine("m", ready("Unknown", ago(time.Second))), want: met(core.Suspect, lost, ago(time.Second)),
		},
		"the suspicion that ends soonest is told": {
			reason: "row 5: the least of the candidates",
			target: machine("m", ready("False", ago(time.Minute)), condition("DiskPressure", "True", ago(30*time.Second))),
			want:   met(core.Suspect, pressure, ago(30*time.Second)),
		},
		"an expired condition is not hidden by another": {
			reason: "row 4a: keep looking", want: met(core.Unhealthy, pressure, ago(time.Minute)),
			target: machine("m", ready("False", ago(time.Minute)), condition("DiskPressure", "True", ago(time.Minute))),
		},
		"two conditions of one type that disagree hold for no status": {
			reason: "the API server takes such nodes, and it is unknown which of the two is so", want: healthy(),
			target: machine("m", ready("True", noon), condition("Ready", "False", ago(time.Hour))),
		},
		"two conditions of one type that agree hold since the later time": {
			reason: "both must have held", want: met(core.Suspect, notReady, ago(time.Minute)),
			target: machine("m", ready("False", ago(time.Hour)), condition("Ready", "False", ago(time.Minute))),
		},
		"two conditions of one type, one without a clock": {
			reason: "I1: its time is unknown", target: machine("m", ready("False", ago(time.Hour)), condition("Ready", "False", time.Time{})),
			want: core.Verdict{Health: core.Undetermined, Reason: core.ConditionUntimed, Limit: patience, Criterion: notReady},
		},
		"limit 0 holds at once": {
			reason: "a timeout left out is 0", target: machine("m", condition("Terminating", "True", noon)),
			want: met(core.Unhealthy, atOnce, noon),
		},
		"limit 0 in the future waits": {
			reason: "a transition that has not happened", want: met(core.Suspect, atOnce, noon.Add(time.Second)),
			target: machine("m", condition("Terminating", "True", noon.Add(time.Second))),
		},
		"limit 0 needs no clock": {
			reason: "there is nothing to measure", target: machine("m", condition("Terminating", "True", time.Time{})),
			want: met(core.Unhealthy, atOnce, time.Time{}),
		},
		"a condition without a clock is not judged": {
			reason: "I1: its time is unknown", target: machine("m", ready("False", time.Time{})),
			want: core.Verdict{Health: core.Undetermined, Reason: core.ConditionUntimed, Limit: patience, Criterion: notReady},
		},
		"a condition without a clock does not hide an expired one": {
			reason: "another criterion is met on its own", want: met(core.Unhealthy, pressure, ago(time.Hour)),
			target: machine("m", ready("False", time.Time{}), condition("DiskPressure", "True", ago(time.Hour))),
		},
		"a condition without a clock outweighs a suspicion": {
			reason: "unknown is worse than soon",
			target: machine("m", ready("False", time.Time{}), condition("DiskPressure", "True", noon)),
			want:   core.Verdict{Health: core.Undetermined, Reason: core.ConditionUntimed, Limit: patience, Criterion: notReady},
		},
		"a transition in the future only waits longer": {
			reason: "clocks differ", target: machine("m", ready("False", noon.Add(time.Minute))),
			want: met(core.Suspect, notReady, noon.Add(time.Minute)),
		},
	}
}

func deletingCases() map[string]verdictCase {
	return map[string]verdictCase{
		"a healthy machine that is being deleted is gone": {
			reason: "2.4: it counts as not healthy", target: machine("m", deleting),
			want: core.Verdict{Health: core.Gone, Reason: core.NoCriterionMet},
		},
		"an unhealthy machine that is being deleted is gone and was unsound": {
			reason: "it counts as a running repair, by whatever client", target: machine("m", dead, deleting),
			want: func() core.Verdict {
				v := met(core.Gone, notReady, ago(time.Hour))
				v.WasUnhealthy = true
				return v
			}(),
		},
		"a suspect machine that is being deleted has no deadline": {
			reason: "it becomes unhealthy no more", target: machine("m", ready("False", noon), deleting),
			want: func() core.Verdict {
				v := met(core.Gone, notReady, noon)
				v.WasUnhealthy = true
				return v
			}(),
		},
		"a deleted machine with an unseen node was not healthy": {
			reason: "not known to be healthy", target: machine("m", nodeIs(core.NodeUnseen), deleting),
			want: core.Verdict{Health: core.Gone, Reason: core.NodeUnconfirmed, WasUnhealthy: true},
		},
	}
}

func TestUnobservedClusterIsNotJudged(t *testing.T) {
	for _, observed := range []core.Tri{core.Unknown, core.No} {
		f := clusterOf([]core.Target{machine("m", failed(noon))})
		f.Observed = observed
		d := core.Decide([]core.Policy{policy("p", []int{0})}, f, noon)
		want := core.Decision{
			Verdicts: []core.Verdict{{Health: core.Undetermined, Reason: core.ClusterUnobserved}},
			Tallies:  []core.Tally{{Total: 1, MaxUnhealthy: 1, Permitted: true, MaxInFlight: 1}},
		}
		if diff := cmp.Diff(want, d); diff != "" {
			t.Errorf("observed %v: decision (-want +got):\n%s", observed, diff)
		}
	}
}

func TestNextAtIsTheSoonestDeadline(t *testing.T) {
	targets := []core.Target{
		machine("a", ready("False", ago(time.Minute))), machine("b", ready("False", ago(2*time.Minute))), machine("c"),
		machine("d", awaited(ago(3*time.Minute))),
	}
	p := policy("p", all(4))
	if got, want := core.Decide([]core.Policy{p}, clusterOf(targets), noon).NextAt, noon.Add(3*time.Minute); !got.Equal(want) {
		t.Errorf("NextAt = %v, want %v, when b becomes unhealthy", got, want)
	}
	if got := core.Decide([]core.Policy{p}, clusterOf([]core.Target{targets[2], targets[2], targets[2], targets[2]}), noon).NextAt; !got.IsZero() {
		t.Errorf("NextAt = %v for healthy machines, want never", got)
	}
	unseen := []core.Target{machine("u", nodeIs(core.NodeUnseen))}
	if got, want := core.Decide([]core.Policy{policy("p", []int{0})}, clusterOf(unseen), noon).NextAt, noon.Add(10*time.Second); !got.Equal(want) {
		t.Errorf("NextAt = %v, want %v, to look for the node again", got, want)
	}
}
