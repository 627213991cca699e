package integration

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fettle-io/fettle/api/fettle/annotation"
	"github.com/fettle-io/fettle/api/fettle/v1alpha1"
	"github.com/fettle-io/fettle/api/openshift/v1beta1"
	"github.com/fettle-io/fettle/test/cluster"
)

// noNodeController stops the sandbox's own node controller from judging nodes without a kubelet.
const noNodeController = "--controllers=*,-node-lifecycle-controller"

// TestMachineHealthCheck runs the cases beside each other on one cluster, a namespace for each.
func TestMachineHealthCheck(t *testing.T) {
	t.Parallel()
	c := cluster.Start(t, cluster.Options{Args: []string{noNodeController}})
	c.InstallFettle(t)
	// This namespace makes the cluster an OpenShift, whose etcd Fettle may not query without config/openshift.
	c.Namespace(t, "openshift-etcd")
	c.StartFettle(t)
	cases := map[string]func(*machineFixture){
		"condition":      nodeConditionHeldForItsTimeout,
		"own-clocks":     eachConditionHasItsOwnClock,
		"max-number":     maxUnhealthyAsANumber,
		"max-percent":    maxUnhealthyAsAPercentage,
		"zone-returns":   zoneThatReturnsBitByBit,
		"never-joined":   nodeThatNeverJoined,
		"no-timeout":     startupTimeoutOfZero,
		"failed":         machineInPhaseFailed,
		"node-removed":   nodeRemoved,
		"no-owner":       machineWithoutOwner,
		"control-plane":  controlPlaneMachine,
		"control-node":   machineOfAControlPlaneNode,
		"paused":         pausedHealthCheck,
		"dry-run":        dryRun,
		"one-at-a-time":  oneDeletionAtATime,
		"unlimited":      unlimitedDeletions,
		"reclaimed":      reclaimedMachinesGoTogether,
		"everything":     emptySelector,
		"expressions":    selectorExpressions,
		"overlap":        overlappingHealthChecks,
		"bare-metal":     externalBaremetalIsNotDeleted,
		"failed-metal":   failedBaremetalIsDeleted,
		"fails-marked":   markedBaremetalThatFailsIsDeleted,
		"template":       remediationTemplateIsNotDeleted,
		"told-requests":  requestsAreReported,
		"removed-check":  deletedHealthCheckEndsTheCheck,
		"recovered":      recoveryBeforeTheTimeout,
		"bad-annotation": badAnnotation,
		"two-writers":    anotherWriterOfOpenShift,
		"edited-status":  statusOfMachinesEditedByHand,
	}
	beside := cluster.Beside(t)
	defer beside.Wait()
	for name, run := range cases {
		beside.Run(name, func(t *testing.T) {
			run(newMachineFixture(t, c, name))
		})
	}
}

func nodeConditionHeldForItsTimeout(f *machineFixture) {
	f.healthCheck("example", nil, readyCheck("maxUnhealthy: 50%"))
	f.machine("a", machineOptions{})
	f.machine("b", machineOptions{})
	f.wantStatus("example", 2, 2, 1, "")
	broken := time.Now()
	f.setReady("a", corev1.ConditionFalse)
	f.wantMachines("b")
	f.wantStatus("example", 1, 1, 0, "")
	f.wantRepairs("a Succeeded")
	f.wantEvent("a", "DetectedUnhealthy")
	f.wantEvent("a", "MachineDeleted")
	for _, r := range f.Requests(f.t) {
		if r.Verb == "delete" && r.Namespace == f.namespace && r.At.Before(broken.Truncate(time.Second).Add(2*time.Second)) {
			f.t.Errorf("deleted at %s, before the condition of %s had held for %s", r.At, broken, short)
		}
	}
	repairs, err := f.repairs(cluster.Context(f.t))
	if err != nil || len(repairs) != 1 {
		f.t.Fatalf("want one repair, have %v (%v)", repairs, err)
	}
	spec := repairs[0].Spec
	if spec.Reason != "UnhealthyCondition" || !strings.Contains(spec.Message, "Ready=False since") || !strings.Contains(spec.Message, "past the 2s limit") {
		f.t.Errorf("the repair does not say which condition, since when, and the limit: %q %q", spec.Reason, spec.Message)
	}
	if spec.Target.Node != f.nodeName("a") || spec.Policy.Name != "example" || spec.Owner == nil || spec.Ladder[0].Remedy != "DeleteMachine" {
		f.t.Errorf("the repair does not name its target, policy and remedy: %+v", spec)
	}
}

