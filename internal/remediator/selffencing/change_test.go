package selffencing

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
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fettle-io/fettle/api/fettle/annotation"
	"github.com/fettle-io/fettle/api/fettle/v1alpha1"
	"github.com/fettle-io/fettle/internal/fencing"
	"github.com/fettle-io/fettle/internal/remediator/fencednode"
)

// begun returns a reconcile of node-a's remediation, which knows the node as it is.
func (w *world) begun(t *testing.T) *reconciliation {
	t.Helper()
	r := w.remediation(t)
	rec := &reconciliation{key: keyA, node: "node-a", r: r, s: w.sessions.of(keyA, r.UID, "node-a"), record: recordOf(&r.Status)}
	rec.knows(w.node(t), noon)
	return rec
}

// patchesOfNodes has the patches of nodes fail, and counts them.
func (w *world) patchesOfNodes(err error) *int {
	count := 0
	w.refuses(func(verb string, o runtime.Object) error {
		if _, is := o.(*corev1.Node); is && verb == "patch" {
			count++
			return err
		}
		return nil
	})
	return &count
}

// TestChangesOfANodeThatChanges are made again a few times in succession. Then the failure is shown.
func TestChangesOfANodeThatChanges(t *testing.T) {
	kind := schema.GroupResource{Resource: "nodes"}
	for sentence, tc := range map[string]struct {
		err  error
		want int
	}{
		"it has changed": {apierrors.NewConflict(kind, "node-a", errors.New("x")), mostConflicts + 1},
		"it is gone":     {apierrors.NewNotFound(kind, "node-a"), mostConflicts + 1},
		"it is refused":  {apierrors.NewForbidden(kind, "node-a", errors.New("x")), 1},
	} {
		w := newWorld(t, node(), leaseOf(t, "node-a"), remediation())
		tried := w.patchesOfNodes(tc.err)
		err := w.reconcile(t.Context(), keyA)
		if !errors.Is(err, tc.err) || *tried != tc.want || processing(w.remediation(t)) != notChanged {
			t.Errorf("%s: after %d changes it says %s (%v), want %d", sentence, *tried, processing(w.remediation(t)), err, tc.want)
		}
	}
}

// TestChangesInSuccession: a change that succeeds ends the count of those before it that failed.
func TestChangesInSuccession(t *testing.T) {
	w := newWorld(t, node(), remediation(in(fencing.Releasing)))
	rec := w.begun(t)
	conflict := apierrors.NewConflict(schema.GroupResource{Resource: "nodes"}, "node-a", errors.New("x"))
	for round, kind := range []fencing.StepKind{fencing.TaintNode, fencing.UntaintNode} {
		w.patchesOfNodes(conflict)
		for range mostConflicts {
			rec.raw = w.node(t)
			if err := w.change(t.Context(), rec, fencing.TaintNode); err != nil {
				t.Fatalf("round %d: %v", round, err)
			}
			if rec.facts.Node != nil || rec.raw != nil || rec.facts.Begun.IsZero() {
				t.Errorf("after a change that failed, the node is known as %+v", rec.facts.Node)
			}
		}
		w.refuses(nil)
		rec.raw = w.node(t)
		if err := w.change(t.Context(), rec, kind); err != nil {
			t.Fatal(err)
		}
	}
}

// TestAChangeThatIsCutShort says nothing: the process ends, or other work comes first.
func TestAChangeThatIsCutShort(t *testing.T) {
	w := newWorld(t, node(), remediation(in(fencing.Releasing)))
	rec := w.begun(t)
	ctx, cancel := context.WithCancel(t.Context())
	w.refuses(func(verb string, o runtime.Object) error {
		if _, is := o.(*corev1.Node); is && verb == "patch" {
			cancel()
			return ctx.Err()
		}
		return nil
	})
	if err := w.change(ctx, rec, fencing.TaintNode); !errors.Is(err, context.Canceled) || processing(w.remediation(t)) != "" {
		t.Errorf("it says %q (%v)", processing(w.remediation(t)), err)
	}
}

