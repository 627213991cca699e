package powercycle

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fettle-io/fettle/api/fettle/v1alpha1"
	"github.com/fettle-io/fettle/internal/fencing"
	"github.com/fettle-io/fettle/internal/remediator/fencednode"
)

// requests counts all requests to the API server.
func (w *world) requests() *int {
	count := 0
	w.refuses(func(string, runtime.Object) error {
		count++
		return nil
	})
	return &count
}

// TestAReconcileWithoutASlot sends no request.
func TestAReconcileWithoutASlot(t *testing.T) {
	w := newWorld(t, node(), remediation(in(fencing.PoweringOff)), bmcFor("a", "node-a", "telnet://x"))
	w.apiSlots = newAPISlots(0, 0)
	requests := w.requests()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := w.reconcile(ctx, keyA); !errors.Is(err, context.Canceled) || *requests != 0 {
		t.Errorf("it returns %v after %d requests", err, *requests)
	}
}

// TestAStepWithoutASlot ends the reconcile, and sends no request.
func TestAStepWithoutASlot(t *testing.T) {
	w := newWorld(t, node(), remediation(in(fencing.PoweringOff)))
	rec := begun(t, w, fencing.PoweringOff)
	rec.slot = apiSlot{of: newAPISlots(0, 0)}
	requests := w.requests()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	over, err := w.take(ctx, rec, fencing.Step{Kind: fencing.ReadNode})
	if !over || !errors.Is(err, context.Canceled) || *requests != 0 {
		t.Errorf("the reconcile is over: %t, with %v after %d requests", over, err, *requests)
	}
}

// TestWhichStepsAreUrgent: those of a remediation that can't wait. The reason to wait can be written later.
func TestWhichStepsAreUrgent(t *testing.T) {
	for _, tc := range []struct {
		phase  fencing.Phase
		step   fencing.StepKind
		urgent bool
	}{
		{fencing.PoweringOff, fencing.ReadMachine, true}, {fencing.PoweringOff, fencing.Wait, false},
		{fencing.Booting, fencing.ReadMachine, false}, {fencing.Booting, fencing.Wait, false},
	} {
		w := newWorld(t, node(), remediation(in(tc.phase)))
		rec := begun(t, w, tc.phase)
		rec.slot = apiSlot{of: w.apiSlots}
		over, err := w.take(t.Context(), rec, fencing.Step{Kind: tc.step, Reason: fencing.NodeNotBack})
		if err != nil || over != (tc.step == fencing.Wait) || !rec.slot.held || rec.slot.urgent != tc.urgent {
			t.Errorf("step %d in phase %s: %v, over %t, and the slot is %+v", tc.step, tc.phase, err, over, rec.slot)
		}
	}
}

// TestWhatAResumedReconcileKnows: nothing that was read before it began, and the remediation, which the process remembers.
func TestWhatAResumedReconcileKnows(t *testing.T) {
	w := newWorld(t, node(), remediation(in(fencing.PoweringOff)), bmcFor("a", "node-a", "", throughMetal3("gone")))
	rec := &reconciliation{key: keyA, slot: apiSlot{of: w.apiSlots}, r: w.remediation(t, keyA)}
	before := w.now()
	got, err := w.resume(t.Context(), rec)
	if err != nil || got != rec || !rec.facts.Begun.After(before) || rec.record.Phase != fencing.PoweringOff || rec.node != "node-a" {
		t.Errorf("the reconcile is %+v (%v)", got, err)
	}
	if r := w.sessions.written(keyA); r == nil || r.ResourceVersion != rec.r.ResourceVersion {
		t.Errorf("remembered is %+v", r)
	}
	if rec.bmc != nil || !rec.bmcProblem.found() {
		t.Errorf("a BMC whose BareMetalHost is not found is used: %+v, with problem %+v", rec.bmc, rec.bmcProblem)
	}
}

