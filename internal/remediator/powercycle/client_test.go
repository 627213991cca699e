package powercycle

import (
	"slices"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/fettle-io/fettle/api/fettle/v1alpha1"
	"github.com/fettle-io/fettle/internal/fencing"
)

// TestOwnWritesWakeNothing: the reconcile that has written goes on by itself. A write of others causes a reconcile.
func TestOwnWritesWakeNothing(t *testing.T) {
	w := newWorld(t)
	known := w.sessions.of(keyA, "r-uid", "node-a")
	events := w.remediationEvents()
	for i := range 2 * mostRevisions {
		revision := string(rune('a' + i))
		w.sessions.keepRevision(known, revision)
		events.OnUpdate(nil, remediation(func(r *v1alpha1.PowerRemediation) { r.ResourceVersion = revision }))
		if w.remediations.Len() != 0 {
			t.Fatalf("own revision %s is reconciled", revision)
		}
	}
	if len(known.revisions) != mostRevisions {
		t.Errorf("it remembers %d revisions", len(known.revisions))
	}
	events.OnUpdate(nil, remediation(func(r *v1alpha1.PowerRemediation) { r.ResourceVersion = "theirs" }))
	if w.remediations.Len() != 1 {
		t.Error("what others have written is not reconciled")
	}
}

// TestANodeThatChangesBeforeItsTaint is read again, and then tainted.
func TestANodeThatChangesBeforeItsTaint(t *testing.T) {
	w := newWorld(t, node(), remediation(), bmcFor("a", "node-a", "redfish://10.0.0.1"))
	changed := false
	w.refuses(func(verb string, o runtime.Object) error {
		if _, is := o.(*v1alpha1.PowerRemediation); is && verb == "patch status" && !changed {
			changed = true
			n := w.node(t)
			n.Labels = map[string]string{"new": "label"}
			return w.api.Update(t.Context(), n)
		}
		return nil
	})
	if err := w.reconcile(t.Context(), keyA); err != nil {
		t.Fatal(err)
	}
	if n := w.node(t); !slices.Contains(n.Spec.Taints, ownTaint) || n.Labels["new"] != "label" {
		t.Errorf("the node has labels %v and taints %v", n.Labels, n.Spec.Taints)
	}
}

// TestAFencingGoesOnFromTheAPIServer: the cache may lack what an earlier process has recorded of a fencing that has begun.
func TestAFencingGoesOnFromTheAPIServer(t *testing.T) {
	for phase, want := range map[fencing.Phase]int{"": 1, fencing.Succeeded: 2} {
		r := remediation()
		if phase != "" {
			r = remediation(in(phase))
		}
		w := newWorld(t, r)
		reads := 0
		w.refuses(func(verb string, o runtime.Object) error {
			if _, is := o.(*v1alpha1.PowerRemediation); is && verb == "get" {
				reads++
			}
			return nil
		})
		if _, err := w.current(t.Context(), keyA); err != nil || reads != want {
			t.Errorf("phase %q: %d reads, want %d: %v", phase, reads, want, err)
		}
	}
}

// begun returns a reconcile of a fencing in a phase, which has read its node.
func begun(t *testing.T, w *world, p fencing.Phase) *reconciliation {
	t.Helper()
	r := w.remediation(t, keyA)
	rec := &reconciliation{key: keyA, node: "node-a", r: r, s: w.sessions.of(keyA, r.UID, "node-a"), record: fencing.Record{Phase: p, Since: noon, Attempt: 1, NodeUID: "node-uid", BootID: "boot-1"}}
	rec.knows(w.node(t), noon)
	return rec
}

// TestWhatAReconcileKnowsAfterARecord: before the power-off it goes on from the node that it has read. Later nothing that was read before a
// record counts.
func TestWhatAReconcileKnowsAfterARecord(t *testing.T) {
	for before, want := range map[fencing.Phase]bool{
		"": true, fencing.Preparing: true, fencing.PoweringOff: false, fencing.Releasing: false, fencing.PoweringOn: false, fencing.Booting: false,
	} {
		w := newWorld(t, node(), remediation())
		rec := begun(t, w, before)
		if err := w.write(t.Context(), rec, fencing.Record{Phase: fencing.PoweringOff, Since: noon, Attempt: 1}); err != nil {
			t.Fatal(err)
		}
		if kept := rec.facts.Node != nil && rec.raw != nil; kept != want || rec.facts.Begun.IsZero() {
			t.Errorf("after phase %q the node is known: %t, want %t", before, kept, want)
		}
	}
}

// TestPausesOfAPhase: the first command may fail before the phase that waits for its effect. Its pause goes on then. No other phase is
// delayed by a failure of the one before.
func TestPausesOfAPhase(t *testing.T) {
	for _, tc := range []struct {
		before, after fencing.Phase
		kept          bool
	}{
		{fencing.Preparing, fencing.PoweringOff, true}, {fencing.Preparing, fencing.Failed, false},
		{fencing.Releasing, fencing.PoweringOff, false}, {fencing.PoweringOff, fencing.Preparing, false},
	} {
		w := newWorld(t, node(), remediation())
		rec := begun(t, w, tc.before)
		retry := noon.Add(time.Hour)
		rec.s.power.RetryAt, rec.s.failures, rec.s.turn = retry, 2, noon
		if err := w.write(t.Context(), rec, fencing.Record{Phase: tc.after, Since: noon, Attempt: 1}); err != nil {
			t.Fatal(err)
		}
		if kept := rec.s.power.RetryAt.Equal(retry) && rec.s.failures == 2; kept != tc.kept || !tc.kept && (rec.s.failures != 0 || !rec.s.power.RetryAt.IsZero()) || !rec.s.turn.IsZero() {
			t.Errorf("from %s to %s: %+v", tc.before, tc.after, rec.s)
		}
	}
}

// TestWhatAReconcileKnowsAfterATaint: before the power-off, the answer has the node as it is now. Later the node is read again.
func TestWhatAReconcileKnowsAfterATaint(t *testing.T) {
	for _, tc := range []struct {
		phase fencing.Phase
		kind  fencing.StepKind
		want  bool
	}{
		{fencing.Preparing, fencing.TaintNode, true}, {fencing.Releasing, fencing.TaintNode, false}, {fencing.Preparing, fencing.UntaintNode, false},
	} {
		w := newWorld(t, node(), remediation())
		rec := begun(t, w, tc.phase)
		sent := w.now()
		if err := w.change(t.Context(), rec, tc.kind); err != nil {
			t.Fatal(err)
		}
		n := rec.facts.Node
		if (n != nil) != tc.want {
			t.Errorf("%s, step %d: the node is known: %t", tc.phase, tc.kind, n != nil)
		}
		if tc.want && (!n.Tainted || !n.Changed || n.ReadAt.Before(sent) || !n.ReadAt.Before(rec.facts.Begun) || rec.raw.ResourceVersion != w.node(t).ResourceVersion) {
			t.Errorf("it is known as %+v, revision %s", n, rec.raw.ResourceVersion)
		}
	}
}
