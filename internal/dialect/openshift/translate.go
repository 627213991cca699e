package openshift

import (
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/fettle-io/fettle/api/fettle/annotation"
	"github.com/fettle-io/fettle/api/openshift/v1beta1"
	"github.com/fettle-io/fettle/internal/core"
	"github.com/fettle-io/fettle/internal/lenient"
	"github.com/fettle-io/fettle/internal/messages"
	"github.com/fettle-io/fettle/internal/selector"
	"github.com/fettle-io/fettle/internal/slim"
	"github.com/fettle-io/fettle/internal/specparse"
)

const (
	machineKind     = "Machine"
	healthCheckKind = "MachineHealthCheck"

	// externalAnnotation on a machine requests its repair from an outside remediator.
	externalAnnotation = v1beta1.ExternalRemediationAnnotation
	roleLabel          = "machine.openshift.io/cluster-api-machine-role"
	masterRole         = "master"
	failedPhase        = "Failed"
)

// checkKind is the kind of health checks.
var checkKind = v1beta1.GroupVersion.WithKind(healthCheckKind) //nolint:gochecknoglobals // a constant

// defaultNodeStartup is the timeout of a health check without spec.nodeStartupTimeout
// (docs/reference/openshift.md#spec).
const defaultNodeStartup = 10 * time.Minute

// healthCheck is one MachineHealthCheck, translated.
type healthCheck struct {
	policy   core.Policy
	external ExternalBaremetal
	selector labels.Selector
	revision string
	status   v1beta1.MachineHealthCheckStatus
	// selection is set while the store has the health check.
	selection *selector.Selection
}

// translate translates a health check, of which external-baremetal is carried out in a way. Mistakes in it become the policy's problem. Such a
// policy judges what it still can, and permits nothing.
func translate(u *unstructured.Unstructured, external ExternalBaremetal) *healthCheck {
	h := &healthCheck{
		external: external,
		revision: u.GetResourceVersion(),
		selector: labels.Nothing(),
		policy: core.Policy{
			ID:      core.ID{Kind: healthCheckKind, Namespace: u.GetNamespace(), Name: u.GetName(), UID: string(u.GetUID())},
			Created: u.GetCreationTimestamp().Time,
			// As in OpenShift: a machine that looks healthy counts as healthy while its remediator
			// is still at work (docs/reference/openshift.md#counting).
			IgnoresRequests: true,
			Advice:          messages.Advice(),
		},
	}
	spec, wrong := lenient.Part[v1beta1.MachineHealthCheckSpec](u.Object, "spec")
	h.policy.Problem = h.translate(&spec, wrong, u.GetAnnotations())
	h.policy.Fingerprint = specparse.Fingerprint(h.policy, h.selector)
	h.readStatus(u)
	return h
}

// readStatus reads the status that was last written. A status that can't be read is written anew,
// and repairs may have been stopped before that.
func (h *healthCheck) readStatus(u *unstructured.Unstructured) {
	status, wrong := lenient.Part[v1beta1.MachineHealthCheckStatus](u.Object, "status")
	if len(wrong) > 0 {
		status.ExpectedMachines = nil
	}
	h.status = status
	h.policy.WasStopped = len(wrong) > 0 || wasHeld(status.Conditions)
	for i := range status.Conditions {
		if c := &status.Conditions[i]; c.Type == v1beta1.RemediationAllowedCondition && c.Status == string(corev1.ConditionFalse) {
			h.policy.ClockGate = core.GateOfClock(c.Reason)
		}
	}
}

// translate fills in the policy and returns its problems as one sentence, or "".
func (h *healthCheck) translate(spec *v1beta1.MachineHealthCheckSpec, wrong []lenient.Problem, annotations map[string]string) string {
	return specparse.JoinProblems(append(h.problemsOf(spec, annotations), h.resetUnparsable(wrong)...))
}

