package powercycle

import (
	"time"

	"github.com/fettle-io/fettle/internal/fencing"
)

// noon is when these tests take place.
var noon = time.Date(2026, time.August, 3, 12, 0, 0, 0, time.UTC)

// phases are all phases of a fencing that has begun.
var phases = []fencing.Phase{
	fencing.Preparing, fencing.PoweringOff, fencing.Releasing, fencing.PoweringOn, fencing.Booting, fencing.Restoring,
	fencing.Aborting, fencing.DeletingMachine, fencing.Succeeded, fencing.Failed, fencing.Aborted,
}
