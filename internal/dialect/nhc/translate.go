package nhc

import (
	"errors"
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/fettle-io/fettle/api/fettle/annotation"
	"github.com/fettle-io/fettle/api/medik8s/v1alpha1"
	"github.com/fettle-io/fettle/internal/core"
	"github.com/fettle-io/fettle/internal/lenient"
	"github.com/fettle-io/fettle/internal/messages"
	"github.com/fettle-io/fettle/internal/selector"
	"github.com/fettle-io/fettle/internal/specparse"
)

const (
	healthCheckKind = "NodeHealthCheck"

	// workerLabel is the label of the nodes that a health check without a selector selects
	// (docs/reference/proposals.md#node-health-checks).
	workerLabel = "node-role.kubernetes.io/worker"
)

// checkKind is the kind of health checks.
var checkKind = v1alpha1.GroupVersion.WithKind(healthCheckKind) //nolint:gochecknoglobals // a constant

// defaultFor is how long a node must be unready before a health check without conditions finds it unhealthy
// (docs/reference/proposals.md#node-health-checks).
const defaultFor = 300 * time.Second

// untilConfirmed is a healthy delay that lasts until a user confirms that the node is healthy.
const untilConfirmed = time.Duration(-1)

// healthCheck is one NodeHealthCheck, translated.
type healthCheck struct {
	policy   core.Policy
	selector labels.Selector
	revision string
	status   v1alpha1.NodeHealthCheckStatus
	// noRemedy is set if the spec has neither a template nor an escalation.
	noRemedy bool
	// selection is set while the store has the health check.
	selection *selector.Selection
}

// readHealthCheck translates a health check. A fault becomes the problem of the policy or of a step. The health check
// is still judged as far as it can be read, and starts no remediation.
func readHealthCheck(u *unstructured.Unstructured) *healthCheck {
	h := &healthCheck{
		revision: u.GetResourceVersion(),
		selector: labels.Nothing(),
		policy: core.Policy{
			ID:                   core.ID{Kind: healthCheckKind, Name: u.GetName(), UID: string(u.GetUID())},
			Created:              u.GetCreationTimestamp().Time,
			EmitsUnhealthyEvents: true,
			WaitsForUpgrades:     true,
			Advice:               messages.Advice(),
			Holder:               core.HolderOf(core.ID{Kind: healthCheckKind, Name: u.GetName()}),
		},
	}
	spec, wrong := lenient.Part[v1alpha1.NodeHealthCheckSpec](u.Object, "spec")
	problems := h.problemsOf(&spec, wrong, u.GetAnnotations())
	h.resetUnparsable(wrong)
	h.noRemedy = len(wrong) == 0 && spec.RemediationTemplate == nil && len(spec.EscalatingRemediations) == 0
	h.policy.Problem = specparse.JoinProblems(append(mistyped(wrong).messages(), problems...))
	h.policy.Fingerprint = specparse.Fingerprint(h.policy, h.selector)
	h.readStatus(u)
	return h
}

// readStatus reads the status that was last written. Fettle writes a status anew that it can't read, and assumes that
// remediation was stopped.
func (h *healthCheck) readStatus(u *unstructured.Unstructured) {
	status, wrong := lenient.Part[v1alpha1.NodeHealthCheckStatus](u.Object, "status")
	if len(wrong) > 0 {
		status.ObservedNodes = nil
	}
	h.status = status
	h.policy.WasStopped = len(wrong) > 0 || h.wasHeld()
	for _, c := range status.Conditions {
		if c.Type == v1alpha1.RemediationAllowedCondition && c.Status == metav1.ConditionFalse {
			h.policy.ClockGate = core.GateOfClock(c.Reason)
		}
	}
}

// wasHeld reports whether the last status says that remediation was stopped. A short circuit or its cooldown stops it,
// and so does a pause or a faulty spec, behind which a storm may have passed. A health check with stormCooldownDuration
// has conditions about storms, possibly from medik8s' operator, and only these count for it. A missing template stops
// nothing.
func (h *healthCheck) wasHeld() bool {
	return slices.ContainsFunc(h.status.Conditions, func(c metav1.Condition) bool {
		switch c.Type {
		case v1alpha1.RemediationAllowedCondition:
			return c.Status == metav1.ConditionFalse && h.stops(c.Reason)
		case v1alpha1.StormActiveCondition, v1alpha1.StormCooldownCondition:
			return c.Status == metav1.ConditionTrue
		}
		return false
	})
}

// stops reports whether remediation that a reason has stopped must wait for a cooldown afterwards.
func (h *healthCheck) stops(reason string) bool {
	if core.IsOfClock(reason) {
		return false
	}
	switch reason {
	case tooManyUnhealthyReason, stormCooldownReason:
		return true
	case v1alpha1.TemplateNotFoundReason, v1alpha1.TemplateInvalidReason:
		return false
	}
	return !h.policy.FixedCooldown
}

