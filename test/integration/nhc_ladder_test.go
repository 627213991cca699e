package integration

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fettle-io/fettle/api/medik8s/v1alpha1"
	"github.com/fettle-io/fettle/test/cluster"
)

// escalationOnFailure: Succeeded=False begins the next step at once. The first object stays, and both are withdrawn
// together (docs/reference/medik8s.md#remediating-a-node).
func escalationOnFailure(p *pool) {
	p.nodes("a", "b", "c")
	p.template(rebooting, "reboot", false)
	p.template(reinstall, "install", true)
	// The order counts, and not the place in the list (docs/reference/medik8s.md#writing-the-status).
	p.healthCheck("escalatingRemediations:",
		"- {order: 7, timeout: 10m, remediationTemplate: "+p.reference(reinstall, "install")+"}",
		"- {order: 3, timeout: 10m, remediationTemplate: "+p.reference(rebooting, "reboot")+"}")
	p.fails("a")
	p.wantObjects("a reboot")
	p.say("a reboot", "Processing=True", "Succeeded=Unknown")
	p.keepsObjects("a reboot")
	p.say("a reboot", "Processing=False", "Succeeded=False")
	p.wantObjects("a reboot", "a install")
	p.wantStopped("a reboot", true)
	p.wantStopped("a install", false)
	p.wantNodeStatus("2/3 healthy, Remediating, unhealthy: a[reboot install]")

	// There is no further step: the objects stay until the node is healthy.
	p.say("a install", "Processing=False", "Succeeded=False")
	p.wantCheckEvent("NoTemplateLeft")
	p.keepsObjects("a reboot", "a install")
	p.recovers("a")
	p.wantObjects()
	p.nothingIsLeft("a", "3/3")
	p.wantNodeRepairs("a Withdrawn") // no step has helped
}

// wantStopped waits until a remediator has the annotation that its time is over, or checks that it has not.
func (p *pool) wantStopped(text string, want bool) {
	p.t.Helper()
	p.Eventually(p.t, "annotation of "+text, func(context.Context) error {
		at, there := p.object(text).GetAnnotations()[v1alpha1.TimedOutAnnotation]
		if there != want {
			return fmt.Errorf("the annotation is there: %t", there)
		}
		if !there {
			return nil
		}
		_, err := time.Parse(time.RFC3339, at)
		return err
	})
}

// sameKindTwice: two templates of one kind, and then another, take their turns. No other node waits for that
// (docs/reference/medik8s.md#remediating-a-node, PR #301).
func sameKindTwice(p *pool) {
	p.nodes("a", "b", "c", "d", "e")
	p.template(reinstall, "first", true)
	p.template(reinstall, "second", true)
	p.template(rebooting, "third", false)
	p.healthCheck(p.steps("10m", reinstall, "first", reinstall, "second", rebooting, "third"))
	p.fails("a")
	p.wantObjects("a first")
	if name := p.object("a first").GetName(); !strings.HasPrefix(name, p.nodeName("a")+"-") {
		p.t.Errorf("an object of a kind that serves several templates is named %s", name)
	}
	p.say("a first", "Succeeded=False")
	p.wantObjects("a first", "a second")
	p.say("a second", "Succeeded=False")
	p.wantObjects("a first", "a second", "a third")
	p.wantStopped("a first", true)
	p.wantStopped("a second", true)
	p.wantNodeStatus("4/5 healthy, Remediating, unhealthy: a[first second third]")
	p.fails("b")
	p.wantObjects("a first", "a second", "a third", "b first")
	p.recovers("a", "b")
	p.wantObjects()
	p.nothingIsLeft("a", "5/5")
	p.nothingIsLeft("b", "5/5")
}

// escalationOnTimeout: when its time is over, a working remediator gets the annotation, and the next step begins
// (docs/reference/medik8s.md#remediating-a-node). A minute is the least that the API allows.
func escalationOnTimeout(p *pool) {
	const timeout = time.Minute
	p.nodes("a", "b", "c")
	p.template(rebooting, "reboot", false)
	p.template(reinstall, "install", true)
	p.healthCheck(p.steps(timeout.String(), rebooting, "reboot", reinstall, "install"))
	p.fails("a")
	p.wantObjects("a reboot")
	began := p.object("a reboot").GetCreationTimestamp()
	p.say("a reboot", "Processing=True", "Succeeded=Unknown")
	p.wantObjectsAfter(timeout, "a reboot", "a install")
	// The time counts from the decision, which may have been in the second before.
	p.createdBefore("a install", began.Add(timeout-time.Second))
	p.wantStopped("a reboot", true)
	p.Eventually(p.t, "the status tells when", func(ctx context.Context) error {
		s, err := p.nodeStatus(ctx, p.namespace)
		if err != nil {
			return err
		}
		for _, r := range s.UnhealthyNodes[0].Remediations {
			if (r.TimedOut != nil) != (r.TemplateName == p.templateName("reboot")) {
				return fmt.Errorf("it tells of %+v", s.UnhealthyNodes[0].Remediations)
			}
		}
		return nil
	})
	p.recovers("a")
	p.wantObjects()
	p.nothingIsLeft("a", "3/3")
}

