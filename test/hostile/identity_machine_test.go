package hostile

import (
	"context"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fettle-io/fettle/api/fettle/v1alpha1"
	"github.com/fettle-io/fettle/test/cluster"
)

// TestI14OnlyTheMachineOfTheNodeIsDeleted: a kubelet writes on its node, and a tenant writes a remediation or its
// status. Fettle deletes only the machine of the node, by the machine's own status.
func TestI14OnlyTheMachineOfTheNodeIsDeleted(t *testing.T) {
	t.Parallel()
	c := cluster.Start(t, cluster.Options{Args: []string{"--controllers=*,-node-lifecycle-controller"}})
	c.InstallFettle(t)
	c.Apply(t, identityTenantRights)
	w := newIdentityWorld(t, c, "machines")
	w.node("worker-a")
	w.node("worker-b")
	w.machine("a", "worker-a")
	w.machine("b", "worker-b")
	w.machine("joining", "")
	c.StartFettle(t)
	w.passesASecond()
	t.Run("annotation", func(t *testing.T) { identityOfAnnotation(w.in(t)) })
	t.Run("owner", func(t *testing.T) { identityOfOwner(w.in(t)) })
	t.Run("creators", func(t *testing.T) { identityOfCreators(w.in(t)) })
	t.Run("no-policy", func(t *testing.T) { identityWithoutPolicy(w.in(t)) })
	t.Run("claims", func(t *testing.T) { identityOfTwoMachines(w.in(t)) })
	t.Run("granted", func(t *testing.T) { identityThatIsRight(w.in(t)) })
}

// identityOfAnnotation: before the policy was installed, or on a cluster without it.
func identityOfAnnotation(w *identityWorld) {
	for name, machine := range map[string]string{"of-another-node": "b", "that-joins": "joining"} {
		w.must("annotating the node", w.merge(w.Client, "worker-a", identityAnnotation(identityMachineAnnotation, `"machines/`+machine+`"`)))
		r := w.remediation(name, "worker-a")
		w.must("creating a remediation", w.Create(cluster.Context(w.t), r))
		w.wantRefused(r, "machine machines/"+machine, "status.nodeRef", "node worker-a")
	}
	w.keeps("a", "b", "joining")
}

// identityOfOwner: the operator of NodeHealthCheck finds the owner by the annotation of the node.
func identityOfOwner(w *identityWorld) {
	for name, machine := range map[string]string{"owner-of-another-node": "b", "owner-that-joins": "joining"} {
		r := w.ownedRemediation(name, machine)
		w.must("creating a remediation", w.Create(cluster.Context(w.t), r))
		w.wantRefused(r, "machine machines/"+machine, "status.nodeRef", "node worker-a")
	}
	w.keeps("a", "b", "joining")
}

// ownedRemediation is a remediation of worker-a with a machine as its owner.
func (w *identityWorld) ownedRemediation(name, machine string) *v1alpha1.MachineDeletionRemediation {
	w.t.Helper()
	m := w.object("Machine", machine)
	w.must("reading machine "+machine, w.Get(cluster.Context(w.t), client.ObjectKeyFromObject(m), m))
	r := w.remediation(name, "worker-a")
	r.OwnerReferences = []metav1.OwnerReference{{APIVersion: identityMachineAPI, Kind: "Machine", Name: machine, UID: m.GetUID()}}
	return r
}

// identityTenantRights: mallory has all rights in the namespace tenant, and all on remediations beside the machines.
// The operator may create remediations everywhere.
const identityTenantRights = `
{apiVersion: v1, kind: Namespace, metadata: {name: tenant}}
---
{apiVersion: v1, kind: Namespace, metadata: {name: machines}}
---
{apiVersion: rbac.authorization.k8s.io/v1, kind: Role, metadata: {name: all, namespace: tenant}, rules: [{apiGroups: ["*"], resources: ["*"], verbs: ["*"]}]}
---
{apiVersion: rbac.authorization.k8s.io/v1, kind: RoleBinding, metadata: {name: all, namespace: tenant},
 roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: all}, subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: mallory}]}
---
{apiVersion: rbac.authorization.k8s.io/v1, kind: Role, metadata: {name: remediations, namespace: machines}, rules: [{apiGroups: [fettle.io], resources: ["*"], verbs: ["*"]}]}
---
{apiVersion: rbac.authorization.k8s.io/v1, kind: RoleBinding, metadata: {name: remediations, namespace: machines},
 roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: remediations}, subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: mallory}]}
---
{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRoleBinding, metadata: {name: operator},
 roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: fettle-machine-deletion-remediation}, subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: operator}]}
`

