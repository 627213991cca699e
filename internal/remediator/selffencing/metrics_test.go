package selffencing

import (
	"maps"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/fettle-io/fettle/api/fettle/v1alpha1"
	"github.com/fettle-io/fettle/internal/fencing"
)

// counted returns the metrics of the remediator, by the values of their labels.
func counted(t *testing.T, m *Metrics) map[string]float64 {
	t.Helper()
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(m)
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]float64{}
	for _, family := range families {
		for _, series := range family.GetMetric() {
			name := []string{family.GetName()}
			for _, label := range series.GetLabel() {
				name = append(name, label.GetValue())
			}
			all[strings.Join(name, " ")] = series.GetCounter().GetValue() + series.GetGauge().GetValue()
		}
	}
	return all
}

const phasesMetric = "fettle_self_fence_remediation_phases_total "

// TestFailuresAreCountedFromZero: the alert on failures sees the first failure, since its series is there before.
func TestFailuresAreCountedFromZero(t *testing.T) {
	want := map[string]float64{}
	for _, series := range []string{
		"Failed TaintTimedOut", "Failed FenceTimedOut", "Failed FreedByOthers", "Failed BootedUntainted", "Failed BootTimedOut", "Failed NodeReplaced",
		"CannotStart RemediationCannotStartNoPromise", "CannotStart RemediationCannotStartNodeNotFound", "CannotStart RemediationCannotStartMachineNotFound",
		"CannotStart RemediationCannotStartWorkloadCluster", "CannotStart StatusInvalid",
	} {
		want[phasesMetric+series] = 0
	}
	if d := cmp.Diff(want, counted(t, NewMetrics())); d != "" {
		t.Errorf("the series before the first remediation differ (-want +got):\n%s", d)
	}
}

// TestPhasesAreCounted: each phase is counted once, and so is a remediation that can't start.
func TestPhasesAreCounted(t *testing.T) {
	counts := func(w *world) map[string]float64 {
		w.Metrics = NewMetrics()
		for range 3 {
			w.reconciles(t)
			w.forward(defaultFence)
		}
		all := counted(t, w.Metrics)
		maps.DeleteFunc(all, func(_ string, n float64) bool { return n == 0 })
		return all
	}
	want := map[string]float64{phasesMetric + "Preparing ": 1, phasesMetric + "Condemning ": 1, phasesMetric + "Failed FenceTimedOut": 1}
	if d := cmp.Diff(want, counts(newWorld(t, node(), leaseOf(t, "node-a", held), remediation()))); d != "" {
		t.Errorf("the phases of a failure differ (-want +got):\n%s", d)
	}
	want = map[string]float64{phasesMetric + "CannotStart RemediationCannotStartNoPromise": 1}
	if d := cmp.Diff(want, counts(newWorld(t, node(), remediation()))); d != "" {
		t.Errorf("those of a node without a promise differ (-want +got):\n%s", d)
	}
}

// TestPhasesThatLast are measured from when a remediation begins, also by a new process, until it has ended or is gone.
func TestPhasesThatLast(t *testing.T) {
	for sentence, tc := range map[string]struct {
		r    *v1alpha1.SelfFenceRemediation
		want string
	}{
		"it begins":    {remediation(), "Condemning"},
		"it has begun": {remediation(in(fencing.Booting)), "Booting"},
		"it has ended": {remediation(in(fencing.Failed)), ""},
	} {
		w := newWorld(t, node(), leaseOf(t, "node-a", held), tc.r)
		w.Metrics = NewMetrics()
		w.reconciles(t)
		want := map[string]float64{}
		if tc.want != "" {
			want["fettle_fencing_oldest_phase_timestamp_seconds SelfFenceRemediation "+tc.want] = float64(w.remediation(t).Status.PhaseSince.UnixMilli()) / 1000
		}
		for _, gone := range []bool{false, true} {
			if gone {
				w.forget(keyA)
				want = map[string]float64{}
			}
			got := counted(t, w.Metrics)
			maps.DeleteFunc(got, func(name string, _ float64) bool { return !strings.HasPrefix(name, "fettle_fencing_") })
			if d := cmp.Diff(want, got); d != "" {
				t.Errorf("%s, gone %t: the series differ (-want +got):\n%s", sentence, gone, d)
			}
		}
	}
}