// TestAResumedRemediationWaitsForAnother, and is reconciled again while that goes on.
func TestAResumedRemediationWaitsForAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, node(), remediation(in(fencing.PoweringOff)), bmcFor("a", "node-a", "telnet://x"))
		w.sessions.claims.Claim("node-a", holderOf(keyB))
		if err := w.reconcile(t.Context(), keyA); err != nil {
			t.Fatal(err)
		}
		w.wakesAfter(t, keyA, requeueAfter)
	})
}

// TestARemovedNodeIsGone, of the UID that was read.
func TestARemovedNodeIsGone(t *testing.T) {
	w := newWorld(t, node(), remediation())
	rec := begun(t, w, fencing.Releasing)
	err := w.change(t.Context(), rec, fencing.RemoveNode)
	if gone := w.api.Get(t.Context(), types.NamespacedName{Name: "node-a"}, &corev1.Node{}); err != nil || !apierrors.IsNotFound(gone) {
		t.Errorf("the removal returns %v, and the node is gone: %v", err, gone)
	}
}

// TestANodeThatAFinalizerKeeps is deleted once, and awaited.
func TestANodeThatAFinalizerKeeps(t *testing.T) {
	proven := func(s *v1alpha1.PowerRemediationStatus) {
		s.Proof = &v1alpha1.FencingProof{Kind: string(fencing.NewBoot), At: metav1.NewMicroTime(noon), BootID: "boot-2"}
		s.WorkloadReleased, s.NodeDeletion, s.Node.OffBootID = true, true, "boot-2"
	}
	byDeletion := func(r *v1alpha1.PowerRemediation) { r.Spec.Release = v1alpha1.DeleteNodeRelease }
	kept := node(tainted(ownTaint), func(n *corev1.Node) { n.Status.NodeInfo.BootID, n.Finalizers = "boot-2", []string{"example.org/keeps"} })
	w := newWorld(t, kept, remediation(in(fencing.Releasing, proven), byDeletion), bmcFor("a", "node-a", "telnet://x"))
	deletions := 0
	w.refuses(func(verb string, _ runtime.Object) error {
		if verb == "delete" {
			deletions++
		}
		return nil
	})
	for range 2 {
		if err := w.reconcile(t.Context(), keyA); err != nil {
			t.Fatal(err)
		}
		if r := w.remediation(t, keyA); deletions != 1 || r.Status.Phase != string(fencing.Releasing) || processing(r) != string(fencing.NodeNotGone) {
			t.Errorf("after %d deletions it is in phase %s and says %q", deletions, r.Status.Phase, sayingOf(r))
		}
	}
}

// TestAChangeElsewhereThatFailsWithoutASlot: a failure in a workload cluster is written only with a slot.
func TestAChangeElsewhereThatFailsWithoutASlot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		refused := errors.New("its user may not patch")
		east := newWorld(t, node())
		east.patchesOfNodes(refused)
		w := newMemberWorld(t, map[types.NamespacedName]*world{keyEast: east}, node(), remediation(in(fencing.Releasing)))
		rec := begun(t, w, fencing.Releasing)
		rec.slot, rec.cluster, rec.nodes = apiSlot{of: newAPISlots(0, 0)}, fencedCluster{keyEast, "east-uid"}, east.nodes
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			synctest.Wait() // until the reconcile waits for a slot
			cancel()
		}()
		if err := w.change(ctx, rec, fencing.TaintNode); !errors.Is(err, refused) || processing(w.remediation(t, keyA)) != "" {
			t.Errorf("it returns %v, and says %q", err, processing(w.remediation(t, keyA)))
		}
	})
}

