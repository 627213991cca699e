package hostile

import (
	"context"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fettle-io/fettle/test/cluster"
)

const (
	byHandAnnotation = "fettle.io/repair-requested-at"
	// byHandRights are for an operator who may delete the targets, and for a user who may write them and not delete
	// them.
	byHandRights = `
{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, metadata: {name: writers}, rules: [
  {apiGroups: [""], resources: [nodes, nodes/status], verbs: [get, create, update, patch]},
  {apiGroups: [machine.openshift.io], resources: [machines], verbs: [get, create, update, patch]}]}
---
{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, metadata: {name: deleters}, rules: [
  {apiGroups: [""], resources: [nodes], verbs: [get, patch, delete]},
  {apiGroups: [machine.openshift.io], resources: [machines], verbs: [get, patch, delete]}]}
---
{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRoleBinding, metadata: {name: writers},
 roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: writers}, subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: writer}]}
---
{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRoleBinding, metadata: {name: deleters},
 roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: deleters}, subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: deleter}]}
`
	byHandCheck = `
apiVersion: machine.openshift.io/v1beta1
kind: MachineHealthCheck
metadata: {name: all, namespace: machines}
spec:
  selector: {matchLabels: {role: worker}}
  maxUnhealthy: 100%
  unhealthyConditions: [{type: Ready, status: Unknown, timeout: 1h}]
`
)

// TestI14RepairRequestsTakeTheRightToDelete: a user without the right to delete a node or a machine can't have Fettle
// repair it, by the annotation that requests a repair. Kubelets are among these users. Fettle runs, and deletes the
// machine for which another user requests it.
func TestI14RepairRequestsTakeTheRightToDelete(t *testing.T) {
	t.Parallel()
	c := cluster.Start(t, cluster.Options{Args: []string{"--controllers=*,-node-lifecycle-controller"}})
	c.InstallFettle(t)
	c.Apply(t, byHandRights)
	w := newIdentityWorld(t, c, "machines")
	for _, name := range []string{"worker-a", "worker-b"} {
		w.node(name)
		w.machine(name, name)
	}
	c.Apply(t, byHandCheck)
	c.StartFettle(t)
	b := &byHandWorld{w, identityAnnotation(byHandAnnotation, `"`+time.Now().UTC().Format(time.RFC3339)+`"`)}
	b.awaitPolicy()
	b.refuses()
	b.lets()
	w.must("an operator requests a repair", b.mergeMachine(w.as("deleter"), "worker-b", b.request))
	w.wantGone("worker-b") // Fettle has judged both in that pass
	w.keeps("worker-a")
}

type byHandWorld struct {
	*identityWorld

	request string
}

func (w *byHandWorld) mergeMachine(as client.Client, name, change string) error {
	return as.Patch(cluster.Context(w.t), w.object("Machine", name), client.RawPatch(types.MergePatchType, []byte(change)))
}

func (w *byHandWorld) awaitPolicy() {
	w.t.Helper()
	w.Eventually(w.t, "the API server follows the policy and the roles", func(context.Context) error {
		err := w.merge(client.NewDryRunClient(w.as("writer")), "worker-a", w.request)
		if !apierrors.IsForbidden(err) {
			return fmt.Errorf("the answer is %w", err)
		}
		return w.merge(client.NewDryRunClient(w.as("deleter")), "worker-a", w.request)
	})
}

// refuses: on nodes, through their status, on machines, and at the creation of machines.
func (w *byHandWorld) refuses() {
	writer, kubelet := w.as("writer"), w.kubelet("worker-a")
	says := []string{"you may not ask for a repair", "a repair may delete", "have an administrator grant you"}
	w.wantForbidden("a node", w.merge(writer, "worker-a", w.request), says...)
	w.wantForbidden("the status of a node", w.mergeStatus(writer, "worker-a", w.request), says...)
	w.wantForbidden("a machine", w.mergeMachine(writer, "worker-a", w.request), append(says, "machines.machine.openshift.io")...)
	w.wantForbidden("a kubelet", w.merge(kubelet, "worker-a", w.request))
	w.wantForbidden("a kubelet through the status", w.mergeStatus(kubelet, "worker-a", w.request))
	made := w.object("Machine", "made")
	made.SetAnnotations(map[string]string{byHandAnnotation: time.Now().UTC().Format(time.RFC3339)})
	made.SetLabels(map[string]string{"role": "worker"})
	w.wantForbidden("a new machine", writer.Create(cluster.Context(w.t), made), says...)
}

// lets: a user who writes something else is let through, also on a node with an operator's request, and may remove the
// request.
func (w *byHandWorld) lets() {
	writer, kubelet := w.as("writer"), w.kubelet("worker-a")
	w.must("an operator requests a repair", w.merge(w.as("deleter"), "worker-a", w.request))
	w.must("another annotation", w.merge(writer, "worker-a", identityAnnotation("example.com/note", `"x"`)))
	w.must("a report of the kubelet", w.report(kubelet, "worker-a", corev1.ConditionTrue))
	n := &unstructured.Unstructured{}
	n.SetAPIVersion("v1")
	n.SetKind("Node")
	n.SetName("worker-a")
	w.must("removing the request", writer.Patch(cluster.Context(w.t), n, client.RawPatch(types.MergePatchType, []byte(identityAnnotation(byHandAnnotation, `null`)))))
	w.must("another annotation of a machine", w.mergeMachine(writer, "worker-a", identityAnnotation("example.com/note", `"x"`)))
}
