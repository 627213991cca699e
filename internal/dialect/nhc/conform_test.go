package nhc

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fettle-io/fettle/internal/dialect/conform"
	"github.com/fettle-io/fettle/internal/informer/informertest"
)

// eventFunc passes events on.
type eventFunc func(reason, action, text string)

func (w eventFunc) Eventf(_, _ runtime.Object, _, reason, action, note string, args ...any) {
	w(reason, action, fmt.Sprintf(note, args...))
}

func TestConforms(t *testing.T) {
	selector := map[string]any{"matchLabels": map[string]any{"role": "worker"}}
	template := map[string]any{"apiVersion": "t.example/v1", "kind": "RebootTemplate", "namespace": "ns", "name": "r"}
	conform.Run(t, conform.Fixture{
		Kind:  "Node",
		Check: posted(t, "check", "5", selectsWorkers),
		Pause: func(u *unstructured.Unstructured) {
			u.Object["spec"] = posted(t, "check", "5", pausedWorkers).Object["spec"]
		},
		Remedies: []string{"RequestNodeRemediation"},
		Waits:    true,
		Nonsense: map[string]any{
			"no remedy":          map[string]any{"selector": selector},
			"two kinds of limit": map[string]any{"selector": selector, "remediationTemplate": template, "minHealthy": "51%", "maxUnhealthy": "49%"},
			"no number":          map[string]any{"selector": selector, "remediationTemplate": template, "maxUnhealthy": "many"},
			"a broken selector":  map[string]any{"selector": map[string]any{"matchExpressions": []any{map[string]any{"key": "a", "operator": "Is"}}}, "remediationTemplate": template},
		},
		Begin: begin,
	})
}

// begin returns the dialect with caches that the harness fills.
func begin(t *testing.T, w *conform.APIServer) conform.Harness {
	t.Helper()
	in := informertest.New()
	c := NewClient(Config{
		Informers: in, Live: w, Served: w.Served, Now: func() time.Time { return w.Now }, Wake: func() {}, Events: eventFunc(w.RecordEvent),
		Writer: patcher(func(obj client.Object, _ types.PatchType, data []byte) error {
			u, isCheck := obj.(*unstructured.Unstructured)
			if !isCheck {
				return w.Patch()
			}
			var body []struct {
				Path  string `json:"path"`
				Value any    `json:"value"`
			}
			if err := json.Unmarshal(data, &body); err != nil || len(body) != 2 || body[0].Path != "/metadata/resourceVersion" {
				t.Fatalf("the patch is %s (%v)", data, err)
			}
			return w.Write(u, body[0].Value.(string), body[1].Value)
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
		PutCheck: func(u *unstructured.Unstructured) { in.Of("NodeHealthCheck").Handler.OnAdd(u, false) },
		AddTarget: func(name string) {
			in.Of("Node").Handler.OnAdd(seen(name, func(n *corev1.Node) { n.UID = types.UID(name + "-uid") }), false)
		},
	}
}