// TestWhatAReconcileKnowsAfterATaint: before the promise is revoked, the answer has the node as it is now. Later the node is read again.
func TestWhatAReconcileKnowsAfterATaint(t *testing.T) {
	for _, tc := range []struct {
		phase fencing.Phase
		step  fencing.StepKind
		knows bool
	}{
		{fencing.Preparing, fencing.TaintNode, true}, {fencing.Condemning, fencing.TaintNode, false}, {fencing.Preparing, fencing.UntaintNode, false},
	} {
		w := newWorld(t, node(), remediation(in(tc.phase)))
		rec := w.begun(t)
		before := w.now()
		if err := w.change(t.Context(), rec, tc.step); err != nil {
			t.Fatal(err)
		}
		if knows := rec.facts.Node != nil && rec.raw != nil; knows != tc.knows || !rec.facts.Begun.After(before) {
			t.Errorf("after step %d in phase %s the node is known: %t", tc.step, tc.phase, knows)
		}
		if says := processing(w.remediation(t)); says != "" {
			t.Errorf("after a change that succeeds it says %s", says)
		}
		if tc.knows && (!rec.facts.Node.Tainted || !rec.facts.Node.ReadAt.After(before) || rec.facts.Node.ReadAt.After(rec.facts.Begun)) {
			t.Errorf("the node is known as %+v", rec.facts.Node)
		}
	}
}

// TestWhenAChangeHasFailed last, in this phase, unless a change has succeeded since.
func TestWhenAChangeHasFailed(t *testing.T) {
	w := newWorld(t, node(), remediation(in(fencing.Preparing)))
	rec := w.begun(t)
	rec.record.Phase = fencing.Preparing
	fails := func() {
		t.Helper()
		before := w.now()
		w.patchesOfNodes(errors.New("no answer"))
		rec.raw = w.node(t)
		if err := w.change(t.Context(), rec, fencing.TaintNode); err == nil || !rec.s.changeFailed.After(before) {
			t.Errorf("after a change that failed (%v), the time is %v", err, rec.s.changeFailed)
		}
		w.refuses(nil)
	}
	fails()
	rec.raw = w.node(t)
	if err := w.change(t.Context(), rec, fencing.TaintNode); err != nil || !rec.s.changeFailed.IsZero() {
		t.Errorf("after a change that succeeded (%v), the time is %v", err, rec.s.changeFailed)
	}
	fails()
	if err := w.write(t.Context(), rec, fencing.Record{Phase: fencing.Aborting, Attempt: 1}); err != nil || !rec.s.changeFailed.IsZero() {
		t.Errorf("in another phase (%v), the time is %v", err, rec.s.changeFailed)
	}
}

// TestOnlyChangesChange: a step that is none of them is an error, and so is a step of a fencing by power. Both end the reconcile.
func TestOnlyChangesChange(t *testing.T) {
	w := newWorld(t, node(), remediation(in(fencing.Releasing)))
	rec := w.begun(t)
	patches := w.patchesOfNodes(nil)
	if err := w.changeOne(t.Context(), rec, fencing.Wait); err == nil || *patches != 0 {
		t.Errorf("%v, after %d patches", err, *patches)
	}
	if over, err := w.take(t.Context(), rec, fencing.Step{Kind: fencing.CommandOff}); !over || err == nil {
		t.Errorf("a command of the power ends the reconcile: %t, with %v", over, err)
	}
}

// TestAReconcileEndsWithItsWait, and with the end of its remediation.
func TestAReconcileEndsWithItsWait(t *testing.T) {
	for phase, step := range map[fencing.Phase]fencing.Step{
		fencing.Booting: {Kind: fencing.Wait, Reason: fencing.NodeNotBack}, fencing.Succeeded: {Kind: fencing.Finish},
	} {
		w := newWorld(t, node(), remediation(in(phase)))
		if over, err := w.take(t.Context(), w.begun(t), step); !over || err != nil {
			t.Errorf("in phase %s the reconcile is over: %t, with %v", phase, over, err)
		}
	}
}