func eachConditionHasItsOwnClock(f *machineFixture) {
	f.healthCheck("example", nil, `
unhealthyConditions:
- {type: Ready, status: "False", timeout: 1h}
- {type: DiskPressure, status: "True", timeout: 0s}`)
	f.machine("a", machineOptions{})
	f.machine("b", machineOptions{})
	f.setReady("a", corev1.ConditionFalse)
	f.wantStatus("example", 1, 2, 1, "")
	f.setCondition("b", "DiskPressure", corev1.ConditionTrue, time.Now())
	f.wantMachines("a")
	f.keepsMachines("a")
}

func maxUnhealthyAsANumber(f *machineFixture) {
	f.machine("a", machineOptions{})
	f.machine("b", machineOptions{})
	f.machine("c", machineOptions{})
	f.setReady("a", corev1.ConditionUnknown)
	f.setReady("b", corev1.ConditionUnknown)
	f.healthCheck("example", nil, readyCheck("maxUnhealthy: 1"))
	held := f.wantStatus("example", 1, 3, 0, v1beta1.TooManyUnhealthyReason)
	if held.Status != string(corev1.ConditionFalse) || held.Severity != v1beta1.SeverityWarning || !strings.Contains(held.Message, "(total: 3, unhealthy: 2, maxUnhealthy: 1)") {
		f.t.Errorf("the condition does not explain the short circuit: %+v", held)
	}
	f.wantEvent("example", "RemediationRestricted")
	f.keepsMachines("a", "b", "c")
	f.setReady("b", corev1.ConditionTrue)
	f.wantMachines("b", "c")
	f.wantStatus("example", 2, 2, 1, "")
}

func maxUnhealthyAsAPercentage(f *machineFixture) {
	for _, name := range []string{"a", "b", "c", "d", "e", "f"} {
		f.machine(name, machineOptions{})
	}
	for _, name := range []string{"a", "b", "c"} {
		f.setReady(name, corev1.ConditionUnknown)
	}
	f.healthCheck("example", map[string]string{annotation.MaxInFlight: "100%"}, readyCheck("maxUnhealthy: 40%"))
	f.wantStatus("example", 3, 6, 0, v1beta1.TooManyUnhealthyReason)
	f.keepsMachines("a", "b", "c", "d", "e", "f")
	f.setReady("c", corev1.ConditionTrue)
	f.wantMachines("c", "d", "e", "f")
}

// zoneThatReturnsBitByBit: the short circuit opens before the last node has reported again. Fettle does not delete that
// node for being the last.
func zoneThatReturnsBitByBit(f *machineFixture) {
	for _, name := range []string{"a", "b", "c", "d"} {
		f.machine(name, machineOptions{})
	}
	for _, name := range []string{"a", "b", "c"} {
		f.setCondition(name, "Ready", corev1.ConditionUnknown, time.Now().Add(-time.Hour))
	}
	// Fettle must not act before it has seen all three.
	f.healthCheck("example", map[string]string{annotation.StormCooldown: "1m", v1beta1.PausedAnnotation: ""}, readyCheck("maxUnhealthy: 1"))
	f.wantStatus("example", 1, 4, 0, v1beta1.PausedReason)
	f.annotate(f.check("example"), v1beta1.PausedAnnotation, nil)
	f.wantStatus("example", 1, 4, 0, v1beta1.TooManyUnhealthyReason)
	f.setReady("a", corev1.ConditionTrue)
	f.setReady("b", corev1.ConditionTrue)
	f.wantStatus("example", 3, 4, 0, v1beta1.StormCooldownReason)
	f.keepsMachines("a", "b", "c", "d")
	f.setReady("c", corev1.ConditionTrue)
	f.wantStatus("example", 4, 4, 1, "")
	f.wantRepairs()
}

func nodeThatNeverJoined(f *machineFixture) {
	f.healthCheck("example", nil, readyCheck("nodeStartupTimeout: "+short))
	f.machine("a", machineOptions{noNode: true, noNodeRef: true, phase: "Provisioned"})
	f.wantMachines()
	f.wantRepairs("a Succeeded")
	f.wantEvent("a", "MachineDeleted")
	if reported := f.EventReasons(f.t, f.namespace, "a"); slices.Contains(reported, "DetectedUnhealthy") {
		f.t.Errorf("the events of a machine that boots are %v", reported)
	}
}

