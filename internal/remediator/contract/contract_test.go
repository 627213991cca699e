package contract

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fettle-io/fettle/api/fettle/v1alpha1"
)

var (
	openshift = schema.GroupKind{Group: "machine.openshift.io", Kind: "Machine"}
	capi      = schema.GroupKind{Group: "cluster.x-k8s.io", Kind: "Machine"}
)

func owner(apiVersion, kind, name string) metav1.OwnerReference {
	return metav1.OwnerReference{APIVersion: apiVersion, Kind: kind, Name: name, UID: types.UID(name + "-uid")}
}

// remediation returns a remediation called worker-a.
func remediation(annotations map[string]string, owners ...metav1.OwnerReference) *metav1.ObjectMeta {
	return &metav1.ObjectMeta{Namespace: "machines", Name: "worker-a", Annotations: annotations, OwnerReferences: owners}
}

func TestNodeOf(t *testing.T) {
	for sentence, tc := range map[string]struct {
		annotations map[string]string
		want        string
	}{
		"without annotations":          {nil, "worker-a"},
		"with an annotation":           {map[string]string{v1alpha1.NodeNameAnnotation: "node-a"}, "node-a"},
		"with an empty annotation":     {map[string]string{v1alpha1.NodeNameAnnotation: ""}, "worker-a"},
		"with an unrelated annotation": {map[string]string{v1alpha1.TimedOutAnnotation: "node-a"}, "worker-a"},
	} {
		if got := NodeOf(remediation(tc.annotations)); got != tc.want {
			t.Errorf("%s: the node is %q, want %q", sentence, got, tc.want)
		}
	}
}

func TestOwnerMachine(t *testing.T) {
	machine := owner("machine.openshift.io/v1beta1", "Machine", "m")
	other := owner("cluster.x-k8s.io/v1beta2", "Machine", "c")
	check := owner("remediation.medik8s.io/v1alpha1", "NodeHealthCheck", "check")
	found := func(kind schema.GroupKind, name string) Machine {
		return Machine{Kind: kind, Key: types.NamespacedName{Namespace: "machines", Name: name}, UID: types.UID(name + "-uid")}
	}
	for sentence, tc := range map[string]struct {
		owners []metav1.OwnerReference
		kinds  []schema.GroupKind
		want   Machine
	}{
		"no owner":                       {nil, []schema.GroupKind{openshift, capi}, Machine{}},
		"no kinds":                       {[]metav1.OwnerReference{machine}, nil, Machine{}},
		"an owner of another kind":       {[]metav1.OwnerReference{check}, []schema.GroupKind{openshift}, Machine{}},
		"a machine of another group":     {[]metav1.OwnerReference{other}, []schema.GroupKind{openshift}, Machine{}},
		"a machine":                      {[]metav1.OwnerReference{machine}, []schema.GroupKind{openshift}, found(openshift, "m")},
		"a machine of the second kind":   {[]metav1.OwnerReference{other}, []schema.GroupKind{openshift, capi}, found(capi, "c")},
		"a machine after another owner":  {[]metav1.OwnerReference{check, machine}, []schema.GroupKind{openshift}, found(openshift, "m")},
		"two machines: the first counts": {[]metav1.OwnerReference{other, machine}, []schema.GroupKind{openshift, capi}, found(capi, "c")},
		"a set of the group": {
			[]metav1.OwnerReference{owner("machine.openshift.io/v1beta1", "MachineSet", "set")},
			[]schema.GroupKind{openshift}, Machine{},
		},
	} {
		got, owned := OwnerMachine(remediation(nil, tc.owners...), tc.kinds...)
		if got != tc.want || owned != (tc.want != Machine{}) {
			t.Errorf("%s: the machine is %+v (%t), want %+v", sentence, got, owned, tc.want)
		}
	}
}

// TestIsForMachine: each of the four conditions alone decides against a machine.
func TestIsForMachine(t *testing.T) {
	own := owner("machine.openshift.io/v1beta1", "Machine", "worker-a")
	for sentence, tc := range map[string]struct {
		annotations map[string]string
		owners      []metav1.OwnerReference
		want        bool
	}{
		"the machine of its name owns it": {nil, []metav1.OwnerReference{own}, true},
		"an empty annotation":             {map[string]string{v1alpha1.NodeNameAnnotation: ""}, []metav1.OwnerReference{own}, true},
		"no owner":                        {nil, nil, false},
		"another name":                    {nil, []metav1.OwnerReference{owner("machine.openshift.io/v1beta1", "Machine", "b")}, false},
		"a machine of another kind":       {nil, []metav1.OwnerReference{owner("cluster.x-k8s.io/v1beta1", "Machine", "worker-a")}, false},
		"another owner besides":           {nil, []metav1.OwnerReference{own, owner("v1", "ConfigMap", "c")}, false},
		"it names a node":                 {map[string]string{v1alpha1.NodeNameAnnotation: "node-a"}, []metav1.OwnerReference{own}, false},
	} {
		if got := IsForMachine(remediation(tc.annotations, tc.owners...), openshift); got != tc.want {
			t.Errorf("%s: it is for a machine: %t", sentence, got)
		}
	}
	nameless := remediation(nil, owner("v1", "ConfigMap", "c"))
	nameless.Name = ""
	if IsForMachine(nameless, openshift) {
		t.Error("without a name and a machine, it is for a machine")
	}
}

func TestStopped(t *testing.T) {
	for _, tc := range []struct {
		annotations map[string]string
		want        bool
	}{
		{nil, false},
		{map[string]string{v1alpha1.NodeNameAnnotation: "node-a"}, false},
		{map[string]string{v1alpha1.TimedOutAnnotation: ""}, true},
		{map[string]string{v1alpha1.TimedOutAnnotation: "2026-08-03T12:00:00Z"}, true},
	} {
		if got := Stopped(remediation(tc.annotations)); got != tc.want {
			t.Errorf("with %v it is to stop: %t", tc.annotations, got)
		}
	}
}

func TestSucceeded(t *testing.T) {
	if got := Succeeded(nil); got != metav1.ConditionUnknown {
		t.Errorf("without conditions: %s", got)
	}
	processing := metav1.Condition{Type: v1alpha1.ProcessingCondition, Status: metav1.ConditionTrue}
	if got := Succeeded([]metav1.Condition{processing}); got != metav1.ConditionUnknown {
		t.Errorf("without the condition: %s", got)
	}
	for _, want := range []metav1.ConditionStatus{metav1.ConditionTrue, metav1.ConditionFalse, metav1.ConditionUnknown} {
		if got := Succeeded([]metav1.Condition{processing, {Type: v1alpha1.SucceededCondition, Status: want}}); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}