// TestAWaitIsTheLastStep of a reconcile: nothing is done before it is over.
func TestAWaitIsTheLastStep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, node(), leaseOf(t, "node-a", condemnedBy(uidA)), remediation(in(fencing.Booting)))
		if r := w.reconciles(t); processing(r) != string(fencing.NodeNotBack) {
			t.Fatalf("it is %+v", r.Status)
		}
		w.wakesAfter(t, requeueAfter)
	})
}

// TestWaitsAreRequeued when the step says so, and every ten seconds at the latest.
func TestWaitsAreRequeued(t *testing.T) {
	for until, want := range map[time.Duration]time.Duration{3 * time.Second: 3 * time.Second, time.Minute: requeueAfter, 0: requeueAfter} { // zero is never
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, node(), remediation(in(fencing.Booting)))
			step := fencing.Step{Kind: fencing.Wait, Reason: fencing.NodeNotBack}
			if until != 0 {
				step.Until = w.now().Add(until)
			}
			if err := w.wait(t.Context(), w.begun(t), step); err != nil {
				t.Fatal(err)
			}
			w.wakesAfter(t, want)
		})
	}
	w := newWorld(t, node(), remediation(in(fencing.Booting)))
	if err := w.wait(t.Context(), w.begun(t), fencing.Step{Kind: fencing.Wait, Until: noon.Add(-time.Minute)}); err != nil || w.remediations.Len() != 1 {
		t.Errorf("after its time it is not reconciled: %v", err)
	}
}

// TestRemediationsThatWaitAreReconciledAgain, before they begin and after that.
func TestRemediationsThatWaitAreReconciledAgain(t *testing.T) {
	for _, phase := range []fencing.Phase{"", fencing.Condemning} {
		synctest.Test(t, func(t *testing.T) {
			r := remediation()
			if phase != "" {
				r = remediation(in(phase))
			}
			w := newWorld(t, node(), leaseOf(t, "node-a"), r)
			w.Claims.Claim("node-a", holderOf(keyB))
			if r := w.reconciles(t); processing(r) != fencednode.AnotherRemediation {
				t.Fatalf("it is %+v", r.Status)
			}
			w.wakesAfter(t, requeueAfter)
		})
	}
}

// TestWhatAReconcileBeginsWith: it begins with the reads from before it, and nothing else.
func TestWhatAReconcileBeginsWith(t *testing.T) {
	w := newWorld(t, node(), leaseOf(t, "node-a"), remediation())
	rec := &reconciliation{key: keyA, r: w.remediation(t)}
	before := w.now()
	got, err := w.begin(t.Context(), rec)
	if n := rec.facts.Node; err != nil || got != rec || n == nil || !n.ReadAt.After(before) || !rec.facts.Begun.After(n.ReadAt) || rec.raw == nil || rec.node != "node-a" {
		t.Errorf("it begins at %v with node %+v (%v)", rec.facts.Begun, rec.facts.Node, err)
	}
	w = newWorld(t, node(), leaseOf(t, "node-a"), remediation(in(fencing.Condemning)))
	rec = &reconciliation{key: keyA, r: w.remediation(t)}
	before = w.now()
	got, err = w.resume(t.Context(), rec)
	if err != nil || got != rec || rec.facts.Node != nil || !rec.facts.Begun.After(before) || rec.record.Phase != fencing.Condemning {
		t.Errorf("it goes on from %v with %+v (%v)", rec.facts.Begun, rec.record, err)
	}
}

// TestAReconcileThatNeverEnds is cut after a number of steps, and goes on after a pause.
func TestAReconcileThatNeverEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		proven := in(fencing.Releasing, func(s *v1alpha1.SelfFenceRemediationStatus) {
			s.Proof, s.WorkloadReleased = &v1alpha1.FencingProof{Kind: "PromiseExpired", At: metav1.NewMicroTime(noon)}, true
		})
		w := newWorld(t, node(), remediation(proven), leaseOf(t, "node-a", condemnedBy(uidA)))
		reads := 0
		w.refuses(func(verb string, o runtime.Object) error {
			if _, is := o.(*corev1.Node); !is || verb != "get" {
				return nil
			}
			reads++
			w.mu.Lock()
			fault := w.fault
			w.fault = nil
			w.mu.Unlock()
			defer w.refuses(fault)
			bare := w.node(t)
			bare.Spec.Taints = nil // another controller removes the taints
			return w.api.Update(t.Context(), bare)
		})
		if err := w.reconcile(t.Context(), keyA); err != nil {
			t.Fatal(err)
		}
		if reads != mostSteps/2 {
			t.Errorf("the node is read %d times", reads)
		}
		w.wakesAfter(t, retryRead)
	})
}

