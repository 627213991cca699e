package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	cloudv1 "github.com/fettle-io/fettle/sandbox/api/cloud/v1alpha1"
)

// MachineFinalizer lets the provider take the node with the machine.
const MachineFinalizer = "sandbox.fettle.io/sandboxmachine"

// EtcdAnnotation, on a machine of a kubeadm control plane, is about its etcd member. NOSPACE and CORRUPT raise that alarm.
const EtcdAnnotation = "sandbox.fettle.io/etcd"

// EtcdRemoved, as EtcdAnnotation's value, says that the control plane has removed the member.
const EtcdRemoved = "Removed"

// SandboxMachineSpec is the request at launch, and the fault that a user injects. Every field may be left out.
type SandboxMachineSpec struct {
	// ProviderID is written by the provider.
	// +optional
	ProviderID string `json:"providerID,omitempty"`
	// Zone is its node's, and its failure domain.
	// +optional
	// +kubebuilder:default=zone-a
	Zone string `json:"zone,omitempty"`
	// InstanceType is only shown.
	// +optional
	// +kubebuilder:default=sim.large
	InstanceType string `json:"instanceType,omitempty"`
	// NodeLabels are given to its node. Default: node-role.kubernetes.io/worker, or the role of the control plane.
	// +optional
	NodeLabels map[string]string `json:"nodeLabels,omitempty"`
	// BootTime passes between launch and joining.
	// +optional
	// +kubebuilder:default="1s"
	BootTime metav1.Duration `json:"bootTime,omitempty,omitzero"`
	// Launch is how the provider takes it. With Error the machine stays unprovisioned, with InvalidConfiguration it fails.
	// +optional
	// +kubebuilder:validation:Enum="";InvalidConfiguration;Error
	Launch cloudv1.Launch `json:"launch,omitempty"`
	// Joins is false for a machine that boots but never becomes a node.
	// +optional
	// +kubebuilder:default=true
	Joins *bool `json:"joins,omitempty"`
	// FailsAfter is for how long it runs before it terminates by itself.
	// +optional
	FailsAfter *metav1.Duration `json:"failsAfter,omitempty"`
	// Fault makes the machine fail: kubectl patch sandboxmachine NAME --type=merge -p '{"spec":{"fault":"Unresponsive"}}'
	// +optional
	// +kubebuilder:validation:Enum="";Unresponsive;Terminated
	Fault cloudv1.Fault `json:"fault,omitempty"`
}

// SandboxMachineStatus has the fields of the contract, and the state of the instance.
type SandboxMachineStatus struct {
	// +optional
	Initialization Initialization `json:"initialization,omitempty,omitzero"`
	// +optional
	FailureDomain string `json:"failureDomain,omitempty"`
	// FailureReason and FailureMessage are set for good when the machine can't recover.
	// +optional
	FailureReason string `json:"failureReason,omitempty"`
	// +optional
	FailureMessage string `json:"failureMessage,omitempty"`

	cloudv1.InstanceStatus `json:",inline"`
}

// SandboxMachine is one virtual machine of a workload cluster, whose node has the same name.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=sbm
// +kubebuilder:metadata:labels="cluster.x-k8s.io/v1beta2=v1alpha1"
// +kubebuilder:printcolumn:name="Cluster",type="string",JSONPath=".metadata.labels['cluster\\.x-k8s\\.io/cluster-name']"
// +kubebuilder:printcolumn:name="Zone",type="string",JSONPath=".spec.zone"
// +kubebuilder:printcolumn:name="State",type="string",JSONPath=".status.state"
// +kubebuilder:printcolumn:name="Fault",type="string",JSONPath=".spec.fault"
// +kubebuilder:printcolumn:name="ProviderID",type="string",JSONPath=".spec.providerID"
// +kubebuilder:printcolumn:name="Age",type="date",JSONPath=".metadata.creationTimestamp"
type SandboxMachine struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   SandboxMachineSpec   `json:"spec,omitempty"`
	Status SandboxMachineStatus `json:"status,omitempty"`
}

// SandboxMachineList is a list of them.
//
// +kubebuilder:object:root=true
type SandboxMachineList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []SandboxMachine `json:"items"`
}

// SandboxMachineTemplateSpec has what every machine made of the template gets.
type SandboxMachineTemplateSpec struct {
	Template SandboxMachineTemplateResource `json:"template"`
}

// SandboxMachineTemplateResource is the machine in a template.
type SandboxMachineTemplateResource struct {
	// +optional
	Metadata TemplateMetadata `json:"metadata,omitempty,omitzero"`
	// +optional
	Spec SandboxMachineSpec `json:"spec,omitempty"`
}

// TemplateMetadata is given to what is made of a template.
type TemplateMetadata struct {
	// +optional
	Labels map[string]string `json:"labels,omitempty"`
	// +optional
	Annotations map[string]string `json:"annotations,omitempty"`
}

// SandboxMachineTemplate is what machine deployments and machine sets name.
//
// +kubebuilder:object:root=true
// +kubebuilder:metadata:labels="cluster.x-k8s.io/v1beta2=v1alpha1"
type SandboxMachineTemplate struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec SandboxMachineTemplateSpec `json:"spec"`
}

// SandboxMachineTemplateList is a list of them.
//
// +kubebuilder:object:root=true
type SandboxMachineTemplateList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []SandboxMachineTemplate `json:"items"`
}
