package lease

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fettle-io/fettle/internal/core"
	"github.com/fettle-io/fettle/internal/informer/informertest"
)

const (
	us   = "fettle.io/NodeHealthCheck-workers"
	them = "node-maintenance"
)

var resource = schema.GroupResource{Group: leaseKind.Group, Resource: "leases"}

// fakeAPI is an API server with Leases. As a real one, it refuses writes that are based on another revision.
type fakeAPI struct {
	client.Reader
	client.Writer

	leases map[string]*unstructured.Unstructured
	writes int
	calls  []string
	// fail has the errors of calls, by their verb.
	fail map[string]error
	// afterGet is called between a read and the write that follows.
	afterGet func()
}

func (f *fakeAPI) call(verb string) error {
	f.calls = append(f.calls, verb)
	return f.fail[verb]
}

// Get reads a Lease.
func (f *fakeAPI) Get(_ context.Context, key client.ObjectKey, into client.Object, _ ...client.GetOption) error {
	if err := f.call("get"); err != nil {
		return err
	}
	stored := f.leases[key.String()]
	if stored != nil {
		stored.DeepCopyInto(into.(*unstructured.Unstructured))
	}
	if f.afterGet != nil {
		f.afterGet()
	}
	if stored == nil {
		return apierrors.NewNotFound(resource, key.Name)
	}
	return nil
}

// Create creates a Lease.
func (f *fakeAPI) Create(_ context.Context, o client.Object, opts ...client.CreateOption) error {
	options := client.CreateOptions{}
	options.ApplyOptions(opts)
	if err := f.call("create by " + options.FieldManager); err != nil {
		return err
	}
	if f.leases[key(o)] != nil {
		return apierrors.NewAlreadyExists(resource, o.GetName())
	}
	o.SetUID(types.UID(fmt.Sprint("uid-", f.writes)))
	f.store(o)
	return nil
}

// Update replaces a Lease.
func (f *fakeAPI) Update(_ context.Context, o client.Object, opts ...client.UpdateOption) error {
	options := client.UpdateOptions{}
	options.ApplyOptions(opts)
	if err := f.call("update by " + options.FieldManager); err != nil {
		return err
	}
	switch old := f.leases[key(o)]; {
	case old == nil:
		return apierrors.NewNotFound(resource, o.GetName())
	case old.GetResourceVersion() != o.GetResourceVersion():
		return apierrors.NewConflict(resource, o.GetName(), errors.New("another revision"))
	}
	f.store(o)
	return nil
}

// Delete deletes a Lease, and only with preconditions.
func (f *fakeAPI) Delete(_ context.Context, o client.Object, opts ...client.DeleteOption) error {
	options := client.DeleteOptions{}
	options.ApplyOptions(opts)
	if err := f.call("delete"); err != nil {
		return err
	}
	p, old := options.Preconditions, f.leases[key(o)]
	switch {
	case p == nil || p.UID == nil || p.ResourceVersion == nil:
		return errors.New("a deletion without preconditions")
	case old == nil:
		return apierrors.NewNotFound(resource, o.GetName())
	case *p.UID != old.GetUID() || *p.ResourceVersion != old.GetResourceVersion():
		return apierrors.NewConflict(resource, o.GetName(), errors.New("another revision"))
	}
	delete(f.leases, key(o))
	return nil
}

func (f *fakeAPI) store(o client.Object) {
	f.writes++
	o.SetResourceVersion(fmt.Sprint(f.writes))
	f.leases[key(o)] = o.(*unstructured.Unstructured).DeepCopy()
}

// has stores the Lease of the node n.
func (f *fakeAPI) has(r record) {
	l := render(core.Node{Name: "n", UID: "n-uid"}, &r)
	l.SetUID("stored")
	f.store(l)
}

// holder returns the holder of the lease of the node n, and when it was renewed; "none" where there is no Lease.
func (f *fakeAPI) holder() string {
	l := f.leases[Namespace+"/node-n"]
	if l == nil {
		return "none"
	}
	r := read(l)
	return fmt.Sprintf("%s since %s for %s", r.holder, r.renewed.Sub(noon), r.duration)
}

