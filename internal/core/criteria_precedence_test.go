package core_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/fettle-io/fettle/internal/core"
)

// TestPrecedenceOfFindings: of several findings on one target the right one is its verdict.
func TestPrecedenceOfFindings(t *testing.T) {
	long, now := ago(time.Hour), ago(time.Minute)
	bootstrapped := core.ConditionCriterion{Type: "Bootstrapped", Status: "False", For: 2 * time.Minute}
	own := func(since time.Time) func(*core.Target) { return ofItself("Bootstrapped", "False", since) }
	ofBoth := func(p *core.Policy) { p.Criteria.TargetConditions = []core.ConditionCriterion{bootstrapped} }
	grouped := func(limit time.Duration) func(*core.Policy) {
		return func(p *core.Policy) {
			groups(tests(core.ConditionTest{Type: "DiskPressure", Status: "True"}))(p)
			p.Criteria.Groups[0].For = limit
			criteria(notReady)(p)
		}
	}
	const diskText = "node condition DiskPressure=True"
	untimed := core.ConditionTest{Type: "Untimed", Status: "True"}
	for sentence, c := range map[string]verdictCase{
		"a suspicion that ends later comes second": {
			policy: ofBoth, target: machine("m", ready("False", now), own(now)),
			want: core.Verdict{Health: core.Suspect, Reason: core.TargetConditionMet, Since: now, Until: now.Add(2 * time.Minute), Limit: 2 * time.Minute, Criterion: bootstrapped},
		},
		"a suspicion that ends later comes first": {
			policy: func(p *core.Policy) { ofBoth(p); p.Criteria.TargetConditions[0].For = time.Hour }, target: machine("m", ready("False", now), own(now)),
			want: met(core.Suspect, notReady, now),
		},
		"a condition of the target without a time": {
			policy: ofBoth, target: machine("m", own(time.Time{})),
			want: core.Verdict{Health: core.Undetermined, Reason: core.TargetConditionUntimed, Limit: 2 * time.Minute, Criterion: bootstrapped},
		},
		"a node that is gone since a known time, without a delay": {
			policy: noStartup, target: machine("m", nodeIs(core.NodeGone), func(t *core.Target) { t.NodeGoneSince = now }),
			want: core.Verdict{Health: core.Unhealthy, Reason: core.NodeNotFound},
		},
		"a condition that is a fault comes before a group that is": {
			policy: grouped(patience), target: machine("m", ready("False", long), condition("DiskPressure", "True", long)),
			want: met(core.Unhealthy, notReady, long),
		},
		"a condition that ends sooner comes before a group": {
			policy: grouped(2 * patience), target: machine("m", ready("False", now), condition("DiskPressure", "True", now)),
			want: met(core.Suspect, notReady, now),
		},
		"a group that ends sooner comes before a condition": {
			policy: grouped(2 * time.Minute), target: machine("m", ready("False", now), condition("DiskPressure", "True", now)),
			want: core.Verdict{Health: core.Suspect, Reason: core.ConditionsMet, Since: now, Until: now.Add(2 * time.Minute), Limit: 2 * time.Minute, Detail: diskText},
		},
		"the first test of a group without a time is named": {
			policy: groups(tests(unready, untimed)), target: machine("m", ready("False", time.Time{}), condition("Untimed", "True", time.Time{})),
			want: core.Verdict{Health: core.Undetermined, Reason: core.ConditionUntimed, Limit: patience,
				Criterion: core.ConditionCriterion{Type: "Ready", Status: "False", For: patience}},
		},
		"a group without a limit needs no time": {
			policy: func(p *core.Policy) { groups(tests(untimed))(p); p.Criteria.Groups[0].For = 0 },
			target: machine("m", condition("Untimed", "True", time.Time{})),
			want:   core.Verdict{Health: core.Unhealthy, Reason: core.ConditionsMet, Detail: "node condition Untimed=True"},
		},
	} {
		got := core.Decide([]core.Policy{policy("p", []int{0}, c.policy)}, clusterOf([]core.Target{c.target}), noon).Verdicts
		if diff := cmp.Diff([]core.Verdict{c.want}, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", sentence, diff)
		}
	}
}

// TestFindingsOfEachCriterion: the findings on a target have each criterion that it meets, in the order
// of the checks.
func TestFindingsOfEachCriterion(t *testing.T) {
	long := ago(time.Hour)
	c := core.Criteria{
		NodeStartup: time.Minute, Conditions: []core.ConditionCriterion{notReady},
		TargetConditions: []core.ConditionCriterion{{Type: "Bootstrapped", Status: "False", For: time.Minute}},
		Groups: []core.ConditionGroup{
			{Tests: tests(core.ConditionTest{Type: "DiskPressure", Status: "True"}), For: time.Minute},
			{Tests: tests(unready), For: 2 * time.Hour},
			{Tests: tests(unready), For: time.Minute},
		},
	}
	for name, tc := range map[string]struct {
		target core.Target
		want   []core.Reason
	}{
		"a marked machine that has failed and never joined": {machine("m", awaited(long), failed(long), marked, ofItself("Bootstrapped", "False", long)), []core.Reason{
			core.RemediationRequested, core.TargetFailed, core.TargetConditionMet, core.NodeStartupTimeout,
		}},
		"a machine whose node is gone":           {machine("m", nodeIs(core.NodeGone)), []core.Reason{core.NodeNotFound}},
		"a machine whose node may be gone":       {machine("m", nodeIs(core.NodeUnseen)), nil},
		"a machine that may take longer":         {machine("m", awaited(noon)), nil},
		"a node with a condition and two groups": {machine("m", dead, condition("DiskPressure", "True", long)), []core.Reason{core.ConditionMet, core.ConditionsMet, core.ConditionsMet}},
	} {
		var got []core.Reason
		for _, v := range c.Findings(&tc.target, noon) {
			got = append(got, v.Reason)
		}
		if diff := cmp.Diff(tc.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// TestFindingsByARequest: a user's request with a time comes before the criteria. A mark of the target
// is a criterion already.
func TestFindingsByARequest(t *testing.T) {
	c := core.Criteria{Conditions: []core.ConditionCriterion{notReady}}
	requested := core.Verdict{Health: core.Unhealthy, Reason: core.RemediationRequested, Since: noon}
	sick := core.Verdict{Health: core.Unhealthy, Reason: core.ConditionMet}
	for name, tc := range map[string]struct {
		verdict core.Verdict
		target  core.Target
		want    []core.Reason
	}{
		"requested":          {requested, machine("m"), []core.Reason{core.RemediationRequested}},
		"requested and sick": {requested, machine("m", dead), []core.Reason{core.RemediationRequested, core.ConditionMet}},
		"marked":             {requested, machine("m", marked), []core.Reason{core.RemediationRequested}},
		"sick":               {sick, machine("m", dead), []core.Reason{core.ConditionMet}},
		"marked and sick":    {requested, machine("m", dead, marked), []core.Reason{core.RemediationRequested, core.ConditionMet}},
	} {
		var got []core.Reason
		for _, v := range c.FindingsBy(&tc.verdict, &tc.target, noon) {
			got = append(got, v.Reason)
		}
		if diff := cmp.Diff(tc.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}
