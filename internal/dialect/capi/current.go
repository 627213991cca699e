package capi

import (
	"encoding/json"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/fettle-io/fettle/internal/specparse"
)

// Current returns a health check in the version that a [Reading] takes. It converts v1beta1 as the API server does, and
// leaves out the status, which has another shape there.
func Current(u *unstructured.Unstructured) *unstructured.Unstructured {
	if u.GroupVersionKind().GroupVersion() != deprecatedVersion {
		return u
	}
	type check struct {
		Spec deprecatedSpec `json:"spec"`
	}
	old, _ := specparse.ReadLeniently[check](u, "spec.maxUnhealthy") // Review reports the problems
	spec, _ := old.Spec.converted()
	fresh := u.DeepCopy()
	fresh.SetGroupVersionKind(checkKind)
	delete(fresh.Object, "status")
	var object map[string]any
	if body, err := json.Marshal(spec); err == nil && json.Unmarshal(body, &object) == nil {
		fresh.Object["spec"] = object
	}
	return fresh
}

// FieldOf returns the path of a setting in the version of a health check. field is its path in v1beta1.
func FieldOf(u *unstructured.Unstructured, field string) string {
	if u.GroupVersionKind().GroupVersion() == deprecatedVersion {
		return field
	}
	switch field {
	case "spec.maxUnhealthy":
		return "spec.remediation.triggerIf.unhealthyLessThanOrEqualTo"
	case "spec.remediationTemplate":
		return "spec.remediation.templateRef"
	}
	return field
}
