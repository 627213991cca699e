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

// TestLanes: the urgent ones come first, and the others in the order in which they came.
func TestLanes(t *testing.T) {
	l := newLanes(1, 1)
	first := lane{of: l}
	for _, problem := range []string{"a free lane is not given", "a lane is awaited by its holder"} {
		if !first.enter(t.Context(), false) {
			t.Fatal(problem)
		}
	}
	var mu sync.Mutex
	var order []string
	var group sync.WaitGroup
	wait := func(name string, urgent bool) {
		waiting := l.waiting()
		group.Go(func() {
			own := lane{of: l}
			if !own.enter(t.Context(), urgent) {
				t.Errorf("%s got no lane", name)
			}
			mu.Lock()
			order = append(order, name)
			mu.Unlock()
			own.leave()
			own.leave() // a lane is given back once
		})
		for l.waiting() == waiting { //nolint:revive // it is about to wait
		}
	}
	wait("later", false)
	wait("last", false)
	wait("soon", true)
	wait("next", true)
	first.leave()
	group.Wait()
	if diff := cmp.Diff([]string{"soon", "next", "later", "last"}, order); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if l.free != 1 || l.freeOthers != 1 || l.waiting() != 0 {
		t.Errorf("%d lanes are free, %d for others, and %d wait at the end", l.free, l.freeOthers, l.waiting())
	}
}

func (l *lanes) waiting() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.urgent) + len(l.others)
}

// TestNoLaneIsLost where the context of a waiting look ends.
func TestNoLaneIsLost(t *testing.T) {
	for _, urgent := range []bool{true, false} {
		l := newLanes(1, 1)
		held, late := lane{of: l}, lane{of: l}
		held.enter(t.Context(), urgent)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if late.enter(ctx, urgent) {
			t.Error("a lane is given that another one holds")
		}
		late.leave()
		held.leave()
		if l.free != 1 || l.freeOthers != 1 || l.waiting() != 0 {
			t.Errorf("urgent %t: %d lanes are free and %d wait", urgent, l.free, l.waiting())
		}
	}
}

// TestOthersLeaveLanesFree: what can wait never has all lanes, and a look that has become able to wait gives an urgent one back.
func TestOthersLeaveLanesFree(t *testing.T) {
	l := newLanes(2, 1)
	over, cancel := context.WithCancel(t.Context())
	cancel()
	first, second, third := lane{of: l}, lane{of: l}, lane{of: l}
	if !first.enter(over, false) {
		t.Fatal("a free lane is not given at once")
	}
	if second.enter(over, false) {
		t.Error("others have all lanes")
	}
	if !second.enter(over, true) || third.enter(over, true) {
		t.Error("the last lane is not given to an urgent one, or to two")
	}
	if second.enter(over, false) || second.held || l.free != 1 {
		t.Errorf("a look that can wait keeps an urgent lane: %d are free", l.free)
	}
	first.leave()
	if !second.enter(over, false) || !second.enter(over, true) || l.free != 1 {
		t.Error("a look with a lane waits for another")
	}
}

// TestOthersWaitForUrgentLooks, though a lane is free, and for maxWait at most.
func TestOthersWaitForUrgentLooks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLanes(3, 1)
		urgent, first, second := lane{of: l}, lane{of: l}, lane{of: l}
		urgent.enter(t.Context(), true)
		var mu sync.Mutex
		var got []string
		count := func() int {
			synctest.Wait()
			mu.Lock()
			defer mu.Unlock()
			return len(got)
		}
		begun := time.Now() //nolint:forbidigo // the time of a bubble
		wait := func(name string, own *lane) {
			go func() {
				own.enter(t.Context(), false)
				mu.Lock()
				defer mu.Unlock()
				got = append(got, fmt.Sprint(name, " after ", time.Since(begun))) //nolint:forbidigo // the time of a bubble
			}()
			synctest.Wait()
		}
		wait("the first", &first)
		time.Sleep(maxWait - 1) //nolint:forbidigo // time in a bubble passes at once
		if n := count(); n > 0 {
			t.Fatalf("%d have lanes while a look is urgent", n)
		}
		time.Sleep(time.Nanosecond) //nolint:forbidigo // time in a bubble passes at once
		wait("the second", &second)
		first.leave()
		if n := count(); n != 1 {
			t.Errorf("%d have got lanes: the wait of one ends that of another", n)
		}
		time.Sleep(time.Nanosecond) //nolint:forbidigo // time in a bubble passes at once
		urgent.leave()
		count()
		if diff := cmp.Diff([]string{"the first after 3s", "the second after 3.000000001s"}, got); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		second.leave()
		if l.free != 3 || l.freeOthers != 1 || l.busy != 0 {
			t.Errorf("%d lanes are free, %d for others, and %d are urgent at the end", l.free, l.freeOthers, l.busy)
		}
	})
}

// TestEventsWaitForUrgentLooks: the events of a look come before it ends, and after the urgent looks.
func TestEventsWaitForUrgentLooks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLanes(2, 1)
		emitted := 0
		noted := func() *look { return &look{lane: lane{of: l}, notes: []func(){func() { emitted++ }}} }
		urgent, over := lane{of: l}, noted()
		urgent.enter(t.Context(), true)
		over.lane.enter(t.Context(), true)
		go over.end(t.Context())
		synctest.Wait()
		if emitted != 0 || l.busy != 1 {
			t.Errorf("%d events came first, and %d looks are urgent", emitted, l.busy)
		}
		(&look{lane: lane{of: l}}).end(t.Context()) // there is nothing to wait for
		urgent.leave()
		synctest.Wait()
		if emitted != 1 || l.free != 2 {
			t.Errorf("%d events came, and %d lanes are free", emitted, l.free)
		}
		urgent.enter(t.Context(), true)
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		noted().end(ended)
		if emitted != 2 || l.free != 1 {
			t.Errorf("%d events came though the look had to end, and %d lanes are free", emitted, l.free)
		}
		urgent.leave()
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

// TestUrgencyOfARemediation: what this process has not read yet can't wait.
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
	if err := w.look(t.Context(), keyA); err != nil {
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
	if w.lanes.free != maxLanes {
		t.Errorf("%s: %d lanes are free after the look", name, w.lanes.free)
	}
}
