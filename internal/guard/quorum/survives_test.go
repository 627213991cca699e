package quorum

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fettle-io/fettle/api/fettle/annotation"
	"github.com/fettle-io/fettle/internal/core"
	"github.com/fettle-io/fettle/internal/slim"
)

// fakeAPI is an API server with the objects that the guard reads.
type fakeAPI struct {
	client.Reader

	nodes []slim.Node
	// objects are pods, leases and pod disruption budgets.
	objects []*unstructured.Unstructured
	// namespaces have the annotations of the namespaces that exist.
	namespaces map[string]map[string]string
	// fail has the errors of calls, and calls has the calls in their order.
	fail  map[string]error
	calls []string
}

func (f *fakeAPI) call(line string) error {
	f.calls = append(f.calls, line)
	return f.fail[line]
}

// Get reads the metadata of a namespace.
func (f *fakeAPI) Get(_ context.Context, key client.ObjectKey, into client.Object, _ ...client.GetOption) error {
	if err := f.call("get namespace " + key.Name); err != nil {
		return err
	}
	annotations, exists := f.namespaces[key.Name]
	if kind := into.GetObjectKind().GroupVersionKind(); !exists || kind != (schema.GroupVersionKind{Version: "v1", Kind: "Namespace"}) {
		return apierrors.NewNotFound(schema.GroupResource{Resource: "namespaces"}, key.Name)
	}
	into.SetAnnotations(annotations)
	return nil
}

// List lists the objects of a kind, a namespace and selectors.
func (f *fakeAPI) List(_ context.Context, into client.ObjectList, opts ...client.ListOption) error {
	o := client.ListOptions{}
	o.ApplyOptions(opts)
	if list, is := into.(*slim.NodeList); is {
		return f.listNodes(list, o.LabelSelector)
	}
	list := into.(*unstructured.UnstructuredList)
	kind := list.GroupVersionKind()
	if err := f.call("list " + kind.Kind + " " + o.Namespace); err != nil {
		return err
	}
	for _, u := range f.objects {
		nodeName, _, _ := unstructured.NestedString(u.Object, "spec", "nodeName")
		account, _, _ := unstructured.NestedString(u.Object, "spec", "serviceAccountName")
		has := fields.Set{"spec.nodeName": nodeName, "spec.serviceAccountName": account}
		if u.GroupVersionKind() == kind.GroupVersion().WithKind(strings.TrimSuffix(kind.Kind, "List")) && u.GetNamespace() == o.Namespace &&
			(o.LabelSelector == nil || o.LabelSelector.Matches(labels.Set(u.GetLabels()))) &&
			(o.FieldSelector == nil || o.FieldSelector.Matches(has)) {
			list.Items = append(list.Items, *u)
		}
	}
	return nil
}

func (f *fakeAPI) listNodes(list *slim.NodeList, selector labels.Selector) error {
	if err := f.call("list nodes"); err != nil {
		return err
	}
	for i := range f.nodes {
		of := labels.Set{}
		for _, key := range slim.ControlPlaneLabels() {
			if f.nodes[i].Labels.Has(key) {
				of[key] = ""
			}
		}
		if selector.Matches(of) {
			list.Items = append(list.Items, f.nodes[i])
		}
	}
	return nil
}

// newObject makes an object from YAML.
func newObject(t *testing.T, kind schema.GroupVersionKind, namespace, name, yaml string) *unstructured.Unstructured {
	t.Helper()
	u := object(t, yaml)
	u.SetGroupVersionKind(kind)
	u.SetNamespace(namespace)
	u.SetName(name)
	return u
}

// etcdPod makes an etcd pod of kube-system. A static pod has no service account, and the others have one.
func etcdPod(t *testing.T, node, ready string, static bool) *unstructured.Unstructured {
	t.Helper()
	account, annotations := "etcd", "{}"
	if static {
		account, annotations = "", "{kubernetes.io/config.mirror: x}"
	}
	return newObject(t, schema.GroupVersionKind{Version: "v1", Kind: "Pod"}, "kube-system", "etcd-"+node, fmt.Sprintf(
		`{metadata: {labels: {component: etcd}, annotations: %s}, spec: {nodeName: %s, serviceAccountName: %q}, status: {conditions: [{type: Ready, status: %q}]}}`,
		annotations, node, account, ready))
}