func startupTimeoutOfZero(f *machineFixture) {
	f.healthCheck("example", nil, readyCheck(`nodeStartupTimeout: "0"`))
	f.machine("a", machineOptions{noNode: true, noNodeRef: true, phase: "Provisioned"})
	f.wantStatus("example", 0, 1, 0, "")
	f.keepsMachines("a")
}

func machineInPhaseFailed(f *machineFixture) {
	f.healthCheck("example", nil, readyCheck())
	f.machine("a", machineOptions{phase: "Failed"})
	f.wantMachines()
	f.wantEvent("a", "MachineDeleted")
}

func nodeRemoved(f *machineFixture) {
	f.healthCheck("example", nil, readyCheck(`nodeStartupTimeout: "0"`))
	f.machine("a", machineOptions{})
	f.wantStatus("example", 1, 1, 1, "")
	node := object("v1", "Node", "", f.nodeName("a"))
	if err := f.Delete(cluster.Context(f.t), node); err != nil {
		f.t.Fatalf("deleting the node: %v", err)
	}
	f.wantMachines()
	for _, r := range f.Requests(f.t) {
		if r.Verb == "get" && r.Resource == "nodes" && r.Name == f.nodeName("a") && r.Code == 404 {
			return
		}
	}
	f.t.Error("the machine was deleted without a live read which confirmed that its node is gone")
}

func machineWithoutOwner(f *machineFixture) {
	f.healthCheck("example", nil, readyCheck())
	f.machine("a", machineOptions{noOwner: true})
	f.setReady("a", corev1.ConditionFalse)
	f.wantEvent("a", "SkippedNoController")
	f.keepsMachines("a")
	f.wantRepairs()
}

func controlPlaneMachine(f *machineFixture) {
	f.healthCheck("example", nil, readyCheck())
	f.machine("a", machineOptions{labels: map[string]string{"machine.openshift.io/cluster-api-machine-role": "master"}, phase: "Failed"})
	f.wantEvent("a", "RemediationHeldQuorumUnknown")
	f.keepsMachines("a")
}

func machineOfAControlPlaneNode(f *machineFixture) {
	f.healthCheck("example", nil, readyCheck())
	f.machine("a", machineOptions{controlNode: true})
	f.setReady("a", corev1.ConditionFalse)
	f.wantEvent("a", "RemediationHeldQuorumUnknown")
	f.keepsMachines("a")
}

func pausedHealthCheck(f *machineFixture) {
	f.healthCheck("example", map[string]string{v1beta1.PausedAnnotation: ""}, readyCheck())
	f.machine("a", machineOptions{})
	f.setReady("a", corev1.ConditionFalse)
	f.wantStatus("example", 0, 1, 0, v1beta1.PausedReason)
	f.keepsMachines("a")
	f.annotate(f.check("example"), v1beta1.PausedAnnotation, nil)
	f.wantStatus("example", 0, 1, 0, v1beta1.StormCooldownReason) // the fault may be over, and the node about to report that
	f.wantMachines()
}

func dryRun(f *machineFixture) {
	f.healthCheck("example", map[string]string{annotation.DryRun: "true"}, readyCheck())
	f.machine("a", machineOptions{})
	f.setReady("a", corev1.ConditionFalse)
	f.wantEvent("a", "DryRun")
	f.wantStatus("example", 0, 1, 0, "")
	f.keepsMachines("a")
	f.wantRepairs()
	f.annotate(f.check("example"), annotation.DryRun, nil)
	f.wantMachines()
}

func oneDeletionAtATime(f *machineFixture) {
	for _, name := range []string{"a", "b", "c"} {
		f.machine(name, machineOptions{finalizer: true})
	}
	f.setCondition("b", "Ready", corev1.ConditionUnknown, time.Now().Add(-time.Hour))
	f.setReady("a", corev1.ConditionUnknown)
	f.setReady("c", corev1.ConditionUnknown)
	f.healthCheck("example", nil, readyCheck())
	f.wantMachines("-b", "a", "c") // the longest unhealthy one
	f.keepsMachines("-b", "a", "c")
	f.wantRepairs("b Running")
	f.release("b")
	f.wantMachines("-a", "c")
	f.wantRepairs("b Succeeded", "a Running")
	f.release("a")
	f.wantMachines("-c")
	f.release("c")
	f.wantMachines()
	f.wantRepairs("a Succeeded", "b Succeeded", "c Succeeded")
}

