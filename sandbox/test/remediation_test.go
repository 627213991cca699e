package test

import (
	"context"
	"fmt"
	"maps"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	remediationv1 "github.com/fettle-io/fettle/sandbox/api/remediation/v1alpha1"
)

// TestRemediators: the remediation objects of a health checker, on a cluster of nodes alone.
func TestRemediators(t *testing.T) {
	t.Parallel()
	p := start(t, "--dir", t.TempDir(), "--kubelets", "--remediators",
		"--node-monitor-grace-period", gracePeriod.String(), "--node-monitor-period", "500ms")
	c := connect(t, p.kubeconfig)
	cases := map[string]func(*testing.T, client.Client){
		"a reboot revives a silent node":                      rebootRevives,
		"a reboot heals a node that reports itself not ready": rebootHeals,
		"a reboot of a broken node fails":                     rebootFails,
		"a hanging one stops when it times out":               hangsUntilToldToStop,
		"an ignored one stays as it is":                       ignored,
		"one without a node says so":                          noSuchNode,
		"a node is made anew":                                 reprovision,
		"one deleted at work gives the node back":             abandoned,
		"a cluster of nodes alone has no Machine API":         noMachineAPI,
		"the rights are there for health checkers to collect": aggregatedRole,
	}
	for name, check := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			check(t, c)
		})
	}
}

// silentNode makes a node and stops its kubelet.
func silentNode(t *testing.T, c client.Client, name string, annotations map[string]string) *corev1.Node {
	t.Helper()
	node := newNode(name)
	maps.Copy(node.Annotations, annotations)
	create(t, c, node)
	eventually(t, "a new node becomes ready", func() string { return readyIs(c, name, corev1.ConditionTrue) })
	patch(t, c, node, stopKubelet)
	eventually(t, "a silent node becomes unknown", func() string { return readyIs(c, name, corev1.ConditionUnknown) })
	return node
}

