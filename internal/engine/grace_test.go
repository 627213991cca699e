package engine_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fettle-io/fettle/internal/core"
)

// mercy is how long calls under way may go on after a pass is cancelled.
const mercy = 5 * time.Second

// hangs returns a call that waits for a while, or until its context ends.
func hangs(d time.Duration) func(context.Context) error {
	return func(ctx context.Context) error { return withGrace(ctx, d) }
}

// stopsAfter cancels a pass after a while, and returns how long the pass took.
func (s *fixture) stopsAfter(d time.Duration) (time.Duration, error) {
	s.Helper()
	ctx, stop := context.WithCancel(s.Context())
	time.AfterFunc(d, stop)
	began := clock()
	_, err := s.Pass(ctx)
	return clock().Sub(began), err
}

// TestCallsUnderWayHaveAGrace: a cancelled pass waits for calls under way, and records their
// results.
func TestCallsUnderWayHaveAGrace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFixture(t)
		s.machines.observes(machine("a", dead), machine("b", dead))
		s.wait["begin a"] = hangs(3 * time.Second)
		s.wait["begin b"] = func(ctx context.Context) error {
			_ = hangs(3 * time.Second)(ctx)
			return errDown
		}
		took, err := s.stopsAfter(time.Second)
		if took != 3*time.Second || err != nil {
			t.Errorf("it took %s to end, with %v", took, err)
		}
		if a, b := s.ledger.of("a")[0], s.ledger.of("b")[0]; a.Attempts != 0 || b.Attempts != 1 {
			t.Errorf("attempts: %d of the accepted call, %d of the refused call", a.Attempts, b.Attempts)
		}
		if got := s.reported(); got != "tell begun a, tell refused b" {
			t.Errorf("told: %s", got)
		}
	})
}

// TestCutOffCallIsNotRefused: the result of a call that was cut off is unknown, so no refusal is
// recorded.
func TestCutOffCallIsNotRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFixture(t)
		s.machines.observes(machine("a", dead))
		s.wait["begin a"] = hangs(time.Hour)
		took, err := s.stopsAfter(time.Second)
		if took != time.Second+mercy || !errors.Is(err, context.Canceled) {
			t.Errorf("it took %s to end, with %v", took, err)
		}
		if r := s.ledger.of("a")[0]; r.Attempts != 0 || !r.Running() {
			t.Errorf("the repair says %+v", r)
		}
		if got := s.reported(); got != "" {
			t.Errorf("told: %s", got)
		}
		delete(s.wait, "begin a")
		s.calls = nil
		s.restart()
		s.syncCaches()
		did, _ := s.pass()
		s.wantDid("the next leader goes on with it", did, "read a", "record workers", "begin a", "tell begun a")
	})
}

// TestCallThatHangsIsRefused: at its time limit, in a pass that isn't cancelled.
func TestCallThatHangsIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFixture(t)
		s.machines.observes(machine("a", dead))
		s.wait["begin a"] = hangs(time.Hour)
		s.pass()
		if r := s.ledger.of("a")[0]; r.Attempts != 1 {
			t.Errorf("the repair says %+v", r)
		}
	})
}

// TestNothingBeginsAfterCancellation, whichever stage is open when the pass is cancelled.
func TestNothingBeginsAfterCancellation(t *testing.T) {
	cases := map[string]struct {
		hangs string
		want  []string
	}{
		"before the status": {"read a", []string{"read a"}},
		"before the repair": {"record workers", []string{"read a", "record workers"}},
	}
	for sentence, tc := range cases {
		t.Run(sentence, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newFixture(t)
				s.machines.observes(machine("a", dead))
				s.wait[tc.hangs] = hangs(2 * time.Second)
				if _, err := s.stopsAfter(time.Second); !errors.Is(err, context.Canceled) {
					t.Errorf("it ended with %v", err)
				}
				s.wantDid("nothing more", s.calls, tc.want...)
			})
		})
	}
}

// TestStageThatHangsEnds, however many calls it has, while none is answered.
func TestStageThatHangsEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFixture(t)
		targets := make([]core.Target, 500)
		for i := range targets {
			name := "m" + string(rune('a'+i/26)) + string(rune('a'+i%26))
			targets[i] = machine(name, dead)
			s.wait["read "+name] = hangs(time.Hour)
		}
		s.machines.observes(targets...)
		began := clock()
		if _, err := s.Pass(t.Context()); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("it ended with %v", err)
		}
		if took := clock().Sub(began); took > 5*time.Minute {
			t.Errorf("it took %s", took)
		}
	})
}

// TestEachRoundOfReadsHasItsOwnTime: slow reads of the first round don't shorten the second.
func TestEachRoundOfReadsHasItsOwnTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFixture(t)
		s.machines.observes(machine("a", dead), machine("b", dead), machine("c", dead))
		s.machines.observation.Policies[0].MaxInFlight = core.Count(1)
		for _, name := range []string{"a", "b", "c"} {
			s.wait["read "+name] = hangs(8 * time.Second)
		}
		for _, name := range []string{"a", "b"} { // each makes room for the next
			s.machines.live[name+"-node"] = node(name, "True", time.Second)
		}
		did, _ := s.pass()
		s.wantDid("c is read in time", did, "read a", "read b", "read c", "record workers", "open c", "read running", "begin c", "tell begun c")
	})
}

// TestStageThatOpensAgainHasItsWholeTime: the first round of reads begins none after half a minute, and its last reads
// end later. The second round has the time of a whole stage.
func TestStageThatOpensAgainHasItsWholeTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFixture(t)
		targets := many(161)
		s.machines.observes(targets...)
		s.machines.observation.Policies[0].MaxInFlight = core.Count(160)
		for i := range targets {
			name := targets[i].ID.Name
			s.wait["read "+name] = hangs(9 * time.Second)
			if i < 160 {
				s.machines.live[name+"-node"] = node(name, "True", time.Second)
			}
		}
		did, _, err := s.tryPass()
		if err == nil || !strings.Contains(err.Error(), "other calls took too long") {
			t.Errorf("it ended with %v", err)
		}
		reads := 0
		for _, line := range did {
			if strings.HasPrefix(line, "read m-") {
				reads++
			}
		}
		if reads != 4*32+1 || !slices.Contains(did, "begin m-160") {
			t.Errorf("there are %d reads, and all calls are %q", reads, did)
		}
	})
}
