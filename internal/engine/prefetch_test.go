package engine_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fettle-io/fettle/internal/core"
)

// unhealthySince makes the node of a target not Ready for a time.
func unhealthySince(since time.Duration) func(*core.Target) {
	return func(t *core.Target) { t.Node = node(t.ID.Name, "False", since) }
}

// prefetched returns a fixture at one second before the deadline of a, whose node was just read.
func prefetched(t *testing.T) (*fixture, time.Time) {
	t.Helper()
	s := newFixture(t)
	s.machines.observes(machine("a", unhealthySince(0)), machine("b"))
	did, early := s.pass()
	s.wantDid("a is a suspect", did, "record workers", "tell suspected a")
	s.now = early
	did, due := s.pass()
	s.wantDid("its deadline is near", did, "record workers", "read a")
	if !due.Equal(early.Add(time.Second)) {
		t.Fatalf("woken at %s for %s", early, due)
	}
	return s, due
}

// TestNodesAreReadBeforeTheDeadline: at the deadline the repair needs no read.
func TestNodesAreReadBeforeTheDeadline(t *testing.T) {
	s, due := prefetched(t)
	s.now = due.Add(-time.Millisecond)
	did, _ := s.pass()
	s.wantDid("a millisecond is left", did, "record workers")
	s.now = due
	did, _ = s.pass()
	s.wantDid("its time is up", did, "record workers", "open a", "begin a", "tell begun a")
}

// TestWhatChangesIsReadAgain: an early read of a node that has changed doesn't count.
func TestWhatChangesIsReadAgain(t *testing.T) {
	for name, change := range map[string]func(*fixture, *core.Target, time.Time){
		"another transition": func(_ *fixture, t *core.Target, due time.Time) {
			t.Node.Conditions = []core.Condition{{Type: "Ready", Status: "False", Since: due.Add(-10 * time.Minute)}}
		},
		"another condition": func(_ *fixture, t *core.Target, _ time.Time) {
			t.Node.Conditions = append(slices.Clone(t.Node.Conditions), core.Condition{Type: "DiskPressure", Status: "True", Since: noon})
		},
		"another node":  func(_ *fixture, t *core.Target, _ time.Time) { t.Node.UID = "another" },
		"a new process": func(s *fixture, _ *core.Target, _ time.Time) { s.restart() },
		"time":          func(s *fixture, _ *core.Target, _ time.Time) { s.now = s.now.Add(20 * time.Second) },
	} {
		t.Run(name, func(t *testing.T) {
			s, due := prefetched(t)
			s.now = due
			change(s, &s.machines.observation.Targets[0], due)
			if did, _ := s.pass(); !slices.Contains(did, "read a") || !slices.Contains(did, "begin a") {
				t.Errorf("it did %q", did)
			}
		})
	}
}

