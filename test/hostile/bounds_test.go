package hostile

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fettle-io/fettle/api/fettle/annotation"
	"github.com/fettle-io/fettle/test/cluster"
)

// bounds is a cluster without a machine controller, and a Fettle that repairs it.
type bounds struct {
	*cluster.Cluster

	t *testing.T
	// metrics is the address of Fettle's metrics, and token is for a user who may read them.
	metrics, token string
}

// TestBounds is about a compromised kubelet, and about a control plane of which nothing is known.
func TestBounds(t *testing.T) {
	t.Parallel()
	c := cluster.Start(t, cluster.Options{Args: []string{"--controllers=*,-node-lifecycle-controller"}})
	c.InstallFettle(t)
	address := cluster.FreeAddress(t)
	b := &bounds{Cluster: c, t: t, metrics: "https://" + address + "/metrics", token: c.MetricsReader(t)}
	c.StartFettle(t, "--metrics-bind-address", address)
	t.Run("I15 a kubelet fills no memory", func(t *testing.T) { b.of(t).kubeletFillsNoMemory() })
	t.Run("I01 a control plane without evidence", func(t *testing.T) { b.of(t).controlPlaneWithoutEvidence() })
}

func (b *bounds) of(t *testing.T) *bounds {
	t.Helper()
	own := *b
	own.t = t
	return &own
}

// kubeletFillsNoMemory: a kubelet patches its node many times with long words, each once. Fettle keeps little of it,
// says that it can't judge the node, and repairs another node's machine.
func (b *bounds) kubeletFillsNoMemory() {
	const flood, word = 50, 100 << 10
	b.set("flooded")
	b.machine("flooded", "hostile", "worker", "Running")
	b.machine("flooded", "honest", "worker", "Running")
	b.report("hostile", boundsReady("True")) // a report before the flood can be judged
	b.healthCheck("flooded", "worker")
	for i := range flood {
		long := func(what string) string { return fmt.Sprint(what, i, "-", strings.Repeat("x", word)) }
		b.report("hostile", boundsReady("False"), map[string]any{"type": long("a"), "status": long("b")}, map[string]any{"type": long("c"), "status": long("d")})
	}
	b.report("honest", boundsReady("False"))
	b.gone("flooded", "honest")
	b.Eventually(b.t, "an event says that the flooding node can't be judged", func(context.Context) error {
		if reasons := b.EventReasons(b.t, "flooded", "hostile"); !slices.Contains(reasons, "MachineUnreadable") {
			return fmt.Errorf("the events are %v", reasons)
		}
		return nil
	})
	if !b.stands("flooded", "hostile") {
		b.t.Error("a machine was deleted whose node can't be read as a whole")
	}
	// The next collection begins at twice the heap that the last one left, whenever the test reads it.
	const most = 30 << 20
	b.Eventually(b.t, "the memory of Fettle", func(context.Context) error {
		answer, err := cluster.Get(b.t, b.metrics, b.token, nil)
		if err != nil {
			return err
		}
		if next, there := cluster.Series(b.t, answer.Body)["go_memstats_next_gc_bytes"]; !there || next > most {
			return fmt.Errorf("the heap may grow to %.0f MiB (told: %t)", next/(1<<20), there)
		}
		return nil
	})
}

// controlPlaneWithoutEvidence: nothing in the cluster shows a member of etcd. Fettle leaves the machine alone, with a
// reason that says what to do. It repairs the machine once an administrator says that the quorum is elsewhere.
func (b *bounds) controlPlaneWithoutEvidence() {
	b.set("masters")
	b.machine("masters", "master", "master", "Failed")
	b.machine("masters", "canary", "worker", "Failed")
	b.healthCheck("masters", "master")
	b.healthCheck("masters", "worker")
	b.gone("masters", "canary")
	b.held()
	b.forge()
	b.held()
	if !b.stands("masters", "master") {
		b.t.Fatal("a machine of the control plane was deleted, and it is not known whether quorum survives that")
	}
	body, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": map[string]string{annotation.ControlPlaneQuorum: "external"}}})
	if err != nil {
		b.t.Fatalf("encoding a patch: %v", err)
	}
	system := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "kube-system"}}
	if err := b.Patch(cluster.Context(b.t), system, client.RawPatch(types.MergePatchType, body)); err != nil {
		b.t.Fatalf("annotating a namespace: %v", err)
	}
	b.gone("masters", "master")
}

// held waits until an event says why Fettle leaves the machine of the control plane alone, and what to do.
func (b *bounds) held() {
	b.t.Helper()
	b.Eventually(b.t, "it is held back", func(ctx context.Context) error {
		events := &unstructured.UnstructuredList{}
		events.SetAPIVersion("events.k8s.io/v1")
		events.SetKind("EventList")
		if err := b.List(ctx, events, client.InNamespace("masters")); err != nil {
			return err
		}
		for _, e := range events.Items {
			about, _, _ := unstructured.NestedString(e.Object, "regarding", "name")
			reason, _, _ := unstructured.NestedString(e.Object, "reason")
			note, _, _ := unstructured.NestedString(e.Object, "note")
			if about == "master" && reason == "RemediationHeldQuorumUnknown" && strings.Contains(note, annotation.ControlPlaneQuorum+": external") {
				return nil
			}
		}
		return fmt.Errorf("none of %d events says so", len(events.Items))
	})
}

