package machinedeletion

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	jsonpatch "github.com/evanphx/json-patch/v5"
	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fettle-io/fettle/api/fettle/v1alpha1"
	"github.com/fettle-io/fettle/internal/informer/informertest"
)

var (
	errDown  = errors.New("the API server is down")
	resource = schema.GroupResource{Resource: "any"}
	nodeA    = types.NamespacedName{Namespace: "machines", Name: "node-a"}
)

// server is the API server, and a cache that never lags.
type server struct {
	client.Client
	events.EventRecorder

	objects map[string]map[string]any
	// calls are all calls, with the bodies of writes. failAt is the number of the call that fails with err.
	calls  []string
	failAt int
	err    error
	// hangs is set for reads that end a second after their context.
	hangs bool
}

func keyOf(o client.Object, at types.NamespacedName) string {
	kind := o.GetObjectKind().GroupVersionKind().Kind
	if _, is := o.(*v1alpha1.MachineDeletionRemediation); is {
		kind = "MachineDeletionRemediation"
	}
	return kind + " " + strings.TrimPrefix(at.String(), "/")
}

func (s *server) call(format string, args ...any) error {
	s.calls = append(s.calls, fmt.Sprintf(format, args...))
	if s.failAt == len(s.calls) {
		return s.err
	}
	return nil
}

func (s *server) put(text string) {
	var object map[string]any
	if err := json.Unmarshal([]byte(text), &object); err != nil {
		panic(err)
	}
	u := unstructured.Unstructured{Object: object}
	s.objects[keyOf(&u, client.ObjectKeyFromObject(&u))] = object
}

func decode(object map[string]any, into any) error {
	body, err := json.Marshal(object)
	if err != nil {
		return err
	}
	if u, is := into.(*unstructured.Unstructured); is {
		return u.UnmarshalJSON(body)
	}
	return json.Unmarshal(body, into)
}

func (s *server) read(what string, at types.NamespacedName, o client.Object) error {
	if err := s.call("%s %s", what, keyOf(o, at)); err != nil {
		return err
	}
	if kind := o.GetObjectKind().GroupVersionKind(); kind.Kind != "" && kind.Version == "" {
		return errors.New("the request has no version")
	}
	object := s.objects[keyOf(o, at)]
	if object == nil {
		return apierrors.NewNotFound(resource, at.Name)
	}
	return decode(object, o)
}

func (s *server) Get(_ context.Context, at client.ObjectKey, o client.Object, _ ...client.GetOption) error {
	return s.read("get", at, o)
}

func (s *server) patch(what string, o client.Object, patch client.Patch) error {
	body, err := patch.Data(o)
	if err != nil || patch.Type() != types.MergePatchType {
		return fmt.Errorf("a patch of another type: %s, %w", patch.Type(), err)
	}
	key := keyOf(o, client.ObjectKeyFromObject(o))
	if err := s.call("%s %s %s", what, key, body); err != nil {
		return err
	}
	old, err := json.Marshal(s.objects[key])
	if err != nil {
		return err
	}
	fresh, err := jsonpatch.MergePatch(old, body)
	if err != nil {
		return err
	}
	s.put(string(fresh))
	return decode(s.objects[key], o)
}

func (s *server) Patch(_ context.Context, o client.Object, patch client.Patch, _ ...client.PatchOption) error {
	return s.patch("patch", o, patch)
}

func (s *server) Status() client.SubResourceWriter { return statuses{s: s} }

type statuses struct {
	client.SubResourceWriter

	s *server
}

func (w statuses) Patch(_ context.Context, o client.Object, patch client.Patch, _ ...client.SubResourcePatchOption) error {
	return w.s.patch("status", o, patch)
}

func (s *server) Delete(_ context.Context, o client.Object, options ...client.DeleteOption) error {
	only := (&client.DeleteOptions{}).ApplyOptions(options).Preconditions
	key := keyOf(o, client.ObjectKeyFromObject(o))
	if err := s.call("delete %s of UID %s", key, *only.UID); err != nil {
		return err
	}
	if object := s.objects[key]; object != nil {
		(&unstructured.Unstructured{Object: object}).SetDeletionTimestamp(&metav1.Time{Time: noon})
	}
	return nil
}