// problemsOf fills in the policy and returns its problems. Each is a sentence that begins with the
// field.
func (h *healthCheck) problemsOf(spec *v1beta1.MachineHealthCheckSpec, annotations map[string]string) []string {
	p := &h.policy
	var problems [13]error
	power, wrong := readPower(annotations, h.external)
	problems[12] = wrong
	p.Steps, p.FailedSteps = readSteps(spec, annotations, p.ID.Namespace, power)
	// With a remediationTemplate the mark has no effect (docs/reference/openshift.md#remediation-objects).
	p.RequestsAwaitMarks = power != "" && hasStrategy(spec, annotations)
	h.selector, problems[0] = readSelector(&spec.Selector)
	p.Criteria.Conditions, problems[1] = readConditions(spec.UnhealthyConditions)
	p.Criteria.NodeStartup, problems[2] = readStartup(spec.NodeStartupTimeout)
	p.ShortCircuit.MaxUnhealthy, problems[3] = readMaxUnhealthy(spec.MaxUnhealthy)
	p.MaxInFlight, problems[4] = readMaxInFlight(annotations, p.Steps)
	_, limited := annotations[annotation.MaxInFlight]
	p.ReclaimsBypassMaxInFlight = !limited
	p.Backoff, problems[5] = specparse.Backoff(annotations)
	p.DryRun, problems[6] = specparse.DryRun(annotations, annotation.DryRun)
	p.StormCooldown, problems[7] = specparse.StormCooldown(annotations)
	problems[8] = checkTemplate(spec.RemediationTemplate)
	p.WaitsForUpgrades, problems[9] = specparse.DryRun(annotations, annotation.WaitForUpgrades)
	p.Criteria.Groups, problems[10] = specparse.Groups(annotations, annotation.UnhealthyConditions)
	p.Criteria.NodeGoneDelay, problems[11] = specparse.GoneDelay(annotations, annotation.NodeGoneDelay)
	_, p.Paused = annotations[v1beta1.PausedAnnotation]
	p.Unparsable = problems[0] != nil || problems[1] != nil || problems[10] != nil
	return specparse.ErrorLines(problems[:]...)
}

// resetUnparsable resets what a field of the wrong type was translated to, and returns the
// problems. Such a field was decoded as absent, and must not get the default of an absent field.
func (h *healthCheck) resetUnparsable(wrong []lenient.Problem) []string {
	problems := make([]string, len(wrong))
	for i, w := range wrong {
		problems[i] = specparse.WrongType(w, "machinehealthcheck")
		field := w.Child()
		all := field == ""
		if all || field == "selector" {
			h.selector, h.policy.Unparsable = labels.Nothing(), true
		}
		if field == "unhealthyConditions" {
			h.policy.Unparsable = true
		}
		if all || field == "nodeStartupTimeout" {
			h.policy.Criteria.NodeStartup = 0
		}
		if all || field == "maxUnhealthy" {
			h.policy.ShortCircuit.MaxUnhealthy = core.Amount{}
		}
		if all || field == "remediationTemplate" {
			h.policy.Steps, h.policy.FailedSteps = nil, nil
		}
	}
	return problems
}

func readSelector(s *metav1.LabelSelector) (labels.Selector, error) {
	selector, err := specparse.Selector(s)
	if err != nil {
		return selector, fmt.Errorf("spec.selector %w", err)
	}
	return selector, nil
}

func readConditions(conditions []v1beta1.UnhealthyCondition) ([]core.ConditionCriterion, error) {
	if len(conditions) > specparse.MaxConditions {
		return nil, fmt.Errorf("spec.unhealthyConditions has %d entries; give at most %d", len(conditions), specparse.MaxConditions)
	}
	criteria := make([]core.ConditionCriterion, 0, len(conditions))
	var problems []error
	for i, c := range conditions {
		if c.Type == "" || c.Status == "" {
			problems = append(problems, fmt.Errorf("spec.unhealthyConditions[%d] lacks a type or a status; give both, such as {type: Ready, status: Unknown, timeout: 300s}", i))
			continue
		}
		limit, err := specparse.Duration(string(c.Timeout))
		if err != nil {
			problems = append(problems, fmt.Errorf("spec.unhealthyConditions[%d].timeout %w", i, err))
			continue
		}
		criteria = append(criteria, core.ConditionCriterion{Type: c.Type, Status: c.Status, For: limit, Reclaims: reclaims(c)})
	}
	return criteria, errors.Join(problems...)
}

// reclaims reports whether the condition says that the cloud takes back the instance of a node. The
// termination handlers of machines write it (docs/reference/openshift.md#termination-handler).
func reclaims(c v1beta1.UnhealthyCondition) bool {
	return c.Type == "Terminating" && c.Status == string(corev1.ConditionTrue)
}

