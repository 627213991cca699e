package fencing_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/fettle-io/fettle/internal/fencing"
)

// TestTimes: the instants of an attempt are noted once, and a new attempt has none of the one before.
func TestTimes(t *testing.T) {
	none := fencing.Power{}
	early := fencing.Times{CommandedAt: start.Add(time.Second), ReleasedAt: start.Add(2 * time.Second), BackAt: start.Add(3 * time.Second), BackBootID: "boot 3"}
	noted := func(r *fencing.Record) { r.Times = early }
	proof := commandedOff(9, read(fencing.IsOff, 5), read(fencing.IsOff, 0))
	retries := limits
	retries.Retries = 1
	unreleased, unreturned := early, early
	unreleased.ReleasedAt = time.Time{}
	unreturned.BackAt, unreturned.BackBootID = in(0), "boot 2"
	for name, c := range map[string]struct {
		config fencing.Config
		record fencing.Record
		facts  fencing.Facts
		want   fencing.Times
	}{
		"a new attempt has none":           {retries, recorded(fencing.Booting, noted), known(down(), none, atTheLimit), fencing.Times{}},
		"a void proof keeps the command":   {limits, recorded(fencing.Releasing, noted), seen(down(), commandedOff(30, read(fencing.IsOn, 0))), early},
		"a new proof is not released yet":  {limits, recorded(fencing.PoweringOff, noted, released), seen(down(), proof), unreleased},
		"the node was back before the end": {limits, recorded(fencing.Restoring, noted), seen(back(), none), early},
		"it is seen to be back":            {limits, recorded(fencing.Booting, noted, func(r *fencing.Record) { r.BackAt = time.Time{} }), seen(down(rebooted, ready), none), unreturned},
		"it is not back at the end":        {limits, recorded(fencing.Aborting, poweredOn), seen(down(restored, untainted), none), fencing.Times{}},
	} {
		got := fencing.Next(c.config, c.record, c.facts)
		if got.Kind != fencing.Write {
			t.Errorf("%s: the next step is %+v", name, got)
		}
		if d := cmp.Diff(c.want, got.Record.Times); d != "" {
			t.Errorf("%s: the times differ from the wanted ones (-wanted +got):\n%s", name, d)
		}
	}
}
