package test

import (
	"context"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	stopKubelet   = `{"metadata":{"labels":{"sandbox.fettle.io/kubelet":"stopped"}}}`
	reviveKubelet = `{"metadata":{"labels":{"sandbox.fettle.io/kubelet":null}}}`
)

func TestNodeDiesAloneAndComesBack(t *testing.T) {
	t.Parallel()
	dying, other := newNode("dying"), newNode("other")
	create(t, shared, dying, other)
	for _, node := range []*corev1.Node{dying, other} {
		eventually(t, "a new node becomes ready", func() string { return readyIs(shared, node.Name, corev1.ConditionTrue) })
	}

	patch(t, shared, dying, stopKubelet)
	eventually(t, "a silent node becomes unknown", func() string { return readyIs(shared, dying.Name, corev1.ConditionUnknown) })
	last := renewed(t, dying.Name)
	never(t, "a dead node's lease is not renewed", gracePeriod, func() string {
		if now := renewed(t, dying.Name); !now.Equal(last) {
			return "it was renewed at " + now.String()
		}
		return readyIs(shared, other.Name, corev1.ConditionTrue)
	})

	patch(t, shared, dying, reviveKubelet)
	eventually(t, "a revived node becomes ready", func() string { return readyIs(shared, dying.Name, corev1.ConditionTrue) })
	eventually(t, "a revived node renews its lease", func() string {
		if !renewed(t, dying.Name).After(last) {
			return "it has not yet"
		}
		return ""
	})
}

func TestKubeletReportsTheAnnotatedState(t *testing.T) {
	t.Parallel()
	node := newNode("sick")
	create(t, shared, node)
	eventually(t, "a new node becomes ready", func() string { return readyIs(shared, node.Name, corev1.ConditionTrue) })
	patch(t, shared, node, `{"metadata":{"annotations":{"sandbox.fettle.io/ready":"False"}}}`)
	eventually(t, "it reports that it is not ready", func() string { return readyIs(shared, node.Name, corev1.ConditionFalse) })
	patch(t, shared, node, `{"metadata":{"annotations":{"sandbox.fettle.io/ready":null}}}`)
	eventually(t, "it reports that it is ready", func() string { return readyIs(shared, node.Name, corev1.ConditionTrue) })
}

func TestPodsRunAndEnd(t *testing.T) {
	t.Parallel()
	node := newNode("busy")
	create(t, shared, node)
	eventually(t, "a new node becomes ready", func() string { return readyIs(shared, node.Name, corev1.ConditionTrue) })
	pod := newPod("works", node.Name)
	create(t, shared, pod)
	eventually(t, "a pod bound to a node runs", func() string { return phaseIs(pod, corev1.PodRunning) })
	remove(t, shared, pod)
	eventually(t, "a deleted pod ends", func() string { return gone(shared, pod) })
}

func newNode(name string) *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{
		Name:        name,
		Labels:      map[string]string{corev1.LabelHostname: name},
		Annotations: map[string]string{"kwok.x-k8s.io/node": "fake"},
	}}
}

func newPod(name, node string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default", Labels: map[string]string{"app": name}},
		Spec: corev1.PodSpec{
			NodeName:   node,
			Containers: []corev1.Container{{Name: "main", Image: "example.com/main"}},
		},
	}
}

func phaseIs(pod *corev1.Pod, want corev1.PodPhase) string {
	if err := shared.Get(context.Background(), client.ObjectKeyFromObject(pod), pod); err != nil {
		return err.Error()
	}
	if pod.Status.Phase != want {
		return "it is " + string(pod.Status.Phase)
	}
	return ""
}

func renewed(t *testing.T, node string) time.Time {
	t.Helper()
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: node, Namespace: corev1.NamespaceNodeLease}}
	get(t, shared, lease)
	return lease.Spec.RenewTime.Time
}
