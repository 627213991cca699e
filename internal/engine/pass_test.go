package engine_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/fettle-io/fettle/internal/core"
)

// wantDid checks the calls of a pass, in their order.
func (s *fixture) wantDid(sentence string, did []string, want ...string) {
	s.Helper()
	if diff := cmp.Diff(want, did); diff != "" {
		s.Errorf("%s; calls (-want +got):\n%s", sentence, diff)
	}
}

func (s *fixture) wantNext(next, want time.Time) {
	s.Helper()
	if !next.Equal(want) {
		s.Errorf("the next pass is due at %s, want %s", next, want)
	}
}

func TestRecordThenBeginThenFinish(t *testing.T) {
	s := newFixture(t)
	s.machines.observes(machine("m", dead))
	s.ledger.has(running(machine("old")))
	did, next := s.pass()
	s.wantDid("status first, then the repair and its remedy, and what has ended last, since no call waits for that", did,
		"read m", "record workers", "open m", "begin m", "tell begun m", "amend old: Succeeded")
	s.wantNext(next, noon.Add(time.Second)) // what has ended made room
}

// TestRepairIsRecordedBeforeItsRemedyBegins, for each of many repairs that run at a time.
func TestRepairIsRecordedBeforeItsRemedyBegins(t *testing.T) {
	s := newFixture(t)
	s.machines.observes(many(100)...)
	did, _ := s.pass()
	for i := range 100 {
		opened, begun := slices.Index(did, fmt.Sprintf("open m-%03d", i)), slices.Index(did, fmt.Sprintf("begin m-%03d", i))
		if opened < 0 || begun < opened {
			t.Errorf("m-%03d was recorded in call %d and begun in call %d", i, opened, begun)
		}
	}
}

func many(n int) []core.Target {
	targets := make([]core.Target, n)
	for i := range targets {
		targets[i] = machine(fmt.Sprintf("m-%03d", i), dead)
	}
	return targets
}

// TestCallsRunInBoundedParallel: some at a time, and all in the end.
func TestCallsRunInBoundedParallel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFixture(t)
		targets := many(100)
		s.machines.observes(targets...)
		var at, most atomic.Int32
		for i := range targets {
			s.wait["begin "+targets[i].ID.Name] = func(ctx context.Context) error {
				most.Store(max(most.Load(), at.Add(1)))
				defer at.Add(-1)
				return withGrace(ctx, time.Second)
			}
		}
		start := clock()
		s.pass()
		if got := most.Load(); got != 32 {
			t.Errorf("%d remedies ran at a time, want 32", got)
		}
		if took := clock().Sub(start); took != 4*time.Second {
			t.Errorf("100 remedies of a second each took %s, want 4s", took)
		}
		if got := len(s.machines.deleted); got != 100 {
			t.Errorf("%d of 100 were deleted", got)
		}
	})
}

// clock returns the time of the test's bubble.
func clock() time.Time { return time.Now() } //nolint:forbidigo // time in a bubble is injected

