package openshift

import (
	"fmt"
	"runtime"
	"testing"
)

// TestI15HealthChecksThatSelectTheSame: the cost of storing a health check does not grow with the
// number of others that select the same machines. A copied list for each machine would take
// gigabytes.
func TestI15HealthChecksThatSelectTheSame(t *testing.T) {
	const machines, checks = 100, 2000
	f := newStore()
	for i := range machines {
		f.putMachine(aMachine(fmt.Sprintf("m-%d", i)))
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for i := range checks {
		f.putCheck(check(t, fmt.Sprintf("check-%d", i), "1", everything, nil))
	}
	runtime.ReadMemStats(&after)
	if took := (after.TotalAlloc - before.TotalAlloc) >> 20; took > 200 {
		t.Errorf("taking in %d health checks of %d machines took %d MiB of memory", checks, machines, took)
	}
	policies, _ := f.snapshot(none)
	for _, p := range policies {
		if len(p.Members) != machines {
			t.Fatalf("%s selects %d machines, want %d", p.ID, len(p.Members), machines)
		}
	}
}

// TestI15SelectionsThatAreOverAreEnded: a health check whose selector changes again and again
// leaves no selections behind.
func TestI15SelectionsThatAreOverAreEnded(t *testing.T) {
	f := newStore()
	f.putMachine(aMachine("m"))
	for i := range 1000 {
		f.putCheck(check(t, "check", fmt.Sprint(i), []string{workers, everything}[i%2], nil))
		f.putCheck(check(t, "other", fmt.Sprint(i), everything, nil))
		f.dropCheck("machines/other")
	}
	if kept := f.index.Selections(); kept != 1 {
		t.Errorf("%d selections of one health check are kept", kept)
	}
}