// apiServerLease makes the lease of an API server that renewed it a while ago.
func apiServerLease(t *testing.T, host string, ago time.Duration) *unstructured.Unstructured {
	t.Helper()
	return newObject(t, schema.GroupVersionKind{Group: "coordination.k8s.io", Version: "v1", Kind: "Lease"}, "kube-system", "apiserver-"+host, fmt.Sprintf(
		`{metadata: {labels: {apiserver.kubernetes.io/identity: kube-apiserver, kubernetes.io/hostname: %s}}, spec: {leaseDurationSeconds: 3600, renewTime: %q}}`,
		host, noon.Add(-ago).Format(metav1.RFC3339Micro)))
}

// budgetOf makes a pod disruption budget of etcd's guards.
func budgetOf(t *testing.T, name string, allowed int) *unstructured.Unstructured {
	t.Helper()
	return newObject(t, schema.GroupVersionKind{Group: "policy", Version: "v1", Kind: "PodDisruptionBudget"}, "openshift-etcd", name, fmt.Sprintf(
		`{spec: {selector: {matchLabels: {app: guard}}}, status: {disruptionsAllowed: %d}}`, allowed))
}

// etcdGuard makes a pod that guards the etcd member of a node.
func etcdGuard(t *testing.T, node, ready, app string) *unstructured.Unstructured {
	t.Helper()
	return newObject(t, schema.GroupVersionKind{Version: "v1", Kind: "Pod"}, "openshift-etcd", app+"-"+node, fmt.Sprintf(
		`{metadata: {labels: {app: %s}}, spec: {nodeName: %s}, status: {conditions: [{type: Ready, status: %q}]}}`, app, node, ready))
}

const (
	controlPlaneLabel = "node-role.kubernetes.io/control-plane"
	workerLabel       = "node-role.kubernetes.io/worker"
)

// newFakeAPI makes an API server with three nodes of the control plane, of which a isn't ready, and a worker.
func newFakeAPI(objects ...*unstructured.Unstructured) *fakeAPI {
	of := map[string]string{controlPlaneLabel: ""}
	return &fakeAPI{
		nodes: []slim.Node{
			*aNode("a", "False", of), *aNode("b", "True", of), *aNode("c", "True", of), *aNode("w", "True", map[string]string{workerLabel: ""}),
		},
		objects: objects, namespaces: map[string]map[string]string{"kube-system": nil}, fail: map[string]error{},
	}
}

// survives reads whether quorum survives without the node a.
func (f *fakeAPI) survives(t *testing.T, openshift core.Tri) (core.Tri, error) {
	t.Helper()
	c := NewClient(Config{Live: f, OpenShift: func() core.Tri { return openshift }, Now: func() time.Time { return noon }})
	return c.Survives(t.Context(), core.Target{Node: core.Node{Name: "a"}})
}

// TestSurvives: the objects that the guard reads decide, and it reads each kind of evidence.
func TestSurvives(t *testing.T) {
	pod, lease := func(node, ready string) *unstructured.Unstructured { return etcdPod(t, node, ready, true) }, func(host string, ago time.Duration) *unstructured.Unstructured {
		return apiServerLease(t, host, ago)
	}
	cases := map[string]struct {
		reason  string
		objects []*unstructured.Unstructured
		want    core.Tri
	}{
		"no evidence":             {"nothing is known", nil, core.Unknown},
		"two of three have pods":  {"", []*unstructured.Unstructured{pod("a", "False"), pod("b", "True"), pod("c", "True")}, core.Yes},
		"one of three has a pod":  {"", []*unstructured.Unstructured{pod("a", "False"), pod("b", "True"), pod("c", "False")}, core.No},
		"a pod on a worker":       {"the kubelet of a worker makes it", []*unstructured.Unstructured{pod("w", "True")}, core.Unknown},
		"a pod of a service":      {"no kubelet makes it, so w has a vote", []*unstructured.Unstructured{etcdPod(t, "w", "True", false), etcdPod(t, "b", "True", false), etcdPod(t, "c", "False", false)}, core.No},
		"API servers":             {"", []*unstructured.Unstructured{lease("b", time.Second), lease("c", time.Second)}, core.Yes},
		"an API server is dead":   {"", []*unstructured.Unstructured{lease("b", time.Second), lease("c", time.Hour)}, core.No},
		"leases of no API server": {"", []*unstructured.Unstructured{newObject(t, schema.GroupVersionKind{Group: "coordination.k8s.io", Version: "v1", Kind: "Lease"}, "kube-system", "x", `{metadata: {labels: {kubernetes.io/hostname: b}}, spec: {leaseDurationSeconds: 3600, renewTime: "2026-08-03T12:00:00.000000Z"}}`)}, core.Unknown},
	}
	for sentence, tc := range cases {
		t.Run(sentence, func(t *testing.T) {
			f := newFakeAPI(tc.objects...)
			if got, err := f.survives(t, core.No); got != tc.want || err != nil {
				t.Errorf("survives: %s, want %s (%v). %s", got, tc.want, err, tc.reason)
			}
		})
	}
}

