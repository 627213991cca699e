package hostile

import (
	"fmt"
	"testing"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fettle-io/fettle/api/fettle/annotation"
	"github.com/fettle-io/fettle/test/cluster"
)

// TestI14TenantsHoldBackNoRepairsOfOthers: a tenant makes machines refer to others' nodes, and makes one look like a
// member of the control plane. The kubelet of a worker makes more etcd pods than Fettle reads. Others' machines are
// repaired.
func TestI14TenantsHoldBackNoRepairsOfOthers(t *testing.T) {
	t.Parallel()
	c := cluster.Start(t, cluster.Options{Args: []string{"--controllers=*,-node-lifecycle-controller"}})
	c.InstallFettle(t)
	c.Apply(t, identityTenantRights)
	w := newIdentityWorld(t, c, "machines")
	for _, name := range []string{"worker-a", "worker-x", "master"} {
		w.node(name)
		w.machine(name, name)
		w.must("the node names its machine", w.merge(w.Client, name, identityAnnotation(identityMachineAnnotation, `"machines/`+name+`"`)))
	}
	w.must("labelling a node", w.merge(w.Client, "master", identityLabel("node-role.kubernetes.io/control-plane", `""`)))
	system := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: metav1.NamespaceSystem}}
	w.must("saying where the quorum is", w.Patch(cluster.Context(t), system, client.RawPatch(types.MergePatchType, []byte(identityAnnotation(annotation.ControlPlaneQuorum, `"external"`)))))
	w.tenantSelects("worker-a", "master")
	w.tenantPoses()
	w.kubeletFloods("worker-x", 1001)
	c.Apply(t, `
apiVersion: machine.openshift.io/v1beta1
kind: MachineHealthCheck
metadata: {namespace: machines, name: all}
spec:
  selector: {matchLabels: {role: worker}}
  unhealthyConditions: [{type: Ready, status: "False", timeout: 1s}]
`)
	c.StartFettle(t)
	for _, name := range []string{"worker-a", "master"} {
		w.must("a report", w.report(w.kubelet(name), name, corev1.ConditionFalse))
		w.wantGone(name)
	}
	w.keeps("worker-x")
}

// tenantSelects makes machines of a tenant refer to nodes, and a paused health check of the tenant select them.
func (w *identityWorld) tenantSelects(nodes ...string) {
	w.t.Helper()
	mallory, ctx := w.as("mallory"), cluster.Context(w.t)
	for _, node := range nodes {
		m := w.object("Machine", "thief-of-"+node)
		m.SetNamespace("tenant")
		w.must("creating a machine", mallory.Create(ctx, m))
		refers := fmt.Appendf(nil, `{"status":{"phase":"Running","nodeRef":{"kind":"Node","name":%q}}}`, node)
		w.must("referring to a node", mallory.Status().Patch(ctx, m, client.RawPatch(types.MergePatchType, refers)))
	}
	check := w.object("MachineHealthCheck", "paused")
	check.SetNamespace("tenant")
	check.SetAnnotations(map[string]string{"cluster.x-k8s.io/paused": ""})
	check.Object["spec"] = map[string]any{
		"selector": map[string]any{}, "maxUnhealthy": int64(0),
		"unhealthyConditions": []any{map[string]any{"type": "Ready", "status": "False", "timeout": "0s"}},
	}
	w.must("creating a health check", mallory.Create(ctx, check))
}

// tenantPoses makes a tenant's machine look like a member of the control plane that is in deletion and never gone.
func (w *identityWorld) tenantPoses() {
	w.t.Helper()
	mallory, ctx := w.as("mallory"), cluster.Context(w.t)
	m := w.object("Machine", "poser")
	m.SetNamespace("tenant")
	m.SetLabels(map[string]string{"machine.openshift.io/cluster-api-machine-role": "master"})
	m.SetFinalizers([]string{"tenant.example/never"})
	w.must("creating a machine", mallory.Create(ctx, m))
	w.must("deleting a machine", mallory.Delete(ctx, m))
}

// kubeletFloods makes a kubelet create pods that look like members of etcd.
func (w *identityWorld) kubeletFloods(node string, pods int) {
	w.t.Helper()
	kubelet, ctx := w.kubelet(node), cluster.Context(w.t)
	n := identityNode(node)
	w.must("reading a node", w.Get(ctx, client.ObjectKeyFromObject(n), n))
	w.must("creating mirror pods", floodWith(pods, func(i int) error {
		return kubelet.Create(ctx, &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: metav1.NamespaceSystem, Name: fmt.Sprintf("etcd-%d", i), Labels: map[string]string{"component": "etcd"},
				Annotations:     map[string]string{corev1.MirrorPodAnnotationKey: "hash"},
				OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: node, UID: n.UID, Controller: new(true)}},
			},
			Spec: corev1.PodSpec{NodeName: node, Containers: []corev1.Container{{Name: "c", Image: "images.example/c"}}},
		})
	}))
}

// floodWith calls do for each of many numbers, some at a time, and returns the first error.
func floodWith(many int, do func(i int) error) error {
	var group errgroup.Group
	group.SetLimit(16)
	for i := range many {
		group.Go(func() error { return do(i) })
	}
	return group.Wait()
}
