package template

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fettle-io/fettle/internal/core"
)

var errDown = errors.New("the API server is down")

// fakeAPI is the API server, its definitions and the informers, for the watches of kinds. All kinds are alike.
type fakeAPI struct {
	client.WithWatch
	cache.Informers

	mu sync.Mutex
	// clusterScoped is set for kinds without namespaces.
	clusterScoped bool
	// mapErr, listErr, watchErr, informerErr, handlerErr and removeErr are the answers to each call.
	mapErr, listErr, watchErr, informerErr, handlerErr, removeErr error
	// hangs is set for lists that don't end before their context.
	hangs bool
	// syncsAfter is how long an informer takes to sync; negative is for ever.
	syncsAfter time.Duration
	defined    core.Tri
	changed    chan struct{}

	began    time.Time
	informed time.Time
	record
}

// record is what was called.
type record struct {
	// probes are the times of RESTMapping calls, and removals those of RemoveInformer calls.
	probes, removals []time.Duration
	stops            int
	handler          toolscache.ResourceEventHandler
	options          []client.ListOptions
	requested        [][]string
}

// seen returns the calls until now.
func (f *fakeAPI) seen() record {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.record
}

// clock reads the time of a bubble.
func clock() time.Time { return time.Now() } //nolint:forbidigo // it is no real time

func newFakeAPI() *fakeAPI {
	return &fakeAPI{began: clock(), defined: core.Yes, changed: make(chan struct{})}
}

func (f *fakeAPI) isClusterScoped() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.clusterScoped
}

func (f *fakeAPI) with(change func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change()
}

// change reports a change of definitions.
func (f *fakeAPI) change() {
	f.with(func() {
		close(f.changed)
		f.changed = make(chan struct{})
	})
}

func (f *fakeAPI) config() Config {
	return Config{
		Informers: f, API: f, Log: logr.Discard(),
		Served: func(names []string) core.Tri {
			f.mu.Lock()
			defer f.mu.Unlock()
			f.requested = append(f.requested, names)
			return f.defined
		},
		Changed: func() <-chan struct{} {
			f.mu.Lock()
			defer f.mu.Unlock()
			return f.changed
		},
	}
}

func (f *fakeAPI) RESTMapper() meta.RESTMapper { return fakeMapper{f: f} }

type fakeMapper struct {
	meta.RESTMapper

	f *fakeAPI
}

func (m fakeMapper) RESTMapping(kind schema.GroupKind, versions ...string) (*meta.RESTMapping, error) {
	m.f.mu.Lock()
	defer m.f.mu.Unlock()
	m.f.probes = append(m.f.probes, clock().Sub(m.f.began))
	if m.f.mapErr != nil {
		return nil, m.f.mapErr
	}
	scope := meta.RESTScopeNamespace
	if m.f.clusterScoped {
		scope = meta.RESTScopeRoot
	}
	return &meta.RESTMapping{Resource: schema.GroupVersionResource{Group: kind.Group, Version: versions[0], Resource: "xtemplates"}, Scope: scope}, nil
}

func (f *fakeAPI) List(ctx context.Context, list client.ObjectList, options ...client.ListOption) error {
	if list.GetObjectKind().GroupVersionKind() != xTemplates {
		return errors.New("the list is about another kind")
	}
	var o client.ListOptions
	f.mu.Lock()
	f.options = append(f.options, *o.ApplyOptions(options))
	hangs, err := f.hangs, f.listErr
	f.mu.Unlock()
	if hangs {
		<-ctx.Done()
		return ctx.Err()
	}
	list.SetResourceVersion("7")
	return err
}

func (f *fakeAPI) Watch(_ context.Context, _ client.ObjectList, options ...client.ListOption) (watch.Interface, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	var o client.ListOptions
	f.options = append(f.options, *o.ApplyOptions(options))
	if f.watchErr != nil {
		return nil, f.watchErr
	}
	return fakeWatch{f: f}, nil
}