func (s *server) Eventf(regarding, related runtime.Object, kind, reason, action, note string, args ...any) {
	s.calls = append(s.calls, fmt.Sprintf("event about %s: %s %s %s "+note, append([]any{regarding.(interface{ GetObjectKind() schema.ObjectKind }).GetObjectKind().GroupVersionKind().Kind, kind, reason, action}, args...)...))
	if related != nil {
		s.calls = append(s.calls, "and something else")
	}
}

// cached reads as the cache of informers.
type cached struct {
	client.Reader

	s *server
}

func (c cached) Get(ctx context.Context, at client.ObjectKey, o client.Object, _ ...client.GetOption) error {
	if c.s.hangs {
		<-ctx.Done()
		<-time.After(time.Second)
		return ctx.Err()
	}
	return c.s.read("see", at, o)
}

func (c cached) List(_ context.Context, list client.ObjectList, options ...client.ListOption) error {
	var o client.ListOptions
	o.ApplyOptions(options)
	if err := c.s.call("list %s in %s", list.GetObjectKind().GroupVersionKind().Kind, o.Namespace); err != nil {
		return err
	}
	all, is := list.(*unstructured.UnstructuredList)
	if !is {
		return nil
	}
	for key, object := range c.s.objects {
		if strings.HasPrefix(key, "Machine "+o.Namespace+"/") {
			all.Items = append(all.Items, unstructured.Unstructured{Object: object})
		}
	}
	return nil
}

func machineFrom(o client.Object) Machine {
	u, _ := o.(*unstructured.Unstructured)
	f := machineOf(u)
	m := Machine{UID: f.uid, Name: u.GetName(), Node: f.node, Deleting: f.deleting}
	if f.owner != nil {
		m.Owner = f.owner.UID
	}
	return m
}

// world is a cluster with node-a, its machine worker-a and worker-b, of a set of two, and a remediation of node-a.
func world() (*server, *Client) {
	s := &server{objects: map[string]map[string]any{}}
	s.put(`{"apiVersion":"fettle.io/v1alpha1","kind":"MachineDeletionRemediation","metadata":{"namespace":"machines","name":"node-a","uid":"r-uid","resourceVersion":"7","creationTimestamp":"2026-08-03T11:59:00Z"}}`)
	s.put(`{"apiVersion":"v1","kind":"Node","metadata":{"name":"node-a","uid":"n-uid","annotations":{"machine.openshift.io/machine":"machines/worker-a"}}}`)
	s.put(machineText("worker-a", "node-a"))
	s.put(machineText("worker-b", "node-b"))
	s.put(`{"apiVersion":"machine.openshift.io/v1beta1","kind":"MachineSet","metadata":{"namespace":"machines","name":"workers","uid":"set-uid"},"spec":{"replicas":2}}`)
	machine, list := &unstructured.Unstructured{}, &unstructured.UnstructuredList{}
	machine.SetGroupVersionKind(machineResource)
	list.SetGroupVersionKind(machineResource.GroupVersion().WithKind("MachineList"))
	return s, NewClient(Config{
		Informers: informertest.New(), Cache: cached{s: s}, Live: s, Writer: s, Events: s, Log: logr.Discard(), Now: func() time.Time { return noon },
		Machine: machine, Machines: list, Read: machineFrom,
	})
}

func machineText(name, node string) string {
	status := ""
	if node != "" {
		status = `,"status":{"nodeRef":{"name":"` + node + `"}}`
	}
	return `{"apiVersion":"machine.openshift.io/v1beta1","kind":"Machine","metadata":{"namespace":"machines","name":"` + name + `","uid":"` + name + `-uid",
		"creationTimestamp":"2026-08-03T11:00:00Z","ownerReferences":[{"apiVersion":"machine.openshift.io/v1beta1","kind":"MachineSet","name":"workers","uid":"set-uid","controller":true}]},
		"spec":{"providerID":"aws:///zone/i"}` + status + `}`
}

// reconciled reconciles node-a and returns the calls, without the conditions in writes.
func reconciled(t *testing.T, s *server, c *Client) []string {
	t.Helper()
	s.calls = nil
	if err := c.reconcile(t.Context(), nodeA); err != nil {
		t.Fatalf("reconciling: %v", err)
	}
	return short(s.calls)
}

