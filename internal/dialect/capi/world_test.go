package capi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	jsonpatch "github.com/evanphx/json-patch/v5"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fettle-io/fettle/internal/clusterapi"
	"github.com/fettle-io/fettle/internal/core"
	"github.com/fettle-io/fettle/internal/informer/informertest"
	"github.com/fettle-io/fettle/internal/node"
)

// noon is the time of these tests.
var noon = time.Date(2026, time.August, 3, 12, 0, 0, 0, time.UTC)

func ago(d time.Duration) time.Time { return noon.Add(-d) }

var (
	errDown = errors.New("the API server is down")
	blue    = types.NamespacedName{Namespace: "clusters", Name: "blue"}
	green   = types.NamespacedName{Namespace: "clusters", Name: "green"}
)

// object parses an object as the API server has it.
func object(t *testing.T, yaml string) *unstructured.Unstructured {
	t.Helper()
	body, err := utilyaml.ToJSON([]byte(yaml))
	u := &unstructured.Unstructured{}
	if err == nil {
		err = u.UnmarshalJSON(body)
	}
	if err != nil {
		t.Fatalf("reading an object: %v", err)
	}
	return u
}

// decoded decodes an object as a cache has it.
func decoded[T json.Unmarshaler](t *testing.T, u *unstructured.Unstructured, into T) T {
	t.Helper()
	body, err := u.MarshalJSON()
	if err == nil {
		err = into.UnmarshalJSON(body)
	}
	if err != nil {
		t.Fatalf("decoding: %v", err)
	}
	return into
}

// theCluster returns the cluster blue, which is ready, with changes as YAML.
func theCluster(t *testing.T, changes ...string) *unstructured.Unstructured {
	t.Helper()
	return edited(t, object(t, `
apiVersion: cluster.x-k8s.io/v1beta2
kind: Cluster
metadata: {namespace: clusters, name: blue, uid: blue-uid, resourceVersion: "3"}
spec: {}
status:
  conditions:
  - {type: InfrastructureReady, status: "True", reason: Ready, message: "", lastTransitionTime: "2026-08-01T00:00:00Z"}
  - {type: ControlPlaneInitialized, status: "True", reason: Initialized, message: "", lastTransitionTime: "2026-08-01T00:10:00Z"}
`), changes...)
}

// aMachine returns a machine of blue that has a node and a machine set.
func aMachine(t *testing.T, name string, changes ...string) *unstructured.Unstructured {
	t.Helper()
	return edited(t, object(t, strings.ReplaceAll(`
apiVersion: cluster.x-k8s.io/v1beta2
kind: Machine
metadata:
  namespace: clusters
  name: NAME
  uid: NAME-uid
  resourceVersion: "7"
  generation: 2
  creationTimestamp: "2026-08-02T00:00:00Z"
  labels: {cluster.x-k8s.io/cluster-name: blue, role: worker}
  ownerReferences: [{apiVersion: cluster.x-k8s.io/v1beta2, kind: MachineSet, name: workers, uid: workers-uid, controller: true}]
spec: {clusterName: blue}
status:
  nodeRef: {name: NAME-node}
  conditions:
  - {type: InfrastructureReady, status: "True", reason: Ready, message: "", lastTransitionTime: "2026-08-02T00:01:00Z"}
  deprecated: {v1beta1: {conditions: []}}
`, "NAME", name)), changes...)
}

// aCheck returns a health check of blue's workers.
func aCheck(t *testing.T, name string, changes ...string) *unstructured.Unstructured {
	t.Helper()
	return edited(t, object(t, strings.ReplaceAll(`
apiVersion: cluster.x-k8s.io/v1beta2
kind: MachineHealthCheck
metadata:
  namespace: clusters
  name: NAME
  uid: NAME-uid
  resourceVersion: "5"
  generation: 4
  creationTimestamp: "2026-08-01T00:00:00Z"
  labels: {cluster.x-k8s.io/cluster-name: blue}
  ownerReferences: [{apiVersion: cluster.x-k8s.io/v1beta2, kind: Cluster, name: blue, uid: blue-uid}]
spec:
  clusterName: blue
  selector: {matchLabels: {role: worker}}
  checks:
    unhealthyNodeConditions:
    - {type: Ready, status: "False", timeoutSeconds: 300}
    - {type: Ready, status: Unknown, timeoutSeconds: 300}
`, "NAME", name)), changes...)
}