// TestNodesAreReadBesideRepairs: nodes that are due in a second are read during the repairs of
// others. The pass may still run at their deadline. Later deadlines can wait.
func TestNodesAreReadBesideRepairs(t *testing.T) {
	s := newFixture(t)
	s.machines.observes(machine("a", unhealthySince(2*time.Second)), machine("b", unhealthySince(time.Second)), machine("c", unhealthySince(0)))
	_, s.now = s.pass()
	_, s.now = s.pass()
	read := make(chan struct{})
	s.wait["read b"] = func(context.Context) error {
		close(read)
		return nil
	}
	s.wait["begin a"] = func(ctx context.Context) error {
		select {
		case <-read:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	for _, now := range []struct{ begun, read string }{{"a", "b"}, {"b", "c"}, {"c", ""}} {
		did, due := s.pass()
		var ahead []string
		for _, call := range did {
			if name, is := strings.CutPrefix(call, "read "); is {
				ahead = append(ahead, name)
			}
		}
		if !slices.Contains(did, "begin "+now.begun) || strings.Join(ahead, " ") != now.read {
			t.Errorf("when %s is due, it did %q", now.begun, did)
		}
		s.now = due
	}
}

// TestNearDeadlineAfterALongPass: if a deadline is near by the end of a long pass, the next pass
// runs at once, reads early, and waits.
func TestNearDeadlineAfterALongPass(t *testing.T) {
	s := newFixture(t)
	s.machines.observes(machine("a", unhealthySince(0)), machine("b", unhealthySince(time.Minute)))
	_, s.now = s.pass()
	_, s.now = s.pass()
	deadline := s.now.Add(time.Minute)
	s.wait["begin b"] = func(context.Context) error {
		s.now = deadline.Add(-100 * time.Millisecond)
		return nil
	}
	did, again := s.pass()
	if !slices.Contains(did, "begin b") || again.After(s.now) {
		t.Fatalf("at %s it did %q and wants to be woken at %s", s.now, did, again)
	}
	did, due := s.pass()
	if !slices.Contains(did, "read a") || !due.Equal(deadline) {
		t.Errorf("it did %q and wants to be woken at %s", did, due)
	}
}

// TestReadsCountFromWhenTheyBegan: the node may have changed during the read.
func TestReadsCountFromWhenTheyBegan(t *testing.T) {
	takes := func(s *fixture, d time.Duration) func(context.Context) error {
		return func(context.Context) error {
			s.now = s.now.Add(d)
			return nil
		}
	}
	t.Run("at the deadline", func(t *testing.T) {
		s := newFixture(t)
		s.machines.observes(machine("a", dead))
		s.wait["read a"] = takes(s, 10*time.Second)
		did, _ := s.pass()
		s.wantDid("the answer is too old when it comes", did, "read a", "record workers")
		s.wait["read a"] = takes(s, 10*time.Second-time.Millisecond)
		if did, _ = s.pass(); !slices.Contains(did, "begin a") {
			t.Errorf("the answer is young enough, and it did %q", did)
		}
	})
	t.Run("ahead of it", func(t *testing.T) {
		s := newFixture(t)
		s.machines.observes(machine("a", unhealthySince(0)))
		_, early := s.pass()
		s.now = early
		s.wait["read a"] = takes(s, 900*time.Millisecond)
		s.pass()
		delete(s.wait, "read a")
		s.now = early.Add(10 * time.Second)
		if did, _ := s.pass(); !slices.Contains(did, "read a") || !slices.Contains(did, "begin a") {
			t.Errorf("the answer is too old by now, and it did %q", did)
		}
	})
}

// TestEarlyReadThatFailsIsNoMatter: the node is read at the deadline.
func TestEarlyReadThatFailsIsNoMatter(t *testing.T) {
	s := newFixture(t)
	s.machines.observes(machine("a", unhealthySince(0)))
	_, s.now = s.pass()
	s.refuse["read a"] = errDown
	_, due, err := s.tryPass()
	if err != nil {
		t.Errorf("the pass fails: %v", err)
	}
	s.refuse = map[string]error{}
	s.now = due
	did, _ := s.pass()
	s.wantDid("its time is up", did, "read a", "record workers", "open a", "begin a", "tell begun a")
}

// TestEarlyReadThatHangsPutsNothingOff: it ends at the deadline, when other targets are due too.
func TestEarlyReadThatHangsPutsNothingOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFixture(t)
		s.machines.observes(machine("a", unhealthySince(0)))
		_, s.now = s.pass()
		s.wait["read a"] = hangs(time.Hour)
		began := clock()
		_, due := s.pass()
		if took := clock().Sub(began); took > due.Sub(s.now) {
			t.Errorf("the pass took %s, though the next is due in %s", took, due.Sub(s.now))
		}
	})
}

// TestOnlyWhatMayBeRepairedIsReadEarly: the number of reads is that of repairs.
func TestOnlyWhatMayBeRepairedIsReadEarly(t *testing.T) {
	s := newFixture(t)
	s.machines.observes(machine("a", unhealthySince(0)), machine("b", unhealthySince(0)), machine("c", unhealthySince(0)))
	p := &s.machines.observation.Policies[0]
	p.MaxInFlight = core.Count(1)
	_, s.now = s.pass()
	did, _ := s.pass()
	s.wantDid("one may be repaired at a time", did, "record workers", "read a")
	p.Paused = true
	s.restart()
	if did, _ = s.pass(); slices.ContainsFunc(did, func(call string) bool { return strings.HasPrefix(call, "read") }) {
		t.Errorf("none may be repaired, and it did %q", did)
	}
}
