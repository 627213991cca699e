package guards

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fettle-io/fettle/api/fettle/annotation"
	"github.com/fettle-io/fettle/internal/core"
	"github.com/fettle-io/fettle/internal/guard/quorum"
	"github.com/fettle-io/fettle/test/cluster"
)

const (
	controlPlane = "node-role.kubernetes.io/control-plane"
	master       = "node-role.kubernetes.io/master"
	etcdRole     = "node-role.kubernetes.io/etcd"

	yes     = corev1.ConditionTrue
	no      = corev1.ConditionFalse
	unknown = corev1.ConditionUnknown
)

// quorumGuard returns a guard of quorum that acts as a user.
func quorumGuard(t *testing.T, config *rest.Config, now func() time.Time, openshift core.Tri) *quorum.Client {
	t.Helper()
	return quorum.NewClient(quorum.Config{Live: as(t, config), OpenShift: func() core.Tri { return openshift }, Now: now})
}

func wantSurvives(t *testing.T, guard *quorum.Client, sentence string, target core.Target, want core.Tri) {
	t.Helper()
	got, err := guard.Survives(cluster.Context(t), target)
	wantTri(t, sentence, want, got, err)
}

// wantUnknown fails the test unless the fact is unknown and the error contains these words.
func wantUnknown(t *testing.T, guard *quorum.Client, sentence string, words ...string) {
	t.Helper()
	got, err := guard.Survives(cluster.Context(t), core.Target{Node: core.Node{Name: "a"}})
	if got != core.Unknown || err == nil {
		t.Fatalf("%s: %s (%v)", sentence, got, err)
	}
	for _, w := range words {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("%s: the error does not say %q: %v", sentence, w, err)
		}
	}
}

// apiServer makes an API server on a host report, some time ago, that it is alive.
func apiServer(t *testing.T, c *cluster.Cluster, host string, renewed time.Time) *coordinationv1.Lease {
	t.Helper()
	seconds, at := int32(3600), metav1.NewMicroTime(renewed)
	l := &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "apiserver-" + host, Labels: map[string]string{
			"apiserver.kubernetes.io/identity": "kube-apiserver", "kubernetes.io/hostname": host,
		}},
		Spec: coordinationv1.LeaseSpec{LeaseDurationSeconds: &seconds, RenewTime: &at},
	}
	if err := c.Create(cluster.Context(t), l); err != nil {
		t.Fatalf("creating the lease of an API server: %v", err)
	}
	t.Cleanup(func() { _ = client.IgnoreNotFound(c.Delete(context.WithoutCancel(t.Context()), l)) })
	return l
}

// renew makes an API server renew its lease at an instant.
func renew(t *testing.T, c *cluster.Cluster, l *coordinationv1.Lease, at time.Time) {
	t.Helper()
	before, renewed := client.MergeFrom(l.DeepCopy()), metav1.NewMicroTime(at)
	l.Spec.RenewTime = &renewed
	if err := c.Patch(cluster.Context(t), l, before); err != nil {
		t.Fatalf("renewing the lease of an API server: %v", err)
	}
}

func TestQuorum(t *testing.T) {
	t.Parallel()
	c := start(t)
	clock := newClock()
	guard := quorumGuard(t, c.Config, clock.now, core.No)
	t.Run("of nowhere", func(t *testing.T) {
		a := node(t, c, "a", no, controlPlane)
		node(t, c, "b", yes, controlPlane)
		wantSurvives(t, guard, "no member is on any node, though this cluster's API server lives somewhere", a, core.Unknown)
		pod(t, c, "kube-system", "worker", yes, map[string]string{"component": "etcd"}, mirror)
		wantSurvives(t, guard, "the kubelet of a worker has made a pod", a, core.Unknown)
		locate(t, c, "elsewhere")
		wantUnknown(t, guard, "an administrator's word that is none", "annotation fettle.io/control-plane-quorum of namespace kube-system", `"elsewhere"`, `"external"`)
		locate(t, c, "external")
		wantSurvives(t, guard, "an administrator says that no node has a vote", a, core.Yes)
		pod(t, c, "kube-system", "a", no, map[string]string{"component": "etcd"}, mirror)
		wantSurvives(t, guard, "evidence counts more than that word", a, core.No)
		locate(t, c, nil)
	})
	t.Run("by etcd pods", func(t *testing.T) { byEtcdPods(t, c, guard) })
	t.Run("by labels of etcd", func(t *testing.T) {
		a, b := node(t, c, "a", no, controlPlane, etcdRole), node(t, c, "b", yes, etcdRole)
		d := node(t, c, "d", yes, controlPlane)
		wantSurvives(t, guard, "one of two works", a, core.No)
		wantSurvives(t, guard, "so does the other", b, core.No)
		wantSurvives(t, guard, "a node of the control plane without a member", d, core.Yes)
		node(t, c, "e", yes, etcdRole)
		wantSurvives(t, guard, "two of three work", a, core.Yes)
	})
	t.Run("by API servers", func(t *testing.T) {
		a := node(t, c, "a", no, controlPlane)
		node(t, c, "b", yes, controlPlane)
		node(t, c, "d", yes, master)
		apiServer(t, c, "a", clock.now().Add(-2*time.Hour))
		apiServer(t, c, "b", clock.now().Add(-10*time.Second))
		wantSurvives(t, guard, "one of three lives", a, core.No)
		late := apiServer(t, c, "d", clock.now().Add(-50*time.Minute))
		wantSurvives(t, guard, "an API server that has been dead for 50 minutes has no vote", a, core.No)
		renew(t, c, late, clock.now().Add(-10*time.Second))
		wantSurvives(t, guard, "two of three live", a, core.Yes)
	})
	t.Run("on OpenShift", func(t *testing.T) { byGuards(t, c, clock) })
	t.Run("rights", func(t *testing.T) { quorumRights(t, c, clock) })
}

