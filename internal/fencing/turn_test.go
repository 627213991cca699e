package fencing_test

import (
	"testing"
	"time"

	"github.com/fettle-io/fettle/internal/fencing"
)

// TestARepeatedCommandWaitsForItsTurn, and the power is read meanwhile.
func TestARepeatedCommandWaitsForItsTurn(t *testing.T) {
	const repeat = 30 // seconds
	power := commandedOn(repeat, read(fencing.IsOff, 1))
	check(t, map[string]edge{
		"its turn is later":           {limits, recorded(fencing.PoweringOn), turnAt(seen(down(), power), 9), waits(fencing.PowerNotOn, 1)},
		"the same, and a read is due": {limits, recorded(fencing.PoweringOn), turnAt(seen(down(), commandedOn(repeat, read(fencing.IsOff, 2))), 9), does(fencing.ReadPower)},
		"its turn has come":           {limits, recorded(fencing.PoweringOn), turnAt(seen(down(), power), 0), does(fencing.CommandOn)},
		"its turn is not known":       {limits, recorded(fencing.PoweringOn), seen(down(), power), does(fencing.CommandOn)},
		"its power is not known":      {limits, recorded(fencing.PoweringOn), turnAt(seen(down(), commandedOn(repeat, read(fencing.PowerUnknown, 1))), 0), waits(fencing.PowerNotOn, 1)},
	})
}

// TestLimitBeforeTheTurn: a turn that has come before the phase does not shorten its limit.
func TestLimitBeforeTheTurn(t *testing.T) {
	r := recorded(fencing.PoweringOn)
	f := seen(down(), commandedOn(5, read(fencing.PowerUnknown, 3)))
	f.PowerOnTurn = r.Since.Add(-time.Minute)
	f.Now = r.Since.Add(limits.Limits.PowerOn - 1)
	if got := fencing.Next(limits, r, f); got.Kind != fencing.ReadPower {
		t.Errorf("before the limit: %+v", got)
	}
}
