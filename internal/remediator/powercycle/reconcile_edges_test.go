package powercycle

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fettle-io/fettle/api/fettle/annotation"
	"github.com/fettle-io/fettle/api/fettle/v1alpha1"
	"github.com/fettle-io/fettle/internal/fencing"
)

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
		w := newWorld(t, node(), remediation(), bmcFor("a", "node-a", "redfish://10.0.0.1"))
		tried := w.patchesOfNodes(tc.err)
		err := w.reconcile(t.Context(), keyA)
		if !errors.Is(err, tc.err) || *tried != tc.want || processing(w.remediation(t, keyA)) != notChanged {
			t.Errorf("%s: after %d changes it says %s (%v), want %d", sentence, *tried, processing(w.remediation(t, keyA)), err, tc.want)
		}
	}
}

// TestChangesInSuccession: a change that succeeds ends the count of those before it that failed.
func TestChangesInSuccession(t *testing.T) {
	w := newWorld(t, node(), remediation())
	rec := begun(t, w, fencing.Releasing)
	conflict := apierrors.NewConflict(schema.GroupResource{Resource: "nodes"}, "node-a", errors.New("x"))
	for round := range 2 {
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
		if err := w.change(t.Context(), rec, []fencing.StepKind{fencing.TaintNode, fencing.UntaintNode}[round]); err != nil {
			t.Fatal(err)
		}
	}
}

// TestAChangeThatIsCutShort says nothing: the process ends, or other work comes first.
func TestAChangeThatIsCutShort(t *testing.T) {
	w := newWorld(t, node(), remediation())
	rec := begun(t, w, fencing.Releasing)
	ctx, cancel := context.WithCancel(t.Context())
	w.refuses(func(verb string, o runtime.Object) error {
		if _, is := o.(*corev1.Node); is && verb == "patch" {
			cancel()
			return ctx.Err()
		}
		return nil
	})
	if err := w.change(ctx, rec, fencing.TaintNode); !errors.Is(err, context.Canceled) || processing(w.remediation(t, keyA)) != "" {
		t.Errorf("it says %q (%v)", processing(w.remediation(t, keyA)), err)
	}
}

// TestOnlyChangesChange: a step that is none of them is an error, and changes nothing.
func TestOnlyChangesChange(t *testing.T) {
	w := newWorld(t, node(), remediation())
	if err := w.changeNode(t.Context(), w.nodes, begun(t, w, fencing.Releasing), fencing.Wait); err == nil || len(w.patches) != 0 {
		t.Errorf("%v, after patches %v", err, w.patches)
	}
}

// TestAReconcileThatNeverEnds is cut after a number of steps, and goes on after a pause.
func TestAReconcileThatNeverEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		released := in(fencing.Releasing, func(s *v1alpha1.PowerRemediationStatus) {
			s.WorkloadReleased, s.Proof = true, &v1alpha1.FencingProof{Kind: "PowerOff", At: metav1.NewMicroTime(noon)}
		})
		w := newWorld(t, node(), remediation(released), bmcFor("a", "node-a", "redfish://10.0.0.1"))
		reads := 0
		w.refuses(func(verb string, o runtime.Object) error {
			if _, is := o.(*corev1.Node); !is || verb != "get" {
				return nil
			}
			reads++
			bare := w.node0(t)
			if bare == nil || len(bare.Spec.Taints) == 0 {
				return nil
			}
			bare.Spec.Taints = nil // another controller removes the taints
			return w.api.Update(t.Context(), bare)
		})
		if err := w.reconcile(t.Context(), keyA); err != nil {
			t.Fatal(err)
		}
		if reads != mostSteps/2 {
			t.Errorf("the node is read %d times", reads)
		}
		w.wakesAfter(t, keyA, firstRetry)
	})
}

// node0 reads node-a without a fault.
func (w *world) node0(t *testing.T) *corev1.Node {
	t.Helper()
	w.mu.Lock()
	fault := w.fault
	w.fault = nil
	w.mu.Unlock()
	n := w.node(t)
	w.mu.Lock()
	w.fault = fault
	w.mu.Unlock()
	return n
}

