package integration

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fettle-io/fettle/api/fettle/v1alpha1"
	"github.com/fettle-io/fettle/test/cluster"
)

// Conditions of machines.
const (
	succeeded  = clusterv1.MachineHealthCheckSucceededCondition
	byOwner    = clusterv1.MachineOwnerRemediatedCondition
	externally = clusterv1.MachineExternallyRemediatedCondition
)

// TestClusterAPIHealthCheck runs the cases beside each other, a workload cluster for each. The tests play machines,
// nodes and the controllers that answer a mark. Sections are those of the reference of Cluster API.
func TestClusterAPIHealthCheck(t *testing.T) {
	t.Parallel()
	management := cluster.Start(t, clusterAPIOnly())
	workload := cluster.Start(t, cluster.Options{Args: []string{noNodeController}})
	management.InstallFettleForNodes(t)
	management.AllowClusterAPI(t)
	management.StartFettle(t)
	cases := map[string]func(*clusterFixture){
		"owner":             repairIsRequestedFromOwner,
		"seed-workers":      workersOfTheSeed,
		"seed-control":      controlPlaneOfTheSeed,
		"several":           severalFindings,
		"closed":            closedGate,
		"range":             gateOfARange,
		"bad-range":         rangeTheWrongWayRound,
		"startup":           nodeThatNeverJoins,
		"startup-off":       startupDisabled,
		"node-deleted":      nodeThatIsDeleted,
		"machine-condition": conditionOfTheMachine,
		"failure":           terminalFailure,
		"requested":         personRequests,
		"by-hand":           repairMachineOfAClusterByHand,
		"skipped":           skippedMachines,
		"paused-check":      pausedCheckOfACluster,
		"paused-cluster":    pausedCluster,
		"takes-over":        takeOver,
		"not-initialized":   controlPlaneThatIsNotUp,
		"no-infra":          infrastructureThatIsNotReady,
		"orphan":            machineWithoutAnOwner,
		"answers":           answersOfTheOwner,
		"external":          externalRemediation,
		"handed-back":       externalRemediatorHandsBack,
		"no-template":       templateThatIsMissing,
		"taken":             requestOfAnotherClient,
		"control-plane":     controlPlaneIsMarkedWhole,
		"dry-run":           rehearsal,
		"check-gone":        healthCheckThatIsDeleted,
		"second-writer":     anotherWriter,
		"upgrading":         upgradeOfACluster,
		"criteria":          criteriaOfAMachine,
		"given-up":          replacementsAreGivenUp,
		"no-secret":         secretThatComesLate,
	}
	beside := cluster.Beside(t)
	defer beside.Wait()
	for name, run := range cases {
		beside.Run(name, func(t *testing.T) {
			run(newClusterFixture(t, management, workload, name))
		})
	}
}

// repairIsRequestedFromOwner follows one repair from its mark to its end (docs/reference/cluster-api.md#status,
// docs/reference/cluster-api.md#conditions, docs/reference/cluster-api.md#events,
// docs/reference/cluster-api.md#open-gate).
func repairIsRequestedFromOwner(h *clusterFixture) {
	h.running("a", "b", "c")
	h.healthCheck()
	h.wantCounts("3/3 healthy, 3 allowed")
	h.wantMachine("a", succeeded, "True/HealthCheckSucceeded")
	h.wantCheck("RemediationAllowed", "True/RemediationAllowed")
	h.wantCheck("Paused", "False/NotPaused")
	h.fail("a")
	h.wantMarked("a", "UnhealthyNode")
	h.wantMachine("a", succeeded, "False/UnhealthyNode", "Health check failed", "Ready", "False", "1s")
	h.wantLegacy("a", clusterv1.ConditionType(succeeded), "False/UnhealthyNode/Warning")
	h.wantLegacy("a", clusterv1.ConditionType(byOwner), "False/WaitingForRemediation/Warning")
	h.wantLegacy("b", clusterv1.ConditionType(succeeded), "True//")
	h.wantCounts("2/3 healthy, 2 allowed")
	h.wantEvent("a", "MachineMarkedUnhealthy")
	h.wantRepairs("a Running")
	c, err := h.check(cluster.Context(h.t))
	if err != nil || !slices.Equal(c.Status.Targets, []string{"a", "b", "c"}) || c.Status.ObservedGeneration != c.Generation {
		h.t.Errorf("the status is %+v (%v)", c.Status, err)
	}
	if c.Labels[clusterv1.ClusterNameLabel] != herdCluster || len(c.OwnerReferences) != 1 || c.OwnerReferences[0].Kind != "Cluster" {
		h.t.Errorf("its labels are %v and its owners %+v", c.Labels, c.OwnerReferences)
	}
	h.recover("a")
	h.wantMachine("a", succeeded, "True/HealthCheckSucceeded")
	h.wantMachine("a", byOwner, "")
	h.wantLegacy("a", clusterv1.ConditionType(byOwner), "")
	h.wantRepairs("a Succeeded")
	h.wantCounts("3/3 healthy, 3 allowed")
}

