package engine_test

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/fettle-io/fettle/internal/core"
)

// readsFor runs ten passes a second for a while, as events cause them. It returns when the node of
// m was read.
func (s *fixture) readsFor(during time.Duration) (reads []time.Duration) {
	s.Helper()
	start := s.now
	for end := start.Add(during); s.now.Before(end); s.now = s.now.Add(100 * time.Millisecond) {
		did, next, _ := s.tryPass()
		if slices.Contains(did, "read m") {
			reads = append(reads, s.now.Sub(start))
		}
		if next.IsZero() {
			s.Fatalf("%s after the start nothing wakes to read it again", s.now.Sub(start))
		}
	}
	return reads
}

func seconds(all ...int) []time.Duration {
	var ds []time.Duration
	for _, n := range all {
		ds = append(ds, time.Duration(n)*time.Second)
	}
	return ds
}

// TestNodeThatTheCacheLacksIsReadAfterGrowingPauses. The last read counts meanwhile.
func TestNodeThatTheCacheLacksIsReadAfterGrowingPauses(t *testing.T) {
	s := newFixture(t)
	s.machines.observes(machine("m", unseen))
	s.machines.live["m-node"] = node("m", "True", time.Hour)
	got := s.readsFor(4 * time.Minute)
	if diff := cmp.Diff(seconds(0, 10, 30, 70, 130, 190), got); diff != "" {
		t.Errorf("reads of a node that exists (-want +got):\n%s", diff)
	}
	s.machines.observes(machine("m"))
	s.pass()
	s.machines.observes(machine("m", unseen))
	if diff := cmp.Diff(seconds(0, 10), s.readsFor(25*time.Second)); diff != "" {
		t.Errorf("reads after the cache has shown it (-want +got):\n%s", diff)
	}
	s.machines.observes(machine("m", unseen, func(t *core.Target) { t.Node.Name = "other" }))
	s.machines.live["other"] = node("other", "True", time.Hour)
	if diff := cmp.Diff(seconds(0, 10), s.readsFor(25*time.Second)); diff != "" {
		t.Errorf("reads of another node of the same machine (-want +got):\n%s", diff)
	}
}

// TestNodeThatCanNotBeReadIsReadAfterGrowingPauses, which begin short, since the node may be gone.
func TestNodeThatCanNotBeReadIsReadAfterGrowingPauses(t *testing.T) {
	s := newFixture(t)
	s.refuse["read m"] = errDown
	for sentence, change := range map[string]func(*core.Target){
		"that is judged by its node": func(*core.Target) {}, "that is unhealthy whatever its node": func(t *core.Target) { t.Failed = true },
	} {
		s.restart()
		s.machines.observes(machine("m", unseen, change))
		if diff := cmp.Diff(seconds(0, 1, 3, 7, 15, 31, 63, 123, 183), s.readsFor(4*time.Minute)); diff != "" {
			t.Errorf("reads that fail, of a machine %s (-want +got):\n%s", sentence, diff)
		}
	}
	delete(s.refuse, "read m")
	s.machines.live["m-node"] = core.Node{State: core.NodeGone, Name: "m-node"}
	s.now = s.now.Add(time.Minute)
	if did, _ := s.pass(); !slices.Contains(did, "begin m") {
		t.Errorf("its node is gone, and it is not repaired: %v", did)
	}
}

// TestWhatWasReadOfANodeIsJudged until the next read: the target isn't unknown in between, and its
// time runs.
func TestWhatWasReadOfANodeIsJudged(t *testing.T) {
	s := newFixture(t)
	s.machines.observes(machine("m", unseen), machine("n"))
	s.machines.observation.Policies[0].ShortCircuit = core.ShortCircuit{MaxUnhealthy: core.Count(0)}
	s.machines.live["m-node"] = node("m", "True", time.Hour)
	for range 20 {
		s.pass()
		if p := s.machines.observation.Policies[0]; p.WasStopped {
			t.Fatalf("%s after it was read m is not known to be healthy", s.now.Sub(noon))
		}
		s.now = s.now.Add(500 * time.Millisecond)
	}
	s.machines.observation.Policies[0].ShortCircuit = core.ShortCircuit{MaxUnhealthy: core.Percent(100)}
	s.machines.live["m-node"] = node("m", "False", 4*time.Minute)
	did, _ := s.pass()
	s.wantDid("it is read again, and its time is not over", did, "read m", "record workers", "tell suspected m")
	s.now = noon.Add(time.Minute)
	did, _ = s.pass()
	s.wantDid("its time is over", did, "read m", "record workers", "open m", "begin m", "tell begun m")
}
