package metal

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fettle-io/fettle/api/fettle/v1alpha1"
	"github.com/fettle-io/fettle/test/cluster"
)

// writesOfExternalBaremetal are the kinds of writes of the strategy external-baremetal: a remediation by Fettle, and a mark for the machine
// controller of the platform.
var writesOfExternalBaremetal = []string{
	"create events", "patch bmcs/status", "patch machinehealthchecks/status",
	"create repairs", "patch repairs/status: running", "patch repairs/status: over",
	"patch machines: the mark is set",
	"create powerremediations", "delete powerremediations", "patch powerremediations: the finalizer is removed",
	"patch powerremediations/status: Preparing", "patch powerremediations/status: PoweringOff", "patch powerremediations/status: PoweringOff, PowerOffOnce",
	"patch powerremediations/status: Releasing", "patch powerremediations/status: Releasing, released",
	"patch powerremediations/status: PoweringOn, released",
	"patch machines: the claim is set", "patch machines: the claim is removed",
	"patch nodes: the fencing is marked, taints fencing", "delete nodes", "patch nodes: labels are restored, taints",
}

// TestExternalBaremetalSurvivesEachWrite: Fettle is killed at each kind of write of the strategy external-baremetal, where it powers the
// host itself, and where the machine controller of the platform does. The nodes are as before, no pod runs twice, and both never act
// on one machine.
func TestExternalBaremetalSurvivesEachWrite(t *testing.T) {
	t.Parallel()
	s := newMachineSite(t)
	s.AllowPower(t)
	kubeconfig := s.FettleKubeconfig(t)
	proxy, address := s.StartProxy(t)
	cluster.Redirect(t, kubeconfig, address)
	d := &interruptions{wanted: writesOfExternalBaremetal, outcomes: map[string][]cluster.Outcome{}, kinds: map[string]bool{}}
	m := &restarted{site: s, interruptions: d, kubeconfig: kubeconfig, judges: []*cluster.Judge{proxy.Judge(t, d.outcome)}}
	s.Apply(t, fmt.Sprintf(`apiVersion: fettle.io/v1alpha1
kind: PowerRemediationTemplate
metadata: {name: external-baremetal, namespace: %s}
spec: {template: {spec: {release: DeleteNode, %s}}}
`, machines, patient))
	powered, marked := s.newPool(t, "writes-powered"), s.newPool(t, "writes-marked")
	m.fettle = s.StartFettleWith(t, kubeconfig)
	m.survivesByItsOwnPower(t, powered)
	m.survivesByThePlatform(t, marked)
	for i := 0; i < 5 && len(m.missing()) > 0; i++ {
		t.Logf("once more for %q", m.missing())
		m.survivesByItsOwnPower(t, s.newPool(t, fmt.Sprintf("writes-again-%d", i)))
		m.survivesByThePlatform(t, s.newPool(t, fmt.Sprintf("writes-mark-%d", i)))
	}
	m.wasKilledAtEach(t)
}

// survivesByItsOwnPower: Fettle powers the host. The node is deleted, and registers again.
func (m *restarted) survivesByItsOwnPower(t *testing.T, p *pool) {
	t.Helper()
	p.machine(byPower())
	b := p.beforehand()
	p.faults(p.first(), `{"lag":"3s"}`)
	p.hangs(p.first())
	m.until(t, "remediation of "+p.name, func(ctx context.Context) error {
		return errors.Join(b.isBack(ctx), p.repairIsOver(ctx, p.name), p.hasMark(ctx, false))
	})
	p.runsOn(p.second())
	p.ranTimes(2)
}

// survivesByThePlatform: Fettle marks the machine, and the machine controller powers the host.
func (m *restarted) survivesByThePlatform(t *testing.T, p *pool) {
	t.Helper()
	p.machine(nil)
	b := p.beforehand()
	p.hangs(p.first())
	m.until(t, "mark of "+p.name, func(ctx context.Context) error { return p.hasMark(ctx, true) })
	p.platformActs()
	m.until(t, "end of the Repair of "+p.name, func(ctx context.Context) error {
		return errors.Join(b.isBack(ctx), p.markIsOver(ctx), p.hasMark(ctx, false), p.noPower(ctx))
	})
	p.ranAlone()
}

// markIsOver returns an error unless the Repair of the machine is over. A process that finds a mark doesn't know whether an earlier process
// made it, so the Repair may be Recovered.
func (p *pool) markIsOver(ctx context.Context) error {
	var repairs v1alpha1.RepairList
	if err := p.List(ctx, &repairs, client.InNamespace(machines)); err != nil {
		return fmt.Errorf("listing Repairs: %w", err)
	}
	for i := range repairs.Items {
		r := &repairs.Items[i]
		if r.Spec.Target.Name == p.name && (r.Status.Phase == v1alpha1.RepairSucceeded || r.Status.Phase == v1alpha1.RepairRecovered) {
			return nil
		}
	}
	return fmt.Errorf("no Repair of %s is over", p.name)
}
