package integration

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fettle-io/fettle/api/fettle/annotation"
	"github.com/fettle-io/fettle/api/medik8s/v1alpha1"
	"github.com/fettle-io/fettle/test/cluster"
)

// soon is the longest time, on a busy machine, within which immediate effects must show.
const soon = 30 * time.Second

// TestNodeHealthCheck runs the cases beside each other on one cluster without a Machine API, a pool of nodes for each.
// The tests play the remediators. Sections are those of the reference of medik8s.
func TestNodeHealthCheck(t *testing.T) {
	t.Parallel()
	c := cluster.Start(t, cluster.Options{Args: []string{noNodeController}})
	c.InstallFettleForNodes(t)
	c.StartFettle(t)
	cases := map[string]func(*pool){
		"repair":          nodeIsRemediated,
		"seed":            manifestOfTheSeed,
		"percent":         halfOfTheNodesAtOnce,
		"above":           maxUnhealthyAboveThePool,
		"finalizer":       remediatorThatTidiesUp,
		"flap":            flapDuringTheHealthyDelay,
		"manual":          confirmedByAPerson,
		"storm":           stormEndsWhenAllRecover,
		"cooldown":        cooldownAfterAStorm,
		"running":         shortCircuitHoldsOnlyWhatIsNew,
		"relabelled":      nodeLeavesTheSelector,
		"node-gone":       nodeIsDeleted,
		"held-gone":       nodeIsDeletedWhileHeld,
		"permanent":       nodeIsDeletedByItsRemediator,
		"refused":         refusedObjectBlocksNoOtherNode,
		"escalation":      escalationOnFailure,
		"same-kind":       sameKindTwice,
		"timeout":         escalationOnTimeout,
		"no-template":     templateThatComesLate,
		"no-remedy":       remedyWithoutTemplate,
		"wrong-namespace": templateOfAnotherNamespace,
		"excluded":        excludedNode,
		"maintenance":     nodeUnderMaintenance,
		"lost-lease":      lostLeaseDelaysNoOtherNode,
		"pause":           pauseHoldsOnlyWhatIsNew,
		"edited":          editDuringRemediation,
		"check-gone":      deletionDuringRemediation,
		"backoff":         backoffOfANode,
		"overlap":         twoChecksOfOneNode,
		"control-plane":   controlPlaneOneAtATime,
		"object-gone":     objectThatAUserDeletes,
		"two-steps-told":  eventsOfEachStep,
		"told-twice":      eventsOfEachRepair,
		"future-lease":    leaseRenewedInTheFuture,
		"relapse":         failsAsItIsWithdrawn,
		"only-step-fails": onlyStepFails,
		"stuck-at-last":   stuckAfterItsLastStep,
		"given-up":        relapsesAreGivenUp,
		"criteria":        criteriaOfANode,
	}
	beside := cluster.Beside(t)
	defer beside.Wait()
	for name, run := range cases {
		beside.Run(name, func(t *testing.T) {
			run(newPool(t, c, name))
		})
	}
}

// remedyWithoutTemplate: the status names the remediators of the cluster, and the line to add. With it the node is
// remediated.
func remedyWithoutTemplate(p *pool) {
	p.nodes("a", "b", "c")
	p.template(rebooting, "reboot", false)
	p.healthCheck()
	p.fails("a")
	p.wantNodeStatus("2/3 healthy, Disabled, unhealthy: a[]")
	p.wantCondition(v1alpha1.DisabledCondition, metav1.ConditionTrue, v1alpha1.InvalidSpecReason)
	p.wantReason("are both missing; give one of them", "this cluster has remediators, so add one of these to the spec",
		"remediationTemplate: {apiVersion: sandbox.fettle.io/v1alpha1, kind: RebootRemediationTemplate, namespace: NAMESPACE, name: NAME}",
		"remediationTemplate: {apiVersion: sandbox.fettle.io/v1alpha1, kind: ReprovisionRemediationTemplate, name: NAME}",
		"kubectl get rebootremediationtemplates.sandbox.fettle.io -A")
	p.change(p.own(), `{"spec":{"remediationTemplate":{"apiVersion":"sandbox.fettle.io/v1alpha1","kind":"RebootRemediationTemplate","namespace":"no-remedy","name":"no-remedy-reboot"}}}`)
	p.wantObjects("a reboot")
}

