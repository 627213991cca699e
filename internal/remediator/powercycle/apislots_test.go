package powercycle

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/fettle-io/fettle/api/fettle/annotation"
	"github.com/fettle-io/fettle/api/fettle/v1alpha1"
	"github.com/fettle-io/fettle/internal/fencing"
	"github.com/fettle-io/fettle/internal/remediator/fencednode"
)

// TestSlots: the urgent ones come first, and the others in the order in which they came.
func TestSlots(t *testing.T) {
	s := newAPISlots(1, 1)
	first := apiSlot{of: s}
	for _, problem := range []string{"a free slot is not given", "a slot is awaited by its holder"} {
		if !first.acquire(t.Context(), false) {
			t.Fatal(problem)
		}
	}
	var mu sync.Mutex
	var order []string
	var group sync.WaitGroup
	wait := func(name string, urgent bool) {
		waiting := s.waiting()
		group.Go(func() {
			own := apiSlot{of: s}
			if !own.acquire(t.Context(), urgent) {
				t.Errorf("%s got no slot", name)
			}
			mu.Lock()
			order = append(order, name)
			mu.Unlock()
			own.release()
			own.release() // a slot is given back once
		})
		for s.waiting() == waiting { //nolint:revive // it is about to wait
		}
	}
	wait("later", false)
	wait("last", false)
	wait("soon", true)
	wait("next", true)
	first.release()
	group.Wait()
	if diff := cmp.Diff([]string{"soon", "next", "later", "last"}, order); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if s.free != 1 || s.freeOthers != 1 || s.waiting() != 0 {
		t.Errorf("%d slots are free, %d for others, and %d wait at the end", s.free, s.freeOthers, s.waiting())
	}
}

func (s *apiSlots) waiting() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.urgent) + len(s.others)
}

// TestNoSlotIsLost where the context of a waiting reconcile ends.
func TestNoSlotIsLost(t *testing.T) {
	for _, urgent := range []bool{true, false} {
		s := newAPISlots(1, 1)
		held, late := apiSlot{of: s}, apiSlot{of: s}
		held.acquire(t.Context(), urgent)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if late.acquire(ctx, urgent) {
			t.Error("a slot is given that another one holds")
		}
		late.release()
		held.release()
		if s.free != 1 || s.freeOthers != 1 || s.waiting() != 0 {
			t.Errorf("urgent %t: %d slots are free and %d wait", urgent, s.free, s.waiting())
		}
	}
}

// TestOthersLeaveSlotsFree: reconciles that can wait never have all slots, and a reconcile that has become able to wait gives an urgent one back.
func TestOthersLeaveSlotsFree(t *testing.T) {
	s := newAPISlots(2, 1)
	over, cancel := context.WithCancel(t.Context())
	cancel()
	first, second, third := apiSlot{of: s}, apiSlot{of: s}, apiSlot{of: s}
	if !first.acquire(over, false) {
		t.Fatal("a free slot is not given at once")
	}
	if second.acquire(over, false) {
		t.Error("others have all slots")
	}
	if !second.acquire(over, true) || third.acquire(over, true) {
		t.Error("the last slot is not given to an urgent one, or to two")
	}
	if second.acquire(over, false) || second.held || s.free != 1 {
		t.Errorf("a reconcile that can wait keeps an urgent slot: %d are free", s.free)
	}
	first.release()
	if !second.acquire(over, false) || !second.acquire(over, true) || s.free != 1 {
		t.Error("a reconcile with a slot waits for another")
	}
}

// TestASlotThatComesWithTheEnd of the context is the reconcile's, whichever of the two it sees first.
func TestASlotThatComesWithTheEnd(t *testing.T) {
	over, cancel := context.WithCancel(t.Context())
	cancel()
	s := newAPISlots(1, 1)
	for i := range 100 {
		own := apiSlot{of: s}
		if !own.acquire(over, i%2 == 0) {
			t.Fatalf("slot %d is free, and is not given", i)
		}
		own.release()
	}
	if s.free != 1 || s.freeOthers != 1 || s.waiting() != 0 {
		t.Errorf("%d slots are free, %d for others, and %d wait at the end", s.free, s.freeOthers, s.waiting())
	}
}

// TestNoSlotIsGivenTwice: a reconcile that has waited for maxWait gets a free slot alone.
func TestNoSlotIsGivenTwice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newAPISlots(1, 1)
		urgent, late := apiSlot{of: s}, apiSlot{of: s}
		urgent.acquire(t.Context(), true)
		go late.acquire(t.Context(), false)
		<-time.After(2 * maxWait)
		synctest.Wait()
		if late.held || s.free != 0 {
			t.Errorf("it has a slot: %t, and %d are free", late.held, s.free)
		}
		urgent.release()
		synctest.Wait()
		if !late.held || s.free != 0 {
			t.Errorf("after that it has a slot: %t, and %d are free", late.held, s.free)
		}
		late.release()
	})
}

