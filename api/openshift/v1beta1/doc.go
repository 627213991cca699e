// Package v1beta1 holds the kinds of group machine.openshift.io that Fettle serves as a dialect. It
// mirrors the fields of today's API (reference openshift 1.1), so that existing manifests work.
//
// +kubebuilder:object:generate=true
// +groupName=machine.openshift.io
package v1beta1

import (
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/scheme"
)

// GroupVersion is the group and version of the kinds in this package.
var GroupVersion = schema.GroupVersion{Group: "machine.openshift.io", Version: "v1beta1"}

var builder = (&scheme.Builder{GroupVersion: GroupVersion}).Register(&MachineHealthCheck{}, &MachineHealthCheckList{})

// AddToScheme adds the kinds of this package to a scheme.
var AddToScheme = builder.AddToScheme
