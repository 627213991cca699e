package openshift

import (
	"errors"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fettle-io/fettle/internal/dialect/conform"
	"github.com/fettle-io/fettle/internal/informer/informertest"
	"github.com/fettle-io/fettle/internal/slim"
)

// eventFunc is an event recorder that calls a function.
type eventFunc func(reason, action, text string)

func (w eventFunc) Eventf(_, _ runtime.Object, _, reason, action, note string, args ...any) {
	w(reason, action, fmt.Sprintf(note, args...))
}

func TestConforms(t *testing.T) {
	selector := map[string]any{"matchLabels": map[string]any{"role": "worker"}}
	conditions := []any{map[string]any{"type": "Ready", "status": "False", "timeout": "300s"}}
	conform.Run(t, conform.Fixture{
		Kind:     "Machine",
		Check:    check(t, "check", "5", workers, nil),
		Pause:    func(u *unstructured.Unstructured) { u.SetAnnotations(map[string]string{"cluster.x-k8s.io/paused": ""}) },
		Remedies: []string{DeleteMachine, AnnotateMachine, RequestMachineRemediation},
		Nonsense: map[string]any{
			"no number":         map[string]any{"selector": selector, "unhealthyConditions": conditions, "maxUnhealthy": "many"},
			"no duration":       map[string]any{"selector": selector, "unhealthyConditions": conditions, "nodeStartupTimeout": "soon"},
			"half a template":   map[string]any{"selector": selector, "unhealthyConditions": conditions, "remediationTemplate": map[string]any{"kind": "XTemplate"}},
			"a broken selector": map[string]any{"selector": map[string]any{"matchExpressions": []any{map[string]any{"key": "a", "operator": "Is"}}}, "unhealthyConditions": conditions},
		},
		Begin: begin,
	})
}

// begin starts the dialect with caches that the test fills.
func begin(t *testing.T, w *conform.APIServer) conform.Harness {
	t.Helper()
	in := informertest.New()
	c := NewClient(Config{
		Informers: in, Live: w, Served: w.Served, Now: func() time.Time { return w.Now }, Wake: func() {}, Events: eventFunc(w.RecordEvent),
		Writer: patcher(func(u *unstructured.Unstructured, body map[string]any) error {
			meta, _ := body["metadata"].(map[string]any)
			return w.Write(u, fmt.Sprint(meta["resourceVersion"]), body["status"])
		}),
	})
	if err := c.Watch(t.Context()); err != nil {
		t.Fatalf("watching: %v", err)
	}
	return conform.Harness{
		Dialect: c,
		SyncCaches: func() {
			in.SetSynced(true)
		},
		PutCheck: func(u *unstructured.Unstructured) { in.Of("MachineHealthCheck").Handler.OnAdd(u, false) },
		AddTarget: func(name string) {
			in.Of("Machine").Handler.OnAdd(aMachine(name), false)
			in.Of("Node").Handler.OnAdd(readyNode(t, name+"-node"), false)
		},
	}
}

// readyNode returns a node as a cache holds it.
func readyNode(t *testing.T, name string) *slim.Node {
	t.Helper()
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name + "-uid"), CreationTimestamp: metav1.NewTime(ago(time.Hour))}}
	n.Status.Conditions = []corev1.NodeCondition{{Type: "Ready", Status: "True", LastTransitionTime: metav1.NewTime(ago(time.Hour))}}
	body, err := n.Marshal()
	decoded := &slim.Node{}
	if err := errors.Join(err, decoded.Unmarshal(body)); err != nil {
		t.Fatalf("decoding a node: %v", err)
	}
	return decoded
}
