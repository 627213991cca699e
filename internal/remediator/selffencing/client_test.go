package selffencing

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fettle-io/fettle/internal/informer/informertest"
	"github.com/fettle-io/fettle/internal/selffence"
	"github.com/fettle-io/fettle/internal/slim"
)

// TestKinds: the definitions of remediations and of policies have to be there before this remediator starts.
func TestKinds(t *testing.T) {
	if want := []string{"selffenceremediations.fettle.io", "fencepolicies.fettle.io"}; !slices.Equal(Kinds, want) {
		t.Errorf("they are %v", Kinds)
	}
}

func TestOnlyTheLeaderWorks(t *testing.T) {
	if !newWorld(t).NeedLeaderElection() {
		t.Error("replicas that don't lead work too")
	}
}

// taken returns the keys that are ready in a queue, and takes them.
func taken[T comparable](q workqueue.TypedRateLimitingInterface[T]) []T {
	var keys []T
	for q.Len() > 0 {
		key, _ := q.Get()
		keys = append(keys, key)
		q.Done(key)
	}
	return keys
}

// wakesAfter checks that the remediation of node-a is reconciled again after a pause, and not before.
func (w *world) wakesAfter(t *testing.T, pause time.Duration) {
	t.Helper()
	<-time.After(pause - time.Millisecond)
	synctest.Wait()
	if early := taken(w.remediations); len(early) != 0 {
		t.Errorf("%v is reconciled too early", early)
	}
	<-time.After(2 * time.Millisecond)
	synctest.Wait()
	if woken := taken(w.remediations); !slices.Contains(woken, keyA) {
		t.Errorf("it is not reconciled again after %v", pause)
	}
}

// slimNode returns node-a as the watch shows it.
func slimNode(t *testing.T, ready bool) *slim.Node {
	t.Helper()
	n := &slim.Node{}
	body := `{"metadata": {"name": "node-a"}, "status": {"conditions": [{"type": "Ready", "status": "` + map[bool]string{true: "True", false: "False"}[ready] + `"}]}}`
	if err := n.UnmarshalJSON([]byte(body)); err != nil {
		t.Fatal(err)
	}
	return n
}

// TestWhatWasSeenOfAPromise counts as long as the node is not Ready. A node that was Ready or gone in between may have been granted more.
func TestWhatWasSeenOfAPromise(t *testing.T) {
	for sentence, tc := range map[string]struct {
		event  func(toolscache.ResourceEventHandler)
		counts bool
	}{
		"it is still not Ready": {func(h toolscache.ResourceEventHandler) { h.OnUpdate("nonsense", slimNode(t, false)) }, true},
		"it becomes Ready":      {func(h toolscache.ResourceEventHandler) { h.OnUpdate(slimNode(t, false), slimNode(t, true)) }, false},
		"it is gone":            {func(h toolscache.ResourceEventHandler) { h.OnDelete(slimNode(t, false)) }, false},
	} {
		w := newWorld(t, node(), leaseOf(t, "node-a"), remediation())
		if err := w.readPromise(t.Context(), "node-a"); err != nil {
			t.Fatal(err)
		}
		tc.event(w.nodeEvents())
		w.forward(expiry)
		if r := w.reconciles(t); (r.Status.Proof != nil) != tc.counts {
			t.Errorf("%s: it is %+v", sentence, r.Status)
		}
	}
}

