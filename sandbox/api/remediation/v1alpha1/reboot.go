package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// RebootRemediation asks for a node to be switched off and on, and to come back as it was.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Namespaced
// +kubebuilder:printcolumn:name="Outcome",type="string",JSONPath=".spec.outcome"
// +kubebuilder:printcolumn:name="Processing",type="string",JSONPath=".status.conditions[?(@.type=='Processing')].status"
// +kubebuilder:printcolumn:name="Succeeded",type="string",JSONPath=".status.conditions[?(@.type=='Succeeded')].status"
// +kubebuilder:printcolumn:name="Age",type="date",JSONPath=".metadata.creationTimestamp"
type RebootRemediation struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   RemediationSpec   `json:"spec,omitempty"`
	Status RemediationStatus `json:"status,omitempty"`
}

// Parts are what all kinds of remediations have.
func (r *RebootRemediation) Parts() (*RemediationSpec, *RemediationStatus) { return &r.Spec, &r.Status }

// RebootRemediationList is a list of them.
//
// +kubebuilder:object:root=true
type RebootRemediationList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []RebootRemediation `json:"items"`
}

// RebootRemediationTemplate is what a health check names.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:scope=Namespaced
type RebootRemediationTemplate struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec RemediationTemplateSpec `json:"spec"`
}

// RebootRemediationTemplateList is a list of them.
//
// +kubebuilder:object:root=true
type RebootRemediationTemplateList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []RebootRemediationTemplate `json:"items"`
}