// workersOfTheSeed: the manifest of docs/reference/proposals.md#cluster-api-guide, including its older version.
func workersOfTheSeed(h *clusterFixture) {
	for _, name := range []string{"a", "b", "c"} {
		h.machine(name, func(m *clusterv1.Machine) { m.Labels["nodepool"] = "nodepool-0" })
		h.joins(name)
	}
	h.apply("cluster.x-k8s.io/v1beta1", `
clusterName: c
maxUnhealthy: 40%
nodeStartupTimeout: 10m
selector:
  matchLabels:
    nodepool: nodepool-0
unhealthyConditions:
- type: Ready
  status: Unknown
  timeout: 300s
- type: Ready
  status: "False"
  timeout: 300s
`)
	h.wantCounts("3/3 healthy, 1 allowed")
	h.fail("a")
	h.wantCounts("2/3 healthy, 0 allowed")
	h.keepsUnmarked("a")
}

// controlPlaneOfTheSeed selects by the label of the control plane.
func controlPlaneOfTheSeed(h *clusterFixture) {
	h.machine("a", controlPlane)
	h.joins("a")
	h.running("worker")
	h.apply("cluster.x-k8s.io/v1beta1", `
clusterName: c
maxUnhealthy: 100%
selector:
  matchLabels:
    cluster.x-k8s.io/control-plane: ""
unhealthyConditions:
  - type: Ready
    status: Unknown
    timeout: 300s
  - type: Ready
    status: "False"
    timeout: 300s
`)
	h.wantCounts("1/1 healthy, 1 allowed")
	h.annotate("a", "cluster.x-k8s.io/remediate-machine")
	h.wantMarked("a", "HasRemediateAnnotation")
}

// severalFindings: the machine's own conditions go first, and all findings are reported
// (docs/reference/cluster-api.md#order-of-checks).
func severalFindings(h *clusterFixture) {
	h.running("a")
	h.healthCheck("  unhealthyMachineConditions:", `  - {type: Broken, status: "True", timeoutSeconds: 0}`)
	h.fail("a")
	h.wantMarked("a", "UnhealthyNode")
	h.changeStatus("a", func(m *clusterv1.Machine) {
		m.Status.Conditions = append(m.Status.Conditions, metav1.Condition{Type: "Broken", Status: metav1.ConditionTrue, Reason: "Test", LastTransitionTime: metav1.Now()})
	})
	h.wantMachine("a", succeeded, "False/UnhealthyMachine", "Broken", "Ready")
}

