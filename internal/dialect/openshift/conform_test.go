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
	"github.com/fettle-io/fettle/internal/lean"
)

// wordy hands events on as they are.
type wordy func(reason, action, text string)

func (w wordy) Eventf(_, _ runtime.Object, _, reason, action, note string, args ...any) {
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
		Begin: begun,
	})
}

// begun is the dialect with caches that are filled by hand.
func begun(t *testing.T, w *conform.World) conform.Stage {
	t.Helper()
	in := newInformers()
	c := NewClient(Config{
		Informers: in, Live: w, Served: w.Served, Now: func() time.Time { return w.Now }, Wake: func() {}, Events: wordy(w.Tell),
		Writer: patcher(func(u *unstructured.Unstructured, body map[string]any) error {
			meta, _ := body["metadata"].(map[string]any)
			return w.Write(u, fmt.Sprint(meta["resourceVersion"]), body["status"])
		}),
	})
	if err := c.Watch(t.Context()); err != nil {
		t.Fatalf("watching: %v", err)
	}
	return conform.Stage{
		Dialect: c,
		Fill: func() {
			for _, i := range in.informer {
				i.synced = true
			}
		},
		Show: func(u *unstructured.Unstructured) { in.informer["check"].handler.OnAdd(u, false) },
		Add: func(name string) {
			in.informer["machine"].handler.OnAdd(aMachine(name), false)
			in.informer["node"].handler.OnAdd(readyNode(t, name+"-node"), false)
		},
	}
}

// readyNode is a node as a cache gives it.
func readyNode(t *testing.T, name string) *lean.Node {
	t.Helper()
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name + "-uid"), CreationTimestamp: metav1.NewTime(ago(time.Hour))}}
	n.Status.Conditions = []corev1.NodeCondition{{Type: "Ready", Status: "True", LastTransitionTime: metav1.NewTime(ago(time.Hour))}}
	body, err := n.Marshal()
	decoded := &lean.Node{}
	if err := errors.Join(err, decoded.Unmarshal(body)); err != nil {
		t.Fatalf("decoding a node: %v", err)
	}
	return decoded
}
