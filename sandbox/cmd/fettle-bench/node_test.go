package main

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/apimachinery/pkg/util/validation"

	machinev1 "github.com/fettle-io/fettle/sandbox/api/machine/v1beta1"
)

var noon = time.Date(2026, time.August, 3, 12, 0, 0, 0, time.UTC)

func patched(t *testing.T, n *corev1.Node, patch []byte, err error) *corev1.Node {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	before, err := json.Marshal(n)
	if err != nil {
		t.Fatal(err)
	}
	body, err := strategicpatch.StrategicMergePatch(before, patch, corev1.Node{})
	if err != nil {
		t.Fatal(err)
	}
	var after corev1.Node
	if err := json.Unmarshal(body, &after); err != nil {
		t.Fatal(err)
	}
	return &after
}

func TestHeartbeatChangesNothingElse(t *testing.T) {
	later := noon.Add(time.Minute)
	want := node(7, noon)
	for i := range want.Status.Conditions {
		want.Status.Conditions[i].LastHeartbeatTime = metav1.NewTime(later)
	}
	patch, err := heartbeat(later)
	if diff := cmp.Diff(want, patched(t, node(7, noon), patch, err)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestFailureChangesReadyAlone(t *testing.T) {
	later := noon.Add(time.Minute)
	patch, err := failure(later)
	before, after := node(7, noon), patched(t, node(7, noon), patch, err)
	for i, c := range after.Status.Conditions {
		switch {
		case c.Type != corev1.NodeReady:
			if diff := cmp.Diff(before.Status.Conditions[i], c); diff != "" {
				t.Errorf("%s changed too:\n%s", c.Type, diff)
			}
		case c.Status != corev1.ConditionFalse || !c.LastTransitionTime.Time.Equal(later):
			t.Errorf("the node should be not Ready since %s: %+v", later, c)
		}
	}
}

func TestRecoveryUndoesAFailure(t *testing.T) {
	down, err := failure(noon)
	n := patched(t, node(7, noon), down, err)
	up, err := recovery(noon.Add(time.Minute))
	for _, c := range patched(t, n, up, err).Status.Conditions {
		if c.Type == corev1.NodeReady && (c.Status != corev1.ConditionTrue || !c.LastTransitionTime.Time.Equal(noon.Add(time.Minute))) {
			t.Errorf("the node should be ready since a minute after noon: %+v", c)
		}
	}
}

func TestNodeIsRealSized(t *testing.T) {
	n := node(4999, noon)
	if len(n.Status.Images) != 40 || len(n.Status.Conditions) != 6 || len(n.Labels) < 18 {
		t.Errorf("%d images, %d conditions and %d labels are not those of a node in use", len(n.Status.Images), len(n.Status.Conditions), len(n.Labels))
	}
	if problems := validation.IsDNS1123Subdomain(n.Name); len(problems) > 0 {
		t.Errorf("its name %s is no name: %v", n.Name, problems)
	}
	for key, value := range n.Labels {
		if problems := append(validation.IsQualifiedName(key), validation.IsValidLabelValue(value)...); len(problems) > 0 {
			t.Errorf("label %s=%s: %v", key, value, problems)
		}
	}
	if nodeName(0) == nodeName(1<<16) || nodeName(255) == nodeName(256) {
		t.Error("two nodes have the same name")
	}
}

// TestTrimKeepsWhatDecisionsRead: the floor must not be cheaper than it can be for a program that decides.
func TestTrimKeepsWhatDecisionsRead(t *testing.T) {
	n := node(1, noon)
	kept, err := trimNode(node(1, noon))
	if err != nil {
		t.Fatal(err)
	}
	got, ok := kept.(*corev1.Node)
	if !ok || got.Name != n.Name || len(got.Labels) != len(n.Labels) || len(got.Status.Images) != 0 {
		t.Fatalf("the node is not what was watched, trimmed: %+v", kept)
	}
	for i, c := range n.Status.Conditions {
		have := got.Status.Conditions[i]
		if have.Type != c.Type || have.Status != c.Status || !have.LastTransitionTime.Equal(&c.LastTransitionTime) || have.Message != "" {
			t.Errorf("condition %s was kept as %+v", c.Type, have)
		}
	}

	owner := metav1.OwnerReference{Kind: "MachineSet", Name: "set", UID: "1"}
	m := machine(1, owner, noon)
	kept, err = trimMachine(machine(1, owner, noon))
	if err != nil {
		t.Fatal(err)
	}
	small, ok := kept.(*machinev1.Machine)
	if !ok || small.Phase() != m.Phase() || small.Status.NodeRef.Name != n.Name || len(small.OwnerReferences) != 1 || small.Spec.ProviderSpec.Value != nil {
		t.Errorf("the machine is not what was watched, trimmed: %+v", kept)
	}
}
