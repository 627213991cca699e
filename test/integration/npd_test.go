package integration

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fettle-io/fettle/api/fettle/annotation"
	"github.com/fettle-io/fettle/test/cluster"
)

// settled is how long a condition other than Ready must have been healthy before it ends a repair.
const settled = time.Minute

// deadlocked is the criterion of an annotation for the problem that node-problem-detector reports.
const deadlocked = `[{all: [{type: KernelDeadlock, status: "True", reason: "*Hung"}], for: 1s}]`

// TestNodeProblemDetector: conditions of node-problem-detector are criteria. Its restart resets the condition, which
// does not end a repair on its own.
func TestNodeProblemDetector(t *testing.T) {
	t.Parallel()
	c := cluster.Start(t, cluster.Options{Args: []string{noNodeController}})
	c.InstallFettle(t)
	c.InstallRemediators(t)
	c.StartFettle(t)
	beside := cluster.Beside(t)
	defer beside.Wait()
	beside.Run("nodes", func(t *testing.T) {
		detectedOnANode(newPool(t, c, "npd-nodes"))
	})
	beside.Run("deleted", func(t *testing.T) {
		detectedAndDeleted(newMachineFixture(t, c, "npd-deleted"))
	})
	beside.Run("requested", func(t *testing.T) {
		detectedAndRequested(&pool{newMachineFixture(t, c, "npd-requested")})
	})
}

// detectedOnANode: the remediation object of a NodeHealthCheck stays while node-problem-detector has not yet checked.
// It goes once the condition has been healthy for a minute.
func detectedOnANode(p *pool) {
	p.nodes("a", "b")
	p.template(rebooting, "reboot", false)
	p.healthCheck(`- {type: KernelDeadlock, status: "True", duration: 1s}`, "maxUnhealthy: 100%", p.single(rebooting, "reboot"))
	detector := p.StartDetector(p.t, p.nodeName("a"))
	p.wantNodeStatus("2/2 healthy, Enabled, unhealthy:")
	detector.Fails(p.t)
	p.wantObjects("a reboot")
	requested := p.object("a reboot").GetUID()

	detector.RestartHeld(p.t)
	p.wantRecovering("a", true)
	p.keepsObjects("a reboot")
	p.wantAnswer("explain node/"+p.nodeName("a"), "its remediation objects stay until", "in case it fails again")
	p.wantNodeStatus("1/2 healthy, Remediating, unhealthy: a[reboot]")
	detector.Release(p.t)
	detector.Reports(p.t, corev1.ConditionTrue)
	p.wantRecovering("a", false)
	p.wantNodeRepairs("a Running")
	if now := p.object("a reboot").GetUID(); now != requested {
		p.t.Error("the remediator got another request")
	}

	detector.Recovers(p.t)
	p.wantRecovering("a", true)
	detector.TurnedEarlier(p.t, settled)
	p.wantObjects()
	p.wantNodeRepairs("a Succeeded")
	p.nothingIsLeft("a", "2/2")
}

// wantRecovering waits until the status says that a node is healthy again and still has its remediation object, or that
// the node is not healthy.
func (p *pool) wantRecovering(node string, recovering bool) {
	p.t.Helper()
	p.Eventually(p.t, "the status tells of the recovery of "+node, func(ctx context.Context) error {
		s, err := p.nodeStatus(ctx, p.namespace)
		if err != nil {
			return err
		}
		for _, n := range s.UnhealthyNodes {
			if n.Name == p.nodeName(node) && (n.ConditionsHealthyTimestamp != nil) == recovering {
				return nil
			}
		}
		return fmt.Errorf("unhealthy nodes are %+v", s.UnhealthyNodes)
	})
}

// detectedAndDeleted: once a machine's deletion was decided it goes, and its repair runs until then. The criterion is
// that of an annotation, by the reason.
func detectedAndDeleted(f *machineFixture) {
	f.machine("a", machineOptions{finalizer: true})
	f.machine("b", machineOptions{})
	f.healthCheck("example", map[string]string{annotation.UnhealthyConditions: deadlocked}, readyCheck("maxUnhealthy: 100%"))
	detector := f.StartDetector(f.t, f.nodeName("a"))
	f.wantStatus("example", 2, 2, 2, "")
	detector.Fails(f.t)
	f.wantMachines("-a", "b")
	f.wantReasons("a", "node condition KernelDeadlock=True with a reason like *Hung")

	detector.RestartHeld(f.t)
	f.setReady("b", corev1.ConditionFalse)
	f.wantAnswer("explain machine/b", "InFlightLimit (example)")
	f.keepsMachines("-a", "b")
	f.wantRepairs("a Running")
	detector.Release(f.t)
	f.letMachineGo("a")
	f.wantMachines()
	f.wantRepairs("a Succeeded", "b Succeeded")
}