// wantReason waits until the reason in the status has all of the words.
func (p *pool) wantReason(words ...string) {
	p.t.Helper()
	p.Eventually(p.t, "reason in the status", func(ctx context.Context) error {
		s, err := p.nodeStatus(ctx, p.namespace)
		for _, w := range words {
			if err == nil && !strings.Contains(s.Reason, w) {
				err = fmt.Errorf("it does not say %q: %s", w, s.Reason)
			}
		}
		return err
	})
}

// nodeIsRemediated follows one remediation from its deadline to its end (docs/reference/medik8s.md#status,
// docs/reference/medik8s.md#events, docs/reference/medik8s.md#labels-and-annotations,
// docs/reference/medik8s.md#remediation-objects, docs/reference/medik8s.md#remediating-a-node,
// docs/reference/medik8s.md#lease).
func nodeIsRemediated(p *pool) {
	p.nodes("a", "b", "c", "d")
	p.template(rebooting, "reboot", false)
	p.healthCheck(p.single(rebooting, "reboot"))
	p.wantNodeStatus("4/4 healthy, Enabled, unhealthy:")
	p.wantCondition(v1alpha1.DisabledCondition, metav1.ConditionFalse, v1alpha1.EnabledReason)

	broken := p.fails("a")
	p.wantObjects("a reboot")
	p.createdBefore("a reboot", broken.Add(2*time.Second))
	o := p.object("a reboot")
	if o.GetName() != p.nodeName("a") || o.GetNamespace() != p.namespace || o.GetKind() != rebooting {
		p.t.Errorf("it is %s %s/%s", o.GetKind(), o.GetNamespace(), o.GetName())
	}
	if spec := fmt.Sprint(o.Object["spec"]); spec != "map[outcome:Ignore takes:7s]" {
		p.t.Errorf("its spec is not that of the template but %s", spec)
	}
	if o.GetLabels()[v1alpha1.PartOfLabel] != v1alpha1.PartOf {
		p.t.Errorf("its labels are %v", o.GetLabels())
	}
	if _, there := o.GetLabels()[v1alpha1.ControlPlaneLabel]; there {
		p.t.Error("it says that a worker belongs to the control plane")
	}
	owners := map[string]string{}
	for _, owner := range o.GetOwnerReferences() {
		owners[owner.Kind] = owner.Name
		if owner.UID == "" || (owner.Controller != nil && *owner.Controller) {
			p.t.Errorf("its owner is %+v", owner)
		}
	}
	if owners["Node"] != p.nodeName("a") || owners["NodeHealthCheck"] != p.namespace {
		p.t.Errorf("its owners are %v", owners)
	}
	p.wantLease("a", holderOf(p.namespace))
	p.wantNodeStatus("3/4 healthy, Remediating, unhealthy: a[reboot]")
	s, err := p.nodeStatus(cluster.Context(p.t), p.namespace)
	if err != nil {
		p.t.Fatal(err)
	}
	entry := s.UnhealthyNodes[0].Remediations[0]
	if entry.Resource.UID != o.GetUID() || entry.Resource.Name != o.GetName() || !entry.Started.Time.Equal(o.GetCreationTimestamp().Time) || entry.TimedOut != nil {
		p.t.Errorf("the status tells of %+v", entry)
	}
	if _, there := s.InFlightRemediations[p.nodeName("a")]; !there || len(s.InFlightRemediations) != 1 {
		p.t.Errorf("in flight are %v", s.InFlightRemediations)
	}
	p.wantCheckEvent("DetectedUnhealthy")
	p.wantCheckEvent("RemediationCreated")

	p.recovers("a")
	p.wantObjects()
	p.nothingIsLeft("a", "4/4")
	p.wantNodeRepairs("a Succeeded")
	p.wantCheckEvent("RemediationRemoved")
}