// within waits for a while, or for the end of the context.
func withGrace(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

func TestNothingBeginsUnrecorded(t *testing.T) {
	s := newFixture(t)
	s.machines.observes(machine("a", dead), machine("b", dead))
	s.refuse["open a"] = errDown
	did, _, err := s.tryPass()
	if !errors.Is(err, errDown) || !strings.Contains(err.Error(), "machines/a") {
		t.Errorf("the error %v does not tell which repair was not recorded", err)
	}
	if slices.Contains(did, "begin a") || !slices.Contains(did, "begin b") {
		t.Errorf("only b may begin: %v", did)
	}
	delete(s.refuse, "open a")
	did, _ = s.pass()
	s.wantDid("the rest follows in the next pass", did, "read a", "record workers", "open a", "begin a", "tell begun a")
}

// TestRepairRecordedByAnotherLeader (I2): until the caches show the other leader's repair,
// the pass does nothing and reports no error.
func TestRepairRecordedByAnotherLeader(t *testing.T) {
	s := newFixture(t)
	m := machine("m", dead)
	s.machines.observes(m)
	theirs := running(m)
	s.ledger.stored[theirs.Name] = theirs
	did, next := s.pass()
	s.wantDid("the name is taken", did, "read m", "record workers", "open m")
	s.wantNext(next, noon.Add(time.Second))
	s.syncCaches()
	did, _ = s.pass()
	s.wantDid("the repair is in the ledger and is carried on", did, "read m", "record workers", "begin m", "tell begun m")
}

func TestStatusThatIsNotWrittenBlocksItsMembersOnly(t *testing.T) {
	s := newFixture(t)
	carried := machine("carried", dead)
	s.machines.observation.Targets = []core.Target{machine("a", dead), machine("b", dead), machine("shared", dead), carried}
	s.machines.observation.Policies = []core.Policy{policy("broken", []int{0, 2, 3}), policy("fine", []int{1, 2})}
	s.ledger.has(running(carried, func(r *core.Repair) { r.Policy.Name, r.Policy.UID = "broken", "broken-uid" }))
	s.refuse["record broken"] = errDown
	did, _, err := s.tryPass()
	if !errors.Is(err, errDown) || !strings.Contains(err.Error(), "machines/broken") {
		t.Errorf("the error %v does not tell which status was not written", err)
	}
	var begun []string
	for _, line := range did {
		if strings.HasPrefix(line, "begin") || strings.HasPrefix(line, "open") {
			begun = append(begun, line)
		}
	}
	s.wantDid("only b is selected by no policy whose status is unwritten", begun, "open b", "begin b")
}

func TestFailedLiveReadBlocksNoOtherTarget(t *testing.T) {
	s := newFixture(t)
	s.machines.observes(machine("a", dead), machine("b", dead))
	s.refuse["read a"] = errDown
	did, _, err := s.tryPass()
	if !errors.Is(err, errDown) || !strings.Contains(err.Error(), "machines/a") {
		t.Errorf("the error %v does not tell which node was not read", err)
	}
	if slices.Contains(did, "open a") || !slices.Contains(did, "begin b") {
		t.Errorf("only b may begin: %v", did)
	}
	if reads := gauge(did, "read a"); reads != 1 {
		t.Errorf("the read that failed was done %d times in one pass", reads)
	}
}

// TestUnreadableTargetIsNotInFlight: with a limit of one, the next target is repaired.
func TestUnreadableTargetIsNotInFlight(t *testing.T) {
	s := newFixture(t)
	s.machines.observes(machine("a", dead), machine("b", dead), machine("c", dead))
	s.machines.observation.Policies[0].MaxInFlight = core.Count(1)
	s.refuse["read a"] = errDown
	did, _, err := s.tryPass()
	if !errors.Is(err, errDown) {
		t.Errorf("the error is %v", err)
	}
	s.wantDid("a can't be read, and b follows it", did, "read a", "read b", "record workers", "open b", "read running", "begin b", "tell begun b")
}

// TestI3LimitsHoldAgainstAnotherLeader: a repair that another leader recorded counts, though no
// cache shows it and its target isn't observed here.
func TestI3LimitsHoldAgainstAnotherLeader(t *testing.T) {
	theirs := map[string]core.Target{
		"of a target that is seen here": machine("b"),
		"of a stranger":                 machine("stranger"),
	}
	for sentence, theirTarget := range theirs {
		t.Run(sentence, func(t *testing.T) {
			s := newFixture(t)
			s.machines.observes(machine("a", dead), machine("b"), machine("c"))
			s.machines.observation.Policies[0].MaxInFlight = core.Count(1)
			other := running(theirTarget)
			s.ledger.stored[other.Name] = other
			did, next := s.pass()
			s.wantDid("the other repair was there first", did, "read a", "record workers", "open a", "read running")
			if !next.Equal(noon.Add(time.Second)) {
				t.Errorf("the next look is at %s", next)
			}
			delete(s.ledger.stored, other.Name)
			did, _ = s.pass()
			s.wantDid("there is room now", did, "read a", "record workers", "read running", "begin a", "tell begun a")
		})
	}
}

// TestI1NothingBeginsLongAfterTheLiveRead: a process that was suspended in between must not act on
// old facts.
func TestI1NothingBeginsLongAfterTheLiveRead(t *testing.T) {
	s := newFixture(t)
	s.machines.observes(machine("a", dead))
	s.machines.observation.Policies[0].MaxInFlight = core.Count(1)
	s.wait["read running"] = func(context.Context) error {
		s.now = noon.Add(time.Minute)
		return nil
	}
	did, next := s.pass()
	s.wantDid("its node was read a minute ago", did, "read a", "record workers", "open a", "read running")
	if !next.Equal(noon.Add(time.Second)) {
		t.Errorf("the next look is at %s", next)
	}
	delete(s.wait, "read running")
	s.syncCaches()
	did, _ = s.pass()
	s.wantDid("it is read again", did, "read a", "record workers", "read running", "begin a", "tell begun a")
}

// TestNothingBeginsOnALedgerThatCannotBeRead from the API server, if a limit applies.
func TestNothingBeginsOnALedgerThatCannotBeRead(t *testing.T) {
	s := newFixture(t)
	s.machines.observes(machine("a", dead))
	s.machines.observation.Policies[0].MaxInFlight = core.Count(1)
	s.refuse["read running"] = errDown
	did, _, err := s.tryPass()
	if !errors.Is(err, errDown) || !strings.Contains(err.Error(), "the repairs that run") {
		t.Errorf("the error is %v", err)
	}
	s.wantDid("it is recorded and waits", did, "read a", "record workers", "open a", "read running")
	delete(s.refuse, "read running")
	did, _ = s.pass()
	s.wantDid("it goes on", did, "read a", "record workers", "read running", "begin a", "tell begun a")
}

// TestNodeThatIsGoneIsNotLookedForAgain while its repair is blocked.
func TestNodeThatIsGoneIsNotLookedForAgain(t *testing.T) {
	s := newFixture(t)
	s.machines.observes(machine("m", unseen))
	s.machines.observation.Policies[0].Paused = true
	s.machines.live["m-node"] = core.Node{State: core.NodeGone, Name: "m-node"}
	did, _ := s.pass()
	s.wantDid("its absence is not confirmed yet", did, "read m", "record workers")
	did, _ = s.pass()
	s.wantDid("its absence is known", did, "record workers")
}

// TestTimeThatReadingTakesHasPassed: a repair starts when it was decided, after the reads.
func TestTimeThatReadingTakesHasPassed(t *testing.T) {
	s := newFixture(t)
	s.machines.observes(machine("m", dead))
	s.wait["read m"] = func(context.Context) error {
		s.now = s.now.Add(2 * time.Second)
		return nil
	}
	s.pass()
	for _, r := range s.ledger.of("m") {
		if want := noon.Add(2 * time.Second); !r.Started.Equal(want) {
			t.Errorf("it started at %s, want %s", r.Started, want)
		}
	}
}

func gauge(lines []string, line string) int {
	n := 0
	for _, l := range lines {
		if l == line {
			n++
		}
	}
	return n
}

func TestLiveReadDecides(t *testing.T) {
	cases := map[string]struct {
		reason string
		cached func(*core.Target)
		live   core.Node
		begins bool
	}{
		"dead in the cache, well in truth":     {"it has recovered", dead, node("m", "True", time.Second), false},
		"dead in both":                         {"", dead, node("m", "False", time.Hour), true},
		"dead since long, and since just now":  {"its clock has begun anew (I5)", dead, node("m", "False", time.Minute), false},
		"unseen in the cache, there in truth":  {"it has just joined", unseen, node("m", "True", time.Second), false},
		"unseen in the cache, gone in truth":   {"it was removed", unseen, core.Node{State: core.NodeGone, Name: "m-node"}, true},
		"dead in the cache, gone in truth":     {"it was removed meanwhile", dead, core.Node{State: core.NodeGone, Name: "m-node"}, true},
		"unseen in the cache, dead in truth":   {"it is unhealthy in each read", unseen, node("m", "False", time.Hour), true},
		"unseen in the cache, ailing in truth": {"its time is not over", unseen, node("m", "False", time.Minute), false},
	}
	for sentence, tc := range cases {
		t.Run(sentence, func(t *testing.T) {
			s := newFixture(t)
			s.machines.observes(machine("m", tc.cached))
			s.machines.live["m-node"] = tc.live
			did, _ := s.pass()
			if begun := slices.Contains(did, "begin m"); begun != tc.begins {
				t.Errorf("it begins: %t, want %t, since %s\n%v", begun, tc.begins, tc.reason, did)
			}
			if reads := gauge(did, "read m"); reads != 1 {
				t.Errorf("its node was read %d times", reads)
			}
		})
	}
}

// TestWellTargetsAreNotReadLive: a healthy cluster costs no calls but statuses.
func TestWellTargetsAreNotReadLive(t *testing.T) {
	s := newFixture(t)
	s.machines.observes(machine("a"), machine("b"), machine("leaving", dead, func(t *core.Target) { t.Deleting = true }))
	did, next := s.pass()
	s.wantDid("nothing is wrong", did, "record workers")
	s.wantNext(next, time.Time{})
}

func TestRefusedRemedy(t *testing.T) {
	s := newFixture(t)
	s.machines.observes(machine("m", dead))
	s.refuse["begin m"] = errDown
	did, next := s.pass()
	s.wantDid("the attempt is recorded", did, "read m", "record workers", "open m", "begin m", "amend m: attempts", "tell refused m")
	s.wantNext(next, noon.Add(time.Second))
	wantAttempts(s, 1, noon)

	s.now = noon.Add(999 * time.Millisecond)
	did, next = s.pass()
	s.wantDid("its pause is not over, also while the caches lag", did, "record workers")
	s.wantNext(next, noon.Add(time.Second))

	s.now = noon.Add(time.Second)
	did, next = s.pass()
	s.wantDid("it is tried again at the end of the pause", did, "read m", "record workers", "read running", "begin m", "amend m: attempts", "tell refused m")
	s.wantNext(next, s.now.Add(time.Second)) // a look around; the pause has doubled
	wantAttempts(s, 2, s.now)

	s.restart()
	s.syncCaches()
	s.now = noon.Add(2999 * time.Millisecond)
	did, next = s.pass()
	s.wantDid("a new process keeps to the pause", did, "record workers")
	s.wantNext(next, noon.Add(3*time.Second))

	s.now, s.refuse = noon.Add(3*time.Second), map[string]error{}
	did, _ = s.pass()
	s.wantDid("it is granted at last", did, "read m", "record workers", "begin m", "tell begun m")
}

func wantAttempts(s *fixture, attempts int, last time.Time) {
	s.Helper()
	for _, r := range s.ledger.of("m") {
		if r.Attempts != attempts || !r.LastAttempt.Equal(last) {
			s.Errorf("the ledger has %d attempts, the last at %s; want %d at %s", r.Attempts, r.LastAttempt, attempts, last)
		}
	}
}

// TestAttemptThatIsNotRecorded is still an expectation.
func TestAttemptThatIsNotRecorded(t *testing.T) {
	s := newFixture(t)
	s.machines.observes(machine("m", dead))
	s.refuse["begin m"], s.refuse["amend m: attempts"] = errors.New("forbidden"), errDown
	if _, _, err := s.tryPass(); !errors.Is(err, errDown) {
		t.Errorf("the error is %v", err)
	}
	s.syncCaches()
	s.now = noon.Add(500 * time.Millisecond)
	did, _ := s.pass()
	s.wantDid("its pause is not over", did, "record workers")
}

// TestRemedyThatHangs: the call has a time limit, and recording its result has its own.
func TestRemedyThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFixture(t)
		s.machines.observes(machine("m", dead))
		s.wait["begin m"] = func(ctx context.Context) error { return withGrace(ctx, 24*time.Hour) }
		start := clock()
		if _, _, err := s.tryPass(); err != nil {
			t.Errorf("the pass failed: %v", err)
		}
		if took := clock().Sub(start); took > time.Minute {
			t.Errorf("the pass took %s", took)
		}
		for _, r := range s.ledger.of("m") {
			if r.Attempts != 1 {
				t.Errorf("the ledger has %d attempts, want 1: a new process would not pause", r.Attempts)
			}
		}
	})
}

