package informer_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	toolscache "k8s.io/client-go/tools/cache"
	cachetesting "k8s.io/client-go/tools/cache/testing"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fettle-io/fettle/internal/informer"
	"github.com/fettle-io/fettle/internal/informer/informertest"
)

// countingInformer is an informer of client-go that counts its subscriptions.
type countingInformer struct {
	toolscache.SharedIndexInformer

	subscriptions int
}

func (c *countingInformer) AddEventHandler(h toolscache.ResourceEventHandler) (toolscache.ResourceEventHandlerRegistration, error) {
	c.subscriptions++
	return c.SharedIndexInformer.AddEventHandler(h)
}

// caches has an informer for each Go type of an object.
type caches struct {
	cache.Cache

	nodes, pods *countingInformer
}

func (c *caches) GetInformer(_ context.Context, obj client.Object, _ ...cache.InformerGetOption) (cache.Informer, error) {
	if _, ok := obj.(*corev1.Node); ok {
		return c.nodes, nil
	}
	return c.pods, nil
}

// shareFixture has informers of client-go over objects that the test changes.
type shareFixture struct {
	caches

	source *cachetesting.FakeControllerSource
	shared cache.Cache
}

func newShareFixture(t *testing.T, nodes ...string) *shareFixture {
	t.Helper()
	f := &shareFixture{source: cachetesting.NewFakeControllerSource()}
	for _, name := range nodes {
		f.source.Add(nodeOf(name, "1"))
	}
	f.nodes = &countingInformer{SharedIndexInformer: toolscache.NewSharedIndexInformer(f.source, &corev1.Node{}, 0, toolscache.Indexers{})}
	f.pods = &countingInformer{SharedIndexInformer: toolscache.NewSharedIndexInformer(&toolscache.ListWatch{}, &corev1.Pod{}, 0, toolscache.Indexers{})}
	f.shared = informer.Share(&f.caches, &corev1.Node{})
	return f
}

func nodeOf(name, label string) *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"v": label}}}
}

// subscriber stores the events of a handler.
type subscriber struct {
	mu     sync.Mutex
	events []string
	synced toolscache.InformerSynced
	handle toolscache.ResourceEventHandlerRegistration
}

func (f *shareFixture) subscribe(t *testing.T, obj client.Object) *subscriber {
	t.Helper()
	s := &subscriber{}
	note := func(format string, args ...any) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.events = append(s.events, fmt.Sprintf(format, args...))
	}
	of, err := f.shared.GetInformer(t.Context(), obj)
	if err != nil {
		t.Fatal(err)
	}
	s.handle, err = of.AddEventHandler(toolscache.ResourceEventHandlerDetailedFuncs{
		AddFunc: func(obj any, initial bool) { note("add %s %t", obj.(*corev1.Node).Name, initial) },
		UpdateFunc: func(old, obj any) {
			note("update %s from %s to %s", obj.(*corev1.Node).Name, old.(*corev1.Node).Labels["v"], obj.(*corev1.Node).Labels["v"])
		},
		DeleteFunc: func(obj any) { note("delete %s", obj.(*corev1.Node).Name) },
	})
	if err != nil {
		t.Fatal(err)
	}
	s.synced = s.handle.HasSynced
	return s
}

func (s *subscriber) seen() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.events)
}

// run runs the informer of nodes until the test ends.
func (f *shareFixture) run(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var group sync.WaitGroup
	group.Go(func() { f.nodes.Run(ctx.Done()) })
	t.Cleanup(func() {
		cancel()
		group.Wait()
		f.source.Shutdown()
	})
	synctest.Wait()
}

// TestSharedSubscription: handlers that come before the first event share a subscription. Each gets all events.
func TestSharedSubscription(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newShareFixture(t, "a")
		first, second := f.subscribe(t, &corev1.Node{}), f.subscribe(t, &corev1.Node{})
		if f.nodes.subscriptions != 1 || first.synced() || second.synced() {
			t.Errorf("two handlers have %d subscriptions; synced: %t, %t", f.nodes.subscriptions, first.synced(), second.synced())
		}
		f.run(t)
		f.source.Modify(nodeOf("a", "2"))
		f.source.Add(nodeOf("b", "1"))
		f.source.Delete(nodeOf("a", "2"))
		synctest.Wait()
		want := []string{"add a true", "update a from 1 to 2", "add b false", "delete a"}
		for name, s := range map[string]*subscriber{"first": first, "second": second} {
			if diff := cmp.Diff(want, s.seen()); diff != "" || !s.synced() {
				t.Errorf("the %s handler, synced: %t (-want +got):\n%s", name, s.synced(), diff)
			}
		}
	})
}