// templateThatComesLate: the health check is disabled, with right counts, and goes on without help within seconds
// (docs/reference/medik8s.md#templates, docs/reference/medik8s.md#status).
func templateThatComesLate(p *pool) {
	p.nodes("a", "b", "c")
	p.healthCheck(p.single(rebooting, "reboot"))
	p.wantCondition(v1alpha1.DisabledCondition, metav1.ConditionTrue, v1alpha1.TemplateNotFoundReason)
	p.fails("a")
	p.wantNodeStatus("2/3 healthy, Disabled, unhealthy: a[]")
	p.wantCheckEvent("Disabled")
	p.keepsObjects()
	p.template(rebooting, "reboot", false)
	came := time.Now()
	p.wantObjects("a reboot")
	p.wantCondition(v1alpha1.DisabledCondition, metav1.ConditionFalse, v1alpha1.EnabledReason)
	if took := p.object("a reboot").GetCreationTimestamp().Sub(came); took > soon {
		p.t.Errorf("it went on only %s after the template had come", took)
	}
	for _, r := range p.Requests(p.t) {
		if r.Resource == "rebootremediationtemplates" && r.Namespace == p.namespace {
			p.t.Errorf("Fettle read the template instead of watching: %+v", r)
		}
	}

	// A running remediation outlives its template.
	if err := p.Delete(cluster.Context(p.t), object(remediators, rebooting+"Template", p.namespace, p.templateName("reboot"))); err != nil {
		p.t.Fatalf("deleting the template: %v", err)
	}
	p.wantCondition(v1alpha1.DisabledCondition, metav1.ConditionTrue, v1alpha1.TemplateNotFoundReason)
	p.keepsObjects("a reboot")
	if at, stopped := p.object("a reboot").GetAnnotations()[v1alpha1.TimedOutAnnotation]; stopped {
		p.t.Errorf("during the pause it was told to stop, at %s, and nothing followed", at)
	}
	p.recovers("a")
	p.wantObjects()
	p.wantNodeStatus("3/3 healthy, Disabled, unhealthy:")
}

// templateOfAnotherNamespace is not the template that the health check names.
func templateOfAnotherNamespace(p *pool) {
	p.nodes("a", "b", "c")
	p.template(rebooting, "reboot", false)
	p.healthCheck(strings.Replace(p.single(rebooting, "reboot"), "namespace: "+p.namespace, "namespace: default", 1))
	p.wantCondition(v1alpha1.DisabledCondition, metav1.ConditionTrue, v1alpha1.TemplateNotFoundReason)
	p.fails("a")
	p.wantNodeStatus("2/3 healthy, Disabled, unhealthy: a[]")
	p.keepsObjects()
	p.change(p.own(), `{"spec":{"remediationTemplate":{"namespace":"`+p.namespace+`"}}}`)
	p.wantObjects("a reboot")
}

// excludedNode: only the value true excludes a node, and it counts as unhealthy all the same
// (docs/reference/medik8s.md#labels-and-annotations, PR #407).
func excludedNode(p *pool) {
	p.nodes("a", "b", "c")
	p.template(rebooting, "reboot", false)
	p.label("a", `{"`+v1alpha1.ExcludeLabel+`":"true"}`)
	p.label("b", `{"`+v1alpha1.ExcludeLabel+`":""}`)
	p.healthCheck("maxUnhealthy: 100%", p.single(rebooting, "reboot"))
	p.fails("a", "b")
	p.wantObjects("b reboot")
	p.wantNodeStatus("1/3 healthy, Remediating, unhealthy: a[] b[reboot]")
	p.wantCheckEvent("InvalidNodeLabel")
	p.wantCheckEvent("RemediationSkipped")
	p.keepsObjects("b reboot")
	p.label("a", `{"`+v1alpha1.ExcludeLabel+`":null}`)
	p.wantObjects("a reboot", "b reboot")
}

// nodeUnderMaintenance: while another holder has its lease, Fettle leaves a node alone, and repairs others
// (docs/reference/medik8s.md#lease, PR #212).
func nodeUnderMaintenance(p *pool) {
	p.nodes("a", "b", "c")
	p.template(rebooting, "reboot", false)
	p.takeLease("a", "node-maintenance")
	p.healthCheck("maxUnhealthy: 100%", p.single(rebooting, "reboot"))
	p.fails("a", "b")
	p.wantObjects("b reboot")
	p.wantCheckEvent("RemediationSkipped")
	p.keepsObjects("b reboot")
	p.wantLease("a", "node-maintenance")
	p.giveLeaseBack("a")
	p.wantObjects("a reboot", "b reboot")
	p.wantLease("a", holderOf(p.namespace))
}

