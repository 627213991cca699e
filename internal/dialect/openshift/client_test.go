package openshift

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fettle-io/fettle/api/openshift/v1beta1"
	"github.com/fettle-io/fettle/internal/core"
	"github.com/fettle-io/fettle/internal/informer/informertest"
	"github.com/fettle-io/fettle/internal/slim"
)

var (
	errDown     = errors.New("the API server is down")
	anyResource = schema.GroupResource{Resource: "any"}
	errNotFound = apierrors.NewNotFound(anyResource, "it")
	errConflict = apierrors.NewConflict(anyResource, "it", errors.New("it has changed"))
)

// getter answers live reads.
type getter func(name string, into client.Object) error

func (g getter) Get(_ context.Context, key client.ObjectKey, obj client.Object, _ ...client.GetOption) error {
	return g(key.Name, obj)
}

func (getter) List(context.Context, client.ObjectList, ...client.ListOption) error { return errDown }

// patcher answers writes of statuses.
type patcher func(u *unstructured.Unstructured, body map[string]any) error

func (p patcher) Status() client.SubResourceWriter { return statusPatcher{patch: p} }

type statusPatcher struct {
	client.SubResourceWriter

	patch patcher
}

func (p statusPatcher) Patch(_ context.Context, obj client.Object, patch client.Patch, _ ...client.SubResourcePatchOption) error {
	data, err := patch.Data(obj)
	if err != nil {
		return err
	}
	var body map[string]any
	if err := json.Unmarshal(data, &body); err != nil {
		return err
	}
	return p.patch(obj.(*unstructured.Unstructured), body)
}

// recorder records events as lines.
type recorder func(line string)

func (r recorder) Eventf(regarding, _ runtime.Object, kind, reason, action, note string, args ...any) {
	ref := regarding.(*corev1.ObjectReference)
	r(strings.Join([]string{kind, reason, action, ref.APIVersion, ref.Kind, ref.Namespace + "/" + ref.Name, string(ref.UID), fmt.Sprintf(note, args...)}, "|"))
}

func TestWatching(t *testing.T) {
	woken := 0
	in := informertest.New()
	c := NewClient(Config{Informers: in, Wake: func() { woken++ }})
	o, err := c.Observe()
	if err != nil || o.Observed != core.Unknown || c.HasSynced() {
		t.Fatalf("nothing is watched, yet it observes %+v, %v", o, err)
	}
	if err := c.Watch(t.Context()); err != nil {
		t.Fatalf("watching: %v", err)
	}
	for _, kind := range []string{"MachineHealthCheck", "Machine", "Node"} {
		in.SetSynced(true)
		in.Of(kind).Synced = false
		if o, _ := c.Observe(); o.Observed == core.Yes || c.HasSynced() {
			t.Errorf("it is in sync before the cache of %s is", kind)
		}
	}
	in.SetSynced(true)
	checks, machines, nodes := in.Of("MachineHealthCheck").Handler, in.Of("Machine").Handler, in.Of("Node").Handler
	wakes := func(sentence string, want int, events ...func()) {
		t.Helper()
		woken = 0
		for _, event := range events {
			event()
		}
		if woken != want {
			t.Errorf("%s woke the engine %d times, want %d", sentence, woken, want)
		}
	}
	n := &slim.Node{}
	n.Name, n.UID = "m-node", "n"
	wakes("three that are new", 3,
		func() { checks.OnAdd(check(t, "check", "1", workers, nil), true) },
		func() { machines.OnAdd(aMachine("m"), true) },
		func() { nodes.OnAdd(n, true) })
	wakes("an update that changes a decision", 2,
		func() { checks.OnUpdate(nil, check(t, "check", "2", masters, nil)) },
		func() { checks.OnUpdate(nil, check(t, "check", "3", workers, nil)) })
	wakes("what changes nothing", 0,
		func() { checks.OnUpdate(nil, check(t, "check", "4", workers, nil)) },
		func() { machines.OnUpdate(nil, aMachine("m")) },
		func() { nodes.OnUpdate(nil, n) })
	o, err = c.Observe()
	if err != nil || o.Observed != core.Yes || o.Kind != "Machine" || len(o.Policies) != 1 || len(o.Targets) != 1 || o.Targets[0].Node.UID != "n" {
		t.Errorf("it observes %+v, %v", o, err)
	}
	wakes("what leaves, also what was seen leave late", 3,
		func() {
			checks.OnDelete(toolscache.DeletedFinalStateUnknown{Key: "machines/check", Obj: check(t, "check", "2", workers, nil)})
		},
		func() { machines.OnDelete(aMachine("m")) },
		func() { nodes.OnDelete(toolscache.DeletedFinalStateUnknown{Key: "m-node", Obj: n}) })
	wakes("what no watch delivers", 0,
		func() { checks.OnAdd("a word", false) }, func() { machines.OnAdd("a word", false) },
		func() { nodes.OnAdd("a word", false) }, func() { nodes.OnDelete("a word") })
	if o, _ := c.Observe(); len(o.Policies)+len(o.Targets) > 0 {
		t.Errorf("what has left is still there: %+v", o)
	}
}

