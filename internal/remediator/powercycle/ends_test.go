package powercycle

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fettle-io/fettle/api/fettle/annotation"
	"github.com/fettle-io/fettle/api/fettle/v1alpha1"
	"github.com/fettle-io/fettle/internal/fencing"
	"github.com/fettle-io/fettle/internal/remediator/fencednode"
)

// TestWaitsAreRequeued when the step says so, and every ten seconds at the latest.
func TestWaitsAreRequeued(t *testing.T) {
	for sentence, tc := range map[string]struct {
		until time.Duration // zero is never
		want  time.Duration
	}{
		"in three seconds": {3 * time.Second, 3 * time.Second}, "in a minute": {time.Minute, requeueAfter}, "never": {0, requeueAfter}, "it is over": {-time.Minute, 0},
	} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, remediation(in(fencing.Booting)))
			rec := &reconciliation{key: keyA, r: w.remediation(t, keyA), node: "node-a", s: w.sessions.of(keyA, "r-uid", "node-a")}
			step := fencing.Step{Kind: fencing.Wait, Reason: fencing.NodeNotBack}
			if tc.until != 0 {
				step.Until = w.now().Add(tc.until)
			}
			if err := w.wait(t.Context(), rec, step); err != nil {
				t.Fatal(err)
			}
			if tc.want > 0 {
				<-time.After(tc.want - time.Millisecond)
				synctest.Wait()
				if w.remediations.Len() != 0 {
					t.Errorf("%s: it is reconciled too early", sentence)
				}
			}
			<-time.After(2 * time.Millisecond)
			synctest.Wait()
			if w.remediations.Len() != 1 || processing(w.remediation(t, keyA)) != string(fencing.NodeNotBack) {
				t.Errorf("%s: %d wait, and the reason is %q", sentence, w.remediations.Len(), processing(w.remediation(t, keyA)))
			}
		})
	}
}

// TestResume waits for the remediation that has the node, and goes on once that has ended.
func TestResume(t *testing.T) {
	for sentence, tc := range map[string]struct {
		phase   fencing.Phase
		other   func(*v1alpha1.PowerRemediation)
		claimed bool
		waits   bool
		want    string
	}{
		"it has the node":                  {fencing.PoweringOff, in(fencing.Succeeded), false, false, string(fencing.PowerNotRead)},
		"another has it":                   {fencing.PoweringOff, in(fencing.Succeeded), true, true, fencednode.AnotherRemediation},
		"it has ended, and another begins": {fencing.Aborted, in(fencing.PoweringOff), false, true, ""},
	} {
		t.Run(sentence, func(t *testing.T) {
			w := newWorld(t, node(tainted(ownTaint)), remediation(in(tc.phase)), remediation(tc.other, called(keyB)), bmcFor("a", "node-a", "telnet://x"))
			if tc.claimed {
				w.sessions.of(keyB, "another-uid", "node-a")
				w.sessions.claim("node-a", keyB)
			}
			if err := w.reconcile(t.Context(), keyA); err != nil {
				t.Fatal(err)
			}
			r := w.remediation(t, keyA)
			if processing(r) != tc.want || r.Status.Phase != string(tc.phase) || tc.waits && len(w.patches) != 0 {
				t.Errorf("it waits for %q in phase %s after patches %v", processing(r), r.Status.Phase, w.patches)
			}
			if tc.waits == w.sessions.claims.Holds("node-a", holderOf(keyA)) {
				t.Errorf("it holds the node: %t", !tc.waits)
			}
		})
	}
}

// TestFinish wakes the remediations that wait for the node, and removes the finalizer of a remediation that is being deleted.
func TestFinish(t *testing.T) {
	for _, deleted := range []bool{false, true} {
		r := remediation(in(fencing.Failed))
		if deleted {
			leaving(r)
		}
		w := newWorld(t, node(), r)
		w.sessions.of(keyB, "another-uid", "node-a")
		w.sessions.wait(keyB)
		if err := w.reconcile(t.Context(), keyA); err != nil {
			t.Fatal(err)
		}
		if woken := taken(w.remediations); !woken[keyB] || w.sessions.claims.Len() != 0 {
			t.Errorf("deleted %t: woken are %v, and the claims are %d", deleted, woken, w.sessions.claims.Len())
		}
		err := w.api.Get(t.Context(), keyA, &v1alpha1.PowerRemediation{})
		if apierrors.IsNotFound(err) != deleted || (w.sessions.byKey[keyA] == nil) != deleted {
			t.Errorf("deleted %t: reading it returns %v, and its session is %v", deleted, err, w.sessions.byKey[keyA])
		}
		if !deleted && !slices.Contains(w.remediation(t, keyA).Finalizers, annotation.PowerFinalizer) {
			t.Error("its finalizer is gone")
		}
	}
}

