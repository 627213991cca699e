package core_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/fettle-io/fettle/internal/core"
)

// TestI05ClockBehindRewritesNothing: Fettle's clock was set two hours back while a repair runs. The recorded
// instants as it reads them are not written, or a step would have begun two hours ago once the clock is right again.
func TestI05ClockBehindRewritesNothing(t *testing.T) {
	p := check("p", []int{0}, escalating)
	n, written := aNode("n", dead), noon.Add(2*time.Hour)
	recorded := repair(n, p, recovered(written), attempts(1, written), func(r *core.Repair) {
		r.Begun, r.Tried = written, []core.StepRecord{{Ended: written.Add(-time.Hour), Outcome: core.Failed}}
	})
	var m core.Expectations
	read := laid(&m, noon, []core.Target{n}, recorded).Repairs[0]
	if !read.StepBegan().Equal(noon) || !read.Recovered.Equal(noon) {
		t.Fatalf("its step began at %s and it recovered at %s, want when they were first seen", read.StepBegan(), read.Recovered)
	}
	read.Answer, recorded.Answer, recorded.RecordedElsewhere = "wait", "wait", true
	if diff := cmp.Diff(recorded, read.ToWrite()); diff != "" {
		t.Errorf("an answer is noted (-want +got):\n%s", diff)
	}
	m.ExpectRepair(read, noon)
	if again := laid(&m, noon.Add(time.Minute), []core.Target{n}, recorded).Repairs[0]; !again.StepBegan().Equal(noon) {
		t.Errorf("a minute after it was recorded its step began at %s, want %s", again.StepBegan(), noon)
	}
	tried := read
	tried.LastAttempt = noon.Add(time.Minute)
	if got := tried.ToWrite().LastAttempt; !got.After(written) {
		t.Errorf("another attempt is recorded for %s, and not after the last one", got)
	}
	gaveUp := read
	gaveUp.GiveUpStep(core.StepRecord{Ended: noon.Add(time.Minute), Outcome: core.TimedOut})
	if got := gaveUp.ToWrite(); !got.StepBegan().After(written.Add(-time.Hour)) || !got.LastAttempt.IsZero() || !got.Begun.IsZero() {
		t.Errorf("the next step begins at %s, and not after the one before it, or has attempts: %+v", got.StepBegan(), got)
	}
	if !read.Tried[0].Ended.Equal(noon) {
		t.Error("what the pass decides on has changed")
	}
}

// TestI05ClockBackKeepsPace: Fettle's clock and the API server's were two hours ahead while a repair was recorded, and are right again.
// A step that ends now is recorded for a later instant than the one before, so that it counts from now.
func TestI05ClockBackKeepsPace(t *testing.T) {
	p := check("p", []int{0}, escalating)
	n, written, later := aNode("n", dead), noon.Add(2*time.Hour), noon.Add(30*time.Minute)
	recorded := repair(n, p, attempts(9, written), func(r *core.Repair) {
		r.Begun, r.Tried = written, []core.StepRecord{{Ended: written.Add(-time.Hour), Outcome: core.Failed}}
	})
	for name, change := range map[string]func(*core.Repair){
		"attempt":  func(r *core.Repair) { r.Attempts, r.LastAttempt = r.Attempts+1, later },
		"handover": func(r *core.Repair) { r.Begun = later },
		"step":     func(r *core.Repair) { r.GiveUpStep(core.StepRecord{Ended: later, Outcome: core.TimedOut}) },
	} {
		t.Run(name, func(t *testing.T) {
			var m core.Expectations
			laid(&m, noon, []core.Target{n}, recorded)
			r := laid(&m, later, []core.Target{n}, recorded).Repairs[0]
			change(&r)
			m.ExpectRepair(r, later)
			again := laid(&m, later.Add(time.Second), []core.Target{n}, recorded).Repairs[0]
			for what, at := range map[string]time.Time{"attempt": again.LastAttempt, "handover": again.Begun, "step": again.StepBegan()} {
				if what == name && at.Before(later) {
					t.Errorf("it counts from %s, before it happened", at)
				}
			}
		})
	}
}

// TestRecordedInstantsNeverMoveBack, whatever the clock shows and however often the record is written.
func TestRecordedInstantsNeverMoveBack(t *testing.T) {
	p := check("p", []int{0}, escalating)
	n := aNode("n", dead)
	rapid.Check(t, func(t *rapid.T) {
		var m core.Expectations
		record := repair(n, p)
		for range rapid.IntRange(2, 12).Draw(t, "writes") {
			now := noon.Add(time.Duration(rapid.IntRange(-180, 180).Draw(t, "minutes")) * time.Minute)
			if rapid.Bool().Draw(t, "restart") {
				m = core.Expectations{}
			}
			f := clusterOf([]core.Target{n}, record)
			m.Overlay(&f, now)
			r := f.Repairs[0]
			switch rapid.IntRange(0, 2).Draw(t, "change") {
			case 0:
				r.GiveUpStep(core.StepRecord{Ended: now, Outcome: core.Failed})
			case 1:
				r.Attempts, r.LastAttempt = r.Attempts+1, now
			case 2:
				r.Recovered = latestOf(r.Recovered, now)
			}
			written := r.ToWrite()
			for i := range record.Tried {
				if written.Tried[i].Ended.Before(record.Tried[i].Ended) {
					t.Fatalf("step %d ended at %s, and is recorded to have ended at %s", i, record.Tried[i].Ended, written.Tried[i].Ended)
				}
			}
			for i := 1; i < len(written.Tried); i++ {
				if written.Tried[i].Ended.Before(written.Tried[i-1].Ended) {
					t.Fatalf("step %d is recorded to have ended at %s, before the one before it", i, written.Tried[i].Ended)
				}
			}
			if !written.LastAttempt.IsZero() && written.LastAttempt.Before(record.LastAttempt) {
				t.Fatalf("the attempt of %s is recorded for %s", record.LastAttempt, written.LastAttempt)
			}
			if written.Recovered.Before(record.Recovered) {
				t.Fatalf("the recovery of %s is recorded for %s", record.Recovered, written.Recovered)
			}
			m.ExpectRepair(r, now)
			record = written
			record.RecordedElsewhere = false
		}
	})
}

func latestOf(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// TestLeastDistanceOfInstants: an instant that would not be after the recorded one is recorded a microsecond after it.
func TestLeastDistanceOfInstants(t *testing.T) {
	later := noon.Add(time.Hour)
	r := core.Repair{StepState: core.StepState{Begun: noon}, Tried: []core.StepRecord{{Ended: noon}, {Ended: ago(time.Hour)}}}
	r.Written = core.WrittenTimes{Begun: core.WrittenTime{Recorded: later, Effective: ago(time.Minute)}, Steps: []time.Time{later}}
	got := r.ToWrite()
	if want := later.Add(time.Microsecond); !got.Begun.Equal(want) || !got.Tried[0].Ended.Equal(later) || !got.Tried[1].Ended.Equal(want) {
		t.Errorf("it is recorded as begun at %s and with the steps %v, want %s", got.Begun, got.Tried, want)
	}
}