// closedGate: Fettle reports unhealthy machines and marks none (docs/reference/cluster-api.md#closed-gate). Older marks
// stay.
func closedGate(h *clusterFixture) {
	h.running("a", "b", "c")
	h.healthCheck("remediation: {triggerIf: {unhealthyLessThanOrEqualTo: 40%}}")
	h.wantCounts("3/3 healthy, 1 allowed")
	h.fail("a")
	h.wantMarked("a", "UnhealthyNode")
	h.fail("b")
	h.wantMachine("b", succeeded, "False/UnhealthyNode")
	h.wantCheck("RemediationAllowed", "False/TooManyUnhealthy", "3", "40%")
	h.wantCounts("1/3 healthy, 0 allowed")
	h.wantEvent("check", "RemediationRestricted")
	h.keepsUnmarked("b")
	h.wantMachine("a", byOwner, "False/WaitingForRemediation")
	h.recover("a") // withdrawn though the gate is closed
	h.wantMachine("a", byOwner, "")
	h.wantMarked("b", "UnhealthyNode")
	h.wantCheck("RemediationAllowed", "True/RemediationAllowed")
}

// gateOfARange wins over the other limit (docs/reference/cluster-api.md#gate).
func gateOfARange(h *clusterFixture) {
	h.running("a", "b", "c", "d")
	h.healthCheck(`remediation: {triggerIf: {unhealthyInRange: "[2-3]"}}`)
	h.wantCheck("RemediationAllowed", "False/TooManyUnhealthy", "[2-3]")
	h.fail("a")
	h.wantMachine("a", succeeded, "False/UnhealthyNode")
	h.keepsUnmarked("a")
	h.fail("b")
	h.wantMarked("a", "UnhealthyNode")
	h.wantMarked("b", "UnhealthyNode")
	h.wantCounts("2/4 healthy, 1 allowed")
}

// rangeTheWrongWayRound is reported, and the counts are right all the same.
func rangeTheWrongWayRound(h *clusterFixture) {
	h.running("a", "b")
	h.healthCheck(`remediation: {triggerIf: {unhealthyInRange: "[3-1]"}}`)
	h.fail("a")
	h.wantCounts("1/2 healthy, 0 allowed")
	h.wantCheck("RemediationAllowed", "False/InvalidSpec", "unhealthyInRange", "[3-1]")
	h.keepsUnmarked("a")
}

// nodeThatNeverJoins: the startup timeout counts from the latest of several instants
// (docs/reference/cluster-api.md#checks).
func nodeThatNeverJoins(h *clusterFixture) {
	h.machine("a")
	h.apply(clusterAPI, "clusterName: c\nselector: {matchLabels: {nodepool: workers}}\nchecks: {nodeStartupTimeoutSeconds: 30}")
	h.wantCounts("0/1 healthy, 0 allowed")
	unmarked := func(ctx context.Context) error {
		m, err := h.get(ctx, "a")
		if err != nil {
			return err
		}
		return compareCondition(m.Status.Conditions, succeeded, "", nil)
	}
	h.management.Never(h.t, "marked early", 3*time.Second, unmarked)
	since := time.Now().Truncate(time.Second)
	h.changeCluster(func(c *clusterv1.Cluster) {
		meta.FindStatusCondition(c.Status.Conditions, clusterv1.ClusterInfrastructureReadyCondition).LastTransitionTime = metav1.NewTime(since)
	})
	due := since.Add(30 * time.Second)
	h.management.Never(h.t, "marked early", time.Until(due)-time.Second, unmarked)
	h.wantMarked("a", "NodeStartupTimeout")
	h.wantMachine("a", succeeded, "False/NodeStartupTimeout", "30s")
}

func startupDisabled(h *clusterFixture) {
	h.machine("a")
	h.apply(clusterAPI, "clusterName: c\nselector: {matchLabels: {nodepool: workers}}\nchecks: {nodeStartupTimeoutSeconds: 0}")
	h.wantCounts("0/1 healthy, 0 allowed")
	h.keepsUnmarked("a")
	h.wantMachine("a", succeeded, "")
}

