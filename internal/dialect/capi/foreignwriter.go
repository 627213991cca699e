package capi

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/fettle-io/fettle/api/fettle/annotation"
	"github.com/fettle-io/fettle/internal/core"
	"github.com/fettle-io/fettle/internal/healthcheck"
	"github.com/fettle-io/fettle/internal/writers"
)

// ownFields are the fields of a status that Fettle writes. The condition Paused is not among them: where Fettle takes
// over, Cluster API's own controller writes it.
func ownFields() writers.Fields {
	return writers.Fields{
		Names:      []string{"expectedMachines", "currentHealthy", "remediationsAllowed", "targets"},
		Conditions: []string{clusterv1.MachineHealthCheckRemediationAllowedCondition},
	}
}

// foreignWriterCondition returns the condition for a status that another controller writes.
func foreignWriterCondition(manager string) conditionValue {
	return conditionValue{
		Type: writers.Condition, Status: metav1.ConditionFalse, Reason: writers.Reason,
		Message: writers.Message(manager, "machines", "annotation "+clusterv1.PausedAnnotation+" stops Cluster API's own, and with "+annotation.TakesOver+": \"true\" Fettle goes on"),
	}
}

// conditionEvent returns the warning for a condition.
func conditionEvent(c *conditionValue, check core.ID) event {
	return event{Regarding: check, Warning: true, Reason: c.Reason, Action: healthcheck.CheckAction, Note: c.Message}
}