// TestWhichStepsKeepNoSlot: the steps that ask a BMC, and those in a workload cluster.
func TestWhichStepsKeepNoSlot(t *testing.T) {
	power := []fencing.StepKind{fencing.ReadPower, fencing.CommandOff, fencing.CommandOn, fencing.LeaveHost}
	nodes := []fencing.StepKind{
		fencing.ReadNode, fencing.CountWorkload, fencing.TaintNode, fencing.SetOutOfService, fencing.RemoveNode, fencing.RemoveOutOfService,
		fencing.RestoreNode, fencing.UntaintNode,
	}
	home, away := &reconciliation{}, &reconciliation{cluster: fencedCluster{keyEast, "east-uid"}}
	for kind := fencing.Wait; kind <= fencing.Finish; kind++ {
		bmc, ofNode := slices.Contains(power, kind), slices.Contains(nodes, kind)
		if home.isElsewhere(kind) != bmc || away.isElsewhere(kind) != (bmc || ofNode) {
			t.Errorf("step %d is elsewhere: %t, and of a workload cluster: %t", kind, home.isElsewhere(kind), away.isElsewhere(kind))
		}
	}
}

// TestAnInvalidStatusIsAnnounced: the phase or the node is not as Fettle writes it, and nothing is taken back.
func TestAnInvalidStatusIsAnnounced(t *testing.T) {
	w := newWorld(t, remediation(in("Rebooting"), leaving))
	if err := w.reconcile(t.Context(), keyA); err != nil {
		t.Fatal(err)
	}
	select {
	case event := <-w.events.Events:
		if !strings.HasPrefix(event, "Warning StatusInvalid [remediation] status.phase is Rebooting, or status.node is missing, so nothing is taken back") {
			t.Errorf("the event is %q", event)
		}
	default:
		t.Error("there is no event")
	}
}

// TestWhenAHostPowersOnInTurn: while it is powered on, also as what was done is taken back, if its BMC is of a domain.
func TestWhenAHostPowersOnInTurn(t *testing.T) {
	domain := bmcFor("a", "node-a", "redfish://h", func(b *v1alpha1.BMC) { b.Spec.Domain = "rack-7" })
	alone := bmcFor("a", "node-a", "redfish://h")
	for _, tc := range []struct {
		phase fencing.Phase
		off   bool
		bmc   *v1alpha1.BMC
		want  bool
	}{
		{fencing.PoweringOn, false, domain, true}, {fencing.PoweringOn, true, domain, true}, {fencing.PoweringOn, true, alone, false}, {fencing.PoweringOn, true, nil, false},
		{fencing.Aborting, true, domain, true}, {fencing.Aborting, false, domain, false}, {fencing.Aborting, true, alone, false}, {fencing.Aborting, true, nil, false},
		{fencing.PoweringOff, true, domain, false}, {fencing.Booting, true, domain, false},
	} {
		rec := &reconciliation{bmc: tc.bmc, record: fencing.Record{Phase: tc.phase, PoweredOff: tc.off}}
		if got := rec.powersOn(); got != tc.want {
			t.Errorf("phase %s, powered off %t, BMC %v: %t", tc.phase, tc.off, tc.bmc, got)
		}
	}
}

