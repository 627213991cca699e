package engine_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fettle-io/fettle/internal/core"
)

// ailing has had a node that is not Ready for so long.
func ailing(since time.Duration) func(*core.Target) {
	return func(t *core.Target) { t.Node = node(t.ID.Name, "False", since) }
}

// foreseen gives a stage at one second before the deadline of a, whose node has been read then.
func foreseen(t *testing.T) (*stage, time.Time) {
	t.Helper()
	s := newStage(t)
	s.machines.observes(machine("a", ailing(0)), machine("b"))
	did, early := s.passes()
	s.wantDid("a is a suspect", did, "record workers", "tell suspected a")
	s.now = early
	did, due := s.passes()
	s.wantDid("its deadline is near", did, "record workers", "read a")
	if !due.Equal(early.Add(time.Second)) {
		t.Fatalf("woken at %s for %s", early, due)
	}
	return s, due
}

// TestNodesAreReadBeforeTheDeadline: at the deadline nothing is left to do but the repair.
func TestNodesAreReadBeforeTheDeadline(t *testing.T) {
	s, due := foreseen(t)
	s.now = due.Add(-time.Millisecond)
	did, _ := s.passes()
	s.wantDid("a millisecond is left", did, "record workers")
	s.now = due
	did, _ = s.passes()
	s.wantDid("its time is up", did, "record workers", "open a", "begin a", "tell begun a")
}

// TestWhatChangesIsReadAgain: what was read early counts no more.
func TestWhatChangesIsReadAgain(t *testing.T) {
	for name, change := range map[string]func(*stage, *core.Target, time.Time){
		"another transition": func(_ *stage, t *core.Target, due time.Time) {
			t.Node.Conditions = []core.Condition{{Type: "Ready", Status: "False", Since: due.Add(-10 * time.Minute)}}
		},
		"another condition": func(_ *stage, t *core.Target, _ time.Time) {
			t.Node.Conditions = append(slices.Clone(t.Node.Conditions), core.Condition{Type: "DiskPressure", Status: "True", Since: noon})
		},
		"another node":  func(_ *stage, t *core.Target, _ time.Time) { t.Node.UID = "another" },
		"a new process": func(s *stage, _ *core.Target, _ time.Time) { s.restart() },
		"time":          func(s *stage, _ *core.Target, _ time.Time) { s.now = s.now.Add(20 * time.Second) },
	} {
		t.Run(name, func(t *testing.T) {
			s, due := foreseen(t)
			s.now = due
			change(s, &s.machines.observation.Targets[0], due)
			if did, _ := s.passes(); !slices.Contains(did, "read a") || !slices.Contains(did, "begin a") {
				t.Errorf("it did %q", did)
			}
		})
	}
}

// TestEarlyReadThatFailsIsNoMatter: the node is read at the deadline.
func TestEarlyReadThatFailsIsNoMatter(t *testing.T) {
	s := newStage(t)
	s.machines.observes(machine("a", ailing(0)))
	_, s.now = s.passes()
	s.refuse["read a"] = errDown
	_, due, err := s.tries()
	if err != nil {
		t.Errorf("the pass fails: %v", err)
	}
	s.refuse = map[string]error{}
	s.now = due
	did, _ := s.passes()
	s.wantDid("its time is up", did, "read a", "record workers", "open a", "begin a", "tell begun a")
}

// TestOnlyWhatMayBeRepairedIsReadEarly: reads are as many as repairs.
func TestOnlyWhatMayBeRepairedIsReadEarly(t *testing.T) {
	s := newStage(t)
	s.machines.observes(machine("a", ailing(0)), machine("b", ailing(0)), machine("c", ailing(0)))
	p := &s.machines.observation.Policies[0]
	p.MaxInFlight = core.Count(1)
	_, s.now = s.passes()
	did, _ := s.passes()
	s.wantDid("one may be repaired at a time", did, "record workers", "read a")
	p.Paused = true
	s.restart()
	if did, _ = s.passes(); slices.ContainsFunc(did, func(call string) bool { return strings.HasPrefix(call, "read") }) {
		t.Errorf("none may be repaired, and it did %q", did)
	}
}
