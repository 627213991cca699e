package cli

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/fettle-io/fettle/internal/core"
	"github.com/fettle-io/fettle/internal/ledger"
)

// TestFactsOfOtherKinds: repairs and remediation objects of kinds that were not read are left out, as are Repairs that Fettle ignores.
func TestFactsOfOtherKinds(t *testing.T) {
	s := newScene()
	node := core.ID{Kind: "Node", Name: "node-a", UID: "node-uid-a"}
	s.Requests = []core.Request{{ID: core.ID{Name: "of-machine"}, Target: s.Targets[0].ID}, {ID: core.ID{Name: "of-node"}, Target: node}}
	details := map[string]ledger.Details{}
	for name, target := range map[string]core.ID{"of-machine": s.Targets[0].ID, "ignored": s.Targets[0].ID, "of-node": node} {
		details[name] = ledger.Details{Ignored: name == "ignored", Repair: core.Repair{Name: name, Target: target}}
	}
	around := newExternalFacts()
	w := newAssessment(core.ClusterKey{}, []observed{{ClusterObservation: ClusterObservation{Observation: s.Observation}, dialect: &OpenShift{}}}, details, &around, noon)
	if len(w.cluster.Repairs) != 1 || w.cluster.Repairs[0].Name != "of-machine" || len(w.repairDetails) != 1 {
		t.Errorf("the repairs are %+v", w.cluster.Repairs)
	}
	if len(w.cluster.Requests) != 1 || w.cluster.Requests[0].ID.Name != "of-machine" {
		t.Errorf("the remediation objects are %+v", w.cluster.Requests)
	}
}

// TestUnparsableHealthCheck: a target that meets none of the criteria that can be read is not called healthy. The others keep
// their verdicts.
func TestUnparsableHealthCheck(t *testing.T) {
	s := newScene()
	s.Policies[0].Unparsable, s.Policies[0].Problem = true, "spec.unhealthyConditions is 7"
	s.ready(0, "Unknown", time.Hour)
	got := map[string]int{}
	for _, v := range s.assessment().decision.Verdicts {
		got[v.Health.String()+" since "+v.Reason.String()]++
	}
	if diff := cmp.Diff(map[string]int{"unhealthy since UnhealthyCondition": 1, "unknown since Unreadable": 4}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestTooManyVerdicts: a health check that the controller does not judge for its size is not judged here.
func TestTooManyVerdicts(t *testing.T) {
	s := newScene()
	s.Policies[0].Members = make([]int, 100_000)
	s.ready(0, "Unknown", time.Hour)
	e := s.assessment().explainCheck(0)
	if want := (Counts{Unknown: 100_000}); e.Counts != want {
		t.Errorf("it counts %+v, want %+v", e.Counts, want)
	}
	if len(e.Gates) == 0 || e.Gates[0].State != gateClosed || !strings.Contains(e.Gates[0].Message, "it is not judged") {
		t.Errorf("its gates are %+v", e.Gates)
	}
	nodes := newNodeScene(t)
	nodes.Policies[0].Members, nodes.Policies[0].Steps[1].Template.Name = make([]int, 100_000), "rare"
	if steps := nodes.assessment().policies[0].Steps; steps[1].Problem != "" {
		t.Errorf("its templates are looked for: %s", steps[1].Problem)
	}
}

// TestHiddenGates: whether a gate holds is not known if the user may not read the objects of the step that it is about. That is
// a step of the running repair if the health check leads that, and else one of its own.
func TestHiddenGates(t *testing.T) {
	fine, fence, reboot := nodeStep("Fence", 0), nodeStep("Fence", 0), nodeStep("Reboot", 0)
	fence.Problem, reboot.Problem = "there is no template", "there is no template"
	s := newNodeScene(t)
	s.around.templates.Hide(requestKind("Reboot"), "you may not list reboots.fix.example")
	w := s.assessment()
	repair := func(change func(*core.Repair), steps ...core.Step) []core.Repair {
		r := core.Repair{Target: s.Targets[0].ID, Policy: s.Policies[0].ID, Steps: steps}
		change(&r)
		return []core.Repair{r}
	}
	same := func(*core.Repair) {}
	for sentence, tc := range map[string]struct {
		gate    core.Gate
		steps   []core.Step
		repairs []core.Repair
		hidden  bool
	}{
		"its own step":                   {core.RequestsUnseen, []core.Step{reboot}, nil, true},
		"its own other step":             {core.RequestsUnseen, []core.Step{fence}, nil, false},
		"the repair's step":              {core.RequestsUnseen, []core.Step{fence}, repair(same, reboot), true},
		"the repair's other step":        {core.RequestsUnseen, []core.Step{reboot}, repair(same, fence), false},
		"another's repair":               {core.RequestsUnseen, []core.Step{reboot}, repair(func(r *core.Repair) { r.Policy.UID = "x" }, fence), true},
		"a repair of another node":       {core.RequestsUnseen, []core.Step{reboot}, repair(func(r *core.Repair) { r.Target = s.Targets[1].ID }, fence), true},
		"a repair that has ended":        {core.RequestsUnseen, []core.Step{reboot}, repair(func(r *core.Repair) { r.Outcome, r.Ended = core.Succeeded, noon }, fence), true},
		"the first unusable step":        {core.TemplateUnusable, []core.Step{fine, reboot, fence}, nil, true},
		"the second unusable step":       {core.TemplateUnusable, []core.Step{fence, reboot}, nil, false},
		"the repair's unusable step":     {core.TemplateUnusable, []core.Step{fine}, repair(same, fine, reboot), true},
		"its own before the repair's":    {core.TemplateUnusable, []core.Step{fence}, repair(same, reboot), false},
		"not the repair's after its own": {core.TemplateUnusable, []core.Step{reboot}, repair(same, fence), true},
		"another gate":                   {core.PolicyPaused, []core.Step{reboot}, nil, false},
		"a quorum that was read":         {core.QuorumUnknown, nil, nil, false},
	} {
		w.policies[0].Steps, w.cluster.Repairs = tc.steps, tc.repairs
		why, hidden := w.hidden(core.Refusal{Gate: tc.gate})
		if hidden != tc.hidden || hidden && why != "the state of its remediation objects is not known: you may not list reboots.fix.example" {
			t.Errorf("%s: whether it is hidden is %t, %q", sentence, hidden, why)
		}
	}
	w.unread.quorum["node-uid-b"] = "you may not list pods"
	if why, hidden := w.hidden(core.Refusal{Gate: core.QuorumUnknown, Target: 1}); !hidden || why != "it is not known whether the cluster's quorum survives while it is out: you may not list pods" {
		t.Errorf("whether the quorum is hidden is %t, %q", hidden, why)
	}
}
