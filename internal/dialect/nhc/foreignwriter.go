package nhc

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fettle-io/fettle/api/fettle/annotation"
	"github.com/fettle-io/fettle/api/medik8s/v1alpha1"
	"github.com/fettle-io/fettle/internal/core"
	"github.com/fettle-io/fettle/internal/healthcheck"
	"github.com/fettle-io/fettle/internal/writers"
)

// ownFields are the fields of a status that Fettle writes.
func ownFields() writers.Fields {
	return writers.Fields{
		Names: []string{"observedNodes", "healthyNodes", "inFlightRemediations", "unhealthyNodes", "phase", "reason", "lastUpdateTime"},
		Conditions: []string{
			v1alpha1.DisabledCondition, v1alpha1.StormActiveCondition, v1alpha1.StormCooldownCondition, v1alpha1.RemediationAllowedCondition,
		},
	}
}

// foreignWriterConditions returns the condition for a status that another controller writes, or none if manager is
// empty.
func foreignWriterConditions(manager string) []metav1.Condition {
	if manager == "" {
		return nil
	}
	return []metav1.Condition{{
		Type: writers.Condition, Status: metav1.ConditionFalse, Reason: writers.Reason,
		Message: writers.Message(manager, "nodes", "stop the other controller, or make the health check a dry run by annotation "+annotation.DryRun+": \"true\""),
	}}
}

func foreignWriterEvent(check core.ID, manager string) event {
	return eventAbout(check, healthcheck.Event{Warning: true, Reason: writers.Reason, Action: healthcheck.CheckAction, Note: foreignWriterConditions(manager)[0].Message})
}
