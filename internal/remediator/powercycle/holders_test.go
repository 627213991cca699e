package powercycle

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fettle-io/fettle/api/fettle/annotation"
	"github.com/fettle-io/fettle/api/fettle/v1alpha1"
	"github.com/fettle-io/fettle/internal/fencing"
	"github.com/fettle-io/fettle/internal/remediator/fencednode"
)

// ofNode has a remediation record another node.
func ofNode(name string) func(*v1alpha1.PowerRemediationStatus) {
	return func(s *v1alpha1.PowerRemediationStatus) { s.Node.Name = name }
}

func ofEast(s *v1alpha1.PowerRemediationStatus) {
	s.Node.Cluster = &v1alpha1.FencedCluster{Namespace: keyB.Namespace, Name: "east", UID: "east-uid"}
}

// waiting has a remediation that has not begun say what it waits for.
func waiting(reason string) func(*v1alpha1.PowerRemediation) {
	return func(r *v1alpha1.PowerRemediation) {
		fencednode.SetConditions(&r.Status.FencingStatus, noon, fencednode.NewCondition(v1alpha1.ProcessingCondition, metav1.ConditionTrue, reason, "as it was"))
	}
}

// unlisted has the list of remediations fail.
func unlisted(err error) func(string, runtime.Object) error {
	return func(verb string, o runtime.Object) error {
		if _, is := o.(*v1alpha1.PowerRemediationList); is && verb == "list" {
			return err
		}
		return nil
	}
}

// TestWhichRemediationFencesANode: a remediation fences its node from its first record to its end. Other remediators keep away from the node
// for so long, and the next remediation of this kind waits.
func TestWhichRemediationFencesANode(t *testing.T) {
	theirs := holderOf(keyB)
	for sentence, tc := range map[string]struct {
		other   func(*v1alpha1.PowerRemediation)
		fault   error
		holder  fencednode.Holder // as other remediators see it
		fences  bool
		delayed bool // the next remediation
	}{
		"it has not begun":           {func(*v1alpha1.PowerRemediation) {}, nil, fencednode.Holder{}, false, false},
		"it has begun":               {in(fencing.Preparing), nil, theirs, true, true},
		"it is under way":            {in(fencing.Booting), nil, theirs, true, true},
		"it has succeeded":           {in(fencing.Succeeded), nil, fencednode.Holder{}, false, false},
		"it has failed":              {in(fencing.Failed), nil, fencednode.Holder{}, false, false},
		"it has no phase":            {in(""), nil, fencednode.Holder{}, false, false},
		"it is of another node":      {in(fencing.Booting, ofNode("node-b")), nil, fencednode.Holder{}, false, false},
		"it is of a cluster":         {in(fencing.Booting, ofEast), nil, fencednode.Holder{}, false, false},
		"no node is recorded":        {in(fencing.Booting, func(s *v1alpha1.PowerRemediationStatus) { s.Node = nil }), nil, fencednode.Holder{}, false, false},
		"remediations can't be read": {in(fencing.Booting), errors.New("no"), fencednode.Holder{Kind: Kind}, true, true},
		"there is no such kind":      {in(fencing.Booting), &meta.NoKindMatchError{}, fencednode.Holder{Kind: Kind}, false, true},
	} {
		w := newWorld(t, node(), remediation(), remediation(called(keyB), tc.other), bmcFor("a", "node-a", "telnet://x"))
		w.refuses(unlisted(tc.fault))
		if holder, fences := w.Fences(t.Context(), "node-a"); holder != tc.holder || fences != tc.fences {
			t.Errorf("%s: %v fences the node: %t", sentence, holder, fences)
		}
		if err := w.reconcile(t.Context(), keyA); err != nil {
			t.Errorf("%s: %v", sentence, err)
		}
		if r := w.remediation(t, keyA); (processing(r) == fencednode.AnotherRemediation) != tc.delayed || (r.Status.Phase == "") != tc.delayed {
			t.Errorf("%s: the next one is in phase %q and says %q", sentence, r.Status.Phase, processing(r))
		}
	}
}

