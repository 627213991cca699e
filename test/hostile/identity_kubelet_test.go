package hostile

import (
	"context"
	"fmt"
	"testing"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fettle-io/fettle/test/cluster"
)

// identityAnnotations are annotations that a kubelet must not write on its node.
func identityAnnotations() []string {
	return []string{
		identityMachineAnnotation, "machineconfiguration.openshift.io/desiredConfig",
		"remediation.medik8s.io/manually-confirmed-healthy", "remediation.medik8s.io/anything", "fettle.io/anything",
		"cluster.x-k8s.io/machine", "cluster.x-k8s.io/cluster-name", "cluster.x-k8s.io/cluster-namespace", "cluster.x-k8s.io/owner-kind", "cluster.x-k8s.io/owner-name",
	}
}

// identityLabels are labels that a kubelet must not write on its node. NodeRestriction refuses those of Kubernetes.
func identityLabels() []string {
	return []string{"remediation.medik8s.io/exclude-from-remediation", "remediation.medik8s.io/anything", "fettle.io/anything"}
}

// TestI14KubeletWritesNothingThatJudgesItsNode: a kubelet reports the state of its node. It may not write whose machine
// the node is, or that Fettle should skip it. The API server has the Node authorizer and NodeRestriction, as clusters
// have.
func TestI14KubeletWritesNothingThatJudgesItsNode(t *testing.T) {
	t.Parallel()
	c := cluster.Start(t, cluster.Options{})
	c.InstallFettle(t)
	w := newIdentityWorld(t, c, "machines")
	w.node("worker-a")
	w.node("worker-b")
	w.awaitKubeletPolicy()
	t.Run("refused", func(t *testing.T) { identityKubeletIsRefused(w.in(t)) })
	t.Run("registration", func(t *testing.T) { identityRegistrationIsRefused(w.in(t)) })
	t.Run("restricted", func(t *testing.T) { identityNodeRestriction(w.in(t)) })
	t.Run("owners", func(t *testing.T) { identityOwnersAreRefused(w.in(t)) })
	t.Run("many-labels", func(t *testing.T) { identityAmongManyLabels(w.in(t)) })
	t.Run("passes", func(t *testing.T) { identityKubeletIsLetThrough(w.in(t)) })
}

// awaitKubeletPolicy waits until the API server follows the policy.
func (w *identityWorld) awaitKubeletPolicy() {
	w.t.Helper()
	w.Eventually(w.t, "the API server follows the policy", func(context.Context) error {
		err := w.merge(client.NewDryRunClient(w.kubelet("worker-a")), "worker-a", identityAnnotation("fettle.io/probe", `"x"`))
		if !apierrors.IsForbidden(err) {
			return fmt.Errorf("the answer is %w", err)
		}
		return nil
	})
}

func identityAnnotation(key, value string) string {
	return `{"metadata":{"annotations":{"` + key + `":` + value + `}}}`
}

func identityLabel(key, value string) string {
	return `{"metadata":{"labels":{"` + key + `":` + value + `}}}`
}

// identityKubeletIsRefused: a kubelet may not set, change or remove such a key, nor through the status.
func identityKubeletIsRefused(w *identityWorld) {
	kubelet, admin := w.kubelet("worker-a"), w.Client
	refused := func(kind, key string, change func(key, value string) string) {
		says := []string{"a kubelet may not set, change or remove " + kind + " " + key + " of its node", "have an administrator or"}
		wants := func(what, value string) {
			w.wantForbidden(what+" "+key, w.merge(kubelet, "worker-a", change(key, value)), says...)
			w.wantForbidden(what+" "+key+" through the status", w.mergeStatus(kubelet, "worker-a", change(key, value)), says...)
		}
		wants("setting", `"true"`)
		w.must("an administrator sets "+key, w.merge(admin, "worker-a", change(key, `"true"`)))
		wants("changing", `"false"`)
		wants("removing", `null`)
		w.must("an administrator removes "+key, w.merge(admin, "worker-a", change(key, `null`)))
	}
	for _, key := range identityAnnotations() {
		refused("annotation", key, identityAnnotation)
	}
	for _, key := range identityLabels() {
		refused("label", key, identityLabel)
	}
}