func TestAcceptedDeletionIsNotRepeatedWhileCachesLag(t *testing.T) {
	s := newFixture(t)
	s.machines.observes(machine("m", dead))
	if did, _ := s.pass(); !slices.Contains(did, "begin m") {
		t.Fatalf("it did not begin: %v", did)
	}
	for range 3 {
		s.now = s.now.Add(time.Minute)
		did, _ := s.pass()
		s.wantDid("the caches show neither the repair nor the deletion", did, "record workers")
	}
	s.syncCaches()
	did, _ := s.pass()
	s.wantDid("it is being deleted", did, "record workers")
	s.restart()
	did, _ = s.pass()
	s.wantDid("a new process leaves it alone", did, "record workers")
	s.machines.observes()
	did, _ = s.pass()
	s.wantDid("it is gone", did, "record workers", "amend m: Succeeded")
	did, _ = s.pass()
	s.wantDid("its end is not recorded twice while the cache lags", did, "record workers")
}

// TestNewProcessCarriesOn where another one died between recording a repair and calling its remedy.
func TestNewProcessCarriesOn(t *testing.T) {
	s := newFixture(t)
	m := machine("m", dead)
	s.machines.observes(m)
	s.ledger.has(running(m))
	did, _ := s.pass()
	s.wantDid("it is begun, and not recorded once more", did, "read m", "record workers", "begin m", "tell begun m")
	s.restart()
	did, _ = s.pass()
	s.wantDid("a deletion that no cache shows is repeated, which is harmless", did, "read m", "record workers", "begin m", "tell begun m")
	if got := len(s.ledger.of("m")); got != 1 {
		t.Errorf("%d repairs were recorded", got)
	}
}

