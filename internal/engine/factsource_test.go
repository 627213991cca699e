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

// lines returns a logger that stores its lines.
func lines(kept *[]string) logr.Logger {
	return funcr.New(func(_, args string) { *kept = append(*kept, args) }, funcr.Options{})
}

// TestFactSourcesSeeAllThatWasObserved: sources add facts one after another, and the decision uses
// them.
func TestFactSourcesSeeAllThatWasObserved(t *testing.T) {
	s, nodes := two(t)
	s.machines.observes(machine("m"))
	nodes.observes(target("Node", "n", dead))
	nodes.observation.Policies[0].ID.UID = "nodes-uid"
	s.ledger.has(running(machine("m")))
	var seen []string
	first := &factSource{requests: []core.Request{request("r", target("Node", "n"))}, addFacts: func(policies []core.Policy, cluster *core.Cluster) {
		for i := range cluster.Targets {
			seen = append(seen, cluster.Targets[i].ID.Name)
			cluster.Targets[i].Node.Excluded = true
		}
		for i := range cluster.Repairs {
			seen = append(seen, "repair of "+cluster.Repairs[i].Target.Name)
		}
		for i := range policies {
			policies[i].Steps = []core.Step{{Remedy: "Delete", Problem: "not now"}}
		}
		seen = append(seen, cluster.Observed.String())
	}}
	second := &factSource{addFacts: func(policies []core.Policy, cluster *core.Cluster) {
		seen = append(seen, "then "+cluster.Requests[0].ID.Name, policies[0].Steps[0].Problem)
	}}
	s.FactSources = []engine.FactSource{first, second}
	policies, cluster, err := s.Observed()
	if err != nil {
		t.Fatalf("observing: %v", err)
	}
	if diff := cmp.Diff([]string{"m", "n", "repair of m", "yes", "then r", "not now"}, seen); diff != "" {
		t.Errorf("seen (-want +got):\n%s", diff)
	}
	if !cluster.Targets[1].Node.Excluded || policies[1].Steps[0].Problem == "" || len(cluster.Requests) != 1 {
		t.Errorf("what was found is lost: %+v, %+v", policies, cluster)
	}
	if nodes.observation.Policies[0].Steps[0].Problem != "" || nodes.observation.Targets[0].Node.Excluded {
		t.Error("what a dialect has given was changed")
	}
}

// TestUpgradesThatADialectSees count unless a fact source sets another state. A dialect without a
// state changes nothing.
func TestUpgradesThatADialectSees(t *testing.T) {
	for sentence, c := range map[string]struct {
		change func(machines, nodes *core.Observation, s *fixture)
		want   core.Cluster
	}{
		"no source":    {func(_, _ *core.Observation, _ *fixture) {}, core.Cluster{}},
		"the first":    {func(m, _ *core.Observation, _ *fixture) { m.Upgrading, m.UpgradingWhy = core.No, "so" }, core.Cluster{Upgrading: core.No, UpgradingWhy: "so"}},
		"the second":   {func(_, n *core.Observation, _ *fixture) { n.Upgrading = core.Yes }, core.Cluster{Upgrading: core.Yes}},
		"not for sure": {func(m, _ *core.Observation, _ *fixture) { m.UpgradingWhy = "nothing says so" }, core.Cluster{UpgradingWhy: "nothing says so"}},
		"and a fact source": {func(m, _ *core.Observation, s *fixture) {
			m.Upgrading = core.No
			s.FactSources = []engine.FactSource{&factSource{addFacts: func(_ []core.Policy, f *core.Cluster) { f.Upgrading = core.Yes }}}
		}, core.Cluster{Upgrading: core.Yes}},
	} {
		s, nodes := two(t)
		s.machines.observes(machine("m"))
		nodes.observes(target("Node", "n"))
		nodes.observation.Policies[0].ID.UID = "nodes-uid"
		c.change(&s.machines.observation, &nodes.observation, s)
		_, cluster, err := s.Observed()
		if err != nil || cluster.Upgrading != c.want.Upgrading || cluster.UpgradingWhy != c.want.UpgradingWhy {
			t.Errorf("%s: the cluster is being upgraded: %s (%q), %v", sentence, cluster.Upgrading, cluster.UpgradingWhy, err)
		}
	}
}

// TestNothingIsSurveyedOutOfStep: fact sources aren't called for an incomplete snapshot.
func TestNothingIsSurveyedOutOfStep(t *testing.T) {
	for sentence, spoil := range map[string]func(*fixture){
		"a dialect":  func(s *fixture) { s.machines.observation.Observed = core.Unknown },
		"the ledger": func(s *fixture) { s.ledger.inStep = core.Unknown },
	} {
		s := newFixture(t)
		s.machines.observes(machine("m", dead))
		spoil(s)
		s.FactSources = []engine.FactSource{&factSource{addFacts: func([]core.Policy, *core.Cluster) { t.Errorf("%s: it was asked", sentence) }}}
		s.pass()
	}
}

// TestFactSourceThatKnowsNothing: a fact source may mark the cluster as unobserved, and then nothing
// is decided.
func TestFactSourceThatKnowsNothing(t *testing.T) {
	s := newFixture(t)
	s.machines.observes(machine("m", dead))
	s.FactSources = []engine.FactSource{&factSource{addFacts: func(_ []core.Policy, cluster *core.Cluster) { cluster.Observed = core.Unknown }}}
	did, _ := s.pass()
	s.wantDid("nothing is decided", did)
}