// TestWhyANodeElsewhereIsNotRead: the errors of workload clusters are fit to show, those of Fettle's own cluster are not.
func TestWhyANodeElsewhereIsNotRead(t *testing.T) {
	away := fencedCluster{keyEast, "east-uid"}
	unread := errors.New("it does not answer")
	for _, tc := range []struct {
		why     fencing.Reason
		cluster fencedCluster
		unread  error
		shown   bool
	}{
		{fencing.NodeNotRead, away, unread, true}, {fencing.WorkloadNotCounted, away, unread, true}, {fencing.NodeNotRead, away, nil, false},
		{fencing.NodeNotRead, fencedCluster{}, unread, false}, {fencing.WorkloadNotCounted, fencedCluster{}, unread, false}, {fencing.NodeNotBack, away, unread, false},
	} {
		w := newWorld(t, node(), remediation(in(fencing.Releasing)))
		rec := begun(t, w, fencing.Releasing)
		rec.cluster, rec.unread = tc.cluster, tc.unread
		if err := w.wait(t.Context(), rec, fencing.Step{Kind: fencing.Wait, Reason: tc.why}); err != nil {
			t.Fatal(err)
		}
		if says := sayingOf(w.remediation(t, keyA)); strings.HasSuffix(says, ": it does not answer") != tc.shown || !strings.HasPrefix(says, string(tc.why)+": ") {
			t.Errorf("waiting for %s, of cluster %v: it says %q", tc.why, tc.cluster, says)
		}
	}
}

// TestWhichNodesAreAwaitedAfterTheEnd: those of workload clusters, which no watch shows, while something is left to restore after an abort.
func TestWhichNodesAreAwaitedAfterTheEnd(t *testing.T) {
	for _, tc := range []struct {
		phase   fencing.Phase
		saved   bool
		cluster fencedCluster
		awaited bool
	}{
		{fencing.Aborted, true, fencedCluster{keyEast, "east-uid"}, true}, {fencing.Aborted, true, fencedCluster{}, false},
		{fencing.Failed, true, fencedCluster{keyEast, "east-uid"}, false}, {fencing.Aborted, false, fencedCluster{keyEast, "east-uid"}, false},
	} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, node(), remediation(in(tc.phase, func(s *v1alpha1.PowerRemediationStatus) {
				if tc.saved {
					savedNode(s)
				}
			})))
			rec := begun(t, w, tc.phase)
			rec.cluster, rec.facts.Node = tc.cluster, &fencing.Node{}
			if err := w.finish(t.Context(), rec); err != nil {
				t.Fatal(err)
			}
			<-time.After(requeueAfter + time.Millisecond)
			synctest.Wait()
			if woken := taken(w.remediations); woken[keyA] != tc.awaited {
				t.Errorf("%s, of cluster %v: reconciled again is %v", tc.phase, tc.cluster, woken)
			}
		})
	}
}

// TestOperationsThatHaveEndedAreNotInterrupted: a change of the node ends what is under way, and nothing that follows.
func TestOperationsThatHaveEndedAreNotInterrupted(t *testing.T) {
	for sentence, do := range map[string]func(*world, context.Context, *reconciliation){
		"a read of the power":     func(w *world, ctx context.Context, rec *reconciliation) { w.operateHost(ctx, rec, fencing.ReadPower) },
		"a count of the workload": func(w *world, ctx context.Context, rec *reconciliation) { w.countWorkload(ctx, rec) },
	} {
		w := newWorld(t, node(tainted(outOfServiceTaint)), remediation(), bmcFor("a", "node-a", "telnet://x"))
		rec := begun(t, w, fencing.Releasing)
		rec.bmc, rec.record.Released = w.bmc(t, "a"), true
		if !rec.releases() {
			t.Fatalf("nothing is released: %+v", rec.facts.Node)
		}
		do(w, t.Context(), rec)
		if rec.s.interrupt != nil {
			t.Errorf("%s can be interrupted after its end", sentence)
		}
	}
}

// TestABareMetalHostAnswers: each command reads it, so Fettle reads no power before its turn.
func TestABareMetalHostAnswers(t *testing.T) {
	w := newWorld(t)
	requests := w.requests()
	if found := w.answers(t.Context(), &reconciliation{bmc: bmcFor("a", "node-a", "", throughMetal3("host-a"))}); found != (problem{}) || *requests != 0 {
		t.Errorf("the problem is %+v after %d requests", found, *requests)
	}
}