func TestTargetThatChangedIsJudgedAgain(t *testing.T) {
	for _, answer := range []core.RemedyResult{core.Vanished, core.Stale} {
		t.Run(answer.String(), func(t *testing.T) {
			s := newFixture(t)
			s.machines.observes(machine("m", dead))
			s.answer["m"] = answer
			did, next := s.pass()
			s.wantDid("nothing was done to it, and nothing is told", did, "read m", "record workers", "open m", "begin m")
			s.wantNext(next, noon.Add(time.Second))
			wantAttempts(s, 0, time.Time{})
			s.machines.observes(machine("m"))
			did, _ = s.pass()
			s.wantDid("it is well by now", did, "record workers", "amend m: Recovered")
		})
	}
}

func TestEndThatIsNotRecordedIsTriedAgain(t *testing.T) {
	s := newFixture(t)
	s.machines.observes(machine("m"))
	s.ledger.has(running(machine("m")))
	s.refuse["amend m: Recovered"] = errDown
	for range 2 {
		did, next, err := s.tryPass()
		if !errors.Is(err, errDown) {
			t.Errorf("the error is %v", err)
		}
		if !next.IsZero() {
			t.Errorf("the next look is at %s, which cuts the pause after a failure short", next)
		}
		s.wantDid("it is well", did, "record workers", "amend m: Recovered")
	}
}