// release removes the finalizer of a machine in deletion.
func (f *machineFixture) release(machine string) {
	f.t.Helper()
	m := object("machine.openshift.io/v1beta1", "Machine", f.namespace, machine)
	patch := client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"finalizers":null}}`))
	if err := f.Patch(cluster.Context(f.t), m, patch); err != nil {
		f.t.Fatalf("releasing machine %s: %v", machine, err)
	}
}

func unlimitedDeletions(f *machineFixture) {
	for _, name := range []string{"a", "b", "c"} {
		f.machine(name, machineOptions{finalizer: true})
		f.setReady(name, corev1.ConditionUnknown)
	}
	f.healthCheck("example", map[string]string{annotation.MaxInFlight: "unlimited"}, readyCheck())
	f.wantMachines("-a", "-b", "-c")
}

// reclaimedMachinesGoTogether: the health check is that of OpenShift's machine-api-termination-handler.
func reclaimedMachinesGoTogether(f *machineFixture) {
	for _, name := range []string{"a", "b", "c", "d"} {
		f.machine(name, machineOptions{finalizer: true})
	}
	for _, name := range []string{"a", "b", "c"} {
		f.setCondition(name, "Terminating", corev1.ConditionTrue, time.Now())
	}
	f.healthCheck("workers", nil, readyCheck())
	f.healthCheck("machine-api-termination-handler", nil, `selector: {matchLabels: {role: worker}}