// TestAStatusThatCanNotBeWritten leaves all as it was: nothing is announced, and the remediation is not forgotten.
func TestAStatusThatCanNotBeWritten(t *testing.T) {
	down := errors.New("down")
	for sentence, do := range map[string]func(*world, context.Context, *reconciliation) error{
		"a record": func(w *world, ctx context.Context, rec *reconciliation) error {
			return w.write(ctx, rec, fencing.Record{Phase: fencing.Releasing})
		},
		"what it waits for": func(w *world, ctx context.Context, rec *reconciliation) error {
			return w.publish(ctx, rec, "Waits", "for it")
		},
		"why it is refused": func(w *world, ctx context.Context, rec *reconciliation) error {
			return w.refuse(ctx, rec.r, problem{reason: "NoBMC", message: "x"})
		},
		"the end of what is kept": func(w *world, ctx context.Context, rec *reconciliation) error { return w.finish(ctx, rec) },
	} {
		w := newWorld(t, node(), remediation(in(fencing.PoweringOff, savedNode)))
		rec := begun(t, w, fencing.PoweringOff)
		before := rec.r.DeepCopy()
		rec.facts.Node = &fencing.Node{Exists: true, UID: "later-uid"}
		w.refuses(func(verb string, _ runtime.Object) error {
			if verb == "patch status" {
				return down
			}
			return nil
		})
		err := do(w, t.Context(), rec)
		if !errors.Is(err, down) || rec.r.ResourceVersion != before.ResourceVersion || rec.record.Phase != fencing.PoweringOff || len(rec.notes)+len(w.events.Events) != 0 || w.sessions.byKey[keyA] == nil {
			t.Errorf("%s: %v, and the reconcile is %+v after %d events", sentence, err, rec, len(w.events.Events))
		}
	}
}

// TestWhatIsSavedOfANode: all of it when it is to be deleted, once. It is dropped where a fencing has ended and the node has it again.
func TestWhatIsSavedOfANode(t *testing.T) {
	back := &fencing.Node{Exists: true, UID: "later-uid"}
	earlier := &v1alpha1.SavedNode{UID: "earlier-uid"}
	for _, tc := range []struct {
		sentence string
		record   fencing.Record
		raw      *corev1.Node
		saved    *v1alpha1.SavedNode
		now      *fencing.Node
		want     types.UID
	}{
		{"it is to be deleted", fencing.Record{Phase: fencing.Releasing, Released: true, DeletedNode: true}, node(), nil, nil, "node-uid"},
		{"it gets a taint", fencing.Record{Phase: fencing.Releasing, Released: true}, node(), nil, nil, ""},
		{"nothing is released", fencing.Record{Phase: fencing.Releasing, DeletedNode: true}, node(), nil, nil, ""},
		{"there is no node", fencing.Record{Phase: fencing.Releasing, Released: true, DeletedNode: true}, nil, nil, nil, ""},
		{"it was saved before", fencing.Record{Phase: fencing.Releasing, Released: true, DeletedNode: true}, node(), earlier, nil, "earlier-uid"},
		{"it is back at the end", fencing.Record{Phase: fencing.Aborted}, node(), earlier, back, ""},
		{"it is back before the end", fencing.Record{Phase: fencing.Aborting}, node(), earlier, back, "earlier-uid"},
		{"it is not back at the end", fencing.Record{Phase: fencing.Aborted}, nil, earlier, &fencing.Node{}, "earlier-uid"},
	} {
		w := newWorld(t)
		r := remediation(in(fencing.PoweringOff, func(s *v1alpha1.PowerRemediationStatus) { s.Node.Saved = tc.saved }))
		rec := &reconciliation{node: "node-a", r: r, raw: tc.raw, facts: fencing.Facts{Node: tc.now}}
		status := w.statusWith(rec, tc.record)
		if got := status.Node.Saved; (got == nil) != (tc.want == "") || got != nil && got.UID != string(tc.want) {
			t.Errorf("%s: saved is %+v, want %q", tc.sentence, got, tc.want)
		}
	}
}

