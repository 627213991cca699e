package powercycle

import (
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/fettle-io/fettle/api/fettle/v1alpha1"
	"github.com/fettle-io/fettle/internal/fencing"
)

// began has the phase of a remediation begin at an instant, by the clock that wrote it.
func began(at time.Time) func(*v1alpha1.PowerRemediationStatus) {
	return func(s *v1alpha1.PowerRemediationStatus) {
		since := metav1.NewMicroTime(at)
		s.PhaseSince = &since
	}
}

// TestLimitsAfterTheClockWasPutBack: a phase that was recorded as of the future lasts for its limit from when a process sees it first.
func TestLimitsAfterTheClockWasPutBack(t *testing.T) {
	for sentence, since := range map[string]time.Time{"now": noon, "in an hour": noon.Add(time.Hour), "in a year": noon.AddDate(1, 0, 0)} {
		w := newWorld(t, node(), remediation(in(fencing.Booting, began(since))), bmcFor("a", "node-a", "telnet://x"))
		for range 2 { // a second reconcile counts on from the first
			if err := w.reconcile(t.Context(), keyA); err != nil {
				t.Fatal(err)
			}
			if got := w.remediation(t, keyA).Status; got.Phase != string(fencing.Booting) || !got.PhaseSince.Time.Equal(since) {
				t.Errorf("since %s: before the limit it is %s since %v", sentence, got.Phase, got.PhaseSince)
			}
			w.forward(defaultBoot - time.Second)
		}
		if err := w.reconcile(t.Context(), keyA); err != nil {
			t.Fatal(err)
		}
		if got := w.remediation(t, keyA).Status; got.Reason != string(fencing.BootTimedOut) || got.PhaseSince.After(noon.Add(time.Hour-1)) {
			t.Errorf("since %s: after the limit it is %s (%s) since %v", sentence, got.Phase, got.Reason, got.PhaseSince)
		}
	}
}

// TestStartOfAPhaseThatGoesOn is not written anew by a process with another clock.
func TestStartOfAPhaseThatGoesOn(t *testing.T) {
	since := noon.Add(time.Hour)
	w := newWorld(t, node(tainted(ownTaint)), remediation(in(fencing.DeletingMachine, began(since), func(s *v1alpha1.PowerRemediationStatus) {
		s.Machine = &v1alpha1.ObjectReference{Kind: "Machine", Namespace: "machines", Name: "m", UID: "m-uid"}
	})), machine(), bareMetal(nil, nil), bmcFor("a", "node-a", "telnet://x"))
	w.refuses(func(verb string, _ runtime.Object) error {
		if verb == "delete" {
			return apierrors.NewServiceUnavailable("later")
		}
		return nil
	})
	if err := w.reconcile(t.Context(), keyA); !apierrors.IsServiceUnavailable(err) {
		t.Fatal(err)
	}
	if got := w.remediation(t, keyA).Status; !got.MachineDeletion || !got.PhaseSince.Time.Equal(since) {
		t.Errorf("the status is %+v", got)
	}
}

// TestSteadyTime: the durations that a process measures do not follow its clock of the wall, which may be put at any time.
func TestSteadyTime(t *testing.T) {
	w, _ := newRack(t, 1, func(r *v1alpha1.PowerRemediation) {
		r.Status.Phase = string(fencing.PoweringOff)
	})
	w.Client.Now = time.Now //nolint:forbidigo // only this clock has readings that pass steadily
	w.Client.hosts.now = w.Client.Now
	if err := w.reconcile(t.Context(), hostKey(0)); err != nil {
		t.Fatal(err)
	}
	s := w.sessions.byKey[hostKey(0)]
	for name, at := range map[string]time.Time{
		"the command": s.power.Off, "the first read": s.power.FirstOff.Begun, "the last read": s.power.Last.Begun, "its end": s.power.Last.Ended,
		"the start of the phase": s.phaseStart.Record(fencing.Record{}).Since,
	} {
		if !strings.Contains(at.String(), " m=") {
			t.Errorf("%s is %v, which has no steady reading", name, at)
		}
	}
}

// TestResumedHoldIsSteady: a hold that an earlier process has recorded ends in time, also where the clock is put back meanwhile.
func TestResumedHoldIsSteady(t *testing.T) {
	w := newWorld(t)
	w.hosts.now = time.Now //nolint:forbidigo // the same
	bmc := bmcFor("a", "node-a", "redfish://10.0.0.1")
	h, found := w.opens(t, bmc)
	if found.found() {
		t.Fatal(found)
	}
	now := time.Now() //nolint:forbidigo // the same
	held := metav1.NewTime(now.Add(time.Minute).Round(0))
	bmc.Status.RefusedLogins, bmc.Status.AuthenticationHeldUntil = 2, &held
	h.resume(bmc, now)
	if until := h.power.HeldUntil(); !strings.Contains(until.String(), " m=") || !until.Round(0).Equal(held.Time) {
		t.Errorf("it is held until %v, want %v", until, held)
	}
}