// TestRequestsOfUnobservedKindsAreSkipped, as repairs of these kinds are.
func TestRequestsOfUnobservedKindsAreSkipped(t *testing.T) {
	s := newFixture(t)
	s.machines.observes(machine("m"))
	s.FactSources = []engine.FactSource{&factSource{requests: []core.Request{request("ours", machine("m")), request("others", target("Node", "n"))}}}
	_, cluster, err := s.Observed()
	if err != nil || len(cluster.Requests) != 1 || cluster.Requests[0].ID.Name != "ours" {
		t.Errorf("the requests are %+v, %v", cluster.Requests, err)
	}
}

// quorum answers whether quorum survives without a target, and records each read.
type quorum struct {
	fixture  *fixture
	survives core.Tri
}

func (q quorum) Survives(ctx context.Context, t core.Target) (core.Tri, error) {
	return q.survives, q.fixture.record(ctx, "quorum without "+t.ID.Name)
}

// TestQuorumIsReadForTheControlPlane alone, together with the node, just before a repair.
func TestQuorumIsReadForTheControlPlane(t *testing.T) {
	master := machine("m", unseen, func(t *core.Target) { t.ControlPlane = true })
	cases := map[string]struct {
		reason   string
		target   core.Target
		survives core.Tri
		fails    bool
		begins   bool
	}{
		"a worker":                 {"no quorum depends on it", machine("m", unseen), core.No, false, true},
		"quorum survives":          {"", master, core.Yes, false, true},
		"quorum would be lost":     {"", master, core.No, false, false},
		"quorum is not known":      {"", master, core.Unknown, false, false},
		"quorum can't be read":     {"whatever came with the error", master, core.Yes, true, false},
		"there is no quorum guard": {"", master, 0, false, false},
	}
	for sentence, tc := range cases {
		t.Run(sentence, func(t *testing.T) {
			s := newFixture(t)
			s.machines.observes(tc.target)
			s.machines.live["m-node"] = core.Node{State: core.NodeGone, Name: "m-node"}
			if sentence != "there is no quorum guard" {
				s.Quorum = quorum{s, tc.survives}
			}
			if tc.fails {
				s.refuse["quorum without m"] = errDown
			}
			did, next, err := s.tryPass()
			wantRead := tc.target.ControlPlane && s.Quorum != nil
			if reads := gauge(did, "quorum without m"); (reads == 1) != wantRead || reads > 1 || gauge(did, "read m") != 1 {
				t.Errorf("%s: it did %v", tc.reason, did)
			}
			if begun := slices.Contains(did, "begin m"); begun != tc.begins {
				t.Errorf("%s: it begins: %t; %v", tc.reason, begun, did)
			}
			if err != nil {
				t.Errorf("%s: the pass fails for all: %v", tc.reason, err)
			}
			if tc.fails && !next.After(s.now) {
				t.Errorf("%s: no pass reads it again: %s", tc.reason, next)
			}
		})
	}
}

// TestStepsAreCounted: metrics count requests and steps by remedy.
func TestStepsAreCounted(t *testing.T) {
	cl := newStepFixture(t, sick("a"), sick("b"))
	c := &counted{fixture: cl.fixture}
	c.begins()
	cl.FactSources, cl.NodeLeases = []engine.FactSource{cl.factSource}, cl.leases
	c.ledger.has(runningSteps(sick("a")), runningSteps(sick("b"), onStep(1)))
	left := request("left", sick("a"))
	left.Leaving, left.LeavingSince, left.KeptBy, left.Own = true, noon.Add(-time.Hour), "example/finalizer", true
	left.Policy = cl.nodes.observation.Policies[0].ID
	cl.factSource.requests = []core.Request{request("fix-a", sick("a")), left}
	_, _, err := cl.runs(func(d *core.Decision, cluster *core.Cluster) {
		slices.SortFunc(cluster.Repairs, func(a, b core.Repair) int { return strings.Compare(a.Name, b.Name) })
		d.Escalations = []core.Escalation{{Repair: 0, Target: 0, Request: 0, Outcome: core.Failed, Text: "can't"}}
		d.StepStarts = []core.StepStart{{Repair: 1, Target: 1, Step: 1, Verdict: core.Verdict{Target: 1}}}
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
	c.pass()
	c.wants("a health check that is gone has no series", []string{"requests", "steps"})
}

// TestI15TooManyHealthChecksAreNotJudged: policies beyond the bound are dropped before fact sources
// run.
func TestI15TooManyHealthChecksAreNotJudged(t *testing.T) {
	s := newFixture(t)
	s.machines.observes(machine("m", dead))
	policies := &s.machines.observation.Policies
	(*policies)[0].Members = make([]int, 60_000)
	younger := (*policies)[0]
	younger.ID.Name, younger.ID.UID, younger.Created = "younger", "younger-uid", younger.Created.Add(time.Minute)
	*policies = append(*policies, younger)
	var surveyed []bool
	s.FactSources = []engine.FactSource{&factSource{addFacts: func(policies []core.Policy, _ *core.Cluster) {
		for i := range policies {
			surveyed = append(surveyed, policies[i].Unjudged)
		}
	}}}
	_, cluster, err := s.Observed()
	if err != nil || !slices.Equal(surveyed, []bool{false, true}) || cluster.Targets[0].UnjudgedPolicy == nil || cluster.Targets[0].UnjudgedPolicy.Name != "younger" {
		t.Errorf("overlooked: %v, %v, %+v", surveyed, err, cluster.Targets[0].UnjudgedPolicy)
	}
	if younger := s.machines.observation.Policies[1]; younger.Unjudged || s.machines.observation.Targets[0].UnjudgedPolicy != nil {
		t.Error("what the dialect has given was changed")
	}
}
