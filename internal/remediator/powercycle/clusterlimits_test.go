package powercycle

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fettle-io/fettle/api/fettle/v1alpha1"
	"github.com/fettle-io/fettle/internal/remediator/fencednode"
)

// manyMachines is above the number of remediations of a cluster that are reconciled at the same time.
const manyMachines = maxReconcilesPerCluster + 12

func machineKey(i int) types.NamespacedName {
	return types.NamespacedName{Namespace: "fleet", Name: fmt.Sprintf("m%d", i)}
}

// newWorldOfManyMachines has machines of the cluster east that all refer to node-a, and a remediation of each, with a machine of another cluster.
func newWorldOfManyMachines(t *testing.T, east, west *world) *world {
	t.Helper()
	objects := []client.Object{
		ofKind(clusterAPICluster, "east", nil), ofKind(clusterAPICluster, "west", nil), bmcIn("a", "fleet/east", "node-a"), bmcIn("w", "fleet/west", "node-a"),
		member(map[string]any{"spec.clusterName": "west"}), forMember(),
	}
	for i := range manyMachines {
		key := machineKey(i)
		objects = append(objects, ofKind(clusterAPIMachine, key.Name, map[string]any{"spec.clusterName": "east", "status.nodeRef.name": "node-a"}),
			forMember(func(r *v1alpha1.PowerRemediation) {
				r.Name, r.UID = key.Name, types.UID(key.Name+"-r-uid")
				r.OwnerReferences = []metav1.OwnerReference{{APIVersion: "cluster.x-k8s.io/v1beta2", Kind: "Machine", Name: key.Name, UID: types.UID(key.Name + "-uid")}}
			}))
	}
	w := newMemberWorld(t, map[types.NamespacedName]*world{keyEast: east, keyWest: west}, objects...)
	w.Events = events.NewFakeRecorder(2 * manyMachines)
	return w
}

// TestI15MachinesOfOneNodeCrowdOutNoOthers: a hostile workload cluster hangs, and any number of its machines refer to one node. One reconcile
// reads that node. The others end at once, so that there is room for the remediations of another cluster.
func TestI15MachinesOfOneNodeCrowdOutNoOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		east, west := newWorld(t, node()), newWorld(t, node())
		w := newWorldOfManyMachines(t, east, west)
		hangs, reads := make(chan struct{}), 0
		var mu sync.Mutex
		east.refuses(func(verb string, o runtime.Object) error {
			if _, is := o.(*corev1.Node); is && verb == "get" {
				mu.Lock()
				reads++
				mu.Unlock()
				<-hangs
			}
			return nil
		})
		var under sync.WaitGroup
		left := manyMachines
		for i := range manyMachines {
			under.Go(func() {
				if err := w.reconcile(t.Context(), machineKey(i)); err != nil {
					t.Error(err)
				}
				mu.Lock()
				left--
				mu.Unlock()
			})
		}
		synctest.Wait()
		mu.Lock()
		if reads != 1 || left != 1 {
			t.Errorf("%d reconciles read the node, and %d of %d go on", reads, left, manyMachines)
		}
		mu.Unlock()
		if err := w.reconcile(t.Context(), keyM); err != nil || w.remediation(t, keyM).Status.Phase != "PoweringOff" {
			t.Errorf("the remediation of another cluster is in phase %q (%v)", w.remediation(t, keyM).Status.Phase, err)
		}
		close(hangs)
		under.Wait()
	})
}

// TestI15RemediationsThatWaitReadNothing: they say once what they wait for. The end of the first wakes one of them.
func TestI15RemediationsThatWaitReadNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		east := newWorld(t, node(annotated(fencednode.ClusterAPIMachineAnnotation, "none")))
		w := newWorldOfManyMachines(t, east, newWorld(t))
		w.sessions.of(keyM, "uid", "fleet/east/node-a")
		w.sessions.claim("fleet/east/node-a", keyM)
		requests := 0
		reconcile := func() {
			t.Helper()
			for i := range manyMachines {
				if err := w.reconcile(t.Context(), machineKey(i)); err != nil {
					t.Fatal(err)
				}
			}
		}
		reconcile()
		w.refuses(func(verb string, o runtime.Object) error {
			if _, cached := o.(*v1alpha1.PowerRemediation); !cached || verb != "get" {
				requests++
			}
			return nil
		})
		reconcile()
		if requests != 0 || len(taken(w.remediations)) != 0 {
			t.Errorf("%d requests are made for remediations that wait", requests)
		}
		w.refuses(nil)
		w.wake(w.sessions.end(keyM))
		for i := range manyMachines {
			woken := taken(w.remediations)
			if len(woken) != 1 {
				t.Fatalf("after %d were refused, %d are woken", i, len(woken))
			}
			for key := range woken {
				ctx, end := context.WithCancel(t.Context())
				err := w.reconcile(ctx, key)
				end() // it gives its room back
				synctest.Wait()
				if err != nil || processing(w.remediation(t, key)) != v1alpha1.CannotStartMachineNotFoundReason {
					t.Fatalf("%s says %s (%v)", key, processing(w.remediation(t, key)), err)
				}
			}
		}
		if woken := taken(w.remediations); len(woken) != 0 {
			t.Errorf("in the end %v are woken", woken)
		}
	})
}

