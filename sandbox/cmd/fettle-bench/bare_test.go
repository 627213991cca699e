package main

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

// TestCalls: the call of each dialect's remedy is the request that Fettle makes.
func TestCalls(t *testing.T) {
	for name, want := range map[string]struct {
		method string
		call   call
	}{
		"openshift": {"DELETE", call{"delete", "/apis/machine.openshift.io/v1beta1/namespaces/openshift-machine-api/machines/a", "application/json", nil}},
		"nhc":       {"POST", call{"create", "/apis/sandbox.fettle.io/v1alpha1/namespaces/remediators/rebootremediations", "application/json", nil}},
		"capi":      {"PATCH", call{"patch", "/apis/cluster.x-k8s.io/v1beta2/namespaces/clusters/machines/a/status", "application/json-patch+json", nil}},
	} {
		d := dialects()[name]
		got := d.remedyCall.call("a", nil)
		if diff := cmp.Diff(want.call, got, cmp.AllowUnexported(call{})); diff != "" || got.method() != want.method {
			t.Errorf("%s: it is a %s (-want +got):\n%s", name, got.method(), diff)
		}
	}
}

// judged is a machine that a health check has judged healthy, as the API server returns it.
func judged(t *testing.T) *unstructured.Unstructured {
	t.Helper()
	m := clusterMachine(benchCluster, 1, metav1.OwnerReference{Kind: "MachineSet", Name: "set", UID: "1"}, noon)
	m.UID, m.ResourceVersion, m.Generation = "uid", "42", 3
	m.Status.Conditions = append([]metav1.Condition{{Type: clusterv1.MachineHealthCheckSucceededCondition, Status: metav1.ConditionTrue}}, m.Status.Conditions...)
	v1beta1 := m.Status.Deprecated.V1Beta1
	v1beta1.Conditions = append(v1beta1.Conditions, clusterv1.Condition{Type: clusterv1.MachineHealthCheckSucceededV1Beta1Condition, Status: "True"})
	o, err := runtime.DefaultUnstructuredConverter.ToUnstructured(m)
	if err != nil {
		t.Fatal(err)
	}
	return &unstructured.Unstructured{Object: o}
}

// TestMark: the patch replaces the condition at its index, adds the mark, and has the revision of the machine as its
// precondition.
func TestMark(t *testing.T) {
	body, err := mark("", judged(t))
	if err != nil {
		t.Fatal(err)
	}
	var patch []struct {
		Op, Path string
		Value    any
	}
	if err := json.Unmarshal(body, &patch); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, o := range patch {
		what := o.Op + " " + o.Path
		switch v := o.Value.(type) {
		case string:
			what += " " + v
		case map[string]any:
			what += " " + v["type"].(string) + "=" + v["status"].(string)
		}
		got = append(got, what)
	}
	want := []string{
		"test /metadata/uid uid",
		"replace /metadata/resourceVersion 42",
		"replace /status/conditions/0 HealthCheckSucceeded=False",
		"add /status/conditions/- OwnerRemediated=False",
		"replace /status/deprecated/v1beta1/conditions/4 HealthCheckSucceeded=False",
		"add /status/deprecated/v1beta1/conditions/- OwnerRemediated=False",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestMarkOfAMachineThatIsNotJudged(t *testing.T) {
	m := judged(t)
	unstructured.RemoveNestedField(m.Object, "status", "deprecated")
	if _, err := mark("", m); err == nil {
		t.Error("it is marked in places that are not there")
	}
}

// TestSendInGroups: all calls are sent, each group when it is due. Delays count from that instant.
func TestSendInGroups(t *testing.T) {
	var mu sync.Mutex
	sent := map[string]int{}
	const apart = 50 * time.Millisecond
	began := time.Now()
	late, err := sendInGroups(t.Context(), []call{{path: "a"}, {path: "b"}, {path: "c"}}, []int{2, 1, 1}, apart, func(_ context.Context, c call) error {
		mu.Lock()
		defer mu.Unlock()
		sent[c.path]++
		if c.path == "c" && time.Since(began) < apart {
			t.Error("the second group was sent before it was due")
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]int{"a": 1, "b": 1, "c": 1}, sent); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for i, d := range late {
		if d < 0 || d > time.Since(began) {
			t.Errorf("call %d was %s late", i, d)
		}
	}
}

// TestSendInGroupsTellsWhatFailed, and does not wait for the remaining groups.
func TestSendInGroupsTellsWhatFailed(t *testing.T) {
	refused := errors.New("refused")
	_, err := sendInGroups(t.Context(), []call{{path: "a"}, {path: "b"}}, []int{1, 1}, time.Hour, func(_ context.Context, c call) error {
		if c.path == "b" {
			t.Error("what was due later was sent after a failure")
		}
		return refused
	})
	if !errors.Is(err, refused) {
		t.Errorf("it tells of %v", err)
	}
}
