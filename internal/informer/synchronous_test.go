package informer_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	toolscache "k8s.io/client-go/tools/cache"
	cachetesting "k8s.io/client-go/tools/cache/testing"
	"pgregory.net/rapid"

	"github.com/fettle-io/fettle/internal/informer"
)

func nodeOf(name, label string) *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"v": label}}}
}

// labelIndex is the name of an index by the label v.
const labelIndex = "label"

func byLabel(obj any) ([]string, error) { return []string{obj.(*corev1.Node).Labels["v"]}, nil }

func synchronousOf(source toolscache.ListerWatcher) toolscache.SharedIndexInformer {
	return informer.NewSynchronous(source, &corev1.Node{}, toolscache.Indexers{labelIndex: byLabel})
}

// subscriber stores the events of a handler, by the names of nodes.
type subscriber struct {
	mu     sync.Mutex
	events map[string][]string
	handle toolscache.ResourceEventHandlerRegistration
}

func (s *subscriber) note(name, format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.events[name] = append(s.events[name], fmt.Sprintf(format, args...))
}

func (s *subscriber) seen() map[string][]string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.events)
}

func (s *subscriber) handler() toolscache.ResourceEventHandler {
	return toolscache.ResourceEventHandlerDetailedFuncs{
		AddFunc: func(obj any, initial bool) {
			n := obj.(*corev1.Node)
			s.note(n.Name, "add %s %t", n.Labels["v"], initial)
		},
		UpdateFunc: func(old, obj any) {
			n := obj.(*corev1.Node)
			if n.ResourceVersion == old.(*corev1.Node).ResourceVersion {
				return // client-go may tell of it where a list is repeated
			}
			s.note(n.Name, "update %s to %s", old.(*corev1.Node).Labels["v"], n.Labels["v"])
		},
		DeleteFunc: func(obj any) {
			if unknown, is := obj.(toolscache.DeletedFinalStateUnknown); is {
				s.note(unknown.Key, "delete %s, unseen", unknown.Obj.(*corev1.Node).Labels["v"])
				return
			}
			n := obj.(*corev1.Node)
			s.note(n.Name, "delete %s", n.Labels["v"])
		},
	}
}

// fataler is a test, or a check of rapid.
type fataler interface {
	Helper()
	Fatal(args ...any)
}

func subscribe(t fataler, to toolscache.SharedInformer) *subscriber {
	t.Helper()
	s := &subscriber{events: map[string][]string{}}
	var err error
	if s.handle, err = to.AddEventHandler(s.handler()); err != nil {
		t.Fatal(err)
	}
	return s
}

// run runs informers until the returned function is called.
func run(source listed, informers ...toolscache.SharedIndexInformer) (end func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var group sync.WaitGroup
	for _, i := range informers {
		group.Go(func() { i.RunWithContext(ctx) })
	}
	synctest.Wait()
	return func() {
		cancel()
		group.Wait()
		source.Shutdown()
	}
}

// listed is a source whose reflectors list, since it can't stream its objects.
type listed struct {
	*cachetesting.FakeControllerSource
}

// IsWatchListSemanticsUnSupported reports that reflectors must list.
func (listed) IsWatchListSemanticsUnSupported() bool { return true }

// change is a change that the watch shows or misses, or the end of a watch.
type change struct{ does, node string }

var changes = rapid.Custom(func(t *rapid.T) change {
	return change{
		does: rapid.SampledFrom([]string{"write", "write unseen", "delete", "delete unseen", "end the watch"}).Draw(t, "does"),
		node: rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "node"),
	}
})

// apply makes a change. Each write has another label.
func (c change) apply(source listed, label string) {
	n, exists := nodeOf(c.node, label), slices.Contains(names(source), c.node)
	switch {
	case c.does == "end the watch":
		relist(source)
	case c.does == "write" && exists:
		source.Modify(n)
	case c.does == "write":
		source.Add(n)
	case c.does == "write unseen" && exists:
		source.ModifyDropWatch(n)
	case c.does == "write unseen":
		source.AddDropWatch(n)
	case c.does == "delete" && exists:
		source.Delete(n)
	case c.does == "delete unseen" && exists:
		source.DeleteDropWatch(n)
	}
	synctest.Wait()
}

// relist ends the watch, and waits until the reflectors have listed anew.
func relist(source listed) {
	source.ResetWatch()
	<-time.After(time.Minute) // of the bubble: longer than reflectors back off
	synctest.Wait()
}

