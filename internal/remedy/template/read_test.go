package template

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"pgregory.net/rapid"
	"sigs.k8s.io/yaml"

	"github.com/fettle-io/fettle/internal/core"
)

const owned = `
apiVersion: x.example/v1
kind: X
metadata:
  name: w-12345
  namespace: remediators
  uid: x-uid
  creationTimestamp: "2026-08-03T12:00:00Z"
  annotations: {remediation.medik8s.io/node-name: w, remediation.medik8s.io/template-name: t}
  ownerReferences:
  - {apiVersion: remediation.medik8s.io/v1alpha1, kind: NodeHealthCheck, name: check, uid: check-uid}
  - {apiVersion: v1, kind: Node, name: w, uid: w-uid}
`

const cloned = `
apiVersion: x.example/v1
kind: X
metadata:
  name: m
  namespace: machines
  uid: c-uid
  annotations: {machine.openshift.io/cloned-from-name: t}
  ownerReferences: [{apiVersion: machine.openshift.io/v1beta1, kind: Machine, name: m, uid: m-uid}]
`

func TestReadRequest(t *testing.T) {
	plain := core.Request{
		ID: core.ID{Kind: "X", Namespace: "remediators", Name: "w-12345", UID: "x-uid"}, APIVersion: "x.example/v1",
		Remedy: NodeRemedy, Template: reference("t"),
		Target: core.ID{Kind: "Node", Name: "w", UID: "w-uid"}, Policy: core.ID{Kind: "NodeHealthCheck", Name: "check", UID: "check-uid"},
		Created: noon,
	}
	with := func(change func(*core.Request)) *core.Request {
		r := plain
		change(&r)
		return &r
	}
	machine := &core.Request{
		ID: core.ID{Kind: "X", Namespace: "machines", Name: "m", UID: "c-uid"}, APIVersion: "x.example/v1",
		Remedy: MachineRemedy, Template: core.Reference{APIVersion: "x.example/v1", Kind: "XTemplate", Namespace: "machines", Name: "t"},
		Target: core.ID{Kind: "Machine", Namespace: "machines", Name: "m", UID: "m-uid"},
	}
	of := *machine
	clusterMachine := &of
	clusterMachine.Remedy = ClusterMachineRemedy
	also := *clusterMachine
	instead := func(old, fresh string) string { return strings.Replace(owned, old, fresh, 1) }
	cases := map[string]struct {
		object string
		want   *core.Request
	}{
		"nothing said yet": {owned, with(func(*core.Request) {})},
		"under way": {owned + "status: {conditions: [{type: Processing, status: \"True\"}, {type: Succeeded, status: Unknown}]}",
			with(func(r *core.Request) { r.Processing = core.Yes })},
		"done, and the node will not return": {owned + `status: {conditions: [{type: Succeeded, status: "True"}, {type: Processing, status: "False"}, {type: PermanentNodeDeletionExpected, status: "True"}]}`,
			with(func(r *core.Request) { r.Processing, r.Succeeded, r.Replaces = core.No, core.Yes, true })},
		"done at an instant": {owned + `status: {conditions: [{type: Succeeded, status: "True", lastTransitionTime: "2026-08-03T15:00:00+02:00"}]}`,
			with(func(r *core.Request) { r.Succeeded, r.SucceededSince = core.Yes, noon.Add(time.Hour) })},
		"given up": {owned + `status: {conditions: [{type: Succeeded, status: "False", lastTransitionTime: soon}]}`,
			with(func(r *core.Request) { r.Succeeded = core.No })},
		"conditions of every kind of nonsense": {owned + `status: {conditions: [5, null, [], {type: 7}, {type: Processing, status: 1}, {status: "True"}, {type: Succeeded, status: "False"}]}`,
			with(func(r *core.Request) { r.Succeeded = core.No })},
		"conditions that are no list": {owned + "status: {conditions: many}", with(func(*core.Request) {})},
		"a status that is a word":     {owned + "status: well", with(func(*core.Request) {})},
		"told to stop": {instead("annotations: {", `annotations: {remediation.medik8s.io/nhc-timed-out: "2026-08-03T15:00:00+02:00", `),
			with(func(r *core.Request) { r.Stopped = noon.Add(time.Hour) })},
		"told to stop in words": {instead("annotations: {", "annotations: {remediation.medik8s.io/nhc-timed-out: now, "),
			with(func(r *core.Request) { r.Stopped = noon })},
		"leaving": {instead("  uid: x-uid", "  uid: x-uid\n  deletionTimestamp: \"2026-08-03T13:00:00Z\""),
			with(func(r *core.Request) { r.Leaving, r.LeavingSince = true, noon.Add(time.Hour) })},
		"leaving, and kept": {instead("  uid: x-uid", "  uid: x-uid\n  deletionTimestamp: \"2026-08-03T13:00:00Z\"\n  finalizers: [a.example/f, b.example/f, c.example/f, d.example/f]"),
			with(func(r *core.Request) {
				r.Leaving, r.LeavingSince, r.KeptBy = true, noon.Add(time.Hour), "a.example/f, b.example/f, c.example/f and 1 more"
			})},
		"no annotations": {instead("  annotations: {remediation.medik8s.io/node-name: w, remediation.medik8s.io/template-name: t}\n", ""),
			with(func(r *core.Request) { r.Target, r.Template.Name = core.ID{Kind: "Node", Name: "w-12345"}, "" })},
		"no owner but the health check": {instead("  - {apiVersion: v1, kind: Node, name: w, uid: w-uid}\n", ""),
			with(func(r *core.Request) { r.Target.UID = "" })},
		"the health check is deleted, and struck off the owners": {
			strings.Replace(instead("  - {apiVersion: remediation.medik8s.io/v1alpha1, kind: NodeHealthCheck, name: check, uid: check-uid}\n", ""),
				"annotations: {", "annotations: {fettle.io/node-health-check: check, ", 1),
			with(func(r *core.Request) { r.Policy.UID = "" }),
		},
		"another version of the health check": {instead("medik8s.io/v1alpha1", "medik8s.io/v1"), with(func(*core.Request) {})},
		"a kind without namespace, made from one with": {strings.Replace(instead("  namespace: remediators\n", ""), "annotations: {", "annotations: {fettle.io/template-namespace: remediators, ", 1),
			with(func(r *core.Request) { r.ID.Namespace = "" })},
		"a person's own":                        {instead("medik8s.io/v1alpha1", "example/v1"), nil},
		"owners that can't be read":             {instead("remediation.medik8s.io/v1alpha1", "a/b/c"), nil},
		"a machine":                             {cloned, machine},
		"a machine of Cluster API":              {strings.NewReplacer("machine.openshift.io/v1beta1", "cluster.x-k8s.io/v1beta2", "machine.openshift.io", "cluster.x-k8s.io").Replace(cloned), clusterMachine},
		"one, in another version":               {strings.ReplaceAll(cloned, "machine.openshift.io", "cluster.x-k8s.io"), &also},
		"a machine's, told as another API does": {strings.Replace(cloned, "machine.openshift.io/cloned", "cluster.x-k8s.io/cloned", 1), nil},
		"another API's machine":                 {strings.Replace(cloned, "machine.openshift.io", "machine.example", 1), nil},
		"a machine's, from no template":         {strings.Replace(cloned, "cloned-from-name", "another", 1), nil},
	}
	for sentence, tc := range cases {
		t.Run(sentence, func(t *testing.T) {
			u := parse(t, tc.object)
			for _, own := range []bool{false, true} {
				if own && tc.want != nil {
					tc.want.Own = true
					if tc.want.Target.UID == "" { // what the owners don't say, the signature does
						tc.want.Target.UID = "w-uid"
					}
					signFor(u, &tc.want.Target)
				}
				got, _, isRequest := readRequest(u)
				if isRequest != (tc.want != nil) {
					t.Fatalf("it is a request: %t", isRequest)
				}
				if diff := cmp.Diff(tc.want, &got); isRequest && diff != "" {
					t.Errorf("request (-want +got):\n%s", diff)
				}
			}
		})
	}
}