type fakeWatch struct {
	watch.Interface

	f *fakeAPI
}

func (w fakeWatch) Stop() { w.f.with(func() { w.f.stops++ }) }

func (f *fakeAPI) GetInformer(_ context.Context, o client.Object, options ...cache.InformerGetOption) (cache.Informer, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	var got cache.InformerGetOptions
	for _, option := range options {
		option(&got)
	}
	if got.BlockUntilSynced == nil || *got.BlockUntilSynced || o.GetObjectKind().GroupVersionKind() != xTemplates {
		return nil, errors.New("the call would block, or is about another kind")
	}
	f.informed = clock()
	return fakeInformer{f: f}, f.informerErr
}

type fakeInformer struct {
	cache.Informer
	toolscache.ResourceEventHandlerRegistration

	f *fakeAPI
}

func (i fakeInformer) HasSyncedChecker() toolscache.DoneChecker { panic("not called") }

func (i fakeInformer) AddEventHandler(h toolscache.ResourceEventHandler) (toolscache.ResourceEventHandlerRegistration, error) {
	i.f.mu.Lock()
	defer i.f.mu.Unlock()
	i.f.handler = h
	return i, i.f.handlerErr
}

func (i fakeInformer) HasSynced() bool {
	f := i.f
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.syncsAfter >= 0 && clock().Sub(f.informed) >= f.syncsAfter
}

func (f *fakeAPI) RemoveInformer(context.Context, client.Object) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.removals = append(f.removals, clock().Sub(f.began))
	return f.removeErr
}

// watching is a client that watches the kind of a template, since a cluster needs it.
type watching struct {
	*ClusterClient

	api   *fakeAPI
	wakes int
	mu    sync.Mutex
}

// watchFor lets a client watch, and calls a function in the bubble.
func watchFor(t *testing.T, setUp func(*fakeAPI), then func(*watching)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &watching{api: newFakeAPI()}
		setUp(w.api)
		c := NewClient(w.api.config())
		w.ClusterClient = c.ForCluster(core.ClusterKey{}, func() {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.wakes++
		})
		w.needs(nodePolicy("t"))
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			if err := c.Start(ctx); err != nil {
				t.Errorf("Start returns %v", err)
			}
		}()
		synctest.Wait()
		then(w)
		cancel()
		<-done
	})
}

// needs has the cluster need the kinds of policies, or none.
func (w *watching) needs(policies ...core.Policy) { w.AddFacts(policies, &core.Cluster{}) }

func (w *watching) status() watchStatus {
	w.Client.mu.Lock()
	defer w.Client.mu.Unlock()
	if k := w.kinds[xTemplates]; k != nil {
		return k.watchStatus
	}
	return watchStatus{why: "the kind is dropped"}
}

func (w *watching) woken() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.wakes
}

func (w *watching) store() *store {
	w.Client.mu.Lock()
	defer w.Client.mu.Unlock()
	return w.kinds[xTemplates].store
}

func (w *watching) isKept() bool {
	w.Client.mu.Lock()
	defer w.Client.mu.Unlock()
	return slices.Contains(w.order, xTemplates)
}

func (w *watching) wantStatus(t *testing.T, want watchStatus) {
	t.Helper()
	synctest.Wait()
	if got := w.status(); got != want {
		t.Errorf("the status is %+v, want %+v", got, want)
	}
}

// milliseconds returns instants since the begin of a test.
func milliseconds(numbers ...int) []time.Duration {
	var times []time.Duration
	for _, n := range numbers {
		times = append(times, time.Duration(n)*time.Millisecond)
	}
	return times
}

func unservedKind() error { return &meta.NoKindMatchError{GroupKind: xTemplates.GroupKind()} }