// TestWhatIsKnownOfAHost counts for one BMC in one generation. Without a BMC the power can't be read, and that is tried again later.
func TestWhatIsKnownOfAHost(t *testing.T) {
	bmc := bmcFor("a", "node-a", "redfish://h")
	for sentence, tc := range map[string]struct {
		before   v1alpha1.FencingBMC
		bmc      *v1alpha1.BMC
		recorded *v1alpha1.FencingBMC
		kept     bool
		changed  bool
		left     bool
	}{
		"the same BMC":             {v1alpha1.FencingBMC{Name: "a", UID: "a-uid", Generation: 1}, bmc, &v1alpha1.FencingBMC{Name: "a", UID: "a-uid", Generation: 1}, true, false, true},
		"another spec":             {v1alpha1.FencingBMC{Name: "a", UID: "a-uid"}, bmc, &v1alpha1.FencingBMC{Name: "a", UID: "a-uid"}, false, true, true},
		"nothing is recorded":      {v1alpha1.FencingBMC{Name: "a", UID: "a-uid", Generation: 1}, bmc, nil, true, false, true},
		"a host was recorded":      {v1alpha1.FencingBMC{}, bmc, &v1alpha1.FencingBMC{Name: "a", UID: "a-uid", Generation: 1, HostUID: "h"}, false, true, false},
		"there is no BMC any more": {v1alpha1.FencingBMC{}, nil, &v1alpha1.FencingBMC{Name: "a", UID: "a-uid", Generation: 1}, true, false, true},
	} {
		w := newWorld(t)
		rec := &reconciliation{key: keyA, r: remediation(in(fencing.PoweringOff, func(s *v1alpha1.PowerRemediationStatus) { s.BMC = tc.recorded })), s: w.sessions.of(keyA, "r-uid", "node-a"), bmc: tc.bmc, bmcProblem: problem{reason: "NoBMC", message: "there is none"}}
		rec.s.bmc, rec.s.failures, rec.s.failure, rec.s.power = tc.before, 3, problem{reason: "x"}, fencing.Power{}.CommandedOff(noon)
		w.refresh(t.Context(), rec)
		if kept := rec.s.failures == 3 && rec.facts.Power.Off.Equal(noon); kept != tc.kept || !tc.kept && (rec.s.failures != 0 || !rec.s.power.Off.IsZero() || rec.s.failure.found()) {
			t.Errorf("%s: known is %+v", sentence, rec.s)
		}
		if rec.facts.HostChanged != tc.changed || rec.facts.Power.Left != tc.left || rec.facts.Now.IsZero() || rec.facts.PowerOnTurn != rec.s.turn {
			t.Errorf("%s: the facts are %+v", sentence, rec.facts)
		}
		if missing := tc.bmc == nil; missing != (rec.s.failure == rec.bmcProblem) || missing != rec.facts.Power.RetryAt.Equal(rec.facts.Now.Add(requeueAfter)) {
			t.Errorf("%s: the failure is %+v, until %v", sentence, rec.s.failure, rec.facts.Power.RetryAt)
		}
	}
}

// TestTheEndOfARemediation: where it is done, it gives its claim back.
func TestTheEndOfARemediation(t *testing.T) {
	failing := func(verb string, o runtime.Object) error {
		if isMachine(o) {
			return errors.New("the API server is down")
		}
		return nil
	}
	for phase, fails := range map[fencing.Phase]bool{fencing.Succeeded: true, fencing.Failed: false} {
		w := newWorld(t, node(), remediation(claiming, in(phase)), machine(with(annotation.ClaimedBy, ourClaim)), bmcFor("a", "node-a", "redfish://h"))
		w.refuses(failing)
		if err := w.reconcile(t.Context(), keyA); (err != nil) != fails {
			t.Errorf("phase %s: %v", phase, err)
		}
	}
}

// TestTheFinalizerIsRemovedOnce: a remediation without it has nothing to give back, and a remediation that is gone meanwhile needs nothing.
func TestTheFinalizerIsRemovedOnce(t *testing.T) {
	kind := schema.GroupResource{Resource: "powerremediations"}
	for sentence, tc := range map[string]struct {
		finalizer string
		err       error
		requested bool
		fails     bool
	}{
		"it has the finalizer":    {annotation.PowerFinalizer, nil, true, false},
		"it has another":          {"example.org/other", nil, false, false},
		"it is gone":              {annotation.PowerFinalizer, apierrors.NewNotFound(kind, "node-a"), true, false},
		"the API server is down ": {annotation.PowerFinalizer, errors.New("down"), true, true},
	} {
		w := newWorld(t, remediation(claiming, leaving, func(r *v1alpha1.PowerRemediation) { r.Finalizers = []string{tc.finalizer} }), machine(with(annotation.ClaimedBy, ourClaim)))
		requested := false
		w.sessions.of(keyA, "r-uid", "node-a")
		w.refuses(func(verb string, o runtime.Object) error {
			if _, is := o.(*v1alpha1.PowerRemediation); is && verb == "patch" {
				requested = true
				return tc.err
			}
			return nil
		})
		err := w.reconcile(t.Context(), keyA)
		if (err != nil) != tc.fails || requested != tc.requested || (w.claimOfM(t) == "") != tc.requested || (w.sessions.byKey[keyA] == nil) == tc.fails {
			t.Errorf("%s: %v, requested %t, the claim is %q, and the session is %v", sentence, err, requested, w.claimOfM(t), w.sessions.byKey[keyA])
		}
	}
}