func key(o client.Object) string { return client.ObjectKeyFromObject(o).String() }

// clientFixture is a Client with an API server and informers that a test fills.
type clientFixture struct {
	*Client

	api   *fakeAPI
	in    *informertest.Informers
	now   time.Time
	woken int
}

func newClientFixture(t *testing.T) *clientFixture {
	t.Helper()
	f := &clientFixture{
		api: &fakeAPI{leases: map[string]*unstructured.Unstructured{}, fail: map[string]error{}},
		in:  informertest.New(), now: noon,
	}
	f.in.SetSynced(true)
	f.Client = NewClient(Config{
		Informers: f.in, Live: f.api, Writer: f.api, Now: func() time.Time { return f.now }, Wake: func() { f.woken++ },
	})
	return f
}

// leases returns the informer of Leases.
func (f *clientFixture) leases() *informertest.Informer { return f.in.Of("Lease") }

// watched watches what the API server has.
func (f *clientFixture) watched(t *testing.T) *clientFixture {
	t.Helper()
	if err := f.Watch(t.Context()); err != nil {
		t.Fatalf("watching: %v", err)
	}
	for _, l := range f.api.leases {
		f.leases().Handler.OnAdd(l.DeepCopy(), true)
	}
	return f
}

// onNode is a target on the node n.
var onNode = core.Target{ID: core.ID{Kind: "Node", Name: "n"}, Node: core.Node{State: core.NodePresent, Name: "n", UID: "n-uid"}}

// TestAcquire: each state of a lease, with the calls that Acquire makes.
func TestAcquire(t *testing.T) {
	const create, update = "create by fettle", "update by fettle"
	taken := us + " since 0s for 11m0s"
	cases := map[string]struct {
		reason  string
		has     *record
		watched bool
		held    bool
		calls   []string
		stored  string
	}{
		"there is none":                       {"without a watch, nothing is known to be free", nil, false, true, []string{"get", create}, taken},
		"there is none, and that was watched": {"a read is spared", nil, true, true, []string{create}, taken},
		"another holds it":                    {"", new(held(them, 0, time.Minute)), false, false, []string{"get"}, them + " since -1m0s for 1h0m0s"},
		"another holds it, and it is watched": {"", new(held(them, 0, time.Minute)), true, false, []string{"get"}, them + " since -1m0s for 1h0m0s"},
		"another held it":                     {"", new(held(them, 3*time.Hour, 2*time.Hour)), true, true, []string{"get", update}, taken},
		"Fettle holds it":                     {"it is renewed", new(held(us, 3*time.Hour, 2*time.Minute)), true, true, []string{"get", update}, taken},
	}
	for sentence, tc := range cases {
		t.Run(sentence, func(t *testing.T) {
			f := newClientFixture(t)
			if tc.has != nil {
				f.api.has(*tc.has)
			}
			if tc.watched {
				f.watched(t)
			}
			got, err := f.Acquire(t.Context(), onNode, us, 11*time.Minute)
			if got != tc.held || err != nil {
				t.Errorf("held: %t, want %t (%v). %s", got, tc.held, err, tc.reason)
			}
			if diff := cmp.Diff(tc.calls, f.api.calls); diff != "" {
				t.Errorf("calls (-want +got):\n%s", diff)
			}
			if stored := f.api.holder(); stored != tc.stored {
				t.Errorf("stored: %s; want %s", stored, tc.stored)
			}
		})
	}
}

// TestAcquiredLeaseRefersToItsNode, whether it was created or taken over.
func TestAcquiredLeaseRefersToItsNode(t *testing.T) {
	for _, old := range []*record{nil, new(held(them, 3*time.Hour, 2*time.Hour))} {
		f := newClientFixture(t)
		if old != nil {
			f.api.has(*old)
		}
		if ok, err := f.Acquire(t.Context(), core.Target{Node: core.Node{Name: "n", UID: "new-uid"}}, us, time.Minute); !ok || err != nil {
			t.Fatalf("held: %t, %v", ok, err)
		}
		want := []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: "n", UID: "new-uid"}}
		if diff := cmp.Diff(want, f.api.leases[Namespace+"/node-n"].GetOwnerReferences()); diff != "" {
			t.Errorf("owners, where the lease was %v (-want +got):\n%s", old, diff)
		}
	}
}

