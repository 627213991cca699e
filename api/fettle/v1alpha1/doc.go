// Package v1alpha1 holds the kinds that Fettle owns, group fettle.io.
//
// +kubebuilder:object:generate=true
// +groupName=fettle.io
package v1alpha1

import (
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/scheme"
)

// GroupVersion is the group and version of the kinds in this package.
var GroupVersion = schema.GroupVersion{Group: "fettle.io", Version: "v1alpha1"}

var builder = (&scheme.Builder{GroupVersion: GroupVersion}).Register(&Repair{}, &RepairList{})

// AddToScheme adds the kinds of this package to a scheme.
var AddToScheme = builder.AddToScheme
