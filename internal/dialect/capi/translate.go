package capi

import (
	"errors"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/fettle-io/fettle/api/fettle/annotation"
	"github.com/fettle-io/fettle/internal/core"
	"github.com/fettle-io/fettle/internal/healthcheck"
	"github.com/fettle-io/fettle/internal/lenient"
	"github.com/fettle-io/fettle/internal/messages"
	"github.com/fettle-io/fettle/internal/selector"
	"github.com/fettle-io/fettle/internal/specparse"
)

const (
	machineKind     = "Machine"
	healthCheckKind = "MachineHealthCheck"
	clusterKind     = "Cluster"
)

// checkKind is the kind of health checks, in the version that Fettle reads and writes.
var checkKind = clusterv1.GroupVersion.WithKind(healthCheckKind) //nolint:gochecknoglobals // a constant

// healthCheck is one MachineHealthCheck, translated.
type healthCheck struct {
	policy   core.Policy
	selector labels.Selector
	// cluster is the name of its Cluster.
	cluster    string
	generation int64
	revision   string
	status     clusterv1.MachineHealthCheckStatus
	// takesOver is set if the health check is paused for Cluster API's controller and Fettle follows it. Then the other
	// controller writes the condition Paused.
	takesOver bool
	// labelled is set if the health check has the label of its cluster. owners are its owner references.
	labelled bool
	owners   []metav1.OwnerReference
	// selection is set while the store has the health check.
	selection *selector.Selection
}

// readHealthCheck translates a health check. A fault becomes the problem of the policy: the health check is still
// judged as far as it can be read, and starts no repair.
func readHealthCheck(u *unstructured.Unstructured) *healthCheck {
	h := &healthCheck{
		revision: u.GetResourceVersion(), generation: u.GetGeneration(), owners: u.GetOwnerReferences(),
		cluster:  clusterOf(u),
		selector: labels.Nothing(),
		policy: core.Policy{
			ID:      core.ID{Kind: healthCheckKind, Namespace: u.GetNamespace(), Name: u.GetName(), UID: string(u.GetUID())},
			Created: u.GetCreationTimestamp().Time,
			// As in Cluster API, a machine that looks healthy counts as healthy, whatever was requested for it
			// (docs/reference/cluster-api.md#counting).
			IgnoresRequests: true,
			// As in Cluster API, there is no event for a machine that is still being created
			// (docs/reference/cluster-api.md#events).
			QuietWhileNoneFails: true,
			Advice:              messages.Advice(),
		},
	}
	h.labelled = u.GetLabels()[clusterv1.ClusterNameLabel] == h.cluster
	spec, wrong := lenient.Part[clusterv1.MachineHealthCheckSpec](u.Object, "spec")
	h.policy.Problem = specparse.JoinProblems(append(h.problemsOf(&spec, u.GetAnnotations()), h.resetUnparsable(wrong)...))
	h.policy.Fingerprint = specparse.Fingerprint(h.policy, h.selector, h.cluster, u.GetLabels()[clusterv1.WatchLabel])
	h.readStatus(u)
	return h
}

// clusterOf returns the name of the Cluster of a health check. If the spec names none, the label does, so that the
// status can report the problem.
func clusterOf(u *unstructured.Unstructured) string {
	name, _, _ := unstructured.NestedString(u.Object, "spec", "clusterName") // it is empty with an error
	if name == "" {
		return u.GetLabels()[clusterv1.ClusterNameLabel]
	}
	return name
}

// readStatus reads the status that was last written. Fettle writes a status anew that it can't read, and assumes that
// repairs were stopped.
func (h *healthCheck) readStatus(u *unstructured.Unstructured) {
	status, wrong := lenient.Part[clusterv1.MachineHealthCheckStatus](u.Object, "status")
	if len(wrong) > 0 {
		status.ExpectedMachines = nil
	}
	h.status = status
	h.policy.WasStopped = len(wrong) > 0 || h.wasHeld()
	for _, c := range status.Conditions {
		if c.Type == clusterv1.MachineHealthCheckRemediationAllowedCondition && c.Status == metav1.ConditionFalse {
			h.policy.ClockGate = core.GateOfClock(c.Reason)
		}
	}
}