// TestWhatIsNotServedIsNotAwaited: a dialect that is not served keeps no other dialect waiting.
func TestWhatIsNotServedIsNotAwaited(t *testing.T) {
	in, served := informertest.New(), core.Unknown
	c := NewClient(Config{Informers: in, Wake: func() {}, Served: func() core.Tri { return served }})
	observes := func(sentence string, want core.Tri) {
		t.Helper()
		if o, err := c.Observe(); err != nil || o.Observed != want || o.Kind != machineKind {
			t.Errorf("%s, yet it observes %+v, %v; want %s", sentence, o, err, want)
		}
	}
	observes("it is unknown what is served", core.Unknown)
	served = core.No
	observes("there is nothing to observe", core.No)
	served = core.Yes
	observes("it is served and nothing was taken in", core.Unknown)
	if err := c.Watch(t.Context()); err != nil {
		t.Fatalf("watching: %v", err)
	}
	in.SetSynced(true)
	observes("all was taken in", core.Yes)
	served = core.No
	observes("it is served no more", core.No)
}

func TestWatchingIsTriedAgain(t *testing.T) {
	unserved := &meta.NoKindMatchError{GroupKind: schema.GroupKind{Group: "machine.openshift.io", Kind: "Machine"}}
	for _, kind := range []string{"MachineHealthCheck", "Machine", "Node"} {
		t.Run(kind, func(t *testing.T) {
			in := informertest.New()
			in.Refuse[kind] = unserved
			c := NewClient(Config{Informers: in, Wake: func() {}})
			if err := c.Watch(t.Context()); !meta.IsNoMatchError(err) || c.HasSynced() {
				t.Fatalf("watching an API that is not served gives %v; in sync: %t", err, c.HasSynced())
			}
			delete(in.Refuse, kind)
			in.Of(kind).Refuse = errDown
			if err := c.Watch(t.Context()); !errors.Is(err, errDown) || c.HasSynced() {
				t.Fatalf("a subscription that fails gives %v; in sync: %t", err, c.HasSynced())
			}
			in.Of(kind).Refuse = nil
			if err := c.Watch(t.Context()); err != nil {
				t.Fatalf("watching: %v", err)
			}
			attempts := in.Of("Node").Gets
			if err := c.Watch(t.Context()); err != nil || in.Of("Node").Gets != attempts {
				t.Errorf("watching once more begins anew: %v", err)
			}
		})
	}
}