// TestAcquireWithoutNode: no lease exists for a target without a node, so nothing is called.
func TestAcquireWithoutNode(t *testing.T) {
	f := newClientFixture(t)
	if ok, err := f.Acquire(t.Context(), core.Target{ID: core.ID{Kind: "Machine", Name: "m"}}, us, time.Minute); !ok || err != nil || len(f.api.calls) > 0 {
		t.Errorf("held: %t, %v, after calls %v", ok, err, f.api.calls)
	}
}

// TestAcquireReadsTheClockAfterTheLease: a renewal that arrives during the read isn't in the future.
func TestAcquireReadsTheClockAfterTheLease(t *testing.T) {
	f := newClientFixture(t)
	f.api.has(held(them, 0, -time.Minute))
	f.api.afterGet = func() { f.now = noon.Add(time.Hour) }
	if ok, err := f.Acquire(t.Context(), onNode, us, time.Minute); ok || err != nil {
		t.Errorf("a lease that its holder renewed a minute ago is taken: %t, %v", ok, err)
	}
	f.now = noon
	f.api.afterGet = func() { f.now = noon.Add(time.Hour + time.Minute) }
	if ok, err := f.Acquire(t.Context(), onNode, us, time.Minute); !ok || err != nil {
		t.Errorf("a lease whose time is over is not taken: %t, %v", ok, err)
	}
}

// TestAcquireFromAClockAhead: a lease that its holder renewed in the future lasts from when the watch first saw it.
func TestAcquireFromAClockAhead(t *testing.T) {
	f := newClientFixture(t)
	f.api.has(held(them, 0, -24*time.Hour))
	f.watched(t)
	for _, tc := range []struct {
		after time.Duration
		held  bool
	}{{time.Hour - time.Second, false}, {time.Hour, true}} {
		f.now = noon.Add(tc.after)
		if ok, err := f.Acquire(t.Context(), onNode, us, time.Minute); ok != tc.held || err != nil {
			t.Errorf("%s after the watch saw it, held: %t, want %t (%v)", tc.after, ok, tc.held, err)
		}
	}
	f.api.has(held(them, 0, -48*time.Hour))
	if ok, err := f.Acquire(t.Context(), onNode, us, time.Minute); ok || err != nil {
		t.Errorf("a lease that its holder has renewed since is taken: %t, %v", ok, err)
	}
}

// TestAcquireBesideOthers: the lease changes between the read and the write.
func TestAcquireBesideOthers(t *testing.T) {
	cases := map[string]struct {
		has    *record
		change func(f *fakeAPI)
		held   bool
		calls  int
	}{
		"another creates it":       {nil, func(f *fakeAPI) { f.has(held(them, 0, 0)) }, false, 3},
		"another takes it over":    {new(held("", 0, 0)), func(f *fakeAPI) { f.has(held(them, 0, 0)) }, false, 3},
		"another gives it back":    {new(held("", 0, 0)), func(f *fakeAPI) { delete(f.leases, Namespace+"/node-n") }, true, 4},
		"another renews and stops": {new(held(us, 0, 0)), func(f *fakeAPI) { f.has(held("", 0, 0)) }, true, 4},
	}
	for sentence, tc := range cases {
		t.Run(sentence, func(t *testing.T) {
			f := newClientFixture(t)
			if tc.has != nil {
				f.api.has(*tc.has)
			}
			f.api.afterGet = func() {
				f.api.afterGet = nil
				tc.change(f.api)
			}
			if got, err := f.Acquire(t.Context(), onNode, us, time.Minute); got != tc.held || err != nil {
				t.Errorf("held: %t, want %t (%v)", got, tc.held, err)
			}
			if len(f.api.calls) != tc.calls {
				t.Errorf("it made the calls %v, want %d", f.api.calls, tc.calls)
			}
		})
	}
}