// TestReadsThatFailAreRepeated after two seconds.
func TestReadsThatFailAreRepeated(t *testing.T) {
	w := newWorld(t, node(), remediation(in(fencing.Condemning)))
	rec := w.begun(t)
	w.refuses(func(string, runtime.Object) error { return errors.New("no answer") })
	before := w.now()
	w.readNode(t.Context(), rec)
	w.countWorkload(t.Context(), rec)
	if n := rec.facts.Node; !n.Failed || n.RetryAt.Sub(before).Truncate(time.Second) != retryRead || !n.ReadAt.After(before) {
		t.Errorf("the node is %+v", n)
	}
	if left := rec.facts.Workload; !left.Failed || left.RetryAt.Sub(before).Truncate(time.Second) != retryRead {
		t.Errorf("the workload is %+v", left)
	}
}

// TestFinish: the node is free for others. The saved fields are dropped once the node has them again, and kept before.
func TestFinish(t *testing.T) {
	saved := in(fencing.Aborted, func(s *v1alpha1.SelfFenceRemediationStatus) {
		s.Node.Saved = &v1alpha1.SavedNode{UID: "earlier-uid"}
	})
	for _, back := range []bool{false, true} {
		w := newWorld(t, node(), remediation(saved))
		w.Claims.Claim("node-a", holderOf(keyA))
		rec := w.begun(t)
		rec.facts.Node = &fencing.Node{Exists: back, UID: "node-uid"}
		if err := w.finish(t.Context(), rec); err != nil || w.Claims.Len() != 0 || (w.remediation(t).Status.Node.Saved == nil) != back {
			t.Errorf("back %t: %v, %d nodes are held, and saved is %+v", back, err, w.Claims.Len(), w.remediation(t).Status.Node.Saved)
		}
	}
}

// TestWhatAReconcileKnowsAfterARecord: before the promise is revoked it goes on from the node that it has read. Later nothing that was read before
// a record counts.
func TestWhatAReconcileKnowsAfterARecord(t *testing.T) {
	for before, want := range map[fencing.Phase]bool{"": true, fencing.Preparing: true, fencing.Condemning: false, fencing.Releasing: false, fencing.Booting: false} {
		w := newWorld(t, node(), remediation())
		rec := w.begun(t)
		rec.record.Phase = before
		at := w.now()
		if err := w.write(t.Context(), rec, fencing.Record{Phase: fencing.Condemning, Since: noon, Attempt: 1}); err != nil {
			t.Fatal(err)
		}
		if kept := rec.facts.Node != nil && rec.raw != nil; kept != want || !rec.facts.Begun.After(at) || rec.record.Phase != fencing.Condemning {
			t.Errorf("after phase %q the node is known: %t, want %t", before, kept, want)
		}
	}
}

