package nhc

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
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
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fettle-io/fettle/api/medik8s/v1alpha1"
	"github.com/fettle-io/fettle/internal/core"
	"github.com/fettle-io/fettle/internal/informer/informertest"
	"github.com/fettle-io/fettle/internal/slim"
	"github.com/fettle-io/fettle/internal/writers"
)

var (
	errDown     = errors.New("the API server is down")
	anything    = schema.GroupResource{Resource: "any"}
	errNotFound = apierrors.NewNotFound(anything, "it")
	errConflict = apierrors.NewConflict(anything, "it", errors.New("it has changed"))
)

// getter answers a live read.
type getter func(name string, into client.Object) error

func (g getter) Get(_ context.Context, key client.ObjectKey, obj client.Object, _ ...client.GetOption) error {
	return g(key.Name, obj)
}

func (getter) List(context.Context, client.ObjectList, ...client.ListOption) error { return errDown }

// patcher answers a write of a status or of an object.
type patcher func(obj client.Object, kind types.PatchType, body []byte) error

func (p patcher) Status() client.SubResourceWriter { return statusPatcher{patch: p} }

func (p patcher) Patch(_ context.Context, obj client.Object, patch client.Patch, _ ...client.PatchOption) error {
	data, err := patch.Data(obj)
	if err != nil {
		return err
	}
	return p(obj, patch.Type(), data)
}

type statusPatcher struct {
	client.SubResourceWriter

	patch patcher
}

func (p statusPatcher) Patch(ctx context.Context, obj client.Object, patch client.Patch, _ ...client.SubResourcePatchOption) error {
	return p.patch.Patch(ctx, obj, patch)
}

// recorder records events as lines.
type recorder func(line string)

func (r recorder) Eventf(regarding, related runtime.Object, kind, reason, action, note string, args ...any) {
	name := func(o runtime.Object) string {
		ref, ok := o.(*corev1.ObjectReference)
		if !ok {
			return "-"
		}
		return strings.TrimPrefix(ref.APIVersion+" "+ref.Kind+" "+ref.Namespace+"/"+ref.Name+" "+string(ref.UID), " ")
	}
	r(strings.Join([]string{kind, reason, action, name(regarding), name(related), fmt.Sprintf(note, args...)}, "|"))
}

func TestWatching(t *testing.T) {
	woken := 0
	in := informertest.New()
	c := NewClient(Config{Informers: in, Wake: func() { woken++ }})
	if err := c.Watch(t.Context()); err != nil {
		t.Fatalf("watching: %v", err)
	}
	for _, kind := range []string{"NodeHealthCheck", "Node"} {
		if o, _ := c.Observe(); o.Observed != core.Unknown || o.Kind != "Node" || c.HasSynced() {
			t.Errorf("it is in step before every %s has been taken in", kind)
		}
		in.Of(kind).Synced = true
	}
	checks, nodes := in.Of("NodeHealthCheck").Handler, in.Of("Node").Handler
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
	stray := seen("stray", tagged("role", "none"))
	wakes("two that are new", 2,
		func() { checks.OnAdd(posted(t, "w", "1", selectsWorkers), true) },
		func() { nodes.OnAdd(seen("a"), true) })
	wakes("what changes nothing", 0,
		func() { checks.OnUpdate(nil, posted(t, "w", "2", selectsWorkers)) },
		func() { nodes.OnUpdate(nil, seen("a", beating)) },
		func() { nodes.OnAdd(stray, false) })
	o, err := c.Observe()
	if err != nil || o.Observed != core.Yes || o.Kind != "Node" || len(o.Policies) != 1 || len(o.Targets) != 1 || o.Targets[0].ID != nodeID("a") {
		t.Errorf("it observes %+v, %v", o, err)
	}
	wakes("a node that fails, and a pause", 2,
		func() { nodes.OnUpdate(nil, seen("a", notReady)) },
		func() { checks.OnUpdate(nil, posted(t, "w", "2", pausedWorkers)) })
	wakes("what leaves, also what was seen leave late", 2,
		func() { checks.OnDelete(toolscache.DeletedFinalStateUnknown{Key: "w"}) },
		func() { checks.OnAdd(posted(t, "w", "3", selectsWorkers), false) })
	wakes("a node that leaves", 1, func() { nodes.OnDelete(toolscache.DeletedFinalStateUnknown{Key: "a"}) })
	wakes("a node that nothing selects leaves, and what no watch delivers", 0,
		func() { nodes.OnDelete(stray) }, func() { checks.OnAdd("a word", false) },
		func() { nodes.OnAdd("a word", false) }, func() { nodes.OnDelete("a word") })
	if o, _ := c.Observe(); len(o.Targets) > 0 || !c.HasSynced() {
		t.Errorf("what has left is still there: %+v", o)
	}
}

