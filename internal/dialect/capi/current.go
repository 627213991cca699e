package capi

import (
	"encoding/json"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/fettle-io/fettle/internal/specparse"
)

// Current gives a health check in the version in which a [Reading] takes it in. One of v1beta1 is converted as clusters
// convert it; its status is left out, which has another shape.
func Current(u *unstructured.Unstructured) *unstructured.Unstructured {
	if u.GroupVersionKind().GroupVersion() != deprecatedVersion {
		return u
	}
	type check struct {
		Spec deprecatedSpec `json:"spec"`
	}
	old, _ := specparse.ReadLeniently[check](u, "spec.maxUnhealthy") // what is wrong, Review tells
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

// FieldOf gives the path by which a health check has a setting, by its path in v1beta1.
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