// problemsOf fills in the policy and returns its faults, each as a sentence that begins with the field.
func (h *healthCheck) problemsOf(spec *v1alpha1.NodeHealthCheckSpec, wrong mistyped, annotations map[string]string) []string {
	p := &h.policy
	var problems [10]error
	h.selector, problems[0] = readSelector(spec.Selector)
	p.Criteria.Conditions, problems[1] = readConditions(spec.UnhealthyConditions)
	p.ShortCircuit, problems[2] = readShortCircuit(spec)
	if !wrong.has("remediationTemplate") && !wrong.has("escalatingRemediations") {
		p.Steps, problems[3] = readSteps(spec)
	}
	p.HealthyDelay, problems[4] = readHealthyDelay(spec.HealthyDelay)
	p.StormCooldown, p.FixedCooldown, problems[5] = readStormCooldown(spec.StormCooldownDuration)
	p.Backoff, problems[6] = readBackoff(spec.Backoff, annotations)
	p.MaxInFlight, problems[7] = specparse.InFlight(annotations, annotation.MaxInFlight, core.Unlimited())
	p.DryRun, problems[8] = specparse.DryRun(annotations, annotation.DryRun)
	p.Criteria.Groups, problems[9] = specparse.Groups(annotations, annotation.UnhealthyConditions)
	p.Paused = len(spec.PauseRequests) > 0
	p.Unparsable = problems[0] != nil || problems[1] != nil || problems[9] != nil
	return specparse.ErrorLines(problems[:]...)
}

// mistyped are the fields of a spec that are of the wrong type.
type mistyped []lenient.Problem

// has reports whether a field of the spec is of the wrong type, or the whole spec is.
func (m mistyped) has(field string) bool {
	return slices.ContainsFunc(m, func(w lenient.Problem) bool {
		child := w.Child()
		return child == "" || child == field
	})
}

func (m mistyped) messages() []string {
	problems := make([]string, len(m))
	for i, w := range m {
		problems[i] = specparse.WrongType(w, "nodehealthcheck")
	}
	return problems
}

// resetUnparsable resets what depends on fields of the wrong type. Such a field is absent from spec, and must not mean
// what its absence means.
func (h *healthCheck) resetUnparsable(wrong mistyped) {
	if wrong.has("selector") {
		h.selector, h.policy.Unparsable = labels.Nothing(), true
	}
	if wrong.has("unhealthyConditions") {
		h.policy.Criteria.Conditions, h.policy.Unparsable = nil, true
	}
	if wrong.has("minHealthy") || wrong.has("maxUnhealthy") {
		h.policy.ShortCircuit = core.ShortCircuit{}
	}
	if wrong.has("pauseRequests") {
		h.policy.Paused = true
	}
	if wrong.has("healthyDelay") {
		h.policy.HealthyDelay = untilConfirmed
	}
}

// readSelector returns the selector of a health check. As in medik8s' operator, a missing selector selects the workers
// and an empty one every node (docs/reference/medik8s.md#spec).
func readSelector(s *metav1.LabelSelector) (labels.Selector, error) {
	if s == nil {
		s = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: workerLabel, Operator: metav1.LabelSelectorOpExists}}}
	}
	selector, err := specparse.Selector(s)
	if err != nil {
		return selector, fmt.Errorf("spec.selector %w", err)
	}
	return selector, nil
}

func readConditions(conditions []v1alpha1.UnhealthyCondition) ([]core.ConditionCriterion, error) {
	switch {
	case conditions == nil:
		return []core.ConditionCriterion{
			{Type: "Ready", Status: "False", For: defaultFor}, {Type: "Ready", Status: "Unknown", For: defaultFor},
		}, nil
	case len(conditions) == 0:
		return nil, errors.New("spec.unhealthyConditions is empty, so that no node would ever be unhealthy; remove it for the default, or give one such as {type: Ready, status: Unknown, duration: 300s}")
	case len(conditions) > specparse.MaxConditions:
		return nil, fmt.Errorf("spec.unhealthyConditions has %d entries; give at most %d", len(conditions), specparse.MaxConditions)
	}
	criteria := make([]core.ConditionCriterion, 0, len(conditions))
	var problems []error
	for i, c := range conditions {
		if c.Type == "" || c.Status == "" {
			problems = append(problems, fmt.Errorf("spec.unhealthyConditions[%d] lacks a type or a status; give both, such as {type: Ready, status: Unknown, duration: 300s}", i))
			continue
		}
		limit, err := specparse.Duration(string(c.Duration))
		if c.Duration == "" {
			err = errors.New("is missing; give a duration such as 300s, 10m or 1h30m")
		}
		if err != nil {
			problems = append(problems, fmt.Errorf("spec.unhealthyConditions[%d].duration %w", i, err))
			continue
		}
		criteria = append(criteria, core.ConditionCriterion{Type: c.Type, Status: c.Status, For: limit})
	}
	return criteria, errors.Join(problems...)
}

