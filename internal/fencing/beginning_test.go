package fencing_test

import (
	"testing"
	"time"

	"github.com/fettle-io/fettle/internal/fencing"
)

// TestBeginning: a phase begins when it was recorded, or when it is seen first if that is earlier. It keeps its beginning.
func TestBeginning(t *testing.T) {
	since := func(b fencing.Beginning) time.Time { return b.Record(fencing.Record{}).Since }
	for name, recorded := range map[string]time.Time{
		"a minute ago": start.Add(-time.Minute), "now": start, "in a moment": start.Add(1), "in a year": start.AddDate(1, 0, 0),
	} {
		want := recorded
		if want.After(start) {
			want = start
		}
		b := fencing.Beginning{}.At(recorded, start)
		if got := since(b); !got.Equal(want) {
			t.Errorf("%s: it begins %v, want %v", name, got, want)
		}
		for _, now := range []time.Time{start.Add(-time.Hour), start.Add(time.Hour)} {
			if got := since(b.At(recorded, now)); !got.Equal(want) {
				t.Errorf("%s: seen again at %v, it begins %v, want %v", name, now, got, want)
			}
		}
		if got := b.Recorded(b.Record(fencing.Record{Attempt: 2})); !got.Since.Equal(recorded) || got.Attempt != 2 {
			t.Errorf("%s: a phase that goes on is recorded as %+v", name, got)
		}
		next := start.Add(time.Second)
		if got := b.Recorded(fencing.Record{Since: next}); !got.Since.Equal(next) {
			t.Errorf("%s: the next phase is recorded as of %v", name, got.Since)
		}
		if got := since(b.At(next, next)); !got.Equal(next) {
			t.Errorf("%s: the next phase begins %v", name, got)
		}
	}
}

// TestNoBeginning: a phase whose beginning is not recorded is over its limits, however often it is seen. It is not recorded later.
func TestNoBeginning(t *testing.T) {
	var b fencing.Beginning
	for range 2 {
		b = b.At(time.Time{}, start)
		r := b.Record(fencing.Record{})
		if r.Since.After(start.AddDate(-100, 0, 0)) {
			t.Errorf("it begins %v", r.Since)
		}
		if got := b.Recorded(r); !got.Since.IsZero() {
			t.Errorf("it is recorded as of %v", got.Since)
		}
	}
}
