package faults

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fettle-io/fettle/api/fettle/annotation"
	"github.com/fettle-io/fettle/api/fettle/v1alpha1"
	medik8s "github.com/fettle-io/fettle/api/medik8s/v1alpha1"
	"github.com/fettle-io/fettle/test/cluster"
)

// fiveStand breaks ten of fourteen nodes, and returns when five of them have remediation objects. That is the limit.
// Remediators do not finish until the test lets them.
func (p *pool) fiveStand() {
	p.t.Helper()
	p.holdWork()
	p.addNodes(append(names("well", 4), names("ill", 10)...))
	p.foreignRequest("well-00")
	p.rebooted(5)
	p.wantStatus(14, 14)
	p.longBroken(names("ill", 10))
	p.wantRequested("reboot", 5)
}

// requestedNodes returns the nodes with remediation objects, by the names that the test gave them.
func (p *pool) requestedNodes() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	var found []string
	for _, o := range p.objects {
		if o.to == 0 && o.leaving == 0 && !o.foreign {
			found = append(found, o.node[len(p.name)+1:])
		}
	}
	return found
}

// forceDeleted: without its health check, all its remediation objects are deleted.
func forceDeleted(p *pool) {
	p.StartFettle(p.t)
	p.fiveStand()
	p.deleteCheck()
	p.wantMended(5)
}

// forceDeletedUnseen: no leader saw the deletion, and the next leader never knew the health check.
func forceDeletedUnseen(p *pool) {
	f := p.StartFettle(p.t)
	p.fiveStand()
	f.Kill(p.t)
	p.deleteCheck()
	p.StartFettle(p.t)
	p.wantMended(5)
}

func (p *pool) deleteCheck() {
	p.t.Helper()
	ctx := cluster.Context(p.t)
	p.must("announcing it", p.Patch(ctx, p.check(), merge(map[string]any{"metadata": map[string]any{
		"annotations": map[string]any{annotation.ForceDelete: "true"},
	}})))
	p.must("deleting the health check", p.Delete(ctx, p.check()))
}

// TestNodeHealthCheckEditedToNonsense: a cluster with its own definition accepts nonsense for a health check. All
// repairs that have not begun wait until the health check is mended.
func TestNodeHealthCheckEditedToNonsense(t *testing.T) {
	t.Parallel()
	c := cluster.Start(t, cluster.Options{Args: []string{"--controllers=*,-node-lifecycle-controller"}})
	c.Apply(t, lenient(medik8s.GroupVersion.WithKind("NodeHealthCheck"), "Cluster", ""))
	c.InstallFettleForNodes(t)
	p := newPool(t, c, "nonsense")
	p.StartFettle(t)
	p.fiveStand()
	good := []any{map[string]any{"type": "Ready", "status": "False", "duration": short.String()}}
	for _, nonsense := range []any{7, []any{map[string]any{"type": "Ready", "status": "False", "duration": "soon"}}, "Ready"} {
		p.edit(map[string]any{"unhealthyConditions": nonsense})
		p.wantDisabled()
	}
	p.keepsRequested("reboot", 5, 0)
	p.letWork()
	p.Never(t, "no other request", quiet, func(context.Context) error {
		if made, _ := p.requested("reboot"); made != 5 {
			return fmt.Errorf("%d were made", made)
		}
		return nil
	})
	p.edit(map[string]any{"unhealthyConditions": good})
	p.wantRequested("reboot", 10)
	p.wantMended(5)
}

func (p *pool) edit(spec map[string]any) {
	p.t.Helper()
	p.must("editing the health check", p.Patch(cluster.Context(p.t), p.check(), merge(map[string]any{"spec": spec})))
}

// definitionReinstalled: the remediator's kind is removed with its objects, and comes back.
func definitionReinstalled(p *pool) {
	p.StartFettle(p.t)
	p.fiveStand()
	p.set(func() { p.taking = true })
	ctx := cluster.Context(p.t)
	manifest := cluster.Manifest(p.t, "sandbox/crd/sandbox.fettle.io_rebootremediations.yaml")
	crd := manifest[0].DeepCopy()
	p.must("deleting the definition", p.Delete(ctx, crd))
	p.Eventually(p.t, "the definition is gone", func(ctx context.Context) error {
		if err := p.Get(ctx, keyOf(crd), crd.DeepCopy()); !apierrors.IsNotFound(err) {
			return fmt.Errorf("it is there (%w)", err)
		}
		return nil
	})
	p.wantDisabled()
	p.set(func() { p.taking = false })
	p.must("installing the definition", p.Create(ctx, manifest[0]))
	p.wantRequested("reboot", 10)
	p.letWork()
	p.wantMended(5)
}