// TestAcquireOfAWatchedLeaseThatAnotherCreated: the watch hasn't shown it yet, so the creation fails and the lease is read.
func TestAcquireOfAWatchedLeaseThatAnotherCreated(t *testing.T) {
	f := newClientFixture(t).watched(t)
	f.api.has(held(them, 0, 0))
	got, err := f.Acquire(t.Context(), onNode, us, time.Minute)
	if diff := cmp.Diff([]string{"create by fettle", "get"}, f.api.calls); diff != "" || got || err != nil {
		t.Errorf("held: %t (%v), calls (-want +got):\n%s", got, err, diff)
	}
}

// TestContendedLease: a lease that changes at each attempt is given up after three.
func TestContendedLease(t *testing.T) {
	f := newClientFixture(t)
	f.api.has(held(us, time.Hour, time.Minute))
	f.api.afterGet = func() { f.api.has(held(us, time.Hour, time.Minute)) }
	got, err := f.Acquire(t.Context(), onNode, us, time.Minute)
	if got || !errors.Is(err, errContended) || !strings.HasPrefix(err.Error(), "taking the lease of node n: ") || len(f.api.calls) != 6 {
		t.Errorf("held: %t, %v, after %v", got, err, f.api.calls)
	}
	f.api.calls = nil
	released, err := f.Release(t.Context(), "n", us, time.Time{})
	if released || !errors.Is(err, errContended) || !strings.HasPrefix(err.Error(), "giving back the lease of node n: ") || len(f.api.calls) != 6 {
		t.Errorf("released: %v, after %v", err, f.api.calls)
	}
}

// TestRelease deletes a lease of the holder alone, as it was read.
func TestRelease(t *testing.T) {
	cases := map[string]struct {
		has      *record
		change   func(f *fakeAPI)
		calls    []string
		released bool
		stored   string
	}{
		"Fettle holds it":     {new(held(us, 0, 0)), nil, []string{"get", "delete"}, true, "none"},
		"Fettle held it":      {new(held(us, 9*time.Hour, 8*time.Hour)), nil, []string{"get", "delete"}, true, "none"},
		"another holds it":    {new(held(them, 0, 0)), nil, []string{"get"}, false, them + " since 0s for 1h0m0s"},
		"there is none":       {nil, nil, []string{"get"}, false, "none"},
		"it goes meanwhile":   {new(held(us, 0, 0)), func(f *fakeAPI) { delete(f.leases, Namespace+"/node-n") }, []string{"get", "delete"}, false, "none"},
		"another takes it":    {new(held(us, 0, 0)), func(f *fakeAPI) { f.has(held(them, 0, 0)) }, []string{"get", "delete", "get"}, false, them + " since 0s for 1h0m0s"},
		"another creates one": {new(held(us, 0, 0)), func(f *fakeAPI) { f.recreate() }, []string{"get", "delete", "get", "delete"}, true, "none"},
	}
	for sentence, tc := range cases {
		t.Run(sentence, func(t *testing.T) {
			f := newClientFixture(t)
			if tc.has != nil {
				f.api.has(*tc.has)
			}
			if tc.change != nil {
				f.api.afterGet = func() {
					f.api.afterGet = nil
					tc.change(f.api)
				}
			}
			released, err := f.Release(t.Context(), "n", us, time.Time{})
			if err != nil || released != tc.released {
				t.Errorf("releasing: %t, %v; want %t", released, err, tc.released)
			}
			if diff := cmp.Diff(tc.calls, f.api.calls); diff != "" {
				t.Errorf("calls (-want +got):\n%s", diff)
			}
			if stored := f.api.holder(); stored != tc.stored {
				t.Errorf("stored: %s; want %s", stored, tc.stored)
			}
		})
	}
}

