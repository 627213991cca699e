package powercycle

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/fettle-io/fettle/api/fettle/v1alpha1"
	"github.com/fettle-io/fettle/internal/baremetalhost"
	"github.com/fettle-io/fettle/internal/fencing"
)

// former has a remediation record hosts of earlier BMCs.
func former(hosts ...v1alpha1.FormerHost) func(*v1alpha1.PowerRemediationStatus) {
	return func(s *v1alpha1.PowerRemediationStatus) { s.FormerHosts = hosts }
}

// TestWhichHostIsUsedWithoutABMC: the recorded BareMetalHost, while what keeps it off has to be taken back, and where no BMC names it.
func TestWhichHostIsUsedWithoutABMC(t *testing.T) {
	recorded := func() *v1alpha1.FencingBMC {
		return &v1alpha1.FencingBMC{Name: "bmc-a", UID: "bmc-a-uid", Generation: 3, HostUID: "a-uid", HostConsumer: "claim", HostNamespace: "metal3", HostName: "host-a"}
	}
	atAddress := &v1alpha1.FencingBMC{Name: "bmc-a", UID: "bmc-a-uid", Generation: 3}
	for _, tc := range []struct {
		sentence string
		phase    fencing.Phase
		off      bool
		recorded *v1alpha1.FencingBMC
		bmc      *v1alpha1.BMC
		used     bool
	}{
		{"it powers on", fencing.PoweringOn, true, recorded(), nil, true},
		{"it takes back", fencing.Aborting, true, recorded(), nil, true},
		{"its machine is being deleted", fencing.DeletingMachine, true, recorded(), nil, true},
		{"the host was on again", fencing.Aborting, false, recorded(), nil, false},
		{"it powers off", fencing.PoweringOff, true, recorded(), nil, false},
		{"it has failed", fencing.Failed, true, recorded(), nil, false},
		{"the BMC had an address", fencing.PoweringOn, true, atAddress, nil, false},
		{"no BMC is recorded", fencing.PoweringOn, true, nil, nil, false},
		{"there is a BMC", fencing.PoweringOn, true, recorded(), bmcFor("b", "node-a", "redfish://h"), false},
	} {
		r := remediation(in(tc.phase, func(s *v1alpha1.PowerRemediationStatus) { s.BMC = tc.recorded }))
		rec := &reconciliation{r: r, node: "node-a", bmc: tc.bmc, record: fencing.Record{Phase: tc.phase, PoweredOff: tc.off}}
		rec.useRecordedHost()
		want, metal := tc.bmc, baremetalhost.Identity{}
		if tc.used {
			metal = baremetalhost.Identity{UID: "a-uid", Consumer: "claim"}
			want = &v1alpha1.BMC{
				ObjectMeta: metav1.ObjectMeta{Name: "bmc-a", UID: "bmc-a-uid", Generation: 3},
				Spec:       v1alpha1.BMCSpec{NodeName: "node-a", BareMetalHost: &v1alpha1.BareMetalHostReference{Namespace: "metal3", Name: "host-a"}},
			}
		}
		if diff := cmp.Diff(want, rec.bmc); diff != "" || rec.unnamed != tc.used || rec.metal != metal {
			t.Errorf("%s: unnamed %t, as %+v, with the BMC (-want +got):\n%s", tc.sentence, rec.unnamed, rec.metal, diff)
		}
	}
}

// TestTheHostWithoutABMCIsRemembered, with what was commanded, as long as it is the same host.
func TestTheHostWithoutABMCIsRemembered(t *testing.T) {
	w := newWorld(t)
	rec := &reconciliation{s: w.sessions.of(keyA, "r-uid", "node-a"), bmc: bmcFor("bmc-a", "node-a", "", throughMetal3("host-a")), metal: baremetalhost.Identity{UID: "a-uid"}}
	first := w.unnamedHostOf(rec)
	if first == nil || w.unnamedHostOf(rec) != first {
		t.Error("the next operation doesn't know of the first")
	}
	rec.metal.UID = "another"
	if w.unnamedHostOf(rec) == first {
		t.Error("another host is taken for the first")
	}
	if w.unnamedHostOf(&reconciliation{s: w.sessions.of(keyB, "uid", "node-b"), bmc: rec.bmc}) == nil {
		t.Error("a host without a recorded UID is none")
	}
}

// counted counts the changes of BareMetalHosts and of the status. It has the former fail for as long as down says so.
type counted struct{ hosts, statuses int }

func (w *world) counts(down *bool, also func(verb string, o runtime.Object)) *counted {
	n := &counted{}
	w.refuses(func(verb string, o runtime.Object) error {
		also(verb, o)
		if _, is := o.(*v1alpha1.PowerRemediation); is && verb == "patch status" {
			n.statuses++
		}
		if u, is := o.(*unstructured.Unstructured); is && u.GroupVersionKind() == bareMetalHost && verb == "patch" {
			n.hosts++
			if *down {
				return apierrors.NewForbidden(schema.GroupResource{Resource: "baremetalhosts"}, "host-a", nil)
			}
		}
		return nil
	})
	return n
}