func names(source listed) (names []string) {
	all, _ := source.List(metav1.ListOptions{})
	for _, n := range all.(*corev1.List).Items {
		names = append(names, n.Object.(*corev1.Node).Name)
	}
	return names
}

// TestSynchronousTellsWhatClientGoTells: handlers get the same events of each object as from an informer of client-go, also after a watch that
// has ended and has missed changes. Both have the same objects in the end.
func TestSynchronousTellsWhatClientGoTells(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		first := rapid.SliceOfDistinct(rapid.SampledFrom([]string{"a", "b", "c"}), rapid.ID).Draw(rt, "first")
		story := rapid.SliceOfN(changes, 0, 12).Draw(rt, "story")
		synctest.Test(t, func(*testing.T) { compareInformers(rt, first, story) })
	})
}

func compareInformers(t *rapid.T, first []string, story []change) {
	source := listed{cachetesting.NewFakeControllerSource()}
	for _, name := range first {
		source.Add(nodeOf(name, "0"))
	}
	ours, theirs := synchronousOf(source), toolscache.NewSharedIndexInformer(source, &corev1.Node{}, 0, toolscache.Indexers{labelIndex: byLabel})
	got, want := subscribe(t, ours), subscribe(t, theirs)
	end := run(source, ours, theirs)
	defer end()
	for i, c := range append(story, change{does: "end the watch"}) {
		c.apply(source, fmt.Sprint(i+1))
	}
	if diff := cmp.Diff(want.seen(), got.seen()); diff != "" {
		t.Errorf("events (-client-go +synchronous):\n%s", diff)
	}
	compareStores(t, theirs, ours)
}

func compareStores(t *rapid.T, want, got toolscache.SharedIndexInformer) {
	if diff := cmp.Diff(contents(want.GetStore().List()), contents(got.GetStore().List())); diff != "" {
		t.Errorf("objects (-client-go +synchronous):\n%s", diff)
	}
	for _, label := range want.GetIndexer().ListIndexFuncValues(labelIndex) {
		indexed, err := want.GetIndexer().ByIndex(labelIndex, label)
		found, wrong := got.GetIndexer().ByIndex(labelIndex, label)
		if diff := cmp.Diff(contents(indexed), contents(found)); diff != "" || err != nil || wrong != nil {
			t.Errorf("objects with the label %s: %v, %v (-client-go +synchronous):\n%s", label, err, wrong, diff)
		}
	}
	if want.LastSyncResourceVersion() != got.LastSyncResourceVersion() {
		t.Errorf("synced at %q, want %q", got.LastSyncResourceVersion(), want.LastSyncResourceVersion())
	}
}

func contents(objects []any) map[string]*corev1.Node {
	of := map[string]*corev1.Node{}
	for _, obj := range objects {
		of[obj.(*corev1.Node).Name] = obj.(*corev1.Node)
	}
	return of
}

// TestSynchronousHandlers: a handler has synced once it has the first list. A handler that is added late gets the objects of the store first, and a
// removed one gets nothing more.
func TestSynchronousHandlers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source := listed{cachetesting.NewFakeControllerSource()}
		source.Add(nodeOf("a", "1"))
		i := synchronousOf(source)
		early := subscribe(t, i)
		synctest.Wait()
		checkSynced(t, "before it runs", false, i, early)
		end := run(source, i)
		checkSynced(t, "while it runs", true, i, early)
		late := subscribe(t, i)
		synctest.Wait()
		checkSynced(t, "a late handler", true, i, late)
		source.Modify(nodeOf("a", "2"))
		synctest.Wait()
		if err := i.RemoveEventHandler(late.handle); err != nil {
			t.Error(err)
		}
		source.Delete(nodeOf("a", "2"))
		synctest.Wait()
		for name, c := range map[string]struct {
			s    *subscriber
			want []string
		}{
			"early": {early, []string{"add 1 true", "update 1 to 2", "delete 2"}}, "late": {late, []string{"add 1 true", "update 1 to 2"}},
		} {
			if diff := cmp.Diff(map[string][]string{"a": c.want}, c.s.seen()); diff != "" {
				t.Errorf("the %s handler (-want +got):\n%s", name, diff)
			}
		}
		end()
		if _, err := i.AddEventHandler(late.handler()); err == nil || !i.IsStopped() || i.AddIndexers(toolscache.Indexers{}) == nil {
			t.Errorf("stopped: %t; a handler is added with %v", i.IsStopped(), err)
		}
	})
}