func readStartup(d *v1beta1.Duration) (time.Duration, error) {
	if d == nil {
		return defaultNodeStartup, nil
	}
	limit, err := specparse.Duration(string(*d))
	if err != nil {
		return 0, fmt.Errorf("spec.nodeStartupTimeout %w", err)
	}
	return limit, nil
}

// readMaxUnhealthy returns the limit of the short circuit. As in OpenShift, the default never stops
// repairs, and a negative number counts as 0 (docs/reference/openshift.md#short-circuit).
func readMaxUnhealthy(v *intstr.IntOrString) (core.Amount, error) {
	if v == nil {
		return core.Percent(100), nil
	}
	if v.Type == intstr.Int {
		return core.Count(v.IntValue()), nil
	}
	a, err := specparse.Amount(v.StrVal)
	if err != nil {
		return core.Amount{}, fmt.Errorf("spec.maxUnhealthy %w", err)
	}
	return a, nil
}

// wasHeld reports whether the status, as last written, says that repairs were stopped. A short
// circuit or its cooldown stops them. So does a pause or a mistake in the spec, and a storm may
// have come and gone meanwhile. A new process knows nothing else of that. An unusable template and
// a wrong clock don't count: the status names them only where nothing else stops repairs.
func wasHeld(conditions []v1beta1.Condition) bool {
	for i := range conditions {
		if c := &conditions[i]; c.Type == v1beta1.RemediationAllowedCondition {
			return c.Status == string(corev1.ConditionFalse) && c.Reason != v1beta1.TemplateUnusableReason && !core.IsOfClock(c.Reason)
		}
	}
	return false
}

// machine is one Machine, translated: a target without its node, and its relations to other
// objects.
type machine struct {
	selector.Member

	// key is the namespace/name of the machine.
	key    string
	target core.Target
	labels slim.Labels
	// node is the name of the node that the machine refers to, or empty.
	node string
	// onControlPlane is set once the node was seen to be a member of the control plane. The label
	// of a machine may say that too, but any user who may write machines can set it.
	onControlPlane bool
}

// Key implements selector.Object.
func (m *machine) Key() string { return m.key }

// Matches implements selector.Object. A health check selects machines of its own namespace
// (docs/reference/openshift.md#spec).
func (m *machine) Matches(namespace string, s labels.Selector) bool {
	return namespace == m.target.ID.Namespace && s.Matches(m.labels)
}

// refersTo returns the node that the machine refers to, or "" while the machine is being deleted:
// its host may have its next machine already.
func (m *machine) refersTo() string {
	if m == nil || m.target.Deleting {
		return ""
	}
	return m.node
}

func readMachine(m *Machine) *machine {
	t := core.Target{
		ID:       core.ID{Kind: machineKind, Namespace: m.Namespace, Name: m.Name, UID: string(m.UID)},
		Created:  m.CreationTimestamp.Time,
		Deleting: m.DeletionTimestamp != nil,
		Failed:   m.Phase == failedPhase,
		// The startup timeout runs from the machine's last update, as in OpenShift's own
		// controller. A machine that was never updated has its creation instead.
		StartupFrom:  m.CreationTimestamp.Time,
		ControlPlane: m.Labels.Get(roleLabel) == masterRole,
		Node:         core.Node{State: core.NodeAwaited},
		Problem:      m.Unreadable,
		Revision:     m.ResourceVersion,
		Parts:        core.NoParts(), // the provider's part is in the machine's own spec
	}
	if !m.LastUpdated.IsZero() {
		t.StartupFrom = m.LastUpdated
	}
	if t.Failed {
		t.FailedSince = t.StartupFrom
	}
	if owner := m.Owner; owner != nil {
		t.Owner = core.ID{Kind: owner.Kind, Namespace: m.Namespace, Name: owner.Name, UID: owner.UID}
	}
	if by, claimed := m.Annotations.Lookup(annotation.ClaimedBy); claimed {
		t.Claimed, t.Claimant = true, "remediation "+lenient.Quote(by)+" has claimed it by annotation "+annotation.ClaimedBy
	}
	t.ExternallyRemediated, t.RepairRequest = m.Annotations.Has(externalAnnotation), m.RepairRequest()
	if m.Node != "" {
		t.Node = core.Node{State: core.NodeUnseen, Name: m.Node}
	}
	return &machine{key: m.Namespace + "/" + m.Name, target: t, labels: m.Labels, node: m.Node}
}
