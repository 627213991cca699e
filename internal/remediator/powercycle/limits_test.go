package powercycle

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/fettle-io/fettle/api/fettle/v1alpha1"
	"github.com/fettle-io/fettle/internal/fencing"
)

// forbidden is what the API server answers where a right is missing.
var forbidden = apierrors.NewForbidden(schema.GroupResource{Resource: "things"}, "a", nil)

// reconcilesTwice has a remediation reconciled until a change is refused, and once more.
func (w *world) reconcilesTwice(t *testing.T) *v1alpha1.PowerRemediation {
	t.Helper()
	if err := w.reconcile(t.Context(), keyA); !apierrors.IsForbidden(err) {
		t.Fatalf("the first reconcile returns %v", err)
	}
	if r := w.remediation(t, keyA); processing(r) != notChanged {
		t.Errorf("it waits for %q in phase %s", processing(r), r.Status.Phase)
	}
	if err := w.reconcile(t.Context(), keyA); err != nil && !apierrors.IsForbidden(err) {
		t.Fatalf("the second reconcile returns %v", err)
	}
	return w.remediation(t, keyA)
}

// TestARefusedTaintEndsThePreparation, once its time is over, before anything was commanded.
func TestARefusedTaintEndsThePreparation(t *testing.T) {
	for after, want := range map[time.Duration]fencing.Phase{time.Minute: fencing.Preparing, 3 * time.Minute: fencing.Failed} {
		w := newWorld(t, node(), remediation(in(fencing.Preparing), func(r *v1alpha1.PowerRemediation) { r.Spec.Retries = new(int32) }), bmcFor("a", "node-a", "redfish://127.0.0.1:1"))
		w.refuses(func(verb string, o runtime.Object) error {
			if _, is := o.(*corev1.Node); is && verb == "patch" {
				return forbidden
			}
			return nil
		})
		w.forward(after)
		r := w.reconcilesTwice(t)
		if r.Status.Phase != string(want) || want == fencing.Failed && reasonAtEnd(r) != string(fencing.TaintTimedOut) {
			t.Errorf("after %s it is in phase %s with %+v", after, r.Status.Phase, r.Status.Conditions)
		}
	}
}

// TestATaintThatIsTakenBackEndsThePreparation, as a refused taint does. Each reconcile tries it once.
func TestATaintThatIsTakenBackEndsThePreparation(t *testing.T) {
	for after, want := range map[time.Duration]fencing.Phase{time.Minute: fencing.Preparing, 3 * time.Minute: fencing.Failed} {
		w := newWorld(t, node(), remediation(in(fencing.Preparing), func(r *v1alpha1.PowerRemediation) { r.Spec.Retries = new(int32) }), bmcFor("a", "node-a", "redfish://127.0.0.1:1"))
		w.undoes = func(n *corev1.Node) { n.Spec.Taints = nil }
		w.forward(after)
		if err := w.reconcile(t.Context(), keyA); err == nil || len(w.patches) != 1 {
			t.Errorf("after %s the first reconcile returns %v after %d changes", after, err, len(w.patches))
		}
		if said := sayingOf(w.remediation(t, keyA)); !strings.HasPrefix(said, notChanged+": ") || !strings.Contains(said, "(NotKept)") {
			t.Errorf("after %s it says %q", after, said)
		}
		if err := w.reconcile(t.Context(), keyA); (err == nil) != (want == fencing.Failed) || len(w.patches) > 2 {
			t.Errorf("after %s the second reconcile returns %v after %d changes", after, err, len(w.patches))
		}
		if r := w.remediation(t, keyA); r.Status.Phase != string(want) || want == fencing.Failed && reasonAtEnd(r) != string(fencing.TaintTimedOut) {
			t.Errorf("after %s it is in phase %s with %+v", after, r.Status.Phase, r.Status.Conditions)
		}
	}
}

// TestAFailureOfAnEarlierPhaseDoesNotCount: a phase ends by what has failed in it.
func TestAFailureOfAnEarlierPhaseDoesNotCount(t *testing.T) {
	w := newWorld(t, node(), remediation(in(fencing.Preparing)), bmcFor("a", "node-a", "redfish://127.0.0.1:1"))
	refused := true
	w.refuses(func(verb string, o runtime.Object) error {
		if _, is := o.(*corev1.Node); is && verb == "patch" && refused {
			return forbidden
		}
		return nil
	})
	w.forward(3 * time.Minute)
	if r := w.reconcilesTwice(t); r.Status.Phase != string(fencing.Preparing) || r.Status.Attempt != 2 {
		t.Errorf("after the limit it is in phase %s, attempt %d", r.Status.Phase, r.Status.Attempt)
	}
	known := w.sessions.byKey[keyA]
	w.forward(time.Second)
	refused = false
	if err := w.reconcile(t.Context(), keyA); err != nil || !known.changeFailed.IsZero() {
		t.Errorf("once a change has succeeded, the last has failed at %s: %v", known.changeFailed, err)
	}
}

// TestARefusedDeletionEnds, once its time is over. Its provider does not power the host then.
func TestARefusedDeletionEnds(t *testing.T) {
	for after, want := range map[time.Duration]fencing.Phase{time.Minute: fencing.DeletingMachine, 61 * time.Minute: fencing.Failed} {
		recorded := func(s *v1alpha1.PowerRemediationStatus) {
			s.Machine = &v1alpha1.ObjectReference{Kind: "Machine", Namespace: "machines", Name: "m", UID: "m-uid"}
		}
		r := remediation(in(fencing.DeletingMachine, recorded), func(r *v1alpha1.PowerRemediation) { r.Spec.OnFailure = v1alpha1.DeleteMachineAction })
		w := newWorld(t, node(tainted(ownTaint), annotated(machineAnnotation, "machines/m")), r, bmcFor("a", "node-a", "redfish://127.0.0.1:1"), machine(), bareMetal(nil, nil))
		w.refuses(func(verb string, _ runtime.Object) error {
			if verb == "delete" {
				return forbidden
			}
			return nil
		})
		w.forward(after)
		r = w.reconcilesTwice(t)
		if r.Status.Phase != string(want) || r.Status.MachineDeletion != (want != fencing.Failed) {
			t.Errorf("after %s it is in phase %s (%s), and the machine is deleted: %t", after, r.Status.Phase, reasonAtEnd(r), r.Status.MachineDeletion)
		}
	}
}

// reasonAtEnd returns the reason of the condition Succeeded.
func reasonAtEnd(r *v1alpha1.PowerRemediation) string {
	for _, c := range r.Status.Conditions {
		if c.Type == v1alpha1.SucceededCondition {
			return c.Reason
		}
	}
	return ""
}
