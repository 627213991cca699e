package integration

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fettle-io/fettle/api/fettle/v1alpha1"
	"github.com/fettle-io/fettle/internal/core"
	"github.com/fettle-io/fettle/test/cluster"
)

// TestRestartWhileAMachineIsBeingDeleted: the next process finds the running repair, does nothing twice (I2), stays
// within the limit (I3), and forgets nothing.
func TestRestartWhileAMachineIsBeingDeleted(t *testing.T) {
	t.Parallel()
	c := cluster.Start(t, cluster.Options{Args: []string{noNodeController}})
	c.InstallFettle(t)
	first := c.StartFettle(t)
	f := newMachineFixture(t, c, "restart")
	f.machine("a", machineOptions{finalizer: true})
	f.machine("b", machineOptions{finalizer: true})
	f.setCondition("a", "Ready", corev1.ConditionFalse, time.Now().Add(-time.Hour))
	f.setReady("b", corev1.ConditionFalse)
	f.healthCheck("example", nil, readyCheck())
	f.wantMachines("-a", "b")
	first.Kill(t)

	c.StartFettle(t)
	f.keepsMachines("-a", "b")
	f.wantRepairs("a Running")
	f.release("a")
	f.wantMachines("-b")
	f.wantRepairs("a Succeeded", "b Running")
	f.release("b")
	f.wantRepairs("a Succeeded", "b Succeeded")
	f.wantRequests(2, "create", "repairs")
	f.wantRequests(2, "delete", "machines")
}

// TestRestartBetweenRecordAndCall: a repair is recorded, and its machine can't be deleted yet. The next process
// continues the repair instead of starting another.
func TestRestartBetweenRecordAndCall(t *testing.T) {
	t.Parallel()
	c := cluster.Start(t, cluster.Options{Args: []string{noNodeController}})
	c.InstallFettle(t)
	c.Apply(t, noMachineMayBeDeleted)
	first := c.StartFettle(t)
	f := newMachineFixture(t, c, "between")
	f.machine("a", machineOptions{})
	f.setReady("a", corev1.ConditionFalse)
	f.healthCheck("example", nil, readyCheck())
	f.wantEvent("a", "MachineDeletionFailed")
	f.wantRepairs("a Running")
	f.Eventually(t, "the repair says what was refused", func(ctx context.Context) error {
		repairs, err := f.repairs(ctx)
		if err == nil && repairs[0].Status.Attempts < 2 {
			err = fmt.Errorf("status is %+v", repairs[0].Status)
		}
		return err
	})
	first.Kill(t)
	for _, kind := range []string{"ValidatingAdmissionPolicyBinding", "ValidatingAdmissionPolicy"} {
		if err := c.Delete(cluster.Context(t), object("admissionregistration.k8s.io/v1", kind, "", "no-machine-may-be-deleted")); err != nil {
			t.Fatalf("deleting the %s: %v", kind, err)
		}
	}

	c.StartFettle(t)
	f.wantMachines()
	f.wantRepairs("a Succeeded")
	f.wantRequests(1, "create", "repairs")
}

// TestRefusedDeletionOfARecoveredMachine: a repair that has not begun is dropped when no health check needs it any
// more.
func TestRefusedDeletionOfARecoveredMachine(t *testing.T) {
	t.Parallel()
	c := cluster.Start(t, cluster.Options{Args: []string{noNodeController}})
	c.InstallFettle(t)
	c.Apply(t, noMachineMayBeDeleted)
	c.StartFettle(t)
	f := newMachineFixture(t, c, "refused")
	f.machine("a", machineOptions{})
	f.setReady("a", corev1.ConditionFalse)
	f.healthCheck("example", nil, readyCheck())
	f.wantEvent("a", "MachineDeletionFailed")
	f.setReady("a", corev1.ConditionTrue)
	f.wantRepairs("a Recovered")
	f.keepsMachines("a")
}

func (f *machineFixture) wantRequests(want int, verb, resource string) {
	f.t.Helper()
	if have := cluster.Count(f.Requests(f.t), verb, resource, f.namespace); have != want {
		f.t.Errorf("the API server answered %d requests to %s %s, want %d", have, verb, resource, want)
	}
}

const noMachineMayBeDeleted = `
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: no-machine-may-be-deleted}
spec:
  failurePolicy: Fail
  matchConstraints:
    resourceRules:
    - {apiGroups: [machine.openshift.io], apiVersions: ["*"], operations: [DELETE], resources: [machines]}
  validations:
  - {expression: "false", message: "no machine may be deleted during this test"}
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: no-machine-may-be-deleted}
spec:
  policyName: no-machine-may-be-deleted
  validationActions: [Deny]
`

// TestFinishedRepairsAreDropped: the oldest are deleted when there are more than the flag allows. The Repairs that
// back-off reads stay.
func TestFinishedRepairsAreDropped(t *testing.T) {
	t.Parallel()
	c := cluster.Start(t, cluster.Options{Args: []string{noNodeController}})
	c.InstallFettle(t)
	f := newMachineFixture(t, c, "retention")
	f.endedLongAgo("old-1", "old-2", "old-3")
	c.StartFettle(t, "--repair-retention-count=1")
	f.machine("a", machineOptions{})
	f.machine("b", machineOptions{})
	f.setCondition("a", "Ready", corev1.ConditionFalse, time.Now().Add(-time.Hour))
	f.setReady("b", corev1.ConditionFalse)
	f.healthCheck("example", nil, readyCheck())
	f.wantMachines()
	f.wantRepairs("a Succeeded", "b Succeeded", "old-3 Succeeded")
}

// endedLongAgo creates Repairs of machines that are gone. Each ended a minute after the one before, hours ago.
func (f *machineFixture) endedLongAgo(machines ...string) {
	f.t.Helper()
	for i, name := range machines {
		ended := time.Now().Add(time.Duration(i)*time.Minute - 4*time.Hour)
		r := &v1alpha1.Repair{
			ObjectMeta: metav1.ObjectMeta{Namespace: f.namespace, Name: core.RepairName(core.ID{Kind: "Machine", Namespace: f.namespace, Name: name, UID: name}, 1)},
			Spec: v1alpha1.RepairSpec{
				Target: v1alpha1.RepairTarget{ObjectReference: v1alpha1.ObjectReference{Kind: "Machine", Namespace: f.namespace, Name: name, UID: name}},
				Policy: v1alpha1.ObjectReference{Kind: "MachineHealthCheck", Namespace: f.namespace, Name: "gone", UID: "gone"}, Reason: "PhaseFailed",
				Ladder:    []v1alpha1.RepairStep{{Remedy: "DeleteMachine", Nature: v1alpha1.StepDelete}},
				StartedAt: metav1.NewMicroTime(ended.Add(-time.Minute)),
			},
		}
		f.create(r)
		status, err := json.Marshal([]map[string]any{{"op": "add", "path": "/status", "value": v1alpha1.RepairStatus{
			Phase: v1alpha1.RepairSucceeded, FinishedAt: &metav1.Time{Time: ended},
		}}})
		if err != nil {
			f.t.Fatalf("writing down a status: %v", err)
		}
		if err := f.Status().Patch(f.t.Context(), r, client.RawPatch(types.JSONPatchType, status)); err != nil {
			f.t.Fatalf("recording the end of a repair: %v", err)
		}
	}
}
