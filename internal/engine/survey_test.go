package engine_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	"github.com/google/go-cmp/cmp"

	"github.com/fettle-io/fettle/internal/core"
	"github.com/fettle-io/fettle/internal/engine"
)

// lines is a log that is kept.
func lines(kept *[]string) logr.Logger {
	return funcr.New(func(_, args string) { *kept = append(*kept, args) }, funcr.Options{})
}

// TestSurveyorsSeeAllThatWasObserved, one after another, and what they find is decided on.
func TestSurveyorsSeeAllThatWasObserved(t *testing.T) {
	s, nodes := two(t)
	s.machines.observes(machine("m"))
	nodes.observes(target("Node", "n", dead))
	nodes.observation.Policies[0].ID.UID = "nodes-uid"
	s.ledger.has(running(machine("m")))
	var seen []string
	first := &surveyor{requests: []core.Request{request("r", target("Node", "n"))}, survey: func(policies []core.Policy, fleet *core.Fleet) {
		for i := range fleet.Targets {
			seen = append(seen, fleet.Targets[i].ID.Name)
			fleet.Targets[i].Node.Excluded = true
		}
		for i := range fleet.Repairs {
			seen = append(seen, "repair of "+fleet.Repairs[i].Target.Name)
		}
		for i := range policies {
			policies[i].Ladder = []core.Step{{Remedy: "Delete", Problem: "not now"}}
		}
		seen = append(seen, fleet.Observed.String())
	}}
	second := &surveyor{survey: func(policies []core.Policy, fleet *core.Fleet) {
		seen = append(seen, "then "+fleet.Requests[0].ID.Name, policies[0].Ladder[0].Problem)
	}}
	s.Surveyors = []engine.Surveyor{first, second}
	policies, fleet, err := s.Seen()
	if err != nil {
		t.Fatalf("observing: %v", err)
	}
	if diff := cmp.Diff([]string{"m", "n", "repair of m", "yes", "then r", "not now"}, seen); diff != "" {
		t.Errorf("seen (-want +got):\n%s", diff)
	}
	if !fleet.Targets[1].Node.Excluded || policies[1].Ladder[0].Problem == "" || len(fleet.Requests) != 1 {
		t.Errorf("what was found is lost: %+v, %+v", policies, fleet)
	}
	if nodes.observation.Policies[0].Ladder[0].Problem != "" || nodes.observation.Targets[0].Node.Excluded {
		t.Error("what a dialect has given was changed")
	}
}

// TestUpgradesThatADialectSees are decided on, unless a surveyor knows better. A dialect that sees none changes nothing.
func TestUpgradesThatADialectSees(t *testing.T) {
	for sentence, c := range map[string]struct {
		change func(machines, nodes *core.Observation, s *stage)
		want   core.Fleet
	}{
		"nobody":       {func(_, _ *core.Observation, _ *stage) {}, core.Fleet{}},
		"the first":    {func(m, _ *core.Observation, _ *stage) { m.Upgrading, m.UpgradingWhy = core.No, "so" }, core.Fleet{Upgrading: core.No, UpgradingWhy: "so"}},
		"the second":   {func(_, n *core.Observation, _ *stage) { n.Upgrading = core.Yes }, core.Fleet{Upgrading: core.Yes}},
		"not for sure": {func(m, _ *core.Observation, _ *stage) { m.UpgradingWhy = "nothing says so" }, core.Fleet{UpgradingWhy: "nothing says so"}},
		"and a surveyor": {func(m, _ *core.Observation, s *stage) {
			m.Upgrading = core.No
			s.Surveyors = []engine.Surveyor{&surveyor{survey: func(_ []core.Policy, f *core.Fleet) { f.Upgrading = core.Yes }}}
		}, core.Fleet{Upgrading: core.Yes}},
	} {
		s, nodes := two(t)
		s.machines.observes(machine("m"))
		nodes.observes(target("Node", "n"))
		nodes.observation.Policies[0].ID.UID = "nodes-uid"
		c.change(&s.machines.observation, &nodes.observation, s)
		_, fleet, err := s.Seen()
		if err != nil || fleet.Upgrading != c.want.Upgrading || fleet.UpgradingWhy != c.want.UpgradingWhy {
			t.Errorf("%s: the cluster is being upgraded: %s (%q), %v", sentence, fleet.Upgrading, fleet.UpgradingWhy, err)
		}
	}
}