// nodeThatIsDeleted: at once (docs/reference/cluster-api.md#checks).
func nodeThatIsDeleted(h *clusterFixture) {
	h.running("a", "b")
	h.healthCheck()
	h.wantCounts("2/2 healthy, 2 allowed")
	if err := h.workload.Delete(cluster.Context(h.t), object("v1", "Node", "", h.node("a"))); err != nil {
		h.t.Fatalf("deleting a node: %v", err)
	}
	h.wantMarked("a", "NodeDeleted")
	h.wantMachine("a", succeeded, "False/NodeDeleted", h.node("a"))
	h.wantLegacy("a", clusterv1.ConditionType(succeeded), "False/NodeNotFound/Warning")
}

func conditionOfTheMachine(h *clusterFixture) {
	h.machine("a") // it has no node, which doesn't matter
	h.healthCheck("  unhealthyMachineConditions:", `  - {type: BootstrapConfigReady, status: "False", timeoutSeconds: 1}`)
	h.wantCounts("0/1 healthy, 0 allowed")
	h.changeStatus("a", func(m *clusterv1.Machine) {
		m.Status.Conditions = []metav1.Condition{{Type: "BootstrapConfigReady", Status: metav1.ConditionFalse, Reason: "Test", LastTransitionTime: metav1.Now()}}
	})
	h.wantMarked("a", "UnhealthyMachine")
	h.wantMachine("a", succeeded, "False/UnhealthyMachine", "BootstrapConfigReady")
}

// terminalFailure is the case of docs/reference/proposals.md#cluster-api-guide.
func terminalFailure(h *clusterFixture) {
	h.running("a")
	h.healthCheck()
	h.changeStatus("a", func(m *clusterv1.Machine) {
		message := "no such flavor"
		m.Status.Deprecated = &clusterv1.MachineDeprecatedStatus{V1Beta1: &clusterv1.MachineV1Beta1DeprecatedStatus{FailureMessage: &message}}
	})
	h.wantMarked("a", "MachineHasFailure")
}

func personRequests(h *clusterFixture) {
	h.running("a", "b")
	h.healthCheck()
	h.wantCounts("2/2 healthy, 2 allowed")
	h.annotate("a", "cluster.x-k8s.io/remediate-machine")
	h.wantMarked("a", "HasRemediateAnnotation")
	h.wantCounts("1/2 healthy, 1 allowed")
}

// repairMachineOfAClusterByHand: by fettle repair, Fettle marks the machine for its owner. It withdraws the mark when
// the user withdraws the request.
func repairMachineOfAClusterByHand(h *clusterFixture) {
	h.running("a", "b")
	h.healthCheck()
	h.wantCounts("2/2 healthy, 2 allowed")
	h.wantAnswer("repair node/"+h.node("a"), "Requested a repair of machine by-hand/a", "Gates of MachineHealthCheck by-hand/check", "marked for its owner",
		"kubectl annotate -n by-hand machines.cluster.x-k8s.io a fettle.io/repair-requested-at-")
	h.wantMarked("a", "HasRemediateAnnotation")
	h.wantMachine("a", succeeded, "False/HasRemediateAnnotation", "by the annotation fettle.io/repair-requested-at")
	h.wantCounts("1/2 healthy, 1 allowed")
	h.wantRefused("repair machine/a", "is under way; fettle explain repair/a-")
	h.annotate("a", "-fettle.io/repair-requested-at")
	h.wantMachine("a", byOwner, "")
	h.wantCounts("2/2 healthy, 2 allowed")
	h.keepsUnmarked("b")
}

// skippedMachines are no targets, and Fettle leaves their conditions alone (docs/reference/cluster-api.md#targets).
func skippedMachines(h *clusterFixture) {
	h.running("a", "b", "c")
	h.machine("d", annotated(clusterv1.PausedAnnotation))
	h.healthCheck()
	h.fail("a")
	h.wantMarked("a", "UnhealthyNode")
	h.annotate("a", skipAnnotation)
	h.annotate("b", skipAnnotation)
	h.wantCounts("1/1 healthy, 1 allowed")
	h.wantRepairs("a Withdrawn")
	h.wantMachine("a", byOwner, "False/WaitingForRemediation")
	h.fail("b")
	h.keepsUnmarked("b", "c", "d")
	h.annotate("b", "-"+skipAnnotation)
	h.wantMarked("b", "UnhealthyNode")
}