// TestWhatIsWatched: a remediation that changes is reconciled, and so are those of a node whose readiness changes. The promise of a node that
// is not Ready is read.
func TestWhatIsWatched(t *testing.T) {
	w := newWorld(t)
	informers := informertest.New()
	w.Informers = informers
	if err := w.Watch(t.Context()); err != nil {
		t.Fatal(err)
	}
	if w.HasSynced() {
		t.Error("it has synced before the informers")
	}
	informers.SetSynced(true)
	if !w.HasSynced() {
		t.Error("it has not synced")
	}
	w.sessions.of(keyA, uidA, "node-a")
	w.sessions.of(keyB, "other-uid", "node-b")
	wakes := func(sentence string, reconciles int, read []string, change func()) {
		t.Helper()
		change()
		if got := taken(w.remediations); len(got) != reconciles || reconciles > 0 && got[0] != keyA {
			t.Errorf("%s: reconciled are %v", sentence, got)
		}
		if got := taken(w.unready); !slices.Equal(got, read) {
			t.Errorf("%s: the promises of %v are read", sentence, got)
		}
	}
	remediations, nodes := w.remediationEvents(), w.nodeEvents()
	wakes("a remediation", 1, nil, func() { remediations.OnAdd(remediation(), false) })
	wakes("a changed remediation", 1, nil, func() { remediations.OnUpdate(nil, remediation()) })
	wakes("a remediation is gone", 1, nil, func() { remediations.OnDelete(remediation()) })
	wakes("no remediation", 0, nil, func() { remediations.OnAdd("nonsense", false) })
	wakes("a node", 1, []string{"node-a"}, func() { nodes.OnAdd(slimNode(t, false), false) })
	wakes("a node as it was", 0, nil, func() { nodes.OnUpdate(slimNode(t, false), slimNode(t, false)) })
	wakes("a node of which nothing was known", 1, []string{"node-a"}, func() { nodes.OnUpdate("nonsense", slimNode(t, false)) })
	wakes("a node that becomes Ready", 1, nil, func() { nodes.OnUpdate(slimNode(t, false), slimNode(t, true)) })
	wakes("a node is gone", 1, nil, func() { nodes.OnDelete(toolscache.DeletedFinalStateUnknown{Key: "node-a"}) })
	if len(w.present.exist) != 0 {
		t.Errorf("after it is gone, known are %v", w.present.exist)
	}
	wakes("another node", 0, []string{"node-c"}, func() { nodes.OnAdd(&slim.Node{Meta: slim.Meta{Name: "node-c"}}, false) })
	wakes("no node", 0, nil, func() {
		nodes.OnAdd("nonsense", false)
		nodes.OnUpdate(slimNode(t, false), "nonsense")
		nodes.OnDelete("nonsense")
	})
}

// TestKindsThatAreNotServed are not watched, and are tried again by the caller.
func TestKindsThatAreNotServed(t *testing.T) {
	w := newWorld(t)
	informers := informertest.New()
	informers.Refuse["FencePolicy"] = &meta.NoKindMatchError{}
	w.Informers = informers
	if err := w.Watch(t.Context()); !meta.IsNoMatchError(err) {
		t.Errorf("watching returns %v", err)
	}
}

// starts has a remediator begin to work, with a remediation to reconcile and its node. It returns how many wait, and what ends it.
func (w *world) starts(t *testing.T) (left func() [3]int, end func() error) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	w.remediations.Add(keyA)
	w.unready.Add("node-a")
	done := make(chan error, 1)
	go func() { done <- w.Start(ctx) }()
	left = func() [3]int {
		<-time.After(time.Second)
		synctest.Wait()
		return [3]int{w.remediations.Len(), w.unready.Len(), w.tidying.Len()}
	}
	return left, func() error {
		cancel()
		err := <-done
		if !w.remediations.ShuttingDown() || !w.unready.ShuttingDown() || !w.tidying.ShuttingDown() {
			t.Error("it goes on after its end")
		}
		return err
	}
}

// TestStart waits until all is watched, lists all Leases, and works until the context ends.
func TestStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, leaseOf(t, "node-b", condemnedBy("gone-uid")))
		informers := informertest.New()
		w.Informers = informers
		informers.SetSynced(true)
		left, end := w.starts(t)
		if got := left(); got != [3]int{1, 1, 0} {
			t.Errorf("before all is watched, %v are left", got)
		}
		if err := w.Watch(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := left(); got != [3]int{} || w.state(t, "node-b") != selffence.Withdrawn {
			t.Errorf("%v are left, and the Lease that belongs to no remediation is %s", got, w.state(t, "node-b"))
		}
		if err := end(); err != nil {
			t.Errorf("Start returns %v", err)
		}
	})
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
			left, end := w.starts(t)
			if got := left(); got != [3]int{1, 1, 0} {
				t.Errorf("watched %t: before the first lists %v are left", watched, got)
			}
			if err := end(); err != nil || w.remediations.Len() != 1 {
				t.Errorf("watched %t: Start returns %v, and %d are left", watched, err, w.remediations.Len())
			}
		})
	}
}

