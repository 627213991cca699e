package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ReprovisionRemediation asks for a node to be made anew: it goes, and another registers under its name.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Cluster
// +kubebuilder:printcolumn:name="Outcome",type="string",JSONPath=".spec.outcome"
// +kubebuilder:printcolumn:name="Processing",type="string",JSONPath=".status.conditions[?(@.type=='Processing')].status"
// +kubebuilder:printcolumn:name="Succeeded",type="string",JSONPath=".status.conditions[?(@.type=='Succeeded')].status"
// +kubebuilder:printcolumn:name="Age",type="date",JSONPath=".metadata.creationTimestamp"
type ReprovisionRemediation struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   RemediationSpec   `json:"spec,omitempty"`
	Status RemediationStatus `json:"status,omitempty"`
}

// Parts are what all kinds of remediations have.
func (r *ReprovisionRemediation) Parts() (*RemediationSpec, *RemediationStatus) {
	return &r.Spec, &r.Status
}

// ReprovisionRemediationList is a list of them.
//
// +kubebuilder:object:root=true
type ReprovisionRemediationList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []ReprovisionRemediation `json:"items"`
}

// ReprovisionRemediationTemplate is what a health check names.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:scope=Cluster
type ReprovisionRemediationTemplate struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec RemediationTemplateSpec `json:"spec"`
}

// ReprovisionRemediationTemplateList is a list of them.
//
// +kubebuilder:object:root=true
type ReprovisionRemediationTemplateList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []ReprovisionRemediationTemplate `json:"items"`
}