// TestEventsOfPhases: failures, an abort that leaves a host off, and a proof that is void are warnings. Ends and the release have the evidence.
func TestEventsOfPhases(t *testing.T) {
	proof := &v1alpha1.FencingProof{Kind: "PowerOff", At: metav1.NewMicroTime(noon)}
	for _, tc := range []struct {
		phase    fencing.Phase
		off      bool
		why      fencing.Reason
		warns    bool
		evidence bool
	}{
		{fencing.PoweringOff, false, "", false, false}, {fencing.PoweringOff, true, fencing.ProofVoid, true, false}, {fencing.Preparing, true, fencing.BootedUntainted, true, false}, {fencing.Releasing, false, "", false, true},
		{fencing.Booting, false, "", false, false}, {fencing.DeletingMachine, false, "", true, false}, {fencing.Succeeded, false, "", false, true},
		{fencing.Succeeded, true, "", false, true}, {fencing.Failed, false, fencing.BootTimedOut, true, true}, {fencing.Aborted, false, fencing.Stopped, false, true}, {fencing.Aborted, true, fencing.Stopped, true, true},
	} {
		w := newWorld(t)
		rec := &reconciliation{key: keyA, r: remediation()}
		s := remediation(in(tc.phase)).Status
		s.PoweredOff, s.Reason, s.Proof = tc.off, string(tc.why), proof
		w.announce(rec, &s)
		if len(rec.notes) != 1 || len(w.events.Events) != 0 {
			t.Fatalf("%s: %d events are noted", tc.phase, len(rec.notes))
		}
		rec.notes[0]()
		event := <-w.events.Events
		want := "Normal "
		if tc.warns {
			want = "Warning "
		}
		if !strings.HasPrefix(event, want+string(tc.phase)+" [remediation] ") || strings.Contains(event, "proof PowerOff") != tc.evidence {
			t.Errorf("phase %s, powered off %t, because of %q: the event is %q", tc.phase, tc.off, tc.why, event)
		}
	}
}

// TestWhatARemediationWaitsForIsWrittenOnce, and never after its end.
func TestWhatARemediationWaitsForIsWrittenOnce(t *testing.T) {
	for _, phase := range phases {
		w := newWorld(t, remediation(in(phase)))
		writes := 0
		w.refuses(func(verb string, _ runtime.Object) error {
			if verb == "patch status" {
				writes++
			}
			return nil
		})
		rec := &reconciliation{key: keyA, r: w.remediation(t, keyA)}
		for _, message := range []string{"a", "a", "b"} {
			if err := w.publish(t.Context(), rec, "Waits", message); err != nil {
				t.Fatal(err)
			}
		}
		if want := 2; writes != want && !phase.Final() || writes != 0 && phase.Final() {
			t.Errorf("in phase %s it is written %d times", phase, writes)
		}
	}
}

// TestARefusalIsSaidOnce, with an event, and the remediation is forgotten then.
func TestARefusalIsSaidOnce(t *testing.T) {
	w := newWorld(t, remediation())
	why := problem{reason: "NoBMC", message: "there is none"}
	for i := range 2 {
		w.sessions.of(keyA, "r-uid", "node-a")
		if err := w.refuse(t.Context(), w.remediation(t, keyA), why); err != nil {
			t.Fatal(err)
		}
		if forgotten := w.sessions.byKey[keyA] == nil; forgotten != (i == 0) || len(w.events.Events) != 1 {
			t.Errorf("refusal %d: forgotten %t, after %d events", i, forgotten, len(w.events.Events))
		}
	}
	if event := <-w.events.Events; event != "Warning RemediationCannotStart [remediation] nothing was done: there is none" {
		t.Errorf("the event is %q", event)
	}
	want := fmt.Sprint([]string{"Processing False NoBMC", "Succeeded False NoBMC", "PermanentNodeDeletionExpected False " + v1alpha1.HostIsReusedReason})
	var got []string
	for _, c := range w.remediation(t, keyA).Status.Conditions {
		got = append(got, c.Type+" "+string(c.Status)+" "+c.Reason)
		if c.Message != "nothing was done: there is none" {
			t.Errorf("it says %q", c.Message)
		}
	}
	if fmt.Sprint(got) != want {
		t.Errorf("the conditions are %v", got)
	}
}