// TestAnOldCacheWithoutAPhase: a remediation of which this process has written more is read from the API server.
func TestAnOldCacheWithoutAPhase(t *testing.T) {
	w := newWorld(t, remediation())
	written := w.remediation(t, keyA)
	written.ResourceVersion = "later"
	w.sessions.keep(w.sessions.of(keyA, written.UID, "node-a"), written)
	requests := w.requests()
	if r, err := w.current(t.Context(), keyA); err != nil || r == nil || *requests != 2 {
		t.Errorf("it is %+v (%v) after %d reads", r, err, *requests)
	}
}

// TestLongTextsAreCut, so that the API server takes them.
func TestLongTextsAreCut(t *testing.T) {
	w := newWorld(t, bmcFor("a", "node-a", "redfish://10.0.0.1"))
	long := strings.Repeat("x", 5000)
	w.emit(remediation(), corev1.EventTypeWarning, "Long", long)
	if event := <-w.events.Events; event != "Warning Long [remediation] "+strings.Repeat("x", 1024-len("[remediation] ")-len("…"))+"…" {
		t.Errorf("the event has %d bytes", len(event))
	}
	s := w.statusOf(w.bmc(t, "a"), observation{at: noon, problem: problem{reason: "TimedOut", message: long}})
	if got := s.Conditions[0].Message; len(got) != 4096 {
		t.Errorf("the message has %d bytes", len(got))
	}
}

// TestMetricsFollowTheRemediator: a phase that begins is counted, and a BMC that fails has a series until it is gone.
func TestMetricsFollowTheRemediator(t *testing.T) {
	w := newWorld(t, bmcFor("a", "node-a", "redfish://10.0.0.1"))
	w.Metrics = NewMetrics()
	if err := w.writeBMC(t.Context(), w.bmc(t, "a"), observation{at: noon, problem: problem{reason: "TimedOut"}}); err != nil || len(w.Metrics.series) != 1 {
		t.Errorf("%v, and the series are %v", err, w.Metrics.series)
	}
	w.bmcs.drop(bmcKey("a"))
	if err := w.probe(t.Context(), bmcKey("a")); err != nil || len(w.Metrics.series) != 0 {
		t.Errorf("%v, and the series of a BMC that is gone are %v", err, w.Metrics.series)
	}
	r := remediation(in(fencing.Failed))
	r.Status.Reason = "Tested"
	w.announce(&reconciliation{r: r, node: "node-a"}, &r.Status)
	if !w.Metrics.remediations.DeleteLabelValues(string(fencing.Failed), "Tested") {
		t.Error("a phase that has begun is not counted")
	}
}

// TestAProbeGivesItsSlotBack, so that others have all slots after it.
func TestAProbeGivesItsSlotBack(t *testing.T) {
	w := newWorld(t, bmcFor("a", "node-a", "telnet://x"))
	if err := w.probe(t.Context(), bmcKey("a")); err != nil || w.apiSlots.free != maxAPISlots {
		t.Errorf("%v, and %d slots are free", err, w.apiSlots.free)
	}
}

// TestAHoldIsShownInSeconds, as it is stored, and no longer than it lasts.
func TestAHoldIsShownInSeconds(t *testing.T) {
	w := newWorld(t)
	h, _ := w.opens(t, bmcFor("a", "node-a", "redfish://10.0.0.1"))
	h.secret = "8"
	odd := noon.Add(time.Second + time.Millisecond)
	h.power.Resume(2, odd.Add(10*time.Minute))
	var s v1alpha1.BMCStatus
	h.writeHold(&s, odd)
	since, until := noon.Add(time.Second), noon.Add(10*time.Minute+time.Second)
	if s.AuthenticationHeldSince == nil || !s.AuthenticationHeldSince.Time.Equal(since) || s.AuthenticationHeldUntil == nil || !s.AuthenticationHeldUntil.Time.Equal(until) {
		t.Errorf("it is shown from %v until %v, want %v and %v", s.AuthenticationHeldSince, s.AuthenticationHeldUntil, since, until)
	}
	h.power.Resume(0, time.Time{})
	h.writeHold(&s, odd)
	if s.AuthenticationHeldSince != nil || s.AuthenticationHeldUntil != nil {
		t.Errorf("after its end it is shown from %v until %v", s.AuthenticationHeldSince, s.AuthenticationHeldUntil)
	}
}