func TestLiveReadOfANode(t *testing.T) {
	present := func(name string, into client.Object) error {
		n := into.(*slim.Node)
		n.Name, n.UID = name, "live-uid"
		n.Conditions = []core.Condition{{Type: "Ready", Status: "True", Since: noon}}
		return nil
	}
	cases := map[string]struct {
		reason string
		live   getter
		want   core.Node
		fails  bool
	}{
		"a node that is there": {"", present, core.Node{
			State: core.NodePresent, Name: "m-node", UID: "live-uid", Conditions: []core.Condition{{Type: "Ready", Status: "True", Since: noon}},
		}, false},
		"a node that is not": {"an ordinary answer", func(string, client.Object) error { return errNotFound }, core.Node{State: core.NodeGone, Name: "m-node"}, false},
		"no answer":          {"nothing is known", func(string, client.Object) error { return errDown }, core.Node{}, true},
		"a forbidden read": {"nothing is known", func(string, client.Object) error {
			return apierrors.NewForbidden(anyResource, "m-node", errors.New("no"))
		}, core.Node{}, true},
	}
	for sentence, tc := range cases {
		t.Run(sentence, func(t *testing.T) {
			c := NewClient(Config{Live: tc.live})
			got, err := c.ReadNode(t.Context(), target())
			if (err != nil) != tc.fails {
				t.Errorf("the error is %v, want one: %t. %s", err, tc.fails, tc.reason)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("node (-want +got):\n%s", diff)
			}
		})
	}
}

// fakeServer is a client with some health checks, and the statuses that it writes.
type fakeServer struct {
	*Client

	mu      sync.Mutex
	written map[string]map[string]any
}

func newFakeServer(t *testing.T, answer func(d *fakeServer, u *unstructured.Unstructured) error, names ...string) *fakeServer {
	t.Helper()
	d := &fakeServer{written: map[string]map[string]any{}}
	d.Client = NewClient(Config{Now: func() time.Time { return noon }, Wake: func() { t.Error("a status write woke the engine") }, Writer: patcher(
		func(u *unstructured.Unstructured, body map[string]any) error {
			d.mu.Lock()
			d.written[u.GetNamespace()+"/"+u.GetName()] = body
			d.mu.Unlock()
			return answer(d, u)
		})})
	for _, name := range names {
		d.store.putCheck(check(t, name, "5", workers, nil))
	}
	return d
}

// persist answers a write like an API server that accepts it.
func (d *fakeServer) persist(u *unstructured.Unstructured) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	name := u.GetName()
	u.Object = map[string]any{
		"metadata": map[string]any{"namespace": u.GetNamespace(), "name": name, "uid": name + "-uid", "resourceVersion": "6"},
		"status":   d.written[u.GetNamespace()+"/"+name]["status"],
	}
	return nil
}

func (d *fakeServer) reports(changes ...func(*core.Tally)) []core.PolicyReport {
	policies, _ := d.store.snapshot(none)
	reports := make([]core.PolicyReport, 0, len(policies))
	for _, p := range policies {
		r := core.PolicyReport{Policy: p, Tally: core.Tally{Total: 3, Healthy: 3, MaxUnhealthy: 3, Permitted: true}}
		for _, change := range changes {
			change(&r.Tally)
		}
		reports = append(reports, r)
	}
	return reports
}

func TestRecordWritesWhatHasChanged(t *testing.T) {
	d := newFakeServer(t, (*fakeServer).persist, "a", "b")
	if failed := d.WriteStatuses(t.Context(), d.reports()); len(failed) > 0 {
		t.Fatalf("recording failed: %v", failed)
	}
	body := map[string]any{
		"metadata": map[string]any{"resourceVersion": "5"},
		"status": map[string]any{
			"expectedMachines": 3.0, "currentHealthy": 3.0, "remediationsAllowed": 3.0,
			"conditions": []any{map[string]any{"type": "RemediationAllowed", "status": "True", "lastTransitionTime": "2026-08-03T12:00:00Z"}},
		},
	}
	want := map[string]map[string]any{"machines/a": body, "machines/b": body}
	if diff := cmp.Diff(want, d.written); diff != "" {
		t.Errorf("statuses (-want +got):\n%s", diff)
	}
	clear(d.written)
	if failed := d.WriteStatuses(t.Context(), d.reports()); len(failed)+len(d.written) > 0 {
		t.Errorf("nothing has changed, yet %v was written; failed: %v", d.written, failed)
	}
	d.WriteStatuses(t.Context(), d.reports(func(t *core.Tally) { t.Healthy = 2 }))
	if len(d.written) != 2 {
		t.Errorf("one machine fewer is healthy, yet %v was written", d.written)
	}
}

