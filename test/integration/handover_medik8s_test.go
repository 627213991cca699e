package integration

import (
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fettle-io/fettle/api/medik8s/v1alpha1"
	"github.com/fettle-io/fettle/internal/writers"
	"github.com/fettle-io/fettle/test/cluster"
)

// The steps of docs/handover.md.
const (
	handoverRehearse = `{"metadata":{"annotations":{"fettle.io/dry-run":"true"}}}`
	handoverAct      = `{"metadata":{"annotations":{"fettle.io/dry-run":null}}}`
	handoverPause    = `{"spec":{"pauseRequests":["handover"]}}`
	handoverResume   = `{"spec":{"pauseRequests":null}}`
)

// TestHandoverMedik8s hands NodeHealthChecks over from medik8s' operator to Fettle and back, as docs/handover.md says.
// Then both act on the same health check. The test plays the operator.
func TestHandoverMedik8s(t *testing.T) {
	t.Parallel()
	c := cluster.Start(t, cluster.Options{Args: []string{noNodeController}})
	c.InstallFettleForNodes(t)
	from := newPool(t, c, "handover-from")
	beforeFettle := medik8sRemediates(from)
	c.StartFettle(t)
	// It goes on at once, since the operator acts meanwhile.
	t.Run("from", func(t *testing.T) {
		handoverFromMedik8s(&pool{&machineFixture{Cluster: c, t: t, namespace: from.namespace}}, beforeFettle)
	})
	beside := cluster.Beside(t)
	defer beside.Wait()
	for name, run := range map[string]func(*pool){
		"handover-to": handoverToMedik8s, "their-lease": leaseOfMedik8s, "handover-both": bothAct, "by-hand": statusEditedByHand,
	} {
		beside.Run(name, func(t *testing.T) {
			run(newPool(t, c, name))
		})
	}
}

// medik8sRemediates waits until medik8s' operator remediates a node. It sets the health check to dry run for Fettle,
// which does not run yet.
func medik8sRemediates(p *pool) *operator {
	p.nodes("a", "b", "c", "d", "e")
	p.template(rebooting, "reboot", false)
	p.healthCheck("maxUnhealthy: 60%", p.single(rebooting, "reboot"))
	op := p.startOperator()
	p.fails("a")
	p.wantObjects("a reboot")
	p.wantLease("a", medik8sHolder(p.namespace))
	p.change(p.own(), handoverRehearse)
	return op
}

func handoverFromMedik8s(p *pool, op *operator) {
	// 1. Fettle is in dry run.
	p.fails("b")
	p.wantObjects("a reboot", "b reboot")
	p.wantCondition(v1alpha1.RemediationAllowedCondition, metav1.ConditionTrue, "")
	p.wantLease("b", medik8sHolder(p.namespace))
	p.wantNodeRepairs()
	p.recovers("a", "b")
	p.wantObjects()
	p.wantLease("b", "")
	p.wantNoCondition(writers.Condition) // both are meant to write
	// 2. Both are paused. The operator has left the lease of a node behind.
	p.change(p.own(), handoverPause)
	op.reads() // before the pause it would release the lease
	p.leaseFrom("d", time.Now(), time.Hour)
	p.change(object("coordination.k8s.io/v1", "Lease", v1alpha1.LeaseNamespace, p.leaseOf("d").Name), `{"spec":{"holderIdentity":"`+medik8sHolder(p.namespace)+`"}}`)
	p.fails("c", "d")
	p.wantNodeStatus("3/5 healthy, Paused, unhealthy: c[] d[]")
	// 3. The operator is gone.
	op.stop()
	// 4. Fettle acts.
	p.change(p.own(), handoverAct)
	p.wantNodeStatus("3/5 healthy, Paused, unhealthy: c[] d[]")
	p.change(p.own(), handoverResume)
	p.wantObjects("c reboot")
	p.wantLease("c", holderOf(p.namespace))
	p.wantAnswer("explain node/"+p.nodeName("d"), "LeaseHeld ("+p.namespace+"): the lease of its node is held by "+medik8sHolder(p.namespace))
	p.giveLeaseBack("d")
	p.wantObjects("c reboot", "d reboot")
	p.recovers("c", "d")
	p.nothingIsLeft("c", "5/5")
	p.nothingIsLeft("d", "5/5")
	p.wantNodeRepairs("c Succeeded", "d Succeeded")
}