func reboot(name string, spec remediationv1.RemediationSpec) *remediationv1.RebootRemediation {
	return &remediationv1.RebootRemediation{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default"}, Spec: spec}
}

// says returns an error text unless the object has these conditions, as Processing and Succeeded.
func says(c client.Client, object client.Object, processing, succeeded metav1.ConditionStatus) string {
	if err := c.Get(context.Background(), client.ObjectKeyFromObject(object), object); err != nil {
		return err.Error()
	}
	_, status := object.(interface {
		Parts() (*remediationv1.RemediationSpec, *remediationv1.RemediationStatus)
	}).Parts()
	for kind, want := range map[string]metav1.ConditionStatus{remediationv1.ConditionProcessing: processing, remediationv1.ConditionSucceeded: succeeded} {
		if !meta.IsStatusConditionPresentAndEqual(status.Conditions, kind, want) {
			return fmt.Sprintf("%s should be %s: %+v", kind, want, status.Conditions)
		}
	}
	return ""
}

func cordoned(c client.Client, node *corev1.Node, want bool) string {
	if err := c.Get(context.Background(), client.ObjectKeyFromObject(node), node); err != nil {
		return err.Error()
	}
	if node.Spec.Unschedulable != want {
		return fmt.Sprintf("node %s is cordoned: %t", node.Name, node.Spec.Unschedulable)
	}
	return ""
}

func rebootRevives(t *testing.T, c client.Client) {
	t.Helper()
	node := silentNode(t, c, "silent", nil)
	// The annotation names the node, so a node may have several objects.
	object := reboot("silent-x7k2p", remediationv1.RemediationSpec{})
	object.Annotations = map[string]string{remediationv1.NodeNameAnnotation: "silent"}
	create(t, c, object)
	eventually(t, "the node is cordoned", func() string { return cordoned(c, node, true) })
	eventually(t, "the reboot succeeds", func() string { return says(c, object, metav1.ConditionFalse, metav1.ConditionTrue) })
	eventually(t, "the node is back", func() string { return readyIs(c, node.Name, corev1.ConditionTrue) })
	if meta.IsStatusConditionTrue(object.Status.Conditions, remediationv1.ConditionPermanentNodeDeletionExpected) {
		t.Error("a reboot keeps the node")
	}
	if problem := cordoned(c, node, true); problem != "" {
		t.Errorf("it must be undone only when the health checker deletes the object: %s", problem)
	}
	remove(t, c, object)
	eventually(t, "the object goes", func() string { return gone(c, object) })
	if problem := cordoned(c, node, false); problem != "" {
		t.Error(problem)
	}
}

func rebootHeals(t *testing.T, c client.Client) {
	t.Helper()
	node := newNode("unwell")
	node.Annotations["sandbox.fettle.io/ready"] = "False"
	create(t, c, node)
	eventually(t, "it reports that it is not ready", func() string { return readyIs(c, node.Name, corev1.ConditionFalse) })
	create(t, c, reboot(node.Name, remediationv1.RemediationSpec{}))
	eventually(t, "it reports that it is ready", func() string { return readyIs(c, node.Name, corev1.ConditionTrue) })
}

func rebootFails(t *testing.T, c client.Client) {
	t.Helper()
	node := silentNode(t, c, "dead-disk", map[string]string{"sandbox.fettle.io/reboot": "fails"})
	object := reboot(node.Name, remediationv1.RemediationSpec{})
	create(t, c, object)
	eventually(t, "the reboot fails", func() string { return says(c, object, metav1.ConditionFalse, metav1.ConditionFalse) })
	if problem := readyIs(c, node.Name, corev1.ConditionUnknown); problem != "" {
		t.Error(problem)
	}
}

func hangsUntilToldToStop(t *testing.T, c client.Client) {
	t.Helper()
	node := newNode("hanging")
	create(t, c, node)
	object := reboot(node.Name, remediationv1.RemediationSpec{Outcome: remediationv1.OutcomeHang})
	create(t, c, object)
	eventually(t, "the remediator is at work", func() string { return says(c, object, metav1.ConditionTrue, metav1.ConditionUnknown) })
	patch(t, c, object, `{"metadata":{"annotations":{"remediation.medik8s.io/nhc-timed-out":"2026-08-03T12:00:00Z"}}}`)
	eventually(t, "it stops", func() string { return says(c, object, metav1.ConditionFalse, metav1.ConditionFalse) })
	if len(object.Finalizers) == 0 {
		t.Error("the finalizer must stay until the object is deleted")
	}
}

func ignored(t *testing.T, c client.Client) {
	t.Helper()
	node := newNode("ignored")
	create(t, c, node)
	object := reboot(node.Name, remediationv1.RemediationSpec{Outcome: remediationv1.OutcomeIgnore})
	create(t, c, object)
	// A newer object shows that the remediator has been here.
	other := reboot("nobody-later", remediationv1.RemediationSpec{})
	create(t, c, other)
	eventually(t, "the later one has conditions", func() string { return says(c, other, metav1.ConditionFalse, metav1.ConditionFalse) })
	get(t, c, object)
	if len(object.Status.Conditions) != 0 || len(object.Finalizers) != 0 {
		t.Errorf("it was touched: %+v", object)
	}
}

func noSuchNode(t *testing.T, c client.Client) {
	t.Helper()
	object := reboot("nobody", remediationv1.RemediationSpec{})
	create(t, c, object)
	eventually(t, "there is no such node", func() string { return says(c, object, metav1.ConditionFalse, metav1.ConditionFalse) })
	remove(t, c, object)
	eventually(t, "the object goes", func() string { return gone(c, object) })
}

func reprovision(t *testing.T, c client.Client) {
	t.Helper()
	node := silentNode(t, c, "anew", map[string]string{"sandbox.fettle.io/reboot": "fails"})
	get(t, c, node)
	object := &remediationv1.ReprovisionRemediation{ObjectMeta: metav1.ObjectMeta{Name: node.Name}}
	create(t, c, object)
	eventually(t, "the remediator says that the node goes", func() string {
		if err := c.Get(context.Background(), client.ObjectKeyFromObject(object), object); err != nil {
			return err.Error()
		}
		if !meta.IsStatusConditionTrue(object.Status.Conditions, remediationv1.ConditionPermanentNodeDeletionExpected) {
			return fmt.Sprintf("it says %+v", object.Status.Conditions)
		}
		return ""
	})
	eventually(t, "it succeeds", func() string { return says(c, object, metav1.ConditionFalse, metav1.ConditionTrue) })
	eventually(t, "another node is ready under that name", func() string { return readyIs(c, node.Name, corev1.ConditionTrue) })
	now := newNode(node.Name)
	get(t, c, now)
	if now.UID == node.UID || now.Annotations["sandbox.fettle.io/reboot"] != "" || now.Labels[corev1.LabelHostname] != node.Name {
		t.Errorf("it is the same, or not what it was: %+v", now.ObjectMeta)
	}
}

func abandoned(t *testing.T, c client.Client) {
	t.Helper()
	node := newNode("abandoned")
	create(t, c, node)
	object := &remediationv1.ReprovisionRemediation{
		ObjectMeta: metav1.ObjectMeta{Name: node.Name}, Spec: remediationv1.RemediationSpec{Takes: metav1.Duration{Duration: patience * 10}},
	}
	create(t, c, object)
	eventually(t, "the node goes", func() string { return gone(c, node) })
	remove(t, c, object)
	eventually(t, "the object goes", func() string { return gone(c, object) })
	get(t, c, newNode(node.Name))
}

func noMachineAPI(t *testing.T, c client.Client) {
	t.Helper()
	if _, err := c.RESTMapper().RESTMapping(schema.GroupKind{Group: "machine.openshift.io", Kind: "Machine"}); !meta.IsNoMatchError(err) {
		t.Errorf("machines are known here: %v", err)
	}
}

func aggregatedRole(t *testing.T, c client.Client) {
	t.Helper()
	roles := &unstructured.UnstructuredList{}
	roles.SetAPIVersion("rbac.authorization.k8s.io/v1")
	roles.SetKind("ClusterRoleList")
	if err := c.List(context.Background(), roles, client.MatchingLabels{"rbac.ext-remediation/aggregate-to-ext-remediation": "true"}); err != nil {
		t.Fatal(err)
	}
	if len(roles.Items) != 1 {
		t.Errorf("%d roles have the label", len(roles.Items))
	}
}
