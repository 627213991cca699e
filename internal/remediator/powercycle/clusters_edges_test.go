package powercycle

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fettle-io/fettle/api/fettle/v1alpha1"
	"github.com/fettle-io/fettle/internal/fencing"
)

// unread has the reads of a kind fail.
func unread(kind schema.GroupVersionKind, err error) func(string, runtime.Object) error {
	return func(verb string, o runtime.Object) error {
		if verb == "get" && o.GetObjectKind().GroupVersionKind() == kind {
			return err
		}
		return nil
	}
}

// TestWhatCanNotBeReadRefusesNothing: the machine or its Cluster may well exist, so the remediation is tried again.
func TestWhatCanNotBeReadRefusesNothing(t *testing.T) {
	down := errors.New("down")
	for _, kind := range []schema.GroupVersionKind{clusterAPIMachine, clusterAPICluster} {
		w := newMemberWorld(t, nil, forMember(), member(nil), ofKind(clusterAPICluster, "east", nil), bmcIn("a", "fleet/east", "node-a"))
		w.refuses(unread(kind, down))
		if _, found, err := w.identifyMachine(t.Context(), w.remediation(t, keyM)); found.found() || !errors.Is(err, down) {
			t.Errorf("where the %s can't be read: problem %+v, %v", kind.Kind, found, err)
		}
	}
}

// TestAPausedClusterIsAwaited before anything else counts: a BMC may be created while nothing goes on.
func TestAPausedClusterIsAwaited(t *testing.T) {
	w := newMemberWorld(t, nil, forMember(), member(nil), ofKind(clusterAPICluster, "east", map[string]any{"spec.paused": true}))
	if s, found, err := w.identifyMachine(t.Context(), w.remediation(t, keyM)); err != nil || found.found() || s.waits.reason != clusterPaused {
		t.Errorf("it waits for %+v, with problem %+v (%v)", s.waits, found, err)
	}
}

// TestMachinesWithoutAUsableCluster are told apart from those whose Cluster is gone.
func TestMachinesWithoutAUsableCluster(t *testing.T) {
	for _, name := range []string{"", "../other/east"} {
		w := newMemberWorld(t, nil, forMember(), member(map[string]any{"spec.clusterName": name}))
		_, found, err := w.identifyMachine(t.Context(), w.remediation(t, keyM))
		if err != nil || found.reason != v1alpha1.CannotStartClusterNotFoundReason || !strings.HasSuffix(found.message, "names no Cluster (spec.clusterName)") {
			t.Errorf("named %q: problem %+v (%v)", name, found, err)
		}
	}
}

// TestAMemberThatIsReadWithoutASlot: the reconcile ends, with the error of the read if there is one.
func TestAMemberThatIsReadWithoutASlot(t *testing.T) {
	down := errors.New("it does not answer")
	for _, fault := range []error{nil, down} {
		east := newWorld(t, node())
		ctx, cancel := context.WithCancel(t.Context())
		east.refuses(func(string, runtime.Object) error {
			cancel() // the reconcile has to end during the read
			return fault
		})
		w := newMemberWorld(t, map[types.NamespacedName]*world{keyEast: east}, forMember())
		rec := &reconciliation{r: w.remediation(t, keyM), slot: apiSlot{of: newAPISlots(0, 0)}}
		s := subject{name: "node-a", cluster: fencedCluster{keyEast, "east-uid"}, machine: &v1alpha1.ObjectReference{Name: "m"}, bmc: bmcIn("a", "fleet/east", "node-a")}
		want := fault
		if fault == nil {
			want = context.Canceled
		}
		if found, err := w.readMember(ctx, rec, &s); found.found() || !errors.Is(err, want) {
			t.Errorf("after %v: problem %+v, %v", fault, found, err)
		}
	}
}