// manifestOfTheSeed: the worker selector, 49 % and 300 s are the defaults of
// docs/reference/proposals.md#node-health-checks, whose manifest sets nothing else.
func manifestOfTheSeed(p *pool) {
	for _, name := range []string{"a", "b", "c"} {
		p.labelledNode(name, map[string]string{"node-role.kubernetes.io/worker": ""})
	}
	p.template(rebooting, "reboot", false)
	p.Apply(p.t, "apiVersion: remediation.medik8s.io/v1alpha1\nkind: NodeHealthCheck\nmetadata: {name: "+p.namespace+"}\nspec:\n"+indent(p.single(rebooting, "reboot")))
	p.wantNodeStatus("3/3 healthy, Enabled, unhealthy:")
	since := time.Now().Add(-280 * time.Second)
	p.setCondition("a", "Ready", corev1.ConditionUnknown, since)
	p.wantNodeStatus("2/3 healthy, Enabled, unhealthy:")
	p.keepsObjects()
	p.wantObjects("a reboot")
	p.createdBefore("a reboot", since.Add(300*time.Second))
}

// halfOfTheNodesAtOnce: 49 % of four is one, rounded down (docs/reference/proposals.md#where-the-sources-disagree).
func halfOfTheNodesAtOnce(p *pool) {
	p.nodes("a", "b", "c", "d")
	p.template(rebooting, "reboot", false)
	p.healthCheck(p.single(rebooting, "reboot"))
	p.wantNodeStatus("4/4 healthy, Enabled, unhealthy:")
	p.fails("a", "b")
	p.wantCondition(v1alpha1.RemediationAllowedCondition, metav1.ConditionFalse, "TooManyUnhealthy")
	p.wantCheckEvent("RemediationSkipped")
	p.wantNodeStatus("2/4 healthy, Enabled, unhealthy: a[] b[]")
	p.keepsObjects()
	p.recovers("b")
	p.wantObjects("a reboot")
}

// maxUnhealthyAboveThePool is no error (docs/reference/medik8s.md#limits).
func maxUnhealthyAboveThePool(p *pool) {
	p.nodes("a", "b")
	p.template(rebooting, "reboot", false)
	p.healthCheck("maxUnhealthy: 10", p.single(rebooting, "reboot"))
	p.fails("a", "b")
	p.wantObjects("a reboot", "b reboot")
	p.wantNodeStatus("0/2 healthy, Remediating, unhealthy: a[reboot] b[reboot]")
}

// remediatorThatTidiesUp: the node is not healthy until the object is really gone (docs/reference/medik8s.md#limits, PR
// #238).
func remediatorThatTidiesUp(p *pool) {
	p.nodes("a", "b", "c")
	p.template(rebooting, "reboot", false)
	p.healthCheck(p.single(rebooting, "reboot"))
	p.fails("a")
	p.wantObjects("a reboot")
	p.keep("a reboot")
	p.recovers("a")
	p.wantObjects("-a reboot")
	p.wantNodeStatus("2/3 healthy, Remediating, unhealthy: a[reboot]")
	p.wantLease("a", holderOf(p.namespace))
	p.letGo("-a reboot")
	p.wantObjects()
	p.nothingIsLeft("a", "3/3")
}

// flapDuringTheHealthyDelay: the delay begins anew with every recovery (docs/reference/medik8s.md#healthy-delay).
func flapDuringTheHealthyDelay(p *pool) {
	const delay = 6 * time.Second
	p.nodes("a", "b", "c")
	p.template(rebooting, "reboot", false)
	p.healthCheck("healthyDelay: "+delay.String(), p.single(rebooting, "reboot"))
	p.fails("a")
	p.wantObjects("a reboot")
	p.recovers("a")
	p.wantHealthySince("a", true)
	p.fails("a")
	p.wantHealthySince("a", false)
	again := p.recovers("a")
	p.wantHealthySince("a", true)
	p.wantObjects()
	if stood := time.Since(again); stood < delay {
		p.t.Errorf("the object was gone %s after the second recovery, and the delay is %s", stood, delay)
	}
	p.nothingIsLeft("a", "3/3")
}

