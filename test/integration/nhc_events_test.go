package integration

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	fettlev1alpha1 "github.com/fettle-io/fettle/api/fettle/v1alpha1"
	"github.com/fettle-io/fettle/test/cluster"
)

// eventsOfEachStep: the second step of a repair has its own event, beside that of the first.
func eventsOfEachStep(p *pool) {
	p.nodes("a", "b", "c")
	p.template(rebooting, "reboot", false)
	p.template(reinstall, "install", true)
	p.healthCheck(p.steps("10m", rebooting, "reboot", reinstall, "install"))
	p.fails("a")
	p.wantObjects("a reboot")
	p.say("a reboot", "Processing=False", "Succeeded=False")
	p.wantObjects("a reboot", "a install")
	p.wantEvents("RemediationCreated", "a-1 spec.ladder[0]", "a-1 spec.ladder[1]")
	p.wantEvents("RemediationGivenUp", "a-1 spec.ladder[0]")
}

// eventsOfEachRepair: a failed remediator without a successor has an event, and so has each repair of a node that fails
// twice within minutes.
func eventsOfEachRepair(p *pool) {
	p.nodes("a", "b", "c")
	p.template(rebooting, "reboot", false)
	p.healthCheck(p.single(rebooting, "reboot"))
	p.fails("a")
	p.wantObjects("a reboot")
	p.say("a reboot", "Processing=False", "Succeeded=False")
	p.wantEvents("NoTemplateLeft", "a-1")
	p.keepsObjects("a reboot")
	p.recovers("a")
	p.nothingIsLeft("a", "3/3")
	p.fails("a")
	p.wantObjects("a reboot")
	p.wantEvents("RemediationCreated", "a-1 spec.ladder[0]", "a-2 spec.ladder[0]")
}

// wantEvents waits until the events of a reason about the pool's health check relate to these repairs. Each is a node,
// the number of its repair, and the step where the events name it. No event may stand for several.
func (p *pool) wantEvents(reason string, want ...string) {
	p.t.Helper()
	p.Eventually(p.t, "events "+reason, func(ctx context.Context) error {
		var list eventsv1.EventList
		if err := p.List(ctx, &list, client.InNamespace(corev1.NamespaceDefault)); err != nil {
			return err
		}
		var have []string
		for i := range list.Items {
			e := &list.Items[i]
			if e.Reason != reason || e.Regarding.Name != p.namespace {
				continue
			}
			if e.Series != nil || e.Related == nil || e.Related.Kind != "Repair" {
				return fmt.Errorf("event %q has series %+v and relates to %+v", e.Note, e.Series, e.Related)
			}
			have = append(have, p.repairText(e.Related))
		}
		slices.Sort(have)
		if !slices.Equal(have, want) {
			return fmt.Errorf("they relate to %q, want %q", have, want)
		}
		return nil
	})
}

// repairText names a repair by its node, its number and the field that a reference has.
func (p *pool) repairText(r *corev1.ObjectReference) string {
	var list fettlev1alpha1.RepairList
	if err := p.List(cluster.Context(p.t), &list); err != nil {
		p.t.Fatalf("listing repairs: %v", err)
	}
	for i := range list.Items {
		if o := &list.Items[i]; o.Name == r.Name && o.Namespace == r.Namespace {
			node := strings.TrimPrefix(o.Spec.Target.Name, p.namespace+"-")
			return strings.TrimSpace(node + o.Name[strings.LastIndex(o.Name, "-"):] + " " + r.FieldPath)
		}
	}
	return "no repair"
}
