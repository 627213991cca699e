package openshift

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/fettle-io/fettle/api/openshift/v1beta1"
	"github.com/fettle-io/fettle/internal/core"
	"github.com/fettle-io/fettle/internal/lean"
)

const (
	machineKind     = "Machine"
	healthCheckKind = "MachineHealthCheck"

	// claimAnnotation on a machine asks an outside remediator to repair it.
	claimAnnotation = "host.metal3.io/external-remediation"
	roleLabel       = "machine.openshift.io/cluster-api-machine-role"
	masterRole      = "master"
	failedPhase     = "Failed"

	// DeleteMachine is the name of the remedy that this dialect asks for.
	DeleteMachine = "DeleteMachine"
)

// defaultNodeStartup applies where a health check sets none (reference openshift 1.1).
const defaultNodeStartup = 10 * time.Minute

// healthCheck is one MachineHealthCheck, translated.
type healthCheck struct {
	policy   core.Policy
	selector labels.Selector
	revision string
	status   v1beta1.MachineHealthCheckStatus
	// members are the places of the machines that it selects, in the roster.
	members []int
}

// readHealthCheck translates a health check. What is wrong with it becomes the policy's problem: it
// stays in the fleet, judges what it still can, and permits nothing.
func readHealthCheck(u *unstructured.Unstructured) *healthCheck {
	h := &healthCheck{
		revision: u.GetResourceVersion(),
		selector: labels.Nothing(),
		policy: core.Policy{
			ID:      core.ID{Kind: healthCheckKind, Namespace: u.GetNamespace(), Name: u.GetName(), UID: string(u.GetUID())},
			Created: u.GetCreationTimestamp().Time,
		},
	}
	var mhc v1beta1.MachineHealthCheck
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, &mhc); err != nil {
		h.policy.Problem = unreadable(u, err)
		return h
	}
	h.status = mhc.Status
	h.policy.Problem = translate(&mhc, h)
	return h
}

// unreadable says which field has a value of the wrong type. The converter doesn't tell, so the
// health check is decoded once more by means that do.
func unreadable(u *unstructured.Unstructured, err error) string {
	var wrong *json.UnmarshalTypeError
	if body, encoding := json.Marshal(u.Object); encoding == nil {
		errors.As(json.Unmarshal(body, &v1beta1.MachineHealthCheck{}), &wrong)
	}
	if wrong == nil || wrong.Field == "" {
		return fmt.Sprintf("it can't be read (%v); correct it", err)
	}
	return fmt.Sprintf("%s is of the wrong type (%s); \"kubectl explain machinehealthcheck.%s\" says what to give", wrong.Field, wrong.Value, wrong.Field)
}

// translate fills in the policy and gives everything that is wrong with it, as a sentence.
func translate(mhc *v1beta1.MachineHealthCheck, h *healthCheck) string {
	return strings.Join(problemsOf(mhc, h), "; ")
}

// problemsOf fills in the policy and gives everything that is wrong with it, each as a sentence that
// begins with the field.
func problemsOf(mhc *v1beta1.MachineHealthCheck, h *healthCheck) []string {
	p := &h.policy
	var problems [8]error
	h.selector, problems[0] = readSelector(&mhc.Spec.Selector)
	p.Criteria.Conditions, problems[1] = readConditions(mhc.Spec.UnhealthyConditions)
	p.Criteria.NodeStartup, problems[2] = readStartup(mhc.Spec.NodeStartupTimeout)
	p.ShortCircuit.MaxUnhealthy, problems[3] = readMaxUnhealthy(mhc.Spec.MaxUnhealthy)
	p.MaxInFlight, problems[4] = readMaxInFlight(mhc.Annotations)
	p.Backoff, problems[5] = readBackoff(mhc.Annotations)
	p.DryRun, problems[6] = readDryRun(mhc.Annotations)
	p.StormCooldown, problems[7] = readStormCooldown(mhc.Annotations)
	p.Held = wasHeld(mhc.Status.Conditions)
	_, p.Paused = mhc.Annotations[v1beta1.PausedAnnotation]
	p.Ladder = readLadder(mhc)
	if err := errors.Join(problems[:]...); err != nil {
		return strings.Split(err.Error(), "\n")
	}
	return nil
}

func readSelector(s *metav1.LabelSelector) (labels.Selector, error) {
	selector, err := metav1.LabelSelectorAsSelector(s)
	if err != nil {
		return labels.Nothing(), fmt.Errorf("spec.selector is not a label selector (%w)", err)
	}
	return selector, nil
}

func readConditions(conditions []v1beta1.UnhealthyCondition) ([]core.ConditionCriterion, error) {
	criteria := make([]core.ConditionCriterion, 0, len(conditions))
	var problems []error
	for i, c := range conditions {
		limit, err := readDuration(string(c.Timeout))
		if err != nil {
			problems = append(problems, fmt.Errorf("spec.unhealthyConditions[%d].timeout %w", i, err))
			continue
		}
		criteria = append(criteria, core.ConditionCriterion{Type: c.Type, Status: c.Status, For: limit})
	}
	return criteria, errors.Join(problems...)
}

func readStartup(d *v1beta1.Duration) (time.Duration, error) {
	if d == nil {
		return defaultNodeStartup, nil
	}
	limit, err := readDuration(string(*d))
	if err != nil {
		return 0, fmt.Errorf("spec.nodeStartupTimeout %w", err)
	}
	return limit, nil
}

// readDuration reads a Go duration that is not negative; an empty one is 0.
func readDuration(s string) (time.Duration, error) {
	if s == "" {
		return 0, nil
	}
	d, err := time.ParseDuration(s)
	if err != nil || d < 0 {
		return 0, fmt.Errorf("is %q; give a duration such as 300s, 10m or 1h30m", s)
	}
	return d, nil
}