func checkSynced(t *testing.T, when string, want bool, i toolscache.SharedIndexInformer, s *subscriber) {
	t.Helper()
	if i.HasSynced() != want || s.handle.HasSynced() != want {
		t.Errorf("%s: the informer has synced: %t, the handler: %t, want %t", when, i.HasSynced(), s.handle.HasSynced(), want)
	}
	if toolscache.IsDone(i.HasSyncedChecker()) != want || toolscache.IsDone(s.handle.HasSyncedChecker()) != want {
		t.Errorf("%s: done: %t, %t, want %t", when, toolscache.IsDone(i.HasSyncedChecker()), toolscache.IsDone(s.handle.HasSyncedChecker()), want)
	}
	if i.HasSyncedChecker().Name() == "" || s.handle.HasSyncedChecker().Name() == "" {
		t.Errorf("%s: a check without a name", when)
	}
	if (i.LastSyncResourceVersion() != "") != want {
		t.Errorf("%s: synced at %q", when, i.LastSyncResourceVersion())
	}
}

// TestSynchronousHandlerMayUseTheInformer: a handler may add and remove handlers and read the store, and a caller may hold a lock of a handler.
func TestSynchronousHandlerMayUseTheInformer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source := listed{cachetesting.NewFakeControllerSource()}
		source.Add(nodeOf("a", "1"))
		i := synchronousOf(source)
		end := run(source, i)
		defer end()
		var inner *subscriber
		var held sync.Mutex
		held.Lock()
		outer, err := i.AddEventHandler(toolscache.ResourceEventHandlerFuncs{AddFunc: func(any) {
			held.Lock()
			defer held.Unlock()
			if inner != nil {
				return
			}
			inner = subscribe(t, i)
			if got := len(i.GetStore().List()); got != 1 {
				t.Errorf("the store has %d objects", got)
			}
		}, DeleteFunc: func(any) {
			if err := i.RemoveEventHandler(inner.handle); err != nil {
				t.Error(err)
			}
		}})
		held.Unlock()
		synctest.Wait()
		if err != nil || !outer.HasSynced() || inner == nil || !inner.handle.HasSynced() {
			t.Fatalf("the handlers have not synced: %v", err)
		}
		source.Delete(nodeOf("a", "1"))
		source.Add(nodeOf("b", "1"))
		synctest.Wait()
		if got := inner.seen(); len(got["b"]) != 0 || len(got["a"]) != 1 {
			t.Errorf("a removed handler got %q", got)
		}
	})
}

var errRefused = errors.New("refused")

// relabel is a transform that marks the label of a node, and refuses the label "bad".
func relabel(obj any) (any, error) {
	n := obj.(*corev1.Node).DeepCopy()
	if n.Labels["v"] == "bad" {
		return obj, errRefused
	}
	n.Labels["v"] = "transformed " + strings.TrimPrefix(n.Labels["v"], "transformed ")
	return n, nil
}

// TestSynchronousTransform: objects are transformed before they are stored. An object that can't be transformed changes nothing. A reflector
// pauses after such an error, by a clock that no test sets.
func TestSynchronousTransform(t *testing.T) {
	source := listed{cachetesting.NewFakeControllerSource()}
	source.Add(nodeOf("a", "1"))
	i := synchronousOf(source)
	if err := i.SetTransform(relabel); err != nil {
		t.Error(err)
	}
	s, deleted := subscribe(t, i), make(chan struct{})
	if _, err := i.AddEventHandler(toolscache.ResourceEventHandlerFuncs{DeleteFunc: func(any) { close(deleted) }}); err != nil {
		t.Fatal(err)
	}
	var group sync.WaitGroup
	ctx, cancel := context.WithCancel(t.Context())
	group.Go(func() { i.RunWithContext(ctx) })
	<-s.handle.HasSyncedChecker().Done()
	for _, n := range []*corev1.Node{nodeOf("a", "2"), nodeOf("a", "bad"), nodeOf("a", "3")} {
		source.Modify(n)
	}
	source.Add(nodeOf("b", "1"))
	source.Delete(nodeOf("b", "bad")) // the deletion is not seen
	source.Delete(nodeOf("a", "4"))
	<-deleted
	cancel()
	group.Wait()
	source.Shutdown()
	want := map[string][]string{
		"a": {"add transformed 1 true", "update transformed 1 to transformed 2", "update transformed 2 to transformed 3", "delete transformed 4"},
		"b": {"add transformed 1 false"},
	}
	if diff := cmp.Diff(want, s.seen()); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
	if got := i.GetStore().ListKeys(); !slices.Equal(got, []string{"b"}) {
		t.Errorf("the store has %q", got)
	}
}