// TestKindThatIsNotServedIsTriedAgain, ever more rarely, and at once after a change of definitions.
func TestKindThatIsNotServedIsTriedAgain(t *testing.T) {
	watchFor(t, func(f *fakeAPI) { f.mapErr = unservedKind() }, func(w *watching) {
		w.wantStatus(t, watchStatus{state: unserved})
		<-time.After(125 * time.Second)
		w.api.change()
		<-time.After(4 * time.Second)
		synctest.Wait()
		want := milliseconds(0, 1000, 3000, 7000, 15_000, 31_000, 61_000, 91_000, 121_000, 125_200, 126_200, 128_200)
		if !slices.Equal(w.api.seen().probes, want) {
			t.Errorf("the kind is probed at %v, want %v", w.api.seen().probes, want)
		}
		if w.woken() != 1 {
			t.Errorf("the cluster is woken %d times for one change of the status", w.woken())
		}
	})
}

// TestKindIsWatchedWhileItIsServed: it is synced from the sync of its informer until its definition is gone, and again when
// that is back.
func TestKindIsWatchedWhileItIsServed(t *testing.T) {
	watchFor(t, func(f *fakeAPI) { f.syncsAfter = 50 * time.Millisecond }, func(w *watching) {
		w.wantStatus(t, watchStatus{})
		<-time.After(70 * time.Millisecond)
		w.wantStatus(t, watchStatus{state: synced, namespaced: core.Yes})
		if w.woken() != 1 {
			t.Errorf("the cluster is woken %d times for the sync", w.woken())
		}
		w.api.seen().handler.OnAdd(parse(t, plainTemplate), false)
		if w.woken() != 2 || w.store().find("remediators", "t") == nil {
			t.Errorf("the cluster is woken %d times, and the template is found: %t", w.woken(), w.store().find("remediators", "t") != nil)
		}
		if want := [][]string{{"xtemplates.x.example"}}; !slices.EqualFunc(w.api.seen().requested, want, slices.Equal) {
			t.Errorf("it looks for the definitions %v, want %v", w.api.seen().requested, want)
		}
		<-time.After(20 * time.Second) // nothing happens
		w.wantStatus(t, watchStatus{state: synced, namespaced: core.Yes})
		w.api.with(func() { w.api.defined, w.api.mapErr = core.No, unservedKind() })
		w.api.change()
		w.wantStatus(t, watchStatus{state: unserved, namespaced: core.Yes})
		if w.store() != nil || len(w.api.seen().removals) != 1 || w.woken() != 3 {
			t.Errorf("objects are kept: %t, informers removed: %d, wakes: %d", w.store() != nil, len(w.api.seen().removals), w.woken())
		}
		w.api.with(func() { w.api.defined, w.api.mapErr = core.Yes, nil })
		w.api.change()
		<-time.After(300 * time.Millisecond)
		w.wantStatus(t, watchStatus{state: synced, namespaced: core.Yes})
	})
}

// TestKindWithoutDefinitionStaysWatched: an aggregated API server serves it. So it is while definitions are not known.
func TestKindWithoutDefinitionStaysWatched(t *testing.T) {
	for _, defined := range []core.Tri{core.No, core.Unknown} {
		watchFor(t, func(f *fakeAPI) { f.defined, f.clusterScoped = defined, true }, func(w *watching) {
			<-time.After(time.Minute)
			w.wantStatus(t, watchStatus{state: synced, namespaced: core.No})
			if len(w.api.seen().removals) > 0 {
				t.Errorf("the informer is removed at %v", w.api.seen().removals)
			}
		})
	}
}

