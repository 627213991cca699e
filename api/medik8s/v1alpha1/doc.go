// Package v1alpha1 holds the kind of group remediation.medik8s.io that Fettle serves as a dialect. It
// mirrors the fields of today's API (docs/reference/medik8s.md#spec), so that existing manifests work. It adds
// the fields of the proposal that today's API lacks (docs/reference/proposals.md#node-health-checks).
//
// +kubebuilder:object:generate=true
// +groupName=remediation.medik8s.io
package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupVersion is the group and version of the kinds in this package.
var GroupVersion = schema.GroupVersion{Group: "remediation.medik8s.io", Version: "v1alpha1"}

// AddToScheme adds the kinds of this package to a scheme.
func AddToScheme(s *runtime.Scheme) error {
	s.AddKnownTypes(GroupVersion, &NodeHealthCheck{}, &NodeHealthCheckList{})
	metav1.AddToGroupVersion(s, GroupVersion)
	return nil
}