func TestUnknownRemedy(t *testing.T) {
	s := newFixture(t)
	s.machines.observes(machine("m", dead))
	s.machines.observation.Policies[0].Steps[0].Remedy = "Bless"
	if did, _, err := s.tryPass(); err == nil || !strings.Contains(err.Error(), "Bless") || slices.Contains(did, "begin m") {
		t.Errorf("it did %v, and tells %v", did, err)
	}
}

// TestI1NothingHappensOutOfStep: the pass doesn't even write a status.
func TestI1NothingHappensOutOfStep(t *testing.T) {
	cases := map[string]struct {
		reason string
		spoil  func(s *fixture)
		fails  bool
	}{
		"targets are not in step":    {"a cache that has not synced", func(s *fixture) { s.machines.observation.Observed = core.Unknown }, false},
		"targets are out of step":    {"the API is not served", func(s *fixture) { s.machines.observation.Observed = core.No }, false},
		"the ledger is not in step":  {"running repairs are unknown", func(s *fixture) { s.ledger.inStep = core.Unknown }, false},
		"the ledger is out of step":  {"Repairs are not served", func(s *fixture) { s.ledger.inStep = core.No }, false},
		"targets can't be observed":  {"an error is told", func(s *fixture) { s.machines.err = errDown }, true},
		"there is no dialect at all": {"there is nothing to observe", func(s *fixture) { s.dialects = nil; s.restart() }, false},
	}
	for sentence, tc := range cases {
		t.Run(sentence, func(t *testing.T) {
			s := newFixture(t)
			s.machines.observes(machine("m", dead))
			s.ledger.has(running(machine("gone")), running(machine("old"), endedAt(ago(48*time.Hour))))
			tc.spoil(s)
			did, next, err := s.tryPass()
			if (err != nil) != tc.fails || len(did) > 0 || !next.IsZero() {
				t.Errorf("%s: it did %v, is due again at %s and tells %v", tc.reason, did, next, err)
			}
		})
	}
}

