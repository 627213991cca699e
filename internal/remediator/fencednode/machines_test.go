package fencednode

import (
	"context"
	"errors"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
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

// TestMachineMismatch: the node must name each machine that owns the remediation. Other owners, such as health checks, don't count.
func TestMachineMismatch(t *testing.T) {
	const openShift, clusterAPI = "machine.openshift.io/v1beta1", "cluster.x-k8s.io/v1beta2"
	check := metav1.OwnerReference{APIVersion: openShift, Kind: "MachineHealthCheck", Name: "check"}
	machine := func(version string) metav1.OwnerReference {
		return metav1.OwnerReference{APIVersion: version, Kind: "Machine", Name: "m"}
	}
	names := node(annotated(MachineAnnotation, "ns/m"))
	namesOther := node(annotated(MachineAnnotation, "ns/n"))
	namesClusterAPI := node(annotated(ClusterAPIMachineAnnotation, "m"), annotated(clusterAPINamespaceAnnotation, "ns"))
	for sentence, tc := range map[string]struct {
		owners []metav1.OwnerReference
		node   *corev1.Node
		want   string
	}{
		"no owner":                               {nil, nil, ""},
		"a health check":                         {[]metav1.OwnerReference{check}, namesOther, ""},
		"a health check, and no node":            {[]metav1.OwnerReference{check}, nil, ""},
		"its machine":                            {[]metav1.OwnerReference{check, machine(openShift)}, names, ""},
		"its machine of Cluster API":             {[]metav1.OwnerReference{machine(clusterAPI)}, namesClusterAPI, ""},
		"another machine":                        {[]metav1.OwnerReference{check, machine(openShift)}, namesOther, v1alpha1.CannotStartMachineNotFoundReason},
		"a machine of the other API":             {[]metav1.OwnerReference{machine(clusterAPI)}, names, v1alpha1.CannotStartMachineNotFoundReason},
		"a machine of a third API":               {[]metav1.OwnerReference{machine("example.com/v1")}, names, v1alpha1.CannotStartMachineNotFoundReason},
		"its machine and another":                {[]metav1.OwnerReference{machine(openShift), machine(clusterAPI)}, names, v1alpha1.CannotStartMachineNotFoundReason},
		"a machine, and no node":                 {[]metav1.OwnerReference{machine(openShift)}, nil, v1alpha1.CannotStartNodeNotFoundReason},
		"a health check, a machine, and no node": {[]metav1.OwnerReference{check, machine(openShift)}, nil, v1alpha1.CannotStartNodeNotFoundReason},
	} {
		r := &v1alpha1.SelfFenceRemediation{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", OwnerReferences: tc.owners}}
		if got := MachineMismatch(r, "node-a", tc.node); got.Reason != tc.want || got.Found() != strings.Contains(got.Message, "ns/m") {
			t.Errorf("%s: %+v", sentence, got)
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

// writer counts the patches of machines, which fail with an error.
type writer struct {
	client.Writer

	patches int
	err     error
}

func (w *writer) Patch(context.Context, client.Object, client.Patch, ...client.PatchOption) error {
	w.patches++
	return w.err
}

// claimed returns machine ns/m with a claim.
func claimed(by string) *unstructured.Unstructured {
	m := &unstructured.Unstructured{Object: map[string]any{}}
	m.SetGroupVersionKind(OpenShiftMachine)
	m.SetNamespace("ns")
	m.SetName("m")
	m.SetAnnotations(map[string]string{annotation.ClaimedBy: by})
	return m
}

// TestTakenBy: a claim counts while its remediation works, or can't be read, and is that of another.
func TestTakenBy(t *testing.T) {
	const own, other = "ns/r/uid", "ns/other/other-uid"
	works := func(node string, is bool) Works {
		return func(_ context.Context, key types.NamespacedName, uid types.UID) (Holder, string, bool) {
			if key.Namespace != "ns" || key.Name+"-uid" != string(uid) {
				t.Errorf("the claim is read as one of %s with the UID %s", key, uid)
			}
			return Holder{Kind: "K", NamespacedName: key}, node, is
		}
	}
	none := works("", false)
	for sentence, tc := range map[string]struct {
		by     string
		kinds  []Works
		saying string
	}{
		"its own":                     {own, []Works{works("n", true)}, ""},
		"it is no claim":              {"ns/other", []Works{works("n", true)}, ""},
		"it has more":                 {other + "/x", []Works{works("n", true)}, ""},
		"the other works":             {other, []Works{works("n", true)}, "K ns/other has claimed machine ns/m, which node n names too"},
		"the other can't be read":     {other, []Works{works("", true)}, "K ns/other has claimed machine ns/m and can't be read"},
		"the other has ended":         {other, []Works{none}, ""},
		"it is of the second kind":    {other, []Works{none, works("n", true)}, "K ns/other has claimed"},
		"the first kind is not there": {other, []Works{nil, works("n", true)}, "K ns/other has claimed"},
	} {
		r := &v1alpha1.SelfFenceRemediation{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "r", UID: "uid"}}
		got := Machines{}.TakenBy(t.Context(), r, claimed(tc.by), tc.kinds...)
		if want := map[bool]string{true: AnotherRemediation}[tc.saying != ""]; got.Reason != want || !strings.HasPrefix(got.Message, tc.saying) || got.Message != "" && tc.saying == "" {
			t.Errorf("%s: it waits for %q: %s", sentence, got.Reason, got.Message)
		}
	}
}

// TestClaimsThatNeedNothing: a machine is not claimed twice, and a claim that stays is not read. Where the machine is gone, the claim is too.
func TestClaimsThatNeedNothing(t *testing.T) {
	own := &v1alpha1.SelfFenceRemediation{ObjectMeta: metav1.ObjectMeta{
		Namespace: "ns", Name: "r", UID: "uid", Annotations: map[string]string{annotation.ClaimedMachine: "ns/m"},
	}}
	gone := apierrors.NewNotFound(schema.GroupResource{Resource: "machines"}, "m")
	for sentence, tc := range map[string]struct {
		err     error
		do      func(Machines) error
		patches int
		fails   bool
	}{
		"it is its own":   {nil, func(m Machines) error { return m.Claim(t.Context(), own, claimed("ns/r/uid")) }, 0, false},
		"there is none":   {nil, func(m Machines) error { return m.Claim(t.Context(), own, nil) }, 0, false},
		"it is another's": {nil, func(m Machines) error { return m.Claim(t.Context(), own, claimed("ns/s/other")) }, 1, false},
		"it is gone":      {gone, func(m Machines) error { return m.Claim(t.Context(), own, claimed("")) }, 1, false},
		"it can't be":     {errors.New("no"), func(m Machines) error { return m.Claim(t.Context(), own, claimed("")) }, 1, true},
		"it stays":        {nil, func(m Machines) error { return m.ReleaseOthers(t.Context(), own, claimed("")) }, 0, false},
		"it is on another": {nil, func(m Machines) error {
			other := claimed("")
			other.SetName("n")
			return m.ReleaseOthers(t.Context(), own, other)
		}, 0, true},
		"it is on none":      {nil, func(m Machines) error { return m.ReleaseOthers(t.Context(), own, nil) }, 0, true},
		"it claims no other": {nil, func(m Machines) error { return m.ReleaseOthers(t.Context(), &v1alpha1.SelfFenceRemediation{}, nil) }, 0, false},
	} {
		w := &writer{err: tc.err}
		err := tc.do(Machines{Live: failingReader{errors.New("no answer")}, Writer: w})
		if (err != nil) != tc.fails || w.patches != tc.patches {
			t.Errorf("%s: %v, after %d patches", sentence, err, w.patches)
		}
	}
}