func short(calls []string) []string {
	var all []string
	for _, call := range calls {
		if before, after, is := strings.Cut(call, `"conditions":[`); is {
			_, after, _ = strings.Cut(after, `}]`)
			call = before + after
		}
		all = append(all, call)
	}
	return all
}

func wantCalls(t *testing.T, sentence string, got []string, want ...string) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s: calls (-want +got):\n%s", sentence, diff)
	}
}

const (
	seeIt   = "see MachineDeletionRemediation machines/node-a"
	getIt   = "get MachineDeletionRemediation machines/node-a"
	listAll = "list MachineList in machines"
)

// TestStoryOfARemediation: each call, from the finalizer to the replacement.
func TestStoryOfARemediation(t *testing.T) {
	s, c := world()
	wantCalls(t, "at first", reconciled(t, s, c), seeIt, getIt,
		`patch MachineDeletionRemediation machines/node-a {"metadata":{"finalizers":["fettle.io/machine-deletion-remediation"],"resourceVersion":"7"}}`,
		"get Node node-a", "get Machine machines/worker-a", listAll,
		`status MachineDeletionRemediation machines/node-a {"metadata":{"resourceVersion":"7"},"status":{"machine":{"kind":"Machine","namespace":"machines","name":"worker-a","uid":"worker-a-uid"},"owner":{"kind":"MachineSet","namespace":"machines","name":"workers","uid":"set-uid","apiVersion":"machine.openshift.io/v1beta1"},"machines":2,}}`,
		"event about MachineDeletionRemediation: Normal RemediationStarted Remediate [remediation] machine machines/worker-a is being deleted, for MachineSet workers to replace",
		"see Machine machines/worker-a", "delete Machine machines/worker-a of UID worker-a-uid",
	)
	wantCalls(t, "it is being deleted", reconciled(t, s, c), seeIt, "see Machine machines/worker-a")
	delete(s.objects, "Machine machines/worker-a")
	c.pools.changed("set-uid")
	wantCalls(t, "it is gone", reconciled(t, s, c), seeIt, "see Machine machines/worker-a", listAll, "get MachineSet machines/workers")
	s.put(machineText("worker-c", ""))
	c.pools.changed("set-uid")
	wantCalls(t, "another comes", reconciled(t, s, c), seeIt, "see Machine machines/worker-a", listAll)
	wantCalls(t, "nothing has changed", reconciled(t, s, c), seeIt, "see Machine machines/worker-a")
	s.put(machineText("worker-c", "node-c"))
	c.pools.changed("set-uid")
	wantCalls(t, "it has joined", reconciled(t, s, c), seeIt, "see Machine machines/worker-a", listAll, "get Machine machines/worker-a", getIt,
		`status MachineDeletionRemediation machines/node-a {"metadata":{"resourceVersion":"7"},"status":{"machine":{"kind":"Machine","namespace":"machines","name":"worker-a","uid":"worker-a-uid"},"owner":{"kind":"MachineSet","namespace":"machines","name":"workers","uid":"set-uid","apiVersion":"machine.openshift.io/v1beta1"},"machines":2,}}`,
		"event about MachineDeletionRemediation: Normal RemediationFinished Remediate [remediation] machine machines/worker-a is gone, and MachineSet workers has 2 that have joined the cluster",
	)
	if len(c.pools.waiting) > 0 {
		t.Errorf("an ended remediation still waits: %v", c.pools.waiting)
	}
	(&unstructured.Unstructured{Object: s.objects["MachineDeletionRemediation machines/node-a"]}).SetDeletionTimestamp(&metav1.Time{Time: noon})
	wantCalls(t, "it is deleted", reconciled(t, s, c), seeIt, getIt,
		`patch MachineDeletionRemediation machines/node-a {"metadata":{"finalizers":[],"resourceVersion":"7"}}`)
	delete(s.objects, "MachineDeletionRemediation machines/node-a")
	wantCalls(t, "it is gone itself", reconciled(t, s, c), seeIt)
}

