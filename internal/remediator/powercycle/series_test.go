package powercycle

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fettle-io/fettle/api/fettle/v1alpha1"
	"github.com/fettle-io/fettle/internal/fencing"
	"github.com/fettle-io/fettle/internal/remediator/fencednode"
)

// gathering returns what returns the series of a metric by the values of their labels.
func gathering(t *testing.T, m *Metrics) func(name string) map[string]float64 {
	t.Helper()
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(m)
	return func(name string) map[string]float64 {
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
}

// TestSeriesOfBMCs: a BMC on which an operation failed has one series, with the last reason, until it works or is gone.
func TestSeriesOfBMCs(t *testing.T) {
	m := NewMetrics()
	gathered := gathering(t, m)
	a, b := bmcFor("a", "node-a", "redfish://10.0.0.1"), bmcFor("b", "node-b", "redfish://10.0.0.2")
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

// TestRemediationsThatHaveNotBegun are measured by what they wait for or why they can't start, until they begin or are gone. A new process
// finds what was refused before.
func TestRemediationsThatHaveNotBegun(t *testing.T) {
	const series = "fettle_power_remediations_not_begun"
	said := func(reason string) func(*v1alpha1.PowerRemediation) {
		return func(r *v1alpha1.PowerRemediation) {
			r.Status.Conditions = []metav1.Condition{{Type: v1alpha1.SucceededCondition, Status: metav1.ConditionFalse, Reason: reason}}
		}
	}
	for sentence, tc := range map[string]struct {
		r       *v1alpha1.PowerRemediation
		objects []client.Object
		want    string
	}{
		"no BMC":                 {remediation(), []client.Object{node()}, v1alpha1.CannotStartNoBMCReason},
		"another has the node":   {remediation(), []client.Object{node(), bmcFor("a", "node-a", "telnet://x"), remediation(in(fencing.PoweringOff), called(keyB))}, fencednode.AnotherRemediation},
		"it was refused before":  {remediation(said(v1alpha1.CannotStartAmbiguousBMCReason)), nil, v1alpha1.CannotStartAmbiguousBMCReason},
		"others have refused it": {remediation(said("Forged")), nil, otherRefusal},
		"it begins":              {remediation(), []client.Object{node(), bmcFor("a", "node-a", "telnet://x")}, ""},
	} {
		w := newWorld(t, append(tc.objects, tc.r)...)
		w.Metrics = NewMetrics()
		gathered := gathering(t, w.Metrics)
		for range 2 {
			if err := w.reconcile(t.Context(), keyA); err != nil {
				t.Fatalf("%s: %v", sentence, err)
			}
			if got := gathered(series); tc.want == "" && len(got) != 0 || tc.want != "" && got[tc.want] != 1 {
				t.Errorf("%s: the series are %v, want one of %q", sentence, got, tc.want)
			}
		}
		if tc.want == "" {
			continue
		}
		if err := w.api.Delete(t.Context(), w.remediation(t, keyA)); err != nil {
			t.Fatal(err)
		}
		if err := w.reconcile(t.Context(), keyA); err != nil || gathered(series)[tc.want] != 0 {
			t.Errorf("%s, and it is gone: the series are %v (%v)", sentence, gathered(series), err)
		}
	}
}

// TestPhasesThatLast are measured from when a remediation begins, also by a new process, until it has ended or is gone.
func TestPhasesThatLast(t *testing.T) {
	const series = "fettle_fencing_oldest_phase_timestamp_seconds"
	for sentence, tc := range map[string]struct {
		r    *v1alpha1.PowerRemediation
		want string
	}{
		"it begins":               {remediation(), "PowerRemediation PoweringOff"},
		"it has begun":            {remediation(in(fencing.Booting)), "PowerRemediation Booting"},
		"another fences the node": {remediation(in(fencing.Booting), called(keyB)), "PowerRemediation Booting"},
		"it has ended":            {remediation(in(fencing.Failed)), ""},
	} {
		w := newWorld(t, node(), bmcFor("a", "node-a", "telnet://x"), tc.r)
		w.Metrics = NewMetrics()
		gathered := gathering(t, w.Metrics)
		key := client.ObjectKeyFromObject(tc.r)
		if err := w.reconcile(t.Context(), key); err != nil {
			t.Fatalf("%s: %v", sentence, err)
		}
		got := gathered(series)
		if r := w.remediation(t, key); tc.want == "" && len(got) != 0 || tc.want != "" && got[tc.want] != float64(r.Status.PhaseSince.UnixMilli())/1000 {
			t.Errorf("%s: the series are %v, want %q at %v", sentence, got, tc.want, r.Status.PhaseSince)
		}
		w.forget(key)
		if got := gathered(series); len(got) != 0 {
			t.Errorf("%s, and it is gone: the series are %v", sentence, got)
		}
	}
}

// TestARemediationThatBeginsAfterAll has no series any more.
func TestARemediationThatBeginsAfterAll(t *testing.T) {
	m := NewMetrics()
	gathered := gathering(t, m)
	for _, step := range []struct {
		key, reason   string
		first, second float64
	}{
		{"a", "First", 1, 0}, {"b", "First", 2, 0}, {"a", "First", 2, 0}, {"a", "Second", 1, 1}, {"a", "", 1, 0}, {"a", "", 1, 0}, {"b", "", 0, 0},
	} {
		m.wait(types.NamespacedName{Name: step.key}, step.reason)
		if got := gathered("fettle_power_remediations_not_begun"); got["First"] != step.first || got["Second"] != step.second {
			t.Errorf("after %+v: %v", step, got)
		}
	}
	if len(m.waiting) != 0 {
		t.Errorf("it remembers %v", m.waiting)
	}
}

// TestEachRefusalIsKnown: a new process measures each reason for which a remediation could not start before, and not as one of others.
func TestEachRefusalIsKnown(t *testing.T) {
	found := 0
	for _, file := range []string{"machinedeletion_types.go", "power_types.go", "selffence_reasons.go"} {
		for name, value := range textConstants(t, "../../../api/fettle/v1alpha1/"+file) {
			if !strings.HasPrefix(value, "RemediationCannotStart") || value == v1alpha1.CannotStartNoControllerOwnerReason {
				continue
			}
			found++
			if !slices.Contains(refusals[:], value) {
				t.Errorf("%s is unknown", name)
			}
		}
	}
	if found < 14 {
		t.Errorf("only %d reasons were found", found)
	}
	if got := refusalOf(remediation()); got != otherRefusal {
		t.Errorf("without a condition it is %q", got)
	}
}
