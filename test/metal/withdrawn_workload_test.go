package metal

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fettle-io/fettle/api/fettle/v1alpha1"
	"github.com/fettle-io/fettle/test/cluster"
)

// fleetPhase is how a remediation in a workload cluster is held in a phase, and freed.
type fleetPhase struct {
	// begin is called before the node fails. come returns when the remediation is held.
	begin func(*heldInFleet)
	come  func(*heldInFleet)
	free  func(*heldInFleet)
}

// heldInFleet is a member whose remediation stays in one phase.
type heldInFleet struct {
	*member

	all   *testing.T // the test of all phases, with which faults end
	fault *cluster.Injected
}

// fleetPhases are the phases in which a remediation of a machine of Cluster API can be for long.
var fleetPhases = map[string]fleetPhase{
	"preparing": {(*heldInFleet).refusesPatches, waitsInFleet("Preparing", "NotChanged"), func(h *heldInFleet) { h.fault.End() }},
	"powering-off": {
		func(h *heldInFleet) { h.faults(h.first(), `{"staysPoweringOff":true}`) }, waitsInFleet("PoweringOff", "PowerNotOff"),
		func(h *heldInFleet) { h.faults(h.first(), "") },
	},
	"releasing": {
		func(h *heldInFleet) { h.hold(h.first()) }, waitsInFleet("Releasing", "WorkloadLeft"),
		func(h *heldInFleet) { h.unhold(h.first()) },
	},
	"powering-on": {
		func(h *heldInFleet) { h.hold(h.first()) }, (*heldInFleet).comesToPoweringOn,
		func(h *heldInFleet) { h.faults(h.first(), "") },
	},
	"booting": {
		func(h *heldInFleet) { h.mark(h.first(), "annotations", "boot-time", "1h") }, waitsInFleet("Booting", "NodeNotBack"),
		func(h *heldInFleet) { h.pressed(h.first()) },
	},
}

func waitsInFleet(phase, reason string) func(*heldInFleet) {
	return func(h *heldInFleet) {
		h.says(phase+" "+reason, func(r *v1alpha1.PowerRemediation) bool {
			return r.Status.Phase == phase && strings.Contains(conditionsOf(r), "Processing=True "+reason)
		})
	}
}

func (h *heldInFleet) refusesPatches() {
	h.fault = h.fleet.proxy.Inject(h.all, cluster.Fault{Method: http.MethodPatch, Path: "/api/v1/nodes/" + h.first(), Status: http.StatusServiceUnavailable})
}

func (h *heldInFleet) comesToPoweringOn() {
	h.Helper()
	waitsInFleet("Releasing", "WorkloadLeft")(h)
	h.faults(h.first(), `{"refusesCommands":500}`)
	h.unhold(h.first())
	waitsInFleet("PoweringOn", "PowerNotRead")(h)
}

// TestWorkloadClusterWithoutItsHealthCheck: the MachineHealthCheck of Cluster API is deleted in each phase of a remediation, which is withdrawn
// with it. The host is on in the end, and the node as it was.
func TestWorkloadClusterWithoutItsHealthCheck(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	f.management.StartFettle(t, "--watch-filter=fettle")
	beside := cluster.Beside(t)
	defer beside.Wait()
	for in, phase := range fleetPhases {
		beside.Run(in, func(sub *testing.T) {
			h := &heldInFleet{member: f.newMember(sub, "gone-"+in), all: t}
			h.judgedBy(takenOver)
			phase.begin(h)
			h.hangs(h.first())
			phase.come(h)
			h.deletesHealthCheck()
			h.isBeingWithdrawn()
			phase.free(h)
			h.isWithdrawn()
			h.isOn(h.first())
			h.isRestored(h.first())
			h.ranAlone()
			h.leavesHomeAlone()
			h.hasNoRepair()
		})
	}
}

func (h *heldInFleet) deletesHealthCheck() {
	h.Helper()
	check := &clusterv1.MachineHealthCheck{ObjectMeta: fleetMeta(h.name, "")}
	if err := h.fleet.management.Delete(cluster.Context(h.T), check); err != nil {
		h.Fatalf("deleting the health check: %v", err)
	}
}

// isBeingWithdrawn waits until the deletion of the remediation was requested.
func (h *heldInFleet) isBeingWithdrawn() {
	h.Helper()
	h.Eventually(h.T, "withdrawal", func(ctx context.Context) error {
		r := &v1alpha1.PowerRemediation{}
		err := h.fleet.management.Get(ctx, client.ObjectKey{Namespace: fleetNamespace, Name: h.called()}, r)
		if err == nil && r.DeletionTimestamp == nil {
			return fmt.Errorf("it is in phase %s: %s", r.Status.Phase, conditionsOf(r))
		}
		return client.IgnoreNotFound(err)
	})
}

// hasNoRepair waits until no Repair of the machine runs.
func (h *heldInFleet) hasNoRepair() {
	h.Helper()
	h.Eventually(h.T, "end of the Repair", func(ctx context.Context) error {
		var repairs v1alpha1.RepairList
		if err := h.fleet.management.List(ctx, &repairs, client.InNamespace(fleetNamespace)); err != nil {
			return err
		}
		for i := range repairs.Items {
			if r := &repairs.Items[i]; r.Spec.Target.Name == h.called() && r.Status.FinishedAt == nil {
				return fmt.Errorf("Repair %s is %s", r.Name, r.Status.Phase)
			}
		}
		return nil
	})
}
