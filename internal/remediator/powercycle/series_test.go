package powercycle

import (
	"fmt"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fettle-io/fettle/api/fettle/v1alpha1"
	"github.com/fettle-io/fettle/internal/remediator/fencednode"
)

// TestSeriesOfBMCs: a BMC on which an operation failed has one series, with the last reason, until it works or is gone.
func TestSeriesOfBMCs(t *testing.T) {
	m := NewMetrics()
	a, b := bmcFor("a", "node-a", "redfish://10.0.0.1"), bmcFor("b", "node-b", "redfish://10.0.0.2")
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(m)
	// gathered returns the series of a metric by the values of their labels.
	gathered := func(name string) map[string]float64 {
		families, err := registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		found := map[string]float64{}
		for _, family := range families {
			for _, series := range family.GetMetric() {
				var values []string
				for _, label := range series.GetLabel() {
					values = append(values, label.GetValue())
				}
				if family.GetName() == name {
					found[strings.Join(values, " ")] = series.GetGauge().GetValue() + series.GetCounter().GetValue()
				}
			}
		}
		return found
	}
	check := func(sentence string, want int, series string) {
		t.Helper()
		got := gathered("fettle_bmc_unreachable")
		if len(got) != want || want > 0 && got[series] != 1 {
			t.Errorf("%s: there are %d series, want %d; that of %q is %v", sentence, len(got), want, series, got[series])
		}
	}
	m.observe(a, "")
	check("it works", 0, "")
	m.observe(a, "TimedOut")
	check("it fails", 1, "a node-a TimedOut")
	m.observe(b, "TimedOut")
	m.observe(a, "Unreachable")
	check("it fails for another reason", 2, "a node-a Unreachable")
	m.forget(bmcKey("b"))
	m.forget(bmcKey("unknown"))
	check("the other is gone", 1, "a node-a Unreachable")
	m.observe(a, "")
	check("it works again", 0, "")
	for i := range maxUnreachable + 1 {
		m.observe(bmcFor(fmt.Sprint(i), "node", "redfish://10.0.0.1"), "TimedOut")
	}
	check("too many", maxUnreachable, "1 node TimedOut")
	m.observe(bmcFor("0", "node", "redfish://10.0.0.1"), "Unreachable")
	check("a known one of too many", maxUnreachable, "0 node Unreachable")
	m.count("Failed", "TimedOut")
	if got := gathered("fettle_power_remediation_phases_total")["Failed TimedOut"]; got != 1 {
		t.Errorf("%v phases are counted", got)
	}
}

// TestNodeOfAMachine: a remediation that only a machine owns is for the node that its machine names.
func TestNodeOfAMachine(t *testing.T) {
	controller := true
	owned := func(uid types.UID) *v1alpha1.PowerRemediation {
		return remediation(func(r *v1alpha1.PowerRemediation) {
			r.Namespace, r.Name = "machines", "m"
			r.OwnerReferences = []metav1.OwnerReference{
				{APIVersion: fencednode.OpenShiftMachine.GroupVersion().String(), Kind: fencednode.OpenShiftMachine.Kind, Name: "m", UID: uid, Controller: &controller},
			}
		})
	}
	for sentence, tc := range map[string]struct {
		r            *v1alpha1.PowerRemediation
		ref          string
		exists       bool
		want, reason string
	}{
		"it names a node":   {owned("m-uid"), "node-z", true, "node-z", ""},
		"it names none":     {owned("m-uid"), "", true, "", v1alpha1.CannotStartNodeNotFoundReason},
		"it is another one": {owned("other"), "node-z", true, "", v1alpha1.CannotStartMachineNotFoundReason},
		"it is gone":        {owned("m-uid"), "", false, "", v1alpha1.CannotStartMachineNotFoundReason},
		"no machine":        {remediation(), "", false, "node-a", ""},
	} {
		w := newWorld(t)
		if tc.exists {
			m := machine()
			m.Object["status"] = map[string]any{"nodeRef": map[string]any{"name": tc.ref}}
			if err := w.api.Create(t.Context(), m); err != nil {
				t.Fatal(err)
			}
		}
		name, found, err := w.nodeNameOf(t.Context(), tc.r)
		if err != nil || name != tc.want || found.reason != tc.reason {
			t.Errorf("%s: the node is %q with problem %+v (%v)", sentence, name, found, err)
		}
	}
}
