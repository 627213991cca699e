package capi

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/fettle-io/fettle/internal/writers"
)

// TestForeignWriterKeepsItsPlace: while another controller writes the status, the condition about it stays in its place
// and keeps its time. Afterwards it is removed. A condition of another controller always stays.
func TestForeignWriterKeepsItsPlace(t *testing.T) {
	since := metav1.NewTime(noon.Add(-time.Hour))
	condition := func(kind string, status metav1.ConditionStatus) metav1.Condition {
		return metav1.Condition{Type: kind, Status: status, LastTransitionTime: since}
	}
	check := &healthCheck{status: clusterv1.MachineHealthCheckStatus{Conditions: []metav1.Condition{
		condition(writers.Condition, metav1.ConditionFalse), condition("Other", metav1.ConditionTrue), condition("RemediationAllowed", metav1.ConditionTrue),
	}}}
	kinds := func(conditions []metav1.Condition) (kinds []string) {
		for _, c := range conditions {
			kinds = append(kinds, c.Type)
		}
		return kinds
	}
	held, _ := statusOf(check, statusInput{manager: "other", now: noon})
	if diff := cmp.Diff([]string{writers.Condition, "Other", "RemediationAllowed", "Paused"}, kinds(held.Conditions)); diff != "" {
		t.Errorf("conditions (-want +got):\n%s", diff)
	}
	if got := held.Conditions[0].LastTransitionTime; !got.Equal(&since) {
		t.Errorf("another controller writes the status since %s, want %s", got, since)
	}
	alone, _ := statusOf(check, statusInput{now: noon})
	if diff := cmp.Diff([]string{"Other", "RemediationAllowed", "Paused"}, kinds(alone.Conditions)); diff != "" {
		t.Errorf("conditions without another controller (-want +got):\n%s", diff)
	}
}
