package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// SandboxBootstrapConfigSpec is empty: a simulated machine needs nothing to boot.
type SandboxBootstrapConfigSpec struct{}

// BootstrapInitialization is the part of the contract about bootstrap data.
type BootstrapInitialization struct {
	// +optional
	DataSecretCreated *bool `json:"dataSecretCreated,omitempty"`
}

// SandboxBootstrapConfigStatus names the secret.
type SandboxBootstrapConfigStatus struct {
	// +optional
	Initialization BootstrapInitialization `json:"initialization,omitempty,omitzero"`
	// +optional
	DataSecretName string `json:"dataSecretName,omitempty"`
}

// SandboxBootstrapConfig has a secret made that stands for what turns a machine into a node.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:metadata:labels="cluster.x-k8s.io/v1beta2=v1alpha1"
type SandboxBootstrapConfig struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   SandboxBootstrapConfigSpec   `json:"spec,omitempty"`
	Status SandboxBootstrapConfigStatus `json:"status,omitempty"`
}

// SandboxBootstrapConfigList is a list of them.
//
// +kubebuilder:object:root=true
type SandboxBootstrapConfigList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []SandboxBootstrapConfig `json:"items"`
}

// SandboxBootstrapConfigTemplateSpec has what every config made of the template gets.
type SandboxBootstrapConfigTemplateSpec struct {
	Template SandboxBootstrapConfigTemplateResource `json:"template"`
}

// SandboxBootstrapConfigTemplateResource is the config in a template.
type SandboxBootstrapConfigTemplateResource struct {
	// +optional
	Metadata TemplateMetadata `json:"metadata,omitempty,omitzero"`
	// +optional
	Spec SandboxBootstrapConfigSpec `json:"spec,omitempty"`
}

// SandboxBootstrapConfigTemplate is what machine deployments and machine sets name.
//
// +kubebuilder:object:root=true
// +kubebuilder:metadata:labels="cluster.x-k8s.io/v1beta2=v1alpha1"
type SandboxBootstrapConfigTemplate struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec SandboxBootstrapConfigTemplateSpec `json:"spec"`
}

// SandboxBootstrapConfigTemplateList is a list of them.
//
// +kubebuilder:object:root=true
type SandboxBootstrapConfigTemplateList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []SandboxBootstrapConfigTemplate `json:"items"`
}