// wantHealthySince waits until the status says since when a node is healthy again, or no longer says it.
func (p *pool) wantHealthySince(node string, want bool) {
	p.t.Helper()
	p.Eventually(p.t, "conditionsHealthyTimestamp of "+node, func(ctx context.Context) error {
		s, err := p.nodeStatus(ctx, p.namespace)
		if err != nil {
			return err
		}
		for _, n := range s.UnhealthyNodes {
			if n.Name == p.nodeName(node) && (n.ConditionsHealthyTimestamp != nil) == want {
				return nil
			}
		}
		return fmt.Errorf("unhealthy nodes are %+v", s.UnhealthyNodes)
	})
}

// confirmedByAPerson: a negative delay lasts until a user confirms that the node is healthy. Each confirmation counts
// once (docs/reference/medik8s.md#healthy-delay).
func confirmedByAPerson(p *pool) {
	p.nodes("a", "b", "c")
	p.template(rebooting, "reboot", false)
	p.healthCheck("healthyDelay: -1s", p.single(rebooting, "reboot"))
	p.fails("a")
	p.wantObjects("a reboot")
	p.recovers("a")
	p.wantHealthySince("a", true)
	p.keepsObjects("a reboot")
	node := object("v1", "Node", "", p.nodeName("a"))
	p.annotate(node, v1alpha1.ConfirmedHealthyAnnotation, "")
	p.wantObjects()
	p.nothingIsLeft("a", "3/3")
	p.Eventually(p.t, "the annotation is used up", func(ctx context.Context) error {
		if err := p.Get(ctx, types.NamespacedName{Name: node.GetName()}, node); err != nil {
			return err
		}
		if _, there := node.GetAnnotations()[v1alpha1.ConfirmedHealthyAnnotation]; there {
			return errors.New("it is still there")
		}
		return nil
	})
}

// stormEndsWhenAllRecover: a storm ends once every node is healthy, and does not delay the repair of the next failure
// (docs/reference/medik8s.md#storm-cooldown).
func stormEndsWhenAllRecover(p *pool) {
	p.nodes("a", "b", "c", "d")
	p.template(rebooting, "reboot", false)
	p.healthCheck("maxUnhealthy: 1", "stormCooldownDuration: 1m", p.single(rebooting, "reboot"))
	p.wantNodeStatus("4/4 healthy, Enabled, unhealthy:")
	p.fails("a", "b")
	p.wantCondition(v1alpha1.StormActiveCondition, metav1.ConditionTrue, v1alpha1.HealthyNodeThresholdReason)
	p.keepsObjects()
	p.recovers("a", "b")
	p.wantCondition(v1alpha1.StormActiveCondition, metav1.ConditionFalse, "")
	p.wantCondition(v1alpha1.StormCooldownCondition, metav1.ConditionFalse, "")
	p.wantNodeStatus("4/4 healthy, Enabled, unhealthy:")
	broken := p.fails("c")
	p.wantObjects("c reboot")
	if late := p.object("c reboot").GetCreationTimestamp().Sub(broken); late > soon {
		p.t.Errorf("its remediation came %s after it failed, though the storm was over: it waited for a cooldown once more", late)
	}
}

// cooldownAfterAStorm: a node that has not recovered by the end of the cooldown is remediated then, and not before
// (docs/reference/medik8s.md#storm-cooldown).
func cooldownAfterAStorm(p *pool) {
	const cooldown = 6 * time.Second
	p.nodes("a", "b", "c", "d")
	p.template(rebooting, "reboot", false)
	p.healthCheck("maxUnhealthy: 1", "stormCooldownDuration: "+cooldown.String(), p.single(rebooting, "reboot"))
	p.wantNodeStatus("4/4 healthy, Enabled, unhealthy:")
	p.fails("a", "b")
	p.wantCondition(v1alpha1.StormActiveCondition, metav1.ConditionTrue, v1alpha1.HealthyNodeThresholdReason)
	opened := p.recovers("a")
	p.wantCondition(v1alpha1.StormCooldownCondition, metav1.ConditionTrue, v1alpha1.HealthyNodeThresholdReason)
	p.wantCheckEvent("StormRecoveryCooldownStarted")
	p.wantObjects("b reboot")
	p.createdBefore("b reboot", opened.Add(cooldown))
	p.wantCondition(v1alpha1.StormActiveCondition, metav1.ConditionFalse, "")
	p.wantCondition(v1alpha1.StormCooldownCondition, metav1.ConditionFalse, "")
	p.wantCheckEvent("StormRecoveryEnded")
}

