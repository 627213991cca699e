package fencing_test

import (
	"testing"
	"time"

	"github.com/fettle-io/fettle/internal/fencing"
)

// TestPhaseStart: a phase begins when it was recorded, or when it is seen first if that is earlier. It keeps its start.
func TestPhaseStart(t *testing.T) {
	since := func(s fencing.PhaseStart) time.Time { return s.Record(fencing.Record{}).Since }
	for name, recorded := range map[string]time.Time{
		"a minute ago": start.Add(-time.Minute), "now": start, "in a moment": start.Add(1), "in a year": start.AddDate(1, 0, 0),
	} {
		want := recorded
		if want.After(start) {
			want = start
		}
		s := fencing.PhaseStart{}.At(recorded, start)
		if got := since(s); !got.Equal(want) {
			t.Errorf("%s: it begins %v, want %v", name, got, want)
		}
		for _, now := range []time.Time{start.Add(-time.Hour), start.Add(time.Hour)} {
			if got := since(s.At(recorded, now)); !got.Equal(want) {
				t.Errorf("%s: seen again at %v, it begins %v, want %v", name, now, got, want)
			}
		}
		if got := s.Recorded(s.Record(fencing.Record{Attempt: 2})); !got.Since.Equal(recorded) || got.Attempt != 2 {
			t.Errorf("%s: a phase that goes on is recorded as %+v", name, got)
		}
		next := start.Add(time.Second)
		if got := s.Recorded(fencing.Record{Since: next}); !got.Since.Equal(next) {
			t.Errorf("%s: the next phase is recorded as of %v", name, got.Since)
		}
		if got := since(s.At(next, next)); !got.Equal(next) {
			t.Errorf("%s: the next phase begins %v", name, got)
		}
	}
}

// TestNoPhaseStart: a phase whose start is not recorded is over its limits, however often it is seen. It is not recorded later.
func TestNoPhaseStart(t *testing.T) {
	var s fencing.PhaseStart
	for range 2 {
		s = s.At(time.Time{}, start)
		r := s.Record(fencing.Record{})
		if r.Since.After(start.AddDate(-100, 0, 0)) {
			t.Errorf("it begins %v", r.Since)
		}
		if got := s.Recorded(r); !got.Since.IsZero() {
			t.Errorf("it is recorded as of %v", got.Since)
		}
	}
}