// TestReleaseOfARenewedLease: a lease that was renewed after the instant stays, also if that happens during the release.
func TestReleaseOfARenewedLease(t *testing.T) {
	aMinuteAgo := noon.Add(-time.Minute)
	for name, tc := range map[string]struct {
		renewed time.Duration
		change  func(f *fakeAPI)
		stored  string
	}{
		"before":             {2 * time.Minute, nil, "none"},
		"then":               {time.Minute, nil, "none"},
		"later":              {59 * time.Second, nil, us + " since -59s for 1h0m0s"},
		"by a clock ahead":   {-time.Minute, nil, us + " since 1m0s for 1h0m0s"},
		"during the release": {2 * time.Minute, func(f *fakeAPI) { f.has(held(us, 0, 0)) }, us + " since 0s for 1h0m0s"},
	} {
		t.Run(name, func(t *testing.T) {
			f := newClientFixture(t)
			f.api.has(held(us, time.Hour, tc.renewed))
			f.api.afterGet = func() {
				if f.api.afterGet = nil; tc.change != nil {
					tc.change(f.api)
				}
			}
			released, err := f.Release(t.Context(), "n", us, aMinuteAgo)
			if stored := f.api.holder(); err != nil || stored != tc.stored || released != (stored == "none") {
				t.Errorf("released: %t, %v; stored: %s; want %s", released, err, stored, tc.stored)
			}
		})
	}
}

// TestReleaseOfALeaseLongAhead: a renewal in the future counts from when the watch saw it.
func TestReleaseOfALeaseLongAhead(t *testing.T) {
	f := newClientFixture(t)
	f.api.has(held(us, 0, -time.Hour))
	f.watched(t)
	for _, stays := range []bool{true, false} {
		if _, err := f.Release(t.Context(), "n", us, f.now.Add(-time.Minute)); err != nil || (len(f.api.leases) == 1) != stays {
			t.Errorf("at %s it stays: %t, want %t (%v)", f.now, !stays, stays, err)
		}
		f.now = f.now.Add(time.Minute)
	}
}

// recreate sets for the stored Lease another UID at the same revision.
func (f *fakeAPI) recreate() { f.leases[Namespace+"/node-n"].SetUID("another") }

// TestRefusedCalls: an error says what failed, for which node, and what an administrator can do.
func TestRefusedCalls(t *testing.T) {
	forbidden := apierrors.NewForbidden(resource, "node-n", errors.New("no"))
	ending := apierrors.NewForbidden(resource, "node-n", errors.New("it is ending"))
	ending.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: corev1.NamespaceTerminatingCause}}
	missing := apierrors.NewNotFound(schema.GroupResource{Resource: "namespaces"}, Namespace)
	const role = "Role fettle in namespace medik8s-leases grants it, and a deletion of that namespace deletes it; create both with: " +
		"kubectl apply -k config/rbac, or helm upgrade: "
	cases := map[string]struct {
		has      *record
		verb     string
		err      error
		acquired string
	}{
		"a read is forbidden":       {new(held(us, 0, 0)), "get", forbidden, role + forbidden.Error()},
		"a creation is forbidden":   {nil, "create by fettle", forbidden, role + forbidden.Error()},
		"an update is forbidden":    {new(held(us, 0, 0)), "update by fettle", forbidden, role + forbidden.Error()},
		"the namespace is missing":  {nil, "create by fettle", missing, "namespace medik8s-leases is missing; create it, and the Role in it, with: kubectl apply -k config/rbac, or helm upgrade: " + missing.Error()},
		"the namespace is ending":   {nil, "create by fettle", ending, ending.Error()},
		"the API server is down":    {nil, "get", errors.New("down"), "down"},
		"the API server goes down":  {new(held(us, 0, 0)), "update by fettle", errors.New("down"), "down"},
		"the API server is too old": {nil, "create by fettle", errors.New("no kind Lease"), "no kind Lease"},
	}
	for sentence, tc := range cases {
		t.Run(sentence, func(t *testing.T) {
			f := newClientFixture(t)
			if tc.has != nil {
				f.api.has(*tc.has)
			}
			f.api.fail[tc.verb] = tc.err
			got, err := f.Acquire(t.Context(), onNode, us, time.Minute)
			if got || err == nil || err.Error() != "taking the lease of node n: "+tc.acquired || !errors.Is(err, tc.err) {
				t.Errorf("held: %t, %v;\nwant %s", got, err, tc.acquired)
			}
			if calls := len(f.api.calls); calls > 2 {
				t.Errorf("it was tried again: %v", f.api.calls)
			}
		})
	}
	for _, verb := range []string{"get", "delete"} {
		f := newClientFixture(t)
		f.api.has(held(us, 0, 0))
		f.api.fail[verb] = forbidden
		if released, err := f.Release(t.Context(), "n", us, time.Time{}); released || err == nil || err.Error() != "giving back the lease of node n: "+role+forbidden.Error() {
			t.Errorf("a %s that is forbidden: %v", verb, err)
		}
	}
}