// TestLateSubscription: a handler that comes after the first event has a subscription of its own, which begins with all objects.
func TestLateSubscription(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newShareFixture(t, "a")
		first := f.subscribe(t, &corev1.Node{})
		f.run(t)
		late := f.subscribe(t, &corev1.Node{})
		f.source.Modify(nodeOf("a", "2"))
		synctest.Wait()
		if diff := cmp.Diff([]string{"add a true", "update a from 1 to 2"}, late.seen()); diff != "" || !late.synced() || f.nodes.subscriptions != 2 {
			t.Errorf("the late handler, synced: %t, with %d subscriptions (-want +got):\n%s", late.synced(), f.nodes.subscriptions, diff)
		}
		of, err := f.shared.GetInformer(t.Context(), &corev1.Node{})
		if err != nil {
			t.Fatal(err)
		}
		if err := of.RemoveEventHandler(first.handle); err == nil {
			t.Error("the shared subscription was removed")
		}
		if err := of.RemoveEventHandler(late.handle); err != nil {
			t.Errorf("the late subscription was not removed: %v", err)
		}
		f.source.Delete(nodeOf("a", "2"))
		synctest.Wait()
		if got := late.seen(); len(got) != 2 || len(first.seen()) != 3 {
			t.Errorf("after the removal the late handler has %q, and the first %q", got, first.seen())
		}
	})
}

// TestOnlyOneKindIsShared: handlers of other kinds have a subscription each. So have handlers of an informer that has replaced another.
func TestOnlyOneKindIsShared(t *testing.T) {
	f := newShareFixture(t)
	for range 2 {
		f.subscribe(t, &corev1.Pod{})
	}
	f.subscribe(t, &corev1.Node{})
	before := f.nodes
	f.nodes = &countingInformer{SharedIndexInformer: toolscache.NewSharedIndexInformer(f.source, &corev1.Node{}, 0, toolscache.Indexers{})}
	f.subscribe(t, &corev1.Node{})
	if f.pods.subscriptions != 2 || before.subscriptions != 1 || f.nodes.subscriptions != 1 {
		t.Errorf("subscriptions: %d to pods, %d to nodes, then %d", f.pods.subscriptions, before.subscriptions, f.nodes.subscriptions)
	}
}

// TestRefusedSharedSubscription: a handler that was refused gets no events later.
func TestRefusedSharedSubscription(t *testing.T) {
	in := informertest.New()
	stopped := errors.New("the informer has stopped")
	in.Of("Node").Refuse = stopped
	of, err := informer.Share(refusing{informers: in}, &corev1.Node{}).GetInformer(t.Context(), &corev1.Node{})
	if err != nil {
		t.Fatal(err)
	}
	handled := map[string]int{}
	count := func(name string) toolscache.ResourceEventHandler {
		return toolscache.ResourceEventHandlerFuncs{AddFunc: func(any) { handled[name]++ }}
	}
	if _, err := of.AddEventHandler(count("refused")); !errors.Is(err, stopped) {
		t.Errorf("the handler is refused with %v", err)
	}
	in.Of("Node").Refuse = nil
	if _, err := of.AddEventHandler(count("accepted")); err != nil {
		t.Error(err)
	}
	in.Of("Node").Show(nodeOf("a", "1"))
	if handled["refused"] != 0 || handled["accepted"] != 1 {
		t.Errorf("the handlers got %v", handled)
	}
	in.Refuse["Node"] = stopped
	if _, err := informer.Share(refusing{informers: in}, &corev1.Node{}).GetInformer(t.Context(), &corev1.Node{}); !errors.Is(err, stopped) {
		t.Errorf("a cache that refuses gives %v", err)
	}
}

// refusing is a cache with the informers of a test.
type refusing struct {
	cache.Cache

	informers *informertest.Informers
}

func (r refusing) GetInformer(ctx context.Context, obj client.Object, options ...cache.InformerGetOption) (cache.Informer, error) {
	return r.informers.GetInformer(ctx, obj, options...)
}
