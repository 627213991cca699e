package core

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// TestOrderOfCandidates: targets that a label alone counts among the control plane come last. The order is by age, then by ID, then by policy.
func TestOrderOfCandidates(t *testing.T) {
	label := func(t *Target) { t.ControlPlaneByLabel = true }
	targets := []Target{nodeTarget("a", "False"), nodeTarget("b", "False"), nodeTarget("a", "False", label)}
	d := plannerOf([]Policy{{ID: ID{Name: "p"}}, {ID: ID{Name: "q"}}}, observed(targets, nil))
	of := func(target, policy int, since time.Duration) candidate {
		return candidate{target, &Verdict{Target: target, Policy: policy, Since: atNoon.Add(since)}}
	}
	for name, c := range map[string]struct{ first, second candidate }{
		"by label, though for longer": {of(1, 0, 0), of(2, 0, -time.Hour)},
		"by age":                      {of(1, 1, -time.Hour), of(0, 0, 0)},
		"by ID":                       {of(0, 1, 0), of(1, 0, 0)},
		"by policy":                   {of(0, 0, 0), of(0, 1, 0)},
	} {
		if d.oldestUnhealthyFirst(c.first, c.second) >= 0 || d.oldestUnhealthyFirst(c.second, c.first) <= 0 {
			t.Errorf("%s: the order is another", name)
		}
	}
}

// TestContemporaries: the targets of an owner that were created in the second of the decision, in the order of their UIDs.
func TestContemporaries(t *testing.T) {
	at := atNoon.Add(time.Second) // an odd one
	created := func(name, owner string, before time.Duration) Target {
		return nodeTarget(name, "True", func(t *Target) { t.Created, t.Owner = at.Add(-before), ID{Kind: "MachineSet", Name: owner, UID: owner} })
	}
	targets := []Target{
		created("c", "pool", 0), created("a", "pool", 0), created("b", "pool", time.Second), created("d", "other", 0), created("e", "", 0),
	}
	for owner, want := range map[string][]string{"pool": {"a-uid", "c-uid"}, "other": {"d-uid"}, "": nil, "third": nil} {
		d := newTargetIndex(newInput(nil, observed(targets, nil), at.Add(time.Second/2)))
		if diff := cmp.Diff(want, d.contemporaries(ID{Kind: "MachineSet", Name: owner, UID: owner})); diff != "" {
			t.Errorf("of owner %q (-want +got):\n%s", owner, diff)
		}
	}
}

// TestConcernTexts: how a member stands, by who leads its repair and by the first gate that holds it back.
func TestConcernTexts(t *testing.T) {
	p, q := ID{Kind: "NodeCheck", Name: "p"}, ID{Kind: "NodeCheck", Name: "q"}
	sick := Verdict{Health: Unhealthy, Reason: ConditionMet}
	for name, c := range map[string]struct {
		verdict Verdict
		lead    *ID
		held    *Refusal
		want    string
	}{
		"unhealthy":                       {sick, nil, nil, "is unhealthy (UnhealthyCondition)"},
		"held back":                       {sick, nil, &Refusal{Gate: NoOwner}, "is unhealthy (UnhealthyCondition) and held back by NoOwner"},
		"held back, and it is known why":  {sick, nil, &Refusal{Gate: ClusterUpgrading, Why: "it says so"}, "is unhealthy (UnhealthyCondition) and held back by ClusterUpgrading (it says so)"},
		"under repair":                    {sick, &p, nil, "is being repaired"},
		"under repair, by another":        {sick, &q, nil, "is being repaired, which NodeCheck q leads"},
		"under repair, and held back":     {sick, &p, &Refusal{Gate: PolicyPaused}, "is being repaired"},
		"all steps were tried":            {sick, &p, &Refusal{Gate: StepsExhausted}, "is unhealthy (UnhealthyCondition) and held back by LadderExhausted"},
		"all steps of another were tried": {sick, &q, &Refusal{Gate: StepsExhausted}, "is being repaired, which NodeCheck q leads"},
		"healthy again":                   {Verdict{Health: Suspect, Reason: Recovering}, &p, nil, "is healthy again, and the request to the remediator is not withdrawn yet"},
		"healthy again, and why it waits": {Verdict{Health: Suspect, Reason: Recovering, RequestRemains: true, Detail: "it is not ours"}, &p, nil, "is healthy again, and the request to the remediator still stands: it is not ours"},
		"suspect, with a detail":          {Verdict{Health: Suspect, Reason: ConditionsMet, Detail: "all hold"}, nil, nil, "may become unhealthy (UnhealthyConditions)"},
		"being deleted":                   {Verdict{Health: Gone, Reason: ConditionMet}, nil, nil, "is being deleted"},
		"unknown":                         {Verdict{Health: Undetermined, Reason: NodeUnconfirmed}, nil, nil, "can't be judged (NodeUnconfirmed)"},
	} {
		s := repairStates{lead: map[int]ID{}, held: map[int]*Refusal{}}
		if c.lead != nil {
			s.lead[0] = *c.lead
		}
		if c.held != nil {
			s.held[0] = c.held
		}
		if got := s.of(&c.verdict, []Policy{{ID: p}}); got != c.want {
			t.Errorf("%s: it is told as %q, want %q", name, got, c.want)
		}
	}
}

// TestWhatHoldsTargetsBack: the first gate counts, and none of a dry run.
func TestWhatHoldsTargetsBack(t *testing.T) {
	d := Decision{Refusals: []Refusal{{Target: 0, Gate: NoRemedy, DryRun: true}, {Target: 0, Gate: PolicyPaused}, {Target: 0, Gate: NoOwner}, {Target: 1, Gate: NoRemedy, DryRun: true}}}
	s := d.repairStates(nil, observed([]Target{nodeTarget("a", "False"), nodeTarget("b", "False")}, nil))
	if first, held := s.held[0]; !held || first.Gate != PolicyPaused || s.held[1] != nil {
		t.Errorf("held back by %+v, and the other by %+v", first, s.held[1])
	}
}
