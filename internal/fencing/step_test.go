package fencing

import (
	"testing"
	"time"
)

// TestWait: a step waits until the first of its instants, in whatever order they are.
func TestWait(t *testing.T) {
	var never time.Time
	sooner := time.Date(2026, time.August, 3, 12, 0, 0, 0, time.UTC)
	later := sooner.Add(time.Minute)
	for _, tc := range []struct {
		instants []time.Time
		want     time.Time
	}{
		{nil, never},
		{[]time.Time{never}, never},
		{[]time.Time{never, later}, later},
		{[]time.Time{later, never}, later},
		{[]time.Time{sooner, later}, sooner},
		{[]time.Time{later, sooner}, sooner},
	} {
		if s := wait(NodeReady, tc.instants...); s.Kind != Wait || s.Reason != NodeReady || !s.Until.Equal(tc.want) {
			t.Errorf("of %v it waits until %v: %+v", tc.instants, s.Until, s)
		}
	}
}