func TestFinishedRepairsArePruned(t *testing.T) {
	s := newFixture(t)
	s.machines.observes(machine("m"))
	young := running(machine("young"), endedAt(ago(time.Hour)))
	s.ledger.has(running(machine("old"), endedAt(ago(24*time.Hour))), young)
	did, next := s.pass()
	s.wantDid("its day is over", did, "record workers", "drop old")
	s.wantNext(next, noon.Add(23*time.Hour))
	s.syncCaches()
	did, _ = s.pass()
	s.wantDid("it is gone", did, "record workers")
	s.now, s.refuse["drop young"] = noon.Add(23*time.Hour), errDown
	if _, _, err := s.tryPass(); !errors.Is(err, errDown) {
		t.Errorf("the error is %v", err)
	}
	delete(s.refuse, "drop young")
	did, _ = s.pass()
	s.wantDid("what failed is tried again", did, "record workers", "drop young")
}

// TestPruningSparesWhatHasChanged: a repair that changed after the read isn't deleted.
func TestPruningSparesWhatHasChanged(t *testing.T) {
	s := newFixture(t)
	s.machines.observes(machine("m"))
	old := running(machine("old"), endedAt(ago(24*time.Hour)))
	s.ledger.has(old)
	stored := s.ledger.stored[old.Name]
	stored.Revision++
	s.ledger.stored[old.Name] = stored
	did, next := s.pass()
	s.wantDid("it has changed", did, "record workers", "drop old")
	s.wantNext(next, noon.Add(time.Second))
	if len(s.ledger.of("old")) == 0 {
		t.Fatal("it is deleted")
	}
	s.syncCaches()
	did, next = s.pass()
	s.wantDid("the change is seen", did, "record workers", "drop old")
	s.wantNext(next, time.Time{})
}

// TestPruningSparesBackOff: the pause before the next repair of a pool doesn't depend on flags,
// also in a new process.
func TestPruningSparesBackOff(t *testing.T) {
	s := newFixture(t)
	sick := machine("young", func(t *core.Target) { t.Created, t.Node = ago(20*time.Minute), node("young", "False", 10*time.Minute) })
	s.machines.observes(sick)
	s.machines.observation.Policies[0].Backoff = core.Backoff{Base: time.Hour, Limit: 24 * time.Hour}
	for i := range 3 {
		s.ledger.has(running(machine(fmt.Sprintf("before-%d", i)), endedAt(ago(30*time.Minute)), func(r *core.Repair) { r.Owner, r.Retry = sick.Owner, i }))
	}
	s.ledger.has(running(machine("unrelated"), endedAt(ago(4*time.Hour))))
	want := []string{"record workers", "tell held young", "drop unrelated"}
	for range 2 {
		s.restart()
		s.Retention = core.Retention{For: time.Second, Max: 1}
		did, _ := s.pass()
		s.wantDid("the next repair waits, and nothing goes that it needs for that", did, want...)
		s.syncCaches()
		want = want[:2]
	}
}

