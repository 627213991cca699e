package powercycle_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/fettle-io/fettle/internal/remediator/powercycle"
)

// TestFailuresAreCountedFromZero: the alert on failures sees the first failure, since its series is there before.
func TestFailuresAreCountedFromZero(t *testing.T) {
	registry := prometheus.NewPedanticRegistry()
	if err := registry.Register(powercycle.NewMetrics()); err != nil {
		t.Fatal(err)
	}
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]float64{}
	for _, family := range families {
		for _, series := range family.GetMetric() {
			name := family.GetName()
			for _, label := range series.GetLabel() {
				name += " " + label.GetValue()
			}
			got[name] = series.GetCounter().GetValue()
		}
	}
	want := map[string]float64{}
	for phase, reasons := range map[string][]string{
		"DeletingMachine": {"TaintTimedOut", "PowerOffTimedOut", "FenceTimedOut", "PoweredOnByOthers", "BootedUntainted", "ReleaseTimedOut", "PowerOnTimedOut", "BootTimedOut"},
		"Failed":          {"TaintTimedOut", "PowerOffTimedOut", "FenceTimedOut", "PoweredOnByOthers", "BootedUntainted", "ReleaseTimedOut", "PowerOnTimedOut", "BootTimedOut", "MachineDeletionTimedOut", "HostNotLeft", "StatusNotKept", "NodeReplaced", "MachineKeptControlPlane", "MachineKeptNoController", "MachineKeptOtherNode", "MachineKeptExternallyProvisioned", "MachineKeptHostUnknown", "NoMachine"},
	} {
		for _, reason := range reasons {
			want["fettle_power_remediation_phases_total "+phase+" "+reason] = 0
		}
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("the series before the first remediation differ (-want +got):\n%s", d)
	}
}
