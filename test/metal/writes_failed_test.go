package metal

import (
	"context"
	"fmt"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/fettle-io/fettle/api/fettle/v1alpha1"
	"github.com/fettle-io/fettle/test/cluster"
)

// writesOfFailures are the kinds of writes that the remediations of TestFailedPowerRemediationSurvivesEachWrite take at least.
var writesOfFailures = []string{
	"patch bmcs/status",
	"patch powerremediations: the finalizer is set", "patch powerremediations: the finalizer is removed",
	"patch powerremediations/status: Preparing, attempt 2", "patch powerremediations/status: PoweringOff, attempt 2",
	"patch powerremediations/status: DeletingMachine, attempt 2", "delete machines",
	"patch powerremediations/status: Succeeded, attempt 2",
	"patch powerremediations/status: Failed", "patch powerremediations/status: Aborting", "patch powerremediations/status: Aborted",
	"patch powerremediations/status: Succeeded, released", "patch powerremediations/status: Aborting, released",
	"patch powerremediations/status: Aborted, released",
}

// TestFailedPowerRemediationSurvivesEachWrite: Fettle is killed at each kind of write of remediations that don't bring a node back. The end is the
// same as without the kills: the machine is deleted once, or the workload is held, or the host stays off.
func TestFailedPowerRemediationSurvivesEachWrite(t *testing.T) {
	t.Parallel()
	s := newSite(t, "--machine-api")
	kubeconfig := s.FettleKubeconfig(t)
	proxy, address := s.StartProxy(t)
	cluster.Redirect(t, kubeconfig, address)
	d := &interruptions{wanted: writesOfFailures, outcomes: map[string][]cluster.Outcome{}, kinds: map[string]bool{}}
	m := &restarted{site: s, interruptions: d, kubeconfig: kubeconfig, judges: []*cluster.Judge{proxy.Judge(t, d.outcome)}}
	replaced, held, off := &pool{T: t, site: s, name: "fails-replaced"}, s.newPool(t, "fails-held"), s.newPool(t, "fails-off")
	m.fettle = s.StartFettleWith(t, kubeconfig)
	m.survivesReplacement(t, replaced)
	m.survivesFailure(t, held)
	m.survivesOff(t, off)
	m.wasKilledAtEach(t)
}

// ends waits until a remediation is in a phase, and returns it.
func (m *restarted) ends(t *testing.T, p *pool, node, phase string) *v1alpha1.PowerRemediation {
	t.Helper()
	var r *v1alpha1.PowerRemediation
	m.until(t, phase+" of the remediation of "+node, func(ctx context.Context) error {
		var err error
		if r, err = p.remediation(ctx, node); err == nil && r.Status.Phase != phase {
			err = fmt.Errorf("%s: %s", r.Status.Phase, conditionsOf(r))
		}
		return err
	})
	return r
}

// isGone waits until a remediation is gone.
func (m *restarted) isGone(t *testing.T, p *pool, node string) {
	t.Helper()
	m.until(t, "end of the remediation of "+node, func(ctx context.Context) error {
		if _, err := p.remediation(ctx, node); !apierrors.IsNotFound(err) {
			return fmt.Errorf("the remediation is there (%w)", err)
		}
		return nil
	})
}

// survivesReplacement: the BMC is dead, and the machine is deleted after the second attempt. Nothing is released without a proof (I13).
func (m *restarted) survivesReplacement(t *testing.T, p *pool) {
	t.Helper()
	machine := p.machineSet("worker", "")
	p.ofHost(machine, false)
	node := machine.GetName()
	p.faults(node, `{"drops":true}`)
	p.hangs(node)
	one := int32(1)
	p.remediates(node, v1alpha1.PowerRemediationSpec{OnFailure: v1alpha1.DeleteMachineAction, PowerOffTimeout: seconds(15), Retries: &one})
	r := m.ends(t, p, node, "Succeeded")
	if said := conditionsOf(r); !strings.Contains(said, "Succeeded=True MachineDeleted") || r.Status.Proof != nil || r.Status.WorkloadReleased || r.Status.Attempt != 2 {
		t.Errorf("its conditions are %s, the proof %+v in attempt %d", said, r.Status.Proof, r.Status.Attempt)
	}
	p.deletes(node)
	m.isGone(t, p, node)
	p.running(machine.GetUID())
	for _, d := range p.deletions(node) {
		if d.UID != string(machine.GetUID()) {
			t.Errorf("machine %s, whose UID is %s, was deleted so: %+v", node, machine.GetUID(), d)
		}
	}
}

// survivesFailure: the BMC is dead, and the workload is held. When the remediation is deleted, the node is as before.
func (m *restarted) survivesFailure(t *testing.T, p *pool) {
	t.Helper()
	node := p.first()
	p.faults(node, `{"drops":true}`)
	p.hangs(node)
	p.remediates(node, v1alpha1.PowerRemediationSpec{PowerOffTimeout: seconds(15), PowerOnTimeout: seconds(15), BootTimeout: seconds(15), Retries: new(int32)})
	if r := m.ends(t, p, node, "Failed"); r.Status.Proof != nil || r.Status.WorkloadReleased || !strings.Contains(conditionsOf(r), "Succeeded=False PowerOffTimedOut") {
		t.Errorf("its conditions are %s, the proof is %+v", conditionsOf(r), r.Status.Proof)
	}
	p.isNotReleased(node)
	p.faults(node, "")
	p.deletes(node)
	m.isGone(t, p, node)
	p.isRestored(node)
	p.ranAlone()
}

// survivesOff: the host is powered off for good, and its workload moves. The deletion of the remediation powers no host on.
func (m *restarted) survivesOff(t *testing.T, p *pool) {
	t.Helper()
	node := p.first()
	p.hangs(node)
	hour := seconds(3600)
	p.remediates(node, v1alpha1.PowerRemediationSpec{Strategy: v1alpha1.OffStrategy, PowerOffTimeout: hour, ReleaseTimeout: hour})
	if r := m.ends(t, p, node, "Succeeded"); r.Status.Proof == nil || r.Status.Proof.Kind != "PowerOff" || !r.Status.WorkloadReleased {
		t.Errorf("its conditions are %s, the proof is %+v", conditionsOf(r), r.Status.Proof)
	}
	p.runsOn(p.second())
	m.until(t, "service of "+node, func(ctx context.Context) error { return inService(p.node(ctx, node)) })
	p.deletes(node)
	m.isGone(t, p, node)
	if n := p.node(cluster.Context(t), node); n.Annotations[sandboxes+"host-power"] != "off" {
		t.Errorf("the host is %s", n.Annotations[sandboxes+"host-power"])
	}
	p.isRestored(node)
	p.ranTimes(2)
}
