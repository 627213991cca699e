package fencestatus

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr/funcr"
	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/fettle-io/fettle/api/fettle/v1alpha1"
	"github.com/fettle-io/fettle/internal/informer/informertest"
	"github.com/fettle-io/fettle/internal/promiselease"
	"github.com/fettle-io/fettle/internal/selffence"
	"github.com/fettle-io/fettle/internal/slim"
)

const boot = "0f8fad5b-d9cb-469f-a165-70867728950e"

func clock() time.Time { return time.Now() } //nolint:forbidigo // time in a bubble is injected

// world is a client before an API server.
type world struct {
	*Client

	t     *testing.T
	api   client.WithWatch
	seen  *informertest.Informers
	nodes []slim.Node

	mu            sync.Mutex
	lists, writes int
	// fails is the error of listing Leases, and refuses that of a write. Hangs has a list of Leases take until its context ends.
	fails, refuses error
	hangs          bool
	// uncached are the errors of reading the cache, by the type of a list.
	uncached map[string]error
	// pageSize is how many Leases a page has, if that is fewer than a client requests. Endless has each page have a next one.
	pageSize int
	endless  bool
	log      []string
}

func newWorld(t *testing.T, objects ...client.Object) *world {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{coordinationv1.AddToScheme, v1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	w := &world{t: t, seen: informertest.New()}
	w.api = fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).WithStatusSubresource(&v1alpha1.FencePolicy{}).
		WithInterceptorFuncs(interceptor.Funcs{SubResourcePatch: w.patch}).Build()
	w.Client = NewClient(Config{
		Informers: w.seen, Cache: w, Leases: lister{w}, Writer: w.api, Metrics: NewMetrics(), Now: clock,
		Log: funcr.New(func(_, args string) { w.log = append(w.log, args) }, funcr.Options{}),
	})
	return w
}

func (w *world) patch(ctx context.Context, c client.Client, sub string, o client.Object, p client.Patch, opts ...client.SubResourcePatchOption) error {
	w.mu.Lock()
	w.writes++
	err := w.refuses
	w.mu.Unlock()
	if err != nil {
		return err
	}
	return c.SubResource(sub).Patch(ctx, o, p, opts...)
}

// Get implements client.Reader.
func (w *world) Get(context.Context, client.ObjectKey, client.Object, ...client.GetOption) error {
	return errors.New("nothing is read one by one")
}

// List implements client.Reader, as a cache.
func (w *world) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	if err := w.uncached[fmt.Sprintf("%T", list)]; err != nil {
		return err
	}
	if nodes, is := list.(*slim.NodeList); is {
		nodes.Items = w.nodes
		return nil
	}
	return w.api.List(ctx, list, opts...)
}

// lister lists Leases in pages.
type lister struct{ *world }

// List implements client.Reader.
func (l lister) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lists++
	if l.hangs {
		<-ctx.Done()
		return ctx.Err()
	}
	if l.fails != nil {
		return l.fails
	}
	var o client.ListOptions
	o.ApplyOptions(opts)
	if o.Namespace != "fettle-agents" || o.Limit != 500 {
		return fmt.Errorf("a list of %d in %q", o.Limit, o.Namespace)
	}
	var all coordinationv1.LeaseList
	if err := l.api.List(ctx, &all, client.InNamespace(o.Namespace)); err != nil {
		return err
	}
	page, is := list.(*coordinationv1.LeaseList)
	if !is {
		return fmt.Errorf("a list of %T", list)
	}
	if l.pageSize == 0 {
		page.Items = all.Items
		return nil
	}
	first := 0
	if o.Continue != "" {
		_, _ = fmt.Sscan(o.Continue, &first)
	}
	last := min(first+l.pageSize, len(all.Items))
	page.Items = all.Items[min(first, last):last]
	if last < len(all.Items) || l.endless {
		page.Continue = fmt.Sprint(last)
	}
	return nil
}

func policyOf(name string, selects map[string]string) *v1alpha1.FencePolicy {
	return &v1alpha1.FencePolicy{
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: "u", Generation: 1}, Spec: v1alpha1.FencePolicySpec{NodeSelector: metav1.LabelSelector{MatchLabels: selects}},
	}
}

