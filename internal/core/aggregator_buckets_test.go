package core

import (
	"testing"
	"time"
)

// TestAggregatorForgetsBuckets: a bucket that is full again is forgotten, or each policy that ever
// was would keep one.
func TestAggregatorForgetsBuckets(t *testing.T) {
	now := time.Date(2026, time.August, 3, 12, 0, 0, 0, time.UTC)
	var d Aggregator
	d.Add([]Event{{Kind: EventSuspected}}, now)
	for after, want := range map[time.Duration]int{
		aggregationBurst*aggregationWindow - 1: 1,
		aggregationBurst * aggregationWindow:   0,
	} {
		d := d.Clone()
		d.Add(nil, now.Add(after))
		if len(d.buckets) != want {
			t.Errorf("after %s there are %d buckets, want %d", after, len(d.buckets), want)
		}
	}
}
