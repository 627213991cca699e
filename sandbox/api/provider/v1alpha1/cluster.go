package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Endpoint is where an API server listens.
type Endpoint struct {
	// +optional
	Host string `json:"host,omitempty"`
	// +optional
	Port int32 `json:"port,omitempty"`
}

// Initialization is the part of the contract about infrastructure.
type Initialization struct {
	// Provisioned, once true, stays true.
	// +optional
	Provisioned *bool `json:"provisioned,omitempty"`
}

// SandboxClusterSpec says where the workload cluster's API server listens: another sandbox.
type SandboxClusterSpec struct {
	// +optional
	ControlPlaneEndpoint Endpoint `json:"controlPlaneEndpoint,omitempty,omitzero"`
}

// SandboxClusterStatus tells when the endpoint is known.
type SandboxClusterStatus struct {
	// +optional
	Initialization Initialization `json:"initialization,omitempty,omitzero"`
}

// SandboxCluster is the infrastructure of a workload cluster. There is nothing to build: it is provisioned as soon as it
// has an endpoint.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:metadata:labels="cluster.x-k8s.io/v1beta2=v1alpha1"
// +kubebuilder:printcolumn:name="Host",type="string",JSONPath=".spec.controlPlaneEndpoint.host"
// +kubebuilder:printcolumn:name="Port",type="integer",JSONPath=".spec.controlPlaneEndpoint.port"
// +kubebuilder:printcolumn:name="Provisioned",type="boolean",JSONPath=".status.initialization.provisioned"
type SandboxCluster struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   SandboxClusterSpec   `json:"spec,omitempty"`
	Status SandboxClusterStatus `json:"status,omitempty"`
}

// SandboxClusterList is a list of them.
//
// +kubebuilder:object:root=true
type SandboxClusterList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []SandboxCluster `json:"items"`
}
