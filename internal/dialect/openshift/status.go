package openshift

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fettle-io/fettle/api/openshift/v1beta1"
	"github.com/fettle-io/fettle/internal/core"
	"github.com/fettle-io/fettle/internal/healthcheck"
	"github.com/fettle-io/fettle/internal/messages"
	"github.com/fettle-io/fettle/internal/writers"
)

// statusOf returns the status that a health check should have, and whether it differs from the old
// one. More are conditions that don't follow from the report.
func statusOf(old v1beta1.MachineHealthCheckStatus, r core.PolicyReport, now time.Time, more ...v1beta1.Condition) (v1beta1.MachineHealthCheckStatus, bool) {
	allowed := remediationAllowed(r)
	own := append([]v1beta1.Condition{allowed}, more...)
	for _, c := range machineConditions().External(&r) {
		own = append(own, conditionOf(c))
	}
	fresh := v1beta1.MachineHealthCheckStatus{
		ExpectedMachines: &r.Tally.Total,
		CurrentHealthy:   &r.Tally.Healthy,
		Conditions:       withConditions(old.Conditions, own, now),
	}
	if allowed.Status == string(metav1.ConditionTrue) {
		fresh.RemediationsAllowed = int32(min(r.Tally.RepairsAllowed(), 1<<30)) //nolint:gosec // bounded on the same line
	}
	return fresh, !reflect.DeepEqual(old, fresh)
}

// machineConditions returns the texts of the conditions of OpenShift's health checks. OpenShift's
// own controller sets the conditions of templates after it has written the status, so users never
// see them (docs/reference/openshift.md#conditions).
func machineConditions() healthcheck.MachineConditions {
	return healthcheck.MachineConditions{
		Resource: resource, Noun: noun, Paused: v1beta1.PausedAnnotation, Restriction: restriction, Remedy: RequestMachineRemediation,
	}
}

func remediationAllowed(r core.PolicyReport) v1beta1.Condition {
	return conditionOf(machineConditions().Allowed(&r))
}

// restriction returns the message of an open short circuit.
func restriction(r *core.PolicyReport) string {
	return fmt.Sprintf("Repairs are stopped, since more machines are not healthy than maxUnhealthy allows, "+
		"which points to a fault that they share; they resume when enough are healthy again (total: %d, unhealthy: %d, maxUnhealthy: %s)",
		r.Tally.Total, r.Tally.Unhealthy(), limitText(r.Policy.ShortCircuit.MaxUnhealthy))
}

// conditionOf returns a condition in OpenShift's form.
func conditionOf(c healthcheck.Condition) v1beta1.Condition {
	return v1beta1.Condition{Type: c.Type, Status: string(c.Status), Severity: c.Severity, Reason: c.Reason, Message: c.Message}
}

// limitText returns a limit as it is written, and the number that it counts as where that differs.
func limitText(a core.Amount) string {
	if a.Number < 0 {
		return a.String() + ", which counts as 0"
	}
	return a.String()
}

// ownConditions are the types of conditions that this dialect writes, and removes where they no
// longer apply.
var ownConditions = [...]string{
	v1beta1.ExternalRemediationRequestAvailableCondition, v1beta1.ExternalRemediationTemplateAvailableCondition, v1beta1.RemediationAllowedCondition,
	writers.Condition,
}

// withConditions returns the conditions of other writers in old together with own, sorted by type.
// The transition time changes only with the status of a condition, as in the API conventions of
// Kubernetes.
func withConditions(old, own []v1beta1.Condition, now time.Time) []v1beta1.Condition {
	fresh := slices.Clone(own)
	for i := range fresh {
		fresh[i].Message = messages.Message(fresh[i].Message)
		fresh[i].LastTransitionTime = metav1.NewTime(now.UTC().Truncate(time.Second))
	}
	for _, o := range old {
		i := slices.IndexFunc(own, func(c v1beta1.Condition) bool { return c.Type == o.Type })
		switch {
		case !slices.Contains(ownConditions[:], o.Type):
			fresh = append(fresh, o)
		case i >= 0 && o.Status == fresh[i].Status && !o.LastTransitionTime.IsZero():
			fresh[i].LastTransitionTime = o.LastTransitionTime
		}
	}
	slices.SortFunc(fresh, func(a, b v1beta1.Condition) int { return strings.Compare(a.Type, b.Type) })
	return fresh
}

// brief returns the status with the same numbers and reasons, and with short messages. It is
// written where the API server refuses the longer one as too large, since nothing is repaired that
// is not recorded.
func brief(s v1beta1.MachineHealthCheckStatus) v1beta1.MachineHealthCheckStatus {
	s.Conditions = slices.Clone(s.Conditions)
	for i := range s.Conditions {
		if c := &s.Conditions[i]; slices.Contains(ownConditions[:], c.Type) {
			c.Message = messages.Brief(c.Message)
		}
	}
	return s
}