// TestNothingIsSurveyedOutOfStep: it would be added to half of a fleet.
func TestNothingIsSurveyedOutOfStep(t *testing.T) {
	for sentence, spoil := range map[string]func(*stage){
		"a dialect":  func(s *stage) { s.machines.observation.Observed = core.Unknown },
		"the ledger": func(s *stage) { s.ledger.inStep = core.Unknown },
	} {
		s := newStage(t)
		s.machines.observes(machine("m", dead))
		spoil(s)
		s.Surveyors = []engine.Surveyor{&surveyor{survey: func([]core.Policy, *core.Fleet) { t.Errorf("%s: it was asked", sentence) }}}
		s.passes()
	}
}

// TestSurveyorThatSeesNothing may say so, and then nothing is decided.
func TestSurveyorThatSeesNothing(t *testing.T) {
	s := newStage(t)
	s.machines.observes(machine("m", dead))
	s.Surveyors = []engine.Surveyor{&surveyor{survey: func(_ []core.Policy, fleet *core.Fleet) { fleet.Observed = core.Unknown }}}
	did, _ := s.passes()
	s.wantDid("nothing is decided", did)
}

// TestRequestsOfKindsThatNobodyObservesAreLeftAlone, as their repairs are.
func TestRequestsOfKindsThatNobodyObservesAreLeftAlone(t *testing.T) {
	s := newStage(t)
	s.machines.observes(machine("m"))
	s.Surveyors = []engine.Surveyor{&surveyor{requests: []core.Request{request("ours", machine("m")), request("others", target("Node", "n"))}}}
	_, fleet, err := s.Seen()
	if err != nil || len(fleet.Requests) != 1 || fleet.Requests[0].ID.Name != "ours" {
		t.Errorf("the requests are %+v, %v", fleet.Requests, err)
	}
}

// quorum says what survives the loss of a target, as a diary has it.
type quorum struct {
	stage    *stage
	survives core.Tri
}

func (q quorum) Survives(ctx context.Context, t core.Target) (core.Tri, error) {
	return q.survives, q.stage.do(ctx, "quorum without "+t.ID.Name)
}

// TestQuorumIsReadForTheControlPlane alone, with the node, just before a repair.
func TestQuorumIsReadForTheControlPlane(t *testing.T) {
	master := machine("m", unseen, func(t *core.Target) { t.ControlPlane = true })
	cases := map[string]struct {
		reason   string
		target   core.Target
		survives core.Tri
		fails    bool
		begins   bool
	}{
		"a worker":                  {"nobody's quorum hangs on it", machine("m", unseen), core.No, false, true},
		"quorum survives":           {"", master, core.Yes, false, true},
		"quorum would be lost":      {"", master, core.No, false, false},
		"quorum is not known":       {"", master, core.Unknown, false, false},
		"quorum can't be read":      {"whatever came with the error", master, core.Yes, true, false},
		"there is nobody to ask it": {"", master, 0, false, false},
	}
	for sentence, tc := range cases {
		t.Run(sentence, func(t *testing.T) {
			s := newStage(t)
			s.machines.observes(tc.target)
			s.machines.live["m-node"] = core.Node{State: core.NodeGone, Name: "m-node"}
			if sentence != "there is nobody to ask it" {
				s.Quorum = quorum{s, tc.survives}
			}
			if tc.fails {
				s.refuse["quorum without m"] = errDown
			}
			did, next, err := s.tries()
			wantAsked := tc.target.ControlPlane && s.Quorum != nil
			if asked := count(did, "quorum without m"); (asked == 1) != wantAsked || asked > 1 || count(did, "read m") != 1 {
				t.Errorf("%s: it did %v", tc.reason, did)
			}
			if begun := slices.Contains(did, "begin m"); begun != tc.begins {
				t.Errorf("%s: it begins: %t; %v", tc.reason, begun, did)
			}
			if err != nil {
				t.Errorf("%s: the pass fails for all: %v", tc.reason, err)
			}
			if tc.fails && !next.After(s.now) {
				t.Errorf("%s: nobody asks again: %s", tc.reason, next)
			}
		})
	}
}