// TestAnOldCacheDelaysNoEnd: the cache may still show a remediation as under way that has ended. It doesn't wait for itself.
func TestAnOldCacheDelaysNoEnd(t *testing.T) {
	w := newWorld(t, node(), remediation(in(fencing.Booting)))
	ended := remediation(in(fencing.Succeeded))
	rec := &reconciliation{key: keyA, node: "node-a", r: ended, s: w.sessions.of(keyA, ended.UID, "node-a")}
	if holder := w.fencedBy(t.Context(), rec); holder != holderOf(keyA) || rec.s.waits != 0 || !w.sessions.claims.Holds("node-a", holderOf(keyA)) {
		t.Errorf("it waits for %v: %d", holder, rec.s.waits)
	}
}

// TestOtherRemediatorsFence: a remediation of another kind that fences a node of Fettle's own cluster is waited for. Other remediators fence
// no node of a workload cluster.
func TestOtherRemediatorsFence(t *testing.T) {
	other := fencednode.Holder{Kind: "SelfFenceRemediation", NamespacedName: keyB}
	const says = "AnotherRemediation: SelfFenceRemediation checks/another fences node node-a, and this one waits until it has ended"
	for _, fences := range []bool{true, false} {
		w := newMemberWorld(t, map[types.NamespacedName]*world{keyEast: newWorld(t, node())},
			node(), remediation(), bmcFor("b", "node-a", "telnet://x"), forMember(), member(nil), ofKind(clusterAPICluster, "east", nil), bmcIn("a", "fleet/east", "node-a"))
		var read []string
		w.OtherFences = func(_ context.Context, node string) (fencednode.Holder, bool) {
			read = append(read, node)
			return other, fences
		}
		for _, key := range []types.NamespacedName{keyA, keyM} {
			if err := w.reconcile(t.Context(), key); err != nil {
				t.Fatal(err)
			}
		}
		r := w.remediation(t, keyA)
		if (sayingOf(r) == says) != fences || (r.Status.Phase == "") != fences || (w.sessions.byKey[keyA].waits > 0) != fences {
			t.Errorf("fenced %t: in phase %q it says %q", fences, r.Status.Phase, sayingOf(r))
		}
		if w.remediation(t, keyM).Status.Phase == "" || !slices.Equal(read, []string{"node-a"}) {
			t.Errorf("the node of a workload cluster is in phase %q, and the nodes that were read are %v", w.remediation(t, keyM).Status.Phase, read)
		}
	}
}

// wakesAfter checks that a remediation is reconciled again after a pause, and not before.
func (w *world) wakesAfter(t *testing.T, key types.NamespacedName, pause time.Duration) {
	t.Helper()
	<-time.After(pause - time.Millisecond)
	synctest.Wait()
	if early := taken(w.remediations); len(early) != 0 {
		t.Errorf("%v is reconciled too early", early)
	}
	<-time.After(2 * time.Millisecond)
	synctest.Wait()
	if woken := taken(w.remediations); !woken[key] {
		t.Errorf("%v is not reconciled again after %v", key, pause)
	}
}

// TestWaitingRemediationsAreReconciledAgain, whatever they wait for before they begin.
func TestWaitingRemediationsAreReconciledAgain(t *testing.T) {
	claimed := func(w *world) { w.sessions.claims.Claim("fleet/east/node-a", holderOf(keyB)) }
	for name, tc := range map[string]struct {
		reconciles int
		first      func(*world)
		after      time.Duration
	}{
		"another fences the node":  {1, claimed, requeueAfter},
		"it has said so before":    {2, claimed, requeueAfter},
		"its cluster has too many": {1, func(w *world) { w.clusterLimits.reconciles = maxReconcilesElsewhere }, requeueAtLimit},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newMemberWorld(t, map[types.NamespacedName]*world{keyEast: newWorld(t, node())},
					forMember(), member(nil), ofKind(clusterAPICluster, "east", nil), bmcIn("a", "fleet/east", "node-a"))
				tc.first(w)
				for range tc.reconciles {
					if err := w.reconcile(t.Context(), keyM); err != nil {
						t.Fatal(err)
					}
					w.wakesAfter(t, keyM, tc.after)
				}
			})
		})
	}
}