// shortCircuitHoldsOnlyWhatIsNew: running remediations escalate and are withdrawn (docs/reference/medik8s.md#the-pass,
// I12).
func shortCircuitHoldsOnlyWhatIsNew(p *pool) {
	p.nodes("a", "b", "c", "d")
	p.template(rebooting, "reboot", false)
	p.template(reinstall, "install", true)
	p.healthCheck("maxUnhealthy: 1", p.steps("10m", rebooting, "reboot", reinstall, "install"))
	p.fails("a")
	p.wantObjects("a reboot")
	p.fails("b")
	p.wantCondition(v1alpha1.RemediationAllowedCondition, metav1.ConditionFalse, "TooManyUnhealthy")
	p.say("a reboot", "Processing=False", "Succeeded=False")
	p.wantObjects("a reboot", "a install")
	p.keepsObjects("a reboot", "a install")
	p.recovers("a")
	p.wantObjects("b reboot")
	p.recovers("b")
	p.wantObjects()
	p.nothingIsLeft("a", "4/4")
	p.nothingIsLeft("b", "4/4")
}

// nodeLeavesTheSelector: its remediation is withdrawn completely (docs/reference/medik8s.md#deleted-nodes,
// docs/reference/medik8s.md#triggers).
func nodeLeavesTheSelector(p *pool) {
	p.nodes("a", "b", "c")
	p.template(rebooting, "reboot", false)
	p.healthCheck(p.single(rebooting, "reboot"))
	p.fails("a")
	p.wantObjects("a reboot")
	p.label("a", `{"pool":"another"}`)
	p.wantObjects()
	p.nothingIsLeft("a", "2/2")
}

// nodeIsDeleted: its remediation is withdrawn, and the health check can be edited and deleted
// (docs/reference/medik8s.md#deleted-nodes, issue #356).
func nodeIsDeleted(p *pool) {
	p.nodes("a", "b", "c")
	p.template(rebooting, "reboot", false)
	p.template(rebooting, "other", false)
	p.healthCheck(p.single(rebooting, "reboot"))
	p.fails("a")
	p.wantObjects("a reboot")
	p.removeNode("a")
	p.wantObjects()
	p.nothingIsLeft("a", "2/2")
	p.change(p.own(), `{"spec":{"remediationTemplate":{"name":"`+p.templateName("other")+`"}}}`)
	p.wantNodeStatus("2/2 healthy, Enabled, unhealthy:")
	p.removeCheck(p.namespace)
}

// nodeIsDeletedWhileHeld: an unhealthy node without a remediation leaves the status too
// (docs/reference/medik8s.md#deleted-nodes).
func nodeIsDeletedWhileHeld(p *pool) {
	p.nodes("a", "b", "c")
	p.template(rebooting, "reboot", false)
	p.healthCheck("maxUnhealthy: 1", p.single(rebooting, "reboot"))
	p.wantNodeStatus("3/3 healthy, Enabled, unhealthy:")
	p.fails("a", "b")
	p.wantNodeStatus("1/3 healthy, Enabled, unhealthy: a[] b[]")
	p.removeNode("a")
	p.wantObjects("b reboot")
	p.wantNodeStatus("1/2 healthy, Remediating, unhealthy: b[reboot]")
}

