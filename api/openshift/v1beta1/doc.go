// Package v1beta1 holds the kinds of group machine.openshift.io that Fettle serves as a dialect. It
// mirrors the fields of today's API (docs/reference/openshift.md#spec), so that existing manifests work.
//
// +kubebuilder:object:generate=true
// +groupName=machine.openshift.io
package v1beta1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupVersion is the group and version of the kinds in this package.
var GroupVersion = schema.GroupVersion{Group: "machine.openshift.io", Version: "v1beta1"}

// AddToScheme adds the kinds of this package to a scheme.
func AddToScheme(s *runtime.Scheme) error {
	s.AddKnownTypes(GroupVersion, &MachineHealthCheck{}, &MachineHealthCheckList{})
	metav1.AddToGroupVersion(s, GroupVersion)
	return nil
}