// TestKindIsDroppedWhenNothingNeedsIt, within seconds, watched or not.
func TestKindIsDroppedWhenNothingNeedsIt(t *testing.T) {
	for sentence, mapErr := range map[string]error{"a watched kind": nil, "a kind that is not served": unservedKind()} {
		watchFor(t, func(f *fakeAPI) { f.mapErr = mapErr }, func(w *watching) {
			w.needs()
			<-time.After(6 * time.Second)
			w.wantStatus(t, watchStatus{why: "the kind is dropped"})
			if removed := len(w.api.seen().removals) == 1; removed != (mapErr == nil) || w.isKept() {
				t.Errorf("%s: removals of its informer: %d", sentence, len(w.api.seen().removals))
			}
			probes := len(w.api.seen().probes)
			<-time.After(2 * time.Minute)
			if len(w.api.seen().probes) != probes {
				t.Errorf("%s: it is still probed", sentence)
			}
			w.needs(nodePolicy("t")) // it comes back as a new kind
			<-time.After(time.Second)
			w.wantStatus(t, map[bool]watchStatus{true: {state: synced, namespaced: core.Yes}, false: {state: unserved}}[mapErr == nil])
		})
	}
}

// TestKindThatIsNeededAgain in time is not taken for an unserved kind, and is watched again a second later, however
// rarely it was probed before.
func TestKindThatIsNeededAgain(t *testing.T) {
	watchFor(t, func(f *fakeAPI) { f.mapErr = unservedKind() }, func(w *watching) {
		<-time.After(8 * time.Second)
		w.api.with(func() { w.api.mapErr = nil })
		<-time.After(8 * time.Second)
		w.wantStatus(t, watchStatus{state: synced, namespaced: core.Yes})
		w.needs()
		<-time.After(4500 * time.Millisecond)
		w.wantStatus(t, watchStatus{namespaced: core.Yes})
		policies := []core.Policy{nodePolicy("t")}
		w.AddFacts(policies, &core.Cluster{})
		if !policies[0].Steps[0].Pending {
			t.Errorf("its step is not pending, and has the problem %q", policies[0].Steps[0].Problem)
		}
		<-time.After(time.Second)
		w.wantStatus(t, watchStatus{state: synced, namespaced: core.Yes})
		if want := milliseconds(0, 1000, 3000, 7000, 15_000, 21_000); !slices.Equal(w.api.seen().probes, want) {
			t.Errorf("the kind is probed at %v, want %v", w.api.seen().probes, want)
		}
	})
}

// TestEndOfTheContextChangesNothing: the informers end by themselves, and what is known stays.
func TestEndOfTheContextChangesNothing(t *testing.T) {
	var w *watching
	woken := 0
	watchFor(t, func(*fakeAPI) {}, func(running *watching) { w, woken = running, running.woken() })
	if got, want := w.status(), (watchStatus{state: synced, namespaced: core.Yes}); got != want || w.store() == nil {
		t.Errorf("the status is %+v, want %+v, and objects are kept: %t", got, want, w.store() != nil)
	}
	if len(w.api.seen().removals) > 0 || w.woken() != woken {
		t.Errorf("informers are removed at %v, and the cluster is woken %d times", w.api.seen().removals, w.woken()-woken)
	}
}

// TestStartWaitsForItsWatches: a call under way ends before Start returns.
func TestStartWaitsForItsWatches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		answer := make(chan struct{})
		config := newFakeAPI().config()
		config.Changed = func() <-chan struct{} { <-answer; return nil }
		d := NewClient(config).ForCluster(core.ClusterKey{}, func() {})
		d.AddFacts([]core.Policy{nodePolicy("t")}, &core.Cluster{})
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- d.Client.Start(ctx) }()
		synctest.Wait()
		cancel()
		synctest.Wait()
		if len(ended) > 0 {
			t.Error("Start returns while a call is under way")
		}
		close(answer)
		if err := <-ended; err != nil {
			t.Errorf("Start returns %v", err)
		}
	})
}

