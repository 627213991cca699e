package powercycle

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"

	"github.com/fettle-io/fettle/api/fettle/v1alpha1"
	"github.com/fettle-io/fettle/internal/informer/informertest"
	"github.com/fettle-io/fettle/internal/slim"
)

type queue = workqueue.TypedRateLimitingInterface[types.NamespacedName]

// taken returns the keys that are ready in a queue, and takes them.
func taken(q queue) map[types.NamespacedName]bool {
	keys := map[types.NamespacedName]bool{}
	for q.Len() > 0 {
		key, _ := q.Get()
		keys[key] = true
		q.Done(key)
	}
	return keys
}

// TestWhatIsWatched: a change of a BMC has it probed, and a change of a remediation or a node has remediations reconciled.
func TestWhatIsWatched(t *testing.T) {
	w := newWorld(t)
	informers := informertest.New()
	w.Informers = informers
	if err := w.Watch(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := w.Watch(t.Context()); err != nil || informers.Of("BMC").Gets != 1 {
		t.Errorf("watched again: %v, %d times", err, informers.Of("BMC").Gets)
	}
	informers.SetSynced(true)
	if !w.HasSynced() {
		t.Error("it has not synced")
	}
	w.sessions.of(keyA, "r-uid", "node-a")
	wakes := func(sentence string, remediations, probes int, change func()) {
		t.Helper()
		change()
		reconciled, probed := taken(w.remediations), taken(w.probes)
		if len(reconciled) != remediations || remediations > 0 && !reconciled[keyA] || len(probed) != probes || probes > 0 && !probed[bmcKey("a")] {
			t.Errorf("%s: reconciled are %v, and probed are %v", sentence, reconciled, probed)
		}
	}
	bmcs, nodes, remediations := w.bmcEvents(), w.nodeEvents(), w.remediationEvents()
	bmc := bmcFor("a", "node-a", "redfish://10.0.0.1")
	other := bmcFor("a", "node-a", "redfish://10.0.0.1", func(b *v1alpha1.BMC) { b.Namespace = "elsewhere" })
	wakes("a BMC", 1, 1, func() { bmcs.OnAdd(bmc, true) })
	wakes("another status of it", 0, 0, func() { bmcs.OnUpdate(bmc, bmc.DeepCopy()) })
	wakes("another spec of it", 1, 1, func() {
		changed := bmc.DeepCopy()
		changed.Generation++
		bmcs.OnUpdate(bmc, changed)
	})
	wakes("a BMC elsewhere", 0, 0, func() { bmcs.OnAdd(other, false) })
	wakes("a BMC elsewhere is gone", 0, 0, func() { bmcs.OnDelete(other) })
	wakes("no BMC", 0, 0, func() { bmcs.OnAdd("nonsense", false); bmcs.OnDelete("nonsense") })
	wakes("a BMC is gone", 1, 1, func() { bmcs.OnDelete(toolscache.DeletedFinalStateUnknown{Key: bmcNamespace + "/a"}) })
	if _, found := w.bmcs.find("node-a"); found.reason != v1alpha1.CannotStartNoBMCReason {
		t.Errorf("after that, the problem is %+v", found)
	}
	wakes("a remediation", 1, 0, func() { remediations.OnAdd(remediation(), false) })
	wakes("a changed remediation", 1, 0, func() { remediations.OnUpdate(nil, remediation()) })
	wakes("a remediation is gone", 1, 0, func() { remediations.OnDelete(remediation()) })
	wakes("no remediation", 0, 0, func() { remediations.OnAdd("nonsense", false) })
	n, another := &slim.Node{}, &slim.Node{}
	n.Name, another.Name = "node-a", "node-b"
	wakes("a node", 1, 0, func() { nodes.OnAdd(n, false) })
	wakes("a changed node", 1, 0, func() { nodes.OnUpdate(nil, n) })
	wakes("a node is gone", 1, 0, func() { nodes.OnDelete(toolscache.DeletedFinalStateUnknown{Key: "node-a"}) })
	wakes("another node", 0, 0, func() { nodes.OnAdd(another, false) })
	wakes("no node", 0, 0, func() { nodes.OnAdd("nonsense", false); nodes.OnDelete("nonsense") })
}

// TestKindsThatAreNotServed are not watched, and are tried again by the caller.
func TestKindsThatAreNotServed(t *testing.T) {
	w := newWorld(t)
	informers := informertest.New()
	informers.Refuse["PowerRemediation"] = &meta.NoKindMatchError{}
	w.Informers = informers
	if err := w.Watch(t.Context()); !meta.IsNoMatchError(err) {
		t.Errorf("watching returns %v", err)
	}
}

// TestStart waits for the watch and the first lists, begins the turns with a pause, and works until the context ends.
func TestStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		informers := &informertest.Syncing{}
		w.Informers = informers
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		w.remediations.Add(keyA)
		w.probes.Add(bmcKey("a"))
		go func() { done <- w.Start(ctx) }()
		left := func(sentence string, want int) {
			t.Helper()
			<-time.After(time.Second)
			synctest.Wait()
			w.turns.mu.Lock()
			free := w.turns.free
			w.turns.mu.Unlock()
			if w.remediations.Len() != want || w.probes.Len() != want || free.IsZero() != (want == 1) {
				t.Errorf("%s: %d remediations and %d probes are left, and the first turn is %v", sentence, w.remediations.Len(), w.probes.Len(), free)
			}
		}
		left("nothing is watched", 1)
		if err := w.Watch(t.Context()); err != nil {
			t.Fatal(err)
		}
		left("the first lists are not here", 1)
		informers.Synced.Store(true)
		left("all is here", 0)
		cancel()
		if err := <-done; err != nil || !w.remediations.ShuttingDown() || !w.probes.ShuttingDown() {
			t.Errorf("Start returns %v", err)
		}
	})
}

