package slim

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/json"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"

	"github.com/fettle-io/fettle/internal/core"
)

var noon = time.Date(2026, time.August, 3, 12, 0, 0, 0, time.UTC)

// view is what decisions and caches read of a node, however it was decoded.
type view struct {
	Name, Namespace string
	UID             types.UID
	Version         string
	Labels          map[string]string
	Created         time.Time
	Deleted         *time.Time
	// Annotations are the annotations that are read.
	Annotations map[string]string
	Conditions  []core.Condition
	Boot        UUID
}

// metaView reads by the interface that both kinds of nodes have.
func metaView(o metav1.Object) view {
	v := view{
		Name: o.GetName(), Namespace: o.GetNamespace(), UID: o.GetUID(), Version: o.GetResourceVersion(),
		Created: o.GetCreationTimestamp().Time, Annotations: map[string]string{},
	}
	for _, key := range []string{
		"k8s.io/initial-events-end", "remediation.medik8s.io/manually-confirmed-healthy",
		"machineconfiguration.openshift.io/currentConfig", "machineconfiguration.openshift.io/desiredConfig",
	} {
		if value, set := o.GetAnnotations()[key]; set {
			v.Annotations[key] = value
		}
	}
	if len(o.GetLabels()) > 0 {
		v.Labels = o.GetLabels()
	}
	if at := o.GetDeletionTimestamp(); at != nil {
		v.Deleted = &at.Time
	}
	return v
}

func slimView(n *Node) view {
	v := metaView(n)
	v.Boot = n.BootID
	v.Conditions = append(v.Conditions, n.Conditions...)
	return v
}

func stockView(n *corev1.Node) view {
	v := metaView(n)
	v.Boot = ParseUUID(n.Status.NodeInfo.BootID)
	for _, c := range n.Status.Conditions {
		v.Conditions = append(v.Conditions, core.Condition{Type: string(c.Type), Status: string(c.Status), Reason: c.Reason, Since: c.LastTransitionTime.Time})
	}
	return v
}

// format is a serializer of the usual objects, and the same serializer of slim objects.
type format struct{ stock, slim runtime.Serializer }

func formats(t testing.TB) map[string]format {
	t.Helper()
	ours := runtime.NewScheme()
	if err := AddToScheme(ours); err != nil {
		t.Fatalf("adding to the scheme: %v", err)
	}
	stock := clientgoscheme.Scheme
	return map[string]format{
		"protobuf": {protobuf.NewSerializer(stock, stock), protobuf.NewSerializer(ours, ours)},
		"JSON": {
			json.NewSerializerWithOptions(json.DefaultMetaFactory, stock, stock, json.SerializerOptions{}),
			json.NewSerializerWithOptions(json.DefaultMetaFactory, ours, ours, json.SerializerOptions{}),
		},
	}
}

// encode returns the bytes that a server sends.
func (f format) encode(t fataler, obj runtime.Object) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := f.stock.Encode(obj, &b); err != nil {
		t.Fatalf("encoding a %T: %v", obj, err)
	}
	return b.Bytes()
}

// fataler is what testing.T and rapid.T have in common here.
type fataler interface {
	Helper()
	Fatalf(format string, args ...any)
}

// decode decodes what a server sent, as a watch does: without saying into what.
func decode[T runtime.Object](t fataler, s runtime.Serializer, body []byte) T {
	t.Helper()
	obj, _, err := s.Decode(body, nil, nil)
	if err != nil {
		t.Fatalf("decoding: %v", err)
	}
	is, ok := obj.(T)
	if !ok {
		t.Fatalf("decoded a %T", obj)
	}
	return is
}

// kubeletNode is a node as a kubelet on a large machine reports it.
func kubeletNode(name string) *corev1.Node {
	n := &corev1.Node{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Node"},
		ObjectMeta: metav1.ObjectMeta{
			Name: name, UID: types.UID("5d0e3a4e-0000-4000-8000-" + fmt.Sprintf("%012x", len(name))), ResourceVersion: "123456789",
			CreationTimestamp: metav1.NewTime(noon.Add(-time.Hour)), Finalizers: []string{"example.com/waits"},
			Labels:        map[string]string{"kubernetes.io/hostname": name, "node-role.kubernetes.io/worker": "", "topology.kubernetes.io/zone": "zone-a"},
			Annotations:   map[string]string{"machine.openshift.io/machine": "machines/" + name, "csi.volume.kubernetes.io/nodeid": strings.Repeat("x", 200)},
			ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "kubelet", FieldsV1: metav1.NewFieldsV1(`{"f:status":"` + strings.Repeat("x", 3000) + `"}`)}},
		},
		Spec: corev1.NodeSpec{ProviderID: "cloud:///zone-a/" + name, Taints: []corev1.Taint{{Key: "a", Effect: corev1.TaintEffectNoSchedule}}},
		Status: corev1.NodeStatus{
			Capacity: corev1.ResourceList{"cpu": resource.MustParse("64"), "memory": resource.MustParse("256Gi")},
			NodeInfo: corev1.NodeSystemInfo{MachineID: "m", BootID: "0f8fad5b-d9cb-469f-a165-70867728950e", KernelVersion: "6.12.0"},
		},
	}
	for i := range 17 {
		n.Labels[fmt.Sprintf("feature.node.kubernetes.io/cpu-%d", i)] = "true"
	}
	for _, c := range []corev1.NodeConditionType{"MemoryPressure", "DiskPressure", "PIDPressure", "NetworkUnavailable", "Ready"} {
		n.Status.Conditions = append(n.Status.Conditions, corev1.NodeCondition{
			Type: c, Status: corev1.ConditionFalse, LastHeartbeatTime: metav1.NewTime(noon), LastTransitionTime: metav1.NewTime(noon.Add(-time.Minute)),
			Reason: "KubeletHas" + string(c), Message: "kubelet has something to say of " + string(c),
		})
	}
	for i := range 40 {
		n.Status.Images = append(n.Status.Images, corev1.ContainerImage{SizeBytes: 1 << 28, Names: []string{
			fmt.Sprintf("images.example/team/product-%d@sha256:%064d", i, i), fmt.Sprintf("images.example/team/product-%d:v1.2.3", i),
		}})
	}
	return n
}