func pausedCheckOfACluster(h *clusterFixture) {
	h.running("a", "b")
	h.healthCheck()
	h.wantCounts("2/2 healthy, 2 allowed")
	h.fail("b")
	h.wantMarked("b", "UnhealthyNode")
	h.changeCheck(`{"metadata":{"annotations":{"cluster.x-k8s.io/paused":""}}}`)
	h.wantCheck("Paused", "True/Paused")
	h.fail("a")
	h.keepsUnmarked("a")
	h.recover("b") // Fettle withdraws its own marks all the same
	h.wantMachine("b", byOwner, "")
	h.changeCheck(`{"metadata":{"annotations":{"cluster.x-k8s.io/paused":null}}}`)
	h.wantMarked("a", "UnhealthyNode")
	h.wantCheck("Paused", "False/NotPaused")
}

// takeOver: the pause stops the built-in health check, and Fettle leaves the message about it alone.
func takeOver(h *clusterFixture) {
	h.running("a")
	h.healthCheck()
	h.changeCheck(`{"metadata":{"annotations":{"cluster.x-k8s.io/paused":"","fettle.io/takes-over":"true"}}}`)
	h.fail("a")
	h.wantMarked("a", "UnhealthyNode")
	h.changeCheck(`{"metadata":{"annotations":{"fettle.io/paused":""}}}`)
	h.recover("a")
	h.wantMachine("a", byOwner, "")
	h.fail("a")
	h.wantCounts("0/1 healthy, 0 allowed")
	h.keepsUnmarked("a")
}

// pausedCluster: Fettle writes nothing, as while a cluster is moved.
func pausedCluster(h *clusterFixture) {
	h.running("a")
	h.healthCheck()
	h.wantMachine("a", succeeded, "True/HealthCheckSucceeded")
	paused := true
	h.changeCluster(func(c *clusterv1.Cluster) { c.Spec.Paused = &paused })
	h.wantCheck("Paused", "True/Paused")
	h.fail("a")
	h.keepsUnmarked("a")
	h.wantMachine("a", succeeded, "True/HealthCheckSucceeded")
	paused = false
	h.changeCluster(func(c *clusterv1.Cluster) { c.Spec.Paused = &paused })
	h.wantMarked("a", "UnhealthyNode")
}

// controlPlaneThatIsNotUp: only its own machines are judged (docs/reference/cluster-api.md#order-of-checks).
func controlPlaneThatIsNotUp(h *clusterFixture) {
	h.clusterIs(clusterv1.ClusterControlPlaneInitializedCondition, false)
	h.machine("worker")
	h.machine("first", func(m *clusterv1.Machine) { m.Labels[clusterv1.MachineControlPlaneLabel] = "" })
	h.apply(clusterAPI, "clusterName: c\nselector: {matchLabels: {nodepool: workers}}\nchecks: {unhealthyMachineConditions: [{type: Broken, status: \"True\", timeoutSeconds: 0}]}")
	h.wantCounts("0/2 healthy, 0 allowed")
	for _, name := range []string{"worker", "first"} {
		h.changeStatus(name, func(m *clusterv1.Machine) {
			m.Status.Conditions = []metav1.Condition{{Type: "Broken", Status: metav1.ConditionTrue, Reason: "Test", LastTransitionTime: metav1.Now()}}
		})
	}
	h.wantMarked("first", "UnhealthyMachine")
	h.keepsUnmarked("worker")
	h.wantMachine("worker", succeeded, "")
	h.clusterIs(clusterv1.ClusterControlPlaneInitializedCondition, true)
	h.wantMarked("worker", "UnhealthyMachine")
}