// TestI15RemediationsOfOneNodeAreListedOnce: the list grows with their number. All but the first to claim the node need none.
func TestI15RemediationsOfOneNodeAreListedOnce(t *testing.T) {
	w := newWorldOfManyMachines(t, newWorld(t, node()), newWorld(t))
	lists := 0
	w.refuses(func(verb string, o runtime.Object) error {
		if _, is := o.(*v1alpha1.PowerRemediationList); is && verb == "list" {
			lists++
		}
		return nil
	})
	for i := range 4 {
		if err := w.reconcile(t.Context(), machineKey(i)); err != nil {
			t.Fatal(err)
		}
		if said := processing(w.remediation(t, machineKey(i))); (said == fencednode.AnotherRemediation) != (i > 0) {
			t.Errorf("%d waits for %s", i, said)
		}
	}
	if lists != 1 {
		t.Errorf("there are %d lists", lists)
	}
	w.sessions.end(machineKey(0))
	if next := w.sessions.next("fleet/east/node-a"); len(next) != 1 || next[0] != machineKey(1) {
		t.Errorf("next is %v", next)
	}
}

// TestANodeThatCanNotBeReadStaysClaimed: no other remediation of it could read it, and each would wake the next without a pause.
func TestANodeThatCanNotBeReadStaysClaimed(t *testing.T) {
	w := newWorldOfManyMachines(t, silent(t), newWorld(t))
	for range 2 {
		if err := w.reconcile(t.Context(), machineKey(0)); err == nil || processing(w.remediation(t, machineKey(0))) != notRead {
			t.Errorf("it waits for %q (%v)", processing(w.remediation(t, machineKey(0))), err)
		}
		if err := w.reconcile(t.Context(), machineKey(1)); err != nil || processing(w.remediation(t, machineKey(1))) != fencednode.AnotherRemediation {
			t.Errorf("the other waits for %q (%v)", processing(w.remediation(t, machineKey(1))), err)
		}
	}
	if woken := taken(w.remediations); len(woken) != 0 {
		t.Errorf("woken are %v", woken)
	}
}

// TestI15ClustersLeaveRoomForOthers: clusters that hang take as many reconciles as they get. There is always room for those of another cluster
// and of the cluster that Fettle runs in.
func TestI15ClustersLeaveRoomForOthers(t *testing.T) {
	w := newMemberWorld(t, nil)
	w.Workload = func(types.NamespacedName) fencednode.API { return nil }
	ctx, end := context.WithCancel(t.Context())
	defer end()
	for i := range 6 {
		cluster := types.NamespacedName{Namespace: "fleet", Name: fmt.Sprint(i)}
		if _, entered := w.enter(ctx, cluster); !entered {
			t.Errorf("cluster %d finds no room", i)
		}
		for entered := true; entered; {
			_, entered = w.enter(ctx, cluster)
		}
	}
	all := 0
	for _, of := range w.clusterLimits.byCluster {
		all += of.reconciles
	}
	if all != 128+128+64+32+16+8 || all != w.clusterLimits.reconciles || all > maxReconciles*3/4 {
		t.Errorf("clusters that hang have %d of %d reconciles, and %d are counted", all, maxReconciles, w.clusterLimits.reconciles)
	}
	end()
	for left := true; left; { // the end of a context takes effect later
		w.clusterLimits.mu.Lock()
		left = w.clusterLimits.reconciles > 0
		w.clusterLimits.mu.Unlock()
	}
}
