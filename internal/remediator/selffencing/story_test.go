package selffencing

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fettle-io/fettle/api/fettle/annotation"
	"github.com/fettle-io/fettle/api/fettle/v1alpha1"
	"github.com/fettle-io/fettle/internal/fencing"
	"github.com/fettle-io/fettle/internal/promiselease"
	"github.com/fettle-io/fettle/internal/selffence"
)

// TestI13AnExpiredPromiseReleases: a node whose promise is timed is condemned, released once the promise has expired, and restored.
func TestI13AnExpiredPromiseReleases(t *testing.T) {
	w := newWorld(t, node(), remediation(), leaseOf(t, "node-a"), pod("p"))
	r := w.reconciles(t)
	if r.Status.Phase != "Condemning" || processing(r) != "PromiseStands" || r.Status.Node.BootID != boot1 || r.Status.CondemnedAt == nil {
		t.Fatalf("it is %+v", r.Status)
	}
	if l := w.lease(t); l.State != selffence.Condemned || l.By != string(uidA) || l.Promise.Boot != boot1 {
		t.Fatalf("the Lease is %+v", l)
	}
	if n := w.node(t); !isTainted(n, annotation.FencingTaint) || isTainted(n, corev1.TaintNodeOutOfService) {
		t.Fatalf("the taints are %v", n.Spec.Taints)
	}
	w.forward(expiry - 10*time.Millisecond)
	if r = w.reconciles(t); r.Status.Phase != "Condemning" {
		t.Fatalf("before its promise has expired, it is %+v", r.Status)
	}
	w.forward(10 * time.Millisecond)
	r = w.reconciles(t)
	if r.Status.Phase != "Releasing" || r.Status.Proof == nil || r.Status.Proof.Kind != "PromiseExpired" || !r.Status.WorkloadReleased || processing(r) != "WorkloadLeft" {
		t.Fatalf("it is %+v", r.Status)
	}
	if n := w.node(t); !isTainted(n, corev1.TaintNodeOutOfService) {
		t.Fatalf("the taints are %v", n.Spec.Taints)
	}
	if err := w.api.Delete(t.Context(), pod("p")); err != nil {
		t.Fatal(err)
	}
	w.forward(5 * time.Second)
	if r = w.reconciles(t); r.Status.Phase != "Booting" || processing(r) != "NodeNotBack" {
		t.Fatalf("it is %+v", r.Status)
	}
	w.reports(t, ready, rebooted)
	r = w.reconciles(t)
	if said := succeeded(r); said.Status != metav1.ConditionTrue || said.Reason != "NodeIsBack" || r.Status.Phase != "Succeeded" {
		t.Fatalf("it is %+v", r.Status)
	}
	if n := w.node(t); len(n.Spec.Taints) != 0 || len(n.Annotations) != 0 {
		t.Errorf("the node is left with %v and %v", n.Spec.Taints, n.Annotations)
	}
	if l := w.lease(t); l.State != selffence.Withdrawn || l.By != "" {
		t.Errorf("the Lease is left as %+v", l)
	}
}

// TestI13AHeldPromiseNeverExpires: without a time, only another boot ID is a proof.
func TestI13AHeldPromiseNeverExpires(t *testing.T) {
	w := newWorld(t, node(), remediation(), leaseOf(t, "node-a", held), pod("p"))
	if r := w.reconciles(t); processing(r) != "PromiseNotTimed" || w.lease(t).State != selffence.Condemned {
		t.Fatalf("it is %+v", r.Status)
	}
	w.forward(4 * time.Minute)
	if r := w.reconciles(t); processing(r) != "PromiseNotTimed" || r.Status.Proof != nil {
		t.Fatalf("it is %+v", r.Status)
	}
	w.reports(t, rebooted)
	r := w.reconciles(t)
	if r.Status.Proof == nil || r.Status.Proof.Kind != "NewBoot" || r.Status.Proof.BootID != boot2 || !isTainted(w.node(t), corev1.TaintNodeOutOfService) {
		t.Fatalf("it is %+v", r.Status)
	}
}

// TestI6TheClockCountsFromWhatThisProcessHasSeen: a process counts from its own first read of the last grant, and a new process anew.
func TestI6TheClockCountsFromWhatThisProcessHasSeen(t *testing.T) {
	t.Run("a node that is silent since long", func(t *testing.T) {
		w := newWorld(t, node(), leaseOf(t, "node-a"))
		if err := w.readPromise(t.Context(), "node-a"); err != nil {
			t.Fatal(err)
		}
		w.forward(expiry)
		if err := w.api.Create(t.Context(), remediation()); err != nil {
			t.Fatal(err)
		}
		if r := w.reconciles(t); r.Status.Proof == nil || r.Status.Proof.Kind != "PromiseExpired" {
			t.Errorf("it is not released at once: %+v", r.Status)
		}
	})
	t.Run("a node whose agent renews", func(t *testing.T) {
		w := newWorld(t, node(), remediation(), leaseOf(t, "node-a"))
		if err := w.readPromise(t.Context(), "node-a"); err != nil {
			t.Fatal(err)
		}
		w.forward(expiry)
		w.renews(t)
		if r := w.reconciles(t); processing(r) != "PromiseStands" {
			t.Errorf("it is released by an old read: %+v", r.Status)
		}
	})
	t.Run("another process", func(t *testing.T) {
		w := newWorld(t, node(), remediation(), leaseOf(t, "node-a"))
		w.reconciles(t)
		w.forward(expiry)
		w.restart(t)
		if r := w.reconciles(t); processing(r) != "PromiseStands" {
			t.Fatalf("a new process relies on the clock of an earlier one: %+v", r.Status)
		}
		w.forward(expiry)
		if r := w.reconciles(t); r.Status.Proof == nil {
			t.Errorf("it is %+v", r.Status)
		}
	})
	t.Run("a node that was Ready in between", func(t *testing.T) {
		w := newWorld(t, node(), remediation(), leaseOf(t, "node-a"))
		if err := w.readPromise(t.Context(), "node-a"); err != nil {
			t.Fatal(err)
		}
		w.Promises.Drop("node-a")
		w.forward(expiry)
		if r := w.reconciles(t); processing(r) != "PromiseStands" {
			t.Errorf("it is %+v", r.Status)
		}
	})
}

