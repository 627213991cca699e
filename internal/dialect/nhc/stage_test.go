package nhc

import (
	"errors"
	"maps"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"

	"github.com/fettle-io/fettle/internal/core"
	"github.com/fettle-io/fettle/internal/slim"
)

// dawn is the time of these tests. It is a local time, as decoding returns it.
var dawn = time.Date(2026, time.August, 3, 6, 0, 0, 0, time.UTC).Local()

func before(d time.Duration) time.Time { return dawn.Add(-d) }

// Specifications, each as YAML in one line.
const (
	selectsWorkers = `{selector: {matchLabels: {role: worker}}, remediationTemplate: {apiVersion: t.example/v1, kind: RebootTemplate, namespace: ns, name: r}}`
	selectsMasters = `{selector: {matchLabels: {role: master}}, remediationTemplate: {apiVersion: t.example/v1, kind: RebootTemplate, namespace: ns, name: r}}`
	selectsAll     = `{selector: {matchExpressions: [{key: role, operator: Exists}]}, remediationTemplate: {apiVersion: t.example/v1, kind: RebootTemplate, namespace: ns, name: r}}`
	pausedWorkers  = `{selector: {matchLabels: {role: worker}}, remediationTemplate: {apiVersion: t.example/v1, kind: RebootTemplate, namespace: ns, name: r}, pauseRequests: [why]}`
)

// posted returns a health check as a watch delivers it.
func posted(t *testing.T, name, revision, spec string) *unstructured.Unstructured {
	t.Helper()
	body, err := utilyaml.ToJSON([]byte(`
apiVersion: remediation.medik8s.io/v1alpha1
kind: NodeHealthCheck
metadata: {creationTimestamp: "2026-08-02T12:00:00Z"}
spec: ` + spec))
	u := &unstructured.Unstructured{}
	if err := errors.Join(err, u.UnmarshalJSON(body)); err != nil {
		t.Fatalf("reading a manifest: %v", err)
	}
	u.SetName(name)
	u.SetUID(types.UID(name + "-uid"))
	u.SetResourceVersion(revision)
	return u
}

func leavingSoon(u *unstructured.Unstructured) *unstructured.Unstructured {
	at := metav1.NewTime(dawn)
	u.SetDeletionTimestamp(&at)
	u.SetFinalizers([]string{"example.org/waits"})
	return u
}

// seen returns a node as a cache has it. It is a worker unless a change says otherwise.
func seen(name string, changes ...func(*corev1.Node)) *slim.Node {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{
		Name: name, UID: types.UID(name + "-uid"), ResourceVersion: "7", CreationTimestamp: metav1.NewTime(before(24 * time.Hour)),
		Labels: map[string]string{"role": "worker"},
	}}
	n.Status.Conditions = []corev1.NodeCondition{{Type: "Ready", Status: "True", LastTransitionTime: metav1.NewTime(before(time.Hour))}}
	for _, change := range changes {
		change(n)
	}
	body, err := n.Marshal()
	decoded := &slim.Node{}
	if err := errors.Join(err, decoded.Unmarshal(body)); err != nil {
		panic(err)
	}
	return decoded
}

func tagged(key, value string) func(*corev1.Node) {
	return func(n *corev1.Node) {
		n.Labels = maps.Clone(n.Labels)
		n.Labels[key] = value
	}
}

func noted(key, value string) func(*corev1.Node) {
	return func(n *corev1.Node) { n.Annotations = map[string]string{key: value} }
}

func notReady(n *corev1.Node) { n.Status.Conditions[0].Status = "False" }

func renamed(uid string) func(*corev1.Node) {
	return func(n *corev1.Node) { n.UID = types.UID(uid) }
}

func beating(n *corev1.Node) {
	n.ResourceVersion = "8"
	n.Status.Conditions[0].LastHeartbeatTime = metav1.NewTime(dawn)
}

func departing(n *corev1.Node) { n.DeletionTimestamp = &metav1.Time{Time: dawn} }

// nodeID returns the ID of a node of seen.
func nodeID(name string) core.ID { return core.ID{Kind: "Node", Name: name, UID: name + "-uid"} }

// checkID returns the ID of a health check of posted.
func checkID(name string) core.ID {
	return core.ID{Kind: "NodeHealthCheck", Name: name, UID: name + "-uid"}
}