// lostLeaseDelaysNoOtherNode: another holder takes a lease during a remediation, and keeps it. Nothing changes for other
// nodes (docs/reference/medik8s.md#lease).
func lostLeaseDelaysNoOtherNode(p *pool) {
	p.nodes("a", "b", "c")
	p.template(rebooting, "reboot", false)
	p.healthCheck("maxUnhealthy: 100%", p.single(rebooting, "reboot"))
	p.fails("a")
	p.wantObjects("a reboot")
	p.wantLease("a", holderOf(p.namespace))
	p.takeLease("a", "node-maintenance")
	broken := p.fails("b")
	p.wantObjects("a reboot", "b reboot")
	if late := p.object("b reboot").GetCreationTimestamp().Sub(broken); late > soon {
		p.t.Errorf("the other node waited %s", late)
	}
	p.recovers("a", "b")
	p.wantObjects()
	p.wantLease("a", "node-maintenance")
	p.wantLease("b", "")
	p.wantNodeStatus("3/3 healthy, Enabled, unhealthy:")
}

// pauseHoldsOnlyWhatIsNew: during a pause, objects of healthy nodes are withdrawn, and the counts are right
// (docs/reference/medik8s.md#the-pass, docs/reference/medik8s.md#status, I12).
func pauseHoldsOnlyWhatIsNew(p *pool) {
	p.nodes("a", "b", "c", "d", "e")
	p.template(rebooting, "reboot", false)
	p.template(reinstall, "install", true)
	p.healthCheck(p.steps("10m", rebooting, "reboot", reinstall, "install"))
	p.fails("a")
	p.wantObjects("a reboot")
	p.change(p.own(), `{"spec":{"pauseRequests":["the storage is being upgraded"]}}`)
	p.wantNodeStatus("4/5 healthy, Paused, unhealthy: a[reboot]")
	p.fails("b")
	p.wantNodeStatus("3/5 healthy, Paused, unhealthy: a[reboot] b[]")
	p.wantCheckEvent("RemediationSkipped")
	p.say("a reboot", "Succeeded=False")
	p.keepsObjects("a reboot")
	p.recovers("a")
	p.wantObjects()
	p.wantNodeStatus("4/5 healthy, Paused, unhealthy: b[]")
	p.wantLease("a", "")
	p.change(p.own(), `{"spec":{"pauseRequests":[]}}`)
	p.wantObjects("b reboot")
}

// editDuringRemediation is refused. The refusal rests on the status, so an edit may still pass. Then running steps
// continue unchanged, and later steps follow the edit (docs/reference/medik8s.md#spec,
// docs/reference/medik8s.md#known-issues).
func editDuringRemediation(p *pool) {
	p.nodes("a", "b", "c")
	p.template(rebooting, "reboot", false)
	p.template(reinstall, "install", true)
	p.healthCheck("maxUnhealthy: 100%", p.single(rebooting, "reboot"))
	p.fails("a")
	p.wantObjects("a reboot")
	p.wantNodeStatus("2/3 healthy, Remediating, unhealthy: a[reboot]")
	edit := fmt.Sprintf(`{"spec":{"remediationTemplate":{"apiVersion":%q,"kind":%q,"name":%q,"namespace":null}}}`,
		remediators, reinstall+"Template", p.templateName("install"))
	p.isRefused("remediationTemplate can't be changed while", p.patch(p.own(), edit))
	p.Eventually(p.t, "the edit gets past a status that is emptied", func(context.Context) error {
		p.patchStatus(p.own(), map[string]any{"unhealthyNodes": nil})
		return p.patch(p.own(), edit)
	})
	p.fails("b")
	p.wantObjects("a reboot", "b install")
	p.keepsObjects("a reboot", "b install")
	p.wantNodeStatus("1/3 healthy, Remediating, unhealthy: a[reboot] b[install]")
	p.recovers("a", "b")
	p.wantObjects()
	p.nothingIsLeft("a", "3/3")
	p.nothingIsLeft("b", "3/3")
}

// deletionDuringRemediation is refused, and can be forced. Then Fettle withdraws the remediation, and releases its
// lease (docs/reference/medik8s.md#spec, docs/reference/medik8s.md#deleted-nodes).
func deletionDuringRemediation(p *pool) {
	p.nodes("a", "b", "c")
	p.template(rebooting, "reboot", false)
	p.healthCheck(p.single(rebooting, "reboot"))
	p.fails("a")
	p.wantObjects("a reboot")
	p.keep("a reboot")
	p.wantLease("a", holderOf(p.namespace))
	p.wantNodeStatus("2/3 healthy, Remediating, unhealthy: a[reboot]")
	p.isRefused("can't be deleted while node check-gone-a is under remediation", p.Delete(cluster.Context(p.t), p.own()))
	p.keepsObjects("a reboot")
	p.annotateCheck(`{"fettle.io/force-delete":"true"}`)
	p.removeCheck(p.namespace)
	p.wantObjects("-a reboot")
	p.letGo("-a reboot")
	p.wantObjects()
	p.wantLease("a", "")
	p.Eventually(p.t, "the repair has ended", func(ctx context.Context) error {
		repairs, err := p.repairsOfNodes(ctx)
		if err == nil && slices.Contains(repairs, "a Running") {
			err = errors.New("it has not")
		}
		return err
	})
}