// signFor signs an object as Fettle does for a target. An owner that is gone had a UID too.
func signFor(u *unstructured.Unstructured, target *core.ID) {
	o := core.RemedyCall{Policy: core.ID{UID: "check-uid"}, Target: core.Target{ID: *target}}
	sign(u, &o)
}

// TestNothingBreaksReading: objects come from kinds that may let anything through.
func TestNothingBreaksReading(t *testing.T) {
	value := rapid.Deferred(func() *rapid.Generator[any] { return anything(3) })
	rapid.Check(t, func(t *rapid.T) {
		u := parsed(t, owned)
		for _, path := range [][]string{{"status"}, {"status", "conditions"}, {"spec"}, {"metadata", "annotations"}, {"metadata", "ownerReferences"}, {"metadata", "creationTimestamp"}} {
			if rapid.Bool().Draw(t, "changed") {
				_ = unstructured.SetNestedField(u.Object, value.Draw(t, "value"), path...)
			}
		}
		s := newStore(func(*unstructured.Unstructured) {})
		s.put(u)
		s.put(u.DeepCopy())
	})
}

func parsed(t *rapid.T, text string) *unstructured.Unstructured {
	u := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(text), &u.Object); err != nil {
		t.Fatalf("parsing YAML: %v", err)
	}
	return u
}

// anything is a JSON value of some depth.
func anything(depth int) *rapid.Generator[any] {
	leaf := rapid.OneOf(
		rapid.SampledFrom([]any{nil, "", "True", "Succeeded", "v1", "NodeHealthCheck", true}), rapid.Map(rapid.Int64(), func(n int64) any { return n }),
	)
	if depth == 0 {
		return leaf
	}
	key := rapid.SampledFrom([]string{"type", "status", "apiVersion", "kind", "name", "conditions"})
	return rapid.OneOf(leaf,
		rapid.Map(rapid.SliceOfN(anything(depth-1), 0, 3), func(l []any) any { return l }),
		rapid.Map(rapid.MapOfN(key, anything(depth-1), 0, 4), func(m map[string]any) any { return m }),
	)
}

// TestPhaseIsRead, and is bounded, as it is whatever the remediator writes (I15).
func TestPhaseIsRead(t *testing.T) {
	for want, status := range map[string]any{
		"Waiting": map[string]any{"phase": "Waiting"}, "": map[string]any{"phase": int64(7)},
		strings.Repeat("x", mostPhase): map[string]any{"phase": strings.Repeat("x", 5*mostPhase)},
	} {
		u := &unstructured.Unstructured{Object: map[string]any{"status": status}}
		if got := phase(u); got != want {
			t.Errorf("the phase of %v is %q", status, got)
		}
	}
}