// TestFailedCallsEndAReconcile: each call may fail. The next reconcile goes on, and comes to the same end.
func TestFailedCallsEndAReconcile(t *testing.T) {
	s, c := world()
	whole := reconciled(t, s, c)
	for n, call := range whole {
		if strings.HasPrefix(call, "event") {
			continue
		}
		t.Run(call[:min(len(call), 60)], func(t *testing.T) {
			s, c := world()
			s.failAt, s.err = n+1, errDown
			err := c.reconcile(t.Context(), nodeA)
			if !errors.Is(err, errDown) || err.Error() == errDown.Error() {
				t.Fatalf("reconciling returns %v", err)
			}
			refused := strings.HasPrefix(call, "delete")
			if logged := strings.HasPrefix(s.calls[len(s.calls)-1], "event about MachineDeletionRemediation: Warning MachineDeletionRefused Remediate [remediation] machine machines/worker-a was not deleted"); logged != refused || (!refused && len(s.calls) != n+1) {
				t.Errorf("after the failure there are the calls %q", s.calls[n+1:])
			}
			s.failAt = 0
			reconciled(t, s, c)
			if s.objects["Machine machines/worker-a"]["metadata"].(map[string]any)["deletionTimestamp"] == nil {
				t.Error("the machine was not deleted in the end")
			}
		})
	}
}

// TestDeletionsThatFail: only a refusal is an event.
func TestDeletionsThatFail(t *testing.T) {
	for sentence, tc := range map[string]struct {
		err           error
		fails, refuse bool
		ended         bool
	}{
		"it is gone":            {apierrors.NewNotFound(resource, "worker-a"), false, false, false},
		"it is another":         {apierrors.NewConflict(resource, "worker-a", errDown), true, false, false},
		"forbidden":             {apierrors.NewForbidden(resource, "worker-a", errDown), true, true, false},
		"when the process ends": {errDown, true, false, true},
	} {
		s, c := world()
		n := slices.IndexFunc(reconciled(t, s, c), func(call string) bool { return strings.HasPrefix(call, "delete") })
		s, c = world()
		s.failAt, s.err = n+1, tc.err
		ctx, cancel := context.WithCancel(t.Context())
		if tc.ended {
			cancel()
		}
		err := c.reconcile(ctx, nodeA)
		cancel()
		event := strings.Contains(s.calls[len(s.calls)-1], "MachineDeletionRefused")
		if (err != nil) != tc.fails || event != tc.refuse || (err != nil && !strings.HasPrefix(err.Error(), "deleting machine machines/worker-a: ")) {
			t.Errorf("%s: reconciling returns %v, an event: %t", sentence, err, event)
		}
	}
}

// TestOwnersThatCantBeRead are taken to want more machines.
func TestOwnersThatCantBeRead(t *testing.T) {
	owner := &v1alpha1.RemediationOwner{APIVersion: "machine.openshift.io/v1beta1", ObjectReference: v1alpha1.ObjectReference{Kind: "MachineSet", Namespace: "machines", Name: "workers", UID: "set-uid"}}
	two := 2
	for sentence, tc := range map[string]struct {
		err  error
		want *ownerFacts
	}{
		"it is read":   {nil, &ownerFacts{found: true, replicas: &two}},
		"gone":         {apierrors.NewNotFound(resource, "workers"), &ownerFacts{}},
		"forbidden":    {apierrors.NewForbidden(resource, "workers", errDown), &ownerFacts{found: true}},
		"unknown kind": {&meta.NoKindMatchError{}, &ownerFacts{found: true}},
		"down":         {errDown, nil},
	} {
		s, c := world()
		s.failAt, s.err = 1, tc.err
		got, err := c.getOwner(t.Context(), owner)
		if diff := cmp.Diff(tc.want, got, cmp.AllowUnexported(ownerFacts{})); diff != "" || (err != nil) != (tc.want == nil) {
			t.Errorf("%s: %v (-want +got):\n%s", sentence, err, diff)
		}
		if err != nil && (!errors.Is(err, errDown) || !strings.HasPrefix(err.Error(), "getting MachineSet machines/workers: ")) {
			t.Errorf("%s: %v", sentence, err)
		}
	}
}

