package integration

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/fettle-io/fettle/api/medik8s/v1alpha1"
	"github.com/fettle-io/fettle/test/cluster"
)

// TestRequestsLeftBehind: the objects of a repair whose node is gone block no other repair, and Fettle reports them.
// The tests play remediators that keep a finalizer, as fence agents do once the node is gone.
func TestRequestsLeftBehind(t *testing.T) {
	t.Parallel()
	c := cluster.Start(t, cluster.Options{Args: []string{noNodeController}})
	c.InstallFettleForNodes(t)
	c.StartFettle(t)
	beside := cluster.Beside(t)
	defer beside.Wait()
	for name, run := range map[string]func(*pool){
		"replaced":  replacedBesideAStuckObject,
		"not-done":  replacementThatFails,
		"booting":   replacementThatBoots,
		"come-back": nodeOfAnEarlierLife,
	} {
		beside.Run(name, func(t *testing.T) {
			run(newPool(t, c, "behind-"+name))
		})
	}
}

// replacing is the condition of a remediator that has a node replaced.
var replacing = []string{"Processing=True", "Succeeded=Unknown", "PermanentNodeDeletionExpected=True"}

// secondStep brings node a to the second of two steps, whose remediator has the node replaced. The object of the first
// has a finalizer.
func (p *pool) secondStep() {
	p.t.Helper()
	p.nodes("a", "b", "c", "d", "e")
	p.template(rebooting, "fence", true)
	p.template(reinstall, "replace", true)
	p.healthCheck("minHealthy: 80%", p.steps("10m", rebooting, "fence", reinstall, "replace"))
	p.fails("a")
	p.wantObjects("a fence")
	p.keep("a fence")
	p.say("a fence", "Processing=False", "Succeeded=False")
	p.wantObjects("a fence", "a replace")
	p.say("a replace", replacing...)
	p.keepsObjects("a fence", "a replace") // by then Fettle has seen the remediator's condition
}

// replacedBesideAStuckObject: the object of the first step outlives its node, and the next node is remediated all the
// same.
func replacedBesideAStuckObject(p *pool) {
	p.secondStep()
	p.removeNode("a")
	p.nodes("f")
	p.say("a replace", "Processing=False", "Succeeded=True", "PermanentNodeDeletionExpected=True")
	p.wantObjects("-a fence")
	p.wantNodeRepairs("a Succeeded")
	p.wantNodeStatus("5/5 healthy, Remediating, unhealthy: a[fence]")
	p.fails("b")
	p.wantObjects("-a fence", "b fence")
	p.wantNodeRepairs("a Succeeded", "b Running")
	p.letGo("-a fence")
	p.wantNodeStatus("4/5 healthy, Remediating, unhealthy: b[fence]")
}

// replacementThatFails: a remediator that reports that it could not replace a node has nothing left to do.
func replacementThatFails(p *pool) {
	p.secondStep()
	p.removeNode("a")
	p.nodes("f")
	p.say("a replace", "Processing=False", "Succeeded=False", "PermanentNodeDeletionExpected=True")
	p.wantObjects("-a fence")
	p.wantNodeRepairs("a Withdrawn")
	p.fails("b")
	p.wantObjects("-a fence", "b fence")
}

// replacementThatBoots: until its replacement has come, a node that is gone is listed and counts. No repair begins
// beyond the limit, and the health check says why.
func replacementThatBoots(p *pool) {
	p.secondStep()
	p.removeNode("a")
	p.wantObjects("-a fence", "a replace")
	p.wantNodeStatus("4/4 healthy, Remediating, unhealthy: a[fence replace]")
	p.isRefused("while a node is under remediation", p.patch(p.own(), `{"spec":{"escalatingRemediations":null}}`))
	p.wantAllowed("is gone, and its repair goes on")
	p.fails("b")
	p.wantCondition(v1alpha1.RemediationAllowedCondition, "False", "TooManyUnhealthy")
	p.wantAllowed(p.nodeName("a") + " is gone, and its repair goes on")
	p.wantNodeRepairs("a Running")
	p.keepsObjects("-a fence", "a replace")

	p.nodes("f")
	p.wantObjects("-a fence", "a replace", "b fence")
	p.say("a replace", "Processing=False", "Succeeded=True", "PermanentNodeDeletionExpected=True")
	p.wantNodeRepairs("a Succeeded", "b Running")
}

// wantAllowed waits until the condition RemediationAllowed has a text.
func (p *pool) wantAllowed(text string) {
	p.t.Helper()
	p.Eventually(p.t, "the condition says "+text, func(ctx context.Context) error {
		s, err := p.nodeStatus(ctx, p.namespace)
		if err != nil {
			return err
		}
		for _, c := range s.Conditions {
			if c.Type == v1alpha1.RemediationAllowedCondition && strings.Contains(c.Message, text) {
				return nil
			}
		}
		return fmt.Errorf("conditions are %+v", s.Conditions)
	})
}

// nodeOfAnEarlierLife: a node that registers again under its name has nothing to do with the remediation of the earlier
// node.
func nodeOfAnEarlierLife(p *pool) {
	p.secondStep()
	p.removeNode("a")
	p.say("a replace", "Processing=False", "Succeeded=False", "PermanentNodeDeletionExpected=True")
	p.wantObjects("-a fence")
	former := p.object("-a fence").GetUID()
	p.nodes("a")
	p.wantNodeStatus("5/5 healthy, Remediating, unhealthy: a[fence]")
	p.fails("a")
	p.wantObjects("-a fence", "a fence")
	if o := p.object("a fence"); o.GetUID() == former || o.GetDeletionTimestamp() != nil {
		p.t.Error("the object of the earlier node was taken for this one's")
	}
	p.keepsObjects("-a fence", "a fence")
	p.wantNodeRepairs("a Running", "a Withdrawn")
	p.recovers("a")
	p.wantObjects("-a fence")
	p.wantNodeRepairs("a Succeeded", "a Withdrawn")
	p.Eventually(p.t, "its entry is that of the object which is left", func(ctx context.Context) error {
		s, err := p.nodeStatus(ctx, p.namespace)
		if err == nil && (len(s.UnhealthyNodes) != 1 || len(s.UnhealthyNodes[0].Remediations) != 1 || s.UnhealthyNodes[0].Remediations[0].Resource.UID != former) {
			err = errors.New(p.statusText(s))
		}
		return err
	})
}
