package cli

import (
	"errors"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/fettle-io/fettle/internal/core"
	"github.com/fettle-io/fettle/internal/sanitize"
)

// TestReplacement: the written health check replaces the one before, and all others stay.
func TestReplacement(t *testing.T) {
	object := func(text string) *unstructured.Unstructured {
		u := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(text), &u.Object); err != nil {
			t.Fatalf("reading an object: %v", err)
		}
		return u
	}
	old := object(`{metadata: {name: a, uid: u, resourceVersion: "7", labels: {a: "1", b: "1"}, annotations: {c: "1", d: "1"}},
		spec: {minHealthy: 51%, within: {a: "1"}}, status: {phase: Enabled}}`)
	written := object(`{metadata: {name: a, uid: other, labels: {b: "2"}, annotations: {c: "2"}}, spec: {maxUnhealthy: 49%, within: {b: "2"}}, status: {phase: Nonsense}}`)
	const want = `{"metadata":{"annotations":{"c":"2"},"labels":{"b":"2"}},"spec":{"maxUnhealthy":"49%","minHealthy":null,"within":{"a":null,"b":"2"}}}`
	for range 2 {
		patch, err := client.MergeFrom(old).Data(replacement(old, written))
		if err != nil || string(patch) != want {
			t.Errorf("it is patched by %s, %v; want %s", patch, err, want)
		}
		delete(old.Object, "status")
	}
}

// TestAdmission: only an answer about the health check is one. A lack of rights, of a namespace or of the kind is none.
func TestAdmission(t *testing.T) {
	resource := schema.GroupResource{Group: "machine.openshift.io", Resource: "machinehealthchecks"}
	forbidden := apierrors.NewForbidden(resource, "a", errors.New("no"))
	const forbids = `machinehealthchecks.machine.openshift.io "a" is forbidden: no`
	long := apierrors.NewBadRequest(strings.Repeat("x", 2*sanitize.MaxMessage))
	for sentence, tc := range map[string]struct {
		err              error
		may              core.Tri
		namespace        string
		verdict, message string
	}{
		"accepted":              {nil, core.Yes, "n", accepted, ""},
		"invalid":               {apierrors.NewInvalid(schema.GroupKind{Kind: "MachineHealthCheck"}, "a", nil), core.Yes, "n", refused, `MachineHealthCheck "a" is invalid`},
		"an unknown field":      {apierrors.NewBadRequest("strict decoding error: unknown field"), core.Yes, "n", refused, "strict decoding error: unknown field"},
		"a long refusal":        {long, core.Yes, "n", refused, sanitize.Failure(sanitize.MaxMessage, long)},
		"denied by a plugin":    {forbidden, core.Yes, "n", refused, forbids},
		"no permission":         {forbidden, core.No, "n", notTried, "you may not patch it (" + forbids + "), and a dry run needs the permission to write"},
		"permissions not known": {forbidden, core.Unknown, "n", notTried, forbids},
		"no such namespace": {
			apierrors.NewNotFound(schema.GroupResource{Resource: "namespaces"}, "n"), core.Yes, "n", notTried,
			`namespace n does not exist yet, or the cluster does not serve this kind (namespaces "n" not found)`,
		},
		"no such kind":                    {apierrors.NewNotFound(resource, "a"), core.Yes, "", notTried, `the cluster does not serve this kind (machinehealthchecks.machine.openshift.io "a" not found)`},
		"no answer":                       {errors.New("connection refused"), core.Yes, "n", notTried, "connection refused"},
		"no answer, of the whole cluster": {errors.New("connection refused"), core.Yes, "", notTried, "connection refused"},
	} {
		if verdict, message := admission(tc.err, tc.may, tc.namespace); verdict != tc.verdict || message != tc.message {
			t.Errorf("%s: %s %q, want %s %q", sentence, verdict, message, tc.verdict, tc.message)
		}
	}
}