// TestListThatCannotBeStored: a list of which an object can't be stored changes nothing. The next one counts.
func TestListThatCannotBeStored(t *testing.T) {
	nodes := func(n *corev1.Node) runtime.Object { return &corev1.NodeList{Items: []corev1.Node{*n}} }
	for sentence, refused := range map[string]runtime.Object{
		"an object that can't be transformed": nodes(nodeOf("b", "bad")),
		"an object without a name":            &corev1.List{Items: []runtime.RawExtension{{Object: &metav1.Status{}}}},
	} {
		t.Run(sentence, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { checkRefusedList(t, refused, nodes(nodeOf("a", "1"))) })
		})
	}
}

func checkRefusedList(t *testing.T, refused, good runtime.Object) {
	t.Helper()
	var list atomic.Pointer[runtime.Object]
	list.Store(&refused)
	i := synchronousOf(&toolscache.ListWatch{
		ListWithContextFunc:  func(context.Context, metav1.ListOptions) (runtime.Object, error) { return *list.Load(), nil },
		WatchFuncWithContext: func(context.Context, metav1.ListOptions) (watch.Interface, error) { return nil, errRefused },
	})
	s := subscribe(t, i)
	if err := errors.Join(i.SetTransform(relabelNodes), i.SetWatchErrorHandler(func(*toolscache.Reflector, error) {})); err != nil {
		t.Error(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		i.RunWithContext(ctx)
	}()
	for step, now := range []struct {
		list runtime.Object
		want []string
	}{{refused, nil}, {good, []string{"add transformed 1 true"}}, {refused, []string{"add transformed 1 true"}}} {
		list.Store(&now.list)
		<-time.After(time.Minute) // of the bubble: longer than a reflector backs off
		synctest.Wait()
		if got := s.seen()["a"]; !slices.Equal(got, now.want) || i.HasSynced() != (now.want != nil) || len(i.GetStore().List()) != len(now.want) {
			t.Errorf("step %d: the handler got %q, and %d objects are stored; synced: %t", step, got, len(i.GetStore().List()), i.HasSynced())
		}
	}
	cancel()
	<-ended
}

// relabelNodes is relabel, and leaves other objects as they are.
func relabelNodes(obj any) (any, error) {
	if _, isNode := obj.(*corev1.Node); !isNode {
		return obj, nil
	}
	return relabel(obj)
}

// TestSynchronousErrors: errors of the watch are passed on. Nothing can be set once the informer runs, and it runs once.
func TestSynchronousErrors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		refusing := &toolscache.ListWatch{
			ListWithContextFunc:  func(context.Context, metav1.ListOptions) (runtime.Object, error) { return nil, errRefused },
			WatchFuncWithContext: func(context.Context, metav1.ListOptions) (watch.Interface, error) { return nil, errRefused },
		}
		i := synchronousOf(refusing)
		var got error
		if err := i.SetWatchErrorHandler(func(_ *toolscache.Reflector, err error) { got = err }); err != nil {
			t.Error(err)
		}
		stop, ended := make(chan struct{}), make(chan struct{})
		go func() {
			defer close(ended)
			i.Run(stop)
		}()
		synctest.Wait()
		if !errors.Is(got, errRefused) || i.HasSynced() {
			t.Errorf("the error is %v; synced: %t", got, i.HasSynced())
		}
		if i.SetTransform(relabel) == nil || i.SetWatchErrorHandler(func(*toolscache.Reflector, error) {}) == nil {
			t.Error("a running informer takes settings")
		}
		i.Run(nil) // it returns at once
		if i.IsStopped() {
			t.Error("the informer has stopped")
		}
		close(stop)
		<-ended
		if !i.IsStopped() {
			t.Error("the informer has not stopped")
		}
	})
}

// TestForeignHandlerIsNotRemoved: a handler of another informer can't be removed.
func TestForeignHandlerIsNotRemoved(t *testing.T) {
	other := toolscache.NewSharedIndexInformer(&toolscache.ListWatch{}, &corev1.Node{}, 0, toolscache.Indexers{})
	if err := synchronousOf(&toolscache.ListWatch{}).RemoveEventHandler(subscribe(t, other).handle); err == nil {
		t.Error("it was removed")
	}
}