// problemsOf fills in the policy and returns its faults, each as a sentence that begins with the field.
func (h *healthCheck) problemsOf(spec *clusterv1.MachineHealthCheckSpec, annotations map[string]string) []string {
	p := &h.policy
	p.Steps = readSteps(&spec.Remediation.TemplateRef, p.ID.Namespace)
	var problems [15]error
	if spec.ClusterName == "" {
		problems[0] = errors.New("spec.clusterName is missing; give the name of the Cluster whose machines are checked")
	}
	h.selector, problems[1] = readSelector(&spec.Selector)
	p.Criteria.Conditions, problems[2] = readNodeConditions(spec.Checks.UnhealthyNodeConditions)
	p.Criteria.TargetConditions, problems[3] = readMachineConditions(spec.Checks.UnhealthyMachineConditions)
	p.Criteria.NodeStartup, problems[4] = readStartup(spec.Checks.NodeStartupTimeoutSeconds)
	p.ShortCircuit, problems[5] = readLimits(&spec.Remediation.TriggerIf)
	p.MaxInFlight, problems[6] = readMaxInFlight(annotations)
	p.Backoff, problems[7] = specparse.Backoff(annotations)
	p.DryRun, problems[8] = specparse.DryRun(annotations, annotation.DryRun)
	p.StormCooldown, problems[9] = specparse.StormCooldown(annotations)
	problems[10] = checkTemplate(&spec.Remediation.TemplateRef)
	h.takesOver, problems[11] = specparse.DryRun(annotations, annotation.TakesOver)
	p.WaitsForUpgrades, problems[12] = specparse.DryRun(annotations, annotation.WaitForUpgrades)
	p.Criteria.Groups, problems[13] = specparse.Groups(annotations, annotation.UnhealthyConditions)
	p.Criteria.NodeGoneDelay, problems[14] = specparse.GoneDelay(annotations, annotation.NodeGoneDelay)
	p.Paused = h.isPaused(annotations)
	p.Unparsable = problems[1] != nil || problems[2] != nil || problems[3] != nil || problems[13] != nil
	return specparse.ErrorLines(problems[:]...)
}

func (h *healthCheck) isPaused(annotations map[string]string) bool {
	_, all := annotations[clusterv1.PausedAnnotation]
	_, fettle := annotations[annotation.Paused]
	return fettle || (all && !h.takesOver)
}

// resetUnparsable resets what depends on fields of the wrong type. Such a field is absent from spec, and must not mean
// what its absence means. A selector that is absent selects nothing already.
func (h *healthCheck) resetUnparsable(wrong []lenient.Problem) []string {
	problems := make([]string, len(wrong))
	p := &h.policy
	for i, w := range wrong {
		problems[i] = specparse.WrongType(w, "machinehealthcheck")
		field := w.Child()
		all := field == ""
		if all || field == "checks" {
			p.Unparsable, p.Criteria.NodeStartup = true, 0
		}
		if all || field == "remediation" {
			p.Steps, p.ShortCircuit = nil, core.ShortCircuit{}
		}
	}
	return problems
}

// readSelector returns the selector of a health check. An empty selector is refused, since no user means every machine
// of a cluster by it (docs/reference/cluster-api.md#spec).
func readSelector(s *metav1.LabelSelector) (labels.Selector, error) {
	selector, err := specparse.Selector(s)
	switch {
	case err != nil:
		return selector, fmt.Errorf("spec.selector %w", err)
	case selector.Empty():
		return labels.Nothing(), errors.New("spec.selector is empty; name the machines that are checked, such as {matchLabels: {nodepool: nodepool-0}}")
	}
	return selector, nil
}

func readNodeConditions(conditions []clusterv1.UnhealthyNodeCondition) ([]core.ConditionCriterion, error) {
	written := make([]writtenCondition, len(conditions))
	for i, c := range conditions {
		written[i] = writtenCondition{string(c.Type), string(c.Status), c.TimeoutSeconds}
	}
	return readConditions("spec.checks.unhealthyNodeConditions", written, nil)
}

// derivedConditions are conditions of machines that follow from the result of health checks.
var derivedConditions = [...]string{
	clusterv1.MachineReadyCondition, clusterv1.MachineAvailableCondition, clusterv1.MachineHealthCheckSucceededCondition,
	clusterv1.MachineOwnerRemediatedCondition, clusterv1.MachineExternallyRemediatedCondition,
}

func readMachineConditions(conditions []clusterv1.UnhealthyMachineCondition) ([]core.ConditionCriterion, error) {
	written := make([]writtenCondition, len(conditions))
	for i, c := range conditions {
		written[i] = writtenCondition{c.Type, string(c.Status), c.TimeoutSeconds}
	}
	return readConditions("spec.checks.unhealthyMachineConditions", written, derivedConditions[:])
}

type writtenCondition struct {
	kind, status string
	seconds      *int32
}

