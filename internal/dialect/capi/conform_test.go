package capi

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fettle-io/fettle/internal/dialect/conform"
)

// eventFunc passes events on.
type eventFunc func(reason, action, text string)

func (w eventFunc) Eventf(_, _ runtime.Object, _, reason, action, note string, args ...any) {
	w(reason, action, fmt.Sprintf(note, args...))
}

// worldly writes statuses to the API server of the harness.
type worldly struct {
	client.Client

	w *conform.APIServer
}

func (w worldly) Status() client.SubResourceWriter { return statusesOf{w: w.w} }

// clustered reads the Cluster, and health checks from the API server of the harness.
type clustered struct {
	*conform.APIServer

	cluster *unstructured.Unstructured
}

func (c clustered) Get(ctx context.Context, key client.ObjectKey, into client.Object, options ...client.GetOption) error {
	if into.GetObjectKind().GroupVersionKind().Kind != "Cluster" {
		return c.APIServer.Get(ctx, key, into, options...)
	}
	into.(*unstructured.Unstructured).Object = c.cluster.DeepCopy().Object
	return nil
}

type statusesOf struct {
	client.SubResourceWriter

	w *conform.APIServer
}

func (s statusesOf) Patch(_ context.Context, obj client.Object, patch client.Patch, _ ...client.SubResourcePatchOption) error {
	data, err := patch.Data(obj)
	var body map[string]any
	if err == nil {
		err = json.Unmarshal(data, &body)
	}
	if err != nil {
		return err
	}
	meta, _ := body["metadata"].(map[string]any)
	return s.w.Write(obj.(*unstructured.Unstructured), fmt.Sprint(meta["resourceVersion"]), body["status"])
}

func TestConforms(t *testing.T) {
	spec := func(change string) any {
		return edited(t, aCheck(t, "check"), "spec: "+change).Object["spec"]
	}
	conform.Run(t, conform.Fixture{
		Kind:     "Machine",
		Check:    aCheck(t, "check"),
		Remedies: []string{MarkOwner, RequestMachineRemediation},
		Nonsense: map[string]any{
			"no number":         spec("{remediation: {triggerIf: {unhealthyLessThanOrEqualTo: many}}}"),
			"no range":          spec(`{remediation: {triggerIf: {unhealthyInRange: "[5-3]"}}}`),
			"no duration":       spec("{checks: {nodeStartupTimeoutSeconds: -1}}"),
			"half a template":   spec("{remediation: {templateRef: {kind: XTemplate}}}"),
			"a broken selector": spec("{selector: {matchExpressions: [{key: a, operator: Is}]}}"),
			"an empty selector": spec("{selector: {matchLabels: null}}"),
		},
		Begin: func(t *testing.T, w *conform.APIServer) conform.Harness {
			t.Helper()
			s := begin(t, func(c *Config) {
				c.Served, c.Now, c.Events, c.Writer, c.Live = w.Served, func() time.Time { return w.Now }, eventFunc(w.RecordEvent), worldly{w: w}, clustered{w, theCluster(t)}
			})
			s.in.SetSynced(false)
			return conform.Harness{
				Dialect: s.dialect,
				SyncCaches: func() {
					s.in.SetSynced(true)
					s.see(theCluster(t))
				},
				PutCheck: s.see,
				AddTarget: func(name string) {
					s.nodes.has("True", ago(time.Hour), name+"-node")
					s.see(aMachine(t, name))
				},
			}
		},
	})
}