// TestWitnessesAcknowledge: where witnesses may grant, the clock begins once two of three, or four of five, have read the condemned Lease.
func TestWitnessesAcknowledge(t *testing.T) {
	names := []string{"w-0", "w-1", "w-2", "w-3", "w-4"}
	for count, want := range map[int]int{3: 2, 5: 4} {
		witnessed := func(r *promiselease.Record) { copy(r.Promise.Witnesses[:], names[:count]) }
		objects := []client.Object{node(), remediation(), leaseOf(t, "node-a", witnessed)}
		for _, name := range names[:count-1] { // the last one has no Lease
			objects = append(objects, leaseOf(t, name))
		}
		w := newWorld(t, objects...)
		w.reconciles(t)
		revision := w.lease(t).Revision
		w.forward(expiry)
		for i := range want {
			missing := "missing: " + strings.Join(names[i:count], ", ") + ";"
			if r := w.reconciles(t); processing(r) != "WitnessesNotAcknowledged" || !strings.Contains(processingText(r), missing) {
				t.Fatalf("with %d of %d witnesses it is %+v", i, count, r.Status)
			}
			w.acknowledges(t, names[i], revision-1)
			w.forward(3 * time.Second)
			if r := w.reconciles(t); processing(r) != "WitnessesNotAcknowledged" {
				t.Fatalf("with %d of %d witnesses, and one of before, it is %+v", i, count, r.Status)
			}
			w.acknowledges(t, names[i], revision)
			w.forward(3 * time.Second)
		}
		if r := w.reconciles(t); processing(r) != "PromiseStands" {
			t.Fatalf("with %d of %d witnesses it is %+v", want, count, r.Status)
		}
		w.forward(expiry - time.Second)
		if r := w.reconciles(t); r.Status.Proof != nil {
			t.Fatalf("it is %+v", r.Status)
		}
		w.forward(time.Second)
		if r := w.reconciles(t); r.Status.Proof == nil || r.Status.Proof.Kind != "PromiseExpired" {
			t.Fatalf("it is %+v", r.Status)
		}
	}
}

// TestAbort: a remediation that is deleted frees the promise and the node.
func TestAbort(t *testing.T) {
	w := newWorld(t, node(), remediation(), leaseOf(t, "node-a"))
	r := w.reconciles(t)
	if err := w.api.Delete(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	if err := w.reconcile(t.Context(), keyA); err != nil {
		t.Fatal(err)
	}
	if err := w.api.Get(t.Context(), keyA, &v1alpha1.SelfFenceRemediation{}); err == nil {
		t.Error("it is still there")
	}
	if n := w.node(t); len(n.Spec.Taints) != 0 || len(n.Annotations) != 0 {
		t.Errorf("the node is left with %v and %v", n.Spec.Taints, n.Annotations)
	}
	if l := w.lease(t); l.State != selffence.Withdrawn {
		t.Errorf("the Lease is left as %+v", l)
	}
}

// TestReleaseByDeletion: the node is deleted, and what it had is restored on the node that registers again.
func TestReleaseByDeletion(t *testing.T) {
	deletes := func(r *v1alpha1.SelfFenceRemediation) { r.Spec.Release = v1alpha1.DeleteNodeRelease }
	labelled := func(n *corev1.Node) { n.Labels = map[string]string{"pool": "a"} }
	w := newWorld(t, node(labelled), remediation(deletes), leaseOf(t, "node-a"))
	w.reconciles(t)
	w.forward(expiry)
	if r := w.reconciles(t); r.Status.Phase != "Booting" || r.Status.Node.Saved == nil {
		t.Fatalf("it is %+v", r.Status)
	}
	again := node(ready, rebooted)
	again.UID = "uid-2"
	if err := w.api.Create(t.Context(), again); err != nil {
		t.Fatal(err)
	}
	if r := w.reconciles(t); r.Status.Phase != string(fencing.Succeeded) || w.node(t).Labels["pool"] != "a" || len(w.node(t).Spec.Taints) != 0 {
		t.Errorf("it is %+v, and the node %+v", r.Status, w.node(t))
	}
}