maxUnhealthy: 100%
nodeStartupTimeout: "0"
unhealthyConditions: [{type: Terminating, status: "True", timeout: 0s}]`)
	f.wantMachines("-a", "-b", "-c", "d")
	f.setReady("d", corev1.ConditionUnknown)
	f.wantEvent("d", "DetectedUnhealthy")
	f.keepsMachines("-a", "-b", "-c", "d") // three are in flight
	for _, name := range []string{"a", "b", "c"} {
		f.release(name)
	}
	f.wantMachines("-d")
}

func emptySelector(f *machineFixture) {
	f.machine("a", machineOptions{labels: map[string]string{"role": "other"}, phase: "Failed"})
	f.healthCheck("example", nil, "selector: {}")
	f.wantMachines()
}

func selectorExpressions(f *machineFixture) {
	f.machine("a", machineOptions{labels: map[string]string{"pool": "spot"}, phase: "Failed"})
	f.machine("b", machineOptions{labels: map[string]string{"pool": "pets"}, phase: "Failed"})
	f.machine("c", machineOptions{phase: "Failed"})
	f.healthCheck("example", nil, "selector: {matchExpressions: [{key: pool, operator: Exists}, {key: pool, operator: NotIn, values: [pets]}]}")
	f.wantMachines("b", "c")
	f.wantStatus("example", 0, 0, 0, "")
	f.keepsMachines("b", "c")
}

// overlappingHealthChecks: every health check that selects a machine must allow its repair.
func overlappingHealthChecks(f *machineFixture) {
	f.healthCheck("strict", nil, "maxUnhealthy: 0")
	f.healthCheck("lenient", nil, readyCheck())
	f.machine("a", machineOptions{phase: "Failed"})
	f.wantStatus("lenient", 0, 1, 0, "")
	f.wantStatus("strict", 0, 1, 0, v1beta1.TooManyUnhealthyReason)
	f.keepsMachines("a")
	if err := f.Delete(cluster.Context(f.t), f.check("strict")); err != nil {
		f.t.Fatalf("deleting the strict health check: %v", err)
	}
	f.wantMachines()
	f.wantRepairs("a Succeeded")
}

// externalBaremetalIsNotDeleted: Fettle marks the machine and leaves it to a remediator, which removes the mark.
func externalBaremetalIsNotDeleted(f *machineFixture) {
	f.healthCheck("example", map[string]string{v1beta1.RemediationStrategyAnnotation: "external-baremetal"}, readyCheck())
	f.machine("a", machineOptions{noOwner: true})
	f.machine("b", machineOptions{})
	f.setReady("a", corev1.ConditionFalse)
	f.wantMarked("a", true)
	f.wantEvent("a", "ExternalAnnotationAdded")
	f.wantStatus("example", 1, 2, 1, "")
	f.keepsMachines("a", "b")
	f.setReady("a", corev1.ConditionTrue)
	f.Never(f.t, "the mark is not Fettle's to take away", quiet, func(ctx context.Context) error { return f.isMarked(ctx, "a", true) })
	f.wantStatus("example", 1, 2, 1, "")
	f.annotate(object("machine.openshift.io/v1beta1", "Machine", f.namespace, "a"), v1beta1.ExternalRemediationAnnotation, nil)
	f.wantStatus("example", 2, 2, 2, "")
	f.comesToEnd("a")
}

// failedBaremetalIsDeleted: no host is left to power on.
func failedBaremetalIsDeleted(f *machineFixture) {
	f.healthCheck("example", map[string]string{v1beta1.RemediationStrategyAnnotation: "external-baremetal"}, readyCheck())
	f.machine("a", machineOptions{phase: "Failed"})
	f.wantMachines()
	f.wantRepairs("a Succeeded")
	f.wantEvent("a", "MachineDeleted")
}

// markedBaremetalThatFailsIsDeleted: the remediator may never remove the mark.
func markedBaremetalThatFailsIsDeleted(f *machineFixture) {
	f.healthCheck("example", map[string]string{v1beta1.RemediationStrategyAnnotation: "external-baremetal"}, readyCheck())
	f.machine("a", machineOptions{})
	f.setReady("a", corev1.ConditionFalse)
	f.wantMarked("a", true)
	f.patchStatus(object("machine.openshift.io/v1beta1", "Machine", f.namespace, "a"), map[string]any{"phase": "Failed"})
	f.wantMachines()
	f.wantRepairs("a Succeeded", "a Withdrawn")
}

func (f *machineFixture) wantMarked(machine string, marked bool) {
	f.t.Helper()
	f.Eventually(f.t, "the mark on "+machine, func(ctx context.Context) error { return f.isMarked(ctx, machine, marked) })
}

func (f *machineFixture) isMarked(ctx context.Context, machine string, marked bool) error {
	m := object("machine.openshift.io/v1beta1", "Machine", f.namespace, machine)
	if err := f.Get(ctx, client.ObjectKeyFromObject(m), m); err != nil {
		return err
	}
	if strategy := m.GetAnnotations()[v1beta1.RemediationStrategyAnnotation]; marked && strategy != "external-baremetal" {
		return fmt.Errorf("the strategy on %s is %q", machine, strategy)
	}
	if _, has := m.GetAnnotations()[v1beta1.ExternalRemediationAnnotation]; has != marked {
		return fmt.Errorf("annotations of %s are %v; marked must be %t", machine, m.GetAnnotations(), marked)
	}
	return nil
}

// comesToEnd waits until no repair of a machine runs.
func (f *machineFixture) comesToEnd(machine string) {
	f.t.Helper()
	f.Eventually(f.t, "the end of the repair of "+machine, func(ctx context.Context) error {
		repairs, err := f.repairs(ctx)
		for i := range repairs {
			if r := &repairs[i]; r.Spec.Target.Name == machine && r.Status.Phase == v1alpha1.RepairRunning {
				return fmt.Errorf("repair %s runs: %+v", r.Name, r.Status)
			}
		}
		return err
	})
}

// remediationTemplateIsNotDeleted: without its template Fettle does nothing, and the health check says so.
func remediationTemplateIsNotDeleted(f *machineFixture) {
	f.healthCheck("example", nil, readyCheck("remediationTemplate: {apiVersion: example.com/v1, kind: RebootTemplate, name: reboot}"))
	f.machine("a", machineOptions{})
	f.setReady("a", corev1.ConditionFalse)
	f.wantStatus("example", 0, 1, 0, v1beta1.TemplateUnusableReason)
	f.wantEvent("a", "RemediationHeldTemplateUnusable")
	f.keepsMachines("a")
}

func deletedHealthCheckEndsTheCheck(f *machineFixture) {
	f.healthCheck("example", map[string]string{v1beta1.PausedAnnotation: "yes"}, readyCheck())
	f.machine("a", machineOptions{phase: "Failed"})
	f.wantStatus("example", 0, 1, 0, v1beta1.PausedReason)
	if err := f.Delete(cluster.Context(f.t), f.check("example")); err != nil {
		f.t.Fatalf("deleting the health check: %v", err)
	}
	f.keepsMachines("a")
}

func recoveryBeforeTheTimeout(f *machineFixture) {
	f.healthCheck("example", nil, readyCheck())
	f.machine("a", machineOptions{})
	f.wantStatus("example", 1, 1, 1, "")
	f.setReady("a", corev1.ConditionFalse)
	f.setReady("a", corev1.ConditionTrue)
	f.keepsMachines("a")
	f.wantRepairs()
}

// noRequestsIn makes the API server refuse remediation objects in one namespace.
const noRequestsIn = `
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: no-requests-in-%[1]s}
spec:
  failurePolicy: Fail
  matchConstraints:
    resourceRules:
    - {apiGroups: [fettle.io], apiVersions: ["*"], operations: [CREATE], resources: [machinedeletionremediations]}
  validations:
  - {expression: "object.metadata.namespace != '%[1]s'", message: "nothing may be created during this test"}
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: no-requests-in-%[1]s}
spec: {policyName: no-requests-in-%[1]s, validationActions: [Deny]}
`

// requestsAreReported: the status says that a template is missing, that an object can't be created, and that neither is
// true any more (docs/reference/openshift.md#remediation-objects).
func requestsAreReported(f *machineFixture) {
	f.machine("a", machineOptions{})
	f.healthCheck("example", nil, readyCheck(
		"remediationTemplate: {apiVersion: fettle.io/v1alpha1, kind: MachineDeletionRemediationTemplate, name: replace}"))
	f.wantConditions("ExternalRemediationTemplateAvailable=False ExternalRemediationTemplateNotFound", "ExternalRemediationRequestAvailable=True ")
	f.Apply(f.t, "apiVersion: fettle.io/v1alpha1\nkind: MachineDeletionRemediationTemplate\nmetadata: {name: replace, namespace: "+f.namespace+"}\nspec: {template: {spec: {}}}\n")
	f.wantConditions("ExternalRemediationTemplateAvailable=True ", "ExternalRemediationRequestAvailable=True ")
	f.Apply(f.t, fmt.Sprintf(noRequestsIn, f.namespace))
	request := object("fettle.io/v1alpha1", "MachineDeletionRemediation", f.namespace, "probe")
	f.Eventually(f.t, "requests are refused", func(ctx context.Context) error {
		if err := f.Create(ctx, request.DeepCopy(), client.DryRunAll); err == nil || !strings.Contains(err.Error(), "during this test") {
			return fmt.Errorf("it says %w", err)
		}
		return nil
	})
	f.setReady("a", corev1.ConditionFalse)
	f.wantConditions("ExternalRemediationTemplateAvailable=True ", "ExternalRemediationRequestAvailable=False ExternalRemediationRequestCreationFailed")
	for _, kind := range []string{"ValidatingAdmissionPolicyBinding", "ValidatingAdmissionPolicy"} {
		if err := f.Delete(cluster.Context(f.t), object("admissionregistration.k8s.io/v1", kind, "", "no-requests-in-"+f.namespace)); err != nil {
			f.t.Fatalf("deleting the %s: %v", kind, err)
		}
	}
	f.wantConditions("ExternalRemediationTemplateAvailable=True ", "ExternalRemediationRequestAvailable=True ")
}

// wantConditions waits until the health check has these, each "Type=Status Reason".
func (f *machineFixture) wantConditions(want ...string) {
	f.t.Helper()
	f.Eventually(f.t, "conditions of the health check", func(ctx context.Context) error {
		var mhc v1beta1.MachineHealthCheck
		if err := f.Get(ctx, client.ObjectKey{Namespace: f.namespace, Name: "example"}, &mhc); err != nil {
			return err
		}
		var have []string
		for _, c := range mhc.Status.Conditions {
			have = append(have, c.Type+"="+c.Status+" "+c.Reason)
		}
		for _, w := range want {
			if !slices.Contains(have, w) {
				return fmt.Errorf("they are %q, want %q among them", have, w)
			}
		}
		return nil
	})
}