// TestWatchedLeases: the engine wakes when a lease of a node changes, and a survey shows the lease.
func TestWatchedLeases(t *testing.T) {
	f := newClientFixture(t).watched(t)
	if f.leases().Kind != leaseKind || !f.HasSynced() {
		t.Errorf("it watches %s, synced: %t", f.leases().Kind, f.HasSynced())
	}
	seen := func(sentence string, woken int, want core.Lease) {
		t.Helper()
		cluster := core.Cluster{Targets: []core.Target{onNode}}
		f.AddFacts(nil, &cluster)
		if got := cluster.Targets[0].Lease; got.Holder != want.Holder || !got.Until.Equal(want.Until) || f.woken != woken {
			t.Errorf("%s: the target has %+v, want %+v; it woke %d times, want %d", sentence, got, want, f.woken, woken)
		}
		if found := len(cluster.Leases) == 1; found != (want.Holder != "") {
			t.Errorf("%s: the leases are %+v", sentence, cluster.Leases)
		}
	}
	seen("nothing yet", 0, core.Lease{})
	first, second := held(them, 0, time.Minute), held(them, 0, 0)
	node := core.Node{Name: "n", UID: "n-uid"}
	f.leases().Handler.OnAdd(render(node, &first), true)
	seen("a lease", 1, core.Lease{Holder: them, Until: noon.Add(59 * time.Minute)})
	f.leases().Handler.OnUpdate(nil, render(node, &first))
	seen("the same lease", 1, core.Lease{Holder: them, Until: noon.Add(59 * time.Minute)})
	f.leases().Handler.OnUpdate(nil, render(node, &second))
	seen("a renewed lease", 2, core.Lease{Holder: them, Until: noon.Add(time.Hour)})
	f.leases().Handler.OnAdd("no Lease", false)
	seen("another object", 2, core.Lease{Holder: them, Until: noon.Add(time.Hour)})
	third := held("another", 0, 0)
	other := render(core.Node{Name: "n"}, &third)
	other.SetName("n")
	f.leases().Handler.OnAdd(other, false)
	f.leases().Handler.OnDelete(other)
	seen("the lease of something else", 2, core.Lease{Holder: them, Until: noon.Add(time.Hour)})
	f.leases().Handler.OnDelete("no object")
	seen("the deletion of another object", 2, core.Lease{Holder: them, Until: noon.Add(time.Hour)})
	f.leases().Handler.OnDelete(toolscache.DeletedFinalStateUnknown{Key: Namespace + "/node-n"})
	seen("its deletion", 3, core.Lease{})
}

// TestWatchThatFails is tried again.
func TestWatchThatFails(t *testing.T) {
	f := newClientFixture(t)
	f.in.Refuse["Lease"] = errors.New("no such kind")
	if err := f.Watch(t.Context()); err == nil || !strings.Contains(err.Error(), "leases of nodes") || f.HasSynced() {
		t.Errorf("watching: %v, synced: %t", err, f.HasSynced())
	}
	delete(f.in.Refuse, "Lease")
	f.in.SetSynced(false)
	f.watched(t)
	if f.HasSynced() {
		t.Error("it has synced before its informer")
	}
	if _, err := f.Acquire(t.Context(), onNode, us, time.Minute); err != nil || f.api.calls[0] != "get" {
		t.Errorf("before the informer has synced, the calls are %v (%v)", f.api.calls, err)
	}
}