// readMaxUnhealthy: the default never stops repairs, and a negative number is 0, as in today's
// controller (reference openshift 2.5).
func readMaxUnhealthy(v *intstr.IntOrString) (core.Amount, error) {
	if v == nil {
		return core.Percent(100), nil
	}
	if v.Type == intstr.Int {
		return core.Count(max(0, v.IntValue())), nil
	}
	a, err := readAmount(v.StrVal)
	if err != nil {
		return core.Amount{}, fmt.Errorf("spec.maxUnhealthy %w", err)
	}
	return a, nil
}

// readMaxInFlight: one machine is deleted at a time unless the annotation says otherwise (seed 001).
func readMaxInFlight(annotations map[string]string) (core.Amount, error) {
	v, set := annotations[v1beta1.MaxInFlightAnnotation]
	switch {
	case !set:
		return core.Count(1), nil
	case v == "unlimited":
		return core.Unlimited(), nil
	}
	a, err := readAmount(v)
	if err != nil {
		return core.Amount{}, fmt.Errorf("annotation %s %w, or unlimited", v1beta1.MaxInFlightAnnotation, err)
	}
	return a, nil
}

var amountPattern = regexp.MustCompile(`^[0-9]{1,9}%?$`)

// readAmount reads a number, or a percentage from 0% to 100%.
func readAmount(s string) (core.Amount, error) {
	digits, percent := strings.CutSuffix(s, "%")
	n, err := strconv.Atoi(digits)
	if err != nil || !amountPattern.MatchString(s) || (percent && n > 100) {
		return core.Amount{}, fmt.Errorf("is %q; give a number such as 2 or a percentage such as 40%%", s)
	}
	return core.Amount{Number: n, Percent: percent}, nil
}

func readBackoff(annotations map[string]string) (core.Backoff, error) {
	b := core.DefaultBackoff()
	base, badBase := readBackoffPart(annotations, v1beta1.BackoffBaseAnnotation, b.Base)
	limit, badLimit := readBackoffPart(annotations, v1beta1.BackoffLimitAnnotation, b.Limit)
	if err := errors.Join(badBase, badLimit); err != nil {
		return b, err
	}
	return core.Backoff{Base: min(base, limit), Limit: limit}, nil
}

func readBackoffPart(annotations map[string]string, key string, fallback time.Duration) (time.Duration, error) {
	v, set := annotations[key]
	if !set {
		return fallback, nil
	}
	d, err := time.ParseDuration(v)
	if err != nil || d <= 0 {
		return 0, fmt.Errorf("annotation %s is %q; give a duration above zero, such as 10s or 10m", key, v)
	}
	return d, nil
}

func readStormCooldown(annotations map[string]string) (time.Duration, error) {
	v, set := annotations[v1beta1.StormCooldownAnnotation]
	if !set {
		return core.DefaultStormCooldown, nil
	}
	d, err := readDuration(v)
	if err != nil || v == "" {
		return core.DefaultStormCooldown, fmt.Errorf("annotation %s is %q; give a duration such as 30s, or 0s for no wait", v1beta1.StormCooldownAnnotation, v)
	}
	return d, nil
}

// wasHeld tells whether the status, as last written, says that repairs were stopped: by the short
// circuit or its cooldown, but also by a pause or a mistake in the spec, behind which a storm may have
// come and gone. It is what a new process knows of that.
func wasHeld(conditions []v1beta1.Condition) bool {
	for i := range conditions {
		if c := &conditions[i]; c.Type == v1beta1.RemediationAllowedCondition {
			return c.Status == string(corev1.ConditionFalse)
		}
	}
	return false
}

func readDryRun(annotations map[string]string) (bool, error) {
	switch v, set := annotations[v1beta1.DryRunAnnotation]; {
	case !set || v == "false":
		return false, nil
	case v == "true":
		return true, nil
	default:
		return true, fmt.Errorf("annotation %s is %q; give \"true\" or \"false\"", v1beta1.DryRunAnnotation, v)
	}
}

// readLadder: a health check that asks for another way to repair must never delete its machines.
func readLadder(mhc *v1beta1.MachineHealthCheck) []core.Step {
	strategy := mhc.Annotations[v1beta1.RemediationStrategyAnnotation]
	if mhc.Spec.RemediationTemplate != nil || strategy == "external-baremetal" {
		return nil
	}
	return []core.Step{{Remedy: DeleteMachine, NeedsOwner: true}}
}

// machine is one Machine, translated: a target without its node, and what relates it to others.
type machine struct {
	target core.Target
	labels lean.Labels
	// node is the name of the node that the machine refers to, if it does.
	node string
	// key is its namespace/name; selectedBy are the keys of the health checks that select it.
	key        string
	selectedBy []string
}

func readMachine(m *Machine) *machine {
	t := core.Target{
		ID:       core.ID{Kind: machineKind, Namespace: m.Namespace, Name: m.Name, UID: string(m.UID)},
		Created:  m.CreationTimestamp.Time,
		Deleting: m.DeletionTimestamp != nil,
		Failed:   m.Phase == failedPhase,
		// The startup clock is the machine's last update, as in today's controller; a machine that
		// was never updated has its creation instead.
		StartupFrom:  m.CreationTimestamp.Time,
		ControlPlane: m.Labels.Get(roleLabel) == masterRole,
		Node:         core.Node{State: core.NodeAwaited},
		Problem:      m.Unreadable,
		Revision:     m.ResourceVersion,
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
	_, t.Claimed = m.Annotations[claimAnnotation]
	if m.Node != "" {
		t.Node = core.Node{State: core.NodeUnseen, Name: m.Node}
	}
	return &machine{target: t, labels: m.Labels, node: m.Node}
}