// identityOfCreators: all rights in a namespace do not suffice, neither to create nor to change.
func identityOfCreators(w *identityWorld) {
	mallory, ctx := w.as("mallory"), cluster.Context(w.t)
	const needs = "this requires the right in all namespaces"
	w.Eventually(w.t, "the API server follows the policy", func(ctx context.Context) error {
		if err := mallory.Create(ctx, w.remediation("probe", "worker-a"), client.DryRunAll); !apierrors.IsForbidden(err) {
			return fmt.Errorf("the answer is %w", err)
		}
		return nil
	})
	for _, namespace := range []string{"tenant", "machines"} {
		r := w.ownedRemediation("forged", "a")
		r.Namespace = namespace
		w.wantForbidden("creating in "+namespace, mallory.Create(ctx, r), "create MachineDeletionRemediations", needs, "ClusterRole fettle-machine-deletion-remediation", "ClusterRoleBinding")
	}
	granted := w.remediation("granted-and-changed", "no-such-node")
	w.must("the operator creates one", w.as("operator").Create(ctx, granted))
	change := client.RawPatch(types.MergePatchType, []byte(identityAnnotation(v1alpha1.NodeNameAnnotation, `"worker-b"`)))
	w.wantForbidden("changing another's", mallory.Patch(ctx, granted.DeepCopy(), change), "change MachineDeletionRemediations", needs)
	forged := client.RawPatch(types.MergePatchType, []byte(`{"status":{"machines":1}}`))
	w.wantForbidden("forging its status", mallory.Status().Patch(ctx, granted.DeepCopy(), forged), "change MachineDeletionRemediations", needs)
	w.wantForbidden("forging its status, without the right to", w.as("operator").Status().Patch(ctx, granted.DeepCopy(), forged))
	w.must("the operator changes it", w.as("operator").Patch(ctx, granted.DeepCopy(), client.RawPatch(types.MergePatchType, []byte(identityAnnotation(v1alpha1.TimedOutAnnotation, `"2026-08-03T12:00:00Z"`)))))
	w.must("the operator deletes it", w.as("operator").Delete(ctx, granted))
}

// identityWithoutPolicy: without the policy, a tenant reaches no machine outside of the namespace.
func identityWithoutPolicy(w *identityWorld) {
	mallory := w.as("mallory")
	w.must("taking the policy away", w.Delete(cluster.Context(w.t), identityPolicyBinding()))
	w.must("the node names its machine", w.merge(w.Client, "worker-b", identityAnnotation(identityMachineAnnotation, `"machines/b"`)))
	create := func(r *v1alpha1.MachineDeletionRemediation, namespace string) *v1alpha1.MachineDeletionRemediation {
		w.t.Helper()
		r.Namespace = namespace
		w.Eventually(w.t, "the API server follows the policy no more", func(ctx context.Context) error { return mallory.Create(ctx, r) })
		return r
	}
	w.wantRefused(create(w.remediation("by-annotation", "worker-b"), "tenant"), "machine machines/b is not in the namespace of this remediation, tenant", "in namespace machines")
	w.wantRefused(create(w.ownedRemediation("by-owner", "b"), "machines"), "machine machines/b belongs to node worker-b")

	b := w.object("Machine", "b")
	w.must("reading machine b", w.Get(cluster.Context(w.t), client.ObjectKeyFromObject(b), b))
	r := create(w.remediation("by-status", "worker-b"), "tenant")
	w.wantRefused(r)
	forged := fmt.Sprintf(`{"status":{"conditions":null,"machine":{"kind":"Machine","namespace":"machines","name":"b","uid":%q},
	  "owner":{"apiVersion":%q,"kind":"MachineSet","namespace":"machines","name":"workers","uid":%q}}}`, b.GetUID(), identityMachineAPI, w.owner.UID)
	w.must("forging a status", mallory.Status().Patch(cluster.Context(w.t), r, client.RawPatch(types.MergePatchType, []byte(forged))))
	w.wantRefused(r, "machine machines/b is not in the namespace of this remediation")
	w.keeps("a", "b", "joining")
}

func identityPolicyBinding() *unstructured.Unstructured {
	u := &unstructured.Unstructured{}
	u.SetAPIVersion("admissionregistration.k8s.io/v1")
	u.SetKind("ValidatingAdmissionPolicyBinding")
	u.SetName("machine-deletion-remediation.fettle.io")
	return u
}

// identityOfTwoMachines: a kubelet has reported the address of another machine, and the machine controller makes that
// machine refer to the kubelet's node. Its health deletes neither machine, by a health check or by a remediation.
func identityOfTwoMachines(w *identityWorld) {
	w.node("worker-x")
	w.machine("x", "worker-x")
	w.machine("victim", "worker-x")
	w.node("worker-c")
	w.machine("canary", "worker-c")
	w.must("the node names a machine", w.merge(w.Client, "worker-x", identityAnnotation(identityMachineAnnotation, `"machines/victim"`)))
	for _, node := range []string{"worker-x", "worker-c"} {
		w.must("a report", w.report(w.kubelet(node), node, corev1.ConditionFalse))
	}
	w.Apply(w.t, `{apiVersion: `+identityMachineAPI+`, kind: MachineHealthCheck, metadata: {name: all, namespace: machines, annotations: {fettle.io/max-in-flight: unlimited}},
  spec: {maxUnhealthy: 100%, selector: {matchLabels: {role: worker}}, unhealthyConditions: [{type: Ready, status: "False", timeout: 1s}]}}`)
	w.wantGone("canary")
	w.passesASecond()
	r := w.remediation("of-two", "worker-x")
	w.must("creating a remediation", w.Create(cluster.Context(w.t), r))
	w.wantRefused(r, "machine x refers to node worker-x too", "it is not known which of them is meant")
	w.keeps("x", "victim", "a", "b", "joining")
}

// identityThatIsRight: Fettle does what the operator requests for the machine of a node.
func identityThatIsRight(w *identityWorld) {
	w.must("the node names its machine", w.merge(w.Client, "worker-b", identityAnnotation(identityMachineAnnotation, `"machines/b"`)))
	w.must("creating a remediation", w.as("operator").Create(cluster.Context(w.t), w.remediation("worker-b", "worker-b")))
	w.wantGone("b")
	w.must("creating a remediation with an owner", w.as("operator").Create(cluster.Context(w.t), w.ownedRemediation("worker-a", "a")))
	w.wantGone("a")
	w.keeps("joining", "x", "victim")
}
