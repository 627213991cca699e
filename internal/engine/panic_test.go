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

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"

	"github.com/fettle-io/fettle/internal/contain"
	"github.com/fettle-io/fettle/internal/core"
	"github.com/fettle-io/fettle/internal/engine"
)

// panics makes a call panic, by its line in the record.
func (s *fixture) panics(line string) {
	s.wait[line] = func(context.Context) error { panic("the sky falls on " + line) }
}

// wantPanic checks that a pass failed by a panic, with its place.
func (s *fixture) wantPanic(err error, words string) {
	s.Helper()
	if _, panicked := errors.AsType[*contain.PanicError](err); !panicked || !strings.Contains(err.Error(), words) || !strings.Contains(err.Error(), ".go:") {
		s.Errorf("the pass fails with %v, want a panic with %q", err, words)
	}
}

// TestPanicOfOneCallEndsThatCallAlone: calls for other targets become expectations, and are not
// repeated.
func TestPanicOfOneCallEndsThatCallAlone(t *testing.T) {
	for _, call := range []string{"read a", "open a", "begin a"} {
		t.Run(call, func(t *testing.T) {
			s := newFixture(t)
			s.machines.observes(machine("a", dead), machine("b", dead))
			s.panics(call)
			did, _, err := s.tryPass()
			s.wantPanic(err, "the sky falls on "+call)
			if !slices.Contains(did, "begin b") || (call != "begin a" && slices.Contains(did, "begin a")) {
				t.Errorf("it did %v", did)
			}
			delete(s.wait, call)
			did, _ = s.pass()
			if !slices.Contains(did, "begin a") || slices.Contains(did, "begin b") || slices.Contains(did, "open b") {
				t.Errorf("then it did %v", did)
			}
		})
	}
}

// panickyQuorum panics at each read.
type panickyQuorum struct{}

func (panickyQuorum) Survives(context.Context, core.Target) (core.Tri, error) { panic("no votes") }

// TestPanicWhileTheQuorumIsReadFailsThePass. An error would only block the target.
func TestPanicWhileTheQuorumIsReadFailsThePass(t *testing.T) {
	s := newFixture(t)
	s.machines.observes(machine("a", dead, func(t *core.Target) { t.ControlPlane = true }))
	s.Engine.Quorum = panickyQuorum{}
	did, _, err := s.tryPass()
	s.wantPanic(err, "no votes")
	if slices.Contains(did, "begin a") {
		t.Errorf("it did %v", did)
	}
}

// TestPanicWhileALeaseIsGivenBackFailsThePass. After an error, a later pass gives the lease back.
func TestPanicWhileALeaseIsGivenBackFailsThePass(t *testing.T) {
	c := newStepFixture(t, target("Node", "a"))
	c.ledger.has(runningSteps(target("Node", "a")))
	c.panics("release a-node of check")
	_, _, err := c.runs(func(d *core.Decision, _ *core.Cluster) {
		d.Finishes = []core.Finish{{Outcome: core.Succeeded}}
	})
	c.wantPanic(err, "the sky falls")
}

// TestNothingBeginsInAPassThatPanics before its first write.
func TestNothingBeginsInAPassThatPanics(t *testing.T) {
	falls := func() { panic("the sky falls") }
	for sentence, plant := range map[string]func(*fixture){
		"while it observes": func(s *fixture) { s.machines.onObserve = falls },
		"while it records":  func(s *fixture) { s.panics("record workers") },
	} {
		t.Run(sentence, func(t *testing.T) {
			s := newFixture(t)
			s.machines.observes(machine("a", dead), machine("b"))
			s.ledger.has(running(machine("b")))
			plant(s)
			did, next, err := s.tryPass()
			s.wantPanic(err, "the sky falls")
			for _, line := range did {
				if strings.HasPrefix(line, "open") || strings.HasPrefix(line, "begin") || strings.HasPrefix(line, "amend") {
					t.Errorf("it did %v", did)
				}
			}
			s.wantNext(next, time.Time{})
			s.machines.onObserve = nil
			delete(s.wait, "record workers")
			if did, _ = s.pass(); !slices.Contains(did, "begin a") {
				t.Errorf("when it panics no more it did %v", did)
			}
		})
	}
}

// TestWhatWasDoneBeforeAPanicIsNotDoneAgain: the event of a repair panics after the repair has
// begun.
func TestWhatWasDoneBeforeAPanicIsNotDoneAgain(t *testing.T) {
	s := newFixture(t)
	s.machines.observes(machine("a", dead))
	s.machines.onAnnounce = func() { panic("the sky falls") }
	did, _, err := s.tryPass()
	s.wantPanic(err, "the sky falls")
	s.wantDid("it begins", did, "read a", "record workers", "open a", "begin a")
	s.machines.onAnnounce = nil
	did, _ = s.pass()
	s.wantDid("it has begun", did, "record workers")
}

// TestPanicBesideOtherStagesWaitsForThem, so that no two passes act at a time.
func TestPanicBesideOtherStagesWaitsForThem(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFixture(t)
		s.machines.observes(machine("a", dead))
		marks := &panickyWriter{dialect: s.machines}
		s.dialects = []engine.Dialect{marks}
		s.restart()
		ended := false
		s.wait["begin a"] = func(ctx context.Context) error {
			err := withGrace(ctx, time.Second)
			ended = true
			return err
		}
		_, _, err := s.tryPass()
		s.wantPanic(err, "no ink")
		if !ended {
			t.Error("the pass ended before a remedy that it called")
		}
		delete(s.wait, "begin a")
		marks.mended = true
		if did, _ := s.pass(); slices.Contains(did, "begin a") {
			t.Errorf("what was begun is begun again: %v", did)
		}
	})
}

