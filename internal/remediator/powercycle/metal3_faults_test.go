package powercycle

import (
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fettle-io/fettle/api/fettle/v1alpha1"
	"github.com/fettle-io/fettle/internal/baremetalhost"
	"github.com/fettle-io/fettle/internal/fencing"
	"github.com/fettle-io/fettle/internal/power"
)

// reconciliationOf returns a reconcile of a remediation whose BMC names a BareMetalHost. The remediation has recorded a BMC.
func (w *world) reconciliationOf(bmc *v1alpha1.BMC, recorded *v1alpha1.FencingBMC) *reconciliation {
	r := remediation(in(fencing.PoweringOff, func(s *v1alpha1.PowerRemediationStatus) { s.BMC = recorded }))
	return &reconciliation{key: keyA, node: "node-a", r: r, bmc: bmc, s: w.sessions.of(keyA, r.UID, "node-a")}
}

// TestWhichBareMetalHostIsMeant: only a record that has a BareMetalHost, and the BMC as it is now, spares the search for it. Nothing is
// known of the host where the search fails.
func TestWhichBareMetalHostIsMeant(t *testing.T) {
	t.Parallel()
	recorded := func(host string, generation int64) *v1alpha1.FencingBMC {
		return &v1alpha1.FencingBMC{Name: "bmc-a", UID: "bmc-a-uid", Generation: generation, HostUID: host, HostNamespace: "metal3", HostName: "host-a"}
	}
	for sentence, tc := range map[string]struct {
		recorded *v1alpha1.FencingBMC
		changed  bool // the BMC that the reconcile has read is not the latest
		uid      string
		problem  string
	}{
		"nothing is recorded":                   {nil, false, "host-uid", ""},
		"the host":                              {recorded("first-uid", 1), false, "first-uid", ""},
		"a host of another spec":                {recorded("first-uid", 0), false, "host-uid", ""},
		"no host":                               {recorded("", 1), false, "host-uid", ""},
		"the BMC has changed since it was read": {recorded("first-uid", 0), true, "", string(power.Busy)},
	} {
		w := newWorld(t, bmcFor("bmc-a", "node-a", "", throughMetal3("host-a")), metal3Host("host-a", "host-uid", true))
		bmc := w.bmc(t, "bmc-a")
		if tc.changed {
			w.openLater(t, bmc)
		}
		rec := w.reconciliationOf(bmc, tc.recorded)
		found := w.pin(t.Context(), rec)
		if found.reason != tc.problem || rec.metal != (baremetalhost.Identity{UID: types.UID(tc.uid)}) {
			t.Errorf("%s: the host is %+v, with problem %+v", sentence, rec.metal, found)
		}
	}
}

// openLater has another reconcile have opened the host of a later spec of a BMC.
func (w *world) openLater(t *testing.T, bmc *v1alpha1.BMC) {
	t.Helper()
	later := bmc.DeepCopy()
	later.Generation++
	if _, found := w.opens(t, later); found.found() {
		t.Fatal(found)
	}
}

// TestABMCThatHasChangedIsReadAgain: an earlier read of it names no host that may be read.
func TestABMCThatHasChangedIsReadAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t, bmcFor("bmc-a", "node-a", "", throughMetal3("host-a")), metal3Host("host-a", "host-uid", true))
	bmc := w.bmc(t, "bmc-a")
	w.openLater(t, bmc)
	rec := w.reconciliationOf(bmc, nil)
	for _, kind := range []fencing.StepKind{fencing.ReadPower, fencing.CommandOff, fencing.CommandOn, fencing.LeaveHost} {
		if found := w.tryBareMetalHost(t.Context(), rec, kind); found.reason != string(power.Busy) {
			t.Errorf("step %d: the problem is %+v", kind, found)
		}
	}
	w.probeBareMetalHost(t.Context(), bmc)
	if w.holds(t, "host-a") {
		t.Error("a host was commanded")
	}
}

// TestOperationsThroughMetal3AreSeen: the status of a BMC shows the power that a remediation has read, or why it could not.
func TestOperationsThroughMetal3AreSeen(t *testing.T) {
	t.Parallel()
	for sentence, tc := range map[string]struct {
		host   client.Object
		power  v1alpha1.HostPower
		reason string
	}{
		"on":            {metal3Host("host-a", "host-uid", true), v1alpha1.HostOn, ""},
		"there is none": {metal3Host("host-b", "host-uid", true), "", string(baremetalhost.NotFound)},
	} {
		w := newWorld(t, bmcFor("bmc-a", "node-a", "", throughMetal3("host-a")), tc.host)
		bmc := w.bmc(t, "bmc-a")
		rec := w.reconciliationOf(bmc, nil)
		rec.metal = baremetalhost.Identity{UID: "host-uid"}
		found := w.tryBareMetalHost(t.Context(), rec, fencing.ReadPower)
		seen := w.seenOf(bmc)
		if found.reason != tc.reason || seen.power != tc.power || seen.problem.reason != tc.reason || !seen.at.After(noon) {
			t.Errorf("%s: the problem is %+v, and seen is %+v", sentence, found, seen)
		}
		if probed := taken(w.probes); !probed[client.ObjectKeyFromObject(bmc)] {
			t.Errorf("%s: the status is not written: %v", sentence, probed)
		}
	}
}

// TestASuccessThroughMetal3IsNoProblem, also where the caller gave up at the end.
func TestASuccessThroughMetal3IsNoProblem(t *testing.T) {
	t.Parallel()
	bmc := bmcFor("bmc-a", "node-a", "", throughMetal3("host-a"))
	if found := ofBareMetalHost(bmc, baremetalhost.Failure{Interrupted: true}); found != (problem{}) {
		t.Errorf("it is %+v", found)
	}
	failed := baremetalhost.Failure{Reason: baremetalhost.Paused, Message: "it is paused", Interrupted: true}
	if found := ofBareMetalHost(bmc, failed); found != (problem{reason: "BareMetalHostPaused", message: "BMC bmc-a: it is paused", interrupted: true}) {
		t.Errorf("a failure is %+v", found)
	}
}

// TestLongestPauses: the report of Metal3 may change at any moment, so it is read more often than a BMC that has failed.
func TestLongestPauses(t *testing.T) {
	t.Parallel()
	for want, bmc := range map[time.Duration]*v1alpha1.BMC{
		5 * time.Second: bmcFor("a", "node-a", "", throughMetal3("host-a")), 30 * time.Second: bmcFor("a", "node-a", "redfish://10.0.0.1"),
	} {
		if got := (&reconciliation{bmc: bmc}).mostRetry(); got != want {
			t.Errorf("the longest pause is %v, want %v", got, want)
		}
	}
	if got := (&reconciliation{}).mostRetry(); got != 30*time.Second {
		t.Errorf("without a BMC the longest pause is %v", got)
	}
}
