package writers

import (
	"testing"
	"time"

	"github.com/fettle-io/fettle/internal/core"
)

// TestRegistryWakes: a pass is due at once for a write of an unknown controller, and later for those of a known
// one. Each health check has a history of its own, which ends with it.
func TestRegistryWakes(t *testing.T) {
	now, woken := noon, 0
	wake := func() { woken++ }
	var later []time.Duration
	r := NewRegistry("checks", nil, func() time.Time { return now }, func(wait time.Duration, call func()) {
		later = append(later, wait)
		call()
	})
	p := &core.Policy{ID: core.ID{Namespace: "n", Name: "p"}}
	rehearsal := &core.Policy{ID: p.ID, DryRun: true}
	if f := r.Find(p, wake); f != (Finding{}) {
		t.Errorf("before its first version is found %+v", f)
	}
	writes := func() {
		now = now.Add(time.Second)
		r.Observe("n", "p", []Write{{Manager: "manager", At: now}}, wake)
	}
	r.Observe("n", "p", nil, wake)
	r.Observe("n", "q", nil, wake)
	for range minWrites {
		writes()
	}
	if woken != minWrites || len(later) > 0 {
		t.Errorf("%d writes have woken %d times, later by %v", minWrites, woken, later)
	}
	if f := r.Find(rehearsal, wake); f != (Finding{}) || len(later) != 1 || later[0] != QuietPeriod {
		t.Errorf("in a rehearsal is found %+v, and looked again after %v", f, later)
	}
	if f := r.Find(p, wake); f != (Finding{Manager: "manager", News: true}) || len(later) != 1 {
		t.Errorf("found %+v, and looked again after %v", f, later)
	}
	if f := r.Find(&core.Policy{ID: core.ID{Namespace: "n", Name: "q"}}, wake); f != (Finding{}) {
		t.Errorf("of another health check is found %+v", f)
	}
	writes()
	if len(later) != 2 || later[1] != minPassInterval {
		t.Errorf("a write of a known controller wakes after %v, want the last after %s", later, minPassInterval)
	}
	if woken != minWrites+2 {
		t.Errorf("woken %d times, want %d", woken, minWrites+2)
	}
	r.Drop("n", "p")
	if f := r.Find(p, wake); f != (Finding{}) {
		t.Errorf("once it is gone is found %+v", f)
	}
}

// TestNoRegistryNoticesNothing: a dialect without a registry calls it all the same.
func TestNoRegistryNoticesNothing(t *testing.T) {
	var r *Registry
	r.Observe("n", "p", []Write{{Manager: "manager", At: noon}}, func() { t.Error("it wakes") })
	r.Drop("n", "p")
	if f := r.Find(&core.Policy{}, nil); f != (Finding{}) {
		t.Errorf("found %+v", f)
	}
}