// TestReplacedRemediationIsSkipped, as is a remediation that the API server no longer has.
func TestReplacedRemediationIsSkipped(t *testing.T) {
	for _, uid := range []string{"another", ""} {
		s, c := world()
		live := &server{objects: map[string]map[string]any{}}
		if uid != "" {
			live.put(strings.ReplaceAll(`{"apiVersion":"fettle.io/v1alpha1","kind":"MachineDeletionRemediation","metadata":{"namespace":"machines","name":"node-a","uid":"UID"}}`, "UID", uid))
		}
		c.Live = live
		wantCalls(t, "the cache", reconciled(t, s, c), seeIt)
		wantCalls(t, "the API server", live.calls, getIt)
	}
}

// TestResultsOfReconciles decide when a remediation comes again.
func TestResultsOfReconciles(t *testing.T) {
	for sentence, tc := range map[string]struct {
		err              error
		ended            bool
		requeues, logged int
	}{
		"done":             {nil, false, 0, 0},
		"a conflict":       {apierrors.NewConflict(resource, "it", errDown), false, 2, 0},
		"not found":        {apierrors.NewNotFound(resource, "it"), false, 2, 0},
		"down":             {errDown, false, 2, 1},
		"the process ends": {errDown, true, 1, 0},
	} {
		s, c := world()
		logged := 0
		c.Log = funcr.New(func(string, string) { logged++ }, funcr.Options{})
		s.failAt, s.err = 3, tc.err
		c.queue.AddRateLimited(nodeA)
		ctx, cancel := context.WithCancel(t.Context())
		if tc.ended {
			cancel()
		}
		if tc.err == nil { // an ended remediation
			s.put(`{"kind":"MachineDeletionRemediation","metadata":{"namespace":"machines","name":"node-a"},"status":{"conditions":[{"type":"Succeeded","status":"True"}]}}`)
		}
		if !c.worker().Next(ctx) || c.queue.NumRequeues(nodeA) != tc.requeues || logged != tc.logged {
			t.Errorf("%s: it was put back %d times, and %d lines are logged", sentence, c.queue.NumRequeues(nodeA), logged)
		}
		cancel()
		c.queue.Add(nodeA)
		if c.queue.Len() != 1 {
			t.Errorf("%s: it can't be queued again", sentence)
		}
		_, _ = c.queue.Get()
		c.queue.ShutDown()
		if c.worker().Next(t.Context()) {
			t.Errorf("%s: there is more to do after the end", sentence)
		}
	}
}

// clock reads the time of a bubble.
func clock() time.Time { return time.Now() } //nolint:forbidigo // it is no real time

// TestReconcilesAreBounded in time.
func TestReconcilesAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, c := world()
		s.hangs = true
		c.queue.Add(nodeA)
		begun := clock()
		if !c.worker().Next(t.Context()) || clock().Sub(begun) != 31*time.Second {
			t.Errorf("a reconcile took %s", clock().Sub(begun))
		}
		c.queue.ShutDown()
	})
}

// TestOwnerIsPolled once a minute while only its replicas can change the result.
func TestOwnerIsPolled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, c := world()
		defer c.queue.ShutDown()
		reconciled(t, s, c)
		delete(s.objects, "Machine machines/worker-a")
		reconciled(t, s, c)
		<-time.After(time.Minute - time.Millisecond)
		if c.queue.Len() != 0 {
			t.Error("the owner is read again within a minute")
		}
		<-time.After(2 * time.Millisecond)
		synctest.Wait()
		if c.queue.Len() != 1 {
			t.Error("the owner is not read again")
		}
	})
}