// TestKindThatCantBeWatched says why, and is tried again.
func TestKindThatCantBeWatched(t *testing.T) {
	no := apierrors.NewForbidden(schema.GroupResource{Group: "x.example", Resource: "xtemplates"}, "", errDown)
	down := watchStatus{state: failing, why: errDown.Error()}
	known := down
	known.namespaced = core.Yes
	for sentence, tc := range map[string]struct {
		setUp func(*fakeAPI)
		after time.Duration
		want  watchStatus
	}{
		"the mapping fails":        {func(f *fakeAPI) { f.mapErr = errDown }, 0, down},
		"it may not be listed":     {func(f *fakeAPI) { f.listErr = no }, 0, watchStatus{state: forbidden, namespaced: core.Yes}},
		"it may not be watched":    {func(f *fakeAPI) { f.watchErr = no }, 0, watchStatus{state: forbidden, namespaced: core.Yes}},
		"without a namespace":      {func(f *fakeAPI) { f.listErr, f.clusterScoped = no, true }, 0, watchStatus{state: forbidden, namespaced: core.No}},
		"the list hangs":           {func(f *fakeAPI) { f.hangs = true }, 10 * time.Second, watchStatus{state: failing, why: "the API server did not answer within 10s", namespaced: core.Yes}},
		"there is no informer":     {func(f *fakeAPI) { f.informerErr = errDown }, 0, down},
		"the informer has stopped": {func(f *fakeAPI) { f.handlerErr = errDown }, 0, down},
		"it does not sync":         {func(f *fakeAPI) { f.syncsAfter = -1 }, 30 * time.Second, watchStatus{state: failing, why: "it was not taken in within 30s", namespaced: core.Yes}},
		"and can't be let go of":   {func(f *fakeAPI) { f.syncsAfter, f.removeErr = -1, errDown }, 30 * time.Second, down},
		"the definition goes alone": {func(f *fakeAPI) {
			f.removeErr = errDown
			time.AfterFunc(time.Second, func() { f.with(func() { f.defined = core.No }); f.change() })
		}, time.Second, known},
	} {
		t.Run(sentence, func(t *testing.T) {
			watchFor(t, tc.setUp, func(w *watching) {
				<-time.After(tc.after)
				w.wantStatus(t, tc.want)
				if w.store() != nil {
					t.Error("objects are kept")
				}
				w.api.with(func() {
					w.api.mapErr, w.api.listErr, w.api.watchErr, w.api.informerErr, w.api.handlerErr, w.api.removeErr = nil, nil, nil, nil, nil, nil
					w.api.hangs, w.api.syncsAfter, w.api.defined = false, 0, core.Yes
				})
				<-time.After(2 * time.Second)
				scope := core.Yes
				if w.api.isClusterScoped() {
					scope = core.No
				}
				w.wantStatus(t, watchStatus{state: synced, namespaced: scope})
			})
		})
	}
}

// TestProbesAreCheap: one object is listed, and the watch begins at the revision of the list and ends at once.
func TestProbesAreCheap(t *testing.T) {
	watchFor(t, func(*fakeAPI) {}, func(w *watching) {
		if len(w.api.seen().options) != 2 || w.api.seen().stops != 1 {
			t.Fatalf("%d lists and watches, and %d watches end", len(w.api.seen().options), w.api.seen().stops)
		}
		list, raw := w.api.seen().options[0], w.api.seen().options[1].Raw
		if list.Limit != 1 || raw.ResourceVersion != "7" || *raw.TimeoutSeconds != 1 {
			t.Errorf("the list has the limit %d, and the watch begins at %q for %d seconds", list.Limit, raw.ResourceVersion, *raw.TimeoutSeconds)
		}
	})
}

// TestScopeIsRememberedAfterFailures: a step that names a template is shown where it was last known to be.
func TestScopeIsRememberedAfterFailures(t *testing.T) {
	watchFor(t, func(*fakeAPI) {}, func(w *watching) {
		w.wantStatus(t, watchStatus{state: synced, namespaced: core.Yes})
		w.api.with(func() { w.api.defined, w.api.mapErr = core.No, errDown })
		w.api.change()
		<-time.After(time.Second)
		w.wantStatus(t, watchStatus{state: failing, why: errDown.Error(), namespaced: core.Yes})
	})
}
