package openshift

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/fettle-io/fettle/api/fettle/annotation"
	"github.com/fettle-io/fettle/api/openshift/v1beta1"
	"github.com/fettle-io/fettle/internal/core"
	"github.com/fettle-io/fettle/internal/healthcheck"
	"github.com/fettle-io/fettle/internal/writers"
)

// ownFields returns the fields of a status that Fettle writes.
func ownFields() writers.Fields {
	return writers.Fields{
		Names: []string{"expectedMachines", "currentHealthy", "remediationsAllowed"},
		Conditions: []string{
			v1beta1.ExternalRemediationRequestAvailableCondition, v1beta1.ExternalRemediationTemplateAvailableCondition, v1beta1.RemediationAllowedCondition,
		},
	}
}

// foreignWriterConditions returns the condition for a status that another controller writes too. It
// returns nil without a manager.
func foreignWriterConditions(manager string) []v1beta1.Condition {
	if manager == "" {
		return nil
	}
	return []v1beta1.Condition{{
		Type: writers.Condition, Status: string(corev1.ConditionFalse), Severity: v1beta1.SeverityWarning, Reason: writers.Reason,
		Message: writers.Message(manager, "machines", "stop the other controller, or make the health check a dry run by annotation "+annotation.DryRun+": \"true\""),
	}}
}

func foreignWriterEvent(check core.ID, manager string) event {
	return event{Regarding: check, Warning: true, Reason: writers.Reason, Action: healthcheck.CheckAction, Note: foreignWriterConditions(manager)[0].Message}
}