// TestWhatAReconcileBeginsWith: the reconcile goes on from what was read, of which the process remembers the remediation.
func TestWhatAReconcileBeginsWith(t *testing.T) {
	w := newWorld(t, node(), remediation(unbegun), bmcFor("a", "node-a", "telnet://x"))
	rec := &reconciliation{key: keyA, slot: apiSlot{of: w.apiSlots}, r: w.remediation(t, keyA)}
	before := w.now()
	got, err := w.begin(t.Context(), rec)
	if err != nil || got != rec || w.sessions.written(keyA) == nil || w.sessions.written(keyA).ResourceVersion != rec.r.ResourceVersion {
		t.Fatalf("the reconcile is %+v (%v), and remembered is %+v", got, err, w.sessions.written(keyA))
	}
	if n := rec.facts.Node; n == nil || !n.ReadAt.After(before) || !rec.facts.Begun.After(n.ReadAt) || rec.raw == nil || rec.node != "node-a" || rec.bmc == nil {
		t.Errorf("it begins at %v with node %+v", rec.facts.Begun, n)
	}
}

// TestNothingIsLeftToDo only for a node that is Ready after the remediation has waited for another one.
func TestNothingIsLeftToDo(t *testing.T) {
	for sentence, tc := range map[string]struct {
		node   []client.Object
		waited string
		begins bool
	}{
		"it has waited for another":             {[]client.Object{node(ready)}, fencednode.AnotherRemediation, false},
		"it has waited for the end of a mark":   {[]client.Object{node(ready)}, fencednode.MachineMarked, false},
		"the node could not be read":            {[]client.Object{node(ready)}, notRead, true},
		"it has waited, and the node is gone":   {nil, fencednode.AnotherRemediation, true},
		"it has waited, and the node is broken": {[]client.Object{node()}, fencednode.MachineMarked, true},
	} {
		w := newWorld(t, append(tc.node, remediation(waiting(tc.waited)), bmcFor("a", "node-a", "telnet://x"))...)
		if err := w.reconcile(t.Context(), keyA); err != nil {
			t.Errorf("%s: %v", sentence, err)
		}
		if r := w.remediation(t, keyA); (r.Status.Phase != "") != tc.begins || (processing(r) == v1alpha1.CannotStartFencedMeanwhileReason) == tc.begins {
			t.Errorf("%s: it is in phase %q and says %q", sentence, r.Status.Phase, processing(r))
		}
	}
}

func isMachine(o runtime.Object) bool { return o.GetObjectKind().GroupVersionKind().Kind == "Machine" }

// TestEachStepOfTheBeginningIsNeeded: the claim on an earlier machine is given back, the finalizer names the machine, and only then is
// the machine claimed and the node changed. After a step that fails, none follows.
func TestEachStepOfTheBeginningIsNeeded(t *testing.T) {
	other := machine()
	other.SetName("n")
	for sentence, tc := range map[string]struct {
		fails func(verb string, o runtime.Object, machineReads int) bool
		given bool // the claim on the earlier machine is given back
		begun bool
	}{
		"the earlier machine can't be read": {func(verb string, o runtime.Object, reads int) bool {
			return verb == "get" && isMachine(o) && reads > 2 // the machine of the node is read twice before
		}, false, false},
		"the finalizer can't be set": {func(verb string, o runtime.Object, _ int) bool {
			_, is := o.(*v1alpha1.PowerRemediation)
			return verb == "patch" && is
		}, true, false},
		"nothing fails": {func(string, runtime.Object, int) bool { return false }, true, true},
	} {
		w := newWorld(t, node(annotated(machineAnnotation, "machines/n")), remediation(claiming, unbegun), machine(with(annotation.ClaimedBy, ourClaim)), other.DeepCopy(), bmcFor("a", "node-a", "telnet://x"))
		reads := 0
		w.refuses(func(verb string, o runtime.Object) error {
			if verb == "get" && isMachine(o) {
				reads++
			}
			if tc.fails(verb, o, reads) {
				return errors.New("no")
			}
			return nil
		})
		err := w.reconcile(t.Context(), keyA)
		w.refuses(nil)
		r := w.remediation(t, keyA)
		if (err == nil) != tc.begun || (r.Annotations[annotation.ClaimedMachine] == "machines/n") != tc.begun || (r.Status.Phase != "") != tc.begun {
			t.Errorf("%s: %v, and it is %+v", sentence, err, r)
		}
		claim := read(t, w, "machines", "n", machine()).GetAnnotations()[annotation.ClaimedBy]
		tainted := slices.ContainsFunc(w.node(t).Spec.Taints, func(taint corev1.Taint) bool { return taint.Key == annotation.FencingTaint })
		if (claim == ourClaim) != tc.begun || tainted != tc.begun || (w.claimOfM(t) == "") != tc.given {
			t.Errorf("%s: the claims are %q and %q, and the node is tainted: %t", sentence, claim, w.claimOfM(t), tainted)
		}
	}
}

