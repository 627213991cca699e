package fencednode

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

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