// TestPodsAreCountedOnce: a pod with a service account on a node of the control plane is read twice. Of its node only the second
// read counts.
func TestPodsAreCountedOnce(t *testing.T) {
	f := newFakeAPI(etcdPod(t, "a", "True", false), etcdPod(t, "b", "True", true), etcdPod(t, "w", "True", false))
	nodes := []*slim.Node{&f.nodes[0], &f.nodes[1]}
	got, err := (&Client{Config{Live: f}}).etcdPods(t.Context(), nodes)
	var on []string
	for _, p := range got {
		on = append(on, p.Node)
	}
	if diff := cmp.Diff([]string{"w", "a", "b"}, on); diff != "" || err != nil {
		t.Errorf("pods on nodes, %v (-want +got):\n%s", err, diff)
	}
}

// TestQuorumByAnnotation: an administrator's annotation counts only where no node shows a member.
func TestQuorumByAnnotation(t *testing.T) {
	cases := map[string]struct {
		value   string
		objects []*unstructured.Unstructured
		want    core.Tri
		err     string
	}{
		"external":                {"external", nil, core.Yes, ""},
		"another value":           {"elsewhere", nil, core.Unknown, `annotation fettle.io/control-plane-quorum of namespace kube-system is "elsewhere"; give "external" where no node has a vote, or remove it`},
		"external, with evidence": {"external", []*unstructured.Unstructured{etcdPod(t, "a", "False", true)}, core.No, ""},
	}
	for sentence, tc := range cases {
		t.Run(sentence, func(t *testing.T) {
			f := newFakeAPI(tc.objects...)
			f.namespaces["kube-system"] = map[string]string{annotation.ControlPlaneQuorum: tc.value}
			got, err := f.survives(t, core.No)
			if got != tc.want || (err == nil) != (tc.err == "") || (err != nil && err.Error() != tc.err) {
				t.Errorf("survives: %s, %v; want %s, %s", got, err, tc.want, tc.err)
			}
		})
	}
}

// TestPlatform: OpenShift is known by its definition or by its namespace, and its budget decides there.
func TestPlatform(t *testing.T) {
	cases := map[string]struct {
		served    core.Tri
		namespace bool
		want      core.Tri
		calls     []string
		err       error
	}{
		"OpenShift":                     {core.Yes, true, core.Yes, []string{"list PodDisruptionBudgetList openshift-etcd", "list PodList openshift-etcd"}, nil},
		"OpenShift without definition":  {core.No, true, core.Yes, []string{"get namespace openshift-etcd", "list PodDisruptionBudgetList openshift-etcd", "list PodList openshift-etcd"}, nil},
		"the definitions are not known": {core.Unknown, true, core.Unknown, nil, errPlatformUnknown},
	}
	for sentence, tc := range cases {
		t.Run(sentence, func(t *testing.T) {
			f := newFakeAPI(budgetOf(t, "etcd", 1))
			if tc.namespace {
				f.namespaces["openshift-etcd"] = nil
			}
			got, err := f.survives(t, tc.served)
			if got != tc.want || !errors.Is(err, tc.err) {
				t.Errorf("survives: %s, %v; want %s, %v", got, err, tc.want, tc.err)
			}
			if diff := cmp.Diff(tc.calls, f.calls); diff != "" {
				t.Errorf("calls (-want +got):\n%s", diff)
			}
		})
	}
}

