package integration

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/fettle-io/fettle/internal/writers"
	"github.com/fettle-io/fettle/test/cluster"
)

// The steps of docs/handover.md, for health checks of Cluster API.
const (
	handoverTakeOver = `{"metadata":{"annotations":{"cluster.x-k8s.io/paused":"","fettle.io/takes-over":"true"}}}`
	handoverGiveBack = `{"metadata":{"annotations":{"cluster.x-k8s.io/paused":null,"fettle.io/takes-over":null}}}`
	handoverHold     = `{"metadata":{"annotations":{"fettle.io/paused":""}}}`
	handoverLetGo    = `{"metadata":{"annotations":{"fettle.io/paused":null}}}`
)

// TestHandoverClusterAPI hands health checks over from Cluster API's own controller to Fettle and back, as
// docs/handover.md says. Then both act on the same health check. The controller is the real one.
func TestHandoverClusterAPI(t *testing.T) {
	t.Parallel()
	o := clusterAPIOnly()
	o.Args = append(o.Args, "--cluster-api-health-checks")
	management := cluster.Start(t, o)
	workload := cluster.Start(t, cluster.Options{Args: []string{noNodeController}})
	management.InstallFettleForNodes(t)
	management.AllowClusterAPI(t)
	from := provisioned(t, management, workload, "handover-from")
	clusterAPIMarks(from)
	management.StartFettle(t)
	beside := cluster.Beside(t)
	defer beside.Wait()
	beside.Run("from", func(t *testing.T) {
		handoverFromClusterAPI(&clusterFixture{Client: from.Client, t: t, management: management, workload: workload, namespace: from.namespace})
	})
	for name, run := range map[string]func(*clusterFixture){"handover-to": handoverToClusterAPI, "handover-both": bothFollow} {
		beside.Run(name, func(t *testing.T) {
			run(provisioned(t, management, workload, name))
		})
	}
}

// provisioned returns a fixture whose Cluster says that its infrastructure is ready, which Cluster API's own controller
// requires.
func provisioned(t *testing.T, management, workload *cluster.Cluster, name string) *clusterFixture {
	t.Helper()
	h := newClusterFixture(t, management, workload, name)
	h.changeCluster(func(c *clusterv1.Cluster) { c.Status.Initialization.InfrastructureProvisioned = new(true) })
	return h
}

// clusterAPIMarks waits until Cluster API's own controller has marked a machine. It sets the health check to dry run
// for Fettle, which does not run yet.
func clusterAPIMarks(h *clusterFixture) {
	h.running("a", "b", "c")
	h.healthCheck("remediation: {triggerIf: {unhealthyLessThanOrEqualTo: 100%}}")
	h.changeCheck(handoverRehearse)
	h.fail("a")
	h.wantMarked("a", "UnhealthyNode")
}

func handoverFromClusterAPI(h *clusterFixture) {
	// 1. Fettle is in dry run.
	h.fail("b")
	h.wantMarked("b", "UnhealthyNode")
	h.wantEvent("b", "DryRun")
	h.wantRepairs()
	// 2. Cluster API's own controller is stopped, and Fettle takes over.
	h.changeCheck(handoverTakeOver)
	h.wantCheck(saysPaused, "True/Paused")
	h.wantCheck(writers.Condition, "")
	// 3. Fettle acts. Marked and unhealthy machines are Fettle's from now on.
	h.changeCheck(handoverAct)
	h.wantRepairs("a Running", "b Running")
	h.recover("a")
	h.wantMachine("a", succeeded, "True/HealthCheckSucceeded")
	h.wantMachine("a", byOwner, "")
	h.fail("c")
	h.wantMarked("c", "UnhealthyNode")
	h.wantCheck(saysPaused, "True/Paused")
}

func handoverToClusterAPI(h *clusterFixture) {
	h.running("a", "b", "c")
	h.healthCheck("remediation: {triggerIf: {unhealthyLessThanOrEqualTo: 100%}}")
	h.changeCheck(handoverTakeOver)
	h.wantCheck(saysPaused, "True/Paused")
	h.fail("a")
	h.wantMarked("a", "UnhealthyNode")
	h.wantRepairs("a Running")
	// 1. Fettle starts no more repairs.
	h.changeCheck(handoverHold)
	h.wantCheck(clusterv1.MachineHealthCheckRemediationAllowedCondition, "False/Paused")
	h.fail("b")
	h.wantCounts("1/3 healthy, 0 allowed")
	h.areUnmarked("b")
	// 2. Fettle is in dry run.
	h.changeCheck(handoverRehearse)
	// 3. Cluster API's own controller acts.
	h.changeCheck(handoverGiveBack)
	h.wantCheck(saysPaused, "False/NotPaused")
	h.wantMarked("b", "UnhealthyNode")
	h.recover("a")
	h.wantMachine("a", succeeded, "True/HealthCheckSucceeded")
	h.wantRepairs("a Withdrawn")
}

// bothFollow: Fettle reports the other writer.
func bothFollow(h *clusterFixture) {
	h.running("a", "b")
	h.healthCheck("remediation: {triggerIf: {unhealthyLessThanOrEqualTo: 100%}}")
	h.fail("a")
	h.nodeIs("b", corev1.ConditionUnknown)
	h.wantCheck(writers.Condition, "False/"+writers.Reason)
	h.wantEvent("check", writers.Reason)
}
