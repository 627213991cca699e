package fencednode

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fettle-io/fettle/api/fettle/v1alpha1"
)

// TestStatusesHaveTheirRevisionFirst: the API server replaces the revision, which fails where the object has changed, before the status.
func TestStatusesHaveTheirRevisionFirst(t *testing.T) {
	r := &v1alpha1.SelfFenceRemediation{ObjectMeta: metav1.ObjectMeta{ResourceVersion: "7"}}
	change, err := StatusPatch(r, map[string]string{"phase": "Booting"})
	if err != nil {
		t.Fatal(err)
	}
	body, err := change.Data(r)
	if want := `[{"op":"replace","path":"/metadata/resourceVersion","value":"7"},{"op":"add","path":"/status","value":{"phase":"Booting"}}]`; err != nil || string(body) != want {
		t.Errorf("the patch is %s (%v)", body, err)
	}
}

// TestFinalizers: a finalizer is there once, at the end, and the object that was read keeps its own.
func TestFinalizers(t *testing.T) {
	for _, tc := range []struct{ has, with, without []string }{
		{nil, []string{"own"}, nil},
		{[]string{"a"}, []string{"a", "own"}, []string{"a"}},
		{[]string{"own", "a", "own"}, []string{"a", "own"}, []string{"a"}},
	} {
		r := &v1alpha1.SelfFenceRemediation{ObjectMeta: metav1.ObjectMeta{Finalizers: slices.Clone(tc.has)}}
		if got := WithFinalizer(r, "own"); !slices.Equal(got, tc.with) {
			t.Errorf("%q becomes %q", tc.has, got)
		}
		if got := WithoutFinalizer(r, "own"); !slices.Equal(got, tc.without) || !slices.Equal(r.Finalizers, tc.has) {
			t.Errorf("%q becomes %q, and the object has %q", tc.has, got, r.Finalizers)
		}
	}
}

// TestWhyFailed: a message names a right only where it is missing.
func TestWhyFailed(t *testing.T) {
	for want, err := range map[string]error{
		"(the API server gave no answer); it is tried again":                                                                   errors.New("dial tcp 10.0.0.1:443: refused"),
		"(Forbidden); it is tried again, and the manifests of this version with kubectl apply -k config/power grant the right": apierrors.NewForbidden(schema.GroupResource{Resource: "leases"}, "node-a", errors.New("no")),
		"(NotKept); the API server has accepted it and not kept it, so a webhook may take it back; it is tried again":          fmt.Errorf("changing a node: %w", errNotKept),
		"(TooManyRequests); it is tried again":                                                                                 apierrors.NewTooManyRequestsError("wait"),
	} {
		if got := WhyFailed(err, "config/power"); got != want {
			t.Errorf("%v: %q, want %q", err, got, want)
		}
	}
}

// answering is an API server that stores the last patch, and answers with a revision or an error.
type answering struct {
	client.Client

	key  client.ObjectKey
	body string
	err  error
}

func (a *answering) Status() client.SubResourceWriter { return answeringStatus{answering: a} }

type answeringStatus struct {
	client.SubResourceWriter

	*answering
}

func (a answeringStatus) Patch(ctx context.Context, o client.Object, p client.Patch, _ ...client.SubResourcePatchOption) error {
	return a.answering.Patch(ctx, o, p)
}

func (a *answering) Patch(_ context.Context, o client.Object, p client.Patch, _ ...client.PatchOption) error {
	body, err := p.Data(o)
	a.key, a.body = client.ObjectKeyFromObject(o), string(body)
	o.SetResourceVersion("8")
	return errors.Join(err, a.err)
}

// TestPatches have the revision that was read, and the remediation becomes the answer. A patch that fails changes nothing.
func TestPatches(t *testing.T) {
	read := func() *v1alpha1.SelfFenceRemediation {
		return &v1alpha1.SelfFenceRemediation{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "r", ResourceVersion: "7"}}
	}
	for name, tc := range map[string]struct {
		do   func(*answering, *v1alpha1.SelfFenceRemediation) error
		body string
	}{
		"its status": {func(a *answering, r *v1alpha1.SelfFenceRemediation) error {
			return PatchStatus(t.Context(), a, r, map[string]string{"phase": "Booting"})
		}, `[{"op":"replace","path":"/metadata/resourceVersion","value":"7"},{"op":"add","path":"/status","value":{"phase":"Booting"}}]`},
		"its finalizers": {func(a *answering, r *v1alpha1.SelfFenceRemediation) error {
			return PatchMetadata(t.Context(), a, r, []string{"own"}, nil)
		}, `{"metadata":{"finalizers":["own"],"resourceVersion":"7"}}`},
		"an annotation": {func(a *answering, r *v1alpha1.SelfFenceRemediation) error {
			return PatchMetadata(t.Context(), a, r, nil, map[string]string{"k": "v"})
		}, `{"metadata":{"annotations":{"k":"v"},"finalizers":null,"resourceVersion":"7"}}`},
	} {
		for _, refused := range []error{nil, errors.New("no")} {
			a, r := &answering{err: refused}, read()
			if err := tc.do(a, r); !errors.Is(err, refused) || a.body != tc.body || a.key != client.ObjectKeyFromObject(r) {
				t.Errorf("%s: %v, after the patch %s of %s", name, err, a.body, a.key)
			}
			if want := map[bool]string{true: "8", false: "7"}[refused == nil]; r.ResourceVersion != want || r.Name != "r" {
				t.Errorf("%s: %s has the revision %s", name, r.Name, r.ResourceVersion)
			}
		}
	}
	a := &answering{}
	if err := PatchStatus(t.Context(), a, read(), make(chan int)); err == nil || a.body != "" {
		t.Errorf("a status that can't be encoded: %v, after the patch %s", err, a.body)
	}
}

// recorder stores the last event.
type recorder struct {
	about runtime.Object
	event [4]string
}

func (r *recorder) Eventf(about, _ runtime.Object, kind, reason, action, note string, args ...any) {
	r.about, r.event = about, [4]string{kind, reason, action, fmt.Sprintf(note, args...)}
}

// TestEmit: an event is about the remediation, and is bounded.
func TestEmit(t *testing.T) {
	r := &v1alpha1.SelfFenceRemediation{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "r", UID: "uid"}}
	var to recorder
	Emit(&to, "SelfFenceRemediation", r, Event{"Warning", "Waits", "100% of\nit"})
	if want := [4]string{"Warning", "Waits", "Remediate", "[remediation] 100% of it"}; to.event != want {
		t.Errorf("the event is %q", to.event)
	}
	about := &corev1.ObjectReference{APIVersion: "fettle.io/v1alpha1", Kind: "SelfFenceRemediation", Namespace: "ns", Name: "r", UID: "uid"}
	if diff := cmp.Diff(about, to.about); diff != "" {
		t.Errorf("the event is about another object (-want +got):\n%s", diff)
	}
	Emit(&to, "SelfFenceRemediation", r, Event{"Normal", "Waits", strings.Repeat("x", 5000)})
	if len(to.event[3]) > 1024 {
		t.Errorf("an event has %d bytes", len(to.event[3]))
	}
}
