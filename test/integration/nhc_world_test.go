package integration

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fettle-io/fettle/test/cluster"
)

// TestRemediatorsRepairNodes: with remediators at work, silent nodes come back by a reboot, or reinstalled where that
// fails. Nothing is left behind.
func TestRemediatorsRepairNodes(t *testing.T) {
	t.Parallel()
	c := cluster.Start(t, cluster.Options{Args: []string{
		"--kubelets", "--remediators", "--node-monitor-grace-period=4s", "--node-monitor-period=500ms",
	}})
	c.InstallFettleForNodes(t)
	c.StartFettle(t)
	p := newPool(t, c, "world")
	before := map[string]types.UID{}
	for _, name := range []string{"hangs", "broken", "c", "d", "e"} {
		n := &corev1.Node{}
		n.Name, n.Labels, n.Annotations = p.nodeName(name), map[string]string{"pool": p.namespace}, map[string]string{"kwok.x-k8s.io/node": "fake"}
		p.create(n)
		before[name] = n.UID
	}
	for _, u := range cluster.Decode(t, []byte(`
apiVersion: sandbox.fettle.io/v1alpha1
kind: RebootRemediationTemplate
metadata: {name: world-reboot, namespace: world}
spec: {template: {spec: {takes: 1s}}}
---
apiVersion: sandbox.fettle.io/v1alpha1
kind: ReprovisionRemediationTemplate
metadata: {name: world-install}
spec: {template: {spec: {takes: 1s}}}
`)) {
		p.create(u)
	}
	p.healthCheck(p.steps("10m", rebooting, "reboot", reinstall, "install"))
	p.wantNodeStatus("5/5 healthy, Enabled, unhealthy:")
	p.change(object("v1", "Node", "", p.nodeName("broken")), `{"metadata":{"annotations":{"sandbox.fettle.io/reboot":"fails"}}}`)
	for _, name := range []string{"hangs", "broken"} {
		p.silences(name)
	}
	p.Eventually(t, "the hanging node is back, and the broken one was reinstalled", func(ctx context.Context) error {
		var hung, broken corev1.Node
		err := errors.Join(p.Get(ctx, types.NamespacedName{Name: p.nodeName("hangs")}, &hung), p.Get(ctx, types.NamespacedName{Name: p.nodeName("broken")}, &broken))
		_, stopped := hung.Labels["sandbox.fettle.io/kubelet"]
		if err == nil && (stopped || hung.UID != before["hangs"] || broken.UID == before["broken"]) {
			err = fmt.Errorf("hangs: stopped %t, same %t; broken: same %t", stopped, hung.UID == before["hangs"], broken.UID == before["broken"])
		}
		return err
	})
	p.wantObjects()
	p.nothingIsLeft("hangs", "5/5")
	p.nothingIsLeft("broken", "5/5")
	var hung corev1.Node
	if err := p.Get(cluster.Context(t), types.NamespacedName{Name: p.nodeName("hangs")}, &hung); err != nil || hung.Spec.Unschedulable {
		t.Errorf("the node is still cordoned: %t (%v)", hung.Spec.Unschedulable, err)
	}
	p.keepsObjects()
}

// silences stops the kubelet of a node. Very rarely KWOK, which plays it, goes on renewing the lease if the node is
// stopped in the midst of a renewal. Then the node is stopped again.
func (p *pool) silences(name string) {
	p.t.Helper()
	const stops, goesOn = `{"sandbox.fettle.io/kubelet":"stopped"}`, `{"sandbox.fettle.io/kubelet":null}`
	p.label(name, stops)
	began := time.Now()
	p.Eventually(p.t, "the kubelet of "+name+" falls silent", func(ctx context.Context) error {
		var n corev1.Node
		err := p.Get(ctx, types.NamespacedName{Name: p.nodeName(name)}, &n)
		_, stopped := n.Labels["sandbox.fettle.io/kubelet"]
		ready := slices.ContainsFunc(n.Status.Conditions, func(c corev1.NodeCondition) bool {
			return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
		})
		if err != nil || !ready || !stopped {
			return client.IgnoreNotFound(err) // it is silent, or was, and is remediated already
		}
		if time.Since(began) > 15*time.Second {
			p.label(name, goesOn)
			p.label(name, stops)
			began = time.Now()
		}
		return errors.New("it still is Ready")
	})
}

// TestHealthChecksOfTwoKinds: a machine and its node have one repair. The older health check leads, and the other
// kind's does nothing meanwhile (docs/reference/proposals.md#where-the-sources-disagree). Today's operator switches
// itself off instead (docs/reference/medik8s.md#machine-health-checks-beside-it).
func TestHealthChecksOfTwoKinds(t *testing.T) {
	t.Parallel()
	c := cluster.Start(t, cluster.Options{Args: []string{noNodeController}})
	c.InstallFettle(t)
	c.InstallRemediators(t)
	c.StartFettle(t)
	f := newMachineFixture(t, c, "two-kinds")
	p := &pool{f}
	for _, name := range []string{"a", "b", "c"} {
		f.machine(name, machineOptions{})
	}
	p.template(rebooting, "reboot", false)
	// Of two health checks from the same second, the first by name leads.
	f.namedNodeCheck(p, "at-first")
	f.healthCheck("then", nil, readyCheck("maxUnhealthy: 50%"))
	f.wantStatus("then", 3, 3, 1, "")

	p.fails("a")
	p.wantObjects("a reboot")
	f.keepsMachines("a", "b", "c")
	p.keepsObjects("a reboot")
	p.recovers("a")
	p.wantObjects()
	p.wantLease("a", "")
	f.keepsMachines("a", "b", "c")
	f.wantStatus("then", 3, 3, 1, "")

	// Without the leader, the other health check repairs unhealthy targets.
	p.removeCheck("at-first")
	p.fails("a")
	f.wantMachines("b", "c")
	p.keepsObjects()
}

// namedNodeCheck creates a health check of the nodes that machines have.
func (f *machineFixture) namedNodeCheck(p *pool, name string) {
	f.t.Helper()
	p.namedCheck(name, "{for: test}", p.single(rebooting, "reboot"))
	f.Eventually(f.t, "the health check of nodes is followed", func(ctx context.Context) error {
		s, err := p.nodeStatus(ctx, name)
		if err == nil && (s.HealthyNodes == nil || *s.HealthyNodes != 3) {
			err = errors.New(p.statusText(s))
		}
		return err
	})
}