// locate writes where the quorum is, as an administrator would, or nothing.
func locate(t *testing.T, c *cluster.Cluster, word any) {
	t.Helper()
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": map[string]any{annotation.ControlPlaneQuorum: word}}})
	if err != nil {
		t.Fatalf("encoding a patch: %v", err)
	}
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "kube-system"}}
	if err := c.Patch(cluster.Context(t), namespace, client.RawPatch(types.MergePatchType, patch)); err != nil {
		t.Fatalf("annotating a namespace: %v", err)
	}
}

func byEtcdPods(t *testing.T, c *cluster.Cluster, guard *quorum.Client) {
	t.Helper()
	etcd := map[string]string{"component": "etcd"}
	a := node(t, c, "a", no, controlPlane)
	node(t, c, "b", yes, controlPlane, master)
	d := node(t, c, "d", yes, master)
	for name, ready := range map[string]corev1.ConditionStatus{"a": no, "b": yes, "d": yes} {
		pod(t, c, "kube-system", name, ready, etcd)
	}
	wantSurvives(t, guard, "two of three work", a, core.Yes)
	wantSurvives(t, guard, "while another is out", d, core.No)
	node(t, c, "e", yes, controlPlane)
	wantSurvives(t, guard, "a node that may or may not have a member", a, core.No)
	pod(t, c, "default", "e", yes, etcd)
	wantSurvives(t, guard, "a pod of a user", a, core.No)
	pod(t, c, "kube-system", "e", yes, etcd)
	wantSurvives(t, guard, "three of four work", a, core.Yes)
	pod(t, c, "kube-system", "worker", no, etcd, mirror)
	wantSurvives(t, guard, "a pod that the kubelet of a worker made is no member", a, core.Yes)
	lost := core.Target{ID: core.ID{Kind: "Machine", Name: "lost"}, Node: core.Node{State: core.NodeGone, Name: "lost"}}
	wantSurvives(t, guard, "three of five work, as a machine has lost its node", lost, core.Yes)
	b := &corev1.Node{}
	if err := c.Get(cluster.Context(t), client.ObjectKey{Name: "b"}, b); err != nil {
		t.Fatalf("reading a node: %v", err)
	}
	setReady(t, c, b, unknown)
	wantSurvives(t, guard, "two of five work", lost, core.No)
}

// byGuards: the namespace makes the cluster an OpenShift, even without its kinds.
func byGuards(t *testing.T, c *cluster.Cluster, clock *clock) {
	t.Helper()
	guard := quorumGuard(t, c.Config, clock.now, core.No)
	a := node(t, c, "a", no, master)
	node(t, c, "b", yes, master)
	guards, etcd := map[string]string{"app": "guard"}, map[string]string{"app": "etcd"}
	c.Namespace(t, "openshift-etcd")
	wantUnknown(t, guard, "there is no budget", "0 pod disruption budgets in openshift-etcd")
	one := budget(t, c, "one", guards)
	wantSurvives(t, guard, "no status of the budget, so it is unknown", a, core.Unknown)
	count(t, c, one, 0)
	wantSurvives(t, guard, "the target has no guard", a, core.Yes)
	pod(t, c, "openshift-etcd", "a", no, guards)
	pod(t, c, "openshift-etcd", "b", yes, guards)
	wantSurvives(t, guard, "the target's guard is not ready", a, core.Yes)
	b := core.Target{Node: core.Node{Name: "b"}}
	wantSurvives(t, guard, "the target's guard is ready", b, core.No)
	node(t, c, "d", yes, master)
	pod(t, c, "openshift-etcd", "d", unknown, guards)
	wantSurvives(t, guard, "the target's guard is unknown", core.Target{Node: core.Node{Name: "d"}}, core.No)
	node(t, c, "e", yes, master)
	pod(t, c, "openshift-etcd", "e", yes, etcd)
	wantSurvives(t, guard, "a pod that is no guard", core.Target{Node: core.Node{Name: "e"}}, core.Yes)
	count(t, c, one, 1)
	wantSurvives(t, guard, "a disruption is allowed", b, core.Yes)
	budget(t, c, "two", guards)
	wantUnknown(t, guard, "there are two budgets", "2 pod disruption budgets")
	wantUnknown(t, quorumGuard(t, c.Config, clock.now, core.Unknown), "the first moment", "not known yet")
}

