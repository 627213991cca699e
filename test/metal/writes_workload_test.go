package metal

import (
	"context"
	"errors"
	"fmt"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fettle-io/fettle/api/fettle/v1alpha1"
	"github.com/fettle-io/fettle/test/cluster"
)

// writesOfFleets are the kinds of writes that a remediation in a workload cluster takes at least. Those to nodes go to the workload cluster.
var writesOfFleets = []string{
	"create events", "patch bmcs/status", "patch machines/status", "patch machinehealthchecks", "patch machinehealthchecks/status",
	"create repairs", "patch repairs/status: running", "patch repairs/status: over",
	"create powerremediations", "delete powerremediations", "patch powerremediations: the finalizer is removed",
	"patch powerremediations/status: Preparing", "patch powerremediations/status: PoweringOff", "patch powerremediations/status: PoweringOff, PowerOffOnce",
	"patch powerremediations/status: Releasing", "patch powerremediations/status: Releasing, released",
	"patch powerremediations/status: PoweringOn, released",
	"patch powerremediations/status: Aborting, released", "patch powerremediations/status: Aborted, released",
	"patch nodes: the fencing is marked, taints fencing", "patch nodes: taints fencing out-of-service", "patch nodes: taints fencing",
	"patch nodes: the mark is removed", "patch nodes: taints",
}

// TestRemediationOfAWorkloadClusterSurvivesEachWrite: Fettle is killed at each kind of write to the management cluster and to the workload
// cluster, while a MachineHealthCheck of Cluster API has a node fenced. The node is as before, and its pod moves once.
func TestRemediationOfAWorkloadClusterSurvivesEachWrite(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	kubeconfig := f.management.FettleKubeconfig(t)
	proxy, address := f.management.StartProxy(t)
	cluster.Redirect(t, kubeconfig, address)
	d := &interruptions{wanted: writesOfFleets, outcomes: map[string][]cluster.Outcome{}, kinds: map[string]bool{}}
	r := &restarted{
		site: f.management, interruptions: d, kubeconfig: kubeconfig, args: []string{"--watch-filter=fettle"},
		judges: []*cluster.Judge{proxy.Judge(t, d.outcome), f.proxy.Judge(t, d.outcome)},
	}
	first := f.newMember(t, "writes-fleet")
	r.fettle = r.StartFettleWith(t, kubeconfig, r.args...)
	r.survivesInFleet(t, first)
	for i := 0; i < 5 && len(r.missing()) > 0; i++ {
		t.Logf("once more for %q", r.missing())
		r.survivesInFleet(t, f.newMember(t, fmt.Sprintf("writes-fleet-%d", i)))
	}
	r.wasKilledAtEach(t)
}

// survivesInFleet has a health check that Fettle has taken over fence the first node of a pool.
func (m *restarted) survivesInFleet(t *testing.T, of *member) {
	t.Helper()
	b := of.beforehand()
	of.judgedBy(takenOver)
	of.faults(of.first(), `{"lag":"3s"}`)
	of.hangs(of.first())
	m.until(t, "remediation of "+of.name, func(ctx context.Context) error {
		return errors.Join(b.isBack(ctx), of.isOver(ctx))
	})
	of.runsOn(of.second())
	of.ranTimes(2)
	of.leavesHomeAlone()
}

// isOver returns an error unless the Repair of the machine has succeeded, and its remediation is gone.
func (m *member) isOver(ctx context.Context) error {
	var repairs v1alpha1.RepairList
	if err := m.fleet.management.List(ctx, &repairs, client.InNamespace(fleetNamespace)); err != nil {
		return err
	}
	over := 0
	for i := range repairs.Items {
		if r := &repairs.Items[i]; r.Spec.Target.Name == m.called() {
			if r.Status.Phase != v1alpha1.RepairSucceeded && (r.Status.Phase != v1alpha1.RepairRecovered || len(r.Status.Evidence) == 0) {
				return fmt.Errorf("Repair %s is %s", r.Name, r.Status.Phase)
			}
			over++
		}
	}
	if over != 1 {
		return fmt.Errorf("%d Repairs of %s are over", over, m.called())
	}
	r := &v1alpha1.PowerRemediation{}
	err := m.fleet.management.Get(ctx, client.ObjectKey{Namespace: fleetNamespace, Name: m.called()}, r)
	if !apierrors.IsNotFound(err) {
		return fmt.Errorf("the remediation is there: %s: %s (%w)", r.Status.Phase, conditionsOf(r), err)
	}
	return nil
}