// infrastructureThatIsNotReady: Fettle judges nothing, and a machine with a node counts as healthy
// (docs/reference/cluster-api.md#order-of-checks, docs/reference/cluster-api.md#counting).
func infrastructureThatIsNotReady(h *clusterFixture) {
	h.clusterIs(clusterv1.ClusterInfrastructureReadyCondition, false)
	h.running("a", "b")
	h.healthCheck()
	h.fail("a")
	h.wantCounts("2/2 healthy, 2 allowed")
	h.keepsUnmarked("a")
	h.clusterIs(clusterv1.ClusterInfrastructureReadyCondition, true)
	h.wantMarked("a", "UnhealthyNode")
}

// machineWithoutAnOwner is unhealthy, and Fettle does not mark it.
func machineWithoutAnOwner(h *clusterFixture) {
	h.machine("a", orphan)
	h.joins("a")
	h.healthCheck()
	h.fail("a")
	h.wantMachine("a", succeeded, "False/UnhealthyNode")
	h.keepsUnmarked("a")
	h.wantCheck("RemediationAllowed", "True/RemediationAllowed", "a", "NoOwner")
}

// answersOfTheOwner stay on the machine, and the repair reports them (3).
func answersOfTheOwner(h *clusterFixture) {
	h.running("a")
	h.healthCheck()
	h.fail("a")
	h.wantMarked("a", "UnhealthyNode")
	answer := func(reason, message string) {
		h.changeStatus("a", func(m *clusterv1.Machine) {
			for i := range m.Status.Conditions {
				if c := &m.Status.Conditions[i]; c.Type == byOwner {
					c.Reason, c.Message = reason, message
				}
			}
		})
	}
	answer("RemediationDeferred", "one at a time")
	h.management.Eventually(h.t, "the answer in the repair", func(ctx context.Context) error {
		var list v1alpha1.RepairList
		if err := h.List(ctx, &list, client.InNamespace(h.namespace)); err != nil {
			return err
		}
		if len(list.Items) != 1 || !strings.Contains(list.Items[0].Status.Answer, "one at a time") || !strings.Contains(list.Items[0].Status.Message, "RemediationDeferred") {
			return fmt.Errorf("there are %+v", list.Items)
		}
		return nil
	})
	h.wantMachine("a", byOwner, "False/RemediationDeferred", "one at a time")
	answer("MachineDeleting", "")
	if err := h.Delete(cluster.Context(h.t), &clusterv1.Machine{ObjectMeta: h.meta("a")}); err != nil {
		h.t.Fatalf("deleting a machine: %v", err)
	}
	h.wantRepairs("a Succeeded")
}

// externalRemediation creates an object for each machine, and deletes it as the machine recovers
// (docs/reference/cluster-api.md#open-gate).
func externalRemediation(h *clusterFixture) {
	h.running("a", "b", "c")
	h.template()
	h.healthCheck(h.byTemplate())
	h.wantMachine("c", succeeded, "True/HealthCheckSucceeded") // though it had no remediation object
	h.fail("a")
	h.wantMachine("a", externally, "False/WaitingForRemediation")
	h.wantMachine("a", succeeded, "False/UnhealthyNode")
	h.wantMachine("a", byOwner, "")
	u, err := h.request(cluster.Context(h.t), rebooting, "a")
	if err != nil || u == nil {
		h.t.Fatalf("there is no object for a (%v)", err)
	}
	owners := u.GetOwnerReferences()
	if len(owners) != 1 || owners[0].Kind != "Machine" || owners[0].APIVersion != clusterAPI || owners[0].Name != "a" || (owners[0].Controller != nil && *owners[0].Controller) {
		h.t.Errorf("its owners are %+v", owners)
	}
	if u.GetLabels()[clusterv1.ClusterNameLabel] != herdCluster || u.GetAnnotations()["cluster.x-k8s.io/cloned-from-name"] != "reboot" ||
		u.GetAnnotations()["cluster.x-k8s.io/cloned-from-groupkind"] != rebooting+"Template.sandbox.fettle.io" {
		h.t.Errorf("its labels are %v and its annotations %v", u.GetLabels(), u.GetAnnotations())
	}
	h.fail("b") // the object of a doesn't stop it
	h.wantMachine("b", externally, "False/WaitingForRemediation")
	h.recover("a")
	h.wantNoRequest("a")
	h.wantMachine("a", succeeded, "True/HealthCheckSucceeded")
	h.wantMachine("a", externally, "")
	if u, err := h.request(cluster.Context(h.t), rebooting, "b"); err != nil || u == nil {
		h.t.Errorf("the object for b is gone (%v)", err)
	}
	h.wantRepairs("a Succeeded", "b Running")
}