// TestASlotThatSufficesIsKept, though another reconcile waits for one.
func TestASlotThatSufficesIsKept(t *testing.T) {
	for _, urgent := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			over, cancel := context.WithCancel(t.Context())
			cancel()
			s := newAPISlots(1, 1)
			own, other := apiSlot{of: s}, apiSlot{of: s}
			own.acquire(t.Context(), urgent)
			go other.acquire(t.Context(), urgent)
			synctest.Wait()
			if kept := own.acquire(over, urgent); !kept || other.held {
				t.Errorf("urgent %t: the slot is kept: %t, and the other reconcile has it: %t", urgent, kept, other.held)
			}
			own.release()
			synctest.Wait()
			other.release()
		})
	}
}

// TestOthersWaitForUrgentReconciles, though a slot is free, and for maxWait at most.
func TestOthersWaitForUrgentReconciles(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newAPISlots(3, 1)
		urgent, first, second := apiSlot{of: s}, apiSlot{of: s}, apiSlot{of: s}
		urgent.acquire(t.Context(), true)
		var mu sync.Mutex
		var got []string
		count := func() int {
			synctest.Wait()
			mu.Lock()
			defer mu.Unlock()
			return len(got)
		}
		begun := time.Now() //nolint:forbidigo // the time of a bubble
		wait := func(name string, own *apiSlot) {
			go func() {
				own.acquire(t.Context(), false)
				mu.Lock()
				defer mu.Unlock()
				got = append(got, fmt.Sprint(name, " after ", time.Since(begun))) //nolint:forbidigo // the time of a bubble
			}()
			synctest.Wait()
		}
		wait("the first", &first)
		time.Sleep(maxWait - 1) //nolint:forbidigo // time in a bubble passes at once
		if n := count(); n > 0 {
			t.Fatalf("%d have slots while a reconcile is urgent", n)
		}
		time.Sleep(time.Nanosecond) //nolint:forbidigo // time in a bubble passes at once
		wait("the second", &second)
		first.release()
		if n := count(); n != 1 {
			t.Errorf("%d have got slots: the wait of one ends that of another", n)
		}
		time.Sleep(time.Nanosecond) //nolint:forbidigo // time in a bubble passes at once
		urgent.release()
		count()
		if diff := cmp.Diff([]string{"the first after 3s", "the second after 3.000000001s"}, got); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		second.release()
		if s.free != 3 || s.freeOthers != 1 || s.heldUrgent != 0 {
			t.Errorf("%d slots are free, %d for others, and %d are urgent at the end", s.free, s.freeOthers, s.heldUrgent)
		}
	})
}

// TestEventsWaitForUrgentReconciles: the events of a reconcile come before it ends, and after the urgent reconciles.
func TestEventsWaitForUrgentReconciles(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newAPISlots(2, 1)
		emitted := 0
		noted := func() *reconciliation {
			return &reconciliation{slot: apiSlot{of: s}, notes: []func(){func() { emitted++ }}}
		}
		urgent, over := apiSlot{of: s}, noted()
		urgent.acquire(t.Context(), true)
		over.slot.acquire(t.Context(), true)
		go over.end(t.Context())
		synctest.Wait()
		if emitted != 0 || s.heldUrgent != 1 {
			t.Errorf("%d events came first, and %d reconciles are urgent", emitted, s.heldUrgent)
		}
		watch := newStopwatch()
		(&reconciliation{slot: apiSlot{of: s}}).end(t.Context())
		if waited := watch(); waited != 0 {
			t.Errorf("a reconcile without events waits for %v", waited)
		}
		urgent.release()
		synctest.Wait()
		if emitted != 1 || s.free != 2 {
			t.Errorf("%d events came, and %d slots are free", emitted, s.free)
		}
		urgent.acquire(t.Context(), true)
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		noted().end(ended)
		if emitted != 2 || s.free != 1 {
			t.Errorf("%d events came though the reconcile had to end, and %d slots are free", emitted, s.free)
		}
		urgent.release()
	})
}