// TestWhichRecordsAreAnnounced: those of another phase, or of another attempt.
func TestWhichRecordsAreAnnounced(t *testing.T) {
	for sentence, tc := range map[string]struct {
		record fencing.Record
		want   int
	}{
		"the same":        {fencing.Record{Phase: fencing.Condemning, Attempt: 1, Revoked: true}, 0},
		"another phase":   {fencing.Record{Phase: fencing.Releasing, Attempt: 1}, 1},
		"another attempt": {fencing.Record{Phase: fencing.Condemning, Attempt: 2}, 1},
	} {
		w := newWorld(t, node(), remediation(in(fencing.Condemning)))
		if err := w.write(t.Context(), w.begun(t), tc.record); err != nil || len(w.events.Events) != tc.want {
			t.Errorf("%s: %v, with %d events", sentence, err, len(w.events.Events))
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
		want     string
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
		r := remediation(in(fencing.Condemning, func(s *v1alpha1.SelfFenceRemediationStatus) { s.Node.Saved = tc.saved }))
		rec := &reconciliation{node: "node-a", r: r, raw: tc.raw, facts: fencing.Facts{Node: tc.now}}
		if got := w.statusWith(rec, tc.record).Node.Saved; (got == nil) != (tc.want == "") || got != nil && got.UID != tc.want {
			t.Errorf("%s: saved is %+v, want %q", tc.sentence, got, tc.want)
		}
	}
}

// TestAStatusThatCanNotBeWritten leaves all as it was: nothing is announced, and the remediation is not forgotten.
func TestAStatusThatCanNotBeWritten(t *testing.T) {
	saved := func(s *v1alpha1.SelfFenceRemediationStatus) { s.Node.Saved = &v1alpha1.SavedNode{UID: "earlier-uid"} }
	for sentence, do := range map[string]func(*world, context.Context, *reconciliation) error{
		"a record": func(w *world, ctx context.Context, rec *reconciliation) error {
			return w.write(ctx, rec, fencing.Record{Phase: fencing.Releasing})
		},
		"what it waits for": func(w *world, ctx context.Context, rec *reconciliation) error {
			return w.publish(ctx, rec, "Waits", "for it")
		},
		"why it is refused": func(w *world, ctx context.Context, rec *reconciliation) error {
			return w.refuse(ctx, rec.r, problem{Reason: "NoNode"})
		},
		"the end of what is kept": func(w *world, ctx context.Context, rec *reconciliation) error { return w.finish(ctx, rec) },
	} {
		w := newWorld(t, node(), remediation(in(fencing.Condemning, saved)))
		rec := w.begun(t)
		rec.facts.Node = &fencing.Node{Exists: true, UID: "later-uid"}
		rec.r.ResourceVersion = "1" // others have changed it since
		if err := do(w, t.Context(), rec); err == nil || rec.r.ResourceVersion != "1" || rec.record.Phase != fencing.Condemning || len(w.events.Events) != 0 || w.sessions.byKey[keyA] == nil {
			t.Errorf("%s: %v, and the reconcile is %+v after %d events", sentence, err, rec, len(w.events.Events))
		}
	}
}

// TestWhatARemediationWaitsForIsWrittenOnce, and never after its end.
func TestWhatARemediationWaitsForIsWrittenOnce(t *testing.T) {
	for phase, want := range map[fencing.Phase]string{fencing.Booting: "b", fencing.Failed: ""} {
		w := newWorld(t, node(), remediation(in(phase)))
		rec := w.begun(t)
		var revisions []string
		for _, message := range []string{"a", "a", "b"} {
			if err := w.publish(t.Context(), rec, "Waits", message); err != nil {
				t.Fatal(err)
			}
			revisions = append(revisions, rec.r.ResourceVersion)
		}
		if got := messageOf(w.remediation(t)); got != want || revisions[0] != revisions[1] || (revisions[1] == revisions[2]) != (want == "") {
			t.Errorf("in phase %s it says %q in revisions %v", phase, got, revisions)
		}
	}
}

// TestARefusalIsSaidOnce, with an event, and the remediation is forgotten then.
func TestARefusalIsSaidOnce(t *testing.T) {
	w := newWorld(t, remediation())
	for i := range 2 {
		w.sessions.of(keyA, uidA, "node-a")
		if err := w.refuse(t.Context(), w.remediation(t), problem{Reason: "NoNode", Message: "there is none"}); err != nil {
			t.Fatal(err)
		}
		if forgotten := w.sessions.byKey[keyA] == nil; forgotten != (i == 0) || len(w.events.Events) != 1 {
			t.Errorf("refusal %d: forgotten %t, after %d events", i, forgotten, len(w.events.Events))
		}
	}
	if event := <-w.events.Events; event != "Warning RemediationCannotStart [remediation] nothing was done: there is none" {
		t.Errorf("the event is %q", event)
	}
	for i, want := range []metav1.Condition{
		{Type: v1alpha1.ProcessingCondition, Reason: "NoNode"}, {Type: v1alpha1.SucceededCondition, Reason: "NoNode"}, {Type: v1alpha1.PermanentNodeDeletionExpectedCondition, Reason: v1alpha1.HostIsReusedReason},
	} {
		if c := w.remediation(t).Status.Conditions[i]; c.Type != want.Type || c.Reason != want.Reason || c.Status != metav1.ConditionFalse || c.Message != "nothing was done: there is none" {
			t.Errorf("condition %d is %+v", i, c)
		}
	}
}

// TestARemediationThatIsGone is forgotten: it holds no node, and others of the node are reconciled. A remediation that can't be read is not.
func TestARemediationThatIsGone(t *testing.T) {
	for _, fault := range []error{nil, errors.New("no answer")} {
		w := newWorld(t)
		w.sessions.of(keyA, uidA, "node-a")
		w.sessions.of(keyB, "other-uid", "node-a")
		w.Claims.Claim("node-a", holderOf(keyA))
		w.refuses(func(string, runtime.Object) error { return fault })
		err := w.reconcile(t.Context(), keyA)
		gone := fault == nil
		if woken := taken(w.remediations); !errors.Is(err, fault) || (w.Claims.Len() == 0) != gone || (len(woken) == 1 && woken[0] == keyB) != gone || (w.sessions.byKey[keyA] == nil) != gone {
			t.Errorf("after %v: %v, %d nodes are held, woken are %v", fault, err, w.Claims.Len(), woken)
		}
	}
}

// TestAnInvalidStatusIsAnnounced: the phase or the node is not as Fettle writes it, and nothing is taken back.
func TestAnInvalidStatusIsAnnounced(t *testing.T) {
	w := newWorld(t, remediation(in("PoweringOff"), func(r *v1alpha1.SelfFenceRemediation) { r.DeletionTimestamp = &metav1.Time{Time: noon} }))
	if err := w.reconcile(t.Context(), keyA); err != nil || len(w.events.Events) != 1 {
		t.Fatalf("%v, and %d events", err, len(w.events.Events))
	}
	if event := <-w.events.Events; !strings.HasPrefix(event, "Warning StatusInvalid [remediation] status.phase is PoweringOff, or status.node is missing, so nothing is taken back") {
		t.Errorf("the event is %q", event)
	}
}

// TestTheFinalizerIsRemovedOnce: a remediation without it has nothing to give back, and a remediation that is gone meanwhile needs nothing.
func TestTheFinalizerIsRemovedOnce(t *testing.T) {
	kind := schema.GroupResource{Resource: "selffenceremediations"}
	for sentence, tc := range map[string]struct {
		finalizer string
		err       error
		requested bool
	}{
		"it has the finalizer":   {annotation.SelfFenceFinalizer, nil, true},
		"it has another":         {"example.org/other", nil, false},
		"it is gone":             {annotation.SelfFenceFinalizer, apierrors.NewNotFound(kind, "node-a"), true},
		"the API server is down": {annotation.SelfFenceFinalizer, errors.New("down"), true},
	} {
		w := newWorld(t, remediation(func(r *v1alpha1.SelfFenceRemediation) {
			r.Finalizers, r.DeletionTimestamp = []string{tc.finalizer}, &metav1.Time{Time: noon}
		}))
		w.sessions.of(keyA, uidA, "node-a")
		requested := false
		w.refuses(func(verb string, o runtime.Object) error {
			if _, is := o.(*v1alpha1.SelfFenceRemediation); is && verb == "patch" {
				requested = true
				return tc.err
			}
			return nil
		})
		err := w.reconcile(t.Context(), keyA)
		fails := tc.err != nil && !apierrors.IsNotFound(tc.err)
		if (err != nil) != fails || requested != tc.requested || (w.sessions.byKey[keyA] == nil) == fails {
			t.Errorf("%s: %v, requested %t, and the session is %v", sentence, err, requested, w.sessions.byKey[keyA])
		}
	}
}

// TestTheFinalizerIsSetOnce, with the machine that is claimed.
func TestTheFinalizerIsSetOnce(t *testing.T) {
	for claimed, want := range map[string]bool{keyM.String(): false, "": true, "checks/other": true} {
		r := remediation(func(r *v1alpha1.SelfFenceRemediation) {
			r.Finalizers, r.Annotations = []string{annotation.SelfFenceFinalizer}, map[string]string{annotation.ClaimedMachine: claimed}
		})
		w := newWorld(t, r)
		rec := &reconciliation{key: keyA, r: w.remediation(t)}
		before := rec.r.ResourceVersion
		if err := w.setFinalizer(t.Context(), rec, machine()); err != nil || (rec.r.ResourceVersion != before) != want || rec.r.Annotations[annotation.ClaimedMachine] != keyM.String() || len(rec.r.Finalizers) != 1 {
			t.Errorf("claimed %q: %v, and it is %+v", claimed, err, rec.r.ObjectMeta)
		}
	}
}

// TestTheEndLeavesTheRest: annotations stay, and the finalizer stays until the claim was given back.
func TestTheEndLeavesTheRest(t *testing.T) {
	leaves := func(r *v1alpha1.SelfFenceRemediation) {
		r.Finalizers, r.DeletionTimestamp = []string{annotation.SelfFenceFinalizer, "other"}, &metav1.Time{Time: noon}
		r.Annotations = map[string]string{annotation.ClaimedMachine: keyM.String()}
	}
	w := newWorld(t, remediation(leaves), machine(marked(annotation.ClaimedBy, ourClaim)))
	w.keyed = func(verb string, o client.Object) bool { return verb == "patch" && o.GetName() == "m" }
	if err := w.reconcile(t.Context(), keyA); err == nil || len(w.remediation(t).Finalizers) != 2 {
		t.Errorf("%v, and it has the finalizers %v", err, w.remediation(t).Finalizers)
	}
	w.keyed = nil
	if r := w.reconciles(t); len(r.Finalizers) != 1 || r.Annotations[annotation.ClaimedMachine] != keyM.String() || w.claim(t) != "" {
		t.Errorf("it is %+v, and the claim %q", r.ObjectMeta, w.claim(t))
	}
}

// TestARemediationDoesNotWaitForItself: the cache may still show an earlier one of its name as under way.
func TestARemediationDoesNotWaitForItself(t *testing.T) {
	w := newWorld(t, node(), remediation(in(fencing.Booting)))
	if other, held := w.fencedBy(t.Context(), w.begun(t)); held || other != holderOf(keyA) {
		t.Errorf("it waits for %v", other)
	}
}

// TestALongNoteIsCut, so that the API server takes the event.
func TestALongNoteIsCut(t *testing.T) {
	w := newWorld(t)
	w.emit(remediation(), corev1.EventTypeWarning, "Long", strings.Repeat("x", 5000))
	if event := <-w.events.Events; event != "Warning Long [remediation] "+strings.Repeat("x", 1024-len("[remediation] ")-len("…"))+"…" {
		t.Errorf("the event has %d bytes", len(event))
	}
}

// TestDefaultLimits are the same as in the definition of the kind.
func TestDefaultLimits(t *testing.T) {
	want := fencing.Config{ByPromise: true, Limits: fencing.Limits{Fence: 5 * time.Minute, Release: 10 * time.Minute, Boot: 15 * time.Minute}}
	if got := configOf(&v1alpha1.SelfFenceRemediationSpec{}); got != want {
		t.Errorf("they are %+v, want %+v", got, want)
	}
}

// TestKnownPhases are those of a fencing by promise.
func TestKnownPhases(t *testing.T) {
	for _, p := range phases {
		if !known(string(p)) {
			t.Errorf("phase %q is unknown", p)
		}
	}
	for _, p := range []fencing.Phase{"condemning", fencing.PoweringOff, fencing.PoweringOn, fencing.DeletingMachine, " "} {
		if known(string(p)) {
			t.Errorf("phase %q is known", p)
		}
	}
}