// externalRemediatorHandsBack: Metal3's remediator gives a machine up by the deprecated condition alone, which owners
// do not read.
func externalRemediatorHandsBack(h *clusterFixture) {
	h.running("a", "b", "c")
	h.template()
	h.healthCheck(h.byTemplate())
	h.fail("a")
	h.wantMachine("a", externally, "False/WaitingForRemediation")
	h.changeStatus("a", func(m *clusterv1.Machine) {
		deprecated := m.Status.Deprecated.V1Beta1 // Fettle has written another condition there
		deprecated.Conditions = append(deprecated.Conditions, clusterv1.Condition{
			Type: clusterv1.ConditionType(byOwner), Status: "False", Severity: clusterv1.ConditionSeverityWarning,
			Reason: clusterv1.WaitingForRemediationV1Beta1Reason, LastTransitionTime: metav1.Now(),
		})
	})
	h.wantMarked("a", "UnhealthyNode")
	h.wantRepairs("a Running")
	if u, err := h.request(cluster.Context(h.t), rebooting, "a"); err != nil || u == nil {
		h.t.Errorf("the object for a is gone before its machine (%v)", err)
	}
	h.recover("a")
	h.wantMachine("a", byOwner, "")
	h.wantLegacy("a", clusterv1.ConditionType(byOwner), "")
	h.wantNoRequest("a")
	h.wantRepairs("a Succeeded")
}

func (h *clusterFixture) template() {
	h.t.Helper()
	h.management.Apply(h.t, "apiVersion: "+remediators+"\nkind: "+rebooting+"Template\nmetadata: {name: reboot, namespace: "+h.namespace+"}\nspec: {template: {spec: {outcome: Ignore}}}")
}

// byTemplate leaves the remediation to the template's remediator.
func (h *clusterFixture) byTemplate() string {
	return "remediation: {templateRef: {apiVersion: " + remediators + ", kind: " + rebooting + "Template, name: reboot}}"
}

func (h *clusterFixture) wantNoRequest(name string) {
	h.t.Helper()
	h.management.Eventually(h.t, "the object for "+name+" is deleted", func(ctx context.Context) error {
		u, err := h.request(ctx, rebooting, name)
		if err == nil && u != nil {
			err = errors.New("it stands")
		}
		return err
	})
}

// templateThatIsMissing is reported on the machine, and used as soon as it exists.
func templateThatIsMissing(h *clusterFixture) {
	h.running("a")
	h.healthCheck(h.byTemplate())
	h.fail("a")
	h.wantMachine("a", externally, "False/RemediationTemplateNotFound", "reboot")
	h.wantMachine("a", succeeded, "False/UnhealthyNode")
	h.template()
	h.wantMachine("a", externally, "False/WaitingForRemediation")
	if u, err := h.request(cluster.Context(h.t), rebooting, "a"); err != nil || u == nil {
		h.t.Errorf("there is no object for a (%v)", err)
	}
}

