package fencing_test

import (
	"testing"

	"github.com/fettle-io/fettle/internal/fencing"
)

// TestABootThatWasTakenForOff: reads of the power that a BMC had cached proved a host off that runs in a new boot, since a pod there tolerates the
// taint. The next read voids that proof, and the new boot is the proof once that pod is gone. Its kubelet may run, so that its node is not deleted. The
// node is back once it is Ready.
func TestABootThatWasTakenForOff(t *testing.T) {
	c, n, r := with(deleteNode), down(rebooted), recorded(fencing.PoweringOff)
	writes := func(want fencing.Phase, f fencing.Facts) {
		t.Helper()
		step := fencing.Next(c, r, f)
		if step.Kind != fencing.Write || step.Record.Phase != want {
			t.Fatalf("%+v follows %+v", step, r)
		}
		r = step.Record
	}
	tolerant := func(f *fencing.Facts) { f.Workload = &fencing.Workload{Tolerant: 1} }
	writes(fencing.Releasing, known(n, commandedOff(30, read(fencing.IsOff, 20), read(fencing.IsOff, 0)), tolerant))
	writes(fencing.PoweringOff, known(n, commandedOff(30, read(fencing.IsOn, 0))))
	writes(fencing.Releasing, drained(known(n, fencing.Power{})))
	writes(fencing.Releasing, drained(known(n, fencing.Power{})))
	if step := fencing.Next(c, r, drained(known(n, fencing.Power{}))); step.Kind != fencing.SetOutOfService || r.DeletedNode {
		t.Errorf("%+v follows %+v", step, r)
	}
	r.Phase = fencing.Booting
	writes(fencing.Restoring, known(down(rebooted, ready), fencing.Power{}))
}