func readConditions(field string, conditions []writtenCondition, refused []string) ([]core.ConditionCriterion, error) {
	if len(conditions) > specparse.MaxConditions {
		return nil, fmt.Errorf("%s has %d entries; give at most %d", field, len(conditions), specparse.MaxConditions)
	}
	var criteria []core.ConditionCriterion
	var problems []error
	for i, c := range conditions {
		at := fmt.Sprintf("%s[%d]", field, i)
		switch {
		case c.kind == "" || c.status == "" || c.seconds == nil:
			problems = append(problems, fmt.Errorf("%s lacks a type, a status or timeoutSeconds; give all, such as {type: Ready, status: Unknown, timeoutSeconds: 300}", at))
		case *c.seconds < 0:
			problems = append(problems, fmt.Errorf("%s.timeoutSeconds is %d; give a number of seconds such as 300", at, *c.seconds))
		case slices.Contains(refused, c.kind):
			problems = append(problems, fmt.Errorf("%s.type is %s, which itself follows from the health check; name another condition of machines", at, c.kind))
		default:
			criteria = append(criteria, core.ConditionCriterion{Type: c.kind, Status: c.status, For: time.Duration(*c.seconds) * time.Second})
		}
	}
	return criteria, errors.Join(problems...)
}

func readStartup(seconds *int32) (time.Duration, error) {
	switch {
	case seconds == nil:
		return time.Duration(clusterv1.DefaultNodeStartupTimeoutSeconds) * time.Second, nil
	case *seconds < 0:
		return 0, fmt.Errorf("spec.checks.nodeStartupTimeoutSeconds is %d; give a number of seconds such as 600, or 0 for no limit", *seconds)
	}
	return time.Duration(*seconds) * time.Second, nil
}

// readLimits returns the short circuit. A range wins over a number, and without either nothing stops repairs
// (docs/reference/cluster-api.md#gate).
func readLimits(t *clusterv1.MachineHealthCheckRemediationTriggerIf) (core.ShortCircuit, error) {
	if t.UnhealthyInRange != "" {
		r, err := readRange(t.UnhealthyInRange)
		if err != nil {
			return core.ShortCircuit{}, fmt.Errorf("spec.remediation.triggerIf.unhealthyInRange %w", err)
		}
		return core.ShortCircuit{Range: &r}, nil
	}
	if t.UnhealthyLessThanOrEqualTo == nil {
		return core.ShortCircuit{MaxUnhealthy: core.Percent(100)}, nil
	}
	most, err := readMaxUnhealthy(t.UnhealthyLessThanOrEqualTo)
	if err != nil {
		return core.ShortCircuit{}, fmt.Errorf("spec.remediation.triggerIf.unhealthyLessThanOrEqualTo %w", err)
	}
	return core.ShortCircuit{MaxUnhealthy: most, Shut: most.Number < 0}, nil
}

var rangePattern = regexp.MustCompile(`^\[([0-9]+)-([0-9]+)\]$`)

func readRange(s string) (core.Range, error) {
	const give = "give the least and the most, such as [1-3]"
	match := rangePattern.FindStringSubmatch(s)
	if match == nil {
		return core.Range{}, fmt.Errorf("is %s; %s", lenient.Quote(s), give)
	}
	from, err1 := strconv.ParseUint(match[1], 10, 32)
	to, err2 := strconv.ParseUint(match[2], 10, 32)
	switch {
	case err1 != nil || err2 != nil:
		return core.Range{}, fmt.Errorf("is %s, with a number above %d; %s", lenient.Quote(s), uint32(math.MaxUint32), give)
	case from > to:
		return core.Range{}, fmt.Errorf("is %s, which no number is in; %s", lenient.Quote(s), give)
	}
	return core.Range{From: int(from), To: int(to)}, nil
}

var percentPattern = regexp.MustCompile(`^-?[0-9]{1,9}%$`)

// readMaxUnhealthy accepts percentages above 100, which never stop repairs. It accepts negative numbers too, which
// always stop them (docs/reference/cluster-api.md#gate).
func readMaxUnhealthy(v *intstr.IntOrString) (core.Amount, error) {
	switch {
	case v.Type == intstr.Int:
		return core.Count(v.IntValue()), nil
	case percentPattern.MatchString(v.StrVal):
		if n, err := strconv.Atoi(strings.TrimSuffix(v.StrVal, "%")); err == nil {
			return core.Percent(n), nil
		}
	}
	return specparse.Amount(v.StrVal)
}

// wasHeld reports whether the last status says that repairs were stopped, or that nothing was known. A storm may have
// passed meanwhile, and a new process knows that from the status alone. The status reports an unusable template or a
// wrong clock only where nothing else stops repairs. A pause for Cluster API's controller stops none of Fettle's
// repairs.
func (h *healthCheck) wasHeld() bool {
	return slices.ContainsFunc(h.status.Conditions, func(c metav1.Condition) bool {
		switch c.Type {
		case clusterv1.MachineHealthCheckRemediationAllowedCondition:
			return c.Status != metav1.ConditionTrue && c.Reason != healthcheck.TemplateUnusableReason && !core.IsOfClock(c.Reason)
		case clusterv1.PausedCondition:
			return c.Status == metav1.ConditionTrue && !h.takesOver
		}
		return false
	})
}