// TestGuardsOfOpenShift: the budget of etcd's guards decides, and only one budget can be that.
func TestGuardsOfOpenShift(t *testing.T) {
	cases := map[string]struct {
		objects []*unstructured.Unstructured
		want    core.Tri
		err     string
	}{
		"a disruption is allowed": {[]*unstructured.Unstructured{budgetOf(t, "etcd", 1)}, core.Yes, ""},
		"a uses it up":            {[]*unstructured.Unstructured{budgetOf(t, "etcd", 0), etcdGuard(t, "a", "False", "guard"), etcdGuard(t, "b", "True", "guard")}, core.Yes, ""},
		"another uses it up":      {[]*unstructured.Unstructured{budgetOf(t, "etcd", 0), etcdGuard(t, "a", "True", "guard")}, core.No, ""},
		"another pod is on a":     {[]*unstructured.Unstructured{budgetOf(t, "etcd", 0), etcdGuard(t, "a", "True", "installer")}, core.Yes, ""},
		"no budget":               {nil, core.Unknown, "there are 0 pod disruption budgets in openshift-etcd, so the budget of etcd is unknown: there must be exactly one"},
		"two budgets":             {[]*unstructured.Unstructured{budgetOf(t, "etcd", 1), budgetOf(t, "other", 1)}, core.Unknown, "there are 2 pod disruption budgets in openshift-etcd, so the budget of etcd is unknown: there must be exactly one"},
		"a budget that can't be read": {[]*unstructured.Unstructured{newObject(t, schema.GroupVersionKind{Group: "policy", Version: "v1", Kind: "PodDisruptionBudget"}, "openshift-etcd", "etcd", `{spec: {selector: {}}, status: {disruptionsAllowed: many}}`)},
			core.Unknown, "reading pod disruption budget openshift-etcd/etcd: "},
	}
	for sentence, tc := range cases {
		t.Run(sentence, func(t *testing.T) {
			got, err := newFakeAPI(tc.objects...).survives(t, core.Yes)
			if got != tc.want || (err == nil) != (tc.err == "") || (err != nil && !strings.HasPrefix(err.Error(), tc.err)) {
				t.Errorf("survives: %s, %v; want %s, %s", got, err, tc.want, tc.err)
			}
		})
	}
}

// TestI04UnreadQuorumIsUnknown: each read may fail. Then nothing is known, and the error says what was read and who grants it.
func TestI04UnreadQuorumIsUnknown(t *testing.T) {
	down, forbidden := errors.New("down"), apierrors.NewForbidden(schema.GroupResource{Resource: "things"}, "", errors.New("no"))
	for _, tc := range []struct {
		call, doing, grants string
		served              core.Tri
	}{
		{"get namespace openshift-etcd", "looking for namespace openshift-etcd", "ClusterRole fettle grants it, and kubectl apply -k config/rbac makes that", core.No},
		{"list nodes", "listing the nodes of the control plane", "ClusterRole fettle grants it, and kubectl apply -k config/rbac makes that", core.No},
		{"list PodList kube-system", "listing etcd pods in kube-system", "Role fettle in namespace kube-system grants it, and kubectl apply -k config/rbac makes that", core.No},
		{"list LeaseList kube-system", "listing the leases of API servers in kube-system", "Role fettle in namespace kube-system grants it, and kubectl apply -k config/rbac makes that", core.No},
		{"get namespace kube-system", "reading namespace kube-system", "ClusterRole fettle grants it, and kubectl apply -k config makes that", core.No},
		{"list PodDisruptionBudgetList openshift-etcd", "listing pod disruption budgets in openshift-etcd", "Role fettle in namespace openshift-etcd grants it, and kubectl apply -k config/openshift makes that", core.Yes},
		{"list PodList openshift-etcd", "listing pods in openshift-etcd", "Role fettle in namespace openshift-etcd grants it, and kubectl apply -k config/openshift makes that", core.Yes},
	} {
		for err, want := range map[error]string{down: tc.doing + ": down", error(forbidden): tc.doing + ": " + tc.grants + ": " + forbidden.Error()} {
			f := newFakeAPI(budgetOf(t, "etcd", 1))
			f.fail[tc.call] = err
			got, failed := f.survives(t, tc.served)
			if got != core.Unknown || failed == nil || failed.Error() != want || !errors.Is(failed, err) {
				t.Errorf("%s fails: %s, %v;\nwant %s", tc.call, got, failed, want)
			}
		}
	}
}