// edited merges changes into an object, each as YAML. Null removes a field.
func edited(t *testing.T, u *unstructured.Unstructured, changes ...string) *unstructured.Unstructured {
	t.Helper()
	body, err := u.MarshalJSON()
	for _, change := range changes {
		var patch []byte
		if err == nil {
			patch, err = utilyaml.ToJSON([]byte(change))
		}
		if err == nil {
			body, err = jsonpatch.MergePatch(body, patch)
		}
	}
	fresh := &unstructured.Unstructured{}
	if err == nil {
		err = fresh.UnmarshalJSON(body)
	}
	if err != nil {
		t.Fatalf("editing: %v", err)
	}
	return fresh
}

// nodes are the nodes of a workload cluster.
type nodes struct {
	facts   map[string]node.Facts
	answers core.Tri
	why     string
	// lost, if set, is called just before nodes are looked up.
	lost func()
}

func (n *nodes) Answers() (core.Tri, string) { return n.answers, n.why }

func (n *nodes) Lookup(yield func(find func(string) (node.Facts, bool))) {
	if n.lost != nil {
		n.lost()
	}
	yield(func(name string) (node.Facts, bool) {
		f, seen := n.facts[name]
		return f, seen
	})
}

func (n *nodes) ReadNode(_ context.Context, name string) (core.Node, error) {
	if n.answers != core.Yes {
		return core.Node{}, errDown
	}
	f, seen := n.facts[name]
	if !seen {
		return core.Node{State: core.NodeGone, Name: name}, nil
	}
	return f.Node, nil
}

// has adds nodes whose condition Ready has this status since then.
func (n *nodes) has(status string, since time.Time, names ...string) {
	for _, name := range names {
		n.facts[name] = node.Facts{Node: core.Node{
			State: core.NodePresent, Name: name, UID: name + "-uid", Conditions: []core.Condition{{Type: "Ready", Status: status, Since: since}},
		}}
	}
}

// harness is a management cluster: an API server, caches that tests fill, and the dialect of blue.
type harness struct {
	t       *testing.T
	in      *informertest.Informers
	client  *Client
	dialect *Dialect
	nodes   *nodes
	now     time.Time

	mu      sync.Mutex
	objects map[string]*unstructured.Unstructured
	// refuse has errors for writes by the name of the object, or by the write as in writes. A write to the object in panics
	// panics.
	refuse map[string]error
	panics string
	// unread has errors for reads by the key of the object.
	unread map[string]error
	writes []string
	events []string
	woken  map[types.NamespacedName]int
	sets   int
	later  []func()
}

// begin returns a harness with synced and empty caches.
func begin(t *testing.T, changes ...func(*Config)) *harness {
	t.Helper()
	s := &harness{
		t: t, now: noon, nodes: &nodes{facts: map[string]node.Facts{}, answers: core.Yes},
		in:      informertest.New(),
		objects: map[string]*unstructured.Unstructured{}, refuse: map[string]error{}, woken: map[types.NamespacedName]int{},
	}
	s.in.SetSynced(true)
	config := Config{
		Informers: s.in, Live: s.api(), Writer: s.api(), Events: s, Now: func() time.Time { return s.now },
		After:   func(_ time.Duration, do func()) { s.later = append(s.later, do) },
		Wake:    func(of types.NamespacedName) { s.woken[of]++ },
		Changed: func() { s.sets++ },
	}
	for _, change := range changes {
		change(&config)
	}
	s.client = NewClient(config)
	if err := s.client.Watch(t.Context()); err != nil {
		t.Fatalf("watching: %v", err)
	}
	s.dialect = s.client.Dialect(blue, s.nodes)
	return s
}

// show puts objects on the API server and into the caches.
func (s *harness) show(objects ...*unstructured.Unstructured) *harness {
	s.t.Helper()
	for _, u := range objects {
		s.mu.Lock()
		s.objects[keyOf(u)] = u.DeepCopy()
		s.mu.Unlock()
		s.see(u)
	}
	return s
}

// see puts an object into its cache alone.
func (s *harness) see(u *unstructured.Unstructured) {
	s.t.Helper()
	var obj client.Object = u.DeepCopy()
	switch u.GetKind() {
	case "Cluster":
		obj = decoded(s.t, u, &clusterapi.Cluster{})
	case "Machine":
		obj = decoded(s.t, u, &clusterapi.Machine{})
	}
	s.in.Of(u.GetKind()).Show(obj)
}

// settle returns a harness with a ready cluster, three machines whose nodes are Ready, and a health check.
func settle(t *testing.T, check ...string) *harness {
	t.Helper()
	s := begin(t)
	s.nodes.has("True", ago(time.Hour), "a-node", "b-node", "c-node")
	return s.show(theCluster(t), aMachine(t, "a"), aMachine(t, "b"), aMachine(t, "c"), aCheck(t, "check", check...))
}

