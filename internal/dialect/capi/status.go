package capi

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/fettle-io/fettle/api/fettle/annotation"
	"github.com/fettle-io/fettle/internal/core"
	"github.com/fettle-io/fettle/internal/healthcheck"
	"github.com/fettle-io/fettle/internal/messages"
	"github.com/fettle-io/fettle/internal/sanitize"
	"github.com/fettle-io/fettle/internal/writers"
)

// maxTargets is how many targets a status may name.
const maxTargets = 10000

// listed returns the first names, as many as fit into a status. expectedMachines has the number of all targets.
func listed(names []string) []string {
	size := 0
	for i, name := range names {
		if size += len(name) + len(`"",`); i == maxTargets || size > sanitize.MaxListed {
			return names[:i]
		}
	}
	return names
}

// brief returns the status with the same numbers and reasons, short messages, and no names of targets.
func brief(s clusterv1.MachineHealthCheckStatus) clusterv1.MachineHealthCheckStatus {
	s.Targets = nil
	s.Conditions = slices.Clone(s.Conditions)
	for i := range s.Conditions {
		if c := &s.Conditions[i]; c.Type == clusterv1.MachineHealthCheckRemediationAllowedCondition || c.Type == writers.Condition {
			c.Message = messages.Brief(c.Message)
		}
	}
	own := []clusterv1.ConditionType{
		clusterv1.RemediationAllowedV1Beta1Condition, clusterv1.ExternalRemediationTemplateAvailableV1Beta1Condition, clusterv1.ExternalRemediationRequestAvailableV1Beta1Condition,
	}
	deprecated := slices.Clone(deprecatedOf(&s))
	for i := range deprecated {
		if c := &deprecated[i]; slices.Contains(own, c.Type) {
			c.Message = messages.Brief(c.Message)
		}
	}
	if deprecated != nil {
		s.Deprecated = &clusterv1.MachineHealthCheckDeprecatedStatus{V1Beta1: &clusterv1.MachineHealthCheckV1Beta1DeprecatedStatus{Conditions: deprecated}}
	}
	return s
}

// statusInput has the facts from which a status is made.
type statusInput struct {
	report core.PolicyReport
	// targets are the names of the selected machines, in the order of the index.
	targets []string
	// manager is the field manager of a foreign writer, or empty if there is none.
	manager string
	// startsBlocked is why no repair starts, or nil if repairs may start.
	startsBlocked *blockage
	now           time.Time
}

// statusOf returns the status that a health check should have, and whether it differs from the present one.
func statusOf(check *healthCheck, f statusInput) (clusterv1.MachineHealthCheckStatus, bool) {
	r := &f.report
	allowed := remediationAllowed(r)
	if f.startsBlocked != nil {
		allowed = f.startsBlocked.condition()
	}
	fresh := check.status
	fresh.ExpectedMachines = number(r.Tally.Total)
	fresh.CurrentHealthy = number(r.Tally.Healthy)
	fresh.RemediationsAllowed = number(0)
	if allowed.Status == metav1.ConditionTrue {
		fresh.RemediationsAllowed = number(r.Tally.RepairsAllowed())
	}
	fresh.ObservedGeneration = check.generation
	fresh.Targets = listed(f.targets)
	own := []conditionValue{allowed}
	if !check.takesOver {
		own = append(own, paused(check.policy.Paused, pausedByAnnotation))
	}
	if f.manager != "" {
		own = append(own, foreignWriterCondition(f.manager))
	}
	s := conditionBuilder{check: check, now: f.now}
	fresh.Conditions = s.conditions(own, writers.Condition)
	fresh.Deprecated = s.deprecated(append(machineConditions().External(r), allowed),
		clusterv1.ExternalRemediationTemplateAvailableV1Beta1Condition, clusterv1.ExternalRemediationRequestAvailableV1Beta1Condition)
	return fresh, !equality.Semantic.DeepEqual(check.status, fresh)
}

func number(n int) *int32 {
	of := int32(min(max(0, n), 1<<30))
	return &of
}

// conditionValue is the content of a condition in either list. Severity is for the deprecated list, where the condition
// is False.
type conditionValue = healthcheck.Condition

// machineConditions has the texts of this dialect's conditions. Cluster API's controller never removes the conditions
// of templates (docs/reference/cluster-api.md#conditions).
func machineConditions() healthcheck.MachineConditions {
	return healthcheck.MachineConditions{
		Resource: resource, Noun: noun, Paused: clusterv1.PausedAnnotation + " or " + annotation.Paused, Restriction: restriction,
		Reason: clusterv1.MachineHealthCheckRemediationAllowedReason, Remedy: RequestMachineRemediation,
	}
}

func remediationAllowed(r *core.PolicyReport) conditionValue { return machineConditions().Allowed(r) }