// panickyWriter panics when it should write conditions.
type panickyWriter struct {
	*dialect

	mended bool
}

func (p *panickyWriter) WriteConditions(context.Context, []core.Policy, *core.Cluster, []core.CombinedVerdict) (bool, error) {
	if !p.mended {
		panic("no ink")
	}
	return false, nil
}

// slowWriter writes conditions for a second.
type slowWriter struct {
	*dialect

	marked bool
}

func (p *slowWriter) WriteConditions(context.Context, []core.Policy, *core.Cluster, []core.CombinedVerdict) (bool, error) {
	<-time.After(time.Second)
	p.marked = true
	return false, nil
}

// TestPassThatPanicsEndsAfterItsOtherStages: otherwise their goroutines would act beside the next
// pass.
func TestPassThatPanicsEndsAfterItsOtherStages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFixture(t)
		s.machines.observes(machine("a", dead))
		marks := &slowWriter{dialect: s.machines}
		s.dialects = []engine.Dialect{marks}
		s.restart()
		s.machines.onAnnounce = func() { panic("the sky falls") }
		_, _, err := s.tryPass()
		s.wantPanic(err, "the sky falls")
		if !marks.marked {
			t.Error("the pass ended before its marks were made")
		}
	})
}

// TestPanicsAreCounted by cluster, also if many other calls of the pass have failed.
func TestPanicsAreCounted(t *testing.T) {
	c := newCounted(t)
	c.Engine.ClusterKey = "east"
	c.machines.observes(many(20)...)
	series := []string{"panics_total", "passes_total"}
	for i := range 20 {
		c.refuse[fmt.Sprintf("read m-%03d", i)] = errDown
	}
	_, _, _ = c.tryPass()
	c.wants("errors are no panics", series, "panics_total east: 0", "passes_total error: 1")
	c.panics("read m-019")
	_, _, _ = c.tryPass()
	c.wants("one call panics, and all others fail", series, "panics_total east: 1", "passes_total error: 2")
	c.panics("record workers")
	_, _, _ = c.tryPass()
	c.wants("the pass panics", series, "panics_total east: 2", "passes_total error: 3")
	c.metrics.CountPanic("east")
	c.wants("its connection panics", series, "panics_total east: 3", "passes_total error: 3")
	c.metrics.DeleteCluster("east")
	c.wants("the cluster is gone", series, "passes_total error: 3")
}

// TestClusterThatPanicsIsTriedAgainAfterGrowingPauses, whatever events come. Other clusters go on.
func TestClusterThatPanicsIsTriedAgainAfterGrowingPauses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var logged []string
		log := funcr.New(func(_, args string) { logged = append(logged, args) }, funcr.Options{})
		var mended atomic.Bool
		k := runs(t, log, map[string]pass{"a": func(context.Context, int) (time.Time, error) {
			if !mended.Load() {
				panic("the sky falls")
			}
			return time.Time{}, nil
		}, "b": idle})
		defer k.stop()
		for range 20 * 100 {
			k.Wake("a")
			k.Wake("b")
			k.after(50 * time.Millisecond)
		}
		at, want := coalesced, []time.Duration{coalesced}
		for pause := time.Second; at+pause < 100*time.Second; pause = min(2*pause, 30*time.Second) {
			at += pause
			want = append(want, at)
		}
		k.wantPasses("the pauses double up to half a minute", "a", want...)
		if got := len(k.taken("b")); got < 400 {
			t.Errorf("the other cluster was passed over %d times", got)
		}
		if len(logged) != len(want) || !strings.Contains(logged[0], "the sky falls") || !strings.Contains(logged[0], "panic_test.go:") {
			t.Errorf("it is told %d times: %q", len(logged), logged)
		}
		mended.Store(true)
		k.after(time.Minute)
		k.taken("a")
		k.Wake("a")
		k.after(time.Second)
		if got := len(k.taken("a")); got != 1 {
			t.Errorf("once it panics no more, an event leads to %d passes", got)
		}
		mended.Store(false)
		k.Wake("a")
		k.after(500 * time.Millisecond)
		mended.Store(true)
		k.after(time.Second)
		if at := k.taken("a"); len(at) != 2 || at[1]-at[0] != time.Second {
			t.Errorf("when it panics again it is passed over at %v", at)
		}
	})
}

// TestPanicOfOneCallPausesItsCluster too, although other calls succeeded and set the next deadline.
func TestPanicOfOneCallPausesItsCluster(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := runs(t, logr.Discard(), map[string]pass{"a": func(context.Context, int) (time.Time, error) {
			return clock().Add(100 * time.Millisecond), errors.Join(errDown, contain.Run(func() error { panic("the sky falls") }))
		}})
		defer k.stop()
		k.after(10 * time.Second)
		k.wantPasses("it waits", "a", coalesced, coalesced+time.Second, coalesced+3*time.Second, coalesced+7*time.Second)
	})
}