func (s *harness) observe() core.Observation {
	s.t.Helper()
	o, err := s.dialect.Observe()
	if err != nil {
		s.t.Fatalf("observing: %v", err)
	}
	return o
}

// pass does what a pass of the engine does, without calling remedies.
func (s *harness) pass(changes ...func(*core.Cluster, []core.Policy)) (core.Observation, core.Decision) {
	s.t.Helper()
	o := s.observe()
	cluster := core.Cluster{Observed: o.Observed, ClockAgrees: core.Yes, Upgrading: o.Upgrading, UpgradingWhy: o.UpgradingWhy, Targets: o.Targets, Requests: o.Requests}
	for i := range cluster.Targets {
		t := &cluster.Targets[i]
		t.NodeReadAt = s.now
		if t.Node.State == core.NodeUnseen {
			t.Node.State = core.NodeGone
		}
	}
	for _, change := range changes {
		change(&cluster, o.Policies)
	}
	if o.Observed != core.Yes {
		if err := s.dialect.ReportBlocked(s.t.Context()); err != nil {
			s.t.Fatalf("standing by: %v", err)
		}
		return o, core.Decision{}
	}
	d := core.Decide(o.Policies, cluster, s.now)
	if failed := s.dialect.WriteStatuses(s.t.Context(), d.Reports(o.Policies, &cluster)); len(failed) > 0 {
		s.t.Fatalf("recording: %v", failed)
	}
	if _, err := s.dialect.WriteConditions(s.t.Context(), o.Policies, &cluster, d.CombinedVerdicts(o.Policies, &cluster)); err != nil {
		s.t.Fatalf("marking: %v", err)
	}
	return o, d
}

// kindOf returns the kind of an object. Machines are a Go type that does not have it.
func kindOf(u client.Object) string {
	if _, slimmed := u.(*clusterapi.Machine); slimmed {
		return machineKind
	}
	return u.GetObjectKind().GroupVersionKind().Kind
}

func keyOf(u client.Object) string {
	return kindOf(u) + " " + u.GetNamespace() + "/" + u.GetName()
}

// stored returns an object of the API server.
func (s *harness) stored(key string) *unstructured.Unstructured {
	s.t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	u := s.objects[key]
	if u == nil {
		s.t.Fatalf("there is no %s", key)
	}
	return u.DeepCopy()
}

// said returns the conditions of an object as lines, from both lists.
func (s *harness) said(key string) []string {
	s.t.Helper()
	u := s.stored(key)
	var lines []string
	for generation, path := range map[string][]string{"": {"status", "conditions"}, "old": {"status", "deprecated", "v1beta1", "conditions"}} {
		list, _, err := unstructured.NestedSlice(u.Object, path...)
		if err != nil {
			s.t.Fatalf("reading conditions: %v", err)
		}
		for _, each := range list {
			c := each.(map[string]any)
			line := strings.TrimSpace(fmt.Sprintf("%s %s=%s", generation, c["type"], c["status"]))
			if c["reason"] != nil {
				line += fmt.Sprintf(" %s", c["reason"])
			}
			lines = append(lines, line)
		}
	}
	slices.Sort(lines)
	return lines
}

// written returns the writes since the last call, as kind and name, sorted.
func (s *harness) written() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	w := s.writes
	s.writes = nil
	slices.Sort(w)
	return w
}

// emitted returns the events since the last call.
func (s *harness) emitted() []string {
	e := s.events
	s.events = nil
	return e
}

// Eventf records an event.
func (s *harness) Eventf(regarding, _ runtime.Object, kind, reason, _, note string, args ...any) {
	ref, _ := regarding.(*corev1.ObjectReference)
	s.events = append(s.events, strings.Join([]string{kind, reason, ref.Kind + " " + ref.Name, fmt.Sprintf(note, args...)}, "|"))
}

// api is the harness as an API server.
type api struct {
	client.Client

	s *harness
}

func (s *harness) api() client.Client { return api{s: s} }

func (a api) Get(_ context.Context, at client.ObjectKey, into client.Object, _ ...client.GetOption) error {
	into.SetNamespace(at.Namespace)
	into.SetName(at.Name)
	a.s.mu.Lock()
	defer a.s.mu.Unlock()
	if err := a.s.unread[keyOf(into)]; err != nil {
		return err
	}
	have := a.s.objects[keyOf(into)]
	if have == nil {
		return apierrors.NewNotFound(schema.GroupResource{}, at.Name)
	}
	return give(have, into)
}

// give decodes an object of the server.
func give(have *unstructured.Unstructured, into client.Object) error {
	if u, whole := into.(*unstructured.Unstructured); whole {
		u.Object = have.DeepCopy().Object
		return nil
	}
	body, err := have.MarshalJSON()
	if err != nil {
		return err
	}
	return json.Unmarshal(body, into)
}

