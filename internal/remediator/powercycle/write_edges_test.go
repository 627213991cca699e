package powercycle

import (
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/fettle-io/fettle/api/fettle/v1alpha1"
	"github.com/fettle-io/fettle/internal/fencing"
	"github.com/fettle-io/fettle/internal/remediator/fencednode"
)

// TestWhatIsAnnounced: each phase and each attempt, and no other record. Only former hosts have the remediation reconciled again at once.
func TestWhatIsAnnounced(t *testing.T) {
	for sentence, tc := range map[string]struct {
		change    func(*v1alpha1.PowerRemediationStatus)
		record    fencing.Record
		announced int
		again     int
	}{
		"another phase":          {former(), fencing.Record{Phase: fencing.Releasing, Attempt: 1}, 1, 0},
		"another attempt":        {former(), fencing.Record{Phase: fencing.PoweringOff, Attempt: 2}, 1, 0},
		"the same":               {former(), fencing.Record{Phase: fencing.PoweringOff, Attempt: 1, Void: 1}, 0, 0},
		"there is a former host": {former(hostA), fencing.Record{Phase: fencing.PoweringOff, Attempt: 1}, 0, 1},
	} {
		w := newWorld(t, node(), remediation(in(fencing.PoweringOff, tc.change)))
		rec := begun(t, w, fencing.PoweringOff)
		tc.record.Since = noon
		if err := w.write(t.Context(), rec, tc.record); err != nil {
			t.Fatal(err)
		}
		if len(rec.notes) != tc.announced || w.remediations.Len() != tc.again {
			t.Errorf("%s: %d events, and %d remediations are reconciled again", sentence, len(rec.notes), w.remediations.Len())
		}
	}
}

// usedAddress records that the host at an earlier address of BMC a may be off.
func usedAddress(s *v1alpha1.PowerRemediationStatus) {
	s.PoweredOff, s.BMC = true, &v1alpha1.FencingBMC{Name: "a", UID: "a-uid"}
}

// TestTheHostOfAnOldAddressIsNamed in an event, once the other address is recorded.
func TestTheHostOfAnOldAddressIsNamed(t *testing.T) {
	w := newWorld(t, node(tainted(ownTaint)), remediation(in(fencing.PoweringOff, usedAddress)), noBMC())
	r := w.reconciles(t)
	said := slices.ContainsFunc(eventsOf(w), func(e string) bool { return strings.HasPrefix(e, "Warning BMCChanged ") })
	if !said || r.Status.BMC == nil || r.Status.BMC.Generation != 1 {
		t.Errorf("the event is there: %t, and recorded is %+v", said, r.Status.BMC)
	}
}

// TestOnlyAPowerOffIsRecordedFirst: no other operation of another host keeps one off.
func TestOnlyAPowerOffIsRecordedFirst(t *testing.T) {
	for kind, want := range map[fencing.StepKind]int{fencing.CommandOff: 1, fencing.ReadPower: 0, fencing.CommandOn: 0} {
		w := newWorld(t, node(), remediation(in(fencing.PoweringOff, usedAddress)), noBMC())
		rec := begun(t, w, fencing.PoweringOff)
		rec.bmc, rec.slot, rec.facts.HostChanged = w.bmc(t, "a"), apiSlot{of: w.apiSlots}, true
		writes := 0
		w.refuses(func(verb string, _ runtime.Object) error {
			if verb == "patch status" {
				writes++
			}
			return nil
		})
		if over, err := w.take(t.Context(), rec, fencing.Step{Kind: kind}); over || err != nil || writes != want {
			t.Errorf("step %d: over %t (%v), after %d writes", kind, over, err, writes)
		}
	}
}

// TestARemediationThatHasWaitedBegins, and is not measured as waiting any more.
func TestARemediationThatHasWaitedBegins(t *testing.T) {
	const series = "fettle_power_remediations_not_begun"
	w := newWorld(t, node(), remediation(), noBMC())
	w.Metrics = NewMetrics()
	gathered := gathering(t, w.Metrics)
	w.sessions.claims.Claim("node-a", holderOf(keyB))
	if r := w.reconciles(t); processing(r) != fencednode.AnotherRemediation || gathered(series)[fencednode.AnotherRemediation] != 1 {
		t.Fatalf("it waits for %q, and the series are %v", processing(r), gathered(series))
	}
	w.sessions.claims.Release(holderOf(keyB))
	if r := w.reconciles(t); r.Status.Phase == "" || gathered(series)[fencednode.AnotherRemediation] != 0 {
		t.Errorf("it is in phase %q, and the series are %v", r.Status.Phase, gathered(series))
	}
}

// TestTheMachineIsRecorded with the first record: a later reconcile must not delete another one.
func TestTheMachineIsRecorded(t *testing.T) {
	w := claimWorld(t, machine(), remediation())
	var want v1alpha1.PowerRemediationStatus
	recordedM(&want)
	if r := w.reconciles(t); r.Status.Machine == nil || *r.Status.Machine != *want.Machine {
		t.Errorf("recorded is %+v", r.Status.Machine)
	}
}

// TestAFailureWithFormerHosts stays as it is while they can't be changed. Nothing is given up before it is deleted.
func TestAFailureWithFormerHosts(t *testing.T) {
	w := newWorld(t, remediation(in(fencing.Failed, former(hostA))), heldOff("host-a", "a-uid"))
	w.refusesBareMetalHosts()
	for range 2 {
		if r := w.reconciles(t); !slices.Equal(r.Status.FormerHosts, []v1alpha1.FormerHost{hostA}) || len(eventsOf(w)) != 0 {
			t.Errorf("left are %v", r.Status.FormerHosts)
		}
		w.forward(time.Hour)
	}
}

// TestHostsWithoutADomainPowerOnAtOnce: none waits for another.
func TestHostsWithoutADomainPowerOnAtOnce(t *testing.T) {
	const count = 2
	w, r := newRack(t, count)
	for i := range count {
		bmc := w.bmc(t, hostKey(i).Name)
		bmc.Spec.Domain = ""
		w.bmcs.put(bmc)
	}
	w.reconcileAll(t, count, time.Second)
	if r.countOn() != count {
		t.Errorf("%d of %d hosts are on", r.countOn(), count)
	}
}

// TestANewAttemptBeginsWithoutEvidence: commands and readings before its first record prove nothing. Later records keep them.
func TestANewAttemptBeginsWithoutEvidence(t *testing.T) {
	off := fencing.Reading{Begun: noon, Ended: noon, State: fencing.IsOff}
	for phase, kept := range map[fencing.Phase]bool{fencing.Preparing: false, fencing.PoweringOff: true, fencing.Releasing: true} {
		w := newWorld(t, node(), remediation(in(fencing.PoweringOff)))
		rec := begun(t, w, fencing.PoweringOff)
		rec.s.power = fencing.Power{Off: noon, FirstOff: off, Last: off}
		if err := w.write(t.Context(), rec, fencing.Record{Phase: phase, Since: noon, Attempt: 2}); err != nil {
			t.Fatal(err)
		}
		if got := rec.s.power; got.Off.Equal(noon) != kept || (got.FirstOff == off) != kept {
			t.Errorf("after a record of %s, the power is %+v", phase, got)
		}
	}
}
