package v1beta1

import (
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Conditions of a machine.
const (
	ConditionInstanceExists = "InstanceExists"
	ConditionDrained        = "Drained"
	ConditionDrainable      = "Drainable"
	ConditionTerminable     = "Terminable"
)

// Severities of a condition that is False.
const (
	SeverityError   = "Error"
	SeverityWarning = "Warning"
	SeverityInfo    = "Info"
)

// Condition is one observation.
type Condition struct {
	Type   string                 `json:"type"`
	Status corev1.ConditionStatus `json:"status"`
	// Severity tells how bad a False condition is.
	// +optional
	Severity           string      `json:"severity,omitempty"`
	LastTransitionTime metav1.Time `json:"lastTransitionTime"`
	// +optional
	Reason string `json:"reason,omitempty"`
	// +optional
	Message string `json:"message,omitempty"`
}

// FindCondition returns the condition of that type, or nil.
func FindCondition(conditions []Condition, kind string) *Condition {
	i := slices.IndexFunc(conditions, func(c Condition) bool { return c.Type == kind })
	if i < 0 {
		return nil
	}
	return &conditions[i]
}

// IsTrue reports whether the condition of that type exists and is True.
func IsTrue(conditions []Condition, kind string) bool {
	c := FindCondition(conditions, kind)
	return c != nil && c.Status == corev1.ConditionTrue
}

// SetCondition returns the conditions, sorted by type, with this one in place of its predecessor. It updates the
// transition time only if anything else differs.
func SetCondition(conditions []Condition, c Condition, now time.Time) []Condition {
	c.LastTransitionTime = metav1.NewTime(now.UTC().Truncate(time.Second))
	result := make([]Condition, 0, len(conditions)+1)
	for _, old := range conditions {
		if old.Type != c.Type {
			result = append(result, old)
			continue
		}
		same := old
		same.LastTransitionTime = c.LastTransitionTime
		if same == c {
			c = old
		}
	}
	result = append(result, c)
	slices.SortFunc(result, func(a, b Condition) int { return strings.Compare(a.Type, b.Type) })
	return result
}