func TestWatchingIsTriedAgain(t *testing.T) {
	unserved := &meta.NoKindMatchError{GroupKind: schema.GroupKind{Group: "remediation.medik8s.io", Kind: "NodeHealthCheck"}}
	for _, kind := range []string{"NodeHealthCheck", "Node"} {
		t.Run(kind, func(t *testing.T) {
			in := informertest.New()
			in.Refuse[kind] = unserved
			c := NewClient(Config{Informers: in, Wake: func() {}})
			if err := c.Watch(t.Context()); !meta.IsNoMatchError(err) || c.HasSynced() {
				t.Fatalf("watching an API that is not served gives %v; in step: %t", err, c.HasSynced())
			}
			delete(in.Refuse, kind)
			in.Of(kind).Refuse = errDown
			if err := c.Watch(t.Context()); !errors.Is(err, errDown) || c.HasSynced() {
				t.Fatalf("a subscription that fails gives %v; in step: %t", err, c.HasSynced())
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

// TestWhatIsNotServedIsNotAwaited: otherwise other dialects would not be judged.
func TestWhatIsNotServedIsNotAwaited(t *testing.T) {
	in, served := informertest.New(), core.Unknown
	c := NewClient(Config{Informers: in, Wake: func() {}, Served: func() core.Tri { return served }})
	observes := func(sentence string, want core.Tri) {
		t.Helper()
		if o, err := c.Observe(); err != nil || o.Observed != want || o.Kind != "Node" {
			t.Errorf("%s, yet it observes %+v, %v; want %s", sentence, o, err, want)
		}
	}
	observes("it is unknown yet what is served", core.Unknown)
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

func TestLiveReadOfANode(t *testing.T) {
	is := func(uid string) getter {
		return func(name string, into client.Object) error {
			n := into.(*slim.Node)
			n.Name, n.UID, n.Conditions = name, types.UID(uid), []core.Condition{{Type: "Ready", Status: "True", Since: dawn}}
			return nil
		}
	}
	fails := func(err error) getter { return func(string, client.Object) error { return err } }
	cases := map[string]struct {
		reason string
		live   getter
		want   core.Node
		fails  bool
	}{
		"the node is there": {"", is("a-uid"), core.Node{
			State: core.NodePresent, Name: "a", UID: "a-uid", Conditions: []core.Condition{{Type: "Ready", Status: "True", Since: dawn}},
		}, false},
		"it is not":       {"an ordinary answer", fails(errNotFound), core.Node{State: core.NodeGone, Name: "a"}, false},
		"it is another":   {"the judged node is gone", is("other"), core.Node{State: core.NodeGone, Name: "a"}, false},
		"no answer":       {"nothing is known", fails(errDown), core.Node{}, true},
		"a forbidden one": {"nothing is known", fails(apierrors.NewForbidden(anything, "a", errDown)), core.Node{}, true},
	}
	for sentence, tc := range cases {
		t.Run(sentence, func(t *testing.T) {
			got, err := NewClient(Config{Live: tc.live}).ReadNode(t.Context(), core.Target{ID: nodeID("a")})
			if (err != nil) != tc.fails {
				t.Errorf("the error is %v, want one: %t. %s", err, tc.fails, tc.reason)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("node (-want +got):\n%s", diff)
			}
		})
	}
}

// fakeServer is a client with some health checks. It records statuses and events.
type fakeServer struct {
	*Client

	mu      sync.Mutex
	written map[string][]map[string]any
	events  []string
}

func newFakeServer(t *testing.T, answer func(d *fakeServer, u *unstructured.Unstructured) error, names ...string) *fakeServer {
	t.Helper()
	d := &fakeServer{written: map[string][]map[string]any{}}
	d.Client = NewClient(Config{
		Now:  func() time.Time { return dawn },
		Wake: func() { t.Error("a status write woke the engine") },
		Events: recorder(func(line string) {
			d.mu.Lock()
			defer d.mu.Unlock()
			d.events = append(d.events, line)
		}),
		Writer: patcher(func(obj client.Object, kind types.PatchType, data []byte) error {
			var body []map[string]any
			if err := json.Unmarshal(data, &body); err != nil || kind != types.JSONPatchType {
				t.Errorf("the patch %s is a %s: %v", data, kind, err)
			}
			d.mu.Lock()
			d.written[obj.GetName()] = body
			d.mu.Unlock()
			return answer(d, obj.(*unstructured.Unstructured))
		}),
	})
	for _, name := range names {
		d.store.putCheck(posted(t, name, "5", selectsWorkers))
	}
	return d
}

// put answers a write as an API server that stores it.
func (d *fakeServer) put(u *unstructured.Unstructured) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	name := u.GetName()
	u.Object = map[string]any{
		"metadata": map[string]any{"name": name, "uid": name + "-uid", "resourceVersion": "6"},
		"spec": map[string]any{
			"selector":            map[string]any{"matchLabels": map[string]any{"role": "worker"}},
			"remediationTemplate": map[string]any{"apiVersion": "t.example/v1", "kind": "RebootTemplate", "namespace": "ns", "name": "r"},
		},
		"status": d.written[name][1]["value"],
	}
	return nil
}

func (d *fakeServer) reports(changes ...func(*core.PolicyReport)) []core.PolicyReport {
	policies, _ := d.store.snapshot()
	reports := make([]core.PolicyReport, 0, len(policies))
	for _, p := range policies {
		r := core.PolicyReport{Policy: p, Tally: core.Tally{Total: 3, Healthy: 3, MaxUnhealthy: 1, Permitted: true}}
		for _, change := range changes {
			change(&r)
		}
		reports = append(reports, r)
	}
	return reports
}

func TestRecordWritesWhatHasChanged(t *testing.T) {
	d := newFakeServer(t, (*fakeServer).put, "a", "b")
	if failed := d.WriteStatuses(t.Context(), d.reports()); len(failed) > 0 {
		t.Fatalf("recording failed: %v", failed)
	}
	condition := func(kind, status, reason string) map[string]any {
		return map[string]any{
			"type": kind, "status": status, "reason": reason, "message": "", "lastTransitionTime": "2026-08-03T06:00:00Z",
		}
	}
	body := []map[string]any{
		{"op": "replace", "path": "/metadata/resourceVersion", "value": "5"},
		{"op": "add", "path": "/status", "value": map[string]any{
			"observedNodes": 3.0, "healthyNodes": 3.0, "phase": "Enabled", "reason": "No node is under remediation",
			"lastUpdateTime": "2026-08-03T06:00:00Z",
			"conditions": []any{
				condition("Disabled", "False", "NodeHealthCheckEnabled"), condition("RemediationAllowed", "True", "Allowed"),
			},
		}},
	}
	if diff := cmp.Diff(map[string][]map[string]any{"a": body, "b": body}, d.written); diff != "" {
		t.Errorf("statuses (-want +got):\n%s", diff)
	}
	if len(d.events) != 2 || !strings.HasPrefix(d.events[0], "Normal|Enabled|") {
		t.Errorf("events: %v", d.events)
	}
	clear(d.written)
	d.events = nil
	if failed := d.WriteStatuses(t.Context(), d.reports()); len(failed)+len(d.written)+len(d.events) > 0 {
		t.Errorf("nothing has changed, yet %v was written and %v told; failed: %v", d.written, d.events, failed)
	}
	d.WriteStatuses(t.Context(), d.reports(func(r *core.PolicyReport) { r.Tally.Healthy = 2 }))
	if len(d.written) != 2 || len(d.events) > 0 {
		t.Errorf("one node fewer is healthy, yet %v was written and %v told", d.written, d.events)
	}
}

func TestRecordReportsWhatFailed(t *testing.T) {
	cases := map[string]struct {
		reason string
		answer error
		fails  bool
	}{
		"the API server is down":  {"nothing may start for its members", errDown, true},
		"a client has changed it": {"what others wrote would be lost", errConflict, true},
		"it is there no more":     {"its status is of no use", errNotFound, false},
		"another status is due":   {"the other one was written", nil, false},
	}
	for sentence, tc := range cases {
		t.Run(sentence, func(t *testing.T) {
			d := newFakeServer(t, func(d *fakeServer, u *unstructured.Unstructured) error {
				if u.GetName() == "a" && tc.answer != nil {
					return tc.answer
				}
				return d.put(u)
			}, "a", "b")
			failed := d.WriteStatuses(t.Context(), d.reports())
			if err := failed[checkID("a")]; (err != nil) != tc.fails || (tc.fails && (len(failed) != 1 || !errors.Is(err, tc.answer))) {
				t.Errorf("%s, yet it tells %v", tc.reason, failed)
			}
			if len(d.written) != 2 {
				t.Errorf("one failure kept the other from being written: %v", d.written)
			}
			if reported := len(d.events); (reported == 2) != (tc.answer == nil) {
				t.Errorf("what was not written was told of: %v", d.events)
			}
		})
	}
}

// TestPanicInOneRecordFailsThatAlone: nothing starts for the members of that health check, and the others are written.
func TestPanicInOneRecordFailsThatAlone(t *testing.T) {
	d := newFakeServer(t, func(d *fakeServer, u *unstructured.Unstructured) error {
		if u.GetName() == "a" {
			panic("the sky falls")
		}
		return d.put(u)
	}, "a", "b")
	failed := d.WriteStatuses(t.Context(), d.reports())
	if err := errors.Join(slices.Collect(maps.Values(failed))...); len(failed) != 1 || !strings.Contains(err.Error(), "the sky falls") || len(d.written) != 2 {
		t.Errorf("it tells %v, and has written %v", failed, d.written)
	}
}

func TestRecordPassesOverWhatItDoesNotKnow(t *testing.T) {
	d := newFakeServer(t, (*fakeServer).put, "a")
	reports := d.reports()
	reports[0].Policy.ID.UID = "another-uid"
	unknown := reports[0]
	unknown.Policy.ID = checkID("unknown")
	reports = append(reports, unknown)
	if failed := d.WriteStatuses(t.Context(), reports); len(failed)+len(d.written) > 0 {
		t.Errorf("the status of a health check that is gone was written: %v, %v", d.written, failed)
	}
}

// TestAnswerToAWriteBringsNothingBack: the watch may report a deletion before the response to the last status write
// arrives. That response must not restore the health check.
func TestAnswerToAWriteBringsNothingBack(t *testing.T) {
	endings := map[string]func(d *fakeServer){
		"it was deleted": func(d *fakeServer) { d.store.dropCheck("a") },
		"a namesake came": func(d *fakeServer) {
			u := posted(t, "a", "7", selectsMasters)
			u.SetUID("another-uid")
			d.store.putCheck(u)
		},
	}
	for sentence, end := range endings {
		t.Run(sentence, func(t *testing.T) {
			d := newFakeServer(t, func(d *fakeServer, u *unstructured.Unstructured) error {
				end(d)
				return d.put(u)
			}, "a")
			if failed := d.WriteStatuses(t.Context(), d.reports()); len(failed) > 0 {
				t.Errorf("it tells %v", failed)
			}
			policies, _ := d.store.snapshot()
			for i := range policies {
				if policies[i].ID.UID == "a-uid" {
					t.Errorf("the health check is back: %+v", policies[i].ID)
				}
			}
		})
	}
}

// TestUnclearExclusionIsReportedOnce for as long as it lasts.
func TestUnclearExclusionIsReportedOnce(t *testing.T) {
	d := newFakeServer(t, (*fakeServer).put, "w")
	unclear := seen("a", tagged(v1alpha1.ExcludeLabel, ""))
	d.store.putNode(unclear)
	ill := func(r *core.PolicyReport) {
		r.Members = []core.MemberReport{{Target: nodeID("a"), Health: core.Unhealthy}}
	}
	tells := func(sentence string, want int) {
		t.Helper()
		reported := 0
		for _, e := range d.events {
			if strings.Contains(e, "|InvalidNodeLabel|") {
				reported++
			}
		}
		d.events = nil
		if reported != want {
			t.Errorf("%s: told %d times, want %d", sentence, reported, want)
		}
	}
	d.WriteStatuses(t.Context(), d.reports())
	tells("the node is healthy", 0)
	d.WriteStatuses(t.Context(), d.reports(ill))
	tells("it is unhealthy", 1)
	d.WriteStatuses(t.Context(), d.reports(ill))
	tells("it still is", 0)
	d.store.putNode(seen("a"))
	d.WriteStatuses(t.Context(), d.reports(ill))
	tells("the label is gone", 0)
	d.store.putNode(unclear)
	d.WriteStatuses(t.Context(), d.reports(ill))
	tells("it is back", 1)
	d.store.putNode(seen("a"))
	d.WriteStatuses(t.Context(), d.reports(ill))
	tells("it is gone again", 0)
	d.store.putNode(seen("a", tagged(v1alpha1.ExcludeLabel, ""), renamed("other")))
	d.WriteStatuses(t.Context(), d.reports(ill))
	tells("it is on a namesake", 0)
}

// TestWritesAreBounded: the API server returns what other clients have written too. As much of it is kept as of what the
// watch delivers.
func TestWritesAreBounded(t *testing.T) {
	d := newFakeServer(t, func(d *fakeServer, u *unstructured.Unstructured) error {
		if err := d.put(u); err != nil {
			return err
		}
		u.Object["status"] = map[string]any{"reason": strings.Repeat("x", 1<<20)}
		return nil
	}, "a")
	if failed := d.WriteStatuses(t.Context(), d.reports()); len(failed) > 0 {
		t.Fatalf("it tells %v", failed)
	}
	if last, known := d.store.statusOf(checkID("a")); !known || len(last.status.Reason) == 1<<20 {
		t.Errorf("known: %t; %d bytes of a reason are kept", known, len(last.status.Reason))
	}
}

// TestWritingStatusesCounts what the reports have.
func TestWritingStatusesCounts(t *testing.T) {
	d := newFakeServer(t, (*fakeServer).put, "a")
	d.Metrics = NewMetrics()
	d.WriteStatuses(t.Context(), d.reports(ails("n", core.Unhealthy, requestOfAge("r", time.Minute))))
	if got := shown(t, d.Metrics); len(got) != 1 {
		t.Errorf("the series are %v", got)
	}
}

// signed returns a health check whose status a field manager has written, with one field or one condition.
func signed(t *testing.T, revision, manager, field string) *unstructured.Unstructured {
	t.Helper()
	u := posted(t, "w", revision, selectsWorkers)
	fields := map[string]any{"f:" + field: map[string]any{}}
	if condition, is := strings.CutPrefix(field, "condition "); is {
		fields = map[string]any{"f:conditions": map[string]any{`k:{"type":"` + condition + `"}`: map[string]any{".": map[string]any{}, "f:status": map[string]any{}}}}
	}
	entry := map[string]any{
		"manager": manager, "operation": "Update", "subresource": "status", "time": "2026-08-03T05:59:" + revision + "Z",
		"fieldsType": "FieldsV1", "fieldsV1": map[string]any{"f:status": fields},
	}
	if err := unstructured.SetNestedSlice(u.Object, []any{entry}, "metadata", "managedFields"); err != nil {
		t.Fatalf("signing: %v", err)
	}
	return u
}

// TestForeignWriter: a controller that writes a field of Fettle's again and again is reported by a condition and an
// event, once.
func TestForeignWriter(t *testing.T) {
	for field, foreign := range map[string]bool{
		"observedNodes": true, "healthyNodes": true, "unhealthyNodes": true, "inFlightRemediations": true, "phase": true, "reason": true, "lastUpdateTime": true,
		"condition Disabled": true, "condition RemediationAllowed": true, "condition StormActive": true, "condition StormCooldownActive": true,
		"somethingElse": false, "condition Audited": false,
	} {
		t.Run(field, func(t *testing.T) {
			d := newFakeServer(t, (*fakeServer).put)
			woken := 0
			d.Wake = func() { woken++ }
			d.Writers = writers.NewRegistry("nodehealthchecks.remediation.medik8s.io", nil, d.Now, func(time.Duration, func()) {})
			for i := range 5 {
				d.putCheck(signed(t, fmt.Sprint(10+i), "manager", field))
				d.WriteStatuses(t.Context(), d.reports())
				u := posted(t, "w", fmt.Sprint(20+i), selectsWorkers) // as it is stored after Fettle's write
				d.putCheck(u)
			}
			reported, says := 0, ""
			for _, e := range d.events {
				if strings.HasPrefix(e, "Warning|AnotherController|HealthCheck|") && strings.Contains(e, "manager") && strings.Contains(e, "nodes") {
					reported++
				}
			}
			if body := d.written["w"]; len(body) > 0 {
				says = fmt.Sprint(body[1]["value"])
			}
			if (reported == 1) != foreign || reported > 1 || strings.Contains(says, "AnotherController") != foreign || (woken > 0) != foreign {
				t.Errorf("told %d times, woken %d times; the status is %s", reported, woken, says)
			}
			d.dropCheck("w")
			d.putCheck(posted(t, "w", "30", selectsWorkers))
			clear(d.written)
			d.WriteStatuses(t.Context(), d.reports())
			if says := fmt.Sprint(d.written["w"]); strings.Contains(says, "AnotherController") {
				t.Errorf("it was deleted and made again, and its status is %s", says)
			}
		})
	}
}

// TestForeignWriteIsSeenByItsPass: the pass that a foreign write causes reads the status that was written, or nothing would
// correct it.
func TestForeignWriteIsSeenByItsPass(t *testing.T) {
	d := newFakeServer(t, (*fakeServer).put)
	d.Writers = writers.NewRegistry("nodehealthchecks.remediation.medik8s.io", nil, d.Now, func(time.Duration, func()) {})
	d.putCheck(posted(t, "w", "10", selectsWorkers))
	var read []string
	d.Wake = func() {
		last, _ := d.store.statusOf(d.reports()[0].Policy.ID)
		read = append(read, last.revision)
	}
	d.putCheck(signed(t, "11", "manager", "phase"))
	if !slices.Equal(read, []string{"11"}) {
		t.Errorf("the passes read the versions %q", read)
	}
}

// TestDeletionIsNoForeignWrite: a health check that is being deleted has no more statuses to dispute.
func TestDeletionIsNoForeignWrite(t *testing.T) {
	d := newFakeServer(t, (*fakeServer).put)
	woken := 0
	d.Wake = func() { woken++ }
	d.Writers = writers.NewRegistry("nodehealthchecks.remediation.medik8s.io", nil, d.Now, func(time.Duration, func()) {})
	for i := range 5 {
		d.putCheck(leavingSoon(signed(t, fmt.Sprint(10+i), "manager", "phase")))
	}
	if woken > 0 {
		t.Errorf("it wakes %d passes", woken)
	}
}

// TestOwnFieldsAreThoseOfTheStatus: every field of the type is Fettle's, but for the conditions, which are listed by type.
func TestOwnFieldsAreThoseOfTheStatus(t *testing.T) {
	var want []string
	for field := range reflect.TypeFor[v1alpha1.NodeHealthCheckStatus]().Fields() {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		if name != "conditions" {
			want = append(want, name)
		}
	}
	if diff := cmp.Diff(want, ownFields().Names); diff != "" {
		t.Errorf("fields (-want +got):\n%s", diff)
	}
	for _, condition := range ownFields().Conditions {
		if !isOurs(condition) {
			t.Errorf("the condition %s is another controller's", condition)
		}
	}
}

// TestObservationSuggestsRemediators to a health check that names none.
func TestObservationSuggestsRemediators(t *testing.T) {
	in := informertest.New()
	c := NewClient(Config{Informers: in, Wake: func() {}, Remediators: func() []Remediator { return nil }})
	if err := c.Watch(t.Context()); err != nil {
		t.Fatalf("watching: %v", err)
	}
	in.SetSynced(true)
	in.Of("NodeHealthCheck").Show(posted(t, "bare", "1", `{}`))
	if o, err := c.Observe(); err != nil || len(o.Policies) != 1 || !strings.Contains(o.Policies[0].Problem, "install a remediator first") {
		t.Errorf("it observes %+v, %v", o.Policies, err)
	}
}

// TestActs: only a health check that may repair a node acts on it.
func TestActs(t *testing.T) {
	in := informertest.New()
	c := NewClient(Config{Informers: in, Wake: func() {}})
	a, other := map[string]string{"a": "a-uid"}, map[string]string{"a": "another-uid", "m": "m-uid", "none": ""}
	is := func(sentence string, acts, onA, onOther, hasA, hasOther core.Tri) {
		t.Helper()
		got := []core.Tri{c.Acts(), c.ActsOn(a), c.ActsOn(other), c.HasAny(a), c.HasAny(other)}
		if diff := cmp.Diff([]core.Tri{acts, onA, onOther, hasA, hasOther}, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", sentence, diff)
		}
	}
	is("nothing is watched", core.Unknown, core.Unknown, core.Unknown, core.Unknown, core.Unknown)
	if err := c.Watch(t.Context()); err != nil {
		t.Fatalf("watching: %v", err)
	}
	in.Of("Node").Show(seen("a"))
	is("it is not known which nodes there are", core.Unknown, core.Unknown, core.Unknown, core.Yes, core.Unknown)
	in.SetSynced(true)
	is("no health check", core.No, core.No, core.No, core.Yes, core.No)
	in.Of("NodeHealthCheck").Show(posted(t, "m", "1", selectsMasters))
	is("a health check that selects nothing", core.No, core.No, core.No, core.Yes, core.No)
	in.Of("NodeHealthCheck").Show(posted(t, "w", "1", pausedWorkers))
	is("a paused health check of the node", core.No, core.No, core.No, core.Yes, core.No)
	in.Of("Node").Show(seen("m", tagged("role", "master")))
	is("another node is selected", core.Yes, core.No, core.Yes, core.Yes, core.Yes)
	in.Of("NodeHealthCheck").Show(posted(t, "w", "2", selectsWorkers))
	is("the node is", core.Yes, core.Yes, core.Yes, core.Yes, core.Yes)
}

func TestAnnounceEmitsEvents(t *testing.T) {
	var lines []string
	c := NewClient(Config{Events: recorder(func(line string) { lines = append(lines, line) })})
	c.EmitEvents([]core.Event{
		{Kind: core.EventStarted, Policy: checkID("w"), Target: nodeID("a"), Node: "a", Text: "100% sure"},
		{Kind: core.EventShortCircuited, Policy: checkID("w"), Text: "why"},
		{Kind: core.EventMisconfigured, Policy: checkID("w"), Text: "why"},
	})
	of := "remediation.medik8s.io/v1alpha1 NodeHealthCheck /w w-uid"
	want := []string{
		"Normal|RemediationCreated|Remediate|" + of + "|v1 Node /a a-uid|[remediation] node a is to be remediated: 100% sure",
		"Warning|RemediationSkipped|Remediate|" + of + "|-|[remediation] no remediation begins: why",
	}
	if diff := cmp.Diff(want, lines); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
}

func TestUnvouch(t *testing.T) {
	cases := map[string]struct {
		reason string
		answer error
		fails  bool
	}{
		"it is taken away":       {"", nil, false},
		"the node is gone":       {"so is the annotation", errNotFound, false},
		"the node is another":    {"it has a word of its own", errConflict, false},
		"it is refused as such":  {"a UID can't be changed", apierrors.NewInvalid(schema.GroupKind{Kind: "Node"}, "a", nil), false},
		"the API server is down": {"it is to be tried again", errDown, true},
	}
	for sentence, tc := range cases {
		t.Run(sentence, func(t *testing.T) {
			var got string
			c := NewClient(Config{Writer: patcher(func(obj client.Object, kind types.PatchType, body []byte) error {
				gvk := obj.GetObjectKind().GroupVersionKind()
				got = fmt.Sprintf("%s %s %s %s", gvk.GroupVersion(), gvk.Kind, obj.GetName(), kind) + " " + string(body)
				return tc.answer
			})})
			err := c.WithdrawConfirmation(t.Context(), core.Target{ID: nodeID("a")})
			if (err != nil) != tc.fails || (tc.fails && !errors.Is(err, tc.answer)) {
				t.Errorf("the error is %v, want one: %t. %s", err, tc.fails, tc.reason)
			}
			want := `v1 Node a application/merge-patch+json {"metadata":{"annotations":{"remediation.medik8s.io/manually-confirmed-healthy":null},"uid":"a-uid"}}`
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("the write (-want +got):\n%s", diff)
			}
		})
	}
}

// TestWriteThatIsStoredAsWritersAreLookedAt is read by that pass. Such a write causes no pass while one is due because of an earlier write.
func TestWriteThatIsStoredAsWritersAreLookedAt(t *testing.T) {
	d := newFakeServer(t, (*fakeServer).put)
	between := func() {}
	d.Writers = writers.NewRegistry("nodehealthchecks.remediation.medik8s.io", nil, func() time.Time { between(); return dawn }, func(time.Duration, func()) {})
	d.putCheck(posted(t, "w", "10", selectsWorkers))
	reports := d.reports()
	between = func() { d.store.putCheck(posted(t, "w", "11", selectsWorkers)) }
	d.WriteStatuses(t.Context(), reports)
	if body := d.written["w"]; len(body) == 0 || body[0]["value"] != "11" {
		t.Errorf("the status is made from another version: %v", body)
	}
}
