package powercycle

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fettle-io/fettle/api/fettle/v1alpha1"
	"github.com/fettle-io/fettle/internal/fencing"
	"github.com/fettle-io/fettle/internal/remediator/fencednode"
)

// machine returns machine m of node-a, which has a controller and a BareMetalHost.
func machine(changes ...func(*unstructured.Unstructured)) *unstructured.Unstructured {
	yes := true
	m := &unstructured.Unstructured{Object: map[string]any{"status": map[string]any{"nodeRef": map[string]any{"name": "node-a"}}}}
	m.SetGroupVersionKind(fencednode.OpenShiftMachine)
	m.SetNamespace("machines")
	m.SetName("m")
	m.SetUID("m-uid")
	m.SetAnnotations(map[string]string{hostAnnotation: "machines/host"})
	m.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: "machine.openshift.io/v1beta1", Kind: "MachineSet", Name: "set", UID: types.UID("set"), Controller: &yes}})
	for _, change := range changes {
		change(m)
	}
	return m
}

func bareMetal(spec, status map[string]any) *unstructured.Unstructured {
	h := &unstructured.Unstructured{Object: map[string]any{"spec": spec, "status": status}}
	h.SetGroupVersionKind(bareMetalHost)
	h.SetNamespace("machines")
	h.SetName("host")
	return h
}

// TestMachineIsKept where nothing would replace it, or where its deletion would harm the control plane.
func TestMachineIsKept(t *testing.T) {
	provisioned := func(state string) map[string]any {
		return map[string]any{"provisioning": map[string]any{"state": state}}
	}
	labelled := func(key string) *corev1.Node {
		return node(func(n *corev1.Node) { n.Labels = map[string]string{key: ""} })
	}
	for sentence, tc := range map[string]struct {
		m, host *unstructured.Unstructured
		node    *corev1.Node
		want    fencing.Machine
	}{
		"ordinary":           {machine(), bareMetal(nil, provisioned("provisioned")), node(), fencing.Machine{Exists: true}},
		"its host is gone":   {machine(), nil, nil, fencing.Machine{Exists: true, Kept: fencing.KeptHostUnknown}},
		"it names no host":   {machine(with(hostAnnotation, "")), nil, nil, fencing.Machine{Exists: true}},
		"another UID":        {machine(func(m *unstructured.Unstructured) { m.SetUID("other") }), nil, node(), fencing.Machine{}},
		"gone":               {nil, nil, node(), fencing.Machine{}},
		"no controller":      {machine(func(m *unstructured.Unstructured) { m.SetOwnerReferences(nil) }), nil, node(), fencing.Machine{Exists: true, Kept: fencing.KeptNoController}},
		"control plane":      {machine(), nil, labelled("node-role.kubernetes.io/control-plane"), fencing.Machine{Exists: true, Kept: fencing.KeptControlPlane}},
		"master by its node": {machine(), nil, labelled("node-role.kubernetes.io/master"), fencing.Machine{Exists: true, Kept: fencing.KeptControlPlane}},
		"master by its role": {machine(func(m *unstructured.Unstructured) {
			m.SetLabels(map[string]string{"machine.openshift.io/cluster-api-machine-role": "master"})
		}), nil, nil, fencing.Machine{Exists: true, Kept: fencing.KeptControlPlane}},
		"another node":         {machine(func(m *unstructured.Unstructured) { delete(m.Object, "status") }), nil, node(), fencing.Machine{Exists: true, Kept: fencing.KeptOtherNode}},
		"external by its spec": {machine(), bareMetal(map[string]any{"externallyProvisioned": true}, nil), node(), fencing.Machine{Exists: true, Kept: fencing.KeptExternallyProvisioned}},
		"its state is no text": {machine(), bareMetal(nil, map[string]any{"provisioning": map[string]any{"state": int64(1)}}), node(), fencing.Machine{Exists: true, Kept: fencing.KeptHostUnknown}},
		"external by state":    {machine(), bareMetal(nil, provisioned("externally provisioned")), node(), fencing.Machine{Exists: true, Kept: fencing.KeptExternallyProvisioned}},
	} {
		w := newWorld(t)
		for _, o := range []*unstructured.Unstructured{tc.m, tc.host} {
			if o == nil {
				continue
			}
			if err := w.api.Create(t.Context(), o); err != nil {
				t.Fatal(err)
			}
		}
		r := remediation(in(fencing.DeletingMachine, func(s *v1alpha1.PowerRemediationStatus) {
			s.Machine = &v1alpha1.ObjectReference{Kind: "Machine", Namespace: "machines", Name: "m", UID: "m-uid"}
		}))
		got := w.readMachine(t.Context(), &reconciliation{r: r, node: "node-a", raw: tc.node})
		if diff := cmp.Diff(&tc.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", sentence, diff)
		}
	}
}

// TestMachineThatWasNotRecorded is not deleted. The reason is that of the machine which the node names, if there is one.
func TestMachineThatWasNotRecorded(t *testing.T) {
	named := annotated(machineAnnotation, "machines/m")
	master := machine(func(m *unstructured.Unstructured) {
		m.SetLabels(map[string]string{"machine.openshift.io/cluster-api-machine-role": "master"})
	})
	for sentence, tc := range map[string]struct {
		m    *unstructured.Unstructured
		node *corev1.Node
		want fencing.Reason
	}{
		"the node names none":           {machine(), node(), fencing.NoMachine},
		"it is gone":                    {nil, node(named), fencing.NoMachine},
		"the node is gone":              {master, nil, fencing.NoMachine},
		"it is of the control plane":    {master, node(named), fencing.KeptControlPlane},
		"it was not the node's earlier": {machine(), node(named), fencing.NoMachine},
	} {
		w := newWorld(t)
		if tc.m != nil {
			w = newWorld(t, tc.m.DeepCopy())
		}
		rec := &reconciliation{r: remediation(in(fencing.DeletingMachine)), node: "node-a", raw: tc.node}
		if got := w.readMachine(t.Context(), rec); *got != (fencing.Machine{Exists: true, Kept: tc.want}) {
			t.Errorf("%s: %+v, want %s", sentence, got, tc.want)
		}
		w.refuses(func(string, runtime.Object) error { return errors.New("no") })
		if got := w.readMachine(t.Context(), rec); got.Failed != (tc.node != nil && tc.node.Annotations[machineAnnotation] != "") {
			t.Errorf("%s, which can't be read: %+v", sentence, got)
		}
	}
}