// TestHostsOfChangedBMCsEndTheirSessions, as those of BMCs that are gone do.
func TestHostsOfChangedBMCsEndTheirSessions(t *testing.T) {
	for sentence, end := range map[string]func(*world, *v1alpha1.BMC){
		"changed": func(w *world, bmc *v1alpha1.BMC) {
			changed := bmc.DeepCopy()
			changed.Generation++
			if _, found := w.opens(t, changed); found.found() {
				t.Error(found)
			}
		},
		"gone": func(w *world, bmc *v1alpha1.BMC) {
			w.hosts.drop(t.Context(), types.NamespacedName{Namespace: bmc.Namespace, Name: bmc.Name})
		},
	} {
		w, r := newRack(t, 1)
		bmc := w.bmc(t, hostKey(0).Name)
		if _, found := w.readPower(t.Context(), bmc); found.found() || len(w.hosts.slots) != 0 {
			t.Fatalf("%s: the problem is %+v, and %d slots are taken after the read", sentence, found, len(w.hosts.slots))
		}
		end(w, bmc)
		for ended := 0; ended != 1; { // it ends beside the reconcile
			r.set(func(r *rack) { ended = r.ended })
		}
	}
}

// TestTheHostBefore is the last of its BMC that has logged in. The host can be used by others after that operation.
func TestTheHostBefore(t *testing.T) {
	first := &host{secret: "1"}
	second := &host{before: first}
	for range 2 {
		if first.used() != first || second.used() != first || (&host{}).used() != nil {
			t.Errorf("before is %p and %p, want %p", first.used(), second.used(), first)
		}
	}
}

// TestBMCsThatCanNotBeTrusted have no host.
func TestBMCsThatCanNotBeTrusted(t *testing.T) {
	w := newWorld(t)
	bmc := bmcFor("a", "node-a", "redfish://10.0.0.1", func(b *v1alpha1.BMC) { b.Spec.TLS = &v1alpha1.BMCTLS{CABundle: "no certificate"} })
	if h, found := w.opens(t, bmc); h != nil || found.reason != trustInvalid || !strings.HasPrefix(found.message, "spec.tls of BMC a can't be used: ") {
		t.Errorf("the host is %+v with problem %+v", h, found)
	}
}

// TestTheLastRevisionsAreKnown, and no earlier ones.
func TestTheLastRevisionsAreKnown(t *testing.T) {
	s := newSessions(fencednode.NewClaims())
	known := s.of(keyA, "r-uid", "node-a")
	for last := range mostRevisions + 2 {
		s.keepRevision(known, string(rune('a'+last)))
		for i := range last + 1 {
			if got := s.hasWritten(keyA, string(rune('a'+i))); got != (last-i < mostRevisions) {
				t.Errorf("after revision %d, revision %d is known: %t", last, i, got)
			}
		}
	}
}

// TestTheProtocolOfABareMetalHost is named in the status.
func TestTheProtocolOfABareMetalHost(t *testing.T) {
	if got := protocolOf(bmcFor("a", "node-a", "", throughMetal3("host-a"))); got != "BareMetalHost" {
		t.Errorf("Fettle speaks %q to it", got)
	}
}

// TestStatusesOfChangedBMCs: a BMC that has changed since it was read is not written.
func TestStatusesOfChangedBMCs(t *testing.T) {
	w := newWorld(t, bmcFor("a", "node-a", "redfish://10.0.0.1"))
	read := w.bmc(t, "a")
	changed := read.DeepCopy()
	changed.Labels = map[string]string{"rack": "7"}
	if err := w.api.Update(t.Context(), changed); err != nil {
		t.Fatal(err)
	}
	if err := w.writeBMC(t.Context(), read, observation{at: noon, power: v1alpha1.HostOn}); !apierrors.IsConflict(err) || w.bmc(t, "a").Status.Power != "" {
		t.Errorf("it returns %v, and the status is %+v", err, w.bmc(t, "a").Status)
	}
}