func leaseOf(t *testing.T, node string, state selffence.State) *coordinationv1.Lease {
	t.Helper()
	r := promiselease.Record{Lease: selffence.Lease{State: state, Promise: selffence.Promise{Boot: boot}}}
	if state == selffence.Condemned {
		r.By = "uid"
	}
	l, err := promiselease.Encode(node, r, time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func (w *world) node(name string, of map[string]string) {
	n := slim.Node{BootID: slim.ParseUUID(boot)}
	n.Name, n.Meta.Labels = name, slim.LabelsOf(of)
	w.nodes = append(w.nodes, n)
}

// read returns the status of a policy in short.
func (w *world) read(name string) string {
	w.t.Helper()
	var p v1alpha1.FencePolicy
	if err := w.api.Get(w.t.Context(), client.ObjectKey{Name: name}, &p); err != nil {
		w.t.Fatal(err)
	}
	s := p.Status
	if s.Nodes == nil {
		return "none"
	}
	text := fmt.Sprintf("%d nodes", *s.Nodes)
	if s.Promising != nil {
		text += fmt.Sprintf(", %d promise", *s.Promising)
	}
	for _, n := range s.WithoutPromise {
		text += fmt.Sprintf(", %s %s", n.Name, n.Reason)
	}
	for _, c := range s.Conditions {
		text += fmt.Sprintf(", %s %s", c.Status, c.Reason)
	}
	return text
}

// series returns the present series.
func (w *world) series() map[string]float64 {
	w.t.Helper()
	registry := prometheus.NewPedanticRegistry()
	if err := registry.Register(w.Metrics); err != nil {
		w.t.Fatal(err)
	}
	families, err := registry.Gather()
	if err != nil {
		w.t.Fatal(err)
	}
	got := map[string]float64{}
	for _, family := range families {
		for _, series := range family.GetMetric() {
			name := family.GetName()
			for _, label := range series.GetLabel() {
				name += " " + label.GetValue()
			}
			got[name] = series.GetGauge().GetValue()
		}
	}
	return got
}

// TestPass: a pass writes the status of each policy, and none that is as before.
func TestPass(t *testing.T) {
	t.Parallel()
	w := newWorld(t, policyOf("a", map[string]string{"pool": "a"}), policyOf("b", nil), leaseOf(t, "one", selffence.Promised), leaseOf(t, "two", selffence.Condemned))
	w.node("one", map[string]string{"pool": "a"})
	w.node("two", map[string]string{"pool": "a"})
	w.node("three", nil)
	for range 2 {
		if next, err := w.pass(t.Context()); err != nil || next != 10*time.Second {
			t.Errorf("the next pass is in %s (%v)", next, err)
		}
	}
	if d := cmp.Diff([]string{
		"2 nodes, 1 promise, two Condemned, True Applies, False NodesWithoutPromise", "1 nodes, 0 promise, three NoAgent, True Applies, False NodesWithoutPromise",
	}, []string{w.read("a"), w.read("b")}); d != "" {
		t.Error(d)
	}
	if w.writes != 2 || w.lists != 2 {
		t.Errorf("there were %d writes and %d lists", w.writes, w.lists)
	}
	if d := cmp.Diff(map[string]float64{
		"fettle_fence_policy_nodes a": 2, "fettle_fence_policy_nodes b": 1,
		"fettle_fence_policy_nodes_promising a false": 1, "fettle_fence_policy_nodes_promising a true": 0,
		"fettle_fence_policy_nodes_promising b false": 0, "fettle_fence_policy_nodes_promising b true": 0,
		"fettle_fence_policy_nodes_without_promise a Condemned": 1, "fettle_fence_policy_nodes_without_promise b NoAgent": 1,
		"fettle_node_condemned two": 1,
	}, w.series()); d != "" {
		t.Error(d)
	}
}

// TestNoPolicy: without a policy nothing is read, and there are no series.
func TestNoPolicy(t *testing.T) {
	t.Parallel()
	w := newWorld(t, policyOf("a", nil))
	if _, err := w.pass(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := w.api.Delete(t.Context(), policyOf("a", nil)); err != nil {
		t.Fatal(err)
	}
	before := len(w.series())
	if next, err := w.pass(t.Context()); err != nil || next != 10*time.Minute || w.lists != 1 || before != 3 || len(w.series()) != 0 {
		t.Errorf("the next pass is in %s (%v), after %d lists, with %d series, and %d before", next, err, w.lists, len(w.series()), before)
	}
}

// TestLeasesForbidden: where nodes are not set up to fence themselves, the status says so.
func TestLeasesForbidden(t *testing.T) {
	t.Parallel()
	w := newWorld(t, policyOf("a", nil))
	w.node("one", nil)
	w.fails = apierrors.NewForbidden(schema.GroupResource{Resource: "leases"}, "", errors.New("no role"))
	if next, err := w.pass(t.Context()); err != nil || next != 10*time.Second {
		t.Errorf("the next pass is in %s (%v)", next, err)
	}
	if got := w.read("a"); got != "1 nodes, True Applies, Unknown LeasesNotRead" {
		t.Errorf("the status is %s", got)
	}
	if d := cmp.Diff(map[string]float64{"fettle_fence_policy_nodes a": 1, "fettle_fence_policy_nodes_without_promise a LeasesNotRead": 1}, w.series()); d != "" {
		t.Error(d)
	}
}

// TestFailures: after a failure, statuses stay as they are, and one policy doesn't keep another from its status.
func TestFailures(t *testing.T) {
	t.Parallel()
	w := newWorld(t, policyOf("a", nil))
	w.fails = errors.New("away")
	if _, err := w.pass(t.Context()); err == nil || w.read("a") != "none" {
		t.Errorf("the status is %s (%v)", w.read("a"), err)
	}
	w.fails = nil
	for list, says := range map[string]string{"*v1alpha1.FencePolicyList": "listing FencePolicies: unread", "*slim.NodeList": "listing nodes: unread"} {
		w.uncached = map[string]error{list: errors.New("unread")}
		if next, err := w.pass(t.Context()); err == nil || err.Error() != says || next != 0 || w.read("a") != "none" {
			t.Errorf("the status is %s (%v)", w.read("a"), err)
		}
	}
	w.uncached, w.refuses = nil, apierrors.NewNotFound(schema.GroupResource{}, "a")
	if _, err := w.pass(t.Context()); err != nil {
		t.Errorf("a policy that is gone: %v", err)
	}
	w.refuses = errors.New("full")
	if err := w.api.Create(t.Context(), policyOf("b", nil)); err != nil {
		t.Fatal(err)
	}
	w.writes = 0
	if _, err := w.pass(t.Context()); err == nil || w.writes != 2 {
		t.Errorf("%v after %d writes", err, w.writes)
	}
}

// TestPages: all pages are read, and not without an end. The more Leases there are, the later is the next pass.
func TestPages(t *testing.T) {
	t.Parallel()
	w := newWorld(t, policyOf("a", nil))
	for i := range 7 {
		name := fmt.Sprint("n", i)
		w.node(name, nil)
		if err := w.api.Create(t.Context(), leaseOf(t, name, selffence.Promised)); err != nil {
			t.Fatal(err)
		}
	}
	w.pageSize = 2
	if _, err := w.pass(t.Context()); err != nil || w.lists != 4 || w.read("a") != "7 nodes, 7 promise, True Applies, True AllPromise" {
		t.Errorf("%s (%v) after %d lists", w.read("a"), err, w.lists)
	}
	w.endless, w.lists = true, 0
	if _, err := w.pass(t.Context()); !errors.Is(err, errTooMany) || w.lists != 100 {
		t.Errorf("%v after %d lists", err, w.lists)
	}
	for leases, want := range map[int]time.Duration{0: 10 * time.Second, 1000: 10 * time.Second, 1001: 10010 * time.Millisecond, 5000: 50 * time.Second} {
		if got := pause(leases); got != want {
			t.Errorf("after %d Leases the pause is %s", leases, got)
		}
	}
}

// TestBounds: there are no more series than are useful.
func TestBounds(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for i := range 105 {
		if err := errors.Join(w.api.Create(t.Context(), policyOf(fmt.Sprintf("p%03d", i), nil)), w.api.Create(t.Context(), leaseOf(t, fmt.Sprint("n", i), selffence.Condemned))); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := w.pass(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := len(w.series()); got != 100*3+100 {
		t.Errorf("there are %d series", got)
	}
	for _, last := range []string{"n95", "n96", "n97", "n98", "n99"} { // by the order of texts
		if _, is := w.series()["fettle_node_condemned "+last]; is {
			t.Errorf("%s is among the first hundred", last)
		}
	}
	w.Metrics = nil
	if _, err := w.pass(t.Context()); err != nil {
		t.Error(err)
	}
}

// TestDescribed: the registry knows the series, so that no other collector can have them too.
func TestDescribed(t *testing.T) {
	t.Parallel()
	registry := prometheus.NewRegistry()
	if err := registry.Register(NewMetrics()); err != nil {
		t.Fatal(err)
	}
	if err := registry.Register(NewMetrics()); err == nil {
		t.Error("the series are registered twice")
	}
}

// TestStart: a pass follows a pass, sooner if a policy changes, and later after a failure, which is logged once.
func TestStart(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, policyOf("a", nil))
		w.seen.SetSynced(true)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- w.Start(ctx) }()
		pass := func(d time.Duration, lists int) {
			t.Helper()
			<-time.After(d)
			synctest.Wait()
			w.mu.Lock()
			defer w.mu.Unlock()
			if w.lists != lists {
				t.Errorf("there were %d passes, want %d", w.lists, lists)
			}
		}
		pass(time.Minute, 0)
		w.seen.Refuse["FencePolicy"] = &meta.NoKindMatchError{}
		if err := w.Watch(ctx); !meta.IsNoMatchError(err) || w.HasSynced() {
			t.Errorf("watching: %v", err)
		}
		delete(w.seen.Refuse, "FencePolicy")
		if err := w.Watch(ctx); err != nil {
			t.Error(err)
		}
		pass(0, 1)
		pass(time.Second, 1)
		pass(8*time.Second, 1)
		pass(2*time.Second, 2)
		events := w.seen.Of("FencePolicy").Handler
		old, status, other := policyOf("a", nil), policyOf("a", nil), policyOf("a", nil)
		status.ResourceVersion, other.Generation = "7", 2
		again := policyOf("a", nil)
		again.UID = "v"
		events.OnUpdate(old, status)
		pass(3*time.Second, 2)
		events.OnUpdate(old, other)
		pass(0, 3)
		events.OnUpdate(old, again)
		pass(time.Second, 3)
		pass(time.Second, 4)
		events.OnAdd(old, false)
		pass(2*time.Second, 5)
		events.OnDelete(old)
		pass(2*time.Second, 6)
		events.OnUpdate("", old)
		pass(2*time.Second, 7)
		events.OnUpdate(old, "")
		w.mu.Lock()
		w.fails = errors.New("away")
		w.mu.Unlock()
		pass(2*time.Second, 8)
		pass(58*time.Second, 8)
		pass(2*time.Second, 9)
		if len(w.log) != 1 || !strings.Contains(w.log[0], "away") {
			t.Errorf("the log is %q", w.log)
		}
		w.mu.Lock()
		w.fails = nil
		w.mu.Unlock()
		pass(time.Minute, 10)
		cancel()
		if err := <-ended; err != nil || len(w.series()) != 0 {
			t.Errorf("it has ended: %v, with %d series", err, len(w.series()))
		}
		if !w.NeedLeaderElection() {
			t.Error("replicas that don't lead work too")
		}
	})
}

// TestEnds: the client ends while it waits and while it reads, and logs no failure of that.
func TestEnds(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ watches, synced bool }{"before the watch": {}, "before the lists": {watches: true}, "in a pass": {true, true}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, policyOf("a", nil))
				w.hangs = true
				w.seen.SetSynced(c.synced)
				if c.watches {
					if err := w.Watch(t.Context()); err != nil {
						t.Fatal(err)
					}
				}
				ctx, cancel := context.WithCancel(t.Context())
				ended := make(chan error, 1)
				go func() { ended <- w.Start(ctx) }()
				<-time.After(time.Second)
				cancel()
				if err := <-ended; err != nil || (w.lists == 1) != c.synced || len(w.log) > 0 {
					t.Errorf("it has ended: %v, after %d lists, and logs %q", err, w.lists, w.log)
				}
			})
		})
	}
}

// TestAPassEnds: a pass that gets no answer ends after a minute, and the next one begins a minute later.
func TestAPassEnds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, policyOf("a", nil))
		w.hangs = true
		began := clock()
		if next, took := w.try(t.Context()), clock().Sub(began); next != time.Minute || took != time.Minute {
			t.Errorf("it takes %s, and the next one begins after %s", took, next)
		}
	})
}