// TestI06WrongClockPrunesNothing: by a clock that is ahead, each finished repair seems old. It is
// deleted once the clocks agree, if retention allows it then.
func TestI06WrongClockPrunesNothing(t *testing.T) {
	for _, agrees := range []core.Tri{core.No, core.Unknown} {
		for _, turns := range []string{"before the pass", "during the pass", "before the pass, and back during it"} {
			s := newFixture(t)
			s.machines.observes(machine("well"))
			s.ledger.has(running(machine("old"), endedAt(ago(25*time.Hour))))
			turn := func(to core.Tri) func(context.Context) error {
				return func(context.Context) error {
					s.clock.agrees = to
					return nil
				}
			}
			if turns == "during the pass" {
				s.wait["record workers"] = turn(agrees)
			} else {
				s.clock.agrees = agrees
			}
			if turns == "before the pass, and back during it" {
				s.wait["record workers"] = turn(core.Yes)
			}
			did, _ := s.pass()
			s.wantDid("the clock agrees: "+agrees.String()+", "+turns, did, "record workers")
			delete(s.wait, "record workers")
			s.clock.agrees = core.Yes
			did, _ = s.pass()
			s.wantDid("the clock agrees again", did, "record workers", "drop old")
		}
	}
}

// TestEngineKeepsTimeAfterAStorm: the cooldown of a short circuit ends in time, though no cache
// shows it.
func TestEngineKeepsTimeAfterAStorm(t *testing.T) {
	s := newFixture(t)
	s.machines.observes(machine("a", dead), machine("b", dead), machine("c"))
	p := &s.machines.observation.Policies[0]
	p.ShortCircuit, p.StormCooldown = core.ShortCircuit{MaxUnhealthy: core.Count(1)}, 5*time.Second
	did, _ := s.pass()
	s.wantDid("too many are unhealthy", did, "record workers", "tell restricted")
	s.machines.observation.Targets[1] = machine("b")
	did, next := s.pass()
	s.wantDid("enough are well, but only just", did, "record workers")
	s.wantNext(next, noon.Add(5*time.Second))
	s.now = noon.Add(4 * time.Second)
	did, next = s.pass()
	s.wantDid("the cooldown lasts", did, "record workers")
	s.wantNext(next, noon.Add(5*time.Second))
	s.now = noon.Add(5 * time.Second)
	did, _ = s.pass()
	s.wantDid("it is over", did, "read a", "record workers", "open a", "begin a", "tell begun a")
}

func TestStatesAreEmittedOnce(t *testing.T) {
	s := newFixture(t)
	failing := func(t *core.Target) { t.Node = node(t.ID.Name, "False", 0) }
	s.machines.observes(machine("orphan", dead, func(t *core.Target) { t.Owner = core.ID{} }), machine("sick", failing))
	emitted := []string{"record workers", "tell suspected sick", "tell held orphan"}
	did, next := s.pass()
	s.wantDid("both begin", did, emitted...)
	s.wantNext(next, noon.Add(5*time.Minute-time.Second)) // its node is read ahead
	did, _ = s.pass()
	s.wantDid("both last", did, "record workers")
	s.machines.observation.Targets[1] = machine("sick")
	s.pass()
	s.machines.observation.Targets[1] = machine("sick", failing)
	did, _ = s.pass()
	s.wantDid("one begins anew", did, "record workers", "tell suspected sick")
	s.restart()
	did, _ = s.pass()
	s.wantDid("a new process tells them again", did, emitted...)
}

// TestEventsAreLogged, once each.
func TestEventsAreLogged(t *testing.T) {
	s := newFixture(t)
	s.machines.observes(machine("a", unhealthySince(time.Minute)))
	var logged []string
	s.Engine.Log = lines(&logged)
	s.pass()
	s.pass()
	if len(logged) != 1 || !strings.Contains(logged[0], `"msg"="target is not healthy"`) || !strings.Contains(logged[0], `"target"="Machine machines/a"`) {
		t.Errorf("logged are %q", logged)
	}
}

// TestObservationIsLeftAsItWas: a dialect may reuse its observation.
func TestObservationIsLeftAsItWas(t *testing.T) {
	s := newFixture(t)
	second := s.dialect("Node")
	s.restart()
	s.machines.observes(machine("a", dead), machine("b", unseen))
	second.observes(target("Node", "n", dead))
	second.observation.Policies[0].ID.UID = "nodes-uid"
	before := second.observation.Policies[0].Members
	s.pass()
	if diff := cmp.Diff([]int{0}, before); diff != "" {
		t.Errorf("members (-want +got):\n%s", diff)
	}
}