func TestRecordReportsWhatFailed(t *testing.T) {
	cases := map[string]struct {
		reason string
		answer error
		fails  bool
	}{
		"the API server is down":        {"nothing may start for its members", errDown, true},
		"another client has changed it": {"the conditions of others would be lost", errConflict, true},
		"it is gone":                    {"it needs no status", errNotFound, false},
		"all writes are accepted":       {"both were written", nil, false},
	}
	for sentence, tc := range cases {
		t.Run(sentence, func(t *testing.T) {
			d := newFakeServer(t, func(d *fakeServer, u *unstructured.Unstructured) error {
				if u.GetName() == "a" && tc.answer != nil {
					return tc.answer
				}
				return d.persist(u)
			}, "a", "b")
			failed := d.WriteStatuses(t.Context(), d.reports())
			a := core.ID{Kind: healthCheckKind, Namespace: "machines", Name: "a", UID: "a-uid"}
			if err := failed[a]; (err != nil) != tc.fails || (tc.fails && (len(failed) != 1 || !errors.Is(err, tc.answer))) {
				t.Errorf("%s, yet it tells %v", tc.reason, failed)
			}
			if len(d.written) != 2 {
				t.Errorf("one failure kept the other from being written: %v", d.written)
			}
		})
	}
}

// TestPanicInOneRecordFailsThatAlone: a panic fails the write of one health check, so that nothing
// starts for its members. The others are written.
func TestPanicInOneRecordFailsThatAlone(t *testing.T) {
	d := newFakeServer(t, func(d *fakeServer, u *unstructured.Unstructured) error {
		if u.GetName() == "a" {
			panic("the sky falls")
		}
		return d.persist(u)
	}, "a", "b")
	failed := d.WriteStatuses(t.Context(), d.reports())
	if err := errors.Join(slices.Collect(maps.Values(failed))...); len(failed) != 1 || !strings.Contains(err.Error(), "the sky falls") || len(d.written) != 2 {
		t.Errorf("it tells %v, and has written %v", failed, d.written)
	}
}

func TestRecordPassesOverWhatItDoesNotKnow(t *testing.T) {
	d := newFakeServer(t, (*fakeServer).persist, "a")
	reports := d.reports()
	reports[0].Policy.ID.UID = "another-uid"
	if failed := d.WriteStatuses(t.Context(), reports); len(failed)+len(d.written) > 0 {
		t.Errorf("the status of a health check that is gone was written: %v, %v", d.written, failed)
	}
}

// TestAnswerToAWriteBringsNothingBack: the watch may report the end of a health check before the
// answer to its last write is read. That answer must not restore it.
func TestAnswerToAWriteBringsNothingBack(t *testing.T) {
	endings := map[string]func(d *fakeServer){
		"it was deleted": func(d *fakeServer) { d.store.dropCheck("machines/a") },
		"a namesake came": func(d *fakeServer) {
			u := check(t, "a", "7", masters, nil)
			u.SetUID("another-uid")
			d.store.putCheck(u)
		},
	}
	for sentence, end := range endings {
		t.Run(sentence, func(t *testing.T) {
			d := newFakeServer(t, func(d *fakeServer, u *unstructured.Unstructured) error {
				end(d)
				return d.persist(u)
			}, "a")
			if failed := d.WriteStatuses(t.Context(), d.reports()); len(failed) > 0 {
				t.Errorf("writing failed: %v", failed)
			}
			policies, _ := d.store.snapshot(none)
			for i := range policies {
				if policies[i].ID.UID == "a-uid" {
					t.Errorf("the health check is back: %+v", policies[i].ID)
				}
			}
		})
	}
}