// requestOfAnotherClient: a foreign object in the way of one machine is reported, and delays no other machine.
func requestOfAnotherClient(h *clusterFixture) {
	h.running("a", "b")
	h.template()
	u := object(remediators, rebooting, h.namespace, "a")
	u.Object["spec"] = map[string]any{"outcome": "Ignore"}
	if err := h.management.Create(cluster.Context(h.t), u); err != nil {
		h.t.Fatalf("creating an object: %v", err)
	}
	h.healthCheck(h.byTemplate())
	h.fail("a", "b")
	h.wantMachine("b", externally, "False/WaitingForRemediation")
	h.wantMachine("a", externally, "False/RemediationRequestCreationFailed", "describe repair")
}

// controlPlaneIsMarkedWhole: its owner chooses, and respects the quorum.
func controlPlaneIsMarkedWhole(h *clusterFixture) {
	for _, name := range []string{"a", "b", "c"} {
		h.machine(name, func(m *clusterv1.Machine) { m.Labels[clusterv1.MachineControlPlaneLabel] = "" })
		h.joins(name)
	}
	h.healthCheck()
	h.wantCounts("3/3 healthy, 3 allowed")
	h.fail("a", "b")
	h.wantMarked("a", "UnhealthyNode")
	h.wantMarked("b", "UnhealthyNode")
}

func rehearsal(h *clusterFixture) {
	h.running("a")
	h.healthCheck()
	h.changeCheck(`{"metadata":{"annotations":{"fettle.io/dry-run":"true"}}}`)
	h.fail("a")
	h.wantCounts("0/1 healthy, 0 allowed")
	h.keepsUnmarked("a")
}

// healthCheckThatIsDeleted: marked machines stay with the owner (docs/reference/cluster-api.md#situations), and their
// repairs end.
func healthCheckThatIsDeleted(h *clusterFixture) {
	h.running("a")
	h.healthCheck()
	h.fail("a")
	h.wantMarked("a", "UnhealthyNode")
	if err := h.Delete(cluster.Context(h.t), &clusterv1.MachineHealthCheck{ObjectMeta: metav1.ObjectMeta{Namespace: h.namespace, Name: "check"}}); err != nil {
		h.t.Fatalf("deleting the health check: %v", err)
	}
	h.wantRepairs("a Withdrawn")
}

// anotherWriter is detected and named.
func anotherWriter(h *clusterFixture) {
	h.running("a")
	h.healthCheck()
	h.wantCounts("1/1 healthy, 1 allowed")
	h.management.Eventually(h.t, "another controller is reported", func(ctx context.Context) error {
		c := &clusterv1.MachineHealthCheck{ObjectMeta: metav1.ObjectMeta{Namespace: h.namespace, Name: "check"}}
		patch := client.RawPatch(types.MergePatchType, []byte(`{"status":{"expectedMachines":7}}`))
		if err := h.Status().Patch(ctx, c, patch, client.FieldOwner("manager")); err != nil {
			return err
		}
		return compareCondition(c.Status.Conditions, "SoleController", "False/AnotherController", []string{"manager"})
	})
	h.wantEvent("check", "AnotherController")
	h.wantCounts("1/1 healthy, 1 allowed")
}

// secretThatComesLate: without it nothing is known, and Fettle says so (I1).
func secretThatComesLate(h *clusterFixture) {
	h.running("a")
	secret := &corev1.Secret{}
	key := types.NamespacedName{Namespace: h.namespace, Name: herdCluster + "-kubeconfig"}
	if err := h.Get(cluster.Context(h.t), key, secret); err != nil {
		h.t.Fatalf("reading a secret: %v", err)
	}
	if err := h.Delete(cluster.Context(h.t), secret); err != nil {
		h.t.Fatalf("deleting a secret: %v", err)
	}
	h.healthCheck()
	h.fail("a")
	h.wantCheck("RemediationAllowed", "Unknown/ConnectionDown", "c-kubeconfig")
	h.keepsUnmarked("a")
	h.wantMachine("a", succeeded, "")
	secret.ResourceVersion, secret.UID = "", ""
	h.create(secret)
	h.wantMarked("a", "UnhealthyNode")
}