// nodeIsDeletedByItsRemediator: the object stays until the node has registered again and is healthy, or the remediator
// reports success (docs/reference/medik8s.md#the-pass, docs/reference/medik8s.md#deleted-nodes,
// docs/reference/medik8s.md#contract-of-remediators).
func nodeIsDeletedByItsRemediator(p *pool) {
	p.nodes("a", "b", "c")
	p.template(reinstall, "install", true)
	p.healthCheck(p.single(reinstall, "install"))
	p.fails("a")
	p.wantObjects("a install")
	p.say("a install", "Processing=True", "Succeeded=Unknown", "PermanentNodeDeletionExpected=True")
	p.removeNode("a")
	p.keepsObjects("a install")
	p.wantNodeStatus("2/2 healthy, Remediating, unhealthy: a[install]")
	p.nodes("a")
	p.wantObjects()
	p.nothingIsLeft("a", "3/3")
	p.wantNodeRepairs("a Succeeded")
}

// refusedObjectBlocksNoOtherNode: the object of one node can't be created, and other nodes get theirs
// (docs/reference/medik8s.md#the-pass, docs/reference/medik8s.md#remediating-a-node).
func refusedObjectBlocksNoOtherNode(p *pool) {
	p.nodes("a", "b", "c", "d", "e")
	p.template(rebooting, "reboot", false)
	p.Apply(p.t, noRebootOf(p.nodeName("a")))
	p.Eventually(p.t, "no reboot of a is accepted", func(ctx context.Context) error {
		probe := object(remediators, rebooting, p.namespace, p.nodeName("a"))
		if err := p.Create(ctx, probe); err == nil {
			return errors.Join(errors.New("one was"), p.Delete(ctx, probe))
		}
		return nil
	})
	p.healthCheck(p.single(rebooting, "reboot"))
	p.setCondition("a", "Ready", corev1.ConditionFalse, time.Now().Add(-time.Hour)) // the first in every order
	p.wantNodeRepairs("a Running")
	p.fails("b")
	p.wantObjects("b reboot")
	p.wantNodeStatus("3/5 healthy, Remediating, unhealthy: a[] b[reboot]")
	for _, kind := range []string{"ValidatingAdmissionPolicyBinding", "ValidatingAdmissionPolicy"} {
		if err := p.Delete(cluster.Context(p.t), object("admissionregistration.k8s.io/v1", kind, "", "no-reboot-of-"+p.nodeName("a"))); err != nil {
			p.t.Fatalf("deleting the %s: %v", kind, err)
		}
	}
	p.wantObjects("a reboot", "b reboot")
	p.wantNodeRepairs("a Running", "b Running")
}

// noRebootOf makes the API server refuse remediation objects for one node.
func noRebootOf(node string) string {
	return strings.ReplaceAll(`
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: no-reboot-of-NODE}
spec:
  failurePolicy: Fail
  matchConstraints:
    resourceRules:
    - {apiGroups: [sandbox.fettle.io], apiVersions: ["*"], operations: [CREATE], resources: [rebootremediations]}
  validations:
  - {expression: "object.metadata.name != 'NODE'", message: "NODE may not be rebooted during this test"}
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: no-reboot-of-NODE}
spec:
  policyName: no-reboot-of-NODE
  validationActions: [Deny]
`, "NODE", node)
}

// objectThatAUserDeletes: a remediation object is deleted while its node is still unhealthy. That locks nothing: the
// repair ends once the node is healthy (issue #266).
func objectThatAUserDeletes(p *pool) {
	p.nodes("a", "b", "c")
	p.template(rebooting, "reboot", false)
	p.healthCheck(p.single(rebooting, "reboot"))
	p.fails("a")
	p.wantObjects("a reboot")
	p.wantNodeStatus("2/3 healthy, Remediating, unhealthy: a[reboot]") // Fettle believes in an unseen object for a minute
	if err := p.Delete(cluster.Context(p.t), p.object("a reboot")); err != nil {
		p.t.Fatalf("deleting the object: %v", err)
	}
	p.recovers("a")
	p.wantObjects()
	p.nothingIsLeft("a", "3/3")
}