// TestWorkOfOneMoment is bounded, for remediations and for the promises of nodes.
func TestWorkOfOneMoment(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const more = 5
		w := newWorld(t)
		informers := informertest.New()
		w.Informers = informers
		informers.SetSynced(true)
		if err := w.Watch(t.Context()); err != nil {
			t.Fatal(err)
		}
		hangs := make(chan struct{})
		w.refuses(func(string, runtime.Object) error {
			<-hangs
			return errors.New("no answer")
		})
		for i := range maxReconciles + more - 1 { // one of each is there already
			w.remediations.Add(types.NamespacedName{Name: strconv.Itoa(i)})
			w.unready.Add(strconv.Itoa(i))
		}
		left, end := w.starts(t)
		if got := left(); got != [3]int{more, more, 0} {
			t.Errorf("while the API server does not answer, %v wait", got)
		}
		ended := make(chan error, 1)
		go func() { ended <- end() }()
		synctest.Wait()
		select {
		case <-ended:
			t.Error("it ends before its work")
		default:
		}
		close(hangs)
		if err := <-ended; err != nil {
			t.Errorf("Start returns %v", err)
		}
	})
}

// hanging answers no call before its context has ended. It stores how long that took.
type hanging struct {
	client.Client

	took chan time.Duration
}

func (h hanging) wait(ctx context.Context) error {
	begun := time.Now() //nolint:forbidigo // the clock of the bubble
	<-ctx.Done()
	h.took <- time.Since(begun) //nolint:forbidigo // the same
	return ctx.Err()
}

func (h hanging) Get(ctx context.Context, _ client.ObjectKey, _ client.Object, _ ...client.GetOption) error {
	return h.wait(ctx)
}

func (h hanging) List(ctx context.Context, _ client.ObjectList, _ ...client.ListOption) error {
	return h.wait(ctx)
}

func (h hanging) Create(ctx context.Context, _ client.Object, _ ...client.CreateOption) error {
	return h.wait(ctx)
}

// TestWorkEndsInTime: an API server that does not answer holds up a reconcile, the read of a promise and a round through the Leases for a minute each.
func TestWorkEndsInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		informers := informertest.New()
		w.Informers = informers
		informers.SetSynced(true)
		if err := w.Watch(t.Context()); err != nil {
			t.Fatal(err)
		}
		h := hanging{w.api, make(chan time.Duration, 100)}
		w.Core, w.Cache = h, h
		_, end := w.starts(t)
		for range 3 {
			if took := <-h.took; took != time.Minute {
				t.Errorf("a call has ended after %v", took)
			}
		}
		if err := end(); err != nil {
			t.Errorf("Start returns %v", err)
		}
	})
}

// TestSessions: a reconcile finds the session of the reconcile before, and a remediation of the same name gets another. It is known for one node.
func TestSessions(t *testing.T) {
	s := newSessions()
	first := s.of(keyA, "1", "node-a")
	if s.of(keyA, "1", "node-a") != first || s.of(keyB, "1", "node-b") == first {
		t.Error("a session is not that of its remediation")
	}
	if got := s.ofNode("node-a"); !slices.Equal(got, []types.NamespacedName{keyA}) {
		t.Errorf("the remediations of node-a are %v", got)
	}
	if s.of(keyA, "2", "node-c") == first || len(s.ofNode("node-a")) != 0 || len(s.ofNode("node-c")) != 1 {
		t.Error("a remediation has the session of an earlier one of its name")
	}
	if node := s.forget(keyA); node != "node-c" || len(s.ofNode("node-c")) != 0 || s.forget(keyA) != "" {
		t.Errorf("forgotten is the remediation of %q", node)
	}
}