// TestTheTaintOfAnotherStays: a remediation that was taken back removes no taint that another one keeps. It removes its own, which may come late.
func TestTheTaintOfAnotherStays(t *testing.T) {
	off := func(s *v1alpha1.PowerRemediationStatus) { s.PoweredOff = true }
	none := func(*world) {}
	for sentence, tc := range map[string]struct {
		other func(*v1alpha1.PowerRemediation)
		set   func(*world)
		stays bool
	}{
		"another has failed":                  {in(fencing.Failed), none, true},
		"another has left the host off":       {in(fencing.Succeeded, off), none, true},
		"another has brought it back":         {in(fencing.Succeeded), none, false},
		"another was taken back too":          {in(fencing.Aborted, off), none, false},
		"another has not begun":               {func(*v1alpha1.PowerRemediation) {}, none, false},
		"another has failed for another node": {in(fencing.Failed, ofNode("node-b")), none, false},
		"remediations can't be read": {in(fencing.Succeeded), func(w *world) {
			lists := 0
			w.refuses(func(verb string, o runtime.Object) error {
				if _, is := o.(*v1alpha1.PowerRemediationList); !is || verb != "list" {
					return nil
				}
				lists++
				if lists == 1 { // it looks for a remediation that is under way
					return nil
				}
				return errors.New("no")
			})
		}, true},
		"another kind keeps it": {in(fencing.Aborted), func(w *world) {
			w.OtherKeeps = func(_ context.Context, node string, but types.UID) bool { return node == "node-a" && but == "r-uid" }
		}, true},
		"another kind keeps none": {in(fencing.Aborted), func(w *world) {
			w.OtherKeeps = func(context.Context, string, types.UID) bool { return false }
		}, false},
	} {
		t.Run(sentence, func(t *testing.T) {
			w := newWorld(t, node(tainted(ownTaint)), remediation(in(fencing.Aborted), stopped), remediation(called(keyB), tc.other), bmcFor("a", "node-a", "telnet://x"))
			tc.set(w)
			if err := w.reconcile(t.Context(), keyA); err != nil {
				t.Fatal(err)
			}
			if stays := len(w.node(t).Spec.Taints) > 0; stays != tc.stays {
				t.Errorf("the taint stays: %t", stays)
			}
		})
	}
}

// TestOnlyThisKindKeepsTaintsElsewhere: another kind fences no node of a workload cluster.
func TestOnlyThisKindKeepsTaintsElsewhere(t *testing.T) {
	east := newWorld(t, node(tainted(ownTaint)))
	w := newMemberWorld(t, map[types.NamespacedName]*world{keyEast: east}, node(), ofKind(clusterAPICluster, "east", nil))
	w.OtherKeeps = func(context.Context, string, types.UID) bool { return true }
	rec := &reconciliation{r: remediation(), node: "node-a", cluster: fencedCluster{keyEast, "east-uid"}}
	if w.isKeptByOther(t.Context(), rec) {
		t.Error("another kind keeps the taint of a node of a workload cluster")
	}
	rec.cluster = fencedCluster{}
	if !w.isKeptByOther(t.Context(), rec) {
		t.Error("another kind keeps no taint of a node of Fettle's own cluster")
	}
}

// TestTheOwnTaintOfADeletedRemediation goes before it does, unless another one keeps it. Neither waits for the other.
func TestTheOwnTaintOfADeletedRemediation(t *testing.T) {
	w := newWorld(t, node(tainted(ownTaint)), remediation(in(fencing.Aborted), leaving), remediation(called(keyB), in(fencing.Failed)), bmcFor("a", "node-a", "telnet://x"))
	if err := w.reconcile(t.Context(), keyA); err != nil {
		t.Fatal(err)
	}
	err := w.api.Get(t.Context(), keyA, &v1alpha1.PowerRemediation{})
	if !apierrors.IsNotFound(err) || len(w.node(t).Spec.Taints) == 0 {
		t.Errorf("reading it returns %v, and the node has %v", err, w.node(t).Spec.Taints)
	}
}