// guarded deletes only the object with the UID of the precondition, which the API server of these tests doesn't look at.
type guarded struct{ client.Client }

func (g guarded) Delete(ctx context.Context, o client.Object, opts ...client.DeleteOption) error {
	given := (&client.DeleteOptions{}).ApplyOptions(opts)
	there := &unstructured.Unstructured{}
	there.SetGroupVersionKind(o.GetObjectKind().GroupVersionKind())
	if err := g.Get(ctx, client.ObjectKeyFromObject(o), there); err != nil {
		return err
	}
	if wanted := given.Preconditions; wanted != nil && wanted.UID != nil && *wanted.UID != there.GetUID() {
		return apierrors.NewConflict(schema.GroupResource{Resource: "machines"}, o.GetName(), nil)
	}
	return g.Client.Delete(ctx, o, opts...)
}

// TestDeleteMachine deletes the recorded machine and no other. It succeeds if that is gone.
func TestDeleteMachine(t *testing.T) {
	recorded := func(s *v1alpha1.PowerRemediationStatus) {
		s.Machine = &v1alpha1.ObjectReference{Kind: "Machine", Namespace: "machines", Name: "m", UID: "m-uid"}
	}
	for sentence, tc := range map[string]struct {
		m       *unstructured.Unstructured
		refuses error
		stands  bool
		fails   bool
	}{
		"it stands":         {machine(), nil, false, false},
		"it is gone":        {nil, nil, false, false},
		"it is another one": {machine(func(m *unstructured.Unstructured) { m.SetUID("other") }), nil, true, true},
		"it is refused":     {machine(), apierrors.NewServiceUnavailable("later"), true, true},
	} {
		w := newWorld(t)
		if tc.m != nil {
			if err := w.api.Create(t.Context(), tc.m); err != nil {
				t.Fatal(err)
			}
		}
		w.refuses(func(verb string, _ runtime.Object) error {
			if verb == "delete" {
				return tc.refuses
			}
			return nil
		})
		w.Writer = guarded{w.api}
		rec := &reconciliation{key: keyA, r: remediation(in(fencing.DeletingMachine, recorded))}
		err := w.deleteMachine(t.Context(), rec)
		left := &unstructured.Unstructured{}
		left.SetGroupVersionKind(fencednode.OpenShiftMachine)
		gone := apierrors.IsNotFound(w.api.Get(t.Context(), types.NamespacedName{Namespace: "machines", Name: "m"}, left))
		if (err != nil) != tc.fails || gone == tc.stands {
			t.Errorf("%s: deleting returns %v, and it is gone: %t", sentence, err, gone)
		}
	}
}

// TestRemediationsOfOneNodeDoNotWakeEachOther in turn, without a pause, where each gives the node free in its reconcile.
func TestRemediationsOfOneNodeDoNotWakeEachOther(t *testing.T) {
	for sentence, tc := range map[string]struct {
		change func(*v1alpha1.PowerRemediation)
		marked bool
	}{
		"both have failed":                    {in(fencing.Failed), false},
		"both have succeeded":                 {in(fencing.Succeeded), false},
		"both wait, since the host is marked": {func(*v1alpha1.PowerRemediation) {}, true},
	} {
		t.Run(sentence, func(t *testing.T) {
			objects := []client.Object{
				node(tainted(ownTaint)), bmcFor("a", "node-a", "telnet://x"),
				remediation(tc.change), remediation(called(keyB), tc.change),
			}
			if tc.marked {
				objects[0] = node(annotated(machineAnnotation, "machines/m"))
				objects = append(objects, machine(with(fencednode.ExternalMark, "")))
			}
			w := newWorld(t, objects...)
			for range 2 {
				for _, key := range []types.NamespacedName{keyA, keyB} {
					if err := w.reconcile(t.Context(), key); err != nil {
						t.Fatal(err)
					}
				}
			}
			if woken := taken(w.remediations); len(woken) > 0 {
				t.Errorf("it wakes %v", woken)
			}
		})
	}
}

// TestWaitingForANode: a remediation waits for another that has begun, also where this process has not seen that one, until it has the node.
func TestWaitingForANode(t *testing.T) {
	w := newWorld(t, node(), remediation(in(fencing.PoweringOff)), remediation(called(keyB)), bmcFor("a", "node-a", "telnet://x"))
	if err := w.reconcile(t.Context(), keyB); err != nil || w.sessions.byKey[keyB].waits == 0 {
		t.Errorf("while another has begun, it waits: %d, %v", w.sessions.byKey[keyB].waits, err)
	}
	w.sessions.claim("node-a", keyB)
	if w.sessions.byKey[keyB].waits != 0 {
		t.Error("it waits for a node that it has")
	}
}
