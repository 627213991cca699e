// Package v1alpha1 holds the kinds that Fettle owns, group fettle.io.
//
// +kubebuilder:object:generate=true
// +groupName=fettle.io
package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupVersion is the group and version of the kinds in this package.
var GroupVersion = schema.GroupVersion{Group: "fettle.io", Version: "v1alpha1"}

// AddToScheme adds the kinds of this package to a scheme.
func AddToScheme(s *runtime.Scheme) error {
	s.AddKnownTypes(
		GroupVersion,
		&Repair{}, &RepairList{},
		&MachineDeletionRemediation{}, &MachineDeletionRemediationList{},
		&MachineDeletionRemediationTemplate{}, &MachineDeletionRemediationTemplateList{},
		&BMC{}, &BMCList{},
		&PowerRemediation{}, &PowerRemediationList{},
		&PowerRemediationTemplate{}, &PowerRemediationTemplateList{},
		&FencePolicy{}, &FencePolicyList{},
		&SelfFenceRemediation{}, &SelfFenceRemediationList{},
		&SelfFenceRemediationTemplate{}, &SelfFenceRemediationTemplateList{},
	)
	metav1.AddToGroupVersion(s, GroupVersion)
	return nil
}