// TestEventsOfMachinesWake the remediations that wait for their owner, and events of remediations themselves.
func TestEventsOfMachinesWake(t *testing.T) {
	informers := informertest.New()
	_, c := world()
	c.Informers = informers
	if err := c.Watch(t.Context()); err != nil {
		t.Fatalf("watching: %v", err)
	}
	parse := func(text string) *unstructured.Unstructured {
		u := &unstructured.Unstructured{}
		if err := json.Unmarshal([]byte(text), &u.Object); err != nil {
			t.Fatalf("decoding: %v", err)
		}
		return u
	}
	c.pools.await("set-uid", nodeA)
	machines, remediations := c.machineEvents(), c.remediationEvents() // an informer would recover from their panics
	wakes := func(sentence string, want int, do func()) {
		t.Helper()
		do()
		got := c.queue.Len()
		for range got {
			key, _ := c.queue.Get()
			c.queue.Done(key)
			if key.Namespace != "machines" || !strings.HasPrefix(key.Name, "node-") {
				t.Errorf("%s wakes %s", sentence, key)
			}
		}
		if got != want {
			t.Errorf("%s wakes %d, want %d", sentence, got, want)
		}
	}
	m, other := parse(machineText("worker-c", "")), parse(strings.ReplaceAll(machineText("worker-c", ""), "set-uid", "other-uid"))
	free := parse(machineText("worker-d", ""))
	free.SetOwnerReferences(nil)
	informers.Of("Machine").Handler.OnAdd(m, false)
	informers.Of("MachineDeletionRemediation").Handler.OnAdd(remediation(called("node-b")), false)
	wakes("both watches", 2, func() {})
	wakes("a new machine", 1, func() { machines.OnAdd(m, false) })
	wakes("a machine of another set", 0, func() { machines.OnAdd(other, false) })
	wakes("a machine of no set", 0, func() { machines.OnAdd(free, false) })
	wakes("an update that changes nothing", 0, func() { machines.OnUpdate(m, m.DeepCopy()) })
	wakes("a machine that joins", 1, func() { machines.OnUpdate(m, parse(machineText("worker-c", "node-c"))) })
	wakes("a machine that leaves the set", 1, func() { machines.OnUpdate(m, other) })
	wakes("a machine that comes to the set", 1, func() { machines.OnUpdate(other, m) })
	wakes("a machine that is gone", 1, func() { machines.OnDelete(m) })
	wakes("a machine whose end was missed", 1, func() { machines.OnDelete(toolscache.DeletedFinalStateUnknown{Obj: m}) })
	wakes("no machine", 0, func() {
		machines.OnAdd("nonsense", false)
		machines.OnUpdate("nonsense", m)
		machines.OnUpdate(m, "nonsense")
		machines.OnDelete("nonsense")
	})
	r := remediation()
	wakes("a remediation", 1, func() { remediations.OnAdd(r, false) })
	wakes("a changed remediation", 1, func() { remediations.OnUpdate(remediation(called("node-z")), r) })
	wakes("a remediation that is gone", 1, func() { remediations.OnDelete(toolscache.DeletedFinalStateUnknown{Key: "machines/node-a"}) })
	wakes("no remediation", 0, func() { remediations.OnAdd("nonsense", false) })
	c.queue.ShutDown()
}

// TestStartWaitsForTheWatch, and for the first lists; then some remediations are reconciled at a time.
func TestStartWaitsForTheWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		informers := &informertest.Syncing{}
		s, c := world()
		c.Informers, s.hangs = informers, true
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		for i := range 20 {
			c.queue.Add(types.NamespacedName{Namespace: "machines", Name: fmt.Sprint(i)})
		}
		go func() { done <- c.Start(ctx) }()
		wantLeft := func(sentence string, want int) {
			t.Helper()
			<-time.After(time.Second)
			synctest.Wait()
			if got := c.queue.Len(); got != want {
				t.Errorf("%s: %d are left, want %d", sentence, got, want)
			}
		}
		wantLeft("nothing is watched", 20)
		if err := c.Watch(t.Context()); err != nil || c.HasSynced() {
			t.Errorf("watching: %v, synced: %t", err, c.HasSynced())
		}
		if err := c.Watch(t.Context()); err != nil {
			t.Errorf("watching again: %v", err)
		}
		wantLeft("the first lists are not here", 20)
		informers.Synced.Store(true)
		wantLeft("eight at a time", 12)
		cancel()
		ends := clock()
		if err := <-done; err != nil || !c.queue.ShuttingDown() || clock().Sub(ends) < time.Second {
			t.Errorf("Start returns %v after %s, and the queue is closed: %t", err, clock().Sub(ends), c.queue.ShuttingDown())
		}
	})
}

// TestKindsThatAreNotServedAreNotWatched, and are tried again by the caller.
func TestKindsThatAreNotServedAreNotWatched(t *testing.T) {
	informers := informertest.New()
	informers.Refuse["Machine"] = &meta.NoKindMatchError{}
	_, c := world()
	c.Informers = informers
	err := c.Watch(t.Context())
	if !meta.IsNoMatchError(err) {
		t.Errorf("watching returns %v", err)
	}
	c.queue.ShutDown()
}