func budget(t *testing.T, c *cluster.Cluster, name string, selects map[string]string) *policyv1.PodDisruptionBudget {
	t.Helper()
	b := &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Namespace: "openshift-etcd", Name: name},
		Spec:       policyv1.PodDisruptionBudgetSpec{Selector: &metav1.LabelSelector{MatchLabels: selects}},
	}
	if err := c.Create(cluster.Context(t), b); err != nil {
		t.Fatalf("creating a budget: %v", err)
	}
	return b
}

// count writes the status of budgets, as their controller does.
func count(t *testing.T, c *cluster.Cluster, b *policyv1.PodDisruptionBudget, allowed int32) {
	t.Helper()
	before := client.MergeFrom(b.DeepCopy())
	b.Status.ObservedGeneration, b.Status.DisruptionsAllowed, b.Status.ExpectedPods = b.Generation, allowed, 3
	if err := c.Status().Patch(cluster.Context(t), b, before); err != nil {
		t.Fatalf("counting a budget: %v", err)
	}
}

// quorumRights: an error names the role that grants a missing right. config/ and config/openshift together suffice. The
// namespace openshift-etcd exists, with two budgets in it.
func quorumRights(t *testing.T, c *cluster.Cluster, clock *clock) {
	t.Helper()
	stranger := account(t, c, "unknown")
	wantUnknown(t, quorumGuard(t, stranger, clock.now, core.No), "no rights", "ClusterRole fettle", "kubectl apply -k config/rbac makes")
	wantUnknown(t, quorumGuard(t, stranger, clock.now, core.Yes), "no rights on OpenShift", "Role fettle in namespace openshift-etcd", "kubectl apply -k config/openshift makes")

	c.InstallFettle(t)
	fettle := identity(t, c.FettleKubeconfig(t))
	eventuallyUnknown(t, c, quorumGuard(t, fettle, clock.now, core.No), "Role fettle in namespace openshift-etcd")
	for _, u := range cluster.Kustomization(t, "config/openshift") {
		if err := c.Create(cluster.Context(t), u); err != nil {
			t.Fatalf("creating %s: %v", u.GetKind(), err)
		}
	}
	eventuallyUnknown(t, c, quorumGuard(t, fettle, clock.now, core.No), "2 pod disruption budgets")
	if err := c.DeleteAllOf(cluster.Context(t), &policyv1.PodDisruptionBudget{}, client.InNamespace("openshift-etcd")); err != nil {
		t.Fatalf("deleting budgets: %v", err)
	}
	count(t, c, budget(t, c, "one", map[string]string{"app": "guard"}), 1)
	wantSurvives(t, quorumGuard(t, fettle, clock.now, core.No), "Fettle on OpenShift", core.Target{}, core.Yes)

	if err := c.Delete(cluster.Context(t), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "openshift-etcd"}}); err != nil {
		t.Fatalf("deleting a namespace: %v", err)
	}
	a := node(t, c, "a", no, controlPlane, etcdRole)
	node(t, c, "b", yes, controlPlane, etcdRole)
	node(t, c, "d", yes, controlPlane, etcdRole)
	c.Eventually(t, "Fettle elsewhere", func(ctx context.Context) error {
		if got, err := quorumGuard(t, fettle, clock.now, core.No).Survives(ctx, a); got != core.Yes {
			return fmt.Errorf("%s: %w", got, err)
		}
		return nil
	})
	role := &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "fettle"}}
	if err := c.Delete(cluster.Context(t), role); err != nil {
		t.Fatalf("deleting a role: %v", err)
	}
	eventuallyUnknown(t, c, quorumGuard(t, fettle, clock.now, core.No), "Role fettle in namespace kube-system")
}

func eventuallyUnknown(t *testing.T, c *cluster.Cluster, guard *quorum.Client, words string) {
	t.Helper()
	c.Eventually(t, words, func(ctx context.Context) error {
		got, err := guard.Survives(ctx, core.Target{Node: core.Node{Name: "a"}})
		if got != core.Unknown || err == nil || !strings.Contains(err.Error(), words) {
			return fmt.Errorf("%s: %w", got, err)
		}
		return nil
	})
}