// letMachineGo removes the finalizers of a machine, as its provider does when the instance is gone.
func (f *machineFixture) letMachineGo(name string) {
	f.t.Helper()
	m := object("machine.openshift.io/v1beta1", "Machine", f.namespace, name)
	if err := f.Patch(cluster.Context(f.t), m, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`))); err != nil {
		f.t.Fatalf("letting machine %s go: %v", name, err)
	}
}

// detectedAndRequested: the remediation object of a machine stays as that of a node does. The machine counts as
// unhealthy meanwhile.
func detectedAndRequested(p *pool) {
	p.machine("a", machineOptions{})
	p.machine("b", machineOptions{})
	p.template(rebooting, "reboot", false)
	p.machineFixture.healthCheck("example", map[string]string{annotation.UnhealthyConditions: deadlocked},
		readyCheck("maxUnhealthy: 100%", p.single(rebooting, "reboot")))
	detector := p.StartDetector(p.t, p.nodeName("a"))
	detector.Fails(p.t)
	p.wantMachineRequest("a", true)

	detector.RestartHeld(p.t)
	p.wantAnswer("explain machine/a", "its request stays until", "the agent that reports it may not have checked yet")
	p.setReady("b", corev1.ConditionFalse)
	p.wantMachineRequest("b", true) // the pass that creates it has seen the restart
	p.setReady("b", corev1.ConditionTrue)
	p.wantMachineRequest("b", false) // the kubelet's conditions count at once
	p.wantStatus("example", 1, 2, 1, "")
	p.wantMachineRequest("a", true)
	p.wantRepairs("a Running", "b Succeeded")
	detector.Release(p.t)
	detector.Reports(p.t, corev1.ConditionTrue)
	p.wantAnswer("explain machine/a", "unhealthy")

	detector.Recovers(p.t)
	detector.TurnedEarlier(p.t, settled)
	p.wantMachineRequest("a", false)
	p.wantRepairs("a Succeeded", "b Succeeded")
	p.wantMachines("a", "b")
}

// wantMachineRequest waits until there is a remediation object for a machine, or none.
func (p *pool) wantMachineRequest(machine string, stands bool) {
	p.t.Helper()
	p.Eventually(p.t, "the remediation object of machine "+machine, func(ctx context.Context) error {
		u := object(remediators, rebooting, p.namespace, machine)
		err := p.Get(ctx, client.ObjectKeyFromObject(u), u)
		switch {
		case !stands && err == nil:
			return errors.New("it stands")
		case !stands && apierrors.IsNotFound(err):
			return nil
		}
		return err
	})
}

// TestNodeProblemDetectorOfAWorkloadCluster is the same for Cluster API. A mark for the owner of a machine stays too,
// and the condition that owners read stays False.
func TestNodeProblemDetectorOfAWorkloadCluster(t *testing.T) {
	t.Parallel()
	management := cluster.Start(t, clusterAPIOnly())
	workload := cluster.Start(t, cluster.Options{Args: []string{noNodeController}})
	management.InstallFettle(t)
	management.AllowClusterAPI(t)
	management.StartFettle(t)
	h := newClusterFixture(t, management, workload, "npd")
	h.running("a", "b")
	h.healthCheck(`  - {type: KernelDeadlock, status: "True", timeoutSeconds: 1}`)
	detector := workload.StartDetector(t, h.node("a"))
	h.wantCounts("2/2 healthy, 2 allowed")
	detector.Fails(t)
	h.wantMarked("a", "UnhealthyNode")

	detector.RestartHeld(t)
	h.wantAnswer("explain machine/a", "its request stays until", "the agent that reports it may not have checked yet")
	h.fail("b")
	h.wantMarked("b", "UnhealthyNode") // the pass that marks it has seen the restart
	h.recover("b")
	h.wantMachine("b", byOwner, "") // the kubelet's conditions count at once
	h.keepsMarked("a")
	h.wantRepairs("a Running", "b Succeeded")
	detector.Release(t)
	detector.Reports(t, corev1.ConditionTrue)
	h.wantAnswer("explain machine/a", "unhealthy, node condition KernelDeadlock=True since")

	detector.Recovers(t)
	detector.TurnedEarlier(t, settled)
	h.wantMachine("a", succeeded, "True/HealthCheckSucceeded")
	h.wantMachine("a", byOwner, "")
	h.wantRepairs("a Succeeded", "b Succeeded")
}

// keepsMarked checks for a while that a machine is marked for its owner, and not healthy.
func (h *clusterFixture) keepsMarked(name string) {
	h.t.Helper()
	h.management.Never(h.t, "machine "+name+" stays marked", quiet, func(ctx context.Context) error {
		m, err := h.get(ctx, name)
		if err != nil {
			return err
		}
		for _, condition := range []string{succeeded, byOwner} {
			if !meta.IsStatusConditionFalse(m.Status.Conditions, condition) {
				return fmt.Errorf("its conditions are %s", wordsOf(m.Status.Conditions))
			}
		}
		return nil
	})
}
