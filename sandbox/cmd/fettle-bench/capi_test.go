package main

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/watch"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

func TestClusterMachineIsRealSized(t *testing.T) {
	set := setName(benchCluster, 49)
	m := clusterMachine(benchCluster, 4999, metav1.OwnerReference{Kind: "MachineSet", Name: set, UID: "1"}, noon)
	body, err := json.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	// The API server adds managed fields, which are about as much again.
	if len(body) < 3500 || len(body) > 5500 || len(m.Status.Conditions) != 12 || len(m.Status.Deprecated.V1Beta1.Conditions) != 4 {
		t.Errorf("%d bytes with %d and %d conditions are not those of a machine in use: %s",
			len(body), len(m.Status.Conditions), len(m.Status.Deprecated.V1Beta1.Conditions), body)
	}
	for _, name := range []string{m.Name, set} {
		if problems := validation.IsDNS1123Label(name); len(problems) > 0 {
			t.Errorf("%s is no name: %v", name, problems)
		}
	}
	for key, value := range m.Labels {
		if problems := append(validation.IsQualifiedName(key), validation.IsValidLabelValue(value)...); len(problems) > 0 {
			t.Errorf("label %s=%s: %v", key, value, problems)
		}
	}
	if setName(benchCluster, 0) == setName(benchCluster, 1) || setName("a", 0) == setName("b", 0) {
		t.Error("two machine sets have the same name")
	}
}

// TestTrimKeepsWhatDecisionsReadOfClusterMachines: as for the others.
func TestTrimKeepsWhatDecisionsReadOfClusterMachines(t *testing.T) {
	owner := metav1.OwnerReference{Kind: "MachineSet", Name: "set", UID: "1"}
	m := clusterMachine(benchCluster, 1, owner, noon)
	kept, err := trimClusterMachine(clusterMachine(benchCluster, 1, owner, noon))
	if err != nil {
		t.Fatal(err)
	}
	got, ok := kept.(*clusterv1.Machine)
	if !ok || got.Name != m.Name || len(got.Labels) != len(m.Labels) || len(got.OwnerReferences) != 1 ||
		got.Status.NodeRef != m.Status.NodeRef || got.Spec.ProviderID != "" || got.Status.NodeInfo != nil {
		t.Fatalf("the machine is not what was watched, trimmed: %+v", kept)
	}
	for i, c := range m.Status.Conditions {
		want := metav1.Condition{Type: c.Type, Status: c.Status, LastTransitionTime: c.LastTransitionTime}
		if diff := cmp.Diff(want, got.Status.Conditions[i]); diff != "" {
			t.Errorf("condition %s (-want +got):\n%s", c.Type, diff)
		}
	}
}

func TestRequestsReplacement(t *testing.T) {
	marked := func(kind, status string) *unstructured.Unstructured {
		return &unstructured.Unstructured{Object: map[string]any{"status": map[string]any{"conditions": []any{
			map[string]any{"type": "Ready", "status": "False"}, map[string]any{"type": kind, "status": status},
		}}}}
	}
	cases := map[string]struct {
		event   watch.EventType
		machine *unstructured.Unstructured
		want    bool
	}{
		"it requests":                      {watch.Modified, marked("OwnerRemediated", "False"), true},
		"its owner is done":                {watch.Modified, marked("OwnerRemediated", "True"), false},
		"only its health check has failed": {watch.Modified, marked("HealthCheckSucceeded", "False"), false},
		"it is gone":                       {watch.Deleted, marked("OwnerRemediated", "False"), false},
		"it has no status":                 {watch.Modified, &unstructured.Unstructured{Object: map[string]any{}}, false},
	}
	for sentence, tc := range cases {
		t.Run(sentence, func(t *testing.T) {
			if got := asksOwner(tc.event, tc.machine); got != tc.want {
				t.Errorf("got %t, want %t", got, tc.want)
			}
		})
	}
}
