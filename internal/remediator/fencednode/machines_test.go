package fencednode

import (
	"context"
	"errors"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fettle-io/fettle/api/fettle/annotation"
	"github.com/fettle-io/fettle/api/fettle/v1alpha1"
	"github.com/fettle-io/fettle/internal/fencing"
)

// TestKeyOf: an annotation names a machine by its namespace and its name.
func TestKeyOf(t *testing.T) {
	for text, want := range map[string]bool{"": false, "m": false, "/": false, "/m": false, "ns/": false, "ns/m": true} {
		if key, is := keyOf(text); is != want || is && (key != types.NamespacedName{Namespace: "ns", Name: "m"}) {
			t.Errorf("%q is %v: %t", text, key, is)
		}
	}
}

// TestOrphanMismatch: a remediation that was made for a machine needs a machine as its owner.
func TestOrphanMismatch(t *testing.T) {
	owner := []metav1.OwnerReference{{Kind: "Machine"}}
	other := []metav1.OwnerReference{{Kind: "MachineHealthCheck"}}
	made := map[string]string{"cluster.x-k8s.io/cloned-from-name": ""}
	for _, tc := range []struct {
		owners []metav1.OwnerReference
		made   map[string]string
		want   bool
	}{{nil, nil, false}, {nil, made, true}, {other, made, true}, {owner, made, false}, {owner, nil, false}, {other, nil, false}} {
		r := &v1alpha1.SelfFenceRemediation{ObjectMeta: metav1.ObjectMeta{OwnerReferences: tc.owners, Annotations: tc.made}}
		if got := OrphanMismatch(r); got.Found() != tc.want {
			t.Errorf("%+v: %+v", tc, got)
		}
	}
}

// TestWorksOn: a remediation works on a node from its beginning to its end.
func TestWorksOn(t *testing.T) {
	node := &v1alpha1.FencedNode{Name: "n"}
	for _, tc := range []struct {
		status v1alpha1.FencingStatus
		uid    types.UID
		want   bool
	}{
		{v1alpha1.FencingStatus{Phase: string(fencing.Booting), Node: node}, "uid", true},
		{v1alpha1.FencingStatus{Phase: string(fencing.Booting), Node: node}, "other", false},
		{v1alpha1.FencingStatus{Phase: string(fencing.Booting)}, "uid", false},
		{v1alpha1.FencingStatus{Node: node}, "uid", false},
		{v1alpha1.FencingStatus{Phase: string(fencing.Failed), Node: node}, "uid", false},
	} {
		r := &v1alpha1.SelfFenceRemediation{ObjectMeta: metav1.ObjectMeta{UID: "uid"}}
		if name, works := WorksOn(r, &tc.status, tc.uid); works != tc.want || works && name != "n" {
			t.Errorf("%+v: works on %q: %t", tc, name, works)
		}
	}
}

// TestMachinesThatAreNotServed: a cluster without machines has none, and an answer that is missing is a failure.
func TestMachinesThatAreNotServed(t *testing.T) {
	key := types.NamespacedName{Namespace: "ns", Name: "m"}
	for _, tc := range []struct {
		err   error
		fails bool
	}{{&meta.NoKindMatchError{GroupKind: schema.GroupKind{Kind: "Machine"}}, false}, {errors.New("no answer"), true}} {
		m := Machines{Live: failingReader{tc.err}}
		if got, err := m.Get(t.Context(), key); got != nil || (err != nil) != tc.fails {
			t.Errorf("%v: %v, %v", tc.err, got, err)
		}
		r := &v1alpha1.SelfFenceRemediation{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{annotation.ClaimedMachine: "ns/m"}}}
		if err := m.Release(t.Context(), r); (err != nil) != tc.fails {
			t.Errorf("%v: a claim is given back with %v", tc.err, err)
		}
	}
}

// failingReader fails each read.
type failingReader struct{ err error }

func (f failingReader) Get(context.Context, client.ObjectKey, client.Object, ...client.GetOption) error {
	return f.err
}

func (f failingReader) List(context.Context, client.ObjectList, ...client.ListOption) error {
	return f.err
}