// backoffOfANode: the first remediation comes at once, and a node that soon fails again waits
// (docs/reference/proposals.md#node-health-checks). That holds even if it has registered anew since.
func backoffOfANode(p *pool) {
	const pause = 20 * time.Second
	p.nodes("a", "b", "c")
	p.template(rebooting, "reboot", false)
	p.healthCheck("backoff: {type: exponential, limit: 1m}", p.single(rebooting, "reboot"))
	p.annotateCheck(`{"` + annotation.BackoffBase + `":"` + pause.String() + `"}`)
	p.wantNodeStatus("3/3 healthy, Enabled, unhealthy:")
	broken := p.fails("a")
	p.wantObjects("a reboot")
	first := p.object("a reboot").GetCreationTimestamp()
	if late := first.Sub(broken); late > pause {
		p.t.Errorf("the first remediation came %s after the node failed", late)
	}
	p.recovers("a")
	p.nothingIsLeft("a", "3/3")
	p.removeNode("a")
	p.nodes("a")
	p.wantNodeStatus("3/3 healthy, Enabled, unhealthy:")
	p.fails("a")
	p.wantObjects("a reboot")
	p.createdBefore("a reboot", first.Add(pause))
	p.wantNodeRepairs("a Running", "a Succeeded")
}

// twoChecksOfOneNode: one leads, and every gate of both must allow (docs/reference/medik8s.md#known-issues, I3).
func twoChecksOfOneNode(p *pool) {
	p.nodes("a", "b", "c")
	p.template(rebooting, "reboot", false)
	p.template(reinstall, "install", true)
	p.healthCheck(p.single(rebooting, "reboot"))
	p.wantNodeStatus("3/3 healthy, Enabled, unhealthy:")
	p.namedCheck(p.namespace+"-strict", "{pool: "+p.namespace+"}", "maxUnhealthy: 0", p.single(reinstall, "install"))
	p.Eventually(p.t, "the strict one is followed", func(ctx context.Context) error {
		s, err := p.nodeStatus(ctx, p.namespace+"-strict")
		if err == nil && p.statusText(s) != "3/3 healthy, Enabled, unhealthy:" {
			err = errors.New(p.statusText(s))
		}
		return err
	})
	p.fails("a")
	p.wantNodeStatus("2/3 healthy, Enabled, unhealthy: a[]")
	p.keepsObjects()
	p.change(p.nodeCheck(p.namespace+"-strict"), `{"spec":{"maxUnhealthy":1}}`)
	p.wantObjects("a reboot")
	p.keepsObjects("a reboot")
	p.recovers("a")
	p.wantObjects()
	p.nothingIsLeft("a", "3/3")
}

// controlPlaneOneAtATime: over all health checks of the cluster, whatever their templates
// (docs/reference/medik8s.md#control-plane, I4). Quorum survives with three of five. No other case here has nodes of
// the control plane.
func controlPlaneOneAtATime(p *pool) {
	for name, half := range map[string]string{"a": "one", "b": "one", "c": "two", "d": "two", "e": "two"} {
		p.labelledNode(name, map[string]string{
			"half": p.namespace + "-" + half, "node-role.kubernetes.io/control-plane": "", "node-role.kubernetes.io/etcd": "",
		})
	}
	p.template(rebooting, "reboot", false)
	p.template(reinstall, "install", true)
	p.namedCheck(p.namespace+"-one", "{half: "+p.namespace+"-one}", "maxUnhealthy: 100%", p.single(rebooting, "reboot"))
	p.namedCheck(p.namespace+"-two", "{half: "+p.namespace+"-two}", "maxUnhealthy: 100%", p.single(reinstall, "install"))
	p.setCondition("a", "Ready", corev1.ConditionFalse, time.Now().Add(-time.Hour))
	p.wantObjects("a reboot")
	if _, there := p.object("a reboot").GetLabels()[v1alpha1.ControlPlaneLabel]; !there {
		p.t.Error("the object doesn't say that its node belongs to the control plane")
	}
	p.setCondition("c", "Ready", corev1.ConditionFalse, time.Now().Add(-time.Hour))
	p.keepsObjects("a reboot")
	p.keep("a reboot")
	p.recovers("a")
	p.wantObjects("-a reboot")
	p.keepsObjects("-a reboot")
	p.letGo("-a reboot")
	p.wantObjects("c install")
	p.recovers("c")
	p.wantObjects()
}