// TestLadderIsCounted: requests and steps, by remedy.
func TestLadderIsCounted(t *testing.T) {
	cl := newClimb(t, sick("a"), sick("b"))
	c := &counted{stage: cl.stage}
	c.begins()
	cl.Surveyors, cl.Lock = []engine.Surveyor{cl.surveyor}, cl.locks
	c.ledger.has(climbing(sick("a")), climbing(sick("b"), onStep(1)))
	left := request("left", sick("a"))
	left.Leaving, left.LeavingSince, left.KeptBy, left.Own = true, noon.Add(-time.Hour), "example/finalizer", true
	left.Policy = cl.nodes.observation.Policies[0].ID
	cl.surveyor.requests = []core.Request{request("fix-a", sick("a")), left}
	_, _, err := cl.carries(func(d *core.Decision, fleet *core.Fleet) {
		slices.SortFunc(fleet.Repairs, func(a, b core.Repair) int { return strings.Compare(a.Name, b.Name) })
		d.Advances = []core.Advance{{Repair: 0, Target: 0, Request: 0, Outcome: core.Failed, Text: "can't"}}
		d.Acts = []core.Act{{Repair: 1, Target: 1, Step: 1, Verdict: core.Verdict{Target: 1}}}
		d.Withdrawals = []core.Withdrawal{{Request: 0, Policy: 0, Target: 0}, {Request: 0, Policy: -1, Target: -1}}
	})
	if err != nil {
		t.Fatalf("the pass failed: %v", err)
	}
	c.wants("each by what became of it", []string{"requests", "steps", "act_seconds", "remedy"},
		"act_seconds: 0 in 0s", // a further step is not the start of a repair
		"remedy_refusals_total workers Ask: 0", "remedy_refusals_total workers Mark: 0",
		"requests_stuck workers: 1",
		"requests_total Asked workers Ask: 1", "requests_total Withdrawn workers Ask: 1",
		"steps_given_up_total Failed workers Ask: 1", "steps_given_up_total Failed workers Mark: 0",
		"steps_given_up_total TimedOut workers Ask: 0", "steps_given_up_total TimedOut workers Mark: 0",
	)
	c.now = noon.Add(time.Second)
	cl.nodes.observation.Policies = nil
	c.passes()
	c.wants("a health check that is gone has no series", []string{"requests", "steps"})
}

// TestI15TooManyHealthChecksAreNotJudged: what a pass sees is rationed, before anybody surveys it.
func TestI15TooManyHealthChecksAreNotJudged(t *testing.T) {
	s := newStage(t)
	s.machines.observes(machine("m", dead))
	policies := &s.machines.observation.Policies
	(*policies)[0].Members = make([]int, 60_000)
	younger := (*policies)[0]
	younger.ID.Name, younger.ID.UID, younger.Created = "younger", "younger-uid", younger.Created.Add(time.Minute)
	*policies = append(*policies, younger)
	var surveyed []bool
	s.Surveyors = []engine.Surveyor{&surveyor{survey: func(policies []core.Policy, _ *core.Fleet) {
		for i := range policies {
			surveyed = append(surveyed, policies[i].Overlooked)
		}
	}}}
	_, fleet, err := s.Seen()
	if err != nil || !slices.Equal(surveyed, []bool{false, true}) || fleet.Targets[0].OverlookedBy == nil || fleet.Targets[0].OverlookedBy.Name != "younger" {
		t.Errorf("overlooked: %v, %v, %+v", surveyed, err, fleet.Targets[0].OverlookedBy)
	}
	if younger := s.machines.observation.Policies[1]; younger.Overlooked || s.machines.observation.Targets[0].OverlookedBy != nil {
		t.Error("what the dialect has given was changed")
	}
}