func handoverToMedik8s(p *pool) {
	p.nodes("a", "b", "c", "d")
	p.template(rebooting, "reboot", false)
	p.healthCheck("maxUnhealthy: 50%", p.single(rebooting, "reboot"))
	p.fails("a")
	p.wantObjects("a reboot")
	p.wantLease("a", holderOf(p.namespace))
	// 1. Fettle is paused, and finishes its running repairs.
	p.change(p.own(), handoverPause)
	p.fails("b")
	p.wantNodeStatus("2/4 healthy, Paused, unhealthy: a[reboot] b[]")
	p.recovers("a")
	p.wantObjects()
	p.wantNodeRepairs("a Succeeded")
	p.wantLease("a", "")
	// 2. Fettle is in dry run. 3. The operator is installed. 4. It acts.
	p.change(p.own(), handoverRehearse)
	op := p.startOperator()
	defer op.stop()
	p.change(p.own(), handoverResume)
	p.wantObjects("b reboot")
	p.wantLease("b", medik8sHolder(p.namespace))
	p.recovers("b")
	p.wantObjects()
	p.wantLease("b", "")
	p.wantNodeRepairs("a Succeeded")
}

// leaseOfMedik8s: a lease with the holder name of medik8s' operator is not Fettle's, even if the operator took it from
// an earlier version of Fettle. Fettle neither uses nor releases it.
func leaseOfMedik8s(p *pool) {
	p.nodes("a", "b", "c", "d")
	p.template(rebooting, "reboot", false)
	op := &operator{p: p}
	ctx := cluster.Context(p.t)
	p.Namespace(p.t, v1alpha1.LeaseNamespace)
	if held, err := op.takeLease(ctx, p.nodeName("a")); err != nil || !held {
		p.t.Fatalf("the operator has no lease of a: %t, %v", held, err)
	}
	p.healthCheck("maxUnhealthy: 100%", p.single(rebooting, "reboot"))
	p.fails("a", "b")
	p.wantObjects("b reboot")
	p.wantLease("b", holderOf(p.namespace))
	if held, err := op.takeLease(ctx, p.nodeName("b")); err != nil || held {
		p.t.Errorf("the operator takes Fettle's lease: %t, %v", held, err)
	}
	p.wantCheckEvent("RemediationSkipped")
	p.wantAnswer("explain node/"+p.nodeName("a"), "LeaseHeld ("+p.namespace+"): the lease of its node is held by "+medik8sHolder(p.namespace))
	p.keepsObjects("b reboot")
	if err := op.giveLeaseBack(ctx, p.nodeName("a")); err != nil {
		p.t.Fatalf("giving a lease back: %v", err)
	}
	p.wantObjects("a reboot", "b reboot")
	p.wantLease("a", holderOf(p.namespace))
}

// bothAct: Fettle reports the other writer, each node is remediated once, and Fettle goes on.
func bothAct(p *pool) {
	p.nodes("a", "b", "c", "d")
	p.template(rebooting, "reboot", false)
	p.healthCheck("maxUnhealthy: 100%", p.single(rebooting, "reboot"))
	p.wantNodeStatus("4/4 healthy, Enabled, unhealthy:")
	op := p.startOperator()
	defer op.stop()
	p.wantCondition(writers.Condition, metav1.ConditionFalse, writers.Reason)
	p.wantCheckEvent(writers.Reason)
	p.fails("a", "b")
	p.wantObjects("a reboot", "b reboot")
	p.keepsObjects("a reboot", "b reboot")
	for _, node := range []string{"a", "b"} {
		if owners := p.object(node + " reboot").GetOwnerReferences(); len(owners) == 0 {
			p.t.Errorf("the object of %s has no owner", node)
		}
	}
	p.recovers("a", "b")
	p.wantObjects()
	op.stop()
	p.fails("c")
	p.wantObjects("c reboot")
	p.wantLease("c", holderOf(p.namespace))
}

// statusEditedByHand: a user who edits a status once is no other controller. Fettle writes the status anew.
func statusEditedByHand(p *pool) {
	p.nodes("a", "b")
	p.template(rebooting, "reboot", false)
	p.healthCheck(p.single(rebooting, "reboot"))
	p.wantNodeStatus("2/2 healthy, Enabled, unhealthy:")
	p.patchStatus(p.own(), map[string]any{"healthyNodes": 0})
	p.wantNodeStatus("2/2 healthy, Enabled, unhealthy:")
	p.wantNoCondition(writers.Condition)
}

func (p *pool) wantNoCondition(kind string) {
	p.t.Helper()
	s, err := p.nodeStatus(cluster.Context(p.t), p.namespace)
	if err != nil {
		p.t.Fatal(err)
	}
	if c := meta.FindStatusCondition(s.Conditions, kind); c != nil {
		p.t.Errorf("the status says %s=%s: %s", c.Type, c.Status, c.Message)
	}
}

// medik8sHolder returns the name under which medik8s' operator holds leases for a health check.
func medik8sHolder(check string) string { return "NodeHealthCheck-" + check }
