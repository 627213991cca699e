package integration

import (
	"cmp"
	"context"
	"errors"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fettle-io/fettle/api/fettle/annotation"
	fettlev1alpha1 "github.com/fettle-io/fettle/api/fettle/v1alpha1"
	"github.com/fettle-io/fettle/api/medik8s/v1alpha1"
	"github.com/fettle-io/fettle/test/cluster"
)

// relapsesAreGivenUp: a node's remediations do not last, so Fettle gives up this node alone, until a user has
// remediation resumed. The health check has no back-off, so only its annotation sets a number.
func relapsesAreGivenUp(p *pool) {
	p.nodes("a", "b", "c")
	p.template(rebooting, "reboot", false)
	p.healthCheck("maxUnhealthy: 100%", p.single(rebooting, "reboot"))
	p.annotateCheck(`{"` + annotation.GiveUpAfter + `":"2"}`)
	for range 2 {
		p.fails("a")
		p.wantObjects("a reboot")
		p.recovers("a")
		p.wantObjects()
	}
	p.wantNodeRepairs("a Succeeded", "a Succeeded")
	p.fails("a")
	p.wantCondition(v1alpha1.RemediationAllowedCondition, metav1.ConditionTrue, "PoolGivenUp")
	p.wantAnswer("explain node/"+p.nodeName("a"), "PoolGivenUp ("+p.namespace+"): its last 2 repairs have not lasted an hour", annotation.ResumedAt)
	p.wantEvents("RemediationSkipped", "a-2") // it relates to the repair that did not last
	p.fails("b")
	p.wantObjects("b reboot") // Fettle has seen a in the same pass
	p.annotateCheck(`{"` + annotation.ResumedAt + `":"` + time.Now().UTC().Format(time.RFC3339) + `"}`)
	p.wantObjects("a reboot", "b reboot")
	p.wantCondition(v1alpha1.RemediationAllowedCondition, metav1.ConditionTrue, "Allowed")
}

// replacementsAreGivenUp: the replacements of a machine fail as often as the health check allows, so Fettle gives up
// their machine set. It still marks a machine of the set that nothing replaces. A user has the rest resumed.
func replacementsAreGivenUp(h *clusterFixture) {
	h.running("first")
	h.healthCheck("remediation: {triggerIf: {unhealthyLessThanOrEqualTo: 100%}}")
	h.changeCheck(`{"metadata":{"annotations":{"` + annotation.GiveUpAfter + `":"2","` + annotation.BackoffBase + `":"1s"}}}`)
	for _, names := range [][2]string{{"first", "second"}, {"second", "third"}} {
		h.fail(names[0])
		h.wantMarked(names[0], "UnhealthyNode")
		if err := h.Delete(cluster.Context(h.t), &clusterv1.Machine{ObjectMeta: h.meta(names[0])}); err != nil {
			h.t.Fatalf("deleting a machine: %v", err)
		}
		h.running(names[1])
	}
	h.wantRepairs("first Succeeded", "second Succeeded")
	h.fail("third")
	h.wantCheck("RemediationAllowed", "True/PoolGivenUp", "workers", "kubectl annotate", annotation.ResumedAt)
	h.wantEvent("third", "RemediationHeldPoolGivenUp")
	h.keepsUnmarked("third")
	h.changeCheck(`{"metadata":{"annotations":{"` + annotation.ResumedAt + `":"` + time.Now().UTC().Format(time.RFC3339) + `"}}}`)
	h.wantMarked("third", "UnhealthyNode")
	h.wantCheck("RemediationAllowed", "True/RemediationAllowed")
	h.management.Eventually(h.t, "the series begins anew", func(ctx context.Context) error {
		var list fettlev1alpha1.RepairList
		err := h.List(ctx, &list, client.InNamespace(h.namespace))
		for i := range list.Items {
			if r := &list.Items[i]; r.Spec.Target.Name == "third" && r.Spec.Retry == 0 {
				return nil
			}
		}
		return cmp.Or(err, errors.New("its repair goes on with the old one"))
	})
}
