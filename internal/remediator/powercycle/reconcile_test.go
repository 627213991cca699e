package powercycle

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/fettle-io/fettle/api/fettle/annotation"
	"github.com/fettle-io/fettle/api/fettle/v1alpha1"
	"github.com/fettle-io/fettle/internal/fencing"
	"github.com/fettle-io/fettle/internal/remediator/fencednode"
)

// processing returns the reason of the condition Processing.
func processing(r *v1alpha1.PowerRemediation) string {
	if c := meta.FindStatusCondition(r.Status.Conditions, v1alpha1.ProcessingCondition); c != nil {
		return c.Reason
	}
	return ""
}

// TestStatusThatFettleDoesNotWrite ends a remediation, and does not keep it from being deleted.
func TestStatusThatFettleDoesNotWrite(t *testing.T) {
	for sentence, change := range map[string]func(*v1alpha1.PowerRemediation){
		"an unknown phase": in("Rebooting"),
		"no node":          in(fencing.Booting, func(s *v1alpha1.PowerRemediationStatus) { s.Node = nil }),
	} {
		w := newWorld(t, remediation(change))
		if err := w.reconcile(t.Context(), keyA); err != nil || processing(w.remediation(t, keyA)) != "StatusInvalid" {
			t.Errorf("%s: %v, %q", sentence, err, processing(w.remediation(t, keyA)))
		}
		w = newWorld(t, remediation(change, leaving))
		err := w.reconcile(t.Context(), keyA)
		if gone := w.api.Get(t.Context(), keyA, &v1alpha1.PowerRemediation{}); err != nil || !apierrors.IsNotFound(gone) {
			t.Errorf("%s: it is not deleted: %v, %v", sentence, err, gone)
		}
	}
}

// TestARemediationWaitsForAnother of the same node, and does nothing to the node meanwhile.
func TestARemediationWaitsForAnother(t *testing.T) {
	w := newWorld(t, node(), remediation(), remediation(in(fencing.PoweringOff), called(keyB)), bmcFor("a", "node-a", "redfish://10.0.0.1"))
	if err := w.reconcile(t.Context(), keyA); err != nil {
		t.Fatal(err)
	}
	r := w.remediation(t, keyA)
	if processing(r) != fencednode.AnotherRemediation || r.Status.Phase != "" || slices.Contains(r.Finalizers, annotation.PowerFinalizer) || len(w.patches) != 0 {
		t.Errorf("it is %+v after patches %v", r.Status, w.patches)
	}
	if w.sessions.claims.Len() != 0 {
		t.Errorf("it holds %d nodes while it waits", w.sessions.claims.Len())
	}
}

// TestStoppedBeforeItBegan: nothing is done, and the condition says so.
func TestStoppedBeforeItBegan(t *testing.T) {
	w := newWorld(t, node(), remediation(stopped), bmcFor("a", "node-a", "redfish://10.0.0.1"))
	err := w.reconcile(t.Context(), keyA)
	if r := w.remediation(t, keyA); err != nil || processing(r) != v1alpha1.RemediationStoppedReason || len(w.patches) != 0 {
		t.Errorf("%v, %+v", err, r.Status)
	}
}

// TestRefusedChange: a node that must not be changed is said to be, and the finalizer was set before anything was tried.
func TestRefusedChange(t *testing.T) {
	w := newWorld(t, node(), remediation(), bmcFor("a", "node-a", "redfish://10.0.0.1"))
	w.refuses(func(verb string, o runtime.Object) error {
		if _, is := o.(*corev1.Node); is && verb == "patch" {
			return apierrors.NewForbidden(schema.GroupResource{Resource: "nodes"}, "node-a", errors.New("no"))
		}
		return nil
	})
	err := w.reconcile(t.Context(), keyA)
	if r := w.remediation(t, keyA); !apierrors.IsForbidden(err) || processing(r) != "NotChanged" || !slices.Contains(r.Finalizers, annotation.PowerFinalizer) {
		t.Errorf("%v, %+v", err, r.Status)
	}
}

// TestWhatTheAPIServerAnswered: a message never leaves out why a call has failed, and names a right only where it is missing.
func TestWhatTheAPIServerAnswered(t *testing.T) {
	for sentence, tc := range map[string]struct {
		err  error
		want string
	}{
		"it may not":       {apierrors.NewForbidden(schema.GroupResource{Resource: "nodes"}, "node-a", errors.New("no")), "(Forbidden); it is tried again, and the manifests of this version with kubectl apply -k config/power grant the right"},
		"it has no answer": {errors.New("dial tcp 10.0.0.1:443: refused"), "(the API server gave no answer); it is tried again"},
		"it is busy":       {apierrors.NewTooManyRequestsError("wait"), "(TooManyRequests); it is tried again"},
	} {
		for _, of := range []struct{ verb, reason string }{{"get", "NotRead"}, {"patch", "NotChanged"}} {
			w := newWorld(t, node(), remediation(), bmcFor("a", "node-a", "redfish://10.0.0.1"))
			w.refuses(func(verb string, o runtime.Object) error {
				if _, is := o.(*corev1.Node); is && verb == of.verb {
					return tc.err
				}
				return nil
			})
			err := w.reconcile(t.Context(), keyA)
			said := meta.FindStatusCondition(w.remediation(t, keyA).Status.Conditions, v1alpha1.ProcessingCondition)
			if !errors.Is(err, tc.err) || said == nil || said.Reason != of.reason || !strings.HasSuffix(said.Message, tc.want) {
				t.Errorf("%s: %s: %v, and it says %+v, want %q", sentence, of.verb, err, said, tc.want)
			}
		}
	}
}

// TestPausesAfterFailures of a BMC double up to a bound, and end with a success.
func TestPausesAfterFailures(t *testing.T) {
	w := newWorld(t, bmcFor("a", "node-a", "telnet://x"))
	rec := &reconciliation{node: "node-a", r: remediation(), s: w.sessions.of(keyA, "r-uid", "node-a"), bmc: w.bmc(t, "a")}
	for _, seconds := range []float64{2, 4, 8, 16, 30, 30, 30, 30, 30, 30, 30, 30, 30} {
		before := w.now()
		w.operateHost(t.Context(), rec, fencing.ReadPower)
		if got := rec.s.power.RetryAt.Sub(before).Round(time.Second).Seconds(); got != seconds {
			t.Errorf("after %d failures the pause is %v s, want %v s", rec.s.failures, got, seconds)
		}
	}
	if rec.s.failure.reason != addressInvalid {
		t.Errorf("the failure is %+v", rec.s.failure)
	}
}