// repairsDeleted: another client deletes all Repairs. Fettle finds the remediation objects without them, creates none
// twice, and deletes those of healthy nodes.
func repairsDeleted(p *pool) {
	p.StartFettle(p.t)
	p.fiveStand()
	p.holdUndo()
	p.recover(p.requestedNodes()[:2])
	p.wantLeaving("reboot", 2)
	p.forgetRepairs()
	p.letUndo()
	p.wantRequested("reboot", 7)
	p.letWork()
	p.wantMended(unlimited) // the limit is counted from Repairs
}

// forgetRepairs deletes all Repairs, as another client would.
func (p *pool) forgetRepairs() {
	p.t.Helper()
	p.set(func() { p.taking = true })
	defer p.set(func() { p.taking = false })
	there := map[string]bool{}
	p.mu.Lock()
	for uid := range p.entries {
		there[uid] = true
	}
	p.mu.Unlock()
	p.must("deleting the repairs", p.DeleteAllOf(cluster.Context(p.t), &v1alpha1.Repair{}, client.InNamespace("fettle-system")))
	p.Eventually(p.t, "the repairs are gone", func(context.Context) error {
		p.mu.Lock()
		defer p.mu.Unlock()
		for uid := range there {
			if !p.entries[uid].taken {
				return errors.New("not all are")
			}
		}
		return nil
	})
}

// objectsDeleted: another client deletes Fettle's remediation objects, twice. Fettle creates them again for nodes that
// are still unhealthy.
func objectsDeleted(p *pool) {
	p.StartFettle(p.t)
	p.fiveStand()
	first := p.requestedNodes()
	p.wantStopped(5)
	p.takeAway(first[:3]...)
	p.wantRequested("reboot", 8)
	p.wantStopped(5)
	p.takeAway(first[:1]...)
	p.wantRequested("reboot", 9)
	p.letWork()
	p.wantMended(5)
}

// wantStopped waits until the health check counts so many nodes with objects. Fettle can't miss an object that it has not
// seen.
func (p *pool) wantStopped(nodes int) {
	p.t.Helper()
	p.Eventually(p.t, "the health check lists the objects", func(ctx context.Context) error {
		var nhc medik8s.NodeHealthCheck
		if err := p.Get(ctx, keyOf(p.check()), &nhc); err != nil {
			return err
		}
		stopped := 0
		for _, n := range nhc.Status.UnhealthyNodes {
			stopped += len(n.Remediations)
		}
		if stopped != nodes {
			return fmt.Errorf("it tells of %d", stopped)
		}
		return nil
	})
}

// nodesRegisteredAgain: nodes are deleted during their remediation. One registers again healthy, one unhealthy, and one
// does not register again.
func nodesRegisteredAgain(p *pool) {
	p.StartFettle(p.t)
	p.fiveStand()
	nodes := p.requestedNodes()
	for i, name := range nodes[:3] {
		ctx := cluster.Context(p.t)
		p.must("deleting a node", p.Delete(ctx, object("v1", "Node", "", p.node(name))))
		if i == 2 {
			continue
		}
		n := object("v1", "Node", "", p.node(name))
		n.SetLabels(map[string]string{"pool": p.name})
		p.must("registering a node again", p.Create(ctx, n))
		status, since := corev1.ConditionTrue, time.Now()
		if i == 1 {
			status, since = corev1.ConditionFalse, since.Add(-time.Hour)
		}
		p.must("reporting", p.ready(ctx, name, status, since))
	}
	p.wantLeaving("reboot", 3)
	p.letWork()
	p.wantMended(5)
	if made, _ := p.requested("reboot"); made != 11 {
		p.t.Errorf("%d objects were made, want ten and another for the unhealthy namesake", made)
	}
}