// TestStartGivesSessionsBack when it ends.
func TestStartGivesSessionsBack(t *testing.T) {
	w, r := newRack(t, 2)
	for i := range 2 {
		if _, found := w.readPower(t.Context(), w.bmc(t, hostKey(i).Name)); found.found() {
			t.Fatal(found)
		}
	}
	informers := &informertest.Syncing{}
	informers.Synced.Store(true)
	w.Informers = informers
	if err := w.Watch(t.Context()); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	w.remediations.ShutDown()
	w.probes.ShutDown()
	err := w.Start(ctx)
	cancel()
	r.mu.Lock()
	defer r.mu.Unlock()
	if err != nil || r.ended != 2 {
		t.Errorf("Start returns %v, and %d sessions were given back", err, r.ended)
	}
}

// TestStartEndsEarly, watched or not.
func TestStartEndsEarly(t *testing.T) {
	for _, watched := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t)
			w.Informers = informertest.New()
			if watched {
				if err := w.Watch(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan error, 1)
			w.remediations.Add(keyA)
			go func() { done <- w.Start(ctx) }()
			synctest.Wait()
			cancel()
			if err := <-done; err != nil || !w.remediations.ShuttingDown() || !w.probes.ShuttingDown() || w.remediations.Len() != 1 {
				t.Errorf("watched %t: Start returns %v, and %d are left", watched, err, w.remediations.Len())
			}
		})
	}
}

func TestOnlyTheLeaderWorks(t *testing.T) {
	if !newWorld(t).NeedLeaderElection() {
		t.Error("replicas that don't lead work too")
	}
}

// TestFirstProbe comes at once for a BMC of which nothing is known by its spec, and at any time within a period otherwise.
func TestFirstProbe(t *testing.T) {
	for sentence, tc := range map[string]struct {
		bmc    *v1alpha1.BMC
		spread bool
	}{
		"a new one":               {bmcFor("a", "node-a", "redfish://10.0.0.1"), false},
		"another spec":            {bmcFor("a", "node-a", "redfish://10.0.0.1", reachedSystem("", func(b *v1alpha1.BMC) { b.Generation++ })), false},
		"known":                   {bmcFor("a", "node-a", "redfish://10.0.0.1", reachedSystem("")), true},
		"known, and not reached":  {bmcFor("a", "node-a", "redfish://10.0.0.1", reachedSystem("", func(b *v1alpha1.BMC) { b.Status.Conditions[0].Status = metav1.ConditionFalse })), true},
		"another condition of it": {bmcFor("a", "node-a", "redfish://10.0.0.1", reachedSystem("", func(b *v1alpha1.BMC) { b.Status.Conditions[0].Type = "Other" })), false},
	} {
		seen := map[time.Duration]bool{}
		for range 20 {
			got := firstProbe(tc.bmc)
			if got < 0 || got >= probeEvery || !tc.spread && got != 0 {
				t.Errorf("%s: the first probe waits for %v", sentence, got)
			}
			seen[got] = true
		}
		if tc.spread && len(seen) < 10 {
			t.Errorf("%s: the first probes are not spread: %v", sentence, seen)
		}
	}
}

// TestABMCThatIsGone leaves nothing behind.
func TestABMCThatIsGone(t *testing.T) {
	b := startRedfish(t)
	w := newWorld(t, b.bmc(), secret(testPassword))
	w.reads(t, b, w.bmc(t, "a"), "", 1)
	w.hosts.note(w.bmc(t, "a"), observation{at: noon, problem: problem{reason: addressInvalid}})
	w.bmcs.drop(bmcKey("a"))
	if err := w.probe(t.Context(), bmcKey("a")); err != nil {
		t.Fatal(err)
	}
	if len(w.hosts.byKey) != 0 || len(w.hosts.unusable) != 0 {
		t.Errorf("left are %v and %v", w.hosts.byKey, w.hosts.unusable)
	}
}