func TestWhatIsUrgent(t *testing.T) {
	commanded := &session{power: fencing.Power{}.CommandedOff(noon)}
	seenOff := &session{power: commanded.power.Observe(fencing.Reading{Begun: noon.Add(time.Second), State: fencing.IsOff})}
	failed := &session{failures: 1}
	for _, tc := range []struct {
		phase    fencing.Phase
		released bool
		known    *session
		want     bool
	}{
		{"", false, &session{}, true},
		{fencing.Preparing, false, &session{}, true},
		{fencing.Preparing, false, commanded, false},
		{fencing.Preparing, false, failed, false},
		{fencing.PoweringOff, false, &session{}, true},
		{fencing.PoweringOff, false, commanded, false},
		{fencing.PoweringOff, false, failed, false},
		{fencing.PoweringOff, false, seenOff, true},
		{fencing.PoweringOff, true, commanded, true},
		{fencing.Releasing, true, commanded, true},
		{fencing.PoweringOn, true, commanded, true},
		{fencing.Aborting, true, commanded, true},
		{fencing.Booting, true, commanded, false},
		{fencing.Restoring, true, commanded, false},
		{fencing.DeletingMachine, true, commanded, false},
		{fencing.Succeeded, true, commanded, false},
		{fencing.Failed, true, commanded, false},
		{fencing.Aborted, true, commanded, false},
	} {
		for _, before := range []bool{false, tc.released} { // by an earlier proof
			s := &v1alpha1.PowerRemediationStatus{FencingStatus: v1alpha1.FencingStatus{Phase: string(tc.phase), WorkloadReleased: tc.released && !before, ReleasedBefore: before}}
			if got := isUrgent(s, tc.known); got != tc.want {
				t.Errorf("phase %q, released %t, before %t, %+v: urgent %t, want %t", tc.phase, tc.released, before, tc.known, got, tc.want)
			}
		}
	}
}

// TestUrgencyOfARemediation: a remediation that this process has not read yet can't wait.
func TestUrgencyOfARemediation(t *testing.T) {
	s := newSessions(fencednode.NewClaims())
	if !s.isUrgent(keyA) {
		t.Error("an unknown one can wait")
	}
	known := s.of(keyA, "r-uid", "node-a")
	if !s.isUrgent(keyA) {
		t.Error("a remediation that was not read can wait")
	}
	s.keep(known, remediation(in(fencing.Booting)))
	if s.isUrgent(keyA) {
		t.Error("a remediation whose host boots can't wait")
	}
	s.keep(known, remediation(in(fencing.Releasing), func(r *v1alpha1.PowerRemediation) { r.ResourceVersion = "later" }))
	if !s.isUrgent(keyA) {
		t.Error("a remediation that is about to release its workload can wait")
	}
}

// TestRequestsBeforeTheCommand: until the power-off is commanded, the node and the remediation are read once each, and what is
// written is the finalizer, the record of the boot ID, and the taint. Fettle's own requests have the finalizer already. The next phase
// and the events follow.
func TestRequestsBeforeTheCommand(t *testing.T) {
	finalized := func(r *v1alpha1.PowerRemediation) { r.Finalizers = []string{annotation.PowerFinalizer} }
	after := []string{"patch status remediation", "patch node", "command", "patch status remediation"}
	for name, tc := range map[string]struct {
		remediation *v1alpha1.PowerRemediation
		want        []string
	}{
		"by another health checker": {remediation(), append([]string{"get remediation", "get node", "patch remediation"}, after...)},
		"by Fettle":                 {remediation(finalized), append([]string{"get remediation", "get node"}, after...)},
	} {
		requestsBeforeTheCommand(t, name, tc.remediation, tc.want)
	}
}

func requestsBeforeTheCommand(t *testing.T, name string, r *v1alpha1.PowerRemediation, want []string) {
	t.Helper()
	w := newWorld(t, node(), r, bmcFor("a", "node-a", "redfish://10.0.0.1"))
	var requests []string
	announced := -1
	w.refuses(func(verb string, o runtime.Object) error {
		switch o.(type) {
		case *corev1.Secret: // the command begins with the credentials, of which there are none
			if announced < 0 {
				announced = len(w.events.Events)
			}
			requests = append(requests, "command")
		case *corev1.Node:
			requests = append(requests, verb+" node")
		case *v1alpha1.PowerRemediation:
			requests = append(requests, verb+" remediation")
		}
		return nil
	})
	if err := w.reconcile(t.Context(), keyA); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, requests[:min(len(requests), len(want))]); diff != "" {
		t.Errorf("%s (-want +got):\n%s", name, diff)
	}
	if announced != 0 || len(w.events.Events) != 2 {
		t.Errorf("%s: %d events were emitted before the command, and %d in all", name, announced, len(w.events.Events))
	}
	n, got := w.node(t), w.remediation(t, keyA)
	if got.Status.Node.BootID != "boot-1" || !slices.Contains(n.Spec.Taints, ownTaint) || got.Status.Phase != string(fencing.PoweringOff) {
		t.Errorf("%s: the boot ID is not recorded, or the node is not tainted: %+v, %v", name, got.Status, n.Spec.Taints)
	}
	if w.apiSlots.free != maxAPISlots {
		t.Errorf("%s: %d slots are free after the reconcile", name, w.apiSlots.free)
	}
}