// defaultMaxUnhealthy returns the limit of a health check that sets none
// (docs/reference/proposals.md#node-health-checks).
func defaultMaxUnhealthy() core.ShortCircuit {
	return core.ShortCircuit{MaxUnhealthy: core.Percent(49)}
}

func readShortCircuit(spec *v1alpha1.NodeHealthCheckSpec) (core.ShortCircuit, error) {
	switch {
	case spec.MinHealthy != nil && spec.MaxUnhealthy != nil:
		return core.ShortCircuit{}, errors.New("spec.minHealthy and spec.maxUnhealthy exclude each other; remove one of them")
	case spec.MinHealthy != nil:
		least, err := readAmount("spec.minHealthy", spec.MinHealthy)
		if err != nil {
			return core.ShortCircuit{}, err
		}
		return core.ShortCircuit{MinHealthy: &least}, nil
	case spec.MaxUnhealthy == nil:
		return defaultMaxUnhealthy(), nil
	}
	most, err := readAmount("spec.maxUnhealthy", spec.MaxUnhealthy)
	if err == nil && deletesMachines(spec) {
		err = errors.New("spec.maxUnhealthy can't go with a " + machineDeletionTemplate + ", which changes the number of nodes; give minHealthy instead")
	}
	if err != nil {
		return core.ShortCircuit{}, err
	}
	return core.ShortCircuit{MaxUnhealthy: most}, nil
}

func readAmount(field string, v *intstr.IntOrString) (core.Amount, error) {
	a, err := specparse.Amount(v.String())
	if err != nil {
		return a, fmt.Errorf("%s %w", field, err)
	}
	return a, nil
}

// readHealthyDelay returns the healthy delay. If it can't be read, the delay lasts until a user ends it, since it
// exists to prevent an early withdrawal.
func readHealthyDelay(d *v1alpha1.Duration) (time.Duration, error) {
	if d == nil {
		return 0, nil
	}
	delay, err := time.ParseDuration(string(*d))
	if err != nil {
		return untilConfirmed, fmt.Errorf("spec.healthyDelay is %s; give a duration such as 300s or 10m, or a negative one such as -1s to wait until a person confirms that the node is healthy", lenient.Quote(string(*d)))
	}
	return delay, nil
}

// readStormCooldown returns the cooldown, and whether the health check sets it. The default is short, and is prolonged
// while nodes recover (docs/adr/0006-storm-cooldown.md).
func readStormCooldown(d *v1alpha1.Duration) (cooldown time.Duration, fixed bool, err error) {
	if d == nil {
		return core.DefaultStormCooldown, false, nil
	}
	cooldown, err = specparse.Duration(string(*d))
	if err != nil || *d == "" {
		return core.DefaultStormCooldown, false, fmt.Errorf("spec.stormCooldownDuration is %s; give a duration such as 300s, 10m or 1h30m", lenient.Quote(string(*d)))
	}
	return cooldown, true, nil
}

// exponential is the only type of back-off (docs/reference/proposals.md#node-health-checks).
const exponential = "exponential"

// readBackoff returns the back-off. As in medik8s' operator, a health check without spec.backoff has none. It gives up
// no node unless its annotation says so.
func readBackoff(b *v1alpha1.Backoff, annotations map[string]string) (core.Backoff, error) {
	base, badBase := specparse.PositiveDuration(annotations, annotation.BackoffBase, core.DefaultBackoff().Base)
	fallback := 0
	if b != nil {
		fallback = core.DefaultBackoff().GiveUpAfter
	}
	after, resumed, badEnd := specparse.GiveUp(annotations, annotation.GiveUpAfter, annotation.ResumedAt, fallback)
	if b == nil {
		return core.Backoff{GiveUpAfter: after, ResumedAt: resumed}, errors.Join(badBase, badEnd)
	}
	var badType, badLimit error
	if b.Type != exponential {
		badType = fmt.Errorf("spec.backoff.type is %s; give %s", lenient.Quote(b.Type), exponential)
	}
	limit, _ := time.ParseDuration(string(b.Limit)) // 0 for text that is no duration
	if limit <= 0 {
		badLimit = fmt.Errorf("spec.backoff.limit is %s; give a duration above zero, such as 10m", lenient.Quote(string(b.Limit)))
	}
	if err := errors.Join(badBase, badType, badLimit, badEnd); err != nil {
		return core.Backoff{}, err
	}
	return core.Backoff{Base: min(base, limit), Limit: limit, GiveUpAfter: after, ResumedAt: resumed}, nil
}
