package capi

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fettle-io/fettle/internal/core"
)

// aHome has nodes, and health checks that may act on them.
type aHome struct {
	acts  core.Tri
	nodes map[string]string
}

func (h *aHome) ActsOn(nodes map[string]string) core.Tri {
	for name, uid := range nodes {
		if h.nodes[name] == uid {
			return h.acts
		}
	}
	return core.No
}

// TestNodesJudgedElsewhereAreNotRepaired: repairs are blocked while other health checks act on the nodes, or when that has
// been unknown for a while.
func TestNodesJudgedElsewhereAreNotRepaired(t *testing.T) {
	const elsewhere, unknown = "RemediationAllowed=Unknown NodesJudgedElsewhere", "RemediationAllowed=Unknown NodesJudgedElsewhereUnknown"
	shared, allowed := map[string]string{"a-node": "a-node-uid"}, "RemediationAllowed=True RemediationAllowed"
	for sentence, c := range map[string]struct {
		home     aHome
		observed core.Tri
		says     string
		later    string
	}{
		"other health checks act on the nodes":             {aHome{core.Yes, shared}, core.Yes, elsewhere, elsewhere},
		"other health checks act on other nodes":           {aHome{core.Yes, map[string]string{"b-node": "b-node-uid"}}, core.Yes, allowed, allowed},
		"other health checks act on nodes of those names":  {aHome{core.Yes, map[string]string{"a-node": "another-uid"}}, core.Yes, allowed, allowed},
		"no other health check acts on the nodes":          {aHome{core.No, shared}, core.Yes, allowed, allowed},
		"it is not known yet whether there are any others": {aHome{core.Unknown, shared}, core.Unknown, "", unknown},
		"what is not known concerns other nodes":           {aHome{core.Unknown, map[string]string{"b-node": "b-node-uid"}}, core.Yes, allowed, allowed},
	} {
		t.Run(sentence, func(t *testing.T) {
			s := begin(t, func(config *Config) { config.Home = &c.home })
			s.nodes.has("False", ago(time.Hour), "a-node")
			s.show(theCluster(t), aCheck(t, "check"), aMachine(t, "a"))
			o, d := s.pass()
			if o.Observed != c.observed || len(d.Starts) > 0 != (c.says == allowed) {
				t.Errorf("the cluster is observed: %s, want %s; starts: %d", o.Observed, c.observed, len(d.Starts))
			}
			s.wantAllowed(c.says)
			for range 3 { // by the last pass it has been unknown for long enough
				s.now = s.now.Add(core.YieldPendingFor / 2)
				s.wakeLater()
				_, d = s.pass()
			}
			if len(d.Starts) > 0 != (c.later == allowed) {
				t.Errorf("later on it starts %d", len(d.Starts))
			}
			s.wantAllowed(c.later)
			if warned := len(s.emitted()); warned > 1 || (warned == 1) != (c.later != allowed) {
				t.Errorf("%d events are emitted", warned)
			}
			c.home.acts = core.No
			o, _ = s.pass()
			if said := strings.Join(s.said("MachineHealthCheck clusters/check"), ", "); o.Observed != core.Yes || strings.Contains(said, elsewhere) {
				t.Errorf("no other health check acts any more, and the cluster is observed: %s; the health check says %s", o.Observed, said)
			}
		})
	}
}

// TestI3OthersThatBeginToActDuringAPass: no health check is confirmed once other health checks act on the nodes, or may do so,
// unless the decision was made in that knowledge.
func TestI3OthersThatBeginToActDuringAPass(t *testing.T) {
	shared, other := map[string]string{"a-node": "a-node-uid"}, map[string]string{"a-node": "another-uid"}
	for name, c := range map[string]struct {
		nodes     map[string]string
		then, now core.Tri
		stands    bool
	}{
		"none acts":                       {shared, core.No, core.No, true},
		"one begins to act":               {shared, core.No, core.Yes, false},
		"one may begin to act":            {shared, core.No, core.Unknown, false},
		"one begins to act on other ones": {other, core.No, core.Yes, true},
		"one has acted before":            {shared, core.Yes, core.Yes, true},
		"one does not act any more":       {shared, core.Yes, core.No, true},
	} {
		t.Run(name, func(t *testing.T) {
			home := &aHome{c.then, c.nodes}
			s := begin(t, func(config *Config) { config.Home = home })
			s.nodes.has("False", ago(time.Hour), "a-node")
			s.show(theCluster(t), aCheck(t, "check"), aMachine(t, "a"))
			p := s.observe().Policies[0]
			home.acts = c.now
			found, err := s.dialect.ReadPolicy(t.Context(), p.ID)
			if (found == p.Fingerprint) != c.stands || (found != "") != c.stands || err != nil {
				t.Errorf("it reads %q, %v; it was %q", found, err, p.Fingerprint)
			}
		})
	}
}