// TestFormerHostsAreTriedEveryTenSeconds until each was changed. Then the record of them goes, and nothing is left to reconcile.
func TestFormerHostsAreTriedEveryTenSeconds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, node(), remediation(in(fencing.Failed, former(hostA))), heldOff("host-a", "a-uid"))
		down := true
		n := w.counts(&down, func(string, runtime.Object) {})
		rec := begun(t, w, fencing.Failed)
		rec.slot = apiSlot{of: w.apiSlots}
		leave := func(sentence string, hosts, statuses, left int) {
			t.Helper()
			if err := w.leaveFormerHosts(t.Context(), rec); err != nil || *n != (counted{hosts, statuses}) || len(w.remediation(t, keyA).Status.FormerHosts) != left {
				t.Errorf("%s: %v after %+v, and left are %v", sentence, err, *n, rec.r.Status.FormerHosts)
			}
		}
		leave("it fails", 1, 0, 1)
		w.wakesAfter(t, keyA, requeueAfter)
		w.forward(requeueAfter - 3*time.Second)
		leave("it is too early", 1, 0, 1)
		w.wakesAfter(t, keyA, 3*time.Second)
		down = false
		w.forward(3 * time.Second)
		leave("it succeeds", 2, 1, 0)
		leave("nothing is left", 2, 1, 0)
		<-time.After(2 * requeueAfter)
		synctest.Wait()
		if woken := taken(w.remediations); len(woken) != 0 {
			t.Errorf("it is reconciled again: %v", woken)
		}
	})
}

// TestFormerHostsHoldNoSlot while they are changed, since the API server may call a webhook of Metal3 first. A change of the node interrupts that only
// until it is over.
func TestFormerHostsHoldNoSlot(t *testing.T) {
	w := newWorld(t, node(), remediation(in(fencing.Releasing, former(hostA))), heldOff("host-a", "a-uid"))
	rec := begun(t, w, fencing.Releasing)
	rec.slot, rec.record.Released = apiSlot{of: w.apiSlots}, true
	if !rec.slot.acquire(t.Context(), true) {
		t.Fatal("there is no slot")
	}
	down := false
	n := w.counts(&down, func(verb string, o runtime.Object) {
		want := maxAPISlots
		if _, is := o.(*v1alpha1.PowerRemediation); is {
			want--
		}
		w.apiSlots.mu.Lock()
		defer w.apiSlots.mu.Unlock()
		if w.apiSlots.free != want {
			t.Errorf("during %s of %T, %d slots are free, want %d", verb, o, w.apiSlots.free, want)
		}
	})
	if err := w.leaveFormerHosts(t.Context(), rec); err != nil || *n != (counted{1, 1}) || !rec.slot.held || rec.s.interrupt != nil {
		t.Errorf("%v after %+v; a slot is held: %t, and it can be interrupted: %t", err, *n, rec.slot.held, rec.s.interrupt != nil)
	}
}

// TestAReconcileWithoutFormerHostsKeepsItsSlot, though another reconcile waits for one.
func TestAReconcileWithoutFormerHostsKeepsItsSlot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, node(), remediation(in(fencing.Releasing)))
		w.apiSlots = newAPISlots(1, 1)
		rec := begun(t, w, fencing.Releasing)
		rec.slot = apiSlot{of: w.apiSlots}
		rec.slot.acquire(t.Context(), true)
		given := make(chan struct{})
		go func() {
			(&apiSlot{of: w.apiSlots}).acquire(t.Context(), true)
			close(given)
		}()
		synctest.Wait()
		if err := w.leaveFormerHosts(t.Context(), rec); err != nil || !rec.slot.held {
			t.Errorf("%v, and a slot is held: %t", err, rec.slot.held)
		}
		synctest.Wait()
		select {
		case <-given:
			t.Error("another reconcile has the slot")
		default:
		}
		rec.slot.release()
		<-given
	})
}

// TestFormerHostsWithoutASlot: where the reconcile has to end before it has a slot again, nothing is recorded.
func TestFormerHostsWithoutASlot(t *testing.T) {
	w := newWorld(t, node(), remediation(in(fencing.Failed, former(hostA))), heldOff("host-a", "a-uid"))
	rec := begun(t, w, fencing.Failed)
	w.apiSlots = newAPISlots(0, 0)
	rec.slot = apiSlot{of: w.apiSlots}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := w.leaveFormerHosts(ctx, rec); !errors.Is(err, context.Canceled) || len(w.remediation(t, keyA).Status.FormerHosts) != 1 {
		t.Errorf("%v, and left are %v", err, w.remediation(t, keyA).Status.FormerHosts)
	}
}

// TestAReconcileEndsWhereFormerHostsCanNotBeRecorded: no step follows.
func TestAReconcileEndsWhereFormerHostsCanNotBeRecorded(t *testing.T) {
	down := errors.New("down")
	w := newWorld(t, node(), remediation(in(fencing.Failed, former(hostB))), metal3Host("host-b", "b-uid", true))
	w.refuses(func(verb string, _ runtime.Object) error {
		if verb == "patch status" {
			return down
		}
		return nil
	})
	if err := w.reconcile(t.Context(), keyA); !errors.Is(err, down) {
		t.Errorf("the reconcile returns %v", err)
	}
}
