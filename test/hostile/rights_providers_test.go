package hostile

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fettle-io/fettle/api/medik8s/v1alpha1"
	"github.com/fettle-io/fettle/test/cluster"
)

// rightsOfProviders are the rights of Cluster API's manager that must not reach Fettle.
var rightsOfProviders = []cluster.Right{
	{Group: "", Resource: "secrets", Verb: "list"},
	{Group: "", Resource: "secrets", Verb: "create"},
	{Group: "", Resource: "configmaps", Verb: "get"},
	{Group: "cluster.x-k8s.io", Resource: "machines", Verb: "delete"},
	{Group: "infrastructure.cluster.x-k8s.io", Resource: "*", Verb: "delete"},
	{Group: "infrastructure.x.example", Resource: "xmachines", Verb: "create"},
	{Group: "infrastructure.x.example", Resource: "xmachines", Verb: "delete"},
	{Group: "infrastructure.x.example", Resource: "xmachinetemplates", Verb: "list"},
}

// TestI14ProvidersRightsAreNotInherited: on a management cluster, a health check names the template of a provider's
// machines. Fettle has none of the rights of Cluster API's manager. So it makes no object from the template, and names
// the missing right.
func TestI14ProvidersRightsAreNotInherited(t *testing.T) {
	t.Parallel()
	c := cluster.Start(t, cluster.Options{Args: []string{"--controllers=*,-node-lifecycle-controller"}})
	c.InstallProvidersRoles(t)
	c.InstallFettleForNodes(t)
	c.AllowClusterAPI(t)
	rightsKind(t, c, "XMachine", "xmachines")
	rightsKind(t, c, "XMachineTemplate", "xmachinetemplates")
	c.Apply(t, `{apiVersion: infrastructure.x.example/v1, kind: XMachineTemplate, metadata: {name: x, namespace: default}, spec: {template: {spec: {a: b}}}}`)
	rightsFailedNode(t, c, "victim")
	c.Apply(t, rightsCheck)
	fettle := c.StartFettle(t)
	c.Eventually(t, "the health check says what is not granted", func(ctx context.Context) error {
		return rightsSaid(ctx, c, "may not list and watch XMachineTemplate", "fettle.io/aggregate-to-fettle=true")
	})
	fettle.Stop(t)

	effective := c.Effective(t)
	for _, never := range rightsOfProviders {
		for _, r := range effective {
			if r.Covers(never) {
				t.Errorf("Fettle may do %+v", r)
			}
		}
	}
	for _, u := range c.Uses(t) {
		if u.Group == "infrastructure.x.example" && u.Allowed {
			t.Errorf("Fettle did %+v", u.Right)
		}
	}
	made := &unstructured.UnstructuredList{}
	made.SetAPIVersion("infrastructure.x.example/v1")
	made.SetKind("XMachineList")
	if err := c.List(cluster.Context(t), made); err != nil || len(made.Items) > 0 {
		t.Errorf("there are %d machines (%v)", len(made.Items), err)
	}
}

const rightsCheck = `
apiVersion: remediation.medik8s.io/v1alpha1
kind: NodeHealthCheck
metadata: {name: attack}
spec:
  selector: {matchLabels: {pool: victims}}
  minHealthy: 0
  unhealthyConditions: [{type: Ready, status: "False", duration: 1s}]
  remediationTemplate: {apiVersion: infrastructure.x.example/v1, kind: XMachineTemplate, namespace: default, name: x}
`

// rightsKind defines a kind of the provider.
func rightsKind(t *testing.T, c *cluster.Cluster, kind, plural string) {
	t.Helper()
	c.Apply(t, `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: `+plural+`.infrastructure.x.example}
spec:
  group: infrastructure.x.example
  scope: Namespaced
  names: {kind: `+kind+`, plural: `+plural+`, singular: `+strings.ToLower(kind)+`}
  versions:
  - name: v1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
`)
}

// rightsFailedNode makes a node that has not been ready for an hour.
func rightsFailedNode(t *testing.T, c *cluster.Cluster, name string) {
	t.Helper()
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"pool": "victims"}}}
	if err := c.Create(cluster.Context(t), node); err != nil {
		t.Fatalf("creating a node: %v", err)
	}
	since := metav1.NewTime(time.Now().Add(-time.Hour))
	status, err := json.Marshal(map[string]any{"status": corev1.NodeStatus{Conditions: []corev1.NodeCondition{
		{Type: corev1.NodeReady, Status: corev1.ConditionFalse, Reason: "Test", LastHeartbeatTime: since, LastTransitionTime: since},
	}}})
	if err == nil {
		err = c.Status().Patch(cluster.Context(t), node, client.RawPatch(types.StrategicMergePatchType, status))
	}
	if err != nil {
		t.Fatalf("failing a node: %v", err)
	}
}

// rightsSaid looks for words in the status of the health check, once it counts its node as unhealthy.
func rightsSaid(ctx context.Context, c *cluster.Cluster, words ...string) error {
	var check v1alpha1.NodeHealthCheck
	if err := c.Get(ctx, client.ObjectKey{Name: "attack"}, &check); err != nil {
		return err
	}
	text, err := json.Marshal(check.Status)
	if err != nil {
		return err
	}
	for _, w := range append(words, `"observedNodes":1`, `"healthyNodes":0`) {
		if !strings.Contains(string(text), w) {
			return fmt.Errorf("the status lacks %q: %s", w, text)
		}
	}
	return nil
}