func (a api) Patch(_ context.Context, obj client.Object, patch client.Patch, opts ...client.PatchOption) error {
	options := (&client.PatchOptions{}).ApplyOptions(opts)
	return a.s.patch("", options.FieldManager, obj, patch)
}

func (a api) Status() client.SubResourceWriter { return statuses{s: a.s} }

type statuses struct {
	client.SubResourceWriter

	s *harness
}

func (w statuses) Patch(_ context.Context, obj client.Object, patch client.Patch, opts ...client.SubResourcePatchOption) error {
	options := &client.SubResourcePatchOptions{}
	options.ApplyOptions(opts)
	return w.s.patch("/status", options.FieldManager, obj, patch)
}

func (s *harness) patch(subresource, manager string, obj client.Object, patch client.Patch) error {
	data, err := patch.Data(obj)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.writes = append(s.writes, kindOf(obj)+subresource+" "+obj.GetName())
	if manager != clusterapi.FieldOwner {
		return fmt.Errorf("it is written as %q", manager)
	}
	have := s.objects[keyOf(obj)]
	switch {
	case s.panics == obj.GetName():
		panic("the sky falls")
	case s.refuse[obj.GetName()] != nil:
		return s.refuse[obj.GetName()]
	case s.refuse[kindOf(obj)+subresource+" "+obj.GetName()] != nil:
		return s.refuse[kindOf(obj)+subresource+" "+obj.GetName()]
	case have == nil:
		return apierrors.NewNotFound(schema.GroupResource{}, obj.GetName())
	}
	before, err := have.MarshalJSON()
	if err != nil {
		return err
	}
	after, err := apply(before, data, patch.Type())
	if err != nil {
		return apierrors.NewInvalid(have.GroupVersionKind().GroupKind(), obj.GetName(), nil)
	}
	fresh := &unstructured.Unstructured{}
	if err := fresh.UnmarshalJSON(after); err != nil {
		return err
	}
	if fresh.GetResourceVersion() != have.GetResourceVersion() {
		return apierrors.NewConflict(schema.GroupResource{}, obj.GetName(), errors.New("it has changed"))
	}
	revision, err := strconv.Atoi(have.GetResourceVersion())
	if err != nil {
		return err
	}
	fresh.SetResourceVersion(strconv.Itoa(revision + 1))
	if subresource != "" {
		s.sign(fresh, manager)
	}
	s.objects[keyOf(obj)] = fresh
	return give(fresh, obj)
}

func apply(before, data []byte, kind types.PatchType) ([]byte, error) {
	if kind == types.MergePatchType {
		return jsonpatch.MergePatch(before, data)
	}
	steps, err := jsonpatch.DecodePatch(data)
	if err != nil {
		return nil, err
	}
	return steps.Apply(before)
}

// sign records the field manager of a status, as the API server does.
func (s *harness) sign(u *unstructured.Unstructured, manager string) {
	list, _, _ := unstructured.NestedSlice(u.Object, "metadata", "managedFields")
	list = slices.DeleteFunc(list, func(e any) bool { return e.(map[string]any)["manager"] == manager })
	list = append(list, map[string]any{
		"manager": manager, "operation": "Update", "subresource": "status", "time": s.now.Format(time.RFC3339),
		"fieldsType": "FieldsV1", "fieldsV1": map[string]any{"f:status": map[string]any{"f:expectedMachines": map[string]any{}}},
	})
	if err := unstructured.SetNestedSlice(u.Object, list, "metadata", "managedFields"); err != nil {
		s.t.Fatalf("signing: %v", err)
	}
}

// wantSaid compares the conditions of an object in any order.
func (s *harness) wantSaid(sentence, key string, want ...string) {
	s.t.Helper()
	slices.Sort(want)
	if got := s.said(key); !slices.Equal(got, want) {
		s.t.Errorf("%s: %s says\n  %s\nwant\n  %s", sentence, key, strings.Join(got, "\n  "), strings.Join(want, "\n  "))
	}
}

// membersOf returns the names of the targets that each policy selects.
func membersOf(o core.Observation) map[string][]string {
	members := map[string][]string{}
	for i := range o.Policies {
		names := []string{}
		for _, m := range o.Policies[i].Members {
			names = append(names, o.Targets[m].ID.Name)
		}
		members[o.Policies[i].ID.Name] = names
	}
	return members
}

func namesOfTargets(o core.Observation) []string {
	names := map[string]bool{}
	for i := range o.Targets {
		names[o.Targets[i].ID.Name] = true
	}
	return slices.Sorted(maps.Keys(names))
}