// identityRegistrationIsRefused: a kubelet can't register a node with such a key either.
func identityRegistrationIsRefused(w *identityWorld) {
	kubelet := client.NewDryRunClient(w.kubelet("worker-new"))
	for _, key := range identityAnnotations() {
		n := identityNode("worker-new")
		n.Annotations = map[string]string{key: "true"}
		w.wantForbidden("registering with annotation "+key, kubelet.Create(cluster.Context(w.t), n), "annotation "+key)
	}
	for _, key := range identityLabels() {
		n := identityNode("worker-new")
		n.Labels = map[string]string{key: "true"}
		w.wantForbidden("registering with label "+key, kubelet.Create(cluster.Context(w.t), n), "label "+key, "--node-labels", "once the node is registered")
	}
	w.must("registering without", kubelet.Create(cluster.Context(w.t), identityNode("worker-new")))
}

// identityAmongManyLabels: a key is refused among 20,000 labels too, and the next report of the kubelet passes.
func identityAmongManyLabels(w *identityWorld) {
	kubelet := w.kubelet("worker-a")
	n := identityNode("worker-a")
	w.must("reading the node", w.Get(cluster.Context(w.t), client.ObjectKeyFromObject(n), n))
	for i := range 20_000 {
		n.Labels[fmt.Sprint("example.com/", i)] = ""
	}
	n.Labels["remediation.medik8s.io/exclude-from-remediation"] = "true"
	w.Eventually(w.t, "refusal", func(ctx context.Context) error { // a busy API server may take longer than it has for a request
		if err := kubelet.Update(ctx, n); !apierrors.IsForbidden(err) && !apierrors.IsInvalid(err) {
			return fmt.Errorf("want it refused, got %w", err)
		}
		return nil
	})
	w.must("a report", w.report(kubelet, "worker-a", corev1.ConditionTrue))
	w.must("reading the node", w.Get(cluster.Context(w.t), client.ObjectKeyFromObject(n), n))
	if _, excluded := n.Labels["remediation.medik8s.io/exclude-from-remediation"]; excluded || len(n.Labels) > 100 {
		w.t.Errorf("the node has %d labels, excluded %t", len(n.Labels), excluded)
	}
}

// identityNodeRestriction: Kubernetes refuses what Fettle leaves to it.
func identityNodeRestriction(w *identityWorld) {
	kubelet := w.kubelet("worker-a")
	for _, key := range []string{"node-role.kubernetes.io/control-plane", "node-role.kubernetes.io/master", "node-role.kubernetes.io/etcd", "node-restriction.kubernetes.io/pool"} {
		w.wantForbidden("label "+key, w.merge(kubelet, "worker-a", identityLabel(key, `""`)))
		w.wantForbidden("label "+key+" through the status", w.mergeStatus(kubelet, "worker-a", identityLabel(key, `""`)))
	}
	w.wantForbidden("a taint", w.merge(kubelet, "worker-a", `{"spec":{"taints":[{"key":"a","effect":"NoExecute"}]}}`))
	w.wantForbidden("an owner", w.merge(kubelet, "worker-a", `{"metadata":{"ownerReferences":[{"apiVersion":"v1","kind":"Pod","name":"gone","uid":"gone"}]}}`))
	w.wantForbidden("deleting its node", kubelet.Delete(cluster.Context(w.t), identityNode("worker-a")))
	w.wantForbidden("the status of another node", w.report(kubelet, "worker-b", corev1.ConditionFalse))
	w.wantForbidden("another node", w.merge(kubelet, "worker-b", identityAnnotation("example.com/note", `"x"`)))
	for namespace, name := range map[string]string{corev1.NamespaceNodeLease: "worker-b", "medik8s-leases": "node-worker-a", metav1.NamespaceSystem: "worker-a"} {
		w.wantForbidden("lease "+namespace+"/"+name, kubelet.Create(cluster.Context(w.t), &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}))
	}
	repair := w.remediation("worker-a", "worker-b")
	w.wantForbidden("a remediation", kubelet.Create(cluster.Context(w.t), repair))
}