// TestAllRemediationsAreReconciled, however few workers there are.
func TestAllRemediationsAreReconciled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		informers := &informertest.Syncing{}
		_, c := world()
		c.Informers, c.Cache = informers, emptyReader{}
		if err := c.Watch(t.Context()); err != nil {
			t.Fatalf("watching: %v", err)
		}
		informers.Synced.Store(true)
		ctx, cancel := context.WithCancel(t.Context())
		for i := range 5 * workers {
			c.queue.Add(types.NamespacedName{Namespace: "machines", Name: fmt.Sprint(i)})
		}
		done := make(chan error, 1)
		go func() { done <- c.Start(ctx) }()
		<-time.After(time.Second)
		if c.queue.Len() != 0 {
			t.Errorf("%d remediations are left", c.queue.Len())
		}
		cancel()
		<-done
	})
}

// emptyReader has no objects, and is safe for concurrent use.
type emptyReader struct{ client.Reader }

func (emptyReader) Get(_ context.Context, at client.ObjectKey, _ client.Object, _ ...client.GetOption) error {
	return apierrors.NewNotFound(resource, at.Name)
}

// TestStartEndsEarly, watched and synced or not.
func TestStartEndsEarly(t *testing.T) {
	for _, watched := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			_, c := world()
			if watched {
				if err := c.Watch(t.Context()); err != nil {
					t.Fatalf("watching: %v", err)
				}
			}
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan error, 1)
			c.queue.Add(nodeA)
			go func() { done <- c.Start(ctx) }()
			synctest.Wait()
			cancel()
			if err := <-done; err != nil || !c.queue.ShuttingDown() || c.queue.Len() != 1 {
				t.Errorf("Start returns %v, and the queue is closed: %t", err, c.queue.ShuttingDown())
			}
		})
	}
}

func TestOnlyTheLeaderReconciles(t *testing.T) {
	if _, c := world(); !c.NeedLeaderElection() {
		t.Error("replicas that don't lead reconcile too")
	}
}

// TestWaitsOfRemediations begin with the record, also after a restart, and end with the remediation.
func TestWaitsOfRemediations(t *testing.T) {
	waits := func(c *Client) bool { return slices.Contains(c.pools.waiting["set-uid"], nodeA) }
	s, c := world()
	reconciled(t, s, c)
	if !waits(c) {
		t.Error("a remediation that has just begun does not wait")
	}
	restart := NewClient(c.Config)
	reconciled(t, s, restart)
	if !waits(restart) {
		t.Error("a remediation does not wait after a restart")
	}
	(&unstructured.Unstructured{Object: s.objects["MachineDeletionRemediation machines/node-a"]}).SetDeletionTimestamp(&metav1.Time{Time: noon})
	reconciled(t, s, restart)
	if waits(restart) {
		t.Error("a deleted remediation waits")
	}
	delete(s.objects, "MachineDeletionRemediation machines/node-a")
	reconciled(t, s, c)
	if waits(c) {
		t.Error("a remediation that is gone waits")
	}
}

// TestRemediationOfAMissingNode ends without an owner to wait for.
func TestRemediationOfAMissingNode(t *testing.T) {
	s, c := world()
	delete(s.objects, "Node node-a")
	got := reconciled(t, s, c)
	if last := got[len(got)-1]; !strings.Contains(last, "Warning RemediationCannotStart Remediate [remediation] nothing was deleted, since there is no node node-a") {
		t.Errorf("the last call is %s", last)
	}
	if len(c.pools.waiting) > 0 {
		t.Errorf("it waits for %v", c.pools.waiting)
	}
}