// TestTheCurrentRemediation: the remediation of the cache counts if it has the revision that was written last. Else the API server has the answer.
func TestTheCurrentRemediation(t *testing.T) {
	var written *v1alpha1.PowerRemediation
	for sentence, tc := range map[string]struct {
		change func(*v1alpha1.PowerRemediation)
		live   bool
	}{
		"the same":        {func(*v1alpha1.PowerRemediation) {}, false},
		"another version": {func(r *v1alpha1.PowerRemediation) { r.ResourceVersion = "1" }, true},
		"another one":     {func(r *v1alpha1.PowerRemediation) { r.UID = "earlier" }, true},
	} {
		w := newWorld(t, remediation(in(fencing.Booting)))
		written = w.remediation(t, keyA)
		tc.change(written)
		w.sessions.keep(w.sessions.of(keyA, written.UID, "node-a"), written)
		reads := 0
		w.refuses(func(verb string, o runtime.Object) error {
			if _, is := o.(*v1alpha1.PowerRemediation); is && verb == "get" {
				reads++
			}
			return nil
		})
		if r, err := w.current(t.Context(), keyA); err != nil || r == nil || (reads == 2) != tc.live {
			t.Errorf("%s: %v (%v) after %d reads", sentence, r, err, reads)
		}
	}
	for at := range 2 {
		for _, gone := range []bool{true, false} {
			w := newWorld(t, remediation(in(fencing.Booting)))
			reads := 0
			failure := errors.New("down")
			if gone {
				failure = apierrors.NewNotFound(schema.GroupResource{Resource: "powerremediations"}, "node-a")
			}
			w.sessions.of(keyA, "r-uid", "node-a")
			w.refuses(func(string, runtime.Object) error {
				reads++
				if reads == at+1 {
					return failure
				}
				return nil
			})
			r, err := w.current(t.Context(), keyA)
			if r != nil || (err == nil) != gone || !gone && !errors.Is(err, failure) {
				t.Errorf("read %d, gone %t: %v, %v", at, gone, r, err)
			}
			if forgotten := w.sessions.byKey[keyA] == nil; forgotten != (gone && at == 0) {
				t.Errorf("read %d, gone %t: forgotten %t", at, gone, forgotten)
			}
		}
	}
}

// TestOwnRevisionsAreKept: a reconcile knows what it has written by the revision, also where it was metadata.
func TestOwnRevisionsAreKept(t *testing.T) {
	w := newWorld(t, remediation())
	rec := &reconciliation{key: keyA, r: w.remediation(t, keyA), s: w.sessions.of(keyA, "r-uid", "node-a")}
	if err := w.setMetadata(t.Context(), rec, []string{annotation.PowerFinalizer}, map[string]string{"a": "b"}); err != nil {
		t.Fatal(err)
	}
	stored := w.remediation(t, keyA)
	if !w.sessions.hasWritten(keyA, stored.ResourceVersion) || w.sessions.written(keyA).ResourceVersion != stored.ResourceVersion || rec.r.ResourceVersion != stored.ResourceVersion {
		t.Errorf("revision %s is not known as its own", stored.ResourceVersion)
	}
	if stored.Annotations["a"] != "b" || !slices.Equal(stored.Finalizers, []string{annotation.PowerFinalizer}) {
		t.Errorf("stored is %+v", stored.ObjectMeta)
	}
	if err := w.publish(t.Context(), rec, "Waits", "for it"); err != nil {
		t.Fatal(err)
	}
	stored = w.remediation(t, keyA)
	if !w.sessions.hasWritten(keyA, stored.ResourceVersion) || w.sessions.written(keyA).ResourceVersion != stored.ResourceVersion {
		t.Errorf("revision %s of the status is not known as its own", stored.ResourceVersion)
	}
	if w.sessions.hasWritten(types.NamespacedName{Name: "unknown"}, stored.ResourceVersion) {
		t.Error("an unknown remediation has it too")
	}
}