// forge makes the kubelet of a worker create a pod that looks like a member of etcd.
func (b *bounds) forge() {
	b.t.Helper()
	const node = "canary"
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "kube-system", Name: "etcd-" + node, Labels: map[string]string{"component": "etcd"},
			Annotations: map[string]string{corev1.MirrorPodAnnotationKey: "hash"},
		},
		Spec: corev1.PodSpec{NodeName: node, Containers: []corev1.Container{{Name: "c", Image: "images.example/c"}}},
	}
	if err := b.Create(cluster.Context(b.t), p); err != nil {
		b.t.Fatalf("creating a pod: %v", err)
	}
}

// set makes a namespace with a machine set, which owns the machines there. No controller acts on it.
func (b *bounds) set(namespace string) {
	b.t.Helper()
	b.Namespace(b.t, namespace)
	b.Apply(b.t, fmt.Sprintf(`
apiVersion: machine.openshift.io/v1beta1
kind: MachineSet
metadata: {namespace: %s, name: set}
spec: {replicas: 0, selector: {matchLabels: {made: never}}}
`, namespace))
}

// machine makes a machine with an owner, and a ready node of the same name.
func (b *bounds) machine(namespace, name, role, phase string) {
	b.t.Helper()
	set := boundsMachine(namespace, "set")
	set.SetKind("MachineSet")
	if err := b.Get(cluster.Context(b.t), client.ObjectKeyFromObject(set), set); err != nil {
		b.t.Fatalf("reading a machine set: %v", err)
	}
	b.Apply(b.t, fmt.Sprintf(`
apiVersion: v1
kind: Node
metadata: {name: %[2]s}
---
apiVersion: machine.openshift.io/v1beta1
kind: Machine
metadata:
  namespace: %[1]s
  name: %[2]s
  labels: {role: %[3]s, machine.openshift.io/cluster-api-machine-role: %[3]s}
  ownerReferences:
  - {apiVersion: machine.openshift.io/v1beta1, kind: MachineSet, name: set, uid: %[4]s, controller: true}
`, namespace, name, role, set.GetUID()))
	b.report(name, boundsReady("True"))
	b.patchStatus(boundsMachine(namespace, name), map[string]any{"phase": phase, "nodeRef": map[string]any{"kind": "Node", "name": name}})
}

func boundsMachine(namespace, name string) *unstructured.Unstructured {
	u := &unstructured.Unstructured{}
	u.SetAPIVersion("machine.openshift.io/v1beta1")
	u.SetKind("Machine")
	u.SetNamespace(namespace)
	u.SetName(name)
	return u
}

func boundsReady(status string) map[string]any {
	return map[string]any{"type": "Ready", "status": status, "lastTransitionTime": time.Now().Add(-time.Hour).UTC().Format(time.RFC3339)}
}

// report writes the conditions of a node, as its kubelet does.
func (b *bounds) report(node string, conditions ...map[string]any) {
	b.t.Helper()
	u := &unstructured.Unstructured{}
	u.SetAPIVersion("v1")
	u.SetKind("Node")
	u.SetName(node)
	b.patchStatus(u, map[string]any{"conditions": conditions})
}

func (b *bounds) patchStatus(u *unstructured.Unstructured, status map[string]any) {
	b.t.Helper()
	body, err := json.Marshal(map[string]any{"status": status})
	if err == nil {
		err = b.Status().Patch(cluster.Context(b.t), u, client.RawPatch(types.MergePatchType, body))
	}
	if err != nil {
		b.t.Fatalf("patching the status of %s: %v", u.GetName(), err)
	}
}

func (b *bounds) healthCheck(namespace, role string) {
	b.t.Helper()
	b.Apply(b.t, fmt.Sprintf(`
apiVersion: machine.openshift.io/v1beta1
kind: MachineHealthCheck
metadata: {namespace: %[1]s, name: %[2]s, annotations: {fettle.io/max-in-flight: unlimited}}
spec:
  selector: {matchLabels: {role: %[2]s}}
  unhealthyConditions: [{type: Ready, status: "False", timeout: 2s}]
`, namespace, role))
}

func (b *bounds) stands(namespace, name string) bool {
	b.t.Helper()
	m := boundsMachine(namespace, name)
	err := b.Get(cluster.Context(b.t), client.ObjectKeyFromObject(m), m)
	if client.IgnoreNotFound(err) != nil {
		b.t.Fatalf("reading a machine: %v", err)
	}
	return err == nil && m.GetDeletionTimestamp() == nil
}

func (b *bounds) gone(namespace, name string) {
	b.t.Helper()
	b.Eventually(b.t, name+" is deleted", func(ctx context.Context) error {
		m := boundsMachine(namespace, name)
		if err := b.Get(ctx, client.ObjectKeyFromObject(m), m); !apierrors.IsNotFound(err) {
			return fmt.Errorf("it is there (%w)", err)
		}
		return nil
	})
}
