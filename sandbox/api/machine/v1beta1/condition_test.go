package v1beta1

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
)

func TestSetCondition(t *testing.T) {
	first := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	later := first.Add(time.Minute)
	drained := Condition{Type: ConditionDrained, Status: corev1.ConditionTrue}
	exists := Condition{Type: ConditionInstanceExists, Status: corev1.ConditionFalse, Reason: "InstanceMissing"}

	conditions := SetCondition(nil, exists, first)
	conditions = SetCondition(conditions, drained, first)
	if conditions[0].Type != ConditionDrained || conditions[1].Type != ConditionInstanceExists {
		t.Errorf("conditions are sorted by type, but these aren't: %v", conditions)
	}
	same := SetCondition(conditions, drained, later)
	if got := FindCondition(same, ConditionDrained).LastTransitionTime; !got.Time.Equal(first) {
		t.Errorf("an unchanged condition keeps its time, but it is %v", got)
	}
	exists.Reason = "InstanceNotCreated"
	changed := SetCondition(conditions, exists, later)
	if got := FindCondition(changed, ConditionInstanceExists).LastTransitionTime; !got.Time.Equal(later) {
		t.Errorf("another reason is a transition, but the time is %v", got)
	}
	if IsTrue(changed, ConditionInstanceExists) || !IsTrue(changed, ConditionDrained) || IsTrue(changed, ConditionTerminable) {
		t.Errorf("only Drained is true in %v", changed)
	}
}