// TestReconcilesOfOneClusterShareTheirRoom until the last of them has ended.
func TestReconcilesOfOneClusterShareTheirRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newMemberWorld(t, map[types.NamespacedName]*world{keyEast: newWorld(t)})
		first, endFirst := context.WithCancel(t.Context())
		second, endSecond := context.WithCancel(t.Context())
		held, _ := w.enter(first, keyEast)
		if other, _ := w.enter(second, keyEast); other.Volumes() != held.Volumes() {
			t.Error("two reconciles for one cluster share nothing")
		}
		endFirst()
		synctest.Wait()
		if of := w.clusterLimits.byCluster[keyEast]; of == nil || of.reconciles != 1 || w.clusterLimits.reconciles != 1 || of.volumes != held.Volumes() {
			t.Errorf("after one has ended, the cluster has %+v", of)
		}
		endSecond()
		synctest.Wait()
		if len(w.clusterLimits.byCluster) != 0 || w.clusterLimits.reconciles != 0 {
			t.Errorf("after both have ended, %d clusters have %d reconciles", len(w.clusterLimits.byCluster), w.clusterLimits.reconciles)
		}
	})
}

// TestWithoutRoomARemediationGoesOnLater, if it has begun.
func TestWithoutRoomARemediationGoesOnLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newMemberWorld(t, map[types.NamespacedName]*world{keyEast: newWorld(t, node())}, forMember(in(fencing.PoweringOff), inEast), bmcIn("a", "fleet/east", "node-a"))
		w.clusterLimits.reconciles = maxReconcilesElsewhere
		if err := w.reconcile(t.Context(), keyM); err != nil || processing(w.remediation(t, keyM)) != "" {
			t.Errorf("%v, %+v", err, w.remediation(t, keyM).Status)
		}
		w.wakesAfter(t, keyM, requeueAtLimit)
	})
}

// TestFettlesOwnClusterIsNeverGone: a node of it may exist, though it can't be read. Where no slot is free, the same is true of any node.
func TestFettlesOwnClusterIsNeverGone(t *testing.T) {
	over, cancel := context.WithCancel(t.Context())
	cancel()
	away := fencedCluster{keyEast, "east-uid"}
	for sentence, tc := range map[string]struct {
		ctx     context.Context
		cluster fencedCluster
		slots   int
		gone    bool
	}{
		"Fettle's own":        {t.Context(), fencedCluster{}, 1, false},
		"a cluster":           {t.Context(), away, 1, true},
		"without a free slot": {over, away, 0, false},
	} {
		w := newWorld(t)
		if got := w.isGone(tc.ctx, &reconciliation{cluster: tc.cluster, slot: apiSlot{of: newAPISlots(tc.slots, tc.slots)}}); got != tc.gone {
			t.Errorf("%s is gone: %t", sentence, got)
		}
	}
}

// TestWithoutABMCNothingOfMetal3IsOpened: the recorded BareMetalHost has no BMC whose status could show what was done.
func TestWithoutABMCNothingOfMetal3IsOpened(t *testing.T) {
	w := newWorld(t, remediation(in(fencing.PoweringOn, usedHostA)), heldOff("host-a", "a-uid"))
	rec := &reconciliation{key: keyA, node: "node-a", r: w.remediation(t, keyA), s: w.sessions.of(keyA, "r-uid", "node-a"), record: fencing.Record{Phase: fencing.PoweringOn, PoweredOff: true}}
	rec.useRecordedHost()
	if found := w.tryBareMetalHost(t.Context(), rec, fencing.CommandOn); found.found() || w.holds(t, "host-a") || len(w.hosts.byKey) != 0 || w.probes.Len() != 0 {
		t.Errorf("problem %+v, held off: %t, opened are %v, and %d BMCs are probed", found, w.holds(t, "host-a"), w.hosts.byKey, w.probes.Len())
	}
}

// TestAnUnsuitableHostEndsNoFencing that has begun: its state may have changed since, and what was done is to be taken back.
func TestAnUnsuitableHostEndsNoFencing(t *testing.T) {
	unsuitable := metal3Host("host-a", "a-uid", true)
	unsuitable.Object["spec"] = map[string]any{"online": true, "disablePowerOff": true}
	for _, begun := range []bool{false, true} {
		w := newWorld(t, bmcFor("bmc-a", "node-a", "", throughMetal3("host-a")), unsuitable.DeepCopy())
		rec := w.reconciliationOf(w.bmc(t, "bmc-a"), nil)
		if !begun {
			rec.r = remediation()
		}
		if found := w.pin(t.Context(), rec); found.found() == begun || rec.metal.UID != "a-uid" {
			t.Errorf("begun %t: problem %+v, and the host is %+v", begun, found, rec.metal)
		}
	}
}