// TestI12WhatRecoversIsTakenBackWhileOthersJudgeTheNodes: blocked health checks start nothing, and still end what they
// started.
func TestI12WhatRecoversIsTakenBackWhileOthersJudgeTheNodes(t *testing.T) {
	home := &aHome{core.Yes, map[string]string{"a-node": "a-node-uid"}}
	s := begin(t, func(config *Config) { config.Home = home })
	s.nodes.has("True", ago(time.Hour), "a-node")
	failed := `status: {conditions: [{type: HealthCheckSucceeded, status: "False", reason: UnhealthyNode, message: "x", lastTransitionTime: "2026-08-03T11:00:00Z"}]}`
	s.show(theCluster(t), aCheck(t, "check", strings.Split(theTemplate, "\n")...), aMachine(t, "a", failed))
	_, d := s.pass(func(f *core.Cluster, policies []core.Policy) {
		step, id := policies[0].Steps[0], f.Targets[0].ID
		f.Repairs = append(f.Repairs, core.Repair{
			Namespace: "clusters", Name: "a-1", Target: id, Policy: policies[0].ID, Steps: policies[0].Steps, Started: ago(10 * time.Minute),
		})
		f.Requests = append(f.Requests, core.Request{
			ID: core.ID{Kind: "X", Namespace: "clusters", Name: "a", UID: "x-uid"}, Remedy: step.Remedy, Template: step.Template,
			Target: id, Created: ago(10 * time.Minute), Own: true,
		})
	})
	if len(d.Withdrawals) != 1 || len(d.Starts)+len(d.StepStarts) > 0 {
		t.Errorf("it takes back %+v, and begins %+v, %+v", d.Withdrawals, d.Starts, d.StepStarts)
	}
	s.wantAllowed("RemediationAllowed=Unknown NodesJudgedElsewhere")
	s.wantSaid("it has recovered", "Machine clusters/a", passedNow, passedOld)
	if said := s.said("MachineHealthCheck clusters/check"); !slices.Contains(said, "Paused=False NotPaused") {
		t.Errorf("it is not paused, and it says %q", said)
	}
}

// TestClusterThatYieldsIsReadAgain: one timer runs at a time.
func TestClusterThatYieldsIsReadAgain(t *testing.T) {
	for _, acts := range []core.Tri{core.Yes, core.Unknown} {
		home := &aHome{acts, map[string]string{"a-node": "a-node-uid"}}
		s := begin(t, func(config *Config) { config.Home = home })
		s.nodes.has("True", ago(time.Hour), "a-node")
		s.show(theCluster(t), aCheck(t, "check"), aMachine(t, "a"))
		for range 3 {
			s.pass()
			s.pass()
			if len(s.later) != 1 {
				t.Fatalf("it acts: %s, and %d timers run", acts, len(s.later))
			}
			clear(s.woken)
			s.wakeLater()
			if s.woken[blue] != 1 {
				t.Fatalf("it acts: %s, and the timer wakes it %d times", acts, s.woken[blue])
			}
		}
	}
}

// wakeLater runs the functions that were passed to After.
func (s *harness) wakeLater() {
	later := s.later
	s.later = nil
	for _, do := range later {
		do()
	}
}

// wantAllowed compares the reason of RemediationAllowed, which is empty if there is no such condition.
func (s *harness) wantAllowed(want string) {
	s.t.Helper()
	said := s.said("MachineHealthCheck clusters/check")
	if want == "" && len(said) > 0 || want != "" && !slices.Contains(said, want) {
		s.t.Errorf("the health check says %q, want %q", strings.Join(said, ", "), want)
	}
}