// restriction returns the message for a short circuit that is closed.
func restriction(r *core.PolicyReport) string {
	if limit := r.Policy.ShortCircuit.Range; limit != nil {
		return fmt.Sprintf("Repairs are stopped, since the number of machines that are not healthy is outside of unhealthyInRange; they resume when it is within "+
			"(total: %d, unhealthy: %d, unhealthyInRange: [%d-%d])", r.Tally.Total, r.Tally.Unhealthy(), limit.From, limit.To)
	}
	return fmt.Sprintf("Repairs are stopped, since more machines are not healthy than unhealthyLessThanOrEqualTo allows, "+
		"which points to a fault that they share; they resume when enough are healthy again (total: %d, unhealthy: %d, unhealthyLessThanOrEqualTo: %s)",
		r.Tally.Total, r.Tally.Unhealthy(), r.Policy.ShortCircuit.MaxUnhealthy)
}

// pausedByAnnotation is why a health check is paused while its Cluster is not.
const pausedByAnnotation = "the annotation " + clusterv1.PausedAnnotation + " or " + annotation.Paused + " is set on it"

func paused(is bool, why string) conditionValue {
	if !is {
		return conditionValue{Type: clusterv1.PausedCondition, Status: metav1.ConditionFalse, Reason: clusterv1.NotPausedReason}
	}
	return conditionValue{
		Type: clusterv1.PausedCondition, Status: metav1.ConditionTrue, Reason: clusterv1.PausedReason,
		Message: "This health check is paused, since " + why + "; remove that to go on",
	}
}

// conditionBuilder makes lists of conditions from the present conditions of a health check.
type conditionBuilder struct {
	check *healthCheck
	now   time.Time
}

func (s *conditionBuilder) at() metav1.Time { return metav1.NewTime(s.now.UTC().Truncate(time.Second)) }

// conditions replaces conditions by own, removes other conditions of these types, and keeps the rest in their places. The
// transition time changes with the status.
func (s *conditionBuilder) conditions(own []conditionValue, types ...string) []metav1.Condition {
	var fresh []metav1.Condition
	placed := make([]bool, len(own))
	for _, c := range s.check.status.Conditions {
		i := slices.IndexFunc(own, func(t conditionValue) bool { return t.Type == c.Type })
		switch {
		case i >= 0:
			placed[i] = true
			c = s.condition(&own[i], &c)
		case slices.Contains(types, c.Type):
			continue
		}
		fresh = append(fresh, c)
	}
	for i := range own {
		if !placed[i] {
			fresh = append(fresh, s.condition(&own[i], nil))
		}
	}
	return fresh
}

func (s *conditionBuilder) condition(t *conditionValue, was *metav1.Condition) metav1.Condition {
	c := metav1.Condition{
		Type: t.Type, Status: t.Status, Reason: t.Reason, Message: messages.Message(t.Message), LastTransitionTime: s.at(), ObservedGeneration: s.check.generation,
	}
	if was != nil && was.Status == t.Status && !was.LastTransitionTime.IsZero() {
		c.LastTransitionTime = was.LastTransitionTime
	}
	return c
}

// deprecated does the same for the deprecated list. There the transition time changes with any field.
func (s *conditionBuilder) deprecated(own []conditionValue, types ...clusterv1.ConditionType) *clusterv1.MachineHealthCheckDeprecatedStatus {
	var fresh clusterv1.Conditions
	placed := make([]bool, len(own))
	for _, c := range deprecatedOf(&s.check.status) {
		i := slices.IndexFunc(own, func(t conditionValue) bool { return t.Type == string(c.Type) })
		switch {
		case i >= 0:
			placed[i] = true
			c = s.deprecatedCondition(&own[i], &c)
		case slices.Contains(types, c.Type):
			continue
		}
		fresh = append(fresh, c)
	}
	for i := range own {
		if !placed[i] {
			fresh = append(fresh, s.deprecatedCondition(&own[i], nil))
		}
	}
	return &clusterv1.MachineHealthCheckDeprecatedStatus{V1Beta1: &clusterv1.MachineHealthCheckV1Beta1DeprecatedStatus{Conditions: fresh}}
}

func deprecatedOf(s *clusterv1.MachineHealthCheckStatus) clusterv1.Conditions {
	if s.Deprecated == nil || s.Deprecated.V1Beta1 == nil {
		return nil
	}
	return s.Deprecated.V1Beta1.Conditions
}

func (s *conditionBuilder) deprecatedCondition(t *conditionValue, was *clusterv1.Condition) clusterv1.Condition {
	c := clusterv1.Condition{Type: clusterv1.ConditionType(t.Type), Status: corev1.ConditionStatus(t.Status), LastTransitionTime: s.at()}
	if t.Status != metav1.ConditionTrue {
		c.Reason, c.Severity, c.Message = t.Reason, clusterv1.ConditionSeverity(t.Severity), messages.Message(t.Message)
	}
	if was != nil && was.Status == c.Status && was.Reason == c.Reason && was.Severity == c.Severity && was.Message == c.Message { // a text of texts
		c.LastTransitionTime = was.LastTransitionTime
	}
	return c
}