// identityOwnersAreRefused: the policy itself refuses owners of a node, since NodeRestriction of Kubernetes 1.30 does
// not. NodeRestriction knows a kubelet by the name of its user, so it lets this one through in every version.
func identityOwnersAreRefused(w *identityWorld) {
	agent, ctx := client.NewDryRunClient(w.as("agent", "system:nodes", "system:masters")), cluster.Context(w.t)
	owner := `{"metadata":{"ownerReferences":[{"apiVersion":"v1","kind":"Pod","name":"gone","uid":"gone"}]}}`
	w.wantForbidden("an owner", w.merge(agent, "worker-a", owner), "the owners of its node")
	w.wantForbidden("an owner through the status", w.mergeStatus(agent, "worker-a", owner), "the owners of its node")
	n := identityNode("worker-new")
	n.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: "gone", UID: "gone"}}
	w.wantForbidden("registering with an owner", agent.Create(ctx, n), "the owners of its node")
	w.must("registering without", agent.Create(ctx, identityNode("worker-new")))
	w.must("a label", w.merge(agent, "worker-a", `{"metadata":{"labels":{"example.com/a":"b"}}}`))
}

// identityKubeletIsLetThrough: the daily writes of a kubelet pass, also on a node that already has a refused key.
func identityKubeletIsLetThrough(w *identityWorld) {
	kubelet, ctx := w.kubelet("worker-a"), cluster.Context(w.t)
	for _, key := range identityAnnotations() {
		w.must("annotating with "+key, w.merge(w.Client, "worker-a", identityAnnotation(key, `"true"`)))
	}
	for _, key := range identityLabels() {
		w.must("labelling with "+key, w.merge(w.Client, "worker-a", identityLabel(key, `"true"`)))
	}
	for _, ready := range []corev1.ConditionStatus{corev1.ConditionFalse, corev1.ConditionTrue} {
		w.must("a report", w.report(kubelet, "worker-a", ready))
	}
	w.must("a label of the kubelet's own", w.merge(kubelet, "worker-a", identityLabel("node.kubernetes.io/instance-type", `"large"`)))
	w.must("a label of an administrator's pool", w.merge(kubelet, "worker-a", identityLabel("pool.example/name", `"b"`)))
	w.must("the annotation of a volume plugin, through the status", w.mergeStatus(kubelet, "worker-a", identityAnnotation("csi.volume.kubernetes.io/nodeid", `"{}"`)))
	w.must("that the configuration was applied", w.merge(kubelet, "worker-a", identityAnnotation("machineconfiguration.openshift.io/currentConfig", `"done"`)))
	w.Eventually(w.t, "the whole node passes, and its whole status", func(ctx context.Context) error {
		return identityWritesWhole(ctx, kubelet)
	})
	l := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: corev1.NamespaceNodeLease, Name: "worker-a"}}
	w.must("its lease", kubelet.Create(ctx, l))
	w.must("its lease, renewed", kubelet.Update(ctx, l))
}

// identityWritesWhole makes a kubelet read its node, and write it and its status back as a whole. Either write is
// refused if the node lifecycle controller taints or untaints the node after the read: NodeRestriction compares the
// taints.
func identityWritesWhole(ctx context.Context, kubelet client.Client) error {
	var n corev1.Node
	if err := kubelet.Get(ctx, client.ObjectKey{Name: "worker-a"}, &n); err != nil {
		return fmt.Errorf("reading the node: %w", err)
	}
	n.Labels["kubernetes.io/hostname"] = "worker-a.example"
	if err := kubelet.Update(ctx, &n); err != nil {
		return fmt.Errorf("writing the node: %w", err)
	}
	n.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "10.0.0.1"}}
	return kubelet.Status().Update(ctx, &n)
}