func TestAnnounceEmitsEvents(t *testing.T) {
	var lines []string
	c := NewClient(Config{Events: recorder(func(line string) { lines = append(lines, line) })})
	c.EmitEvents([]core.Event{coreEvent(core.EventStarted, "100% sure"), {Kind: core.EventShortCircuited, Policy: aCheck, Text: "why"}})
	want := []string{
		"Normal|MachineDeleted|Remediate|machine.openshift.io/v1beta1|Machine|machines/m|m-uid|" +
			"MachineHealthCheck machines/workers: machine m (node m-node) is being deleted, for the owner to replace: 100% sure",
		"Warning|RemediationRestricted|Remediate|machine.openshift.io/v1beta1|MachineHealthCheck|machines/workers|check-uid|Repairs are stopped: why",
	}
	if diff := cmp.Diff(want, lines); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
	if v1beta1.GroupVersion.String() != "machine.openshift.io/v1beta1" {
		t.Errorf("the API is %s", v1beta1.GroupVersion)
	}
}

// TestStoreIsChangedBeforeTheEngineIsWoken: a pass that begins at once must see the change.
func TestStoreIsChangedBeforeTheEngineIsWoken(t *testing.T) {
	in := informertest.New()
	var seen []int
	var c *Client
	c = NewClient(Config{Informers: in, Wake: func() {
		o, _ := c.Observe()
		seen = append(seen, len(o.Targets))
	}})
	if err := c.Watch(t.Context()); err != nil {
		t.Fatalf("watching: %v", err)
	}
	in.SetSynced(true)
	in.Of("Machine").Handler.OnAdd(aMachine("m"), true)
	in.Of("Machine").Handler.OnDelete(aMachine("m"))
	if !slices.Equal(seen, []int{1, 0}) {
		t.Errorf("when woken, the engine sees %v machines, want 1 and 0", seen)
	}
}

// TestKindsAreThoseThatAreWatched: each part waits for the definitions of the kinds that it watches.
func TestKindsAreThoseThatAreWatched(t *testing.T) {
	for name, part := range map[string]struct {
		watch  func(*Client, context.Context) error
		synced func(*Client) bool
		kinds  []string
		wants  []string
	}{
		"health checks": {(*Client).Watch, (*Client).HasSynced, Kinds, []string{"machinehealthchecks.machine.openshift.io", "machines.machine.openshift.io"}},
		"machines":      {(*Client).WatchMachines, (*Client).MachinesSynced, MachineKinds, []string{"machines.machine.openshift.io"}},
		"machine sets":  {(*Client).WatchMachineSets, (*Client).MachineSetsSynced, MachineSetKinds, []string{"machinesets.machine.openshift.io"}},
	} {
		t.Run(name, func(t *testing.T) {
			in := informertest.New()
			c := NewClient(Config{Informers: in, Wake: func() {}})
			if !slices.Equal(slices.Sorted(slices.Values(part.kinds)), part.wants) || part.synced(c) {
				t.Errorf("before it watches, it is in sync: %t, and waits for %v, want %v", part.synced(c), part.kinds, part.wants)
			}
			if err := part.watch(c, t.Context()); err != nil || part.synced(c) {
				t.Errorf("before the caches are, it is in sync: %t, %v", part.synced(c), err)
			}
			in.SetSynced(true)
			if !part.synced(c) {
				t.Error("it is not in sync once the caches are")
			}
		})
	}
	u := check(t, "check", "1", workers, nil)
	if got := machineSetObject().GroupVersionKind(); !IsHealthCheck(u) || IsHealthCheck(machineSetObject()) || got != v1beta1.GroupVersion.WithKind("MachineSet") {
		t.Errorf("a health check is one: %t, and machine sets are %s", IsHealthCheck(u), got)
	}
}

// TestPassesAreCounted: the metrics show the last reports, and the accepted deletions.
func TestPassesAreCounted(t *testing.T) {
	m := NewMetrics()
	d := newFakeServer(t, (*fakeServer).persist, "a")
	d.Metrics, d.Events = m, recorder(func(string) {})
	reports := d.reports()
	d.WriteStatuses(t.Context(), reports)
	d.EmitEvents([]core.Event{{Kind: core.EventStarted, Policy: reports[0].Policy.ID, Remedy: DeleteMachine}})
	want := []string{"nodes_covered a machines: 3", "remediation_success_total a machines: 1", "short_circuit a machines: 0"}
	if diff := cmp.Diff(want, seriesOf(t, m)); diff != "" {
		t.Errorf("series (-want +got):\n%s", diff)
	}
}
