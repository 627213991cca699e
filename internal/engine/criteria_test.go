package engine_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fettle-io/fettle/internal/core"
)

// clocked returns a fixture with a machine that is unhealthy after five minutes. Only expectations
// know when they began.
func clocked(t *testing.T, m core.Target, criteria core.Criteria) *fixture {
	t.Helper()
	s := newFixture(t)
	s.machines.observes(m)
	s.machines.observation.Policies[0].Criteria = criteria
	return s
}

// wantSuspect runs a pass and checks that the machine is suspect until an instant.
func (s *fixture) wantSuspect(sentence string, until time.Time) {
	s.Helper()
	did, next := s.pass()
	if slices.Contains(did, "begin m") || !next.Equal(until) {
		s.Errorf("%s: the next pass is at %s, want %s; it did %v", sentence, next, until, did)
	}
}

// TestNodeGoneDelay runs from the live read that didn't find the node. It starts again after a
// restart.
func TestNodeGoneDelay(t *testing.T) {
	s := clocked(t, machine("m", unseen), core.Criteria{NodeGoneDelay: 5 * time.Minute})
	s.machines.live["m-node"] = core.Node{State: core.NodeGone, Name: "m-node"}
	s.wantSuspect("it is gone", noon.Add(5*time.Minute))
	if emitted := s.machines.events; len(emitted) != 1 || !strings.Contains(emitted[0].Text, "a live read found that at 2026-") {
		t.Errorf("it does not tell since when: %+v", emitted)
	}
	s.now = noon.Add(4 * time.Minute)
	s.wantSuspect("it is still gone", noon.Add(5*time.Minute))
	s.restart()
	s.wantSuspect("a new process has it gone since now", noon.Add(9*time.Minute))
	s.now = noon.Add(9 * time.Minute)
	s.machines.live["m-node"] = node("m", "True", time.Hour)
	did, _ := s.pass()
	if slices.Contains(did, "begin m") || !slices.Contains(did, "read m") {
		t.Errorf("the node is there by then: %v", did)
	}
	s.machines.live["m-node"] = core.Node{State: core.NodeGone, Name: "m-node"}
	s.now = noon.Add(10 * time.Minute)
	s.wantSuspect("it is gone again", noon.Add(15*time.Minute))
	s.now = noon.Add(15 * time.Minute)
	if did, _ := s.pass(); !slices.Contains(did, "begin m") {
		t.Errorf("the delay is over: %v", did)
	}
}

// TestMissingCondition counts from the first pass without the condition, through passes without a
// gap. It starts again after a restart.
func TestMissingCondition(t *testing.T) {
	missing := core.ConditionGroup{Tests: []core.ConditionTest{{Type: "AgentReady", Missing: true}}, For: 5 * time.Minute}
	s := clocked(t, machine("m"), core.Criteria{Groups: []core.ConditionGroup{missing}})
	due := func(minute int) time.Time { return noon.Add(time.Duration(minute)*time.Minute - time.Second) } // a second ahead, to read it
	s.wantSuspect("it is missing", due(5))
	s.now = noon.Add(time.Minute)
	s.wantSuspect("it is still missing", due(5))
	s.restart()
	s.wantSuspect("a new process has seen it since now", due(6))
	s.now = noon.Add(2 * time.Minute)
	s.machines.observation.Observed = core.Unknown
	s.pass()
	s.machines.observation.Observed = core.Yes
	s.wantSuspect("it may have come and gone meanwhile", due(7))
	s.now = noon.Add(7 * time.Minute)
	live := node("m", "True", time.Hour)
	live.Conditions = append(live.Conditions, core.Condition{Type: "AgentReady", Status: "True", Since: s.now})
	s.machines.live["m-node"] = live
	if did, _ := s.pass(); slices.Contains(did, "begin m") || !slices.Contains(did, "read m") {
		t.Errorf("it is there by then: %v", did)
	}
	delete(s.machines.live, "m-node")
	s.wantSuspect("the live read has shown it", due(12))
	s.now = noon.Add(12 * time.Minute)
	if did, _ := s.pass(); !slices.Contains(did, "begin m") {
		t.Errorf("it has been missing for its time: %v", did)
	}
}
