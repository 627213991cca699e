package fencednode

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fettle-io/fettle/api/fettle/v1alpha1"
	"github.com/fettle-io/fettle/internal/fencing"
)

// TestPhasesThatLast: each phase has the start of the remediation that has been in it longest, until that goes on, ends or is gone.
func TestPhasesThatLast(t *testing.T) {
	power, self := NewPhases("Power"), NewPhases("SelfFence")
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(power, self)
	in := func(phase fencing.Phase, ago time.Duration) *v1alpha1.FencingStatus {
		return &v1alpha1.FencingStatus{Phase: string(phase), PhaseSince: MicroTime(noon.Add(-ago))}
	}
	a, b := types.NamespacedName{Name: "a"}, types.NamespacedName{Name: "b"}
	for _, step := range []struct {
		does string
		do   func()
		want map[string]time.Duration
	}{
		{"nothing has begun", func() { power.Set(a, &v1alpha1.FencingStatus{}, noon) }, map[string]time.Duration{}},
		{"one begins", func() { power.Set(a, in(fencing.Preparing, time.Minute), noon) }, map[string]time.Duration{"Power Preparing": time.Minute}},
		{"an older one", func() { power.Set(b, in(fencing.Preparing, time.Hour), noon) }, map[string]time.Duration{"Power Preparing": time.Hour}},
		{"of another kind", func() { self.Set(b, in(fencing.Preparing, time.Second), noon) }, map[string]time.Duration{"Power Preparing": time.Hour, "SelfFence Preparing": time.Second}},
		{"the older goes on", func() { power.Set(b, in(fencing.Booting, 0), noon) }, map[string]time.Duration{"Power Preparing": time.Minute, "Power Booting": 0, "SelfFence Preparing": time.Second}},
		{"it ends", func() { power.Set(b, in(fencing.Failed, 0), noon) }, map[string]time.Duration{"Power Preparing": time.Minute, "SelfFence Preparing": time.Second}},
		{"a start by a fast clock", func() { power.Set(b, in(fencing.Booting, -time.Hour), noon) }, map[string]time.Duration{"Power Preparing": time.Minute, "Power Booting": 0, "SelfFence Preparing": time.Second}},
		{"a minute later", func() { power.Set(b, in(fencing.Booting, -time.Hour), noon.Add(time.Minute)) }, map[string]time.Duration{"Power Preparing": time.Minute, "Power Booting": 0, "SelfFence Preparing": time.Second}},
		{"it is put back", func() { power.Set(b, in(fencing.Booting, -time.Hour), noon.Add(-time.Minute)) }, map[string]time.Duration{"Power Preparing": time.Minute, "Power Booting": time.Minute, "SelfFence Preparing": time.Second}},
		{"the phase begins anew", func() { power.Set(a, in(fencing.Preparing, time.Second), noon) }, map[string]time.Duration{"Power Preparing": time.Second, "Power Booting": time.Minute, "SelfFence Preparing": time.Second}},
		{"another by the same fast clock", func() { power.Set(b, in(fencing.Restoring, -time.Hour), noon) }, map[string]time.Duration{"Power Preparing": time.Second, "Power Restoring": 0, "SelfFence Preparing": time.Second}},
		{"it goes", func() { power.Drop(b) }, map[string]time.Duration{"Power Preparing": time.Second, "SelfFence Preparing": time.Second}},
		{"the other is gone", func() { power.Drop(a) }, map[string]time.Duration{"SelfFence Preparing": time.Second}},
		{"its start is missing", func() { self.Set(b, &v1alpha1.FencingStatus{Phase: string(fencing.Booting)}, noon) }, map[string]time.Duration{}},
	} {
		step.do()
		if d := cmp.Diff(step.want, agesOf(t, registry)); d != "" {
			t.Errorf("%s: the phases have lasted (-want +got):\n%s", step.does, d)
		}
	}
	var none *Phases
	none.Set(a, in(fencing.Booting, 0), noon)
	none.Drop(a)
	if left := len(power.since) + len(self.since); left != 0 {
		t.Errorf("it remembers %d remediations", left)
	}
}

// agesOf returns how long before noon the phases of a registry began.
func agesOf(t *testing.T, registry *prometheus.Registry) map[string]time.Duration {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	ages := map[string]time.Duration{}
	for _, family := range families {
		for _, series := range family.GetMetric() {
			labels := series.GetLabel()
			began := time.UnixMilli(int64(series.GetGauge().GetValue() * 1000))
			ages[labels[0].GetValue()+" "+labels[1].GetValue()] = noon.Sub(began)
		}
	}
	return ages
}