// TestAbsentObjects count as absent without a UID to compare, too.
func TestAbsentObjects(t *testing.T) {
	s, c := world()
	clear(s.objects)
	if m, err := c.getMachine(t.Context(), workerA); err != nil || m.found || m.key != workerA {
		t.Errorf("the machine is %+v, %v", m, err)
	}
	if m, err := c.getCachedMachine(t.Context(), workerA, ""); err != nil || m.exists {
		t.Errorf("the cached machine is %+v, %v", m, err)
	}
	owner := &v1alpha1.RemediationOwner{APIVersion: "a.example/v1", ObjectReference: v1alpha1.ObjectReference{Kind: "A"}}
	if o, err := c.getOwner(t.Context(), owner); err != nil || o.found {
		t.Errorf("the owner is %+v, %v", o, err)
	}
	like := remediation()
	like.UID = ""
	if _, exists, err := c.getRemediation(t.Context(), like); err != nil || exists {
		t.Errorf("the remediation exists: %t, %v", exists, err)
	}
	s.failAt, s.err = len(s.calls)+1, errDown
	if _, exists, err := c.getRemediation(t.Context(), like); err == nil || exists {
		t.Errorf("the remediation that can't be read exists: %t, %v", exists, err)
	}
	s.put(strings.Replace(machineText("worker-a", ""), `"uid":"worker-a-uid"`, `"uid":"another","deletionTimestamp":"2026-08-03T12:00:00Z"`, 1))
	if m, err := c.getCachedMachine(t.Context(), workerA, "worker-a-uid"); err != nil || *m != (cachedMachine{}) {
		t.Errorf("a namesake that is being deleted is %+v, %v", m, err)
	}
}

// oddMachine and oddList are types that no watch has.
type oddMachine struct{ unstructured.Unstructured }

func (*oddMachine) DeepCopyObject() runtime.Object { return &metav1.Status{} }

type oddList struct {
	unstructured.UnstructuredList

	copies runtime.Object
}

func (l *oddList) DeepCopyObject() runtime.Object { return l.copies }

func (*oddList) EachListItem(func(runtime.Object) error) error { return errDown }

// TestTypesOfMachines that can't be read are errors.
func TestTypesOfMachines(t *testing.T) {
	_, c := world()
	c.Machine = &oddMachine{}
	if _, err := c.getCachedMachine(t.Context(), workerA, "a-uid"); err == nil || !strings.Contains(err.Error(), "is no object") {
		t.Errorf("reading a machine: %v", err)
	}
	c.Machines = &oddList{copies: &runtime.Unknown{}}
	if _, err := c.poolOf(t.Context(), "machines", "set-uid", "", ""); err == nil || !strings.Contains(err.Error(), "is no list") {
		t.Errorf("counting machines: %v", err)
	}
	c.Machines = &oddList{copies: &oddList{}}
	if _, err := c.poolOf(t.Context(), "machines", "set-uid", "", ""); !errors.Is(err, errDown) {
		t.Errorf("counting machines that can't be listed: %v", err)
	}
}

// mostNote is what the API server takes.
const mostNote = 1024

// TestNotesAreBounded, as the API of events is.
func TestNotesAreBounded(t *testing.T) {
	s, c := world()
	c.emit(remediation(), normal("R", strings.Repeat("x", 100_000)))
	_, note, _ := strings.Cut(s.calls[0], "Remediate ")
	if len(note) != mostNote {
		t.Errorf("the note has %d bytes", len(note))
	}
}

// TestOwnerThatIsGone ends a remediation whose machine is gone; the status says whether there is a replacement.
func TestOwnerThatIsGone(t *testing.T) {
	for _, tc := range []struct {
		joined int
		owner  *ownerFacts
		says   string
	}{
		{0, &ownerFacts{}, "so nothing replaces it"}, {3, &ownerFacts{}, "has 3 that have joined the cluster"},
		{1, ownerWanting(1), "has 1 that have joined the cluster"},
	} {
		got := decide(&facts{
			remediation: remediation(begun), fresh: true, cached: &cachedMachine{}, pool: &pool{joined: tc.joined}, owner: tc.owner, machine: &machineFacts{}, now: noon,
		})
		if got.step != record || !strings.HasSuffix(got.event.note, tc.says) {
			t.Errorf("with %d the step is %d, and the note %q", tc.joined, got.step, got.event.note)
		}
	}
}

// TestCountsAreForgotten with the last remediation that waits for them.
func TestCountsAreForgotten(t *testing.T) {
	p := newPools()
	p.await("set", nodeA)
	if _, err := p.count("set", func() (pool, error) { return pool{joined: 1}, nil }); err != nil {
		t.Fatal(err)
	}
	p.forget(nodeA)
	if len(p.counted) > 0 {
		t.Errorf("kept are %v", p.counted)
	}
}
